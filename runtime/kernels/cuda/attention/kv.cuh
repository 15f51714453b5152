//===- kv.cuh - What attention kernels over paged caches share ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   s[t] = (q . k[t]) (scale k_scale)    for visible t: t <= pos, t > pos - window       (P8)
//   y    = sum_t round(exp(s[t] - max)) v[t]  (v_scale / sum_t exp(s[t] - max))          (P11)
//
//   operand    shape                                  types             contiguous  alignment
//   q, y       [T, q_heads, head_dim]                 BF16, F16         head_dim    16
//   k, v       [pages, 64, kv_heads, head_dim]        that of q, E4M3   head_dim    16
//   k_scale, v_scale  one each, with E4M3             F32                           4
//   sequences  [num_sequences]                        Sequence                      16
//   pages      pages of all sequences                 int                           4
//
// Row r of a sequence is at position context - num_rows + r, counted from 0.
//
// Scores, maximum and sum are FP32, in powers of two: exp(x) is ex2(x log2 e), within 2 units in
// the last place. The sum is of the probabilities before they are rounded to the type of q.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/mma_sync.cuh"

namespace octet::cuda {

/// octet_device_sequence of runtime/abi.h.
struct alignas(16) Sequence {
  int firstRow;
  int numRows; // 0: takes no part in this step
  int context; // tokens in its cache after this step
  int firstPage;
};

inline constexpr int kPageTokens = 64;
inline constexpr float kLog2E = 1.44269504088896341f;

/// A or B.
template <bool kFirst, class A, class B>
struct Either {
  using Type = A;
};
template <class A, class B>
struct Either<false, A, B> {
  using Type = B;
};
template <bool kFirst, class A, class B>
using Selected = typename Either<kFirst, A, B>::Type;

/// The constants of an attention operator. kWindow 0 is none; kScaleBits are the bits of an F32.
template <class T_, class Kv_, int kQHeads_, int kKvHeads_, int kHeadDim_, int kWindow_,
          u32 kScaleBits_>
struct AttentionShape {
  using T = T_;
  using Kv = Kv_;
  static constexpr int kQHeads = kQHeads_, kKvHeads = kKvHeads_, kHeadDim = kHeadDim_;
  static constexpr int kWindow = kWindow_;
  static constexpr u32 kScaleBits = kScaleBits_;
  static_assert(kIsSame<T, Bf16> || kIsSame<T, F16>, "q is BF16 or F16");
  static_assert(kIsSame<Kv, T> || kIsSame<Kv, E4m3>, "the cache has the type of q, or E4M3 (P7a)");
  static_assert(kKvHeads > 0 && kQHeads % kKvHeads == 0, "q_heads is a multiple of kv_heads");
  static_assert(kHeadDim % 8 == 0 && kHeadDim > 0 && kHeadDim <= 256,
                "head_dim is a multiple of 8, up to 256");

  static constexpr bool kScaled = kIsSame<Kv, E4m3>;
  static constexpr int kGroup = kQHeads / kKvHeads;
  static constexpr i64 kKeyStride = static_cast<i64>(kKvHeads) * kHeadDim; // in elements
  /// Bytes that are copied at once: rows of E4M3 may be aligned to 8 only.
  static constexpr int kChunk = kHeadDim * static_cast<int>(sizeof(Kv)) % 16 == 0 ? 16 : 8;
};

/// Bytes from row to row in shared memory: an odd number of 16-byte chunks, so that the eight rows
/// of an ldmatrix lie in different banks.
constexpr __host__ __device__ int pitchOf(int rowBytes) {
  return rowBytes + (rowBytes / 16 % 2 == 0 ? 16 : 0);
}

/// ex2: 2^x; 0 for minus infinity.
OCTET_DEVICE float exp2Approximate(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
inline constexpr u32 kMinusInfinityBits = 0xff800000u;
OCTET_DEVICE float minusInfinity() { return floatOf(kMinusInfinityBits); }
/// What a score is subtracted from: a row that has seen no key has no maximum, and
/// -inf - (-inf) would be NaN.
OCTET_DEVICE float finiteMaximum(float m) { return m == minusInfinity() ? 0.f : m; }

/// Four E4M3 codes as words of T, exactly: y[0] has codes 0 and 2, y[1] codes 1 and 3. Without
/// NaN; `nan` collects whether there was one (nanCodes).
template <class T>
OCTET_DEVICE void splitE4m3(u32 (&y)[2], u32 codes, u32 &nan) {
  // The fields of E4M3 moved into those of T are the value times a power of two (widenE4m3).
  constexpr int kShift = kIsSame<T, Bf16> ? 4 : 1;
  constexpr u32 kMagnitude = 0x7f007f00u >> kShift;
  u32 moved[2] = {((codes << (8 - kShift)) & kMagnitude) | ((codes << 8) & 0x80008000u),
                  ((codes >> kShift) & kMagnitude) | (codes & 0x80008000u)};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if constexpr (kIsSame<T, Bf16>)
      asm("fma.rn.bf16x2 %0, %1, %2, %3;"
          : "=r"(y[i])
          : "r"(moved[i]), "r"(0x7b807b80u), "r"(0x80008000u));
    else
      asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y[i]) : "r"(moved[i]), "r"(0x5c005c00u));
  }
  nan |= nanCodes(codes);
}
OCTET_DEVICE bool hasNan(u32 nan) { return (nan & 0x80808080u) != 0; }
/// Puts the NaN of `codes` into what splitE4m3 made of them.
OCTET_DEVICE void restoreNan(u32 (&y)[2], u32 codes) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (((codes >> (8 * i)) & 0x7fu) == 0x7fu)
      y[i % 2] |= 0x7fffu << (16 * (i / 2));
}

/// Four E4M3 codes as F16, exactly: y[0] has codes 0 and 1, y[1] codes 2 and 3.
OCTET_DEVICE void widenToF16(u32 (&y)[2], u32 codes) {
#if __CUDA_ARCH__ >= 890
  y[0] = e4m3x2ToF16x2(static_cast<u16>(codes));
  y[1] = e4m3x2ToF16x2(static_cast<u16>(codes >> 16));
#else
  u32 split[2], nan = 0;
  splitE4m3<F16>(split, codes, nan);
  if (hasNan(nan))
    restoreNan(split, codes);
  y[0] = __byte_perm(split[0], split[1], 0x5410);
  y[1] = __byte_perm(split[0], split[1], 0x7632);
#endif
}

/// The keys that row `row` of a sequence sees: [begin, end).
template <class Shape>
OCTET_DEVICE int keysEnd(const Sequence &s, int row) {
  return s.context - s.numRows + row + 1;
}
template <class Shape>
OCTET_DEVICE int keysBegin(const Sequence &s, int row) {
  return Shape::kWindow > 0 ? max(0, keysEnd<Shape>(s, row) - Shape::kWindow) : 0;
}

/// k_scale and the softmax scale in one, for powers of two.
template <class Shape>
OCTET_DEVICE float scoreScale(const float *kScale) {
  const float scale = floatOf(Shape::kScaleBits);
  return (Shape::kScaled ? scale * *kScale : scale) * kLog2E;
}
template <class Shape>
OCTET_DEVICE float valueScale(const float *vScale) {
  return Shape::kScaled ? *vScale : 1.f;
}

} // namespace octet::cuda
