//===- Simd.h - Vectors of one SIMD level -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything in this folder is compiled once per octet_level, into a namespace of its own. A vector
// is always 16 floats: x86-64-v3 holds it in two registers, so that V3 and AVX512 make the same
// additions in the same order and give equal bits.
//
// No inline function of the standard library may be used below: the linker keeps one copy of it,
// perhaps the AVX-512 one, for the whole program.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_SIMD_H
#define OCTET_RUNTIME_KERNELS_CPU_SIMD_H

#include "runtime/abi.h"

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if OCTET_SIMD_LEVEL == 0
#define OCTET_LEVEL_NAMESPACE v3
#elif OCTET_SIMD_LEVEL == 1
#define OCTET_LEVEL_NAMESPACE avx512
#elif OCTET_SIMD_LEVEL == 2
#define OCTET_LEVEL_NAMESPACE bf16
#else
#error "OCTET_SIMD_LEVEL must be 0 (v3), 1 (avx512) or 2 (bf16)"
#endif

#define OCTET_INLINE static inline __attribute__((always_inline))

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

typedef float VF __attribute__((vector_size(64)));
typedef int32_t VI __attribute__((vector_size(64)));
typedef uint16_t VH __attribute__((vector_size(64)));
typedef uint16_t VH16 __attribute__((vector_size(32)));
typedef uint8_t VB16 __attribute__((vector_size(16)));

template <typename V>
OCTET_INLINE V load(const void *p) {
  V v;
  memcpy(&v, p, sizeof v);
  return v;
}
template <typename V>
OCTET_INLINE void store(void *p, V v) {
  memcpy(p, &v, sizeof v);
}
// Not `VF{} + x`: -0 keeps that addition alive.
OCTET_INLINE VF splat(float x) { return VF{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
OCTET_INLINE VI splatInt(int32_t x) { return VI{} + x; }

template <typename T>
OCTET_INLINE T minOf(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
OCTET_INLINE T maxOf(T a, T b) {
  return a < b ? b : a;
}
static constexpr int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// a * b + c, rounded once.
OCTET_INLINE VF fma(VF a, VF b, VF c) {
#if defined(__clang__)
  return __builtin_elementwise_fma(a, b, c);
#elif defined(__AVX512F__)
  return (VF)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#else
  typedef float V8 __attribute__((vector_size(32)));
  V8 as[2], bs[2], cs[2];
  memcpy(as, &a, 64), memcpy(bs, &b, 64), memcpy(cs, &c, 64);
  for (int i = 0; i < 2; ++i)
    cs[i] = (V8)_mm256_fmadd_ps((__m256)as[i], (__m256)bs[i], (__m256)cs[i]);
  memcpy(&c, cs, 64);
  return c;
#endif
}

/// The larger of each lane; b where either is NaN.
OCTET_INLINE VF maxLanes(VF a, VF b) { return a > b ? a : b; }
OCTET_INLINE VF absLanes(VF a) { return (VF)((VI)a & 0x7FFFFFFF); }

//===----------------------------------------------------------------------===//
// Reductions, in one fixed tree: lanes 8 apart, 4, 2, 1.
//===----------------------------------------------------------------------===//

typedef float VF4 __attribute__((vector_size(16)));

/// The sums of the lanes of four vectors.
OCTET_INLINE VF4 sumLanes4(VF a, VF b, VF c, VF d) {
#define OCTET_LOW8 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define OCTET_HIGH8 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
  const VF ab =
      __builtin_shufflevector(a, b, OCTET_LOW8) + __builtin_shufflevector(a, b, OCTET_HIGH8);
  const VF cd =
      __builtin_shufflevector(c, d, OCTET_LOW8) + __builtin_shufflevector(c, d, OCTET_HIGH8);
#undef OCTET_LOW8
#undef OCTET_HIGH8
  VF v =
      __builtin_shufflevector(ab, cd, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(ab, cd, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  return __builtin_shufflevector(v, v, 0, 4, 8, 12);
}

OCTET_INLINE float sumLanes(VF v) { return sumLanes4(v, v, v, v)[0]; }

OCTET_INLINE float maxOfLanes(VF v) {
  v = maxLanes(v,
               __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  v = maxLanes(v,
               __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11));
  v = maxLanes(v,
               __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13));
  v = maxLanes(v,
               __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));
  return v[0];
}

/// Transposes 16 x 16 words.
OCTET_INLINE void transposeWords(VI v[16]) {
  VI t[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28,
                                   13, 29);
    t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27,
                                       14, 30, 15, 31);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      v[i + 2 * j] = __builtin_shufflevector(t[i + j], t[i + j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8,
                                             9, 24, 25, 12, 13, 28, 29);
      v[i + 2 * j + 1] = __builtin_shufflevector(t[i + j], t[i + j + 2], 2, 3, 18, 19, 6, 7, 22, 23,
                                                 10, 11, 26, 27, 14, 15, 30, 31);
    }
  }
  // v[4 g + c] has words c, c + 4, c + 8, c + 12 of rows 4 g .. 4 g + 3, a quarter each.
  for (int c = 0; c < 4; ++c) {
    const VI a = v[c], b = v[4 + c], d = v[8 + c], e = v[12 + c];
#define OCTET_EVEN 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27
#define OCTET_ODD 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31
    const VI ab0 = __builtin_shufflevector(a, b, OCTET_EVEN);
    const VI ab1 = __builtin_shufflevector(a, b, OCTET_ODD);
    const VI de0 = __builtin_shufflevector(d, e, OCTET_EVEN);
    const VI de1 = __builtin_shufflevector(d, e, OCTET_ODD);
    t[c] = __builtin_shufflevector(ab0, de0, OCTET_EVEN);
    t[c + 4] = __builtin_shufflevector(ab1, de1, OCTET_EVEN);
    t[c + 8] = __builtin_shufflevector(ab0, de0, OCTET_ODD);
    t[c + 12] = __builtin_shufflevector(ab1, de1, OCTET_ODD);
#undef OCTET_EVEN
#undef OCTET_ODD
  }
  for (int i = 0; i < 16; ++i)
    v[i] = t[i];
}

//===----------------------------------------------------------------------===//
// Formats. Widening is exact.
//===----------------------------------------------------------------------===//

struct F32 {
  float value;
};
struct BF16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};
struct E4M3 {
  uint8_t code;
};
struct I8 {
  int8_t code;
};

OCTET_INLINE VF widen(const F32 *p) { return load<VF>(p); }
OCTET_INLINE VF widen(const BF16 *p) {
  return (VF)(__builtin_convertvector(load<VH16>(p), VI) << 16);
}
OCTET_INLINE VF widen(const F16 *p) {
#if defined(__AVX512F__)
  return (VF)_mm512_cvtph_ps(load<__m256i>(p));
#else
  const __m256 halves[2] = {_mm256_cvtph_ps(load<__m128i>(p)),
                            _mm256_cvtph_ps(load<__m128i>(p + 8))};
  return load<VF>(halves);
#endif
}
/// N1. A subnormal is read as if its leading bit were there, which is then subtracted: exact, and
/// no subnormal float appears on the way (slow on some processors).
OCTET_INLINE VF widen(const E4M3 *p) {
  const VI code = __builtin_convertvector(load<VB16>(p), VI);
  const VI magnitude = code & 0x7F;
  const VI shifted = magnitude << 20;
  const VI normal = shifted + (120 << 23);
  const VI subnormal = (VI)((VF)(shifted + (121 << 23)) - 0x1p-6f);
  VI bits = magnitude < 8 ? subnormal : normal;
  bits = magnitude == 0x7F ? splatInt(0x7FC00000) : bits;
  return (VF)(bits | ((code & 0x80) << 24));
}

OCTET_INLINE VF widen(const I8 *p) {
  typedef int8_t VS16 __attribute__((vector_size(16)));
  return __builtin_convertvector(load<VS16>(p), VF);
}

/// One value; the same result as the vector forms.
OCTET_INLINE float widenOne(const F32 *p) {
  float v;
  memcpy(&v, p, 4);
  return v;
}
OCTET_INLINE float widenOne(const BF16 *p) {
  uint16_t bits;
  memcpy(&bits, p, 2);
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float v;
  memcpy(&v, &wide, 4);
  return v;
}
OCTET_INLINE float widenOne(const F16 *p) {
  uint16_t bits;
  memcpy(&bits, p, 2);
  return _cvtsh_ss(bits);
}

/// 16 floats to BF16, round to nearest even; NaN stays NaN, quiet.
OCTET_INLINE VH16 narrowBF16(VF v) {
  const VI bits = (VI)v;
  const VI rounded = (VI)(((bits >> 16) & 1) + 0x7FFF + bits);
  const VI quiet = bits | 0x00400000;
  const VI out = v == v ? rounded : quiet;
  typedef uint32_t VU __attribute__((vector_size(64)));
  return __builtin_convertvector((VU)out >> 16, VH16);
}
OCTET_INLINE VH16 narrowF16(VF v) {
#if defined(__AVX512F__)
  return (VH16)_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT);
#else
  __m256 halves[2];
  memcpy(halves, &v, 64);
  const __m128i out[2] = {_mm256_cvtps_ph(halves[0], _MM_FROUND_TO_NEAREST_INT),
                          _mm256_cvtps_ph(halves[1], _MM_FROUND_TO_NEAREST_INT)};
  return load<VH16>(out);
#endif
}
/// 16 floats to E4M3: clamp to +-448, round to nearest even, NaN stays NaN (N2).
OCTET_INLINE VB16 narrowE4M3(VF v) {
  const VI sign = ((VI)v >> 24) & 0x80;
  VF a = absLanes(v);
  const VI nan = (VI)(a != a);
  a = a > 448.0f ? splat(448.0f) : a;
  const VI bits = (VI)a;
  const VI normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3);
  // 2^14 has a unit in the last place of 2^-9, the smallest subnormal.
  const VI subnormal = (VI)(a + 16384.0f) - (VI)splat(16384.0f);
  VI code = a < 0x1p-6f ? subnormal : normal;
  code = nan != 0 ? splatInt(0x7F) : code;
  return __builtin_convertvector(code | sign, VB16);
}

/// Writes the first `count` (1 to 16) lanes to row-major memory of `type`, rounded once.
OCTET_INLINE void narrowTo(void *base, int64_t index, int32_t type, VF v, int64_t count) {
  if (type == OCTET_F32) {
    float *p = static_cast<float *>(base) + index;
    if (count == 16)
      store(p, v);
    else
      memcpy(p, &v, static_cast<size_t>(count) * 4);
    return;
  }
  const VH16 h = type == OCTET_BF16 ? narrowBF16(v) : narrowF16(v);
  uint16_t *p = static_cast<uint16_t *>(base) + index;
  if (count == 16)
    store(p, h);
  else
    memcpy(p, &h, static_cast<size_t>(count) * 2);
}

/// Reads `count` (1 to 16) values of F32, BF16 or F16; the other lanes are 0.
OCTET_INLINE VF widenFrom(const void *base, int64_t index, int32_t type, int64_t count) {
  const size_t bytes = type == OCTET_F32 ? 4 : 2;
  const char *p = static_cast<const char *>(base) + index * static_cast<int64_t>(bytes);
  char copy[64];
  if (count < 16) {
    memset(copy, 0, sizeof copy);
    memcpy(copy, p, static_cast<size_t>(count) * bytes);
    p = copy;
  }
  if (type == OCTET_F32)
    return widen(reinterpret_cast<const F32 *>(p));
  if (type == OCTET_BF16)
    return widen(reinterpret_cast<const BF16 *>(p));
  return widen(reinterpret_cast<const F16 *>(p));
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// e^x for x <= 0, within 1 ulp; 0 below -87.3 (where the result leaves the normal range); NaN
/// stays NaN. Range reduction by ln 2 in two parts, then Cephes' polynomial.
OCTET_INLINE VF expNonPositive(VF x) {
  const VF shifter = splat(12582912.0f); // 1.5 * 2^23: the sum's low bits are the integer
  const VF shifted = fma(x, splat(0x1.715476p+0f), shifter);
  const VF n = shifted - shifter;
  VF r = fma(n, splat(-0x1.62e400p-1f), x);
  r = fma(n, splat(-0x1.7f7d1cp-20f), r);
  VF p = splat(1.9875691500e-4f);
  p = fma(p, r, splat(1.3981999507e-3f));
  p = fma(p, r, splat(8.3334519073e-3f));
  p = fma(p, r, splat(4.1665795894e-2f));
  p = fma(p, r, splat(1.6666665459e-1f));
  p = fma(p, r, splat(5.0000001201e-1f));
  p = fma(p, r * r, r) + 1.0f;
  VF result = (VF)((VI)p + (((VI)shifted - (VI)shifter) << 23));
  result = x < -87.3f ? VF{} : result;
  return x != x ? x : result;
}

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_SIMD_H
