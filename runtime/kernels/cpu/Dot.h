//===- Dot.h - Tiles of dot products along K --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The arithmetic of every product, and with it the order of its additions (B5).
//
//   y[i, j] = sum over segments of  sumLanes( sum over chunks of  x[i, chunk] * w[j, chunk] )
//
// A chunk is 64 elements of K, the last of a block or row filled up with zeros. Each (i, j) has one
// accumulator of 16 lanes, whatever the tile; a segment is at most kSegmentChunks chunks, or the
// whole blocks that fit in, and its sum is added to y in FP32. With block scales (N6) the lanes of
// a block's partial are multiplied by sx * sw and added to the accumulator, one rounding. So no
// result depends on the tile, the rows beside it, or the thread. Blocks of 32 elements are halves
// of a chunk: its first and its second half of steps are partials of their own.
//
// Two families:
//   Fma   operands widened to F32, fused multiply-add; lane l takes element 16 s + l of step s.
//   Dot   operands exact in BF16 (BF16 or E4M3), VDPBF16PS, at level bf16 only; lane l takes the
//         pair 2 l, 2 l + 1 of step s. E4M3 weights come in the order that their look-up leaves
//         them (kPermuted); x is packed in the order of w. The instruction reads subnormal BF16 as
//         zero. Blocks (Blocks.h) become BF16 on the way.
//
// At level amx, products of BF16 and E4M3 have another order (Amx.cpp).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_DOT_H
#define OCTET_RUNTIME_KERNELS_CPU_DOT_H

#include "runtime/kernels/cpu/Blocks.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

constexpr int64_t kChunk = 64;
constexpr int64_t kSegmentChunks = 16;
/// How far ahead of its use a row of weights is fetched into the second-level cache: the more work
/// for a byte, the fewer lines the processor asks for by itself.
template <typename T>
constexpr int64_t kAheadBytes = sizeof(T) == 1 || kElements<T> > 1 ? 2048 : 1024;

//===----------------------------------------------------------------------===//
// Families: how 64 elements become kSteps operand vectors
//===----------------------------------------------------------------------===//

struct FmaFamily {
  static constexpr int kSteps = 4;
  OCTET_INLINE VF multiplyAdd(VF acc, VI x, VI w) { return fma((VF)x, (VF)w, acc); }

  template <typename T>
  OCTET_INLINE void expand(const T *p, VI out[kSteps]) {
    for (int s = 0; s < kSteps; ++s)
      out[s] = (VI)widen(p + 16 * s);
  }
  template <typename B, typename T>
  OCTET_INLINE void expand(const Rounded<B, T> *p, VI out[kSteps]) {
    expandFloats(p, out);
  }
  /// x in the order of W's expand: always the natural one here.
  template <typename W, typename T>
  OCTET_INLINE void expandLike(const T *p, VI out[kSteps]) {
    expand(p, out);
  }
};

#if OCTET_SIMD_LEVEL == 2

/// The two bytes of the BF16 of each E4M3 magnitude (N1).
struct WidenTable {
  alignas(64) uint8_t high[128];
  alignas(64) uint8_t low[128];
};
constexpr WidenTable makeWidenTable() {
  WidenTable t{};
  for (int code = 0; code < 128; ++code) {
    int exponent = code >> 3, mantissa = code & 7, bits = 0;
    if (code == 0x7F) {
      bits = 0x7FC0;
    } else if (exponent > 0) {
      bits = (exponent + 120) << 7 | mantissa << 4;
    } else if (mantissa > 0) { // mantissa * 2^-9, normalised
      int top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;
      bits = (127 - 9 + top) << 7 | ((mantissa << (7 - top)) & 0x7F);
    }
    t.high[code] = static_cast<uint8_t>(bits >> 8);
    t.low[code] = static_cast<uint8_t>(bits & 0xFF);
  }
  return t;
}
constexpr WidenTable kWidenTable = makeWidenTable();

/// Whether a type's chunks come in the order of the look-up.
template <typename T>
constexpr bool kPermuted = false;
template <>
constexpr bool kPermuted<E4M3> = true;

OCTET_INLINE void permuteChunk(VI v[2]) {
  const VH a = (VH)v[0], b = (VH)v[1];
  v[0] =
      (VI)__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 32,
                                  33, 34, 35, 36, 37, 38, 39, 48, 49, 50, 51, 52, 53, 54, 55);
  v[1] = (VI)__builtin_shufflevector(a, b, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30,
                                     31, 40, 41, 42, 43, 44, 45, 46, 47, 56, 57, 58, 59, 60, 61, 62,
                                     63);
}
OCTET_INLINE void unpermuteChunk(VI v[2]) {
  const VH a = (VH)v[0], b = (VH)v[1];
  v[0] = (VI)__builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 34, 35, 36, 37, 38, 39,
                                     8, 9, 10, 11, 12, 13, 14, 15, 40, 41, 42, 43, 44, 45, 46, 47);
  v[1] = (VI)__builtin_shufflevector(a, b, 16, 17, 18, 19, 20, 21, 22, 23, 48, 49, 50, 51, 52, 53,
                                     54, 55, 24, 25, 26, 27, 28, 29, 30, 31, 56, 57, 58, 59, 60, 61,
                                     62, 63);
}

/// The 16-bit halves of a and b in turn: (a0, b0), (a1, b1), …
OCTET_INLINE void interleaveHalves(VI a, VI b, VI &low, VI &high) {
  const VH x = (VH)a, y = (VH)b;
  low = (VI)__builtin_shufflevector(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 8,
                                    40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
  high = (VI)__builtin_shufflevector(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54,
                                     23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61, 30, 62,
                                     31, 63);
}

struct DotFamily {
  static constexpr int kSteps = 2;
  /// Whether elements like these come in their own order.
  template <typename T>
  static constexpr bool kNatural = !kPermuted<T>;

  OCTET_INLINE VF multiplyAdd(VF acc, VI x, VI w) {
    return (VF)_mm512_dpbf16_ps((__m512)acc, (__m512bh)x, (__m512bh)w);
  }

  OCTET_INLINE void expand(const BF16 *p, VI out[kSteps]) {
    out[0] = load<VI>(p);
    out[1] = load<VI>(p + 32);
  }
  OCTET_INLINE void expand(const I8 *p, VI out[kSteps]) {
    for (int s = 0; s < kSteps; ++s)
      out[s] = (VI)_mm512_cvtne2ps_pbh((__m512)widen(p + 32 * s + 16), (__m512)widen(p + 32 * s));
  }
  /// Two byte look-ups give the halves of 64 values; interleaving them leaves in out[0] the
  /// elements 0-7, 16-23, 32-39, 48-55 and in out[1] the others.
  OCTET_INLINE void expand(const E4M3 *p, VI out[kSteps]) {
    const __m512i code = load<__m512i>(p);
    __m512i high = _mm512_permutex2var_epi8(load<__m512i>(kWidenTable.high), code,
                                            load<__m512i>(kWidenTable.high + 64));
    const __m512i low = _mm512_permutex2var_epi8(load<__m512i>(kWidenTable.low), code,
                                                 load<__m512i>(kWidenTable.low + 64));
    // high | (code & 0x80)
    high = _mm512_ternarylogic_epi32(high, code, _mm512_set1_epi8(static_cast<char>(0x80)), 0xF8);
    out[0] = (VI)_mm512_unpacklo_epi8(low, high);
    out[1] = (VI)_mm512_unpackhi_epi8(low, high);
  }
  template <typename B>
  OCTET_INLINE void expand(const Rounded<B, BF16> *p, VI out[kSteps]) {
    expandPair(p, out);
  }

  template <typename W, typename T>
  OCTET_INLINE void expandLike(const T *p, VI out[kSteps]) {
    expand(p, out);
    if constexpr (kPermuted<W> && !kPermuted<T>)
      permuteChunk(out);
    if constexpr (!kPermuted<W> && kPermuted<T>)
      unpermuteChunk(out);
  }
};

#endif // OCTET_SIMD_LEVEL == 2

//===----------------------------------------------------------------------===//
// Chunks of K
//===----------------------------------------------------------------------===//

/// Where the chunks of a row lie. Without block scales, one block of length k.
struct ChunkMap {
  int64_t k;
  int64_t block;          // elements
  int64_t blocks;         // cdiv(k, block)
  int64_t chunksPerBlock; // cdiv(block, kChunk)
  int64_t chunks;         // of a row
  int64_t segmentChunks;  // of each segment but the last
  bool halves;            // scales of half a chunk; `block` is the chunk then
  int64_t scaleBlocks;    // of a row of scales
  int64_t tableBlocks;    // the same with the half behind an odd number of halves

  ChunkMap(int64_t k, int64_t block) : k(k), block(maxOf<int64_t>(block, 1)) {
    halves = this->block == kChunk / 2;
    scaleBlocks = ceilDiv(k, this->block);
    if (halves)
      this->block = kChunk;
    block = this->block;
    blocks = ceilDiv(k, block);
    chunksPerBlock = ceilDiv(block, kChunk);
    chunks = blocks ? (blocks - 1) * chunksPerBlock + ceilDiv(k - (blocks - 1) * block, kChunk) : 0;
    segmentChunks = blocks <= 1
                        ? kSegmentChunks
                        : maxOf<int64_t>(1, kSegmentChunks / chunksPerBlock) * chunksPerBlock;
    tableBlocks = halves ? 2 * chunks : scaleBlocks;
  }
  /// Chunks that share a scale; 0 of halves.
  int64_t chunksOfScale() const { return halves ? 0 : chunksPerBlock; }
  /// The first element of a chunk and how many it has.
  int64_t begin(int64_t chunk) const {
    return chunk / chunksPerBlock * block + chunk % chunksPerBlock * kChunk;
  }
  int64_t length(int64_t chunk) const {
    const int64_t b = chunk / chunksPerBlock;
    const int64_t first = begin(chunk);
    return minOf(first + kChunk, minOf((b + 1) * block, k)) - first;
  }
  /// Chunk c is elements [64 c, 64 c + 64), but for the end of the row.
  bool contiguous() const { return blocks <= 1 || block % kChunk == 0; }
};

/// Expands a chunk of `count` elements at `p`, zeros behind them, in the order of W.
template <typename Family, typename W, typename T>
OCTET_INLINE void expandChunk(const T *p, int64_t count, VI *out) {
  if (count == kChunk) {
    Family::template expandLike<W>(p, out);
    return;
  }
  T copy[kChunk / kElements<T>];
  memset(copy, 0, sizeof copy);
  memcpy(copy, p, static_cast<size_t>(count / kElements<T>) * sizeof(T));
  Family::template expandLike<W>(copy, out);
}

/// Packs chunks [firstChunk, endChunk) of `rows` rows of `stride` elements into [cdiv(rows,
/// tile)][chunk][tile] [kSteps] vectors, rows behind the last as zeros.
template <typename Family, typename W, typename T>
static void packRows(const T *p, int64_t rows, int64_t stride, int64_t tile, const ChunkMap &map,
                     int64_t firstChunk, int64_t endChunk, VI *out) {
  for (int64_t t = 0; t < rows; t += tile) {
    for (int64_t c = firstChunk; c < endChunk; ++c) {
      const int64_t first = map.begin(c), count = map.length(c);
      for (int64_t r = 0; r < tile; ++r, out += Family::kSteps) {
        if (t + r < rows)
          expandChunk<Family, W>(p + ((t + r) * stride + first) / kElements<T>, count, out);
        else
          for (int s = 0; s < Family::kSteps; ++s)
            out[s] = VI{};
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Rows of W that packRows has expanded.
template <typename Family, int NR>
struct PackedRows {
  const VI *p; // of the tile, as if it began with chunk 0
  static constexpr bool kStepwise = true;

  OCTET_INLINE VI get(const PackedRows &w, int64_t chunk, int row, int step) {
    return w.p[(chunk * NR + row) * Family::kSteps + step];
  }
};

/// Rows of W as the checkpoint has them; `map.contiguous()`.
template <typename Family, typename T, int NR>
struct DirectRows {
  const T *row[NR];
  const T *tail[NR]; // a chunk each, read for chunk `tailChunk`
  int64_t tailChunk; // -1 if the last chunk is whole
  static constexpr bool kStepwise = false;
  static constexpr int kPerChunk = kChunk / kElements<T>;

  /// Each row goes on in the next tile's: its line some pages ahead, also across their ends, where
  /// the processor's own prefetchers stop.
  OCTET_INLINE void prefetch(const DirectRows &w, int64_t chunk) {
    for (int r = 0; r < NR; ++r) {
      const char *p = reinterpret_cast<const char *>(w.row[r] + chunk * kPerChunk) + kAheadBytes<T>;
      for (int64_t byte = 0; byte < kPerChunk * static_cast<int64_t>(sizeof(T)); byte += 64)
        _mm_prefetch(p + byte, _MM_HINT_T1);
    }
  }

  OCTET_INLINE void get(const DirectRows &w, int64_t chunk, int r, VI out[Family::kSteps]) {
    const T *p = chunk == w.tailChunk ? w.tail[r] : w.row[r] + chunk * kPerChunk;
    Family::expand(p, out);
  }
};

/// The scales of a tile: sx[i, b] * sw[j, b] is at row[j][b * stride + i].
template <int NR>
struct TileScales {
  const float *row[NR];
  int64_t stride;
};

/// The segment [first, first + chunks) of x rows i times w rows j, stored if it is the first and
/// added otherwise: to out[j * ld + i] for packed rows of W, to out[i * ld + j] for direct ones. x
/// is [chunk][MR][kSteps], from the row's beginning. `chunksPerBlock` is 0 where blocks are half a
/// chunk.
template <typename Family, int MR, int NR, bool kBlocked, typename Rows>
OCTET_INLINE void dotTile(const VI *x, const Rows &w, int64_t first, int64_t chunks,
                          int64_t chunksPerBlock, const TileScales<NR> &scales, float *out,
                          int64_t ld) {
  constexpr int S = Family::kSteps;
  VF total[MR][NR];
  VF part[MR][NR];
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; ++j)
      total[i][j] = part[i][j] = VF{};

  auto accumulateSteps = [&](int64_t c, int from, int to) __attribute__((always_inline)) {
    const VI *xc = x + c * (MR * S);
    if constexpr (Rows::kStepwise) {
#pragma GCC unroll 4
      for (int s = from; s < to; ++s) {
        VI xs[MR];
#pragma GCC unroll 8
        for (int i = 0; i < MR; ++i)
          xs[i] = xc[i * S + s];
#pragma GCC unroll 8
        for (int j = 0; j < NR; ++j) {
          const VI ws = Rows::get(w, c, j, s);
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i)
            part[i][j] = Family::multiplyAdd(part[i][j], xs[i], ws);
        }
      }
    } else {
      Rows::prefetch(w, c);
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j) {
        VI ws[S];
        Rows::get(w, c, j, ws);
#pragma GCC unroll 4
        for (int s = from; s < to; ++s)
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i)
            part[i][j] = Family::multiplyAdd(part[i][j], xc[i * S + s], ws[s]);
      }
    }
  };
  auto accumulate = [&](int64_t c) __attribute__((always_inline)) { accumulateSteps(c, 0, S); };
  // Promotes the partials of row j of W to the FP32 accumulator after block b (N6).
  auto promoteRow = [&](int64_t b, int j) __attribute__((always_inline)) {
    const float *s = scales.row[j] + b * scales.stride;
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      total[i][j] = fma(part[i][j], splat(s[i]), total[i][j]);
      part[i][j] = VF{};
    }
  };
  auto promote = [&](int64_t b) __attribute__((always_inline)) {
#pragma GCC unroll 8
    for (int j = 0; j < NR; ++j)
      promoteRow(b, j);
  };

  const int64_t end = first + chunks;
  if constexpr (kBlocked) {
    if (chunksPerBlock == 0) { // half a chunk each
      for (int64_t c = first; c < end; ++c) {
        if constexpr (Rows::kStepwise) {
          accumulateSteps(c, 0, S / 2);
          promote(2 * c);
          accumulateSteps(c, S / 2, S);
          promote(2 * c + 1);
        } else {
          // The same for row after row, so that each is expanded once.
          Rows::prefetch(w, c);
          const VI *xc = x + c * (MR * S);
#pragma GCC unroll 8
          for (int j = 0; j < NR; ++j) {
            VI ws[S];
            Rows::get(w, c, j, ws);
#pragma GCC unroll 2
            for (int h = 0; h < 2; ++h) {
#pragma GCC unroll 2
              for (int s = h * S / 2; s < (h + 1) * S / 2; ++s)
#pragma GCC unroll 8
                for (int i = 0; i < MR; ++i)
                  part[i][j] = Family::multiplyAdd(part[i][j], xc[i * S + s], ws[s]);
              promoteRow(2 * c + h, j);
            }
          }
        }
      }
    } else {
      for (int64_t c = first, b = first / chunksPerBlock; c < end; ++b) {
        const int64_t blockEnd = minOf(end, c + chunksPerBlock);
        for (; c < blockEnd; ++c)
          accumulate(c);
        promote(b);
      }
    }
  } else {
    for (int64_t c = first; c < end; ++c)
      accumulate(c);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < NR; ++j)
        total[i][j] = part[i][j];
  }

  // Four sums at once: columns of y for packed rows of W (by far the most tiles), rows otherwise.
  constexpr bool kByColumns = Rows::kStepwise;
  constexpr int kCount = MR * NR, kInner = kByColumns ? MR : NR;
#pragma GCC unroll 8
  for (int f = 0; f < kCount; f += 4) {
    auto at = [&](int g) __attribute__((always_inline)) {
      g = minOf(g, kCount - 1);
      return kByColumns ? total[g % kInner][g / kInner] : total[g / kInner][g % kInner];
    };
    const VF4 sums = sumLanes4(at(f), at(f + 1), at(f + 2), at(f + 3));
    if constexpr (kInner == 4) {
      float *p = out + f / 4 * ld;
      store(p, first == 0 ? sums : load<VF4>(p) + sums);
    } else {
#pragma GCC unroll 4
      for (int g = f; g < minOf(f + 4, kCount); ++g) {
        float *p = out + g / kInner * ld + g % kInner;
        *p = first == 0 ? sums[g - f] : *p + sums[g - f];
      }
    }
  }
}

/// Whole rows: every segment in order.
template <typename Family, int MR, int NR, bool kBlocked, typename Rows>
OCTET_INLINE void dotTileRow(const VI *x, const Rows &w, const ChunkMap &map,
                             const TileScales<NR> &scales, float *out, int64_t ld) {
  int64_t first = 0;
  do {
    const int64_t count = minOf(map.segmentChunks, map.chunks - first);
    dotTile<Family, MR, NR, kBlocked>(x, w, first, count, map.chunksOfScale(), scales, out, ld);
    first += count;
  } while (first < map.chunks);
}

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_DOT_H
