//===- TiledGemm.cpp - Y = X W^T + bias, W in tiles -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   operand   shape             types                  contiguous  aligned to
//   x         [m, k]            F32, BF16, F16         k           its element
//   w         parts in tiles    OCTET_TILES            -           64
//   y         [m, n]            F32, BF16, F16         n           its element
//   bias      parts [rows]      F32, BF16, F16
//
// The arithmetic is that of Tiles.h: 4- and 8-bit weights only (B4). The numbers of the codes are
// not rounded to the type of x; x is.
//
// Up to kDirectRows rows of x, a thread reads its tiles from memory once and widens them on the
// way. Above, it widens some groups of a tile into scratch, which all
// rows of x then read. Both add in the same order, so a row's result does not depend on the others
// (B5).
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "runtime/kernels/cpu/Tiles.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

#if OCTET_SIMD_LEVEL == 0
// 16 registers of half a vector.
constexpr int kDirectRows = 1, kWideM = 2, kWideN = 1;
#else
constexpr int kDirectRows = 4, kWideM = 6, kWideN = 2;
#endif
/// Rows of x packed at once.
constexpr int64_t kPackedRows = 512;
/// Columns of a tile that are widened together: they stay in the first- or second-level cache.
constexpr int64_t kWideColumns = 128;
/// Most tiles of a task of the direct path.
constexpr int64_t kUnitTiles = 4;

struct Problem {
  const octet_gemm_desc &desc;
  const octet_weight &w;
  const octet_weight *bias;
  void *y;
};

/// Tiles [tile, tile + tiles) of a part.
struct Unit {
  const octet_part *part;
  const octet_part *bias; // or null
  int64_t index;          // of the part
  int64_t tile, tiles;
  int64_t column; // of y where the part begins
};

int64_t countUnits(const octet_weight &w, int64_t size) {
  int64_t count = 0;
  for (int64_t p = 0; p < w.num_parts; ++p)
    count += ceilDiv(TileLayout::tiles(w.parts[p].rows), size);
  return count;
}

Unit findUnit(const Problem &problem, int64_t index, int64_t size) {
  int64_t column = 0;
  for (int64_t p = 0;; ++p) {
    const octet_part &part = problem.w.parts[p];
    const int64_t tiles = TileLayout::tiles(part.rows), count = ceilDiv(tiles, size);
    if (index < count) {
      const bool biased = problem.desc.bias_type >= 0 && problem.bias &&
                          p < problem.bias->num_parts && problem.bias->parts[p].data;
      return {&part,        biased ? &problem.bias->parts[p] : nullptr, p,
              index * size, minOf(size, tiles - index * size),          column};
    }
    index -= count;
    column += part.rows;
  }
}

/// Writes sums of 16 rows of W, [rows of x][ld], to the columns of y: global scale, bias, one
/// rounding. `row` is the first of W in its part.
static void finish(const Problem &problem, const Unit &unit, int64_t row, int64_t m0, int64_t rows,
                   const float *sums, int64_t ld) {
  const int64_t count = minOf<int64_t>(16, unit.part->rows - row);
  if (count <= 0)
    return;
  const octet_gemm_desc &desc = problem.desc;
  const bool scaled = desc.w_scale_mode == OCTET_SCALE_TENSOR;
  const VF scale = splat(scaled ? *static_cast<const float *>(unit.part->scale) : 1.0f);
  const VF bias = unit.bias ? widenFrom(unit.bias->data, row, desc.bias_type, count) : VF{};
  for (int64_t i = 0; i < rows; ++i) {
    VF v = load<VF>(sums + i * ld);
    if (scaled)
      v *= scale;
    if (unit.bias)
      v += bias;
    narrowTo(problem.y, (m0 + i) * desc.n + unit.column + row, desc.y_type, v, count);
  }
}

//===----------------------------------------------------------------------===//
// x
//===----------------------------------------------------------------------===//

/// One element of x, in the type of the family.
OCTET_INLINE void copyOne(const void *x, int32_t type, int64_t from, void *out, int64_t to,
                          const TileFma *) {
  const size_t bytes = type == OCTET_F32 ? 4 : 2;
  const char *p = static_cast<const char *>(x) + from * static_cast<int64_t>(bytes);
  static_cast<float *>(out)[to] = type == OCTET_F32    ? widenOne(reinterpret_cast<const F32 *>(p))
                                  : type == OCTET_BF16 ? widenOne(reinterpret_cast<const BF16 *>(p))
                                                       : widenOne(reinterpret_cast<const F16 *>(p));
}
/// `count` elements that follow each other.
OCTET_INLINE void copyRun(const void *x, int32_t type, int64_t from, void *out, int64_t to,
                          int64_t count, const TileFma *) {
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t n = minOf<int64_t>(16, count - i);
    narrowTo(out, to + i, OCTET_F32, widenFrom(x, from + i, type, n), n);
  }
}
#if OCTET_SIMD_LEVEL == 2
OCTET_INLINE void copyOne(const void *x, int32_t, int64_t from, void *out, int64_t to,
                          const TileDot *) {
  memcpy(static_cast<char *>(out) + 2 * to, static_cast<const char *>(x) + 2 * from, 2);
}
OCTET_INLINE void copyRun(const void *x, int32_t, int64_t from, void *out, int64_t to,
                          int64_t count, const TileDot *) {
  memcpy(static_cast<char *>(out) + 2 * to, static_cast<const char *>(x) + 2 * from,
         static_cast<size_t>(2 * count));
}
#endif

/// The sum of `count` elements: vectors of 16 added in order, then their lanes.
template <typename F>
OCTET_INLINE VF sumVector(const void *row, int64_t begin, int64_t count) {
  VF sum = {};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16)
    sum += widenFrom(row, begin + i, F::kType, 16);
  if (i < count)
    sum += widenFrom(row, begin + i, F::kType, count - i);
  return sum;
}

#if OCTET_SIMD_LEVEL > 0
/// rows[i][u] to out[u * size + i] for `size` rows of `count` words, a multiple of 16.
class Interleave {
public:
  explicit Interleave(int64_t size) : size(size) {
    for (int64_t v = 0; v < size; ++v)
      for (int64_t lane = 0; lane < 16; ++lane) {
        const int64_t word = 16 * v + lane;
        unit[v][lane] = static_cast<int32_t>(word / size);
        for (int64_t i = 0; i < size; ++i)
          mask[v][i] |= static_cast<__mmask16>((word % size == i) << lane);
      }
  }
  void run(const uint32_t *rows, int64_t stride, int64_t count, uint32_t *out) const {
    for (int64_t u = 0; u < count; u += 16) {
      __m512i row[kWideM];
      for (int64_t i = 0; i < size; ++i)
        row[i] = _mm512_loadu_si512(rows + i * stride + u);
      for (int64_t v = 0; v < size; ++v) {
        __m512i words = _mm512_setzero_si512();
        for (int64_t i = 0; i < size; ++i)
          words = _mm512_mask_permutexvar_epi32(words, mask[v][i], (__m512i)unit[v], row[i]);
        _mm512_storeu_si512(out + u * size + 16 * v, words);
      }
    }
  }

private:
  int64_t size;
  VI unit[kWideM];
  __mmask16 mask[kWideM][kWideM] = {};
};
#else
class Interleave {
public:
  explicit Interleave(int64_t size) : size(size) {}
  void run(const uint32_t *rows, int64_t stride, int64_t count, uint32_t *out) const {
    for (int64_t u = 0; u < count; ++u)
      for (int64_t i = 0; i < size; ++i)
        out[u * size + i] = rows[i * stride + u];
  }

private:
  int64_t size;
};
#endif

/// Rows in tiles of nearly equal size, at most `most`.
struct RowTiles {
  int64_t rows, tiles, least, longer; // `longer` tiles have one row more

  RowTiles(int64_t rows, int64_t most)
      : rows(rows), tiles(ceilDiv(rows, most)), least(rows / tiles), longer(rows % tiles) {}
  int64_t begin(int64_t tile) const { return tile * least + minOf(tile, longer); }
  int64_t size(int64_t tile) const { return least + (tile < longer); }
};

/// Rows of x for all parts, or for those of one order of columns: row by row, or in `tiles`, the
/// units of whose rows stand side by side.
template <typename F>
class PackedX {
public:
  PackedX(const TileFormat<F> &format, int64_t rows, int64_t orders)
      : layout(format.layout), sums(format.groups.offset != OCTET_OFFSET_NONE), rows(rows) {
    constexpr int64_t kUnitsOfVector = F::kSteps;
    unitStride = ceilDiv(layout.paddedColumns() / TileLayout::kColumns * kUnitsOfVector, 16) * 16;
    sumStride = sums ? ceilDiv(layout.groups(), 16) * 16 : 0;
    bytesOfOrder = rows * (unitStride + sumStride) * 4;
    // Sums that are not wanted are read all the same.
    data = static_cast<char *>(ThreadPool::callerScratch().get(
        static_cast<size_t>(orders * bytesOfOrder + layout.groups() * 4)));
    zeros = reinterpret_cast<float *>(data + orders * bytesOfOrder);
    if (!sums)
      memset(zeros, 0, static_cast<size_t>(layout.groups()) * 4);
  }

  /// Row `from` of x as row `row`. \param columns  the column that stands at each place, or null:
  /// in order.
  void packRow(const void *x, int32_t type, int64_t k, int64_t from, int64_t order, int64_t row,
               const int32_t *columns) const {
    writeRow(x, type, k, from, columns, unitsOf(order) + row * unitStride,
             sumsOf(order) + row * sumStride);
  }
  /// The same of the rows of a tile; x begins with row 0 of all.
  void packTile(const void *x, int32_t type, int64_t k, int64_t first, const RowTiles &tiles,
                int64_t tile, int64_t order, const int32_t *columns) const {
    const int64_t begin = tiles.begin(tile), size = tiles.size(tile);
    auto *rows = static_cast<uint32_t *>(
        ThreadPool::threadScratch().get(static_cast<size_t>(size * unitStride) * 4));
    for (int64_t i = 0; i < size; ++i)
      writeRow(x, type, k, first + begin + i, columns, rows + i * unitStride,
               sumsOf(order) + (begin + i) * sumStride);
    Interleave(size).run(rows, unitStride, unitStride, unitsOf(order) + begin * unitStride);
  }

  /// What a product reads from `row` on, the first of its tile if there are tiles.
  TileX from(int64_t order, int64_t row) const {
    return {unitsOf(order) + row * unitStride, sums ? sumsOf(order) + row * sumStride : zeros,
            unitStride, sumStride};
  }

private:
  void writeRow(const void *x, int32_t type, int64_t k, int64_t from, const int32_t *columns,
                uint32_t *units, float *out) const {
    const F *family = nullptr;
    const int64_t groups = layout.groups(), full = layout.vectors(0) * TileLayout::kColumns;
    if (!columns && full == layout.group) { // groups without gaps
      copyRun(x, type, from * k, units, 0, k, family);
      clear(units, k, layout.paddedColumns());
    } else {
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t begin = layout.columnBegin(g), count = layout.length(g);
        if (columns)
          for (int64_t i = 0; i < count; ++i)
            copyOne(x, type, from * k + columns[g * layout.group + i], units, begin + i, family);
        else
          copyRun(x, type, from * k + g * layout.group, units, begin, count, family);
        clear(units, begin + count, begin + layout.vectors(g) * TileLayout::kColumns);
      }
    }
    if (!sums)
      return;
    for (int64_t g = 0; g < groups; g += 4) {
      VF s[4];
      for (int64_t i = 0; i < 4; ++i) {
        const int64_t at = minOf(g + i, groups - 1);
        s[i] = sumVector<F>(units, layout.columnBegin(at), layout.length(at));
      }
      store(out + g, sumLanes4(s[0], s[1], s[2], s[3])); // room for whole vectors
    }
  }

  static void clear(void *units, int64_t begin, int64_t end) {
    constexpr int64_t kBytes = F::kType == OCTET_F32 ? 4 : 2;
    memset(static_cast<char *>(units) + begin * kBytes, 0,
           static_cast<size_t>((end - begin) * kBytes));
  }
  uint32_t *unitsOf(int64_t order) const {
    return reinterpret_cast<uint32_t *>(data + order * bytesOfOrder);
  }
  float *sumsOf(int64_t order) const {
    return reinterpret_cast<float *>(data + order * bytesOfOrder + rows * unitStride * 4);
  }

  const TileLayout &layout;
  bool sums;
  int64_t rows, unitStride, sumStride, bytesOfOrder;
  char *data;
  float *zeros;
};

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Rows [0, MR) of x times a tile.
template <typename F, int MR, int kPlanes>
static void directTile(const Problem &problem, const TileFormat<F> &format, const Unit &unit,
                       const uint8_t *tile, int64_t row, const TileX &x, int64_t m0) {
  // Enough chains of additions to hide their latency, no more sums than registers.
  constexpr int NT = OCTET_SIMD_LEVEL == 0 ? 2 : MR > 2 ? 2 : 4;
  alignas(64) float sums[MR][TileLayout::kRows];
  for (int t = 0; t < kLaneGroups; t += NT)
    tileRows<F, MR, NT, kPlanes>(format, tile, t, x, sums[0] + 16 * t, TileLayout::kRows);
  for (int t = 0; t < kLaneGroups; ++t)
    finish(problem, unit, row + 16 * t, m0, MR, sums[0] + 16 * t, TileLayout::kRows);
}

template <typename F, int kPlanes>
static void directRows(const Problem &problem, const TileFormat<F> &format, const Unit &unit,
                       const uint8_t *tile, int64_t row, const TileX &x, int64_t rows, int64_t m0) {
  switch (rows) {
  case 1:
    return directTile<F, 1, kPlanes>(problem, format, unit, tile, row, x, m0);
#if OCTET_SIMD_LEVEL > 0
  case 2:
    return directTile<F, 2, kPlanes>(problem, format, unit, tile, row, x, m0);
  case 3:
    return directTile<F, 3, kPlanes>(problem, format, unit, tile, row, x, m0);
  case 4:
    return directTile<F, 4, kPlanes>(problem, format, unit, tile, row, x, m0);
#endif
  }
}

template <typename F, int MR>
static void wideRows(const TileFormat<F> &format, const uint8_t *tile, int64_t g0, int64_t g1,
                     const VI *w, const TileX &x, float *y) {
  for (int t = 0; t < kLaneGroups; t += kWideN) {
    if (format.layout.planes == 2)
      widenedRows<F, MR, kWideN, 2>(format, tile, g0, g1, w, t, x, y);
    else
      widenedRows<F, MR, kWideN, 1>(format, tile, g0, g1, w, t, x, y);
  }
}

/// Tiles [first, end) of the rows of x times a tile.
template <typename F>
static void wideTile(const Problem &problem, const TileFormat<F> &format, const Unit &unit,
                     const uint8_t *tile, int64_t row, const PackedX<F> &packed, int64_t order,
                     const RowTiles &tiles, int64_t first, int64_t end, int64_t m0) {
  const TileLayout &layout = format.layout;
  const int64_t row0 = tiles.begin(first), rows = tiles.begin(end) - row0;
  const int64_t perGroup = layout.vectors(0) * layout.planes * F::kSteps * kLaneGroups;
  const int64_t step = minOf(maxOf<int64_t>(1, kWideColumns / layout.group), layout.groups());
  VI *w = static_cast<VI *>(ThreadPool::threadScratch().get(
      static_cast<size_t>(step * perGroup) * sizeof(VI) +
      static_cast<size_t>(rows * TileLayout::kRows) * sizeof(float)));
  float *sums = reinterpret_cast<float *>(w + step * perGroup);
  for (int64_t g = 0; g < layout.groups(); g += step) {
    const int64_t last = minOf(g + step, layout.groups());
    widenTile(format, tile, g, last, w);
    for (int64_t i = first; i < end; ++i) {
      const TileX x = packed.from(order, tiles.begin(i));
      float *y = sums + (tiles.begin(i) - row0) * TileLayout::kRows;
      switch (tiles.size(i)) {
      case 1:
        wideRows<F, 1>(format, tile, g, last, w, x, y);
        break;
      case 2:
        wideRows<F, 2>(format, tile, g, last, w, x, y);
        break;
#if OCTET_SIMD_LEVEL > 0
      case 3:
        wideRows<F, 3>(format, tile, g, last, w, x, y);
        break;
      case 4:
        wideRows<F, 4>(format, tile, g, last, w, x, y);
        break;
      case 5:
        wideRows<F, 5>(format, tile, g, last, w, x, y);
        break;
      case 6:
        wideRows<F, 6>(format, tile, g, last, w, x, y);
        break;
#endif
      }
    }
  }
  for (int t = 0; t < kLaneGroups; ++t)
    finish(problem, unit, row + 16 * t, m0 + row0, rows, sums + 16 * t, TileLayout::kRows);
}

/// Few rows: each thread takes some tiles of W.
template <typename F>
static void runDirect(ThreadPool &pool, const Problem &problem, const TileFormat<F> &format,
                      const PackedX<F> &packed, int64_t rows, int64_t m0) {
  const int64_t wanted = pool.size() > 1 ? 2 * int64_t(pool.size()) : 1;
  int64_t size = kUnitTiles;
  while (size > 1 && countUnits(problem.w, size) < wanted)
    size /= 2;
  const int64_t tileBytes = format.layout.tileBytes();
  auto units = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const Unit unit = findUnit(problem, u, size);
      const TileX x = packed.from(format.groups.ordered ? unit.index : 0, 0);
      for (int64_t t = unit.tile; t < unit.tile + unit.tiles; ++t) {
        const uint8_t *tile = static_cast<const uint8_t *>(unit.part->data) + t * tileBytes;
        if (format.layout.planes == 2)
          directRows<F, 2>(problem, format, unit, tile, t * TileLayout::kRows, x, rows, m0);
        else
          directRows<F, 1>(problem, format, unit, tile, t * TileLayout::kRows, x, rows, m0);
      }
    }
  };
  pool.parallelChunks(countUnits(problem.w, size), 1, units);
}

/// In how many parts the tiles of x's rows go to tasks, one for each of them and each of `units`
/// tiles of W: at the price of widening a tile for each, threads end at nearly the same time.
static int64_t rowSplits(int64_t units, int64_t rowTiles, int64_t threads) {
  constexpr int64_t kMostSplits = 8, kLeastTiles = 8;
  int64_t splits = ceilDiv(2 * threads, maxOf<int64_t>(units, 1));
  while (splits < kMostSplits && rowTiles >= (splits + 1) * kLeastTiles &&
         20 * (ceilDiv(units * splits, threads) * threads - units * splits) > units * splits)
    ++splits;
  return minOf(rowTiles, splits);
}

/// Many rows: each thread takes a tile of W and some rows of x.
template <typename F>
static void runWide(ThreadPool &pool, const Problem &problem, const TileFormat<F> &format,
                    const PackedX<F> &packed, const RowTiles &tiles, int64_t m0) {
  const int64_t units = countUnits(problem.w, 1);
  const int64_t splits = rowSplits(units, tiles.tiles, int64_t(pool.size()));
  const int64_t splitTiles = ceilDiv(tiles.tiles, splits);
  const int64_t tileBytes = format.layout.tileBytes();
  auto tasks = [&](int64_t begin, int64_t end) {
    for (int64_t u = begin; u < end; ++u) {
      const Unit unit = findUnit(problem, u / splits, 1);
      const int64_t first = u % splits * splitTiles;
      const int64_t last = minOf(first + splitTiles, tiles.tiles);
      const uint8_t *tile = static_cast<const uint8_t *>(unit.part->data) + unit.tile * tileBytes;
      if (first < last)
        wideTile(problem, format, unit, tile, unit.tile * TileLayout::kRows, packed,
                 format.groups.ordered ? unit.index : 0, tiles, first, last, m0);
    }
  };
  pool.parallelChunks(units * splits, 1, tasks);
}

template <typename F>
static void run(ThreadPool &pool, const Problem &problem, int64_t m, const void *x) {
  const octet_gemm_desc &desc = problem.desc;
  const TileFormat<F> format(desc.groups, desc.k);
  const int64_t orders = format.groups.ordered ? problem.w.num_parts : 1;
  auto columnsOf = [&](int64_t order) {
    const octet_part &part = problem.w.parts[order];
    return format.groups.ordered
               ? reinterpret_cast<const int32_t *>(static_cast<const char *>(part.data) +
                                                   format.layout.bytes(part.rows))
               : nullptr;
  };
  for (int64_t m0 = 0; m0 < m; m0 += kPackedRows) {
    const int64_t rows = minOf(kPackedRows, m - m0);
    const PackedX<F> packed(format, rows, orders);
    if (rows <= kDirectRows) {
      for (int64_t r = 0; r < rows * orders; ++r)
        packed.packRow(x, desc.x_type, desc.k, m0 + r / orders, r % orders, r / orders,
                       columnsOf(r % orders));
      runDirect(pool, problem, format, packed, rows, m0);
      continue;
    }
    const RowTiles tiles(rows, kWideM);
    auto pack = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t)
        packed.packTile(x, desc.x_type, desc.k, m0, tiles, t / orders, t % orders,
                        columnsOf(t % orders));
    };
    pool.parallelFor(tiles.tiles * orders, 2, pack);
    runWide(pool, problem, format, packed, tiles, m0);
  }
}

} // namespace

void tiledGemm(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
               const octet_weight &w, const octet_weight *bias, void *y) {
  const Problem problem{desc, w, bias, y};
#if OCTET_SIMD_LEVEL == 2
  if (desc.x_type == OCTET_BF16)
    return run<TileDot>(pool, problem, m, x);
#endif
  run<TileFma>(pool, problem, m, x);
}

} // namespace octet::rt::OCTET_LEVEL_NAMESPACE
