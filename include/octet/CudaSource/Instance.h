//===- Instance.h - A kernel with all its constants -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a family of templates makes of one operator: the text of its `.cu`, how
// it is launched, and which variant serves how many rows. Plain data, the same
// for emit-kernels (which keeps it in the IR) and for `octet kernel`; the
// fields are those of octet_kernel in runtime/abi.h.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_INSTANCE_H
#define OCTET_CUDASOURCE_INSTANCE_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace octet::cuda {

/// octet_param. Use the makers below.
struct Param {
  int32_t kind = 0;
  int32_t arg = 0;
  int32_t type = 0;
  int32_t swizzle = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t pitchBytes = 0;
  int32_t boxRows = 0;
  int32_t boxCols = 0;

  /// Argument `arg` of the launch (Operands.h names them).
  static Param address(int arg);
  /// int: the launch's rows.
  static Param rowCount();
  static Param sequences();
  static Param numSequences();
  static Param pages();
  static Param workspace();
};

/// octet_grid: times * (fixed + cdiv(rows, perRows) + perSequence * sequences).
struct Grid {
  int32_t times = 1;
  int32_t fixed = 0;
  int32_t perRows = 0;
  int32_t perSequence = 0;

  static Grid constant(int64_t count) { return {1, int32_t(count), 0, 0}; }
};

/// One kernel function.
struct KernelInstance {
  /// For profiles and names of files: "fp8_block m16n64k128_split2".
  std::string label;
  /// The `extern "C"` function that `source` defines; unique by its constants,
  /// so that equal instances of two operators are compiled once.
  std::string entry;
  /// The whole `.cu`: comment, `#include "gemm/sm90_fp8_block.cuh"` (paths are
  /// relative to runtime/kernels/cuda), the instantiation.
  std::string source;
  int32_t threads = 0;
  int32_t sharedBytes = 0; ///< dynamic
  int32_t cluster = 1;     ///< CTAs along x
  int32_t perSm = 0;       ///< see octet_kernel
  bool overlaps = false;   ///< programmatic dependent launch
  std::array<Grid, 3> grid{Grid::constant(1), Grid::constant(1),
                           Grid::constant(1)};
  std::vector<Param> params;
  int64_t workspaceBytes = 0; ///< 0: it may use that of the kernel before it
};

/// The kernels that serve up to `maxRows` rows (-1: any), one after the other.
struct KernelVariant {
  int64_t maxRows = -1;
  std::vector<KernelInstance> kernels;
};

/// One operator's launch. The last variant serves any number of rows.
struct KernelLaunch {
  std::string module;
  std::string label;
  bool byLongest = false; ///< variants go by the rows of the longest sequence
  std::vector<KernelVariant> variants;
  int64_t bytes = 0;    ///< of weights and scales
  int64_t rowBytes = 0; ///< and of operands for each row
  int64_t rowFlops = 0;
};

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_INSTANCE_H
