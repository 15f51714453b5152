//===- DotPairs.h - Dot products of pairs of rows ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of sums of block-scaled E4M3 weights at level bf16. A block of 128
// gives a vector of Dot.h's order four products before its partial is scaled
// and added (N6): one operation in five is a scaling. Here a vector holds two
// rows of W, eight lanes each, so a block gives eight.
//
//   chunk of a row      bytes 0-31 and 32-63, each expanded to two halves of 16
//                       elements: 0-7 and 16-23, then 8-15 and 24-31
//   step s = 0..3       the halves in that order, of row j in the low lanes and
//                       of row j + 1 in the high ones, times the same half of x
//   block               partial = the steps of its chunks in order; accumulator
//                       += partial * sx * sw, one rounding
//   segment             the eight lanes of a row are summed by halving, and the
//                       sum is added to y's in FP32
//
// Which row shares a vector with a row changes no result.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_DOTPAIRS_H
#define OCTET_RUNTIME_KERNELS_CPU_DOTPAIRS_H

#include "runtime/kernels/cpu/Dot.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

/// Whether products of a family and weight type go by pairs of rows.
template <typename Family, typename W, bool kBlocked>
constexpr bool kByPairs = false;

#if OCTET_SIMD_LEVEL == 2

template <>
constexpr bool kByPairs<DotFamily, E4M3, true> = true;

/// Vectors of a pair of rows in a chunk.
constexpr int kPairSteps = 4;

OCTET_INLINE VI lowHalves(VI a, VI b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
OCTET_INLINE VI highHalves(VI a, VI b) {
  return __builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                 31);
}

/// Half `step` of a chunk of x, which Dot.h's order keeps in two vectors, in both halves.
OCTET_INLINE VI halfOfX(const VI *x, int step) {
  constexpr int kOffsets[kPairSteps] = {0, 64, 32, 96};
  const char *p = reinterpret_cast<const char *>(x) + kOffsets[step];
  return (VI)_mm512_broadcast_i64x4(load<__m256i>(p));
}

/// The sums of the low and high eight lanes of four vectors.
OCTET_INLINE void sumHalves4(VF a, VF b, VF c, VF d, VF4 &low, VF4 &high) {
  const VF ab =
      __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  const VF cd =
      __builtin_shufflevector(c, d, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27) +
      __builtin_shufflevector(c, d, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
  // Groups of four lanes: a low, a high, b low, b high of `ab`.
  VF v =
      __builtin_shufflevector(ab, cd, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29) +
      __builtin_shufflevector(ab, cd, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  low = __builtin_shufflevector(v, v, 0, 8, 2, 10);
  high = __builtin_shufflevector(v, v, 4, 12, 6, 14);
}

/// As packRows, in pairs: [cdiv(rows, tile)][chunk][tile / 2][kPairSteps] vectors.
static void packPairs(const E4M3 *p, int64_t rows, int64_t stride, int64_t tile,
                      const ChunkMap &map, int64_t firstChunk, int64_t endChunk, VI *out) {
  for (int64_t t = 0; t < rows; t += tile) {
    for (int64_t c = firstChunk; c < endChunk; ++c) {
      const int64_t first = map.begin(c), count = map.length(c);
      for (int64_t r = t; r < t + tile; r += 2, out += kPairSteps) {
        VI a[2] = {}, b[2] = {};
        if (r < rows)
          expandChunk<DotFamily, E4M3>(p + r * stride + first, count, a);
        if (r + 1 < rows)
          expandChunk<DotFamily, E4M3>(p + (r + 1) * stride + first, count, b);
        out[0] = lowHalves(a[0], b[0]);
        out[1] = lowHalves(a[1], b[1]);
        out[2] = highHalves(a[0], b[0]);
        out[3] = highHalves(a[1], b[1]);
      }
    }
  }
}

/// Rows of W that packPairs has expanded.
template <int NP>
struct PackedPairs {
  const VI *p; // of the tile, as if it began with chunk 0
  static constexpr bool kStepwise = true;

  OCTET_INLINE VI get(const PackedPairs &w, int64_t chunk, int pair, int step) {
    return w.p[(chunk * NP + pair) * kPairSteps + step];
  }
};

/// Rows of W as the checkpoint has them: DirectRows, two by two.
template <int NP>
struct DirectPairs : DirectRows<DotFamily, E4M3, 2 * NP> {
  OCTET_INLINE void get(const DirectPairs &w, int64_t chunk, int pair, VI out[kPairSteps]) {
    const bool tail = chunk == w.tailChunk;
    const E4M3 *p = tail ? w.tail[2 * pair] : w.row[2 * pair] + chunk * kChunk;
    const E4M3 *q = tail ? w.tail[2 * pair + 1] : w.row[2 * pair + 1] + chunk * kChunk;
    const VI a = load<VI>(p), b = load<VI>(q);
    const VI halves[2] = {lowHalves(a, b), highHalves(a, b)};
    DotFamily::expand(reinterpret_cast<const E4M3 *>(&halves[0]), out);
    DotFamily::expand(reinterpret_cast<const E4M3 *>(&halves[1]), out + 2);
  }
};

/// dotTile for pairs: x rows i times w rows j = 2 pair and 2 pair + 1, kBlocked.
template <int MR, int NP, typename Rows>
OCTET_INLINE void dotTilePairs(const VI *x, const Rows &w, int64_t first, int64_t chunks,
                               int64_t chunksPerBlock, const TileScales<2 * NP> &scales, float *out,
                               int64_t ld) {
  VF total[MR][NP];
  VF part[MR][NP];
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NP; ++j)
      total[i][j] = part[i][j] = VF{};
  bool shared = true; // both rows of each pair have one row of scales
  for (int j = 0; j < NP; ++j)
    shared &= scales.row[2 * j] == scales.row[2 * j + 1];

  auto accumulateSteps = [&](int64_t c, int from, int to) __attribute__((always_inline)) {
    const VI *xc = x + c * (MR * DotFamily::kSteps);
    if constexpr (Rows::kStepwise) {
#pragma GCC unroll 4
      for (int s = from; s < to; ++s) {
        VI ws[NP];
#pragma GCC unroll 8
        for (int j = 0; j < NP; ++j)
          ws[j] = Rows::get(w, c, j, s);
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i) {
          const VI xs = halfOfX(xc + i * DotFamily::kSteps, s);
#pragma GCC unroll 8
          for (int j = 0; j < NP; ++j)
            part[i][j] = DotFamily::multiplyAdd(part[i][j], xs, ws[j]);
        }
      }
    } else {
      Rows::prefetch(w, c);
#pragma GCC unroll 8
      for (int j = 0; j < NP; ++j) {
        VI ws[kPairSteps];
        Rows::get(w, c, j, ws);
#pragma GCC unroll 4
        for (int s = from; s < to; ++s)
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i)
            part[i][j] =
                DotFamily::multiplyAdd(part[i][j], halfOfX(xc + i * DotFamily::kSteps, s), ws[s]);
      }
    }
  };
  auto promotePair = [&](int64_t b, int j) __attribute__((always_inline)) {
    const float *low = scales.row[2 * j] + b * scales.stride;
    const float *high = scales.row[2 * j + 1] + b * scales.stride;
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      VF scale = splat(low[i]);
      if (!shared)
        scale = (VF)lowHalves((VI)scale, (VI)splat(high[i]));
      total[i][j] = fma(part[i][j], scale, total[i][j]);
      part[i][j] = VF{};
    }
  };
  auto promote = [&](int64_t b) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int j = 0; j < NP; ++j)
      promotePair(b, j);
  };

  const int64_t end = first + chunks;
  if (chunksPerBlock == 0) { // half a chunk each, so half of the steps
    for (int64_t c = first; c < end; ++c) {
      if constexpr (Rows::kStepwise) {
        accumulateSteps(c, 0, kPairSteps / 2);
        promote(2 * c);
        accumulateSteps(c, kPairSteps / 2, kPairSteps);
        promote(2 * c + 1);
      } else {
        // The same for pair after pair, so that each is expanded once.
        Rows::prefetch(w, c);
        const VI *xc = x + c * (MR * DotFamily::kSteps);
#pragma GCC unroll 8
        for (int j = 0; j < NP; ++j) {
          VI ws[kPairSteps];
          Rows::get(w, c, j, ws);
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 2
            for (int s = 2 * h; s < 2 * h + 2; ++s)
#pragma GCC unroll 8
              for (int i = 0; i < MR; ++i)
                part[i][j] = DotFamily::multiplyAdd(part[i][j],
                                                    halfOfX(xc + i * DotFamily::kSteps, s), ws[s]);
            promotePair(2 * c + h, j);
          }
        }
      }
    }
  } else {
    for (int64_t c = first, b = first / chunksPerBlock; c < end; ++b) {
      const int64_t blockEnd = minOf(end, c + chunksPerBlock);
      for (; c < blockEnd; ++c)
        accumulateSteps(c, 0, kPairSteps);
      promote(b);
    }
  }

  // Four vectors at once: rows of x for packed rows of W, pairs otherwise.
  constexpr int kCount = MR * NP, kInner = Rows::kStepwise ? MR : NP;
#pragma GCC unroll 8
  for (int f = 0; f < kCount; f += 4) {
    auto at = [&](int g) __attribute__((always_inline)) {
      g = minOf(g, kCount - 1);
      return Rows::kStepwise ? total[g % kInner][g / kInner] : total[g / kInner][g % kInner];
    };
    VF4 sums[2];
    sumHalves4(at(f), at(f + 1), at(f + 2), at(f + 3), sums[0], sums[1]);
    for (int half = 0; half < 2; ++half) {
      if constexpr (Rows::kStepwise && kInner == 4) {
        float *p = out + (f / 4 * 2 + half) * ld;
        store(p, first == 0 ? sums[half] : load<VF4>(p) + sums[half]);
      } else {
#pragma GCC unroll 4
        for (int g = f; g < minOf(f + 4, kCount); ++g) {
          const int outer = g / kInner, inner = g % kInner;
          float *p = Rows::kStepwise ? out + (2 * outer + half) * ld + inner
                                     : out + outer * ld + 2 * inner + half;
          *p = first == 0 ? sums[half][g - f] : *p + sums[half][g - f];
        }
      }
    }
  }
}

/// Whole rows: every segment in order.
template <int MR, int NP, typename Rows>
OCTET_INLINE void dotPairsRow(const VI *x, const Rows &w, const ChunkMap &map,
                              const TileScales<2 * NP> &scales, float *out, int64_t ld) {
  int64_t first = 0;
  do {
    const int64_t count = minOf(map.segmentChunks, map.chunks - first);
    dotTilePairs<MR, NP>(x, w, first, count, map.chunksOfScale(), scales, out, ld);
    first += count;
  } while (first < map.chunks);
}

#else

// Named where kByPairs is false.
template <int NP>
struct PackedPairs;
template <int NP>
struct DirectPairs;

#endif // OCTET_SIMD_LEVEL == 2

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_DOTPAIRS_H
