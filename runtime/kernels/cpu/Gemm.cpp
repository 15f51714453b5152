//===- Gemm.cpp - Y = X W^T + bias ------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   block scales        y[i,j] = round( sum_b sx[i,b] sw[row(j),b] sum_{k in b} x[i,k] w[j,k] +
//   bias[j] )  (N6) other scales, none  y[i,j] = round( (sum_k x[i,k] w[j,k]) (sx[i] sw[j]) +
//   bias[j] )                    (N6b)
//
//   operand   shape             types                  contiguous  aligned to
//   x         [m, k]            F32, BF16, F16, E4M3   k           its element
//   w         parts [rows, k]   F32, BF16, F16, E4M3,  k           its element
//                               I8
//                               Q8_0                   k           1; 32 divides k (Blocks.h)
//   y         [m, n]            F32, BF16, F16         n           its element
//   scales    see abi.h         F32; of w also E8M0                its element
//
// I8 on both sides is GemmInt8.cpp's.
//
// Sums are FP32, in the order of Dot.h; y is rounded once. K, N and the last block may be ragged
// (W4), a part may have any number of rows and starts its own scale rows (W5b).
//
// Up to kDirectRows rows of x, each thread reads its rows of W from memory once, as they lie
// (decode: bound by memory), kDirectTile rows of x at a time. Above, a thread widens kPanelRows
// rows of W into scratch and multiplies them by tiles of x that were packed once (prefill: bound by
// arithmetic). Both add in the same order.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "runtime/kernels/cpu/DotPairs.h"
#include "runtime/kernels/cpu/Product.h"

#include <type_traits>

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

#if OCTET_SIMD_LEVEL == 0
// 16 registers of half a vector.
constexpr int kTileM = 2, kTileN = 2, kBlockedTileN = 1, kPairsTileN = 2;
constexpr int kDirectTile = 1, kDirectRows = 2;
#else
// 32 registers: 24 accumulators, or 12 partials and 12 totals; the rest for operands.
constexpr int kTileM = 4, kTileN = 6, kBlockedTileN = 3, kPairsTileN = 6;
constexpr int kDirectTile = 4, kDirectRows = 16;
#endif
/// Rows of W that a task widens; a multiple of both tiles and of 16.
constexpr int64_t kPanelRows = 48;
/// Rows of x packed at once, and those whose tiles share a pass over a panel.
constexpr int64_t kPackedRows = 512;
constexpr int64_t kPassRows = 64;
/// Most rows of W in a unit of the direct path, the fewest where threads share, and units a thread:
/// long streams are worth more than an even end (135M, two threads: 8 a thread 198, 2 a thread 231
/// tokens a second).
constexpr int64_t kUnitRows = 256, kSmallUnitRows = 16;
constexpr int64_t kUnitsPerThread = 2;

static_assert(kPanelRows % kTileN == 0 && kPanelRows % kBlockedTileN == 0 &&
                  kPanelRows % kPairsTileN == 0 && kPanelRows % 16 == 0,
              "a panel is whole tiles and whole vectors of y");
static_assert(kPassRows % kTileM == 0 && kPackedRows % kPassRows == 0, "a pass is whole tiles");

/// Rows of W in a tile of a panel.
template <typename Family, typename W, bool kBlocked>
constexpr int kPanelTileN = kByPairs<Family, W, kBlocked> ? kPairsTileN
                            : kBlocked                    ? kBlockedTileN
                                                          : kTileN;

/// Blocks have scales of their own.
template <typename W>
constexpr bool kMayBlock = kElements<W> == 1 && !std::is_same_v<W, I8>;

//===----------------------------------------------------------------------===//
// Few rows: W as it lies
//===----------------------------------------------------------------------===//

/// Rows of W in a tile: as many as registers hold where W is widened, so that reading x is little
/// beside that.
template <typename Family, typename W, int MR, bool kBlocked>
constexpr int kDirectTileN = OCTET_SIMD_LEVEL == 0                ? 4
                             : kByPairs<Family, W, kBlocked>      ? (MR > 2 ? 4 : 8)
                             : kBlocked                           ? (MR > 2 ? 2 : 4)
                             : sizeof(W) == 1 || kElements<W> > 1 ? (MR > 2 ? 4 : 8)
                                                                  : 4;

/// Tile t of a unit is rows t, t + q, t + 2 q, … with q the NR-th part of the unit: NR streams that
/// each go on for q rows. Neighbours would be NR streams in one page or two, which the processor's
/// prefetchers do not follow. (In shares of a probe right before and after, one thread, rows of 2
/// and 5.5 KiB: BF16 16 rows in a unit 86-93 %, 128 rows 105 %; E4M3 87 and 74 %, then 94 and
/// 92 %.)
template <typename Family, typename W, int MR, bool kBlocked>
static void directUnit(const Problem &problem, const VI *x, int64_t m0, const Panel &panel) {
  constexpr bool kPairs = kByPairs<Family, W, kBlocked>;
  constexpr int NR = kDirectTileN<Family, W, MR, kBlocked>;
  const ChunkMap &map = problem.map;
  const int64_t k = problem.desc.k / kElements<W>; // of a row, in memory
  const int64_t tailCount = k % (kChunk / kElements<W>);
  alignas(64) W tails[NR][kChunk / kElements<W>];
  alignas(64) float sums[MR][kUnitRows];
  const float *rowScales[kUnitRows];

  if constexpr (kBlocked) {
    float *table = static_cast<float *>(ThreadPool::threadScratch().get(
        static_cast<size_t>(countScaleRows(problem, panel) * map.tableBlocks * MR) *
        sizeof(float)));
    buildScaleTables(problem, panel, m0, MR, MR, table, rowScales);
  }
  const W *data = static_cast<const W *>(panel.part->data) + panel.row * k;
  const int64_t q = ceilDiv(panel.rows, NR);
  for (int64_t t = 0; t < q; ++t) {
    std::conditional_t<kPairs, DirectPairs<NR / 2>, DirectRows<Family, W, NR>> w;
    TileScales<NR> scales;
    scales.stride = MR;
    w.tailChunk = tailCount ? map.chunks - 1 : -1;
    int64_t rows[NR];
    for (int r = 0; r < NR; ++r) {
      // Behind the last row: the last row again, with the same sums.
      rows[r] = minOf(t + r * q, panel.rows - 1);
      w.row[r] = data + rows[r] * k;
      w.tail[r] = tails[r];
      if (tailCount) {
        memset(tails[r], 0, sizeof tails[r]);
        memcpy(tails[r], w.row[r] + (k - tailCount), static_cast<size_t>(tailCount) * sizeof(W));
      }
      if constexpr (kBlocked)
        scales.row[r] = rowScales[rows[r]];
    }
    float tile[MR][NR];
    if constexpr (kPairs)
      dotPairsRow<MR, NR / 2>(x, w, map, scales, &tile[0][0], NR);
    else
      dotTileRow<Family, MR, NR, kBlocked>(x, w, map, scales, &tile[0][0], NR);
    for (int i = 0; i < MR; ++i)
      for (int r = 0; r < NR; ++r)
        sums[i][rows[r]] = tile[i][r];
  }
  Finish finish(problem, panel);
  for (int64_t j = 0; j < panel.rows; j += 16) {
    finish.start(j);
    for (int i = 0; i < MR; ++i)
      finish.row(m0 + i, load<VF>(sums[i] + j));
  }
}

template <typename Family, typename W, bool kBlocked>
static void directTiles(const Problem &problem, const VI *x, int64_t rows, int64_t m0,
                        const Panel &panel) {
  const int64_t rowVectors = problem.map.chunks * Family::kSteps;
  for (int64_t i = 0; i < rows; i += kDirectTile) {
    const VI *tile = x + i * rowVectors;
    switch (minOf<int64_t>(kDirectTile, rows - i)) {
    case 1:
      directUnit<Family, W, 1, kBlocked>(problem, tile, m0 + i, panel);
      break;
#if OCTET_SIMD_LEVEL > 0
    case 2:
      directUnit<Family, W, 2, kBlocked>(problem, tile, m0 + i, panel);
      break;
    case 3:
      directUnit<Family, W, 3, kBlocked>(problem, tile, m0 + i, panel);
      break;
    case 4:
      directUnit<Family, W, 4, kBlocked>(problem, tile, m0 + i, panel);
      break;
#endif
    }
  }
}

template <typename Family, typename W>
static void direct(ThreadPool &pool, const Problem &problem, const VI *x, int64_t rows,
                   int64_t m0) {
  const int64_t wanted = pool.size() > 1 ? kUnitsPerThread * int64_t(pool.size()) : 1;
  int64_t size = kUnitRows;
  while (size > kSmallUnitRows && countPanels(problem.w, size) < wanted)
    size /= 2;
  auto units = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const Panel panel = findPanel(problem, u, size);
      if (kMayBlock<W> && problem.blocked)
        directTiles<Family, W, kMayBlock<W>>(problem, x, rows, m0, panel);
      else
        directTiles<Family, W, false>(problem, x, rows, m0, panel);
    }
  };
  pool.parallelChunks(countPanels(problem.w, size), 1, units);
}

//===----------------------------------------------------------------------===//
// Many rows: W widened into panels
//===----------------------------------------------------------------------===//

/// Rows [row, row + padded) of x, packed for panels: [segment][tile][chunk][kTileM][kSteps], so
/// that a pass over a segment reads one piece of memory.
struct PackedX {
  const VI *p;
  int64_t row;
  int64_t padded; // rows, whole tiles
};

/// One segment of K of a panel: `w` packed in tiles, times rows [0, rows) of `x`, packed in tiles
/// too, to sums [column][ld].
template <typename Family, typename W, bool kBlocked>
static void multiplySegment(const Problem &problem, const VI *x, int64_t rows, const Panel &panel,
                            const VI *w, int64_t first, int64_t count,
                            const float *const *rowScales, int64_t scaleStride, float *sums,
                            int64_t ld) {
  constexpr bool kPairs = kByPairs<Family, W, kBlocked>;
  constexpr int NR = kPanelTileN<Family, W, kBlocked>;
  const int64_t blockChunks = problem.map.chunksOfScale();
  for (int64_t pass = 0; pass < rows; pass += kPassRows) {
    // A tile of W stays in the first-level cache while those of x go by, from the second.
    const int64_t end = minOf(rows, pass + kPassRows);
    for (int64_t j = 0; j < panel.rows; j += NR) {
      const VI *start = w + (j * count - first * NR) * Family::kSteps;
      const std::conditional_t<kPairs, PackedPairs<NR / 2>, PackedRows<Family, NR>> tile{start};
      TileScales<NR> scales;
      scales.stride = scaleStride;
      for (int64_t i = pass; i < end; i += kTileM) {
        if constexpr (kBlocked)
          for (int r = 0; r < NR; ++r)
            scales.row[r] = rowScales[minOf(j + r, panel.rows - 1)] + i;
        const VI *xs = x + (i * count - first * kTileM) * Family::kSteps;
        float *out = sums + j * ld + i;
        if constexpr (kPairs)
          dotTilePairs<kTileM, NR / 2>(xs, tile, first, count, blockChunks, scales, out, ld);
        else
          dotTile<Family, kTileM, NR, kBlocked>(xs, tile, first, count, blockChunks, scales, out,
                                                ld);
      }
    }
  }
}

template <typename Family, typename W, bool kBlocked>
static void multiplyPanel(const Problem &problem, const PackedX &x, int64_t row, int64_t rows,
                          const Panel &panel) {
  constexpr int NR = kPanelTileN<Family, W, kBlocked>;
  const ChunkMap &map = problem.map;
  const int64_t k = problem.desc.k;
  const int64_t ld = ceilDiv(rows, 16) * 16;
  const int64_t vectors = kPanelRows * minOf(map.segmentChunks, map.chunks) * Family::kSteps;
  const int64_t tables = kBlocked ? countScaleRows(problem, panel) * map.tableBlocks * ld : 0;
  VI *w = static_cast<VI *>(ThreadPool::threadScratch().get(
      static_cast<size_t>(vectors) * sizeof(VI) +
      static_cast<size_t>(kPanelRows * ld + tables) * sizeof(float)));
  float *sums = reinterpret_cast<float *>(w + vectors);
  const float *rowScales[kPanelRows];
  if constexpr (kBlocked)
    buildScaleTables(problem, panel, x.row + row, rows, ld, sums + kPanelRows * ld, rowScales);

  const W *data = static_cast<const W *>(panel.part->data) + panel.row * k / kElements<W>;
  int64_t first = 0;
  do {
    const int64_t count = minOf(map.segmentChunks, map.chunks - first);
    if constexpr (kByPairs<Family, W, kBlocked>)
      packPairs(data, panel.rows, k, NR, map, first, first + count, w);
    else
      packRows<Family, W>(data, panel.rows, k, NR, map, first, first + count, w);
    multiplySegment<Family, W, kBlocked>(problem,
                                         x.p + (first * x.padded + row * count) * Family::kSteps,
                                         rows, panel, w, first, count, rowScales, ld, sums, ld);
    first += count;
  } while (first < map.chunks);
  finishColumns(problem, panel, x.row + row, rows, sums, ld);
}

template <typename Family, typename W>
static void packed(ThreadPool &pool, const Problem &problem, const PackedX &x, int64_t rows) {
  const int64_t panels = countPanels(problem.w, kPanelRows);
  const int64_t passes = ceilDiv(rows, kPassRows);
  // Fewer panels than threads can share: split the rows of x too, at the price of widening twice.
  const int64_t splits =
      minOf(passes, ceilDiv(2 * int64_t(pool.size()), maxOf<int64_t>(panels, 1)));
  const int64_t splitRows = ceilDiv(passes, splits) * kPassRows;
  auto tasks = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Panel panel = findPanel(problem, t / splits, kPanelRows);
      const int64_t row = t % splits * splitRows;
      const int64_t count = minOf(splitRows, rows - row);
      if (count <= 0)
        continue;
      if (kMayBlock<W> && problem.blocked)
        multiplyPanel<Family, W, kMayBlock<W>>(problem, x, row, count, panel);
      else
        multiplyPanel<Family, W, false>(problem, x, row, count, panel);
    }
  };
  pool.parallelChunks(panels * splits, 1, tasks);
}

//===----------------------------------------------------------------------===//
// Choice of types
//===----------------------------------------------------------------------===//

template <typename Family, typename W, typename X>
static void run(ThreadPool &pool, const Problem &problem) {
  const ChunkMap &map = problem.map;
  const X *x = static_cast<const X *>(problem.x);
  const int64_t k = problem.desc.k;
  const int64_t rowVectors = map.chunks * Family::kSteps;
  for (int64_t m0 = 0; m0 < problem.m; m0 += kPackedRows) {
    const int64_t rows = minOf(kPackedRows, problem.m - m0);
    const X *first = x + m0 * k;
    if (rows <= kDirectRows && map.contiguous()) {
      VI *xs = static_cast<VI *>(
          ThreadPool::callerScratch().get(static_cast<size_t>(rows * rowVectors) * sizeof(VI)));
      for (int64_t i = 0; i < rows; i += kDirectTile) {
        const int64_t count = minOf<int64_t>(kDirectTile, rows - i);
        packRows<Family, W>(first + i * k, count, k, count, map, 0, map.chunks,
                            xs + i * rowVectors);
      }
      direct<Family, W>(pool, problem, xs, rows, m0);
      continue;
    }
    const int64_t padded = ceilDiv(rows, kTileM) * kTileM;
    VI *xs = static_cast<VI *>(
        ThreadPool::callerScratch().get(static_cast<size_t>(padded * rowVectors) * sizeof(VI)));
    auto pack = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t i = t * kTileM;
        for (int64_t c = 0; c < map.chunks; c += map.segmentChunks) {
          const int64_t count = minOf(map.segmentChunks, map.chunks - c);
          packRows<Family, W>(first + i * k, minOf<int64_t>(kTileM, rows - i), k, kTileM, map, c,
                              c + count, xs + (c * padded + i * count) * Family::kSteps);
        }
      }
    };
    pool.parallelFor(padded / kTileM, 4, pack);
    packed<Family, W>(pool, problem, PackedX{xs, m0, padded}, rows);
  }
}

template <typename W>
static void runFma(ThreadPool &pool, const Problem &problem) {
  switch (problem.desc.x_type) {
  case OCTET_F32:
    return run<FmaFamily, W, F32>(pool, problem);
  case OCTET_BF16:
    return run<FmaFamily, W, BF16>(pool, problem);
  case OCTET_F16:
    return run<FmaFamily, W, F16>(pool, problem);
  case OCTET_E4M3:
    return run<FmaFamily, W, E4M3>(pool, problem);
  }
}

/// Integers beside values of x that are not quantised (B4).
static void runInt8(ThreadPool &pool, const Problem &problem) {
  switch (problem.desc.x_type) {
  case OCTET_F32:
    return run<FmaFamily, I8, F32>(pool, problem);
  case OCTET_BF16:
    return run<FmaFamily, I8, BF16>(pool, problem);
  case OCTET_F16:
    return run<FmaFamily, I8, F16>(pool, problem);
  }
}

/// Weights in blocks, rounded to the type of x.
template <typename B>
static void runBlocks(ThreadPool &pool, const Problem &problem) {
  switch (problem.desc.x_type) {
  case OCTET_F32:
    return run<FmaFamily, Rounded<B, F32>, F32>(pool, problem);
  case OCTET_BF16:
#if OCTET_SIMD_LEVEL == 2
    return run<DotFamily, Rounded<B, BF16>, BF16>(pool, problem);
#else
    return run<FmaFamily, Rounded<B, BF16>, BF16>(pool, problem);
#endif
  case OCTET_F16:
    return run<FmaFamily, Rounded<B, F16>, F16>(pool, problem);
  }
}

#if OCTET_SIMD_LEVEL == 2
template <typename W>
static void runDot(ThreadPool &pool, const Problem &problem) {
  if (problem.desc.x_type == OCTET_BF16)
    run<DotFamily, W, BF16>(pool, problem);
  else
    run<DotFamily, W, E4M3>(pool, problem);
}
#endif

} // namespace

// GemmInt8.cpp
void gemmInt8(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
              const float *xScale, const octet_weight &w, const octet_weight *bias, void *y);
// TiledGemm.cpp
void tiledGemm(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
               const octet_weight &w, const octet_weight *bias, void *y);

void gemm(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
          const float *xScale, const octet_weight &w, const octet_weight *bias, void *y) {
  if (desc.x_type == OCTET_I8)
    return gemmInt8(pool, desc, m, x, xScale, w, bias, y);
  if (desc.w_type == OCTET_TILES)
    return tiledGemm(pool, desc, m, x, w, bias, y);
  const bool blocked =
      desc.w_scale_mode == OCTET_SCALE_BLOCK || desc.x_scale_mode == OCTET_SCALE_BLOCK;
  const Problem problem{
      desc, m, x, xScale, w, bias, y, ChunkMap(desc.k, blocked ? desc.block_k : desc.k), blocked};
#if OCTET_SIMD_LEVEL == 2
  if (desc.x_type == OCTET_BF16 || desc.x_type == OCTET_E4M3) {
    if (desc.w_type == OCTET_BF16)
      return runDot<BF16>(pool, problem);
    if (desc.w_type == OCTET_E4M3)
      return runDot<E4M3>(pool, problem);
    if (desc.w_type == OCTET_I8 && desc.x_type == OCTET_BF16)
      return run<DotFamily, I8, BF16>(pool, problem);
  }
#endif
  switch (desc.w_type) {
  case OCTET_F32:
    return runFma<F32>(pool, problem);
  case OCTET_BF16:
    return runFma<BF16>(pool, problem);
  case OCTET_F16:
    return runFma<F16>(pool, problem);
  case OCTET_E4M3:
    return runFma<E4M3>(pool, problem);
  case OCTET_I8:
    return runInt8(pool, problem);
  case OCTET_Q8_0:
    return runBlocks<Q8_0>(pool, problem);
  }
}

} // namespace octet::rt::OCTET_LEVEL_NAMESPACE
