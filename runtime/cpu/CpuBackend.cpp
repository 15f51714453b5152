//===- CpuBackend.cpp - The kernels of a SIMD level
//---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares each level's functions and puts them into its table.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/CpuBackend.h"

#include <cassert>

namespace octet::rt {

#define OCTET_DECLARE_LEVEL(NAME)                                              \
  namespace NAME {                                                             \
  void gemm(ThreadPool &, const octet_gemm_desc &, int64_t, const void *,      \
            const float *, const octet_weight &, const octet_weight *,         \
            void *);                                                           \
  void attention(ThreadPool &, const octet_attention_desc &,                   \
                 const octet_kv_layer &, const octet_batch &, const void *,    \
                 const float *, const float *, void *);                        \
  float rowAmax(int32_t, const void *, int64_t);                               \
  void quantizeRow(int32_t, const void *, int64_t, float, uint8_t *);          \
  }
OCTET_DECLARE_LEVEL(v3)
OCTET_DECLARE_LEVEL(avx512)
OCTET_DECLARE_LEVEL(bf16)
#undef OCTET_DECLARE_LEVEL
namespace amx {
void gemm(ThreadPool &, const octet_gemm_desc &, int64_t, const void *,
          const float *, const octet_weight &, const octet_weight *, void *);
}

const KernelTable &kernelTable(int level) {
  static const KernelTable tables[OCTET_NUM_LEVELS] = {
      {OCTET_LEVEL_V3, v3::gemm, v3::attention, v3::rowAmax, v3::quantizeRow},
      {OCTET_LEVEL_AVX512, avx512::gemm, avx512::attention, avx512::rowAmax,
       avx512::quantizeRow},
      {OCTET_LEVEL_BF16, bf16::gemm, bf16::attention, bf16::rowAmax,
       bf16::quantizeRow},
      // Only products have a use for tiles.
      {OCTET_LEVEL_AMX, amx::gemm, bf16::attention, bf16::rowAmax,
       bf16::quantizeRow},
  };
  assert(level >= 0 && level < OCTET_NUM_LEVELS && "not an octet_level");
  return tables[level];
}

} // namespace octet::rt
