//===- Blocks.h - Weights in blocks of 32 codes -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GGUF's blocks of 32 elements along K, as the file has them (FORMATS.md):
//
//   type   bytes  fields                                    value
//   Q8_0   34     d F16, 32 codes of 8 bits, signed         d q
//
// Blocks of 4-bit codes are brought into tiles while loading (Tiles.h).
//
// They are weights only (B4): the kernel computes the value in F32 - d times a code is exact there
// - and rounds it to the type of x, as a checkpoint would hold it that was dequantised beforehand.
// F32 rounds nothing. From there on the product is that of Dot.h, whatever the number of rows of
// x.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_BLOCKS_H
#define OCTET_RUNTIME_KERNELS_CPU_BLOCKS_H

#include "runtime/kernels/cpu/Simd.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

/// A block: an F16 value and 32 codes.
struct Q8_0 {
  static constexpr int kHeader = 2;
  uint8_t bytes[kHeader + 32];
};
static_assert(sizeof(Q8_0) == 34);

/// Blocks whose values are rounded to T (F32, BF16 or F16).
template <typename B, typename T>
struct Rounded : B {};

/// Elements of K in one T of memory.
template <typename T>
constexpr int kElements = 1;
template <typename B, typename T>
constexpr int kElements<Rounded<B, T>> = 32;

/// The 16 codes of a half of a block.
OCTET_INLINE VF codesOf(const Q8_0 *block, int half) {
  typedef int8_t VS16 __attribute__((vector_size(16)));
  return __builtin_convertvector(load<VS16>(block->bytes + Q8_0::kHeader + 16 * half), VF);
}

/// v rounded to the pointee's type.
OCTET_INLINE VF roundLike(const F32 *, VF v) { return v; }
OCTET_INLINE VF roundLike(const BF16 *, VF v) {
  const VH16 bits = narrowBF16(v);
  return widen(reinterpret_cast<const BF16 *>(&bits));
}
OCTET_INLINE VF roundLike(const F16 *, VF v) {
  const VH16 bits = narrowF16(v);
  return widen(reinterpret_cast<const F16 *>(&bits));
}

/// Two blocks as four vectors of F32, in order.
template <typename B, typename T>
OCTET_INLINE void expandFloats(const Rounded<B, T> *p, VI out[4]) {
  for (int s = 0; s < 4; ++s) {
    const B *block = p + s / 2;
    const VF d = splat(widenOne(reinterpret_cast<const F16 *>(block->bytes)));
    out[s] = (VI)roundLike(static_cast<const T *>(nullptr), codesOf(block, s % 2) * d);
  }
}

#if OCTET_SIMD_LEVEL == 2

/// 32 BF16 of a block of 8-bit codes, in order.
OCTET_INLINE VI expandBytes(const Q8_0 *block) {
  typedef int8_t VS16 __attribute__((vector_size(16)));
  const uint8_t *codes = block->bytes + Q8_0::kHeader;
  const __m128 fields = _mm_cvtph_ps(_mm_loadu_si64(block->bytes));
  const VF d = (VF)_mm512_broadcastss_ps(fields);
  const VF low = __builtin_convertvector(load<VS16>(codes), VF) * d;
  const VF high = __builtin_convertvector(load<VS16>(codes + 16), VF) * d;
  return (VI)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
}

/// Two blocks as 64 BF16.
template <typename B>
OCTET_INLINE void expandPair(const Rounded<B, BF16> *p, VI out[2]) {
  out[0] = expandBytes(p);
  out[1] = expandBytes(p + 1);
}

#endif // OCTET_SIMD_LEVEL == 2

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_BLOCKS_H
