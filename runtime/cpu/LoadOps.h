//===- LoadOps.h - The arithmetic of loading --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What octet_runtime's load services compute, without where tensors come from:
// plain functions on memory. Elements need only the alignment of their type.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_LOADOPS_H
#define OCTET_RUNTIME_CPU_LOADOPS_H

#include "runtime/cpu/CpuBackend.h"

namespace octet::rt {

/// A matrix and its scales, as a checkpoint stores them.
struct ScaledMatrix {
  const void *data = nullptr;  ///< [rows, cols]
  const void *scale = nullptr; ///< shape by `scaleMode` (W1)
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t blockN = 0; ///< both 0 unless OCTET_SCALE_BLOCK
  int64_t blockK = 0;
  int32_t type = OCTET_E4M3; ///< of data; blocks need no `scale`
  int32_t scaleMode = OCTET_SCALE_NONE;
  int32_t scaleType = OCTET_F32; ///< F32, BF16, F16 or E8M0

  /// How many scales there are.
  int64_t numScales() const;
};

/// One scale that W6 refuses.
struct BadScale {
  enum Kind { None, NaN, Infinite, Negative, Zero };
  Kind kind = None;
  int64_t index = -1; ///< in row-major order
  float value = 0;

  explicit operator bool() const { return kind != None; }
};

/// The first scale that is NaN, infinite, negative (the sentinel of W6 is), or
/// zero although its block holds something other than zero. Of blocks that hold
/// their scales (OCTET_Q8_0, …) the first scale or minimum that is not finite.
BadScale checkScales(ThreadPool &pool, const ScaledMatrix &w);

/// "NaN", "infinite", "negative", "zero with a non-zero block".
const char *describe(BadScale::Kind kind);

/// `count` scales of F32, BF16, F16 or E8M0 to F32; exact.
void convertScales(int32_t type, const void *in, int64_t count, float *out);

/// One scale to `rows` equal ones (W7).
void expandScale(float scale, int64_t rows, float *out);

/// The largest |x| of F32, BF16 or F16 [rows, cols]; NaN left out.
float matrixAmax(ThreadPool &pool, const KernelTable &kernels, int32_t type,
                 const void *in, int64_t rows, int64_t cols);

/// Quantises F32, BF16 or F16 [rows, cols] to E4M3 (W10; N2, N3).
/// \param scale  CHANNEL: [out] one a row; TENSOR: [in] the scale of all rows.
void quantizeWeight(ThreadPool &pool, const KernelTable &kernels, int32_t type,
                    const void *in, int64_t rows, int64_t cols,
                    int32_t scaleMode, uint8_t *q, float *scale);

/// cos and sin of the angles `float(position) * inv_freq[i]`, rounded to F32
/// once and times `scale`: out [positions, 2 * half], cosines of a row first
/// (P6).
void ropeTable(ThreadPool &pool, const float *invFreq, int64_t half,
               int64_t positions, float scale, float *out);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_LOADOPS_H
