//===- sm90_tiled.cuh - Products of many rows on sm_90a -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y[M, N] = x w^T (N6, N6b) by tiles that persistent clusters take in turn. Rows of X are the 64
// rows of wgmma. One warpgroup copies, kMathWarpgroups multiply, in turn where their sums are
// promoted: while one does that the products of another run. A tile is stored while the first
// products of the next one run.
//
//   operand   shape              type                contiguous  aligned to
//   x         [M, K]             E4M3, BF16, F16     K           16, by tensor map, box kTileM /
//                                                                kClusterN x 128 bytes, swizzled
//   w         [N, K]             as x                K           16, box kTileN / kClusterM x 128
//                                                                bytes, swizzled
//   xScale    [K/b][M] blocks    F32, by tensor map  M           16, box 128/b x kTileM floats
//             [M] or one         F32                             4
//   wScale    [rows][K/b], [N] or one a shard, F32               4
//   bias      [N]                BF16, F16, F32                  its element
//   y         [M, N]             BF16, F16, F32      N           its element; 16 where N allows
//
//   kTileM    rows of X a tile: 64 kMathWarpgroups, or twice that (each warpgroup has 2 passes)
//   kTileN    rows of W a tile: a multiple of 8 (of 16 above 128) up to 256
//   kClusterM CTAs that share W, kClusterN that share X: a cluster is kClusterM x kClusterN tiles
//   kGroup    clusters of tiles along M that are taken before the next along N, for L2
//
// Grid: x = at most as many CTAs as there are multiprocessors, a multiple of the cluster. Shared
// memory: kSharedBytes. Threads: 128 (kMathWarpgroups + 1).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/sm90_operands.cuh"

namespace octet::cuda {

template <class Product_, int kTileM_, int kTileN_, int kStages_, int kMathWarpgroups_,
          int kClusterM_, int kClusterN_, int kBuffers_, int kGroup_>
struct Sm90TiledConfig {
  using Product = Product_;
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
  static constexpr int kMathWarpgroups = kMathWarpgroups_, kBuffers = kBuffers_, kGroup = kGroup_;
  static constexpr int kClusterM = kClusterM_, kClusterN = kClusterN_;
  static constexpr int kCluster = kClusterM * kClusterN;
  static constexpr int kPasses = kTileM / (64 * kMathWarpgroups);
  static constexpr int kThreads = 128 * kMathWarpgroups + 128;
  static constexpr int kTurns = Product::kPromotes && kBuffers == 1 ? kMathWarpgroups : 1;
  // 64 Ki registers: what the copying warpgroup gives up, the others take.
  static constexpr int kCopyRegisters = 24;
  static constexpr int kMathRegisters = kMathWarpgroups == 2 ? 240 : 160;

  // Where sums in flight leave no registers for the stores.
  static constexpr bool kStoresAlone =
      (kPasses > 1 && !Product::kBlocks && Product::kPromotes) || (kBuffers > 1 && kTileN > 112);

  using Output = typename Product::Output;
  static constexpr int kBytesX = kTileM * kRowBytes, kBytesW = kTileN * kRowBytes;
  static constexpr int kBytesXScale =
      Product::kBlocks ? alignUp(Product::kSubs * kTileM * 4, 128) : 0;
  // A warp's part of the tile goes to y by pieces of 16 rows of 128 bytes.
  static constexpr int kBytesPiece = 16 * kRowBytes;
  static constexpr int kPieceColumns = kRowBytes / sizeof(Output);
  static constexpr int kOffsetW = kStages * kBytesX;
  static constexpr int kOffsetPieces = kOffsetW + kStages * kBytesW;
  static constexpr int kOffsetXScale = kOffsetPieces + 4 * kMathWarpgroups * kBytesPiece;
  static constexpr int kOffsetBarriers = kOffsetXScale + kStages * kBytesXScale;
  static constexpr int kSharedBytes = kOffsetBarriers + 16 * kStages;

  static constexpr int kTilesN = divideUp(Product::kN, kTileN);
  static constexpr int kClustersN = divideUp(kTilesN, kClusterN);

  static_assert(kMathWarpgroups >= 1 && kMathWarpgroups <= 3, "one to three math warpgroups");
  static_assert(kTileM % (64 * kMathWarpgroups) == 0 && (kPasses == 1 || kPasses == 2),
                "kTileM is 64 rows a math warpgroup, or 128");
  static_assert(kTileN % 8 == 0 && kTileN <= 256 && (kTileN <= 128 || kTileN % 16 == 0),
                "kTileN is a multiple of 8, of 16 above 128, up to 256");
  static_assert(kTileM % (8 * kClusterN) == 0 && kTileN % (8 * kClusterM) == 0,
                "CTAs of a cluster copy whole groups of 8 rows");
  static_assert(kTileM / kClusterN <= 256 && kTileN / kClusterM <= 256, "a box has 256 rows");
  static_assert(kCluster <= 8, "a cluster has at most 8 CTAs");
  static_assert(kSharedBytes <= 232448, "the stages fit in 227 KiB");
};

/// Tiles of a cluster, in the order in which clusters take them.
template <class C>
struct TileOrder {
  int tile, stride, clustersM;

  OCTET_DEVICE TileOrder(int m) {
    tile = static_cast<int>(blockIdx.x) / C::kCluster;
    stride = static_cast<int>(gridDim.x) / C::kCluster;
    clustersM = divideUp(m, C::kTileM * C::kClusterM);
  }
  OCTET_DEVICE bool more() const { return tile < clustersM * C::kClustersN; }
  OCTET_DEVICE void next() { tile += stride; }
  /// In tiles of the cluster.
  OCTET_DEVICE void at(int &clusterM, int &clusterN) const {
    const int perGroup = C::kGroup * C::kClustersN;
    const int group = tile / perGroup, inGroup = tile % perGroup;
    const int width = minOf(C::kGroup, clustersM - group * C::kGroup);
    clusterM = group * C::kGroup + inGroup % width;
    clusterN = inGroup / width;
  }
};

/// Stores a warp's sixteen rows of sums, by way of its piece of shared memory, so that stores are
/// of whole lines.
template <class C>
OCTET_DEVICE void storeSums(const Sm90Operands<typename C::Product> &ops,
                            const float (&sums)[C::kTileN / 2], int row0, int n0, u8 *piece) {
  using P = typename C::Product;
  using Output = typename P::Output;
  constexpr int kColumns = C::kPieceColumns;
  constexpr int kPerChunk = 16 / sizeof(Output); // elements of 16 bytes
  constexpr bool kWhole = P::kN % C::kTileN == 0;
  const int lane = threadIdx.x % 32;
  const float scaleUpper = rowScale<P>(ops, row0 + lane / 4);
  const float scaleLower = rowScale<P>(ops, row0 + lane / 4 + 8);
  // Four values of columns 8 i + 2 (lane % 4) and the next.
  auto finished = [&](int i) {
    const int column = n0 + 8 * i + 2 * (lane % 4);
    const float scaleA = columnScale<P>(ops, column), scaleB = columnScale<P>(ops, column + 1);
    const float biasA = columnBias<P>(ops, column), biasB = columnBias<P>(ops, column + 1);
    return float4{finish<P>(sums[4 * i], scaleUpper, scaleA, biasA),
                  finish<P>(sums[4 * i + 1], scaleUpper, scaleB, biasB),
                  finish<P>(sums[4 * i + 2], scaleLower, scaleA, biasA),
                  finish<P>(sums[4 * i + 3], scaleLower, scaleB, biasB)};
  };
  // Where this lane writes by stmatrix (its row of one of four 8x8 matrices), and where it reads.
  const u32 writeAt = sharedAddress(piece) + swizzledOffset(lane % 16, lane / 16);
  const int firstRow = lane / 8, chunk = lane % 8;
  Output *out = ops.y + static_cast<i64>(row0 + firstRow) * P::kN + n0 + chunk * kPerChunk;
#pragma unroll
  for (int from = 0; from < C::kTileN; from += kColumns) {
    __syncwarp();
    if constexpr (kIsSame<Output, float>) {
#pragma unroll
      for (int i = from / 8; i < (from + kColumns) / 8 && i < C::kTileN / 8; ++i) {
        const float4 values = finished(i);
        const int inPiece = 8 * i - from + 2 * (lane % 4);
        u8 *at = piece + swizzledOffset(lane / 4, inPiece / kPerChunk) + inPiece % kPerChunk * 4;
        *reinterpret_cast<float2 *>(at) = {values.x, values.y};
        *reinterpret_cast<float2 *>(at + 8 * kRowBytes) = {values.z, values.w};
      }
    } else {
#pragma unroll
      for (int i = from / 8; i < (from + kColumns) / 8 && i < C::kTileN / 8; i += 2) {
        const float4 a = finished(i);
        const u32 at = writeAt ^ ((8 * i - from) * 2);
        if (i + 1 < C::kTileN / 8) {
          const float4 b = finished(i + 1);
          storeMatrices(at, packPair<Output>(a.x, a.y), packPair<Output>(a.z, a.w),
                        packPair<Output>(b.x, b.y), packPair<Output>(b.z, b.w));
        } else {
          storeMatrices(at, packPair<Output>(a.x, a.y), packPair<Output>(a.z, a.w));
        }
      }
    }
    __syncwarp();
    const int column = from + chunk * kPerChunk;
    const bool inside =
        (C::kTileN % kColumns == 0 || column < C::kTileN) && (kWhole || n0 + column < P::kN);
    uint4 lines[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      lines[i] = load16(piece + swizzledOffset(firstRow + 4 * i, chunk));
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!inside || row0 + firstRow + 4 * i >= ops.m)
        continue;
      const uint4 &values = lines[i];
      Output *at = out + 4 * i * P::kN + from;
      if constexpr (P::kN % kPerChunk == 0) {
        storeGlobal16(at, values);
      } else {
        const Output *elements = reinterpret_cast<const Output *>(&values);
#pragma unroll
        for (int j = 0; j < kPerChunk; ++j)
          if (n0 + column + j < P::kN)
            at[j] = elements[j];
      }
    }
  }
}

/// Calls `copy(m0, n0, step, stage, barrier)` for each step of each tile of this CTA, when
/// consumers have released its stage.
template <class C, class Copy>
OCTET_DEVICE void fillStages(int m, int rankM, int rankN, u32 full, u32 empty, const Copy &copy) {
  StageCursor<C::kStages> at;
  for (TileOrder<C> order(m); order.more(); order.next()) {
    int clusterM, clusterN;
    order.at(clusterM, clusterN);
    const int m0 = (clusterM * C::kClusterM + rankM) * C::kTileM;
    const int n0 = (clusterN * C::kClusterN + rankN) * C::kTileN;
    for (int step = 0; step < C::Product::kSteps; ++step) {
      wait(empty + 8 * at.stage, at.parity ^ 1);
      copy(m0, n0, step, at.stage, full + 8 * at.stage);
      at.advance();
    }
  }
}

/// `xScale` is a tensor map where scales are of blocks. Operands that the contract has not are
/// null.
template <class C>
__device__ void sm90Tiled(const TensorMap *x, const typename C::Product::XScale *xScale,
                          const TensorMap *w, const float *wScale,
                          const typename C::Product::Bias *bias, typename C::Product::Output *y,
                          int m) {
  using P = typename C::Product;
  const Sm90Operands<P> ops{x, xScale, w, wScale, bias, y, m};
  extern __shared__ __align__(1024) u8 memory[];
  const u32 shared = sharedAddress(memory);
  const u32 full = shared + C::kOffsetBarriers, empty = full + 8 * C::kStages;
  const int warp = uniformWarp(), warpgroup = warp / 4, lane = threadIdx.x % 32;
  const int rank = C::kCluster > 1 ? static_cast<int>(clusterRank()) : 0;
  const int rankM = rank % C::kClusterM, rankN = rank / C::kClusterM;

  if (threadIdx.x == 32)
    prefetchMaps<P>(ops);
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      initBarrier(full + 8 * i, P::kBlocks ? 3 : 2);
      initBarrier(empty + 8 * i, 4 * C::kMathWarpgroups * C::kCluster);
    }
    fenceBarrierInit();
  }
  if constexpr (C::kCluster > 1)
    clusterSyncRelaxed();
  else
    __syncthreads();
  launchNextGrid();

  if (warpgroup == C::kMathWarpgroups) {
    // Producer
    if constexpr (C::kMathWarpgroups > 1)
      shrinkRegisters<C::kCopyRegisters>();
    // A warp for each operand: one alone would not ask for tiles as fast as memory gives them.
    const int operand = warp - 4 * C::kMathWarpgroups;
    if (operand == 0 && lane == 0) {
      fillStages<C>(m, rankM, rankN, full, empty,
                    [&](int, int n0, int step, int stage, u32 barrier) {
                      arriveExpecting(barrier, C::kBytesW);
                      const u32 to = shared + C::kOffsetW + stage * C::kBytesW;
                      if constexpr (C::kClusterM > 1) {
                        constexpr int kRows = C::kTileN / C::kClusterM;
                        constexpr u32 kMask = (1u << C::kClusterM) - 1;
                        loadTileMulticast(to + rankM * kRows * kRowBytes, w, barrier,
                                          step * P::kStepK, n0 + rankM * kRows,
                                          static_cast<u16>(kMask << (rankN * C::kClusterM)));
                      } else {
                        loadTile(to, w, barrier, step * P::kStepK, n0);
                      }
                    });
    } else if (operand == 1 && lane == 0) {
      waitForPriorGrids();
      fillStages<C>(
          m, rankM, rankN, full, empty, [&](int m0, int, int step, int stage, u32 barrier) {
            arriveExpecting(barrier, C::kBytesX);
            const u32 to = shared + stage * C::kBytesX;
            if constexpr (C::kClusterN > 1) {
              constexpr int kRows = C::kTileM / C::kClusterN;
              constexpr u32 kMask = everyNth(C::kClusterN, C::kClusterM);
              loadTileMulticast(to + rankN * kRows * kRowBytes, x, barrier, step * P::kStepK,
                                m0 + rankN * kRows, static_cast<u16>(kMask << rankM));
            } else {
              loadTile(to, x, barrier, step * P::kStepK, m0);
            }
          });
    } else if (P::kBlocks && operand == 2 && lane == 0) {
      if constexpr (P::kBlocks) {
        waitForPriorGrids();
        fillStages<C>(m, rankM, rankN, full, empty,
                      [&](int m0, int, int step, int stage, u32 barrier) {
                        arriveExpecting(barrier, P::kSubs * C::kTileM * 4);
                        loadTile(shared + C::kOffsetXScale + stage * C::kBytesXScale, xScale,
                                 barrier, m0, step * P::kSubs);
                      });
      }
    }
    __syncwarp();
  } else {
    // Products
    if constexpr (C::kMathWarpgroups > 1)
      growRegisters<C::kMathRegisters>();
    const int rows0 = warpgroup * C::kPasses * 64; // of the tile, this warpgroup's first
    const StepLoop<typename P::Input, C::kTileN, C::kPasses, C::kBuffers, P::kPromotes, C::kStages,
                   C::kBytesX, C::kBytesW, P::kSubs, C::kTurns>
        loop{swizzledOperand(shared + rows0 * kRowBytes), swizzledOperand(shared + C::kOffsetW),
             full, warpgroup};
    loop.startTurns();
    auto release = [&](int stage) {
      __syncwarp();
      if constexpr (C::kCluster > 1) {
        if (lane < C::kCluster)
          arriveAt(empty + 8 * stage, lane);
      } else if (lane == 0) {
        arrive(empty + 8 * stage);
      }
    };
    StageCursor<C::kStages> at;
    u8 *piece = memory + C::kOffsetPieces + warp * C::kBytesPiece;
    Choose<P::kBlocks, TiledScales<P, C::kTileN, C::kBytesXScale, C::kTileM * 4>,
           PlainSums<C::kTileN>>
        scales;
    if constexpr (P::kBlocks)
      scales.x = shared + C::kOffsetXScale + (rows0 + warp % 4 * 16 + lane / 4) * 4;
    TileOrder<C> order(ops.m);
    int m0 = 0, n0 = 0; // of the warp's next sums
    auto prepareTile = [&] {
      if (!order.more())
        return;
      int clusterM, clusterN;
      order.at(clusterM, clusterN);
      m0 = (clusterM * C::kClusterM + rankM) * C::kTileM + rows0 + warp % 4 * 16;
      n0 = (clusterN * C::kClusterN + rankN) * C::kTileN;
      if constexpr (P::kBlocks)
        scales.w.prepare(wScale, n0, 0);
    };
    prepareTile();
    waitForPriorGrids();
    float total[C::kPasses][C::kTileN / 2];
    int row = -1, column = 0; // of `total`
    auto store = [&](int pass) {
      if (row >= 0)
        storeSums<C>(ops, total[pass], row + pass * 64, column, piece);
    };
    auto storeAll = [&] {
#pragma unroll
      for (int pass = 0; pass < C::kPasses; ++pass)
        store(pass);
    };
    while (order.more()) {
      const int nextRow = m0, nextColumn = n0;
      if constexpr (P::kBlocks)
        scales.w.begin(0, P::kSteps);
      order.next();
      prepareTile();
      // The tile before is stored while this one's first products run.
      if constexpr (C::kStoresAlone) {
        storeAll();
        loop.run(total, at, P::kSteps, scales, release, [](int) {});
      } else {
        loop.run(total, at, P::kSteps, scales, release, store);
      }
      row = nextRow;
      column = nextColumn;
    }
    storeAll();
  }
  // A CTA stays until no copy or arrival of the cluster goes to it.
  if constexpr (C::kCluster > 1)
    clusterSyncRelaxed();
}

} // namespace octet::cuda
