//===- KernelOperands.h - Bytes of a product's operands ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where the operands of one case stand in one block of device memory, and what
// the device code of runtime/kernels/cuda/check is told of them.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_BENCH_KERNELOPERANDS_H
#define OCTET_RUNTIME_BENCH_KERNELOPERANDS_H

#include "octet/CudaSource/BenchPlan.h"
#include <array>

namespace octet::rt {

/// Offsets in bytes, each a multiple of 256; counts in elements.
struct OperandLayout {
  int64_t x = 0, xScale = 0, w = 0, wScale = 0, y = 0;
  int64_t bytes = 0; ///< of a set of operands
  int64_t xCount = 0, xScales = 0, wCount = 0, wScales = 0, yCount = 0;
  int64_t yBytes = 0;

  static OperandLayout of(const cuda::BenchCase &c);
  /// Read or written once by an ideal product.
  int64_t movedBytes = 0;
};

/// CheckedMatrix of check/gemm_check.cuh, passed by value.
struct CheckedMatrix {
  uint64_t data = 0, scale = 0;
  int32_t type = 0, mode = 0;
  int32_t rows = 0, cols = 0;
  int32_t blockRows = 0, blockCols = 0;
  int32_t numShards = 0;
  int32_t shardRows[4] = {};

  /// x or w of a case in a set of operands at `base`.
  static CheckedMatrix ofX(const cuda::BenchCase &c, uint64_t base);
  static CheckedMatrix ofW(const cuda::BenchCase &c, uint64_t base);
};

/// CheckErrors of check/gemm_check.cuh.
struct CheckErrors {
  double squaredError = 0, squaredReference = 0;
  uint64_t notANumber = 0;
  uint64_t firstBad = ~uint64_t(0);
  uint32_t largest = 0;
  uint32_t reserved = 0;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_BENCH_KERNELOPERANDS_H
