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
//   w         parts [rows, k]   F32, BF16, F16, E4M3   k           its element
//   y         [m, n]            F32, BF16, F16         n           its element
//   scales    see abi.h         F32                                4
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
#include "runtime/kernels/cpu/Dot.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

#if OCTET_SIMD_LEVEL == 0
// 16 registers of half a vector.
constexpr int kTileM = 2, kTileN = 2, kBlockedTileN = 1;
constexpr int kDirectTile = 1, kDirectRows = 2;
#else
// 32 registers: 24 accumulators, or 12 partials and 12 totals; the rest for operands.
constexpr int kTileM = 4, kTileN = 6, kBlockedTileN = 3;
constexpr int kDirectTile = 4, kDirectRows = 16;
#endif
/// Rows of W that a task widens; a multiple of both tiles and of 16.
constexpr int64_t kPanelRows = 48;
/// Rows of x packed at once, and those whose tiles share a pass over a panel.
constexpr int64_t kPackedRows = 512;
constexpr int64_t kPassRows = 64;
/// Rows of W in a unit of the direct path, and bytes of W in a chunk of units.
constexpr int64_t kUnitRows = 16;
constexpr int64_t kDirectChunkBytes = 128 << 10;

static_assert(kPanelRows % kTileN == 0 && kPanelRows % kBlockedTileN == 0 && kPanelRows % 16 == 0,
              "a panel is whole tiles and whole vectors of y");
static_assert(kPassRows % kTileM == 0 && kPackedRows % kPassRows == 0, "a pass is whole tiles");

struct Problem {
  const octet_gemm_desc &desc;
  int64_t m;
  const void *x;
  const float *xScale;
  const octet_weight &w;
  const octet_weight *bias;
  void *y;
  ChunkMap map;
  bool blocked;
};

/// A run of rows of one part.
struct Panel {
  const octet_part *part;
  const octet_part *bias; // or null
  int64_t row;            // first, in the part
  int64_t rows;
  int64_t column; // of y
};

int64_t countPanels(const octet_weight &w, int64_t size) {
  int64_t count = 0;
  for (int64_t p = 0; p < w.num_parts; ++p)
    count += ceilDiv(w.parts[p].rows, size);
  return count;
}

Panel findPanel(const Problem &problem, int64_t index, int64_t size) {
  int64_t column = 0;
  for (int64_t p = 0;; ++p) {
    const octet_part &part = problem.w.parts[p];
    const int64_t count = ceilDiv(part.rows, size);
    if (index < count) {
      const int64_t row = index * size;
      const bool biased = problem.desc.bias_type >= 0 && problem.bias &&
                          p < problem.bias->num_parts && problem.bias->parts[p].data;
      return {&part, biased ? &problem.bias->parts[p] : nullptr, row, minOf(size, part.rows - row),
              column + row};
    }
    index -= count;
    column += part.rows;
  }
}

/// Scale of row i of x in block b.
OCTET_INLINE float xScaleAt(const Problem &problem, int64_t i, int64_t b) {
  switch (problem.desc.x_scale_mode) {
  case OCTET_SCALE_TENSOR:
    return problem.xScale[0];
  case OCTET_SCALE_CHANNEL:
    return problem.xScale[i];
  case OCTET_SCALE_BLOCK:
    return problem.xScale[i * problem.map.blocks + b];
  default:
    return 1.0f;
  }
}

/// The scale row of a row of a part (W5b), and its value in block b.
OCTET_INLINE int64_t scaleRowOf(const Problem &problem, int64_t row) {
  switch (problem.desc.w_scale_mode) {
  case OCTET_SCALE_CHANNEL:
    return row;
  case OCTET_SCALE_BLOCK:
    return row / problem.desc.block_n;
  default:
    return 0;
  }
}
OCTET_INLINE float wScaleAt(const Problem &problem, const octet_part &part, int64_t scaleRow,
                            int64_t b) {
  const float *scale = static_cast<const float *>(part.scale);
  switch (problem.desc.w_scale_mode) {
  case OCTET_SCALE_TENSOR:
  case OCTET_SCALE_CHANNEL:
    return scale[scaleRow];
  case OCTET_SCALE_BLOCK:
    return scale[scaleRow * problem.map.blocks + b];
  default:
    return 1.0f;
  }
}

/// Fills rowScales[j] for the rows of a panel: tables of sx * sw, [block][rows of x, padded to
/// `stride`], one for each scale row that the panel touches.
static void buildScaleTables(const Problem &problem, const Panel &panel, int64_t m0, int64_t rows,
                             int64_t stride, float *table, const float **rowScales) {
  const int64_t blocks = problem.map.blocks;
  int64_t last = -1;
  for (int64_t j = 0; j < panel.rows; ++j) {
    const int64_t scaleRow = scaleRowOf(problem, panel.row + j);
    if (j == 0 || scaleRow != last) {
      if (j > 0)
        table += blocks * stride;
      for (int64_t b = 0; b < blocks; ++b) {
        const float sw = wScaleAt(problem, *panel.part, scaleRow, b);
        for (int64_t i = 0; i < rows; ++i)
          table[b * stride + i] = xScaleAt(problem, m0 + i, b) * sw;
        for (int64_t i = rows; i < stride; ++i)
          table[b * stride + i] = 0;
      }
      last = scaleRow;
    }
    rowScales[j] = table;
  }
}

/// How many scale rows a panel touches.
static int64_t countScaleRows(const Problem &problem, const Panel &panel) {
  return scaleRowOf(problem, panel.row + panel.rows - 1) - scaleRowOf(problem, panel.row) + 1;
}

/// Scales, bias and the one rounding of rows of sums. Columns go by 16: `start` takes those of the
/// panel from `first`, `row` a vector of them.
struct Finish {
  const Problem &problem;
  const Panel &panel;
  bool scaled;
  int64_t first = 0, count = 0;
  VF sw = VF{}, bias = VF{};

  Finish(const Problem &problem, const Panel &panel) : problem(problem), panel(panel) {
    scaled = !problem.blocked && (problem.desc.x_scale_mode != OCTET_SCALE_NONE ||
                                  problem.desc.w_scale_mode != OCTET_SCALE_NONE);
  }
  void start(int64_t column) {
    const octet_gemm_desc &desc = problem.desc;
    first = column;
    count = minOf<int64_t>(16, panel.rows - column);
    sw = splat(1.0f);
    if (scaled && desc.w_scale_mode == OCTET_SCALE_CHANNEL)
      sw = widenFrom(panel.part->scale, panel.row + column, OCTET_F32, count);
    else if (scaled && desc.w_scale_mode == OCTET_SCALE_TENSOR)
      sw = splat(*static_cast<const float *>(panel.part->scale));
    if (panel.bias)
      bias = widenFrom(panel.bias->data, panel.row + column, desc.bias_type, count);
  }
  void row(int64_t i, VF v) const {
    if (scaled)
      v *= xScaleAt(problem, i, 0) * sw;
    if (panel.bias)
      v += bias;
    narrowTo(problem.y, i * problem.desc.n + panel.column + first, problem.desc.y_type, v, count);
  }
};

/// For sums [columns of the panel][ld rows], in squares of 16; reads 16 rows even of the last
/// square.
static void finishColumns(const Problem &problem, const Panel &panel, int64_t m0, int64_t rows,
                          const float *sums, int64_t ld) {
  Finish finish(problem, panel);
  for (int64_t j = 0; j < panel.rows; j += 16) {
    finish.start(j);
    for (int64_t i = 0; i < rows; i += 16) {
      VI square[16];
      for (int c = 0; c < 16; ++c)
        square[c] = load<VI>(sums + (j + c) * ld + i);
      transposeWords(square);
      const int64_t end = minOf<int64_t>(16, rows - i);
      for (int64_t r = 0; r < end; ++r)
        finish.row(m0 + i + r, (VF)square[r]);
    }
  }
}

//===----------------------------------------------------------------------===//
// Few rows: W as it lies
//===----------------------------------------------------------------------===//

template <typename Family, typename W, int MR, bool kBlocked>
static void directUnit(const Problem &problem, const VI *x, int64_t m0, const Panel &panel) {
  // Partials and totals of a block-scaled tile must fit the registers.
  constexpr int NR = kBlocked && MR > 2 ? 2 : 4;
  const ChunkMap &map = problem.map;
  const int64_t k = problem.desc.k;
  const int64_t tailChunk = k % kChunk ? map.chunks - 1 : -1;
  const int64_t tailCount = k % kChunk;
  alignas(64) W tails[NR][kChunk];
  alignas(64) float sums[MR][kUnitRows];
  const float *rowScales[kUnitRows];

  if constexpr (kBlocked) {
    float *table = static_cast<float *>(ThreadPool::threadScratch().get(
        static_cast<size_t>(countScaleRows(problem, panel) * map.blocks * MR) * sizeof(float)));
    buildScaleTables(problem, panel, m0, MR, MR, table, rowScales);
  }
  const W *data = static_cast<const W *>(panel.part->data) + panel.row * k;
  // Tile t of a whole unit is rows t, t + 4, t + 8, t + 12: four streams that each go on for four
  // rows. Neighbours would be four streams in one page or two, which the processor's prefetchers
  // do not follow (a probe of as many bytes right after is 100 %, BF16, one thread: rows of 1 KiB
  // 46 -> 87 %, of 2 KiB 60 -> 94 %, of 11 KiB 83 -> 90 %).
  const bool spread = NR * NR == kUnitRows && panel.rows == kUnitRows;
  for (int64_t j = 0; j < panel.rows; j += NR) {
    DirectRows<Family, W, NR> w;
    TileScales<NR> scales;
    scales.stride = MR;
    w.tailChunk = tailChunk;
    w.start = data + j * k;
    for (int r = 0; r < NR; ++r) {
      // Behind the last row: the last row again, its sums are not used.
      const int64_t row = spread ? j / NR + r * NR : minOf(j + r, panel.rows - 1);
      w.row[r] = data + row * k;
      w.tail[r] = tails[r];
      if (tailCount) {
        memset(tails[r], 0, sizeof tails[r]);
        memcpy(tails[r], w.row[r] + (k - tailCount), static_cast<size_t>(tailCount) * sizeof(W));
      }
      if constexpr (kBlocked)
        scales.row[r] = rowScales[row];
    }
    dotTileRow<Family, MR, NR, kBlocked>(x, w, map, scales, &sums[0][j], kUnitRows);
  }
  Finish finish(problem, panel);
  finish.start(0);
  for (int i = 0; i < MR; ++i) {
    VF v = load<VF>(sums[i]);
    if (spread)
      v = __builtin_shufflevector(v, v, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    finish.row(m0 + i, v);
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
  const int64_t bytes =
      maxOf<int64_t>(1, kUnitRows * problem.desc.k * static_cast<int64_t>(sizeof(W)));
  auto units = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const Panel panel = findPanel(problem, u, kUnitRows);
      if (problem.blocked)
        directTiles<Family, W, true>(problem, x, rows, m0, panel);
      else
        directTiles<Family, W, false>(problem, x, rows, m0, panel);
    }
  };
  pool.parallelChunks(countPanels(problem.w, kUnitRows),
                      maxOf<int64_t>(1, kDirectChunkBytes / bytes), units);
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
template <typename Family, bool kBlocked>
static void multiplySegment(const Problem &problem, const VI *x, int64_t rows, const Panel &panel,
                            const VI *w, int64_t first, int64_t count,
                            const float *const *rowScales, int64_t scaleStride, float *sums,
                            int64_t ld) {
  constexpr int NR = kBlocked ? kBlockedTileN : kTileN;
  for (int64_t pass = 0; pass < rows; pass += kPassRows) {
    // A tile of W stays in the first-level cache while those of x go by, from the second.
    const int64_t end = minOf(rows, pass + kPassRows);
    for (int64_t j = 0; j < panel.rows; j += NR) {
      const PackedRows<Family, NR> tile{w + (j * count - first * NR) * Family::kSteps};
      TileScales<NR> scales;
      scales.stride = scaleStride;
      for (int64_t i = pass; i < end; i += kTileM) {
        if constexpr (kBlocked)
          for (int r = 0; r < NR; ++r)
            scales.row[r] = rowScales[minOf(j + r, panel.rows - 1)] + i;
        dotTile<Family, kTileM, NR, kBlocked>(x + (i * count - first * kTileM) * Family::kSteps,
                                              tile, first, count, problem.map.chunksPerBlock,
                                              scales, sums + j * ld + i, ld);
      }
    }
  }
}

template <typename Family, typename W, bool kBlocked>
static void multiplyPanel(const Problem &problem, const PackedX &x, int64_t row, int64_t rows,
                          const Panel &panel) {
  constexpr int NR = kBlocked ? kBlockedTileN : kTileN;
  const ChunkMap &map = problem.map;
  const int64_t k = problem.desc.k;
  const int64_t ld = ceilDiv(rows, 16) * 16;
  const int64_t vectors = kPanelRows * minOf(map.segmentChunks, map.chunks) * Family::kSteps;
  const int64_t tables = kBlocked ? countScaleRows(problem, panel) * map.blocks * ld : 0;
  VI *w = static_cast<VI *>(ThreadPool::threadScratch().get(
      static_cast<size_t>(vectors) * sizeof(VI) +
      static_cast<size_t>(kPanelRows * ld + tables) * sizeof(float)));
  float *sums = reinterpret_cast<float *>(w + vectors);
  const float *rowScales[kPanelRows];
  if constexpr (kBlocked)
    buildScaleTables(problem, panel, x.row + row, rows, ld, sums + kPanelRows * ld, rowScales);

  const W *data = static_cast<const W *>(panel.part->data) + panel.row * k;
  int64_t first = 0;
  do {
    const int64_t count = minOf(map.segmentChunks, map.chunks - first);
    packRows<Family, W>(data, panel.rows, k, NR, map, first, first + count, w);
    multiplySegment<Family, kBlocked>(problem,
                                      x.p + (first * x.padded + row * count) * Family::kSteps, rows,
                                      panel, w, first, count, rowScales, ld, sums, ld);
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
      if (problem.blocked)
        multiplyPanel<Family, W, true>(problem, x, row, count, panel);
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

void gemm(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
          const float *xScale, const octet_weight &w, const octet_weight *bias, void *y) {
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
  }
}

} // namespace octet::rt::OCTET_LEVEL_NAMESPACE
