//===- row.cuh - The words that printed row kernels are written in --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is cut into chunks of 8 elements; a thread holds chunks in registers, as memory has them
// (Chunk<T>) or as eight floats (Floats). lib/CudaSource/RowSource.cpp prints kernels as lines of
// these functions. Arithmetic is float, rounded to nearest after every operation and never
// contracted, with IEEE division and square root; only round<T> and the quantisations round further
// (N9). A sum's order depends on the width of what is summed alone (B5), not on which threads have
// it: the even and the odd elements of a chunk, 32 chunks by halves, and what each 32 give likewise.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

struct Floats {
  float e[8];

  Floats() = default;
  OCTET_DEVICE Floats(float x) {
#pragma unroll
    for (int i = 0; i < 8; ++i)
      e[i] = x;
  }
};

/// Eight elements of memory.
template <class T> struct alignas(sizeof(T) * 8 < 16 ? 8 : 16) Chunk {
  u32 words[sizeof(T) * 2];

  /// Exact.
  OCTET_DEVICE operator Floats() const {
    Floats y;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float2 pair;
      if constexpr (kIsSame<T, float>)
        pair = {floatOf(words[2 * i]), floatOf(words[2 * i + 1])};
      else
        pair = unpackPair<T>(words[i]);
      y.e[2 * i] = pair.x;
      y.e[2 * i + 1] = pair.y;
    }
    return y;
  }
};

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

/// 1 / (sqrt(a), rounded), rounded. One step from the approximations gives the nearest root and its
/// nearest reciprocal, of every float in this range (tried one by one).
OCTET_DEVICE float inverseRoot(float a) {
  if (bitsOf(a) - bitsOf(0x1p-100f) > bitsOf(0x1p100f) - bitsOf(0x1p-100f))
    return __frcp_rn(__fsqrt_rn(a));
  const float y = approximateInverseRoot(a), near = __fmul_rn(a, y);
  const float root = __fmaf_rn(__fmaf_rn(-near, near, a), __fmul_rn(0.5f, y), near);
  const float inverse = approximateReciprocal(root);
  return __fmaf_rn(__fmaf_rn(-root, inverse, 1.f), inverse, inverse);
}

// A float stands for eight equal ones.
#define OCTET_ROW_UNARY(name, expression)                                                          \
  OCTET_DEVICE float name(float a) { return expression; }                                          \
  OCTET_DEVICE Floats name(const Floats &x) {                                                      \
    Floats y;                                                                                      \
    _Pragma("unroll") for (int i = 0; i < 8; ++i) y.e[i] = name(x.e[i]);                           \
    return y;                                                                                      \
  }
#define OCTET_ROW_BINARY(name, expression)                                                         \
  OCTET_DEVICE float name(float a, float b) { return expression; }                                 \
  OCTET_DEVICE Floats name(const Floats &x, const Floats &z) {                                     \
    Floats y;                                                                                      \
    _Pragma("unroll") for (int i = 0; i < 8; ++i) y.e[i] = name(x.e[i], z.e[i]);                   \
    return y;                                                                                      \
  }

OCTET_ROW_UNARY(negate, -a)
OCTET_ROW_UNARY(magnitude, fabsf(a))
OCTET_ROW_UNARY(squareRoot, __fsqrt_rn(a))
OCTET_ROW_UNARY(reciprocal, __frcp_rn(a))
OCTET_ROW_UNARY(inverseSquareRoot, inverseRoot(a))
OCTET_ROW_UNARY(exponential, expf(a))
OCTET_ROW_BINARY(add, __fadd_rn(a, b))
OCTET_ROW_BINARY(subtract, __fsub_rn(a, b))
OCTET_ROW_BINARY(multiply, __fmul_rn(a, b))
OCTET_ROW_BINARY(divide, __fdiv_rn(a, b))
OCTET_ROW_BINARY(maximum, maxOrNan(a, b))
OCTET_ROW_BINARY(minimum, minOrNan(a, b))
OCTET_ROW_BINARY(maxNumber, fmaxf(a, b))
OCTET_ROW_BINARY(minNumber, fminf(a, b))
#undef OCTET_ROW_UNARY
#undef OCTET_ROW_BINARY

OCTET_DEVICE float multiplyAdd(float a, float b, float c) { return __fmaf_rn(a, b, c); }
OCTET_DEVICE Floats multiplyAdd(const Floats &a, const Floats &b, const Floats &c) {
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = __fmaf_rn(a.e[i], b.e[i], c.e[i]);
  return y;
}

/// x / scale where x is a value of BF16 or F16 and `inverse` = 1 / scale, rounded: the product's
/// error is corrected once, which gives the quotient that division gives for all 2^30 + 2^33 pairs
/// of significands (tried one by one), -0 too, as long as all steps stay among normal numbers or
/// the quotient is far below the least code. Where `inverse` is approximate, the caller has tried.
OCTET_DEVICE float divideShort(float x, float scale, float inverse) {
  const float q = __fmul_rn(x, inverse);
  return __fmaf_rn(-__fmaf_rn(q, scale, -x), inverse, q);
}

/// divide(x, add(1, exponential(negate(x)))) of values of BF16 or F16 (tried one by one).
OCTET_DEVICE float silu(float x) { return __fdiv_rn(x, __fadd_rn(1.f, expf(-x))); }
OCTET_DEVICE Floats silu(const Floats &x) {
  Floats y;
  float largest = fabsf(x.e[0]);
#pragma unroll
  for (int i = 1; i < 8; ++i)
    largest = fmaxf(largest, fabsf(x.e[i]));
  if (largest < 87.f) { // 1 + exp(-x) has a reciprocal that is a normal number
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float divisor = __fadd_rn(1.f, expf(-x.e[i]));
      y.e[i] = divideShort(x.e[i], divisor, approximateReciprocal(divisor));
    }
  } else {
    y = x;
#pragma unroll 1 // rare, and short
    for (int n = 0; n < 8; ++n) {
      const float last = silu(y.e[0]);
#pragma unroll
      for (int i = 0; i < 7; ++i)
        y.e[i] = y.e[i + 1];
      y.e[7] = last;
    }
  }
  return y;
}

/// Rounded to T, as memory has them.
template <class T> OCTET_DEVICE Chunk<T> round(const Floats &x) {
  Chunk<T> y;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kIsSame<T, float>) {
      y.words[2 * i] = bitsOf(x.e[2 * i]);
      y.words[2 * i + 1] = bitsOf(x.e[2 * i + 1]);
    } else {
      y.words[i] = packPair<T>(x.e[2 * i], x.e[2 * i + 1]);
    }
  }
  return y;
}
/// Rounded to BF16 and a float again: the bits of BF16 and zeros, by one conversion.
OCTET_DEVICE Floats roundFloats(const Floats &x) {
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = floatOf(packPair<Bf16>(0.f, x.e[i]));
  return y;
}
/// One float, rounded to T.
template <class T> OCTET_DEVICE float roundOne(float x) { return toFloat(fromFloat<T>(x)); }

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// p[8 chunk .. 8 chunk + 8), aligned to 16 bytes.
template <class T> OCTET_DEVICE Chunk<T> load(const T *p, int chunk) {
  Chunk<T> y;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    uint4 x = load16(reinterpret_cast<const char *>(p + 8 * chunk) + 16 * i);
    y.words[4 * i] = x.x, y.words[4 * i + 1] = x.y;
    y.words[4 * i + 2] = x.z, y.words[4 * i + 3] = x.w;
  }
  return y;
}

template <class T> OCTET_DEVICE void store(T *p, int chunk, const Chunk<T> &x) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i)
    store16(reinterpret_cast<char *>(p + 8 * chunk) + 16 * i,
            {x.words[4 * i], x.words[4 * i + 1], x.words[4 * i + 2], x.words[4 * i + 3]});
}

/// Brings a chunk of a row to L2, where later loads see what is written until then.
template <class T> OCTET_DEVICE void prefetch(const T *p, int chunk) {
  if (chunk % (16 / sizeof(T)) == 0) // a line of 128 bytes
    prefetchL2(p + 8 * chunk);
}

/// The same of `width` elements in all, of any alignment: what lies beyond is 0, or not stored.
template <class T> OCTET_DEVICE Chunk<T> loadSome(const T *p, int chunk, int width) {
  Floats y(0.f);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (8 * chunk + i < width)
      y.e[i] = toFloat(p[8 * chunk + i]);
  return round<T>(y);
}
template <class T> OCTET_DEVICE void storeSome(T *p, int chunk, int width, const Floats &x) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (8 * chunk + i < width)
      p[8 * chunk + i] = fromFloat<T>(x.e[i]);
}

/// Element i is p[(8 chunk + phase + i) mod period] of an operand that repeats.
template <class T>
OCTET_DEVICE Chunk<T> loadTiled(const T *p, int chunk, int phase, int period) {
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = toFloat(p[(8 * chunk + phase + i) % period]);
  return round<T>(y);
}

/// Element i is p[(8 chunk + i) / group]; the last groups may be short.
template <class T>
OCTET_DEVICE Floats loadGroups(const T *p, int chunk, int group, int width) {
  Floats y(0.f);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (8 * chunk + i < width)
      y.e[i] = toFloat(p[(8 * chunk + i) / group]);
  return y;
}

/// Eight codes of one byte.
template <class T> OCTET_DEVICE void storeCodes(T *p, int chunk, uint2 codes) {
  *reinterpret_cast<uint2 *>(p + 8 * chunk) = codes;
}
template <class T> OCTET_DEVICE void storeSomeCodes(T *p, int chunk, int width, uint2 codes) {
#pragma unroll
  for (int i = 0; i < 8; ++i)
    if (8 * chunk + i < width)
      reinterpret_cast<u8 *>(p)[8 * chunk + i] =
          static_cast<u8>((i < 4 ? codes.x : codes.y) >> (8 * (i % 4)));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

struct Sum {
  static OCTET_DEVICE float neutral() { return 0.f; }
  static OCTET_DEVICE float element(float x) { return x; }
  static OCTET_DEVICE float join(float a, float b) { return __fadd_rn(a, b); }
};
/// NaN only if nothing else is there.
struct Max {
  static OCTET_DEVICE float neutral() { return floatOf(0xff800000u); }
  static OCTET_DEVICE float element(float x) { return x; }
  static OCTET_DEVICE float join(float a, float b) { return fmaxf(a, b); }
};
/// The largest magnitude, 0 of nothing.
struct Amax {
  static OCTET_DEVICE float neutral() { return 0.f; }
  static OCTET_DEVICE float element(float x) { return fabsf(x); }
  static OCTET_DEVICE float join(float a, float b) { return fmaxf(a, b); }
};

/// Even elements in turn, odd ones in turn, and both.
template <class Op> OCTET_DEVICE float reduceChunk(const Floats &x) {
  float y[2] = {Op::element(x.e[0]), Op::element(x.e[1])};
#pragma unroll
  for (int i = 2; i < 8; ++i)
    y[i % 2] = Op::join(y[i % 2], Op::element(x.e[i]));
  return Op::join(Op::neutral(), Op::join(y[0], y[1]));
}
/// reduceChunk<Sum>(multiply(x, x)) where x are values of BF16 or F16, whose squares are exact.
OCTET_DEVICE float sumSquares(const Floats &x) {
  float y[2] = {__fmul_rn(x.e[0], x.e[0]), __fmul_rn(x.e[1], x.e[1])};
#pragma unroll
  for (int i = 2; i < 8; ++i)
    y[i % 2] = __fmaf_rn(x.e[i], x.e[i], y[i % 2]);
  return Sum::join(y[0], y[1]); // not -0
}
/// The chunk with what changes nothing beyond `width` elements.
template <class Op> OCTET_DEVICE Floats keepWithin(const Floats &x, int chunk, int width) {
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = 8 * chunk + i < width ? x.e[i] : Op::neutral();
  return y;
}

/// Over kLanes neighbouring lanes, all of which get it; the whole warp calls.
template <class Op, int kLanes> OCTET_DEVICE float reduceLanes(float x) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2)
    x = Op::join(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

/// The same of each turn's maximum, where all are values of BF16 and none is below 0 or NaN: two of
/// them are a word.
template <int kLanes, int kTurns> OCTET_DEVICE void reduceTurns(float (&x)[kTurns]) {
#pragma unroll
  for (int i = 0; i < kTurns; i += 2) {
    const int other = i + 1 < kTurns ? i + 1 : i;
    u32 pair = bitsOf(x[i]) >> 16 | bitsOf(x[other]);
#pragma unroll
    for (int distance = kLanes / 2; distance > 0; distance /= 2)
      pair = maxPairs(pair, __shfl_xor_sync(0xffffffffu, pair, distance));
    x[i] = floatOf(pair << 16);
    x[other] = floatOf(pair & 0xffff0000u);
  }
}

/// Over the row, in two steps with a barrier between: each 32 chunks (256 elements) to one of
/// `slots`, whatever warp has them, ...
template <class Op> OCTET_DEVICE void startRow(float x, int chunk, float *slots) {
  x = reduceLanes<Op, 32>(x);
  if (chunk % 32 == 0)
    slots[chunk / 32] = x;
}
/// The same of chunks thread + i * kThreads. Half of the lanes go on with other chunks than the
/// rest after each exchange, as long as there are some; what is joined stays the same.
template <class Op, int kThreads, int kTurns>
OCTET_DEVICE void startRow(const float (&x)[kTurns], int thread, float *slots) {
  const int lane = threadIdx.x % 32;
  constexpr int kWarps = kThreads / 32;
  auto fold = [&](float a, float b, int distance) {
    const bool isUpper = lane & distance;
    return Op::join(isUpper ? b : a,
                    __shfl_xor_sync(0xffffffffu, isUpper ? a : b, distance));
  };
  auto add = [&](float y, int distance) {
    return Op::join(y, __shfl_xor_sync(0xffffffffu, y, distance));
  };
#pragma unroll
  for (int i = 0; i < kTurns; i += 4) {
    float y;
    int turn = i, writers = 8;
    if (i + 2 < kTurns) {
      const float low = fold(x[i], x[i + 1], 16);
      const float high = i + 3 < kTurns ? fold(x[i + 2], x[i + 3 < kTurns ? i + 3 : 0], 16)
                                        : add(x[i + 2], 16);
      y = fold(low, high, 8);
      turn += (lane & 8 ? 2 : 0) + (lane & 16 ? 1 : 0);
    } else {
      y = i + 1 < kTurns ? fold(x[i], x[i + 1 < kTurns ? i + 1 : 0], 16) : add(x[i], 16);
      y = add(y, 8);
      turn += lane & 16 ? 1 : 0;
      writers = 16;
    }
    y = add(add(add(y, 4), 2), 1);
    if (lane % writers == 0 && turn < kTurns)
      slots[thread / 32 + turn * kWarps] = y;
  }
}
/// ... and the kCount slots to one, in all threads.
template <class Op, int kCount> OCTET_DEVICE float finishRow(const float *slots) {
  float y = Op::neutral();
  for (int i = threadIdx.x % 32; i < kCount; i += 32)
    y = Op::join(y, slots[i]);
  return reduceLanes<Op, 32>(y);
}

/// The group of `chunk` where groups are `size` chunks of `count`, whose results are in `slots`.
template <class Op>
OCTET_DEVICE float reduceChunks(const float *slots, int chunk, int size, int count) {
  const int first = chunk / size * size;
  float y = Op::neutral();
  for (int i = first; i < minOf(first + size, count); ++i)
    y = Op::join(y, slots[i]);
  return y;
}

/// Groups of `size` elements of a row in shared memory to one result each, a thread a group.
template <class Op>
OCTET_DEVICE void reduceGroups(const float *x, int width, int size, float *y, int thread,
                               int threads) {
  for (int group = thread; group * size < width; group += threads) {
    float sum = Op::neutral();
    for (int i = group * size; i < minOf((group + 1) * size, width); ++i)
      sum = Op::join(sum, Op::element(x[i]));
    y[group] = sum;
  }
}

//===----------------------------------------------------------------------===//
// Quantisation
//===----------------------------------------------------------------------===//

/// The scale of group `group` of a row, where a group's scales are side by side: [groups][rows, up
/// to a multiple of 4] (P3).
OCTET_DEVICE void storeColumn(float *scales, float scale, u32 group, i64 row, int rows) {
  scales[u64(group) * (u32(rows + 3) & ~3u) + row] = scale;
}

/// The exponent of a power of two as group `group` of a row, where the exponents of four groups are
/// a word: [cdiv(groups, 4)][rows, up to a multiple of 4] (B1). What is left of the last word is 0.
OCTET_DEVICE void storeExponent(u8 *scales, float scale, int group, int groups, i64 row, int rows) {
  u8 *const word = scales + 4 * (group / 4 * i64(alignUp(rows, 4)) + row);
  word[group % 4] = static_cast<u8>(bitsOf(scale) >> 23);
  if (group == groups - 1)
    for (int i = group % 4 + 1; i < 4; ++i)
      word[i] = 0;
}

/// max(amax, 1e-10) / 448, or with at most `bound` in place of amax (N3). kShort: amax is a value of
/// BF16 or F16.
template <bool kShort = false> OCTET_DEVICE float dynamicScale(float amax) {
  if constexpr (!kShort)
    return __fdiv_rn(fmaxf(amax, 1e-10f), 448.f);
  const float scale = fmaxf(divideShort(amax, 448.f, 1.f / 448.f), 1e-10f / 448.f);
  return amax < floatOf(0x7f800000u) ? scale : amax;
}
OCTET_DEVICE float dynamicScale(float amax, float bound) {
  return __fdiv_rn(fminf(fmaxf(amax, 1e-10f), bound), 448.f);
}
OCTET_DEVICE float dynamicScaleInt8(float amax) { return __fdiv_rn(fmaxf(amax, 1e-10f), 127.f); }

/// Up to a power of two, from the bits of the float (N4).
OCTET_DEVICE float roundUpToPowerOfTwo(float x) {
  u32 power = (bitsOf(x) + 0x7fffffu) & 0x7f800000u;
  return floatOf(power == 0x7f800000u ? 0x7fc00000u : power);
}

/// What is known of the elements of a quantisation.
enum class Range {
  Any,
  Short,        ///< values of BF16 or F16
  ShortInScale, ///< and the scale is that of their largest magnitude (N3)
  PowerOfTwo,   ///< the scale is one, of their largest magnitude (N4), or NaN
};

/// code = e4m3(x / scale) (N2).
template <Range kRange> OCTET_DEVICE uint2 quantizeE4m3(const Floats &x, float scale) {
  Floats y;
  if constexpr (kRange == Range::PowerOfTwo) {
    // The scale's reciprocal is exact, as is NaN.
    const float inverse = scale == scale ? floatOf(0x7f000000u - bitsOf(scale)) : scale;
    y = multiply(x, inverse);
  } else if constexpr (kRange == Range::ShortInScale) {
    // Tried with all largest magnitudes and all x. An infinite scale gives 0 or NaN, as division
    // by it does: then all steps multiply by 0.
    const float inverse = approximateReciprocal(scale);
    const float finite = scale <= 0x1p127f ? scale : 0.f;
#pragma unroll
    for (int i = 0; i < 8; ++i)
      y.e[i] = divideShort(x.e[i], finite, inverse);
  } else if (kRange == Range::Short && scale >= 0x1p-100f && scale <= 0x1p100f) {
    // A quotient may be too large for a float: it is kept from infinity, where the correction
    // would be NaN. x itself is in the correction, so that NaN stays.
    const float inverse = __frcp_rn(scale);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float q = fminf(fmaxf(__fmul_rn(x.e[i], inverse), -0x1p20f), 0x1p20f);
      y.e[i] = __fmaf_rn(-__fmaf_rn(q, scale, -x.e[i]), inverse, q);
    }
  } else {
    y = divide(x, scale);
  }
  return {packE4m3(y.e[0], y.e[1], y.e[2], y.e[3]), packE4m3(y.e[4], y.e[5], y.e[6], y.e[7])};
}
/// A scale for each element.
OCTET_DEVICE uint2 quantizeE4m3(const Floats &x, const Floats &scale) {
  return quantizeE4m3<Range::Any>(divide(x, scale), 1.f);
}

/// code = rne(clamp(x / scale, -127, 127)) (N7); NaN is 0.
OCTET_DEVICE uint2 quantizeInt8(const Floats &x, const Floats &scale) {
  u32 words[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float y = __fdiv_rn(x.e[i], scale.e[i]);
    y = y == y ? fminf(fmaxf(y, -127.f), 127.f) : 0.f;
    words[i / 4] |= (static_cast<u32>(__float2int_rn(y)) & 0xffu) << (8 * (i % 4));
  }
  return {words[0], words[1]};
}

//===----------------------------------------------------------------------===//
// Rotary embedding (P6)
//===----------------------------------------------------------------------===//

/// Where a chunk lies in its head: of kHeadDim elements 2 kHalf from kOffset on are rotated.
template <int kHeadDim, int kOffset, int kHalf> struct RopePlace {
  bool isRotated;
  bool isFirst; ///< of pairs (i, i + kHalf)
  u32 within;   ///< its first element in the rotated part, 0 if it is not there
  u32 pair;     ///< of that element

  explicit OCTET_DEVICE RopePlace(u32 chunk) {
    within = 8 * chunk % kHeadDim - kOffset; // what is before the rotated part is large
    isRotated = 2 * kHalf == kHeadDim || within < 2 * kHalf;
    within = isRotated ? within : 0;
    isFirst = within < kHalf;
    pair = isFirst ? within : within - kHalf;
  }
};

/// The chunk that kChunks chunks away holds the other elements of the pairs; the whole warp calls.
template <int kChunks> OCTET_DEVICE Floats exchange(const Floats &x, bool isFirst) {
  const int lane = threadIdx.x % 32 + (isFirst ? kChunks : -kChunks);
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = __shfl_sync(0xffffffffu, x.e[i], lane);
  return y;
}
template <int kChunks, class T> OCTET_DEVICE Chunk<T> exchange(const Chunk<T> &x, bool isFirst) {
  const int lane = threadIdx.x % 32 + (isFirst ? kChunks : -kChunks);
  Chunk<T> y;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) * 2; ++i)
    y.words[i] = __shfl_sync(0xffffffffu, x.words[i], lane);
  return y;
}

/// (a c - b s, b c + a s)
template <class Place>
OCTET_DEVICE Floats rope(Place place, const Floats &x, const Floats &partner, const Floats &cosine,
                         const Floats &sine) {
  if (!place.isRotated)
    return x;
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = add(multiply(x.e[i], cosine.e[i]),
                 multiply(partner.e[i], place.isFirst ? -sine.e[i] : sine.e[i]));
  return y;
}

/// Pairs are neighbours: cosine and sine of four pairs, each given twice.
template <class T> OCTET_DEVICE Floats loadPairs(const T *table, u32 first) {
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = toFloat(table[first / 2 + i / 2]);
  return y;
}
template <class Place>
OCTET_DEVICE Floats ropePairs(Place place, const Floats &x, const Floats &cosine,
                              const Floats &sine) {
  if (!place.isRotated)
    return x;
  Floats y;
#pragma unroll
  for (int i = 0; i < 8; ++i)
    y.e[i] = add(multiply(x.e[i], cosine.e[i]),
                 multiply(x.e[i ^ 1], i % 2 == 0 ? -sine.e[i] : sine.e[i]));
  return y;
}

/// Any shape, of a row in shared memory.
template <int kHeadDim, int kOffset, int kHalf, bool kInterleaved, class T>
OCTET_DEVICE Floats ropeElements(const float *x, const T *table, int chunk, int width) {
  Floats y(0.f);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int at = 8 * chunk + i;
    if (at >= width)
      continue;
    const int within = at % kHeadDim - kOffset;
    y.e[i] = x[at];
    if (within < 0 || within >= 2 * kHalf)
      continue;
    const bool isFirst = kInterleaved ? within % 2 == 0 : within < kHalf;
    const int pair = kInterleaved ? within / 2 : within % kHalf;
    const int other = at + (kInterleaved ? (isFirst ? 1 : -1) : (isFirst ? kHalf : -kHalf));
    const float sine = toFloat(table[kHalf + pair]);
    y.e[i] = add(multiply(x[at], toFloat(table[pair])),
                 multiply(x[other], isFirst ? -sine : sine));
  }
  return y;
}

} // namespace octet::cuda
