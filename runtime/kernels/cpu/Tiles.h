//===- Tiles.h - Products on weights in tiles -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A lane of a vector is a row of W (TileLayout.h), so that a product needs no sum over lanes, and
// scales of 16 rows are one vector. Codes are widened exactly, by a look-up:
//
//   group     part = sum over its columns of x * number(code), in the order of the columns; of
//             codes of 8 bits a vector's high nibbles first, then the low ones
//   zeros     part -= zero * sum of x over the group, one rounding
//   total     total += part * scale, one rounding; with minimums total += (sum of x) * minimum
//   y         round(total * global + bias) (N6b)
//
// All in FP32, whatever the number of rows of x. Families differ in a column:
//
//   FmaFamily  operands widened to FP32, one fused multiply-add a column
//   DotFamily  VDPBF16PS on BF16 x: two products and two additions for the pair of columns 2 j and
//              2 j + 1. The instruction reads subnormal BF16 as zero
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_TILES_H
#define OCTET_RUNTIME_KERNELS_CPU_TILES_H

#include "runtime/cpu/TileLayout.h"
#include "runtime/kernels/cpu/Simd.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

/// Vectors of 16 rows in a tile.
constexpr int kLaneGroups = TileLayout::kRows / 16;

/// The numbers of the 16 nibbles of a plane.
struct Nibbles {
  float value[16];
};

/// \param plane  of codes of 8 bits: 0 the high nibbles, 1 the low ones.
static Nibbles nibblesOf(const octet_groups &groups, int plane) {
  constexpr float kE2M1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  Nibbles n;
  for (int c = 0; c < 16; ++c) {
    if (groups.code == OCTET_CODE_E2M1)
      n.value[c] = c < 8 ? kE2M1[c] : -kE2M1[c - 8];
    else if (groups.bits == 8)
      n.value[c] = plane ? static_cast<float>(c)
                         : 16.0f * static_cast<float>(groups.code == OCTET_CODE_BIASED ? c - 8 : c);
    else
      n.value[c] = static_cast<float>(groups.code == OCTET_CODE_BIASED ? c - 8 : c);
  }
  return n;
}

//===----------------------------------------------------------------------===//
// Families: a step is a 32-bit unit of x times a vector of widened codes
//===----------------------------------------------------------------------===//

struct TileFma {
  static constexpr int kSteps = 8; ///< units of a vector's columns
  static constexpr int32_t kType = OCTET_F32;

#if OCTET_SIMD_LEVEL > 0
  using Table = __m512;
  static Table makeTable(const Nibbles &n) { return _mm512_loadu_ps(n.value); }
  /// The look-up reads the lowest four bits.
  OCTET_INLINE VI lookUp(VI code, Table table) {
    return (VI)_mm512_permutexvar_ps((__m512i)code, table);
  }
#else
  struct Table {
    __m256 low, high;
  };
  static Table makeTable(const Nibbles &n) {
    return {_mm256_loadu_ps(n.value), _mm256_loadu_ps(n.value + 8)};
  }
  OCTET_INLINE VI lookUp(VI code, const Table &table) {
    __m256i half[2];
    memcpy(half, &code, 64);
    for (int i = 0; i < 2; ++i) {
      const __m256 a = _mm256_permutevar8x32_ps(table.low, half[i]);
      const __m256 b = _mm256_permutevar8x32_ps(table.high, half[i]);
      // Bit 3 chooses.
      half[i] = (__m256i)_mm256_blendv_ps(a, b, (__m256)_mm256_slli_epi32(half[i], 28));
    }
    memcpy(&code, half, 64);
    return code;
  }
#endif
  template <int kStep>
  OCTET_INLINE VI widenStep(VI word, const Table &table) {
    typedef uint32_t VU __attribute__((vector_size(64)));
    return lookUp((VI)((VU)word >> (kStep % 2 * 16 + kStep / 2 * 4)), table);
  }
  OCTET_INLINE VF multiplyAdd(VF acc, VI x, VI w) { return fma((VF)x, (VF)w, acc); }
};

#if OCTET_SIMD_LEVEL == 2

struct TileDot {
  static constexpr int kSteps = 4;
  static constexpr int32_t kType = OCTET_BF16;

  /// 16 BF16 twice: the look-up reads five bits, the fifth of which is of the next nibble.
  using Table = __m512i;
  static Table makeTable(const Nibbles &n) {
    const VH16 half = narrowBF16(load<VF>(n.value));
    return _mm512_broadcast_i64x4(load<__m256i>(&half));
  }
  template <int kStep>
  OCTET_INLINE VI widenStep(VI word, Table table) {
    return (VI)_mm512_permutexvar_epi16(_mm512_srli_epi16((__m512i)word, 4 * kStep), table);
  }
  OCTET_INLINE VF multiplyAdd(VF acc, VI x, VI w) {
    return (VF)_mm512_dpbf16_ps((__m512)acc, (__m512bh)x, (__m512bh)w);
  }
};

#endif

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// What a product knows of all tiles.
template <typename F>
struct TileFormat {
  octet_groups groups;
  TileLayout layout;
  typename F::Table table[2];

  TileFormat(const octet_groups &groups, int64_t k) : groups(groups) {
    layout.cols = k;
    layout.group = groups.size;
    layout.planes = groups.bits / 4;
    layout.scaleBytes = groups.scale_type == OCTET_F32 ? 4 : groups.scale_type == OCTET_F16 ? 2 : 1;
    layout.offsetBytes = groups.offset == OCTET_OFFSET_MINIMUMS ? 2
                         : groups.offset == OCTET_OFFSET_ZEROS  ? 1
                                                                : 0;
    for (int p = 0; p < 2; ++p)
      table[p] = F::makeTable(nibblesOf(groups, p));
  }
};

/// The scales of rows 16 t .. 16 t + 15 of a group.
OCTET_INLINE VF groupScales(int32_t type, const uint8_t *group, int t) {
  switch (type) {
  case OCTET_F16:
    return widen(reinterpret_cast<const F16 *>(group + 32 * t));
  case OCTET_E8M0: {
    const VI code = __builtin_convertvector(load<VB16>(group + 16 * t), VI);
    return (VF)(code == 0 ? splatInt(0x00400000) : code << 23);
  }
  case OCTET_E4M3: {
    // With the bits of an F16 a positive E4M3 is 2^8 smaller.
    const VH16 half = __builtin_convertvector(load<VB16>(group + 16 * t), VH16) << 7;
    return widen(reinterpret_cast<const F16 *>(&half)) * 256.0f;
  }
  default:
    return load<VF>(group + 64 * t);
  }
}

/// total[i][t] += what a group adds to rows 16 (first + t) .. of W. `sums` are those of x over the
/// group, `stride` apart.
template <int MR, int NT>
OCTET_INLINE void addGroup(const octet_groups &groups, const uint8_t *group, int first,
                           const VF (&part)[MR][NT], const float *sums, int64_t stride,
                           VF (&total)[MR][NT]) {
  const uint8_t *offsets = group + TileLayout::kRows * (groups.scale_type == OCTET_F32   ? 4
                                                        : groups.scale_type == OCTET_F16 ? 2
                                                                                         : 1);
  VF scale[NT];
#pragma GCC unroll 4
  for (int t = 0; t < NT; ++t)
    scale[t] = groupScales(groups.scale_type, group, first + t);
  if (groups.offset == OCTET_OFFSET_ZEROS) {
    VF zero[NT];
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t)
      zero[t] = __builtin_convertvector(load<VB16>(offsets + 16 * (first + t)), VF);
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i) {
      const VF sum = splat(-sums[i * stride]);
#pragma GCC unroll 4
      for (int t = 0; t < NT; ++t)
        total[i][t] = fma(fma(sum, zero[t], part[i][t]), scale[t], total[i][t]);
    }
    return;
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t)
      total[i][t] = fma(part[i][t], scale[t], total[i][t]);
  if (groups.offset != OCTET_OFFSET_MINIMUMS)
    return;
  VF minimum[NT];
#pragma GCC unroll 4
  for (int t = 0; t < NT; ++t)
    minimum[t] = widen(reinterpret_cast<const F16 *>(offsets + 32 * (first + t)));
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i) {
    const VF sum = splat(sums[i * stride]);
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t)
      total[i][t] = fma(sum, minimum[t], total[i][t]);
  }
}

/// Rows of x as a product reads them: units of all columns of each row, then the sums of groups.
struct TileX {
  const uint32_t *units; // of the first row
  const float *sums;     // of the first row
  int64_t unitStride, sumStride;
};

/// kRows of x times 16 * NT rows of a tile from lane group `first` on: y[i][16 j + lane].
template <typename F, int MR, int NT, int kPlanes>
OCTET_INLINE void tileRows(const TileFormat<F> &format, const uint8_t *tile, int first,
                           const TileX &x, float *y, int64_t ld) {
  // How far ahead of its use a tile is fetched into the second-level cache, also across pages: by
  // whole groups, so that a line fetched is one that this call reads.
  constexpr int64_t kAhead = 24576;
  const int64_t groupBytes = format.layout.groupBegin(1);
  const int64_t ahead = groupBytes >= kAhead ? kAhead : ceilDiv(kAhead, groupBytes) * groupBytes;
  VF total[MR][NT];
  for (int i = 0; i < MR; ++i)
    for (int t = 0; t < NT; ++t)
      total[i][t] = VF{};
  const int64_t groups = format.layout.groups(), full = format.layout.vectors(0);
  const int64_t header = format.layout.headerBytes();
  const uint32_t *units = x.units;
  const uint8_t *group = tile;
  for (int64_t g = 0; g < groups; ++g) {
    VF part[MR][NT];
    for (int i = 0; i < MR; ++i)
      for (int t = 0; t < NT; ++t)
        part[i][t] = VF{};
    const uint8_t *vector = group + header;
    // Every line of a group is fetched ahead: those of the header here, a vector's with the vector.
    if (first == 0)
      for (int64_t b = 0; b < header; b += 64)
        _mm_prefetch(reinterpret_cast<const char *>(group + b + ahead), _MM_HINT_T1);
    const int64_t vectors = g + 1 < groups ? full : format.layout.vectors(g);
    for (int64_t v = 0; v < vectors; ++v, units += F::kSteps) {
#pragma GCC unroll 2
      for (int p = 0; p < kPlanes; ++p, vector += TileLayout::kBytes) {
        VI words[NT];
#pragma GCC unroll 4
        for (int t = 0; t < NT; ++t) {
          words[t] = load<VI>(vector + 64 * (first + t));
          _mm_prefetch(reinterpret_cast<const char *>(vector + 64 * (first + t) + ahead),
                       _MM_HINT_T1);
        }
        auto step = [&]<int kStep>() __attribute__((always_inline)) {
          VI xs[MR];
#pragma GCC unroll 4
          for (int i = 0; i < MR; ++i)
            xs[i] = splatInt(static_cast<int32_t>(units[i * x.unitStride + kStep]));
#pragma GCC unroll 4
          for (int t = 0; t < NT; ++t) {
            const VI w = F::template widenStep<kStep>(words[t], format.table[p]);
#pragma GCC unroll 4
            for (int i = 0; i < MR; ++i)
              part[i][t] = F::multiplyAdd(part[i][t], xs[i], w);
          }
        };
        step.template operator()<0>();
        step.template operator()<1>();
        step.template operator()<2>();
        step.template operator()<3>();
        if constexpr (F::kSteps == 8) {
          step.template operator()<4>();
          step.template operator()<5>();
          step.template operator()<6>();
          step.template operator()<7>();
        }
      }
    }
    addGroup(format.groups, group, first, part, x.sums + g, x.sumStride, total);
    group = vector;
  }
  for (int i = 0; i < MR; ++i)
    for (int t = 0; t < NT; ++t)
      store(y + i * ld + 16 * t, total[i][t]);
}

//===----------------------------------------------------------------------===//
// Many rows: a tile widened into scratch
//===----------------------------------------------------------------------===//

/// Widens groups [g0, g1) of a tile: [step][kLaneGroups] vectors, in the order of tileRows.
template <typename F>
static void widenTile(const TileFormat<F> &format, const uint8_t *tile, int64_t g0, int64_t g1,
                      VI *out) {
  const TileLayout &layout = format.layout;
  for (int64_t g = g0; g < g1; ++g) {
    const uint8_t *vector = tile + layout.groupBegin(g) + layout.headerBytes();
    const int64_t count = layout.vectors(g) * layout.planes;
    for (int64_t v = 0; v < count; ++v, vector += TileLayout::kBytes) {
      const typename F::Table &table = format.table[layout.planes == 2 ? v % 2 : 0];
      VI words[kLaneGroups];
      for (int t = 0; t < kLaneGroups; ++t)
        words[t] = load<VI>(vector + 64 * t);
      auto step = [&]<int kStep>() __attribute__((always_inline)) {
#pragma GCC unroll 4
        for (int t = 0; t < kLaneGroups; ++t)
          out[t] = F::template widenStep<kStep>(words[t], table);
        out += kLaneGroups;
      };
      step.template operator()<0>();
      step.template operator()<1>();
      step.template operator()<2>();
      step.template operator()<3>();
      if constexpr (F::kSteps == 8) {
        step.template operator()<4>();
        step.template operator()<5>();
        step.template operator()<6>();
        step.template operator()<7>();
      }
    }
  }
}

/// tileRows on groups [g0, g1) that widenTile has left in `w`; sums go on from and to y, [rows of
/// x][64]. The units of the MR rows stand side by side: [unit][MR].
template <typename F, int MR, int NT, int kPlanes>
OCTET_INLINE void widenedRows(const TileFormat<F> &format, const uint8_t *tile, int64_t g0,
                              int64_t g1, const VI *w, int first, const TileX &x, float *y) {
  const TileLayout &layout = format.layout;
  VF total[MR][NT];
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t)
      total[i][t] = g0 == 0 ? VF{} : load<VF>(y + i * TileLayout::kRows + 16 * (first + t));
  w += first;
  for (int64_t g = g0; g < g1; ++g) {
    VF part[MR][NT];
#pragma GCC unroll 8
    for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
      for (int t = 0; t < NT; ++t)
        part[i][t] = VF{};
    const uint32_t *units = x.units + layout.columnBegin(g) / TileLayout::kColumns * F::kSteps * MR;
    const int64_t vectors = layout.vectors(g);
    for (int64_t v = 0; v < vectors; ++v, units += F::kSteps * MR) {
#pragma GCC unroll 2
      for (int p = 0; p < kPlanes; ++p) {
#pragma GCC unroll 8
        for (int s = 0; s < F::kSteps; ++s, w += kLaneGroups) {
          VI ws[NT];
#pragma GCC unroll 4
          for (int t = 0; t < NT; ++t)
            ws[t] = w[t];
#pragma GCC unroll 8
          for (int i = 0; i < MR; ++i) {
            const VI xs = splatInt(static_cast<int32_t>(units[s * MR + i]));
#pragma GCC unroll 4
            for (int t = 0; t < NT; ++t)
              part[i][t] = F::multiplyAdd(part[i][t], xs, ws[t]);
          }
        }
      }
    }
    const uint8_t *group = tile + layout.groupBegin(g);
    addGroup(format.groups, group, first, part, x.sums + g, x.sumStride, total);
  }
#pragma GCC unroll 8
  for (int i = 0; i < MR; ++i)
#pragma GCC unroll 4
    for (int t = 0; t < NT; ++t)
      store(y + i * TileLayout::kRows + 16 * (first + t), total[i][t]);
}

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_TILES_H
