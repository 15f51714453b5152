//===- sm90_swapped.cuh - Products of few rows on sm_90a ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// y[M, N] = x w^T (N6, N6b) where M is small and time is that of reading W: rows of W are the 64
// rows of wgmma, rows of X its columns, of which 8 are enough. The CTAs of a cluster share K
// (kSplits) and rows of X (kShare). Each CTA sends the parts of its sums to the CTA of the cluster
// that stores them, which adds them in the order of K, so that a result does not depend on timing.
//
//   operand   shape              type                contiguous  aligned to
//   x         [M, K]             E4M3, BF16, F16     K           16, by tensor map, box kTileM /
//                                                                kShare x 128 bytes, swizzled
//   w         [N, K]             as x                K           16, box kTileN x 128 bytes, swiz.
//   xScale    [K/b][M] blocks    F32, by tensor map  M           16, box 128/b x kTileM floats
//             [M] or one         F32                             4
//   wScale    [rows][K/b], [N] or one a shard, F32               4
//   bias      [N]                BF16, F16, F32                  its element
//   y         [M, N]             BF16, F16, F32      N           16
//
//   kTileM    rows of X a CTA: a multiple of 8 up to 128; of 8 kShare
//   kTileN    rows of W a CTA: 64 a warpgroup, up to 256
//   kStages   steps of K in flight; kSplits * kShare up to 8; kBuffers 1 or 2 (StepLoop)
//
// Grid: x = cdiv(N, kTileN kShare) * kSplits * kShare in clusters of kSplits * kShare, y =
// cdiv(M, kTileM). Threads: kTileN / 64 math warpgroups and one that copies.
// Shared memory: kSharedBytes, at most half of a multiprocessor's where the next kernel shall start
// early: W of kStages steps is asked for before the kernels before have ended.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/sm90_operands.cuh"
#include "ptx/mma_sync.cuh"

namespace octet::cuda {

template <class Product_, int kTileM_, int kTileN_, int kStages_, int kSplits_, int kShare_ = 1,
          int kBuffers_ = 1>
struct Sm90SwappedConfig {
  using Product = Product_;
  static constexpr int kTileM = kTileM_, kTileN = kTileN_, kStages = kStages_;
  static constexpr int kSplits = kSplits_, kShare = kShare_, kBuffers = kBuffers_;
  static constexpr int kCluster = kSplits * kShare;
  static constexpr int kMathWarpgroups = kTileN / 64;
  static constexpr int kThreads = 128 * kMathWarpgroups + 128;
  static constexpr int kPartSteps = divideUp(Product::kSteps, kSplits);
  // Wide tiles of several warpgroups take the registers that the copying one gives up.
  static constexpr bool kMovesRegisters =
      kMathWarpgroups > 1 && kTileM / 2 * (Product::kPromotes ? 1 + kBuffers : 1) > 64;
  static constexpr int kCopyRegisters = kMathWarpgroups == 2 ? 40 : 24;
  static constexpr int kMathRegisters = kMathWarpgroups == 2   ? 232
                                        : kMathWarpgroups == 3 ? 160
                                                               : 120;

  static constexpr int kBytesW = kTileN * kRowBytes, kBytesX = kTileM * kRowBytes;
  static constexpr int kBytesXScale =
      Product::kBlocks ? alignUp(Product::kSubs * kTileM * 4, 128) : 0;
  // Stages of W, X and X's scales, then the parts of the sums that this CTA adds, where they are
  // small; where not, they lie over the stages once the whole cluster is through its loop over K. A
  // part is the sums of a warp: 16 rows of W; warp w's are added by split w % kSplits.
  static constexpr int kOffsetX = kStages * kBytesW;
  static constexpr int kOffsetXScale = kOffsetX + kStages * kBytesX;
  static constexpr int kWarps = 4 * kMathWarpgroups;
  static constexpr int kBytesPart = kTileM * 16 * 4;
  static constexpr int kBytesParts = kSplits > 1 ? divideUp(kWarps, kSplits) * kSplits *kBytesPart
                                                 : 0;
  static constexpr bool kPartsOverStages = kBytesParts > 16384;
  static constexpr int kEndStages = kOffsetXScale + kStages * kBytesXScale;
  static constexpr int kOffsetParts = kPartsOverStages ? 0 : kEndStages;
  static constexpr int kOffsetBarriers =
      kPartsOverStages ? maxOf(kEndStages, kBytesParts) : kEndStages + kBytesParts;
  static constexpr int kSharedBytes = kOffsetBarriers + 16 * kStages + 8;

  static_assert(kTileM % (8 * kShare) == 0 && kTileM <= 128,
                "kTileM is a multiple of 8 kShare up to 128");
  static_assert(kTileN % 64 == 0 && kTileN <= 256, "kTileN is a multiple of 64 up to 256");
  static_assert(kCluster <= 8, "a cluster has at most 8 CTAs");
  static_assert(kSplits <= kWarps, "every CTA of a split adds a warp's sums");
  static_assert(kPartSteps * (kSplits - 1) < Product::kSteps, "every part of K has a step");
  static_assert(kSharedBytes <= 232448, "the stages fit in 227 KiB");
};

/// Rounds and stores sums as wgmma has them: `row` + 8 rows of X, 16 rows of W from `column`.
template <class P>
OCTET_DEVICE void storeFragment(const Sm90Operands<P> &ops, int row, int column,
                                const float (&sums)[4]) {
  using Output = typename P::Output;
  const int lane = threadIdx.x % 32, m = row + 2 * (lane % 4), n = column + lane / 4;
  const float scaleEven = rowScale<P>(ops, m), scaleOdd = rowScale<P>(ops, m + 1);
  const float scaleUpper = columnScale<P>(ops, n), scaleLower = columnScale<P>(ops, n + 8);
  const float biasUpper = columnBias<P>(ops, n), biasLower = columnBias<P>(ops, n + 8);
  const float a = finish<P>(sums[0], scaleEven, scaleUpper, biasUpper);
  const float b = finish<P>(sums[1], scaleOdd, scaleUpper, biasUpper);
  const float c = finish<P>(sums[2], scaleEven, scaleLower, biasLower);
  const float d = finish<P>(sums[3], scaleOdd, scaleLower, biasLower);
  if constexpr (kIsSame<Output, float> || P::kN % 2 != 0) {
    auto put = [&](int i, int j, float value) {
      if (i < ops.m && j < P::kN)
        ops.y[static_cast<i64>(i) * P::kN + j] = fromFloat<Output>(value);
    };
    put(m, n, a);
    put(m + 1, n, b);
    put(m, n + 8, c);
    put(m + 1, n + 8, d);
  } else {
    // A lane gets two neighbours in N of row lane / 4.
    const u32 upper = transposeMatrix(packPair<Output>(a, b));
    const u32 lower = transposeMatrix(packPair<Output>(c, d));
    const int i = row + lane / 4, j = column + 2 * (lane % 4);
    Output *at = ops.y + static_cast<i64>(i) * P::kN + j;
    if (i < ops.m && j < P::kN)
      *reinterpret_cast<u32 *>(at) = upper;
    if (i < ops.m && j + 8 < P::kN)
      *reinterpret_cast<u32 *>(at + 8) = lower;
  }
}

/// Calls `copy(step, stage, barrier)` for each step, when consumers have released its stage.
template <int kStages, class Copy>
OCTET_DEVICE void fillStages(int firstStep, int steps, u32 full, u32 empty, const Copy &copy) {
  StageCursor<kStages> at;
  for (int i = 0; i < steps; ++i) {
    wait(empty + 8 * at.stage, at.parity ^ 1);
    copy(firstStep + i, at.stage, full + 8 * at.stage);
    at.advance();
  }
}

/// `xScale` is a tensor map where scales are of blocks. Operands that the contract has not are
/// null.
template <class C>
__device__ void sm90Swapped(const TensorMap *x, const typename C::Product::XScale *xScale,
                            const TensorMap *w, const float *wScale,
                            const typename C::Product::Bias *bias, typename C::Product::Output *y,
                            int m) {
  using P = typename C::Product;
  const Sm90Operands<P> ops{x, xScale, w, wScale, bias, y, m};
  extern __shared__ __align__(1024) u8 memory[];
  const u32 shared = sharedAddress(memory);
  const u32 full = shared + C::kOffsetBarriers, empty = full + 8 * C::kStages;
  const u32 partsThere = empty + 8 * C::kStages;
  const int warp = uniformWarp(), warpgroup = warp / 4, lane = threadIdx.x % 32;

  const int rank = C::kCluster > 1 ? static_cast<int>(clusterRank()) : 0;
  const int split = rank % C::kSplits, share = rank / C::kSplits;
  const int n0 = (static_cast<int>(blockIdx.x) / C::kCluster * C::kShare + share) * C::kTileN;
  const int m0 = static_cast<int>(blockIdx.y) * C::kTileM;
  const int firstStep = split * C::kPartSteps;
  const int steps = minOf(C::kPartSteps, P::kSteps - firstStep);

  // Asked for first of all: the first step needs them.
  Choose<P::kBlocks, SwappedScales<P, C::kTileM, C::kBytesXScale, C::kTileM * 4>,
         PlainSums<C::kTileM>>
      scales;
  if constexpr (P::kBlocks) {
    if (warpgroup < C::kMathWarpgroups)
      scales.w.prepare(wScale, n0 + 16 * warp, firstStep);
  }

  if (threadIdx.x == 32)
    prefetchMaps<P>(ops);
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      initBarrier(full + 8 * i, P::kBlocks ? 3 : 2);
      initBarrier(empty + 8 * i, 4 * C::kMathWarpgroups * C::kShare);
    }
    initBarrier(partsThere, 1);
    fenceBarrierInit();
    if constexpr (C::kSplits > 1)
      arriveExpecting(partsThere,
                      divideUp(C::kWarps - split, C::kSplits) * C::kSplits * C::kBytesPart);
  }
  // Before anything goes to another CTA, its barriers are there.
  if constexpr (C::kCluster > 1)
    clusterArriveRelaxed();
  __syncthreads();
  if constexpr (C::kShare > 1)
    clusterWait();
  launchNextGrid();

  auto syncBeforeParts = [] {
    if constexpr (C::kSplits > 1 && C::kShare == 1)
      clusterWait();
    if constexpr (C::kSplits > 1 && C::kPartsOverStages)
      clusterSyncRelaxed();
  };
  // Arrivals of other CTAs on `empty` come until these are through their loops.
  auto syncBeforeExit = [] {
    if constexpr (C::kShare > 1)
      clusterSyncRelaxed();
  };

  if (warpgroup == C::kMathWarpgroups) {
    // Producer
    if constexpr (C::kMovesRegisters)
      shrinkRegisters<C::kCopyRegisters>();
    // A warp for each operand: one alone would not ask for tiles as fast as memory gives them.
    const int operand = warp - C::kWarps;
    if (operand == 0 && lane == 0) {
      fillStages<C::kStages>(firstStep, steps, full, empty, [&](int step, int stage, u32 barrier) {
        arriveExpecting(barrier, C::kBytesW);
        if constexpr (C::kTileM <= 32)
          loadTileOnce(shared + stage * C::kBytesW, w, barrier, step * P::kStepK, n0);
        else
          loadTile(shared + stage * C::kBytesW, w, barrier, step * P::kStepK, n0);
      });
    } else if (operand == 1 && lane == 0) {
      waitForPriorGrids();
      fillStages<C::kStages>(firstStep, steps, full, empty, [&](int step, int stage, u32 barrier) {
        arriveExpecting(barrier, C::kBytesX);
        const u32 to = shared + C::kOffsetX + stage * C::kBytesX;
        if constexpr (C::kShare > 1) {
          constexpr int kRows = C::kTileM / C::kShare;
          constexpr u32 kMask = everyNth(C::kShare, C::kSplits);
          loadTileMulticast(to + share * kRows * kRowBytes, x, barrier, step * P::kStepK,
                            m0 + share * kRows, static_cast<u16>(kMask << split));
        } else {
          loadTile(to, x, barrier, step * P::kStepK, m0);
        }
      });
    } else if (P::kBlocks && operand == 2 && lane == 0) {
      if constexpr (P::kBlocks) {
        waitForPriorGrids();
        fillStages<C::kStages>(firstStep, steps, full, empty,
                               [&](int step, int stage, u32 barrier) {
                                 arriveExpecting(barrier, P::kSubs * C::kTileM * 4);
                                 loadTile(shared + C::kOffsetXScale + stage * C::kBytesXScale,
                                          xScale, barrier, m0, step * P::kSubs);
                               });
      }
    }
    __syncwarp();
    syncBeforeParts();
    syncBeforeExit();
    return;
  }

  // Products
  if constexpr (C::kMovesRegisters)
    growRegisters<C::kMathRegisters>();
  float total[1][C::kTileM / 2];
  const StepLoop<typename P::Input, C::kTileM, 1, C::kBuffers, P::kPromotes, C::kStages, C::kBytesW,
                 C::kBytesX, P::kSubs>
      loop{swizzledOperand(shared + warpgroup * 64 * kRowBytes),
           swizzledOperand(shared + C::kOffsetX), full};
  auto release = [&](int stage) {
    __syncwarp();
    if constexpr (C::kShare > 1) {
      if (lane < C::kShare)
        arriveAt(empty + 8 * stage, lane * C::kSplits + split);
    } else if (lane == 0) {
      arrive(empty + 8 * stage);
    }
  };
  StageCursor<C::kStages> at;
  if constexpr (P::kBlocks) {
    scales.x = shared + C::kOffsetXScale + 8 * (lane % 4);
    scales.w.begin(firstStep, steps);
  }
  loop.run(total, at, steps, scales, release, [](int) {});

  syncBeforeParts();
  if constexpr (C::kSplits == 1) {
    waitForPriorGrids();
#pragma unroll
    for (int i = 0; i < C::kTileM / 8; ++i) {
      const float sums[4] = {total[0][4 * i], total[0][4 * i + 1], total[0][4 * i + 2],
                             total[0][4 * i + 3]};
      storeFragment<P>(ops, m0 + 8 * i, n0 + 16 * warp, sums);
    }
  } else {
    // Parts to the CTAs that add them: [warp / kSplits][split][row of X / 8][lane][4].
    const int owner = share * C::kSplits + warp % C::kSplits;
    const u32 parts = mapToRank(shared + C::kOffsetParts, owner) +
                      (warp / C::kSplits * C::kSplits + split) * C::kBytesPart + lane * 16;
    const u32 there = mapToRank(partsThere, owner);
#pragma unroll
    for (int i = 0; i < C::kTileM / 8; ++i)
      sendCluster16(parts + 512 * i, there, total[0][4 * i], total[0][4 * i + 1],
                    total[0][4 * i + 2], total[0][4 * i + 3]);
    waitForPriorGrids();
    wait(partsThere, 0);
    constexpr int kPerPart = C::kTileM / 8;
    const int fragments = divideUp(C::kWarps - split, C::kSplits) * kPerPart;
    for (int i = warp; i < fragments; i += C::kWarps) {
      const int slot = i / kPerPart, group = i % kPerPart;
      if (m0 + 8 * group >= ops.m)
        continue;
      float sums[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int s = 0; s < C::kSplits; ++s) {
        const float4 part = *reinterpret_cast<const float4 *>(
            memory + C::kOffsetParts + (slot * C::kSplits + s) * C::kBytesPart + group * 512 +
            lane * 16);
        sums[0] = __fadd_rn(sums[0], part.x);
        sums[1] = __fadd_rn(sums[1], part.y);
        sums[2] = __fadd_rn(sums[2], part.z);
        sums[3] = __fadd_rn(sums[3], part.w);
      }
      storeFragment<P>(ops, m0 + 8 * group, n0 + 16 * (slot * C::kSplits + split), sums);
    }
  }
  syncBeforeExit();
}

} // namespace octet::cuda
