//===- sampler.cuh - From logits to tokens on the device ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/core/Sampler.h does (P17), a CTA for each row:
//
//   temperature   v := logit / temperature      (0: greedy), without -inf and NaN
//   top-k         the k largest v stay
//   softmax       p := exp(v - max) / sum       over those that stay
//   top-p         the fewest largest p whose sum reaches top_p stay
//   min-p         of those, p >= min_p * largest p stay
//   draw          the first token whose running sum of p exceeds uniform * (sum of the p that stay)
//
// in the order of v, largest first, equal v by id.
//
//   operand   shape          types       contiguous   alignment
//   logits    [rows, vocab]  F32         vocab        4
//   options   [rows]         SampleRow                4
//   tokens    [rows]         i32                      4            -1: no logit above -inf
//   scratch   [rows][2]      u32, F32    kPadded      16           keys and p; not of greedyRows
//
// Nothing is sorted: a sum in that order is a radix selection of 11 bits of v at a time. The sums
// of the first 11 bits serve top-p and the draw; what shares them is listed where it is little.
//
// Rounding  v, v - max and p are the FP32 numbers of Sampler.cpp; exp (within 2^-46) and the
//           division by the sum are FP64, rounded once. Sums of p are integers of 2^-62, so exact
//           for p >= 2^-38 and the same in any order. Sampler.cpp adds in FP64: a token differs
//           only where a running sum lies within about vocab * 2^-53 of what it is compared with,
//           or where the FP64 exp or sum tips the rounding of a p, once in about 2^22.
//
// Threads   kThreads, a power of two from 64 to 1024; rows CTAs.
// Shared    static, of 11 bits: two times 2^11 sums of 8 bytes, and a list. A sum is two words,
//           because shared memory adds words, and anything longer by trying again and again.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// SamplerOptions of one row, and its number in [0, 1), a multiple of 2^-24.
struct SampleRow {
  float temperature; // <= 0: greedy
  float topP;        // >= 1: none
  float minP;
  float uniform;
  int topK; // <= 0: none
};

template <int kVocab_, int kThreads_>
struct Sampler {
  static constexpr int kVocab = kVocab_, kThreads = kThreads_;
  static_assert(kVocab >= 1 && kVocab <= (1 << 24), "ids are exact and sums of p fit");
  static_assert(kThreads >= 64 && kThreads <= 1024 && (kThreads & (kThreads - 1)) == 0,
                "a power of two");
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kPadded = alignUp(kVocab, 4);
};

namespace sample {

inline constexpr int kDigitBits = 11, kDigits = 1 << kDigitBits;
inline constexpr int kListed = 1024;
inline constexpr double kUnit = 0x1p62; // 1 as a sum of p

/// p in units of 2^-62, rounded to nearest; 0 <= p <= 1.
OCTET_DEVICE u64 weightOf(float p) {
  const u64 mantissa = (bitsOf(p) & 0x7fffffu) | 0x800000u;
  const int shift = static_cast<int>(bitsOf(p) >> 23) - (127 + 23 - 62);
  if (shift >= 0)
    return mantissa << shift;
  return shift < -24 ? 0 : (mantissa + (u64(1) << (-shift - 1))) >> -shift;
}

/// exp(x) for x <= 0 in FP64, within 2^-46: 2^n and a series of what is left, up to ln 2 / 2.
OCTET_DEVICE float expRounded(float x) {
  if (x < -110.f) // half of the smallest F32 is exp(-104)
    return 0.f;
  const float n = rintf(x * 1.44269504f);
  double r = fma(static_cast<double>(-n), 0x1.62e42fefa39efp-1, static_cast<double>(x));
  r = fma(static_cast<double>(-n), 0x1.abc9e3b39803fp-56, r);
  constexpr double kInverseFactorials[] = {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320,
                                           1.0 / 5040,     1.0 / 720,     1.0 / 120,    1.0 / 24,
                                           1.0 / 6,        0.5,           1.0,          1.0};
  double y = kInverseFactorials[0];
#pragma unroll
  for (int i = 1; i < 12; ++i)
    y = fma(y, r, kInverseFactorials[i]);
  return static_cast<float>(
      __longlong_as_double(__double_as_longlong(y) + (static_cast<i64>(n) << 52)));
}

/// e / sum, rounded to FP64 and then to FP32, by the inverse of `sum`: a product that lies where
/// the last place decides the second rounding is divided.
OCTET_DEVICE float divideRounded(float e, double sum, double inverse) {
  double quotient = static_cast<double>(e) * inverse;
  const u32 dropped = static_cast<u32>(__double_as_longlong(quotient)) & 0x1fffffffu;
  if (dropped - 0x0ffffffcu <= 8u)
    quotient = static_cast<double>(e) / sum;
  return static_cast<float>(quotient);
}

/// A number that is ordered as `v` is; v is no NaN, and -0 equals 0.
OCTET_DEVICE u32 keyOf(float v) {
  const u32 bits = v == 0.f ? 0u : bitsOf(v);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
OCTET_DEVICE float valueOf(u32 key) {
  return floatOf(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}
inline constexpr u32 kNoKey = 0x007fffffu; // of -inf

/// The tokens from the first to this one, in order.
struct Limit {
  u32 key = 0;
  int id = 0x7fffffff;
  OCTET_DEVICE bool keeps(u32 otherKey, int otherId) const {
    return otherKey > key || (otherKey == key && otherId <= id);
  }
};

/// A sum for each value of 11 bits.
struct Sums {
  u32 low[kDigits], high[kDigits];

  template <class Config>
  OCTET_DEVICE void clear() {
    for (int i = threadIdx.x; i < kDigits; i += Config::kThreads)
      low[i] = high[i] = 0;
  }
  OCTET_DEVICE u64 at(int digit) const { return static_cast<u64>(high[digit]) << 32 | low[digit]; }
  OCTET_DEVICE void add(int digit, u64 x) {
    const u32 word = static_cast<u32>(x);
    const u32 before = atomicAdd(&low[digit], word);
    const u32 carried = static_cast<u32>(x >> 32) + (before + word < before);
    if (carried != 0)
      atomicAdd(&high[digit], carried);
  }
};

struct Shared {
  Sums first; // of a key's first 11 bits
  Sums next;
  u32 keys[kListed]; // tokens that share the first bits; more than kListed are not listed
  int ids[kListed];
  int listed;
  u64 warps[32];
  u64 found[3];
  int id;

  OCTET_DEVICE void list(u32 key, int token) {
    if (*static_cast<volatile int *>(&listed) > kListed)
      return;
    const int at = atomicAdd(&listed, 1);
    if (at < kListed) {
      keys[at] = key;
      ids[at] = token;
    }
  }
};

/// Visits all tokens by their keys: visit(id, key); ids of padding have kNoKey.
template <class Config, class Visit>
OCTET_DEVICE void forTokens(const u32 *keys, Visit visit) {
#pragma unroll 4
  for (int i = 4 * threadIdx.x; i < Config::kPadded; i += 4 * Config::kThreads) {
    const uint4 x = load16(keys + i);
    visit(i, x.x);
    visit(i + 1, x.y);
    visit(i + 2, x.z);
    visit(i + 3, x.w);
  }
}

/// Sums `x` over the CTA, in a fixed order. All threads get it.
template <class Config, class T>
OCTET_DEVICE T sumOf(T x, Shared &shared) {
  static_assert(sizeof(T) == 8, "a sum takes 8 bytes");
  T *warps = reinterpret_cast<T *>(shared.warps);
#pragma unroll
  for (int step = 16; step > 0; step /= 2)
    x += __shfl_xor_sync(~0u, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    warps[threadIdx.x / 32] = x;
  __syncthreads();
  T all = 0;
  for (int w = 0; w < Config::kWarps; ++w)
    all += warps[w];
  return all;
}

/// The largest key and the lowest id that has it; kNoKey and -1 if there is none.
template <class Config>
OCTET_DEVICE u64 largestOf(u32 key, int id, Shared &shared) {
  // Lower ids are the larger numbers.
  u64 best = static_cast<u64>(key) << 32 | (0xffffffffu - static_cast<u32>(id));
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const u64 other = __shfl_xor_sync(~0u, best, step);
    best = other > best ? other : best;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0)
    shared.warps[threadIdx.x / 32] = best;
  __syncthreads();
  for (int w = 0; w < Config::kWarps; ++w)
    best = shared.warps[w] > best ? shared.warps[w] : best;
  return best;
}
OCTET_DEVICE u32 keyOfBest(u64 best) { return static_cast<u32>(best >> 32); }
OCTET_DEVICE int idOfBest(u64 best) {
  return static_cast<int>(0xffffffffu - static_cast<u32>(best));
}

/// \param keys  null, or where all keys are written.
template <class Config>
OCTET_DEVICE u64 findLargest(const float *logits, float temperature, u32 *keys, Shared &shared) {
  u32 best = kNoKey;
  int id = -1;
  auto visit = [&](int i, float logit) {
    const float v = logit / temperature;
    // A NaN is not above -inf. Of equals, the first stays.
    const u32 key = v > floatOf(0xff800000u) ? keyOf(v) : kNoKey;
    if (key > best) {
      best = key;
      id = i;
    }
    return key;
  };
  if constexpr (Config::kVocab % 4 == 0) {
#pragma unroll 4
    for (int i = 4 * threadIdx.x; i < Config::kVocab; i += 4 * Config::kThreads) {
      const float4 x = *reinterpret_cast<const float4 *>(logits + i);
      const uint4 key = {visit(i, x.x), visit(i + 1, x.y), visit(i + 2, x.z), visit(i + 3, x.w)};
      if (keys)
        store16(keys + i, key);
    }
  } else {
#pragma unroll 8
    for (int i = threadIdx.x; i < Config::kVocab; i += Config::kThreads) {
      const u32 key = visit(i, logits[i]);
      if (keys)
        keys[i] = key;
    }
  }
  if (keys && threadIdx.x < Config::kPadded - Config::kVocab)
    keys[Config::kVocab + threadIdx.x] = kNoKey;
  return largestOf<Config>(best, id, shared); // a barrier: keys are there for all
}

/// A token in the order, and the sum of the weights up to and with it.
struct Place {
  bool found;
  Limit limit;
  u64 sum;
};

/// The digit at which the running sum exceeds `rest`, the largest digit first: to found[0], and the
/// sum before it to found[1]. \returns false if the sum of all does not exceed it.
template <class Config>
OCTET_DEVICE bool findDigit(const Sums &sums, u64 rest, Shared &shared) {
  constexpr int kEach = kDigits / Config::kThreads;
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  if (thread == 0)
    shared.found[0] = kDigits;
  __syncthreads();
  int digit = kDigits - 1 - thread * kEach;
  u64 own = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    own += sums.at(digit - i);
  u64 before = own;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const u64 other = __shfl_up_sync(~0u, before, step);
    before += lane >= step ? other : 0;
  }
  if (lane == 31)
    shared.warps[warp] = before;
  __syncthreads();
  before -= own;
  for (int w = 0; w < warp; ++w)
    before += shared.warps[w];
  if (rest >= before && rest - before < own) {
    while (rest - before >= sums.at(digit)) {
      before += sums.at(digit);
      --digit;
    }
    shared.found[0] = digit;
    shared.found[1] = before;
  }
  __syncthreads();
  return shared.found[0] != kDigits;
}

/// Visits the listed tokens, or all where the list is not whole.
template <class Config, class Visit>
OCTET_DEVICE void forCandidates(const u32 *keys, bool isListed, const Shared &shared, Visit visit) {
  if (isListed)
    for (int i = threadIdx.x; i < shared.listed; i += Config::kThreads)
      visit(shared.ids[i], shared.keys[i]);
  else
    forTokens<Config>(keys, visit);
}

/// The first token at which the running sum of weights exceeds `target`.
/// \param weightAt  weightAt(i): equal for equal keys, or 0, then of the last among them.
/// \param hasFirst  `shared.first` has the weights.
template <class Config, class WeightAt>
OCTET_DEVICE Place findPlace(u64 target, const u32 *keys, WeightAt weightAt, bool hasFirst,
                             Shared &shared) {
  constexpr int kShift1 = 32 - kDigitBits, kShift2 = kShift1 - kDigitBits;
  const int thread = threadIdx.x;
  __syncthreads();
  if (!hasFirst) {
    shared.first.clear<Config>();
    __syncthreads();
    forTokens<Config>(keys, [&](int i, u32 key) {
      if (key != kNoKey)
        if (const u64 weight = weightAt(i); weight != 0)
          shared.first.add(key >> kShift1, weight);
    });
  }
  if (!findDigit<Config>(shared.first, target, shared))
    return {false, {}, 0};
  u64 rest = target - shared.found[1];
  u32 prefix = static_cast<u32>(shared.found[0]);

  // Tokens with these 11 bits
  shared.next.clear<Config>();
  if (thread == 0)
    shared.listed = 0;
  __syncthreads();
  forTokens<Config>(keys, [&](int i, u32 key) {
    if (key >> kShift1 == prefix && key != kNoKey)
      if (const u64 weight = weightAt(i); weight != 0) {
        shared.next.add((key >> kShift2) & (kDigits - 1), weight);
        shared.list(key, i);
      }
  });
  findDigit<Config>(shared.next, rest, shared);
  rest -= shared.found[1];
  prefix = prefix << kDigitBits | static_cast<u32>(shared.found[0]);
  const bool isListed = shared.listed <= kListed;
  const int listed = shared.listed;
  // With these 22 bits
  __syncthreads();
  shared.next.clear<Config>();
  __syncthreads();
  forCandidates<Config>(keys, isListed, shared, [&](int i, u32 key) {
    if (key >> kShift2 == prefix && key != kNoKey)
      if (const u64 weight = weightAt(i); weight != 0)
        shared.next.add(key & ((1u << kShift2) - 1), weight);
  });
  findDigit<Config>(shared.next, rest, shared);
  rest -= shared.found[1];
  prefix = prefix << kShift2 | static_cast<u32>(shared.found[0]);

  // With this key: the one at which their sum exceeds what is left
  int first = 0x7fffffff;
  if (thread == 0)
    shared.id = 0x7fffffff;
  __syncthreads();
  forCandidates<Config>(keys, isListed, shared, [&](int i, u32 key) {
    if (key == prefix)
      if (const u64 weight = weightAt(i); weight != 0) {
        first = minOf(first, i);
        shared.found[2] = weight; // the same by all
      }
  });
  if (first != 0x7fffffff)
    atomicMin(&shared.id, first);
  __syncthreads();
  const u64 weight = shared.found[2];
  u64 skip = rest / weight;
  const u64 sum = target - rest + (skip + 1) * weight;
  int id = shared.id;
  if (skip > 0 && isListed) {
    for (int i = thread; i < listed; i += Config::kThreads) {
      u64 before = 0;
      for (int j = 0; shared.keys[i] == prefix && j < listed; ++j)
        before += shared.keys[j] == prefix && shared.ids[j] < shared.ids[i];
      if (shared.keys[i] == prefix && before == skip)
        shared.id = shared.ids[i];
    }
    __syncthreads();
    id = shared.id;
  } else if (skip > 0) {
    for (int base = 0; base < Config::kVocab; base += Config::kThreads) {
      const int i = base + thread;
      const bool has = i < Config::kVocab && keys[i] == prefix && weightAt(i) != 0;
      const u64 count = __syncthreads_count(has);
      if (skip >= count) {
        skip -= count;
        continue;
      }
      // In this part: the warp and lane that have `skip` before them.
      const u32 lanes = __ballot_sync(~0u, has);
      if (thread % 32 == 0)
        shared.warps[thread / 32] = __popc(lanes);
      __syncthreads();
      u64 before = __popc(lanes & ((1u << (thread % 32)) - 1));
      for (int w = 0; w < thread / 32; ++w)
        before += shared.warps[w];
      if (has && before == skip)
        shared.id = i;
      __syncthreads();
      id = shared.id;
      break;
    }
  }
  return {true, {prefix, id}, sum};
}

} // namespace sample

/// tokens[row] = the largest logit's id, the lowest among equals.
template <class Config>
OCTET_DEVICE void greedyRows(const float *logits, int *tokens) {
  __shared__ sample::Shared shared;
  launchNextGrid();
  waitForPriorGrids();
  const u64 best = sample::findLargest<Config>(
      logits + static_cast<i64>(blockIdx.x) * Config::kVocab, 1.f, nullptr, shared);
  if (threadIdx.x == 0)
    tokens[blockIdx.x] = sample::idOfBest(best);
}

template <class Config>
OCTET_DEVICE void sampleRows(const float *logits, const SampleRow *options, int *tokens,
                             void *scratch) {
  __shared__ sample::Shared shared;
  launchNextGrid();
  waitForPriorGrids();
  const i64 row = blockIdx.x;
  const float *own = logits + row * Config::kVocab;
  u32 *keys = static_cast<u32 *>(scratch) + 2 * row * Config::kPadded;
  float *p = reinterpret_cast<float *>(keys + Config::kPadded);
  const SampleRow o = options[row];
  const bool greedy = !(o.temperature > 0.f);

  // The largest
  const u64 best = sample::findLargest<Config>(own, greedy ? 1.f : o.temperature,
                                               greedy ? nullptr : keys, shared);
  const u32 bestKey = sample::keyOfBest(best);
  const int bestId = sample::idOfBest(best);
  const float largest = sample::valueOf(bestKey);
  if (greedy || bestId < 0 || o.minP > 1.f) {
    if (threadIdx.x == 0)
      tokens[row] = bestId;
    return;
  }
  if (largest == floatOf(0x7f800000u)) { // a tiny temperature: inf - inf would be NaN
    const u64 plain = sample::findLargest<Config>(own, 1.f, nullptr, shared);
    if (threadIdx.x == 0)
      tokens[row] = sample::idOfBest(plain);
    return;
  }

  // Top-k
  sample::Limit limit;
  if (o.topK > 0 && o.topK < Config::kVocab) {
    const sample::Place place = sample::findPlace<Config>(
        static_cast<u64>(o.topK) - 1, keys, [](int) { return u64(1); }, false, shared);
    limit = place.found ? place.limit : limit;
  }

  // Softmax
  double sum = 0;
  sample::forTokens<Config>(keys, [&](int i, u32 key) {
    float e = 0.f;
    if (key != sample::kNoKey && limit.keeps(key, i))
      e = sample::expRounded(sample::valueOf(key) - largest);
    p[i] = e;
    sum += e;
  });
  sum = sample::sumOf<Config>(sum, shared);

  // Min-p, in the same pass as the division. Tokens that are gone weigh nothing
  const double inverse = 1.0 / sum;
  const float least = o.minP * sample::divideRounded(1.f, sum, inverse);
  auto weightAt = [&](int i) { return sample::weightOf(p[i]); };
  u64 mass = 0;
  shared.first.clear<Config>();
  __syncthreads();
  sample::forTokens<Config>(keys, [&](int i, u32 key) {
    const float x = sample::divideRounded(p[i], sum, inverse);
    p[i] = x < least ? 0.f : x;
    if (const u64 weight = weightAt(i); weight != 0) {
      mass += weight;
      shared.first.add(key >> (32 - sample::kDigitBits), weight);
    }
  });
  mass = sample::sumOf<Config>(mass, shared);

  // Top-p
  if (o.topP < 1.f) {
    const double reached = ceil(static_cast<double>(o.topP) * sample::kUnit);
    const u64 target = reached < 1.0 ? 0 : static_cast<u64>(reached) - 1;
    const sample::Place place = sample::findPlace<Config>(target, keys, weightAt, true, shared);
    mass = place.found ? place.sum : mass;
  }

  // Draw: floor(uniform * mass), the number having 24 bits. What top-p drops stands behind
  const u64 uniform = static_cast<u64>(o.uniform * 0x1p24f);
  const u64 target = __umul64hi(mass, uniform) << 40 | (mass * uniform) >> 24;
  const sample::Place place = sample::findPlace<Config>(target, keys, weightAt, true, shared);
  if (threadIdx.x == 0)
    tokens[row] = place.found ? place.limit.id : bestId;
}

} // namespace octet::cuda
