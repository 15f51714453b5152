//===- Amx.cpp - Products on AMX tiles --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Products of BF16 and E4M3 operands at level amx; all others, and blocks of 32 elements, are those
// of level bf16. The third
// order of additions, beside the two of Dot.h:
//
//   tile        16 rows of W times 16 rows of x. TDPBF16PS adds the 16 pairs of 32 elements of K to
//               each of the 256 sums, one pair after the other, in FP32
//   partial     the tiles of a block of K in order, or, without block scales, those of a segment of
//               kTileChunks chunks
//   sum         partial * sx * sw added, one rounding (N6); without block scales, partials added
//
// No sum depends on the rows beside it, so few rows of x and many have the same order (B5).
//
// W is the left operand, as it lies: rows of 32 elements. x, the smaller matrix, is packed once in
// the pairs that the right operand needs. Few rows of x: BF16 rows of W are read into tiles from
// where they lie, E4M3 ones widened in the first-level cache. Many: a thread packs a panel of W.
//
// The instruction reads and writes subnormals as zero, as VDPBF16PS does.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "runtime/kernels/cpu/Product.h"

#if OCTET_SIMD_LEVEL != 2
#error "AMX tiles are fed by the vectors of level bf16"
#endif

namespace octet::rt {
namespace bf16 {

void gemm(ThreadPool &, const octet_gemm_desc &, int64_t, const void *, const float *,
          const octet_weight &, const octet_weight *, void *);

namespace {

/// Rows and columns of a tile of sums.
constexpr int kTile = 16;
/// Vectors of a chunk's tile of one operand: kSteps tiles of 16 vectors.
constexpr int64_t kChunkVectors = DotFamily::kSteps * kTile;
/// Chunks of a segment: two tiles' rows of W stay in the first-level cache.
constexpr int64_t kTileChunks = 8;
/// Rows of x packed at once; up to kDirectRows, W is read as it lies.
constexpr int64_t kPackedRows = 512, kDirectRows = 32;
/// Rows of W of a task of many rows of x, and of few.
constexpr int64_t kPanelRows = 64, kUnitRows = 256, kSmallUnitRows = 16;
constexpr int64_t kAhead = 2048; // bytes of a row fetched before their use

static_assert(kPanelRows % (2 * kTile) == 0 && kUnitRows % kTile == 0);

struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {kTile, kTile, kTile, kTile, kTile, kTile, kTile, kTile};
};
constexpr TileConfig kConfig;

/// Tiles may be used as long as one lives.
struct UseTiles {
  UseTiles() { _tile_loadconfig(&kConfig); }
  ~UseTiles() { _tile_release(); }
};

/// Where a tile's rows lie: at p, p + stride, …
struct TileRows {
  const void *p;
  int64_t stride; // bytes
};

/// A problem and x in pairs: [16 rows][chunk][kSteps][pair][row] of two BF16.
struct Tiled {
  const Problem &problem;
  const VI *x;
  int64_t row, rows; // of x that are packed

  const VI *pairs(int64_t group, int64_t chunk) const {
    return x + (group * problem.map.chunks + chunk) * kChunkVectors;
  }
};

/// Chunks [first, first + count) of a segment are one partial.
int64_t segmentChunks(const Problem &problem) {
  return problem.blocked ? problem.map.chunksPerBlock : kTileChunks;
}

/// `out` = 16 rows of x from `row`, a chunk each, by pairs.
template <typename W, typename X>
static void packPairs(const Problem &problem, int64_t row, int64_t rows, int64_t chunk, VI *out) {
  const int64_t k = problem.desc.k, first = problem.map.begin(chunk);
  const int64_t count = problem.map.length(chunk);
  VI square[DotFamily::kSteps][kTile];
  for (int r = 0; r < kTile; ++r) {
    VI v[DotFamily::kSteps] = {};
    if (r < rows)
      expandChunk<DotFamily, W>(static_cast<const X *>(problem.x) + (row + r) * k + first, count,
                                v);
    for (int s = 0; s < DotFamily::kSteps; ++s)
      square[s][r] = v[s];
  }
  for (int s = 0; s < DotFamily::kSteps; ++s) {
    transposeWords(square[s]);
    memcpy(out + s * kTile, square[s], sizeof square[s]);
  }
}

/// Adds the partial of a tile, [row of W][row of x], to sums[row of W][ld]; of a block times its
/// scales, which are scale[row of W][row of x].
template <bool kBlocked>
OCTET_INLINE void addPartial(const float *partial, bool first, const float *const *scale,
                             int64_t offset, float *sums, int64_t ld) {
  for (int r = 0; r < kTile; ++r) {
    const VF p = load<VF>(partial + r * kTile);
    float *out = sums + r * ld;
    if constexpr (kBlocked) {
      const VF s = load<VF>(scale[r] + offset);
      store(out, fma(p, s, first ? VF{} : load<VF>(out)));
    } else {
      store(out, first ? p : load<VF>(out) + p);
    }
  }
}

/// Two times two tiles over one partial: rows of W `a` and `b`, rows of x `c` and `d`, from chunk
/// `begin` to `end`. `rowsOf(i, chunk, step)` are the rows of W.
template <int kA, int kC, typename RowsOf>
OCTET_INLINE void multiplyTiles(RowsOf &&rowsOf, const VI *const (&x)[kC], int64_t begin,
                                int64_t end, float (*partial)[kTile * kTile]) {
  // Tiles 0-3 hold sums, 4 and 5 rows of W, 6 and 7 pairs of x.
  _tile_zero(0);
  if constexpr (kC > 1)
    _tile_zero(1);
  if constexpr (kA > 1)
    _tile_zero(2);
  if constexpr (kA > 1 && kC > 1)
    _tile_zero(3);
  for (int64_t c = begin; c < end; ++c) {
    for (int s = 0; s < DotFamily::kSteps; ++s) {
      const TileRows a = rowsOf(0, c, s);
      _tile_loadd(4, a.p, a.stride);
      _tile_loadd(6, x[0] + c * kChunkVectors + s * kTile, 64);
      _tile_dpbf16ps(0, 4, 6);
      if constexpr (kC > 1) {
        _tile_loadd(7, x[1] + c * kChunkVectors + s * kTile, 64);
        _tile_dpbf16ps(1, 4, 7);
      }
      if constexpr (kA > 1) {
        const TileRows b = rowsOf(1, c, s);
        _tile_loadd(5, b.p, b.stride);
        _tile_dpbf16ps(2, 5, 6);
        if constexpr (kC > 1)
          _tile_dpbf16ps(3, 5, 7);
      }
    }
  }
  _tile_stored(0, partial[0], 64);
  if constexpr (kC > 1)
    _tile_stored(1, partial[1], 64);
  if constexpr (kA > 1)
    _tile_stored(2, partial[2], 64);
  if constexpr (kA > 1 && kC > 1)
    _tile_stored(3, partial[3], 64);
}

//===----------------------------------------------------------------------===//
// Few rows of x
//===----------------------------------------------------------------------===//

/// 16 rows of W in memory, t, t + q, t + 2 q, … of a unit: streams that go on for q rows (see
/// directUnit of Gemm.cpp).
template <typename W>
struct Streams {
  const W *row[kTile];
  int64_t index[kTile]; // of the row in the unit
  int64_t stride;       // bytes; 0 if the rows do not lie evenly

  Streams(const W *data, int64_t k, int64_t t, int64_t q, int64_t rows) {
    for (int r = 0; r < kTile; ++r) {
      // Behind the last row: the last row again, with the same sums.
      index[r] = minOf(t + r * q, rows - 1);
      row[r] = data + index[r] * k;
    }
    stride = t + (kTile - 1) * q < rows ? q * k * static_cast<int64_t>(sizeof(W)) : 0;
  }
  OCTET_INLINE void prefetch(const Streams &w, int64_t element) {
    for (int r = 0; r < kTile; ++r) {
      const char *p = reinterpret_cast<const char *>(w.row[r] + element) + kAhead;
      for (size_t byte = 0; byte < kChunk * sizeof(W); byte += 64)
        _mm_prefetch(p + byte, _MM_HINT_T1);
    }
  }
};

/// Sums of a unit, [row][ld].
struct UnitSums {
  float *p;
  int64_t ld;
  const float *const *rowScales; // of each row, if there are blocks
};

/// kA tiles of rows of W, from row t of the unit on, times kC groups of rows of x.
template <typename W, int kA, int kC, bool kBlocked>
static void directTiles(const Tiled &tiled, const W *data, int64_t t, int64_t q, int64_t rows,
                        const UnitSums &sums) {
  const Problem &problem = tiled.problem;
  const ChunkMap &map = problem.map;
  constexpr int64_t kLd = kC * kTile;
  alignas(64) float tileSums[kA][kTile][kLd];
  alignas(64) float partial[4][kTile * kTile];
  alignas(64) VI widened[kA][kTile][DotFamily::kSteps];
  const VI *x[kC];
  for (int c = 0; c < kC; ++c)
    x[c] = tiled.pairs(c, 0);
  const Streams<W> streams[2] = {{data, problem.desc.k, t, q, rows},
                                 {data, problem.desc.k, t + kA - 1, q, rows}};
  const float *scales[kA][kTile] = {};
  if constexpr (kBlocked)
    for (int i = 0; i < kA; ++i)
      for (int r = 0; r < kTile; ++r)
        scales[i][r] = sums.rowScales[streams[i].index[r]];

  auto rowsOf = [&](int i, int64_t c, int s) __attribute__((always_inline)) {
    const Streams<W> &w = streams[i];
    const int64_t first = map.begin(c), count = map.length(c);
    if (s == 0)
      Streams<W>::prefetch(w, first);
    if (sizeof(W) == 2 && w.stride && count == kChunk)
      return TileRows{w.row[0] + first + s * (kChunk / 2), w.stride};
    if (s == 0)
      for (int r = 0; r < kTile; ++r)
        expandChunk<DotFamily, W>(w.row[r] + first, count, widened[i][r]);
    return TileRows{&widened[i][0][s], sizeof widened[i][0]};
  };
  const int64_t step = segmentChunks(problem);
  for (int64_t c = 0, b = 0; c < map.chunks; c += step, ++b) {
    multiplyTiles<kA, kC>(rowsOf, x, c, minOf(c + step, map.chunks), partial);
    for (int i = 0; i < kA; ++i)
      for (int g = 0; g < kC; ++g)
        addPartial<kBlocked>(partial[2 * i + g], c == 0, scales[i], b * kLd + g * kTile,
                             &tileSums[i][0][g * kTile], kLd);
  }
  for (int i = 0; i < kA; ++i)
    for (int r = 0; r < kTile; ++r)
      memcpy(sums.p + streams[i].index[r] * sums.ld, tileSums[i][r], sizeof tileSums[i][r]);
}

/// A unit's rows of W times kC groups of rows of x.
template <typename W, int kC, bool kBlocked>
static void directUnit(const Tiled &tiled, const Panel &panel) {
  const Problem &problem = tiled.problem;
  constexpr int64_t kLd = kC * kTile;
  alignas(64) float sums[kUnitRows * kLd];
  const float *rowScales[kUnitRows];
  if constexpr (kBlocked) {
    float *table = static_cast<float *>(ThreadPool::threadScratch().get(
        static_cast<size_t>(countScaleRows(problem, panel) * problem.map.blocks * kLd) *
        sizeof(float)));
    buildScaleTables(problem, panel, tiled.row, tiled.rows, kLd, table, rowScales);
  }
  const W *data = static_cast<const W *>(panel.part->data) + panel.row * problem.desc.k;
  const int64_t q = ceilDiv(panel.rows, kTile);
  const UnitSums unit{sums, kLd, rowScales};
  int64_t t = 0;
  for (; t + 1 < q; t += 2)
    directTiles<W, 2, kC, kBlocked>(tiled, data, t, q, panel.rows, unit);
  if (t < q)
    directTiles<W, 1, kC, kBlocked>(tiled, data, t, q, panel.rows, unit);
  finishColumns(problem, panel, tiled.row, tiled.rows, sums, kLd);
}

//===----------------------------------------------------------------------===//
// Many rows of x
//===----------------------------------------------------------------------===//

/// Rows [row, row + rows) of the packed x times a panel of W.
template <typename W, bool kBlocked>
static void multiplyPanel(const Tiled &tiled, int64_t row, int64_t rows, const Panel &panel) {
  const Problem &problem = tiled.problem;
  const ChunkMap &map = problem.map;
  const int64_t ld = ceilDiv(rows, 2 * kTile) * 2 * kTile;
  const int64_t tables = kBlocked ? countScaleRows(problem, panel) * map.blocks * ld : 0;
  // Whole blocks of about kTileChunks, so that W is packed piece by piece.
  const int64_t step = segmentChunks(problem);
  const int64_t piece = maxOf<int64_t>(1, kTileChunks / step) * step;
  const int64_t vectors = kPanelRows * piece * DotFamily::kSteps;
  VI *w = static_cast<VI *>(ThreadPool::threadScratch().get(
      static_cast<size_t>(vectors) * sizeof(VI) +
      static_cast<size_t>(kPanelRows * ld + tables) * sizeof(float)));
  float *sums = reinterpret_cast<float *>(w + vectors);
  const float *rowScales[kPanelRows] = {};
  if constexpr (kBlocked) {
    buildScaleTables(problem, panel, tiled.row + row, rows, ld, sums + kPanelRows * ld, rowScales);
    for (int64_t j = panel.rows; j < kPanelRows; ++j)
      rowScales[j] = rowScales[panel.rows - 1];
  }
  alignas(64) float partial[4][kTile * kTile];
  const W *data = static_cast<const W *>(panel.part->data) + panel.row * problem.desc.k;
  for (int64_t first = 0; first < map.chunks; first += piece) {
    const int64_t last = minOf(first + piece, map.chunks);
    packRows<DotFamily, W>(data, panel.rows, problem.desc.k, kTile, map, first, last, w);
    const int64_t tileVectors = (last - first) * kChunkVectors;
    for (int64_t j = 0; j < panel.rows; j += 2 * kTile) {
      const VI *start = w + j / kTile * tileVectors - first * kChunkVectors;
      auto rowsOf = [&](int i, int64_t c, int s) __attribute__((always_inline)) {
        return TileRows{start + i * tileVectors + c * kChunkVectors + s, DotFamily::kSteps * 64};
      };
      for (int64_t i = 0; i < ld; i += 2 * kTile) {
        const int64_t group = (row + i) / kTile;
        const VI *const x[2] = {tiled.pairs(group, 0), tiled.pairs(group + 1, 0)};
        for (int64_t c = first; c < last; c += step) {
          multiplyTiles<2, 2>(rowsOf, x, c, minOf(c + step, last), partial);
          for (int g = 0; g < 4; ++g) {
            const int64_t to = j + g / 2 * kTile;
            addPartial<kBlocked>(partial[g], c == 0, rowScales + to,
                                 c / step * ld + i + g % 2 * kTile,
                                 sums + to * ld + i + g % 2 * kTile, ld);
          }
        }
      }
    }
  }
  finishColumns(problem, panel, tiled.row + row, rows, sums, ld);
}

//===----------------------------------------------------------------------===//
// Tasks
//===----------------------------------------------------------------------===//

template <typename W, bool kBlocked>
static void multiply(ThreadPool &pool, const Tiled &tiled) {
  const Problem &problem = tiled.problem;
  if (tiled.rows <= kDirectRows && problem.map.contiguous()) {
    int64_t size = kUnitRows;
    while (size > kSmallUnitRows && countPanels(problem.w, size) < 2 * int64_t(pool.size()))
      size /= 2;
    pool.parallelChunks(countPanels(problem.w, size), 1, [&](int64_t begin, int64_t end) {
      const UseTiles use;
      for (int64_t u = begin; u < end; ++u) {
        const Panel panel = findPanel(problem, u, size);
        if (tiled.rows <= kTile)
          directUnit<W, 1, kBlocked>(tiled, panel);
        else
          directUnit<W, 2, kBlocked>(tiled, panel);
      }
    });
    return;
  }
  const int64_t panels = countPanels(problem.w, kPanelRows);
  const int64_t passes = ceilDiv(tiled.rows, 2 * kTile);
  // Fewer panels than threads can share: split the rows of x too, at the price of widening twice.
  const int64_t splits =
      minOf(passes, ceilDiv(2 * int64_t(pool.size()), maxOf<int64_t>(panels, 1)));
  const int64_t splitRows = ceilDiv(passes, splits) * 2 * kTile;
  pool.parallelChunks(panels * splits, 1, [&](int64_t begin, int64_t end) {
    const UseTiles use;
    for (int64_t t = begin; t < end; ++t) {
      const int64_t row = t % splits * splitRows;
      const int64_t count = minOf(splitRows, tiled.rows - row);
      if (count > 0)
        multiplyPanel<W, kBlocked>(tiled, row, count, findPanel(problem, t / splits, kPanelRows));
    }
  });
}

template <typename W, typename X>
static void run(ThreadPool &pool, const Problem &problem) {
  const int64_t chunks = problem.map.chunks;
  for (int64_t m0 = 0; m0 < problem.m; m0 += kPackedRows) {
    const int64_t rows = minOf(kPackedRows, problem.m - m0);
    // An even number of groups, those behind the last as zeros.
    const int64_t groups = ceilDiv(rows, 2 * kTile) * 2;
    VI *x = static_cast<VI *>(ThreadPool::callerScratch().get(
        static_cast<size_t>(maxOf<int64_t>(1, groups * chunks) * kChunkVectors) * sizeof(VI)));
    pool.parallelFor(groups * chunks, 8, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t row = t / chunks * kTile;
        packPairs<W, X>(problem, m0 + row, maxOf<int64_t>(0, rows - row), t % chunks,
                        x + t * kChunkVectors);
      }
    });
    const Tiled tiled{problem, x, m0, rows};
    if (problem.blocked)
      multiply<W, true>(pool, tiled);
    else
      multiply<W, false>(pool, tiled);
  }
}

template <typename W>
static void runTypes(ThreadPool &pool, const Problem &problem) {
  if (problem.desc.x_type == OCTET_BF16)
    run<W, BF16>(pool, problem);
  else
    run<W, E4M3>(pool, problem);
}

} // namespace
} // namespace bf16

namespace amx {

void gemm(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
          const float *xScale, const octet_weight &w, const octet_weight *bias, void *y) {
  using namespace bf16;
  const bool tiles = (desc.x_type == OCTET_BF16 || desc.x_type == OCTET_E4M3) &&
                     (desc.w_type == OCTET_BF16 || desc.w_type == OCTET_E4M3) && desc.k > 0;
  if (!tiles)
    return bf16::gemm(pool, desc, m, x, xScale, w, bias, y);
  const bool blocked =
      desc.w_scale_mode == OCTET_SCALE_BLOCK || desc.x_scale_mode == OCTET_SCALE_BLOCK;
  const Problem problem{
      desc, m, x, xScale, w, bias, y, ChunkMap(desc.k, blocked ? desc.block_k : desc.k), blocked};
  // A tile's step holds elements of both halves of a chunk.
  if (problem.map.halves)
    return bf16::gemm(pool, desc, m, x, xScale, w, bias, y);
  if (desc.w_type == OCTET_BF16)
    runTypes<BF16>(pool, problem);
  else
    runTypes<E4M3>(pool, problem);
}

} // namespace amx
} // namespace octet::rt
