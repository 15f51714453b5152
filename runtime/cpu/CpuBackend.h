//===- CpuBackend.h - The kernels of a SIMD level ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/kernels/cpu offers, once per octet_level. The arithmetic and the
// operands are documented in the kernels' own files.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_CPUBACKEND_H
#define OCTET_RUNTIME_CPU_CPUBACKEND_H

#include "runtime/abi.h"
#include "runtime/cpu/ThreadPool.h"

namespace octet::rt {

struct KernelTable {
  /// octet_level of the functions.
  int level;

  /// octet_runtime::gemm. The types and scale modes are those of abi.h; with
  /// SCALE_BLOCK on either side, `block_k` divides K into the blocks of both.
  void (*gemm)(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m,
               const void *x, const float *xScale, const octet_weight &w,
               const octet_weight *bias, void *y);

  /// octet_runtime::attention on the cache of one layer. The keys and values of
  /// the step's own rows are already in the cache.
  void (*attention)(ThreadPool &pool, const octet_attention_desc &desc,
                    const octet_kv_layer &kv, const octet_batch &batch,
                    const void *q, const float *kScale, const float *vScale,
                    void *y);

  /// The largest |x| of `count` values of F32, BF16 or F16; NaN left out.
  float (*rowAmax)(int32_t type, const void *x, int64_t count);

  /// e4m3(x / scale) of `count` values (N2).
  void (*quantizeRow)(int32_t type, const void *x, int64_t count, float scale,
                      uint8_t *q);
};

/// The kernels of an octet_level; the machine must have it (detectLevel).
const KernelTable &kernelTable(int level);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_CPUBACKEND_H
