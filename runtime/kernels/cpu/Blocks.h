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
//   Q4_0   18     d F16, 16 bytes                           d (q - 8)
//   Q4_1   20     d F16, m F16, 16 bytes                    d q + m
//
// Of 4-bit codes, the low nibbles are elements 0 to 15, the high ones 16 to 31.
//
// They are weights only (B4): the kernel computes the value in F32 - d times a code is exact there,
// so d q + m is rounded once however it is computed - and rounds it to the type of x, as a
// checkpoint would hold it that was dequantised beforehand. F32 rounds nothing. From there on the
// product is that of Dot.h, whatever the number of rows of x.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_BLOCKS_H
#define OCTET_RUNTIME_KERNELS_CPU_BLOCKS_H

#include "runtime/kernels/cpu/Simd.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

/// A block of `kFields` F16 values and 32 codes of `kBits`; a code of `kZero` means 0.
template <int kFieldsOf, int kBitsOf, int kZeroOf>
struct CodeBlock {
  static constexpr int kFields = kFieldsOf, kBits = kBitsOf, kZero = kZeroOf;
  static constexpr int kHeader = 2 * kFields;
  static constexpr int kBytes = kHeader + 32 * kBits / 8;
  uint8_t bytes[kBytes];
};
using Q8_0 = CodeBlock<1, 8, 0>;
using Q4_0 = CodeBlock<1, 4, 8>;
using Q4_1 = CodeBlock<2, 4, 0>;
static_assert(sizeof(Q8_0) == 34 && sizeof(Q4_0) == 18 && sizeof(Q4_1) == 20);

/// Blocks whose values are rounded to T (F32, BF16 or F16).
template <typename B, typename T>
struct Rounded : B {};

/// Elements of K in one T of memory.
template <typename T>
constexpr int kElements = 1;
template <typename B, typename T>
constexpr int kElements<Rounded<B, T>> = 32;

/// The 16 codes of a half of a block, less kZero.
template <typename B>
OCTET_INLINE VF codesOf(const B *block, int half) {
  const uint8_t *codes = block->bytes + B::kHeader;
  if constexpr (B::kBits == 8) {
    typedef int8_t VS16 __attribute__((vector_size(16)));
    return __builtin_convertvector(load<VS16>(codes + 16 * half), VF);
  } else {
    const VB16 bytes = load<VB16>(codes);
    const VI code = __builtin_convertvector(half ? bytes >> 4 : bytes & 15, VI) - B::kZero;
    return __builtin_convertvector(code, VF);
  }
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

OCTET_INLINE float fieldOf(const uint8_t *block, int field) {
  return widenOne(reinterpret_cast<const F16 *>(block) + field);
}

/// Two blocks as four vectors of F32, in order.
template <typename B, typename T>
OCTET_INLINE void expandFloats(const Rounded<B, T> *p, VI out[4]) {
  for (int s = 0; s < 4; ++s) {
    const B *block = p + s / 2;
    const VF d = splat(fieldOf(block->bytes, 0));
    VF v = codesOf(block, s % 2) * d;
    if constexpr (B::kFields == 2)
      v += splat(fieldOf(block->bytes, 1));
    out[s] = (VI)roundLike(static_cast<const T *>(nullptr), v);
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

/// Which bytes of two blocks of 4-bit codes become the low bytes of 32 words.
template <typename B>
struct NibbleOrder {
  alignas(64) uint8_t byte[64] = {};
  constexpr NibbleOrder() {
    for (int i = 0; i < 64; ++i)
      byte[i] = static_cast<uint8_t>(i / 32 * B::kBytes + B::kHeader + i / 2 % 16);
  }
};
template <typename B>
constexpr NibbleOrder<B> kNibbleOrder;

/// Which bytes of two blocks are d of both, and then m of both.
template <typename B>
struct FieldOrder {
  alignas(32) uint8_t byte[32] = {};
  constexpr FieldOrder() {
    for (int i = 0; i < 4 * B::kFields; ++i)
      byte[i] = static_cast<uint8_t>(i / 2 % 2 * B::kBytes + i / 4 * 2 + i % 2);
  }
};
template <typename B>
constexpr FieldOrder<B> kFieldOrder;

/// 64 BF16 of two blocks of 4-bit codes that follow each other. A block has 16 values: computed
/// once, rounded once, then looked up. out[0] holds the elements 0-15 and 32-47, out[1] the others
/// (kHalvesApart).
template <typename B>
OCTET_INLINE void expandNibbles(const B *p, VI out[2]) {
  // Nothing is read behind the blocks, which may end where a mapping ends.
  const __m512i raw = _mm512_maskz_loadu_epi8((uint64_t(1) << (2 * B::kBytes)) - 1, p);

  // Word 2 q + b is the value of code q in block b: one shuffle spreads a field of both.
  const __m128 fields = _mm_cvtph_ps(_mm256_castsi256_si128(
      _mm256_permutexvar_epi8(load<__m256i>(kFieldOrder<B>.byte), _mm512_castsi512_si256(raw))));
  const VF d = (VF)_mm512_broadcastsd_pd((__m128d)fields);
  const VF m = (VF)_mm512_broadcastsd_pd((__m128d)_mm_movehl_ps(fields, fields));
  const VF codes[2] = {{0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7},
                       {8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15}};
  VF value[2];
  for (int half = 0; half < 2; ++half) {
    const VF code = codes[half] - static_cast<float>(B::kZero);
    value[half] = B::kFields == 2 ? fma(code, d, m) : code * d;
  }
  const __m512i values = (__m512i)_mm512_cvtne2ps_pbh((__m512)value[1], (__m512)value[0]);
  // The look-up reads the lowest five bits of a word.
  const __m512i block = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(1), 1);
  const __m512i code = _mm512_set1_epi16(15 << 1);
  const __m512i bytes = _mm512_permutexvar_epi8(load<__m512i>(kNibbleOrder<B>.byte), raw);
  constexpr int kAndOr = 0xEA; // (a & b) | c
  const __m512i low =
      _mm512_ternarylogic_epi32(_mm512_add_epi16(bytes, bytes), code, block, kAndOr);
  const __m512i high = _mm512_ternarylogic_epi32(_mm512_srli_epi16(bytes, 3), code, block, kAndOr);
  out[0] = (VI)_mm512_permutexvar_epi16(low, values);
  out[1] = (VI)_mm512_permutexvar_epi16(high, values);
}

/// Whether a type's chunks come as expandNibbles leaves them.
template <typename T>
constexpr bool kHalvesApart = false;
template <typename B>
constexpr bool kHalvesApart<Rounded<B, BF16>> = B::kBits == 4;

/// 64 elements in order to that order.
OCTET_INLINE void setHalvesApart(VI v[2]) {
  const __m512i a = (__m512i)v[0], b = (__m512i)v[1];
  v[0] = (VI)_mm512_shuffle_i64x2(a, b, 0x44);
  v[1] = (VI)_mm512_shuffle_i64x2(a, b, 0xEE);
}

/// Two blocks as 64 BF16.
template <typename B>
OCTET_INLINE void expandPair(const Rounded<B, BF16> *p, VI out[2]) {
  if constexpr (B::kBits == 4) {
    expandNibbles<B>(p, out);
  } else {
    out[0] = expandBytes(p);
    out[1] = expandBytes(p + 1);
  }
}

#endif // OCTET_SIMD_LEVEL == 2

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_BLOCKS_H
