//===- mma_gemm.cuh - Products by mma.sync, from sm_80 --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   blocks      y[i,j] = round( sum_b sx[i,b] sw[row(j),b] sum_{k in b} x[i,k] w[j,k] + bias[j] )
//               (N6; row(j) by W5b)
//   otherwise   y[i,j] = round( (sum_k x[i,k] w[j,k]) (sx[i] sw[j]) + bias[j] )            (N6b)
//
//   operand  shape                           types                     contiguous  aligned to
//   x        [m, K]                          BF16, F16, E4M3           K           16
//   xScale   none; [1]; [m]; [m, cdiv(K,bk)] F32                       K blocks    4
//            or by columns [cdiv(K,bk)][align4(m)]                     rows        4
//   w        [N, K]                          as x, or E4M3 (widened    K           16
//                                            to the type of x, B4)
//   wScale   none; [shards]; [N];            F32, of blocks also E8M0  K blocks    4 (E8M0: 1)
//            [sum cdiv(N_s,bn), cdiv(K,bk)]
//   bias     [N]                             F32, BF16, F16            N           its element
//   y        [m, N]                          F32, BF16, F16            N           16
//
// Any m, N, K, bn and bk from 1 on. Rows outside of m and N and columns outside of K and of a block
// are zeros in shared memory (W4); the stores of y are masked. Where K is no multiple of 16 bytes,
// rows are copied by the largest power of two that divides them.
//
// Constants: tiles of kTileM x kTileN by kWarpsM x kWarpsN warps, each with a multiple of 16 by a
// multiple of 8; kStages of 2 and more. What a row of y is does not depend on them (B5): K is
// summed in the same order by all.
//
// One CTA makes one tile of y; the grid is cdiv(m, kTileM) * cdiv(N, kTileN) along x. All warps
// copy, kStages - 1 tiles of K ahead, and multiply. Shared memory: kSharedBytes, in each stage the
// tile of x, the tile of w, the scales of x and of w as floats.
//
// Sums of E4M3 products leave the tensor cores at least every 128 columns (N6). y is rounded once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/mma_tile.cuh"

namespace octet::cuda {

/// `TBias` is void where there is none; `TWScale` is of a block.
template <class TX, class TW, class TY, class TBias, class TWScale, int kN_, int kK_,
          Scaling kXScaling_, Scaling kWScaling_, bool kXScaleByColumns_, int kBlockN_,
          int kBlockK_, int kTileM_, int kTileN_, int kWarpsM_, int kWarpsN_, int kStages_,
          class TShards>
struct MmaGemm {
  using X = TX;
  using W = TW;
  using Y = TY;
  using Bias = TBias;
  using WScale = TWScale;
  using AllShards = TShards;
  static constexpr int kN = kN_, kK = kK_, kBlockN = kBlockN_, kBlockK = kBlockK_;
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
  static constexpr int kWarpsM = kWarpsM_, kWarpsN = kWarpsN_;
  static constexpr int kThreads = 32 * kWarpsM * kWarpsN;
  static constexpr Scaling kXScaling = kXScaling_, kWScaling = kWScaling_;
  static constexpr bool kXScaleByColumns = kXScaleByColumns_;

  static constexpr bool kIsFp8 = kIsSame<X, E4m3>;
  static constexpr bool kWidens = !kIsFp8 && kIsSame<W, E4m3>;
  static constexpr bool kIsBlocked = kWScaling == Scaling::Block;
  static constexpr bool kPromotes = kIsFp8 || kIsBlocked;

  static_assert(kIsSame<X, W> || kWidens, "w is of the type of x, or E4M3");
  static_assert(kN > 0 && kK > 0 && TShards::kTotal == kN, "the shards are the rows of w");
  static_assert(!kIsBlocked || (kBlockN > 0 && kBlockK > 0), "blocks have rows and columns");
  static_assert(kXScaling != Scaling::Block || kIsBlocked, "x has blocks only where w has");
  static_assert((kXScaling == Scaling::None) == !kIsFp8, "x has scales where it is E4M3");
  static_assert(kTileM % (16 * kWarpsM) == 0 && kTileN % (8 * kWarpsN) == 0,
                "a warp has a multiple of 16 rows of x and of 8 rows of w");
  static_assert(kStages >= 2, "copies run ahead of products");

  /// Columns that a warp takes at a time: 32 bytes of w, or of x where w is widened from 32 codes.
  static constexpr int kStep = kIsSame<W, E4m3> ? 32 : 16;
  using Tiles = KTiles<kK, kIsSame<W, E4m3> ? 128 : 64, kStep, kIsBlocked ? kBlockK : 0>;
  using XTile = MmaTile<X, kTileM, kK, Tiles, kThreads, kWidens>;
  using WTile = MmaTile<W, kTileN, kK, Tiles, kThreads, false>;

  /// Rows of w that certainly share a scale.
  static constexpr int kSpan = !kIsBlocked                           ? kTileN
                               : TShards::isAligned(kBlockN, kTileN) ? kTileN
                               : TShards::isAligned(kBlockN, 8)      ? 8
                                                                     : 1;
  static constexpr int kScaleColumns = kTileN / kSpan;

  // A stage in shared memory, in bytes.
  static constexpr int kWAt = XTile::kBytes;
  static constexpr int kXScaleAt = kWAt + WTile::kBytes;
  static constexpr int kWScaleAt =
      kXScaleAt + (kXScaling == Scaling::Block ? Tiles::kGroups * kTileM * 4 : 0);
  static constexpr int kStageBytes =
      alignUp(kWScaleAt + (kIsBlocked ? Tiles::kGroups * kScaleColumns * 4 : 0), 128);
  static constexpr int kSharedBytes = kStages * kStageBytes;

  // Products of a warp.
  static constexpr int kProductsM = kTileM / kWarpsM / 16, kProductsN = kTileN / kWarpsN / 8;
};

/// Where a CTA's tile of y lies. Tiles that share rows of w and of x follow each other in squares,
/// so that both stay in the L2 cache.
template <class C>
struct MmaPlace {
  int m, n; ///< of the first row and column
  OCTET_DEVICE explicit MmaPlace(int rows) {
    constexpr int kAcross = divideUp(C::kN, C::kTileN), kHigh = 8;
    int down = divideUp(rows, C::kTileM), id = blockIdx.x;
    int first = id / (kHigh * kAcross) * kHigh, high = minOf(kHigh, down - first);
    int inside = id - first * kAcross;
    m = (first + inside % high) * C::kTileM;
    n = inside / high * C::kTileN;
  }
};

template <class C>
OCTET_DEVICE void copyWeights(u32 stage, const typename C::W *w, const typename C::WScale *wScale,
                              int n0, int tile) {
  using Tiles = typename C::Tiles;
  C::WTile::copy(stage + C::kWAt, w + static_cast<i64>(n0) * C::kK, C::kN - n0, Tiles::begin(tile),
                 Tiles::end(tile));
  if constexpr (C::kIsBlocked) {
    constexpr int kScales = Tiles::kGroups * C::kScaleColumns;
#pragma unroll
    for (int j = 0; j < divideUp(kScales, C::kThreads); ++j) {
      int i = j * C::kThreads + threadIdx.x, n = n0 + i % C::kScaleColumns * C::kSpan;
      int block = Tiles::block(tile, i / C::kScaleColumns);
      if (kScales % C::kThreads != 0 && i >= kScales)
        break;
      bool isThere = n < C::kN && Tiles::isBlock(block);
      const typename C::WScale *from =
          wScale + static_cast<i64>(C::AllShards::scaleRow(n, C::kBlockN)) * Tiles::kBlocks + block;
      u32 to = stage + C::kWScaleAt + i * 4;
      if constexpr (kIsSame<typename C::WScale, float>)
        cpAsync<4>(to, from, isThere ? 4 : 0);
      else
        asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(isThere ? scaleOf(*from) : 0.f)
                     : "memory");
    }
  }
}

template <class C>
OCTET_DEVICE void copyInput(u32 stage, const typename C::X *x, const float *xScale, int m0,
                            int rows, int tile) {
  using Tiles = typename C::Tiles;
  C::XTile::copy(stage, x + static_cast<i64>(m0) * C::kK, rows - m0, Tiles::begin(tile),
                 Tiles::end(tile));
  if constexpr (C::kXScaling == Scaling::Block) {
    constexpr int kScales = Tiles::kGroups * C::kTileM;
    i64 rowPitch = C::kXScaleByColumns ? 1 : Tiles::kBlocks;
    i64 blockPitch = C::kXScaleByColumns ? alignUp(rows, 4) : 1;
#pragma unroll
    for (int j = 0; j < divideUp(kScales, C::kThreads); ++j) {
      int i = j * C::kThreads + threadIdx.x, m = m0 + i % C::kTileM;
      int block = Tiles::block(tile, i / C::kTileM);
      if (kScales % C::kThreads != 0 && i >= kScales)
        break;
      cpAsync<4>(stage + C::kXScaleAt + i * 4, xScale + m * rowPitch + block * blockPitch,
                 m < rows && Tiles::isBlock(block) ? 4 : 0);
    }
  }
}

/// The sums of a warp: d[i][j] is a product's fragment (mma_sync.cuh).
template <class C>
using MmaSums = float[C::kProductsM][C::kProductsN][4];

/// Fragments of w: b[2 j], b[2 j + 1] of product column j, 32 bytes of a row in all.
template <class C>
OCTET_DEVICE void loadWeights(u32 (&b)[C::kProductsN * 2], u32 wTile, int step) {
  int lane = threadIdx.x % 32, first = threadIdx.x / 32 % C::kWarpsN * C::kProductsN * 8;
  int chunk = step * 2 + (lane >> 3 & 1);
#pragma unroll
  for (int j = 0; j + 1 < C::kProductsN; j += 2) {
    int row = first + j * 8 + (lane & 7) + (lane >> 4 << 3);
    u32 words[4];
    ldmatrix4(words, wTile + C::WTile::place(row, chunk));
#pragma unroll
    for (int i = 0; i < 4; ++i)
      b[j * 2 + i] = words[i];
  }
  if constexpr (C::kProductsN % 2 != 0) {
    constexpr int kLast = C::kProductsN - 1;
    ldmatrix2(b[kLast * 2], b[kLast * 2 + 1],
              wTile + C::WTile::place(first + kLast * 8 + (lane & 7), chunk));
  }
}

/// NaN codes of w seen by a lane, in product column j (nanCodes); empty where w is not widened.
template <class C>
struct NanColumns {
  u32 seen[C::kWidens ? C::kProductsN : 1] = {};

  /// Makes NaN what a column with one sums to.
  OCTET_DEVICE void apply(MmaSums<C> &d) {
    if constexpr (C::kWidens) {
#pragma unroll
      for (int j = 0; j < C::kProductsN; ++j) {
        // Lanes 4c to 4c + 3 read column c; lane l has the sums of 2t and 2t + 1.
        u32 lanes = __ballot_sync(0xffffffffu, (seen[j] & 0x80808080u) != 0);
        u32 columns = lanes >> (threadIdx.x % 4 * 8);
#pragma unroll
        for (int i = 0; i < C::kProductsM; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            if ((columns >> (e % 2 * 4)) & 0xfu)
              d[i][j][e] = floatOf(0x7fffffffu);
      }
    }
  }
};

/// Adds the products of kStep columns to the sums.
template <class C>
OCTET_DEVICE void multiplyStep(MmaSums<C> &d, NanColumns<C> &nan, u32 xTile, u32 wTile, int step) {
  int lane = threadIdx.x % 32, first = threadIdx.x / 32 / C::kWarpsN * C::kProductsM * 16;
  u32 b[C::kProductsN * 2];
  loadWeights<C>(b, wTile, step);
  if constexpr (!C::kWidens) {
    u32 a[C::kProductsM][4];
#pragma unroll
    for (int i = 0; i < C::kProductsM; ++i)
      ldmatrix4(a[i],
                xTile + C::XTile::place(first + i * 16 + (lane & 15), step * 2 + (lane >> 4)));
#pragma unroll
    for (int i = 0; i < C::kProductsM; ++i)
#pragma unroll
      for (int j = 0; j < C::kProductsN; ++j)
        mmaSync<typename C::X>(d[i][j], a[i], b[j * 2], b[j * 2 + 1]);
  } else {
    // A word of codes is columns 4t to 4t + 3 of 16. The order of K inside a product is free, so
    // lane t takes these for its columns of x and w both, instead of 2t.. and 8 + 2t...
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 a[C::kProductsM][4];
#pragma unroll
      for (int i = 0; i < C::kProductsM; ++i)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          int row = first + i * 16 + h * 8 + lane / 4;
          int chunk = step * 4 + half * 2 + (lane >> 1 & 1);
          asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
                       : "=r"(a[i][h]), "=r"(a[i][h + 2])
                       : "r"(xTile + C::XTile::place(row, chunk) + (lane & 1) * 8)
                       : "memory");
        }
#pragma unroll
      for (int j = 0; j < C::kProductsN; ++j) {
        u32 wide[2];
        widenE4m3<typename C::X>(wide, b[j * 2 + half]);
        nan.seen[j] |= nanCodes(b[j * 2 + half]);
#pragma unroll
        for (int i = 0; i < C::kProductsM; ++i)
          mmaSync<typename C::X>(d[i][j], a[i], wide[0], wide[1]);
      }
    }
  }
}

/// Promotes the sums of a group: total += (sx sw) part (N6), or without scales where they come at
/// the end (N6b).
template <class C>
OCTET_DEVICE void promote(MmaSums<C> &total, const MmaSums<C> &part, const char *stage, int group) {
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int row = warp / C::kWarpsN * C::kProductsM * 16 + lane / 4;
  int column = warp % C::kWarpsN * C::kProductsN * 8 + lane % 4 * 2;
  const float *sx = reinterpret_cast<const float *>(stage + C::kXScaleAt) + group * C::kTileM;
  const float *sw =
      reinterpret_cast<const float *>(stage + C::kWScaleAt) + group * C::kScaleColumns;
#pragma unroll
  for (int i = 0; i < C::kProductsM; ++i)
#pragma unroll
    for (int j = 0; j < C::kProductsN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if constexpr (!C::kIsBlocked) {
          total[i][j][e] += part[i][j][e];
        } else {
          float scale = sw[(column + j * 8 + e % 2) / C::kSpan];
          if constexpr (C::kXScaling == Scaling::Block)
            scale = sx[row + i * 16 + e / 2 * 8] * scale;
          total[i][j][e] = fmaf(scale, part[i][j][e], total[i][j][e]);
        }
      }
}

/// Scales what was not scaled by blocks, adds the bias, rounds once and stores.
template <class C>
OCTET_DEVICE void storeSums(const MmaSums<C> &total, const float *xScale,
                            const typename C::WScale *wScale, const typename C::Bias *bias,
                            typename C::Y *y, MmaPlace<C> place, int rows) {
  using Y = typename C::Y;
  constexpr bool kScalesX = C::kXScaling == Scaling::Tensor || C::kXScaling == Scaling::Row;
  constexpr bool kScalesW = C::kWScaling == Scaling::Tensor || C::kWScaling == Scaling::Row;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int m0 = place.m + warp / C::kWarpsN * C::kProductsM * 16 + lane / 4;
  int n0 = place.n + warp % C::kWarpsN * C::kProductsN * 8 + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < C::kProductsN; ++j) {
    int n = n0 + j * 8;
    float sw[2] = {1.f, 1.f}, added[2] = {};
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (n + e < C::kN) {
        if constexpr (kScalesW)
          sw[e] =
              scaleOf(wScale[C::kWScaling == Scaling::Row ? n + e : C::AllShards::shardOf(n + e)]);
        if constexpr (!kIsSame<typename C::Bias, void>)
          added[e] = toFloat(bias[n + e]);
      }
#pragma unroll
    for (int i = 0; i < C::kProductsM; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        int m = m0 + i * 16 + h * 8;
        if (m >= rows || n >= C::kN)
          continue;
        float v[2] = {total[i][j][h * 2], total[i][j][h * 2 + 1]};
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          float scale = sw[e];
          if constexpr (kScalesX)
            scale = xScale[C::kXScaling == Scaling::Row ? m : 0] * scale;
          // No fused multiply-add: the product is a value of its own (N6b).
          if constexpr (kScalesX || kScalesW)
            v[e] = __fmul_rn(v[e], scale);
          if constexpr (!kIsSame<typename C::Bias, void>)
            v[e] = __fadd_rn(v[e], added[e]);
        }
        Y *to = y + static_cast<i64>(m) * C::kN + n;
        if constexpr (C::kN % 2 == 0 && kIsSame<Y, float>) {
          *reinterpret_cast<float2 *>(to) = {v[0], v[1]};
        } else if constexpr (C::kN % 2 == 0) {
          *reinterpret_cast<u32 *>(to) = packPair<Y>(v[0], v[1]);
        } else {
          to[0] = fromFloat<Y>(v[0]);
          if (n + 1 < C::kN)
            to[1] = fromFloat<Y>(v[1]);
        }
      }
  }
}

/// An operand that is not there is nullptr.
template <class C>
OCTET_DEVICE void mmaGemm(const typename C::X *x, const float *xScale, const typename C::W *w,
                          const typename C::WScale *wScale, const typename C::Bias *bias,
                          typename C::Y *y, int m) {
  using Tiles = typename C::Tiles;
  extern __shared__ __align__(128) char shared[];
  u32 base = sharedAddress(shared);
  MmaPlace<C> place(m);

  // Copies ahead; what no kernel writes need not wait for the one before.
#pragma unroll
  for (int s = 0; s < C::kStages - 1; ++s)
    if (s < Tiles::kCount)
      copyWeights<C>(base + s * C::kStageBytes, w, wScale, place.n, s);
  waitForPriorGrids();
#pragma unroll
  for (int s = 0; s < C::kStages - 1; ++s) {
    if (s < Tiles::kCount)
      copyInput<C>(base + s * C::kStageBytes, x, xScale, place.m, m, s);
    cpAsyncCommit();
  }
  launchNextGrid();

  MmaSums<C> total = {};
  NanColumns<C> nan;
  int stage = 0, free = C::kStages - 1;
#pragma unroll 1
  for (int tile = 0; tile < Tiles::kCount; ++tile) {
    // The tile is there for all warps, and all have left the stage before it.
    cpAsyncWait<C::kStages - 2>();
    __syncthreads();
    if (int next = tile + C::kStages - 1; next < Tiles::kCount) {
      copyWeights<C>(base + free * C::kStageBytes, w, wScale, place.n, next);
      copyInput<C>(base + free * C::kStageBytes, x, xScale, place.m, m, next);
    }
    cpAsyncCommit(); // empty at the end, so that the count of groups stays right

    u32 xTile = base + stage * C::kStageBytes, wTile = xTile + C::kWAt;
    constexpr int kSteps = Tiles::kGroup / C::kStep;
#pragma unroll
    for (int group = 0; group < Tiles::kGroups; ++group) {
      if constexpr (C::kPromotes) {
        MmaSums<C> part = {};
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
          multiplyStep<C>(part, nan, xTile, wTile, group * kSteps + step);
        promote<C>(total, part, shared + stage * C::kStageBytes, group);
      } else {
#pragma unroll
        for (int step = 0; step < kSteps; ++step)
          multiplyStep<C>(total, nan, xTile, wTile, group * kSteps + step);
      }
    }
    stage = stage + 1 == C::kStages ? 0 : stage + 1;
    free = free + 1 == C::kStages ? 0 : free + 1;
  }

  nan.apply(total);
  storeSums<C>(total, xScale, wScale, bias, y, place, m);
}

} // namespace octet::cuda
