//===- LoadRequantize.h - Codes and scales rewritten ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The load operators that round again (N8, W8, W11) or check that nothing has
// to be (B6), over the threads of a pool. Equal to lib/Numerics bit for bit.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_LOADREQUANTIZE_H
#define OCTET_RUNTIME_CPU_LOADREQUANTIZE_H

#include "runtime/cpu/LoadOps.h"

namespace octet::rt {

/// Index of the first code without a finite value, or -1 (N8).
int64_t findBadCode(ThreadPool &pool, const ScaledMatrix &w);

/// E5M2, E4M3FNUZ or E5M2FNUZ with F32 scales to E4M3, or E4M3 to E4M3FNUZ, at
/// its own granularity (N8).
/// \param q      [out] [rows, cols]; left alone where the codes can stay.
/// \param scale  [out] as many as `w` has.
/// \returns whether the codes stay as they are.
/// \pre findBadCode finds none.
bool convertFloat8(ThreadPool &pool, const KernelTable &kernels,
                   const ScaledMatrix &w, int32_t type, uint8_t *q,
                   float *scale);

/// E4M3 with one F32 scale to codes below `largest` (W8).
void requantizeTensor(ThreadPool &pool, const KernelTable &kernels,
                      const ScaledMatrix &w, float largest, uint8_t *q);

/// E4M3 with F32 scales of blocks to UE8M0 (W11).
/// \param scale  [out] exponent bytes.
/// \returns whether the codes stay: all scales are powers of two.
bool requantizeToExponents(ThreadPool &pool, const KernelTable &kernels,
                           const ScaledMatrix &w, uint8_t *q, uint8_t *scale);

/// Two scales of one block that differ, by their indices; -1: there are none.
struct ScaleConflict {
  int64_t first = -1, second = -1;
  explicit operator bool() const { return first >= 0; }
};

/// UE8M0 scales of groups as F32 scales of blocks [blockN, blockK] (B6).
ScaleConflict mergeScales(const ScaledMatrix &w, int64_t blockN, int64_t blockK,
                          float *scale);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_LOADREQUANTIZE_H
