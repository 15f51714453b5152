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
// (kSplits) and rows of X (kShare); their parts are added in shared memory, in the order of K, so
// that a result does not depend on timing.
//
//   operand   shape              type                contiguous  aligned to
//   x         [M, K]             E4M3, BF16, F16     K           16, by tensor map, box kTileM /
//                                                                kShare x 128 bytes, swizzled
//   w         [N, K]             as x                K           16, box kTileN x 128 bytes, swizzled
//   xScale    [K/128][M] blocks  F32, by tensor map  M           16, box 1 x kTileM floats
//             [M] or one         F32                             4
//   wScale    [rows][K/128], [N] or one a shard, F32             4
//   bias      [N]                BF16, F16, F32                  its element
//   y         [M, N]             BF16, F16, F32      N           16
//
//   kTileM    rows of X a CTA: a multiple of 8 up to 128; of 8 kShare
//   kTileN    rows of W a CTA: 64 a warpgroup, up to 256
//   kStages   steps of K in flight; kSplits * kShare up to 8; kBuffers 1 or 2 (StepLoop)
//
// Grid: x = cdiv(N, kTileN kShare) * kSplits * kShare in clusters of kSplits * kShare, y =
// cdiv(M, kTileM). Threads: kTileN / 64 math warpgroups and one of which one warp copies.
// Shared memory: kSharedBytes, at most half of a multiprocessor's where the next kernel shall start
// early: W of kStages steps is asked for before the kernels before have ended.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/sm90_operands.cuh"

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

  using WeightScalesT = WeightScales<Product, kTileN>;
  static constexpr int kBytesW = kTileN * kRowBytes, kBytesX = kTileM * kRowBytes;
  static constexpr int kBytesXScale = Product::kBlocks ? alignUp(kTileM * 4, 128) : 0;
  static constexpr int kBytesWScale = WeightScalesT::kBytes;
  // Stages of W and X, then of their scales, then the barriers; the parts of the sums lie over the
  // stages once the loop over K is done, rows padded against bank conflicts.
  static constexpr int kOffsetX = kStages * kBytesW;
  static constexpr int kOffsetXScale = kOffsetX + kStages * kBytesX;
  static constexpr int kOffsetWScale = kOffsetXScale + kStages * kBytesXScale;
  static constexpr int kOffsetBarriers = alignUp(kOffsetWScale + kStages * kBytesWScale, 16);
  static constexpr int kPartPitch = kTileN + 4;
  static constexpr int kBytesParts = kTileM * kPartPitch * 4;
  static constexpr int kSharedBytes = maxOf(kOffsetBarriers + 16 * kStages, kBytesParts);

  static_assert(kTileM % (8 * kShare) == 0 && kTileM <= 128,
                "kTileM is a multiple of 8 kShare up to 128");
  static_assert(kTileN % 64 == 0 && kTileN <= 256, "kTileN is a multiple of 64 up to 256");
  static_assert(kCluster <= 8, "a cluster has at most 8 CTAs");
  static_assert(kPartSteps * (kSplits - 1) < Product::kSteps, "every part of K has a step");
  static_assert(kSharedBytes <= 232448, "the stages fit in 227 KiB");
};

template <class C>
__device__ void sm90Swapped(const Sm90Operands<typename C::Product> &ops) {
  using P = typename C::Product;
  extern __shared__ __align__(1024) u8 memory[];
  const u32 shared = sharedAddress(memory);
  const u32 full = shared + C::kOffsetBarriers, empty = full + 8 * C::kStages;
  const int warpgroup = threadIdx.x / 128, lane = threadIdx.x % 32;

  const int rank = C::kCluster > 1 ? static_cast<int>(clusterRank()) : 0;
  const int split = rank % C::kSplits, share = rank / C::kSplits;
  const int n0 = (static_cast<int>(blockIdx.x) / C::kCluster * C::kShare + share) * C::kTileN;
  const int m0 = static_cast<int>(blockIdx.y) * C::kTileM;
  const int firstStep = split * C::kPartSteps;
  const int steps = minOf(C::kPartSteps, P::kSteps - firstStep);

  if (threadIdx.x == 0) {
    for (int i = 0; i < C::kStages; ++i) {
      initBarrier(full + 8 * i, 1 + C::WeightScalesT::kCount);
      initBarrier(empty + 8 * i, 4 * C::kMathWarpgroups * C::kShare);
    }
    fenceBarrierInit();
  }
  if constexpr (C::kShare > 1)
    clusterSync();
  else
    __syncthreads();
  launchNextGrid();

  auto syncCluster = [] {
    if constexpr (C::kCluster > 1)
      clusterSync();
    else
      __syncthreads();
  };

  if (warpgroup == C::kMathWarpgroups) {
    // Producer
    if constexpr (C::kMovesRegisters)
      shrinkRegisters<C::kCopyRegisters>();
    if (threadIdx.x / 32 == 4 * C::kMathWarpgroups) {
      const u64 once = cachePolicy(Keep::First), often = cachePolicy(Keep::Last);
      const float *wScales = C::WeightScalesT::source(ops.wScale, n0, lane);
      auto loadW = [&](int step, int stage) {
        const u32 barrier = full + 8 * stage;
        if (lane == 0) {
          arriveExpecting(barrier, C::kBytesW + C::kBytesX + (P::kBlocks ? C::kTileM * 4 : 0));
          loadTile(shared + stage * C::kBytesW, ops.w, barrier, step * P::kStepK, n0, once);
        }
        if constexpr (P::kBlocks)
          C::WeightScalesT::copy(wScales ? wScales + step : nullptr,
                                 shared + C::kOffsetWScale + stage * C::kBytesWScale, lane, barrier);
      };
      auto loadX = [&](int step, int stage) {
        if (lane != 0)
          return;
        const u32 barrier = full + 8 * stage;
        const u32 to = shared + C::kOffsetX + stage * C::kBytesX;
        if constexpr (C::kShare > 1) {
          constexpr int kRows = C::kTileM / C::kShare;
          u16 mask = 0;
#pragma unroll
          for (int i = 0; i < C::kShare; ++i)
            mask |= static_cast<u16>(1u << (i * C::kSplits));
          loadTileMulticast(to + share * kRows * kRowBytes, ops.x, barrier, step * P::kStepK,
                            m0 + share * kRows, static_cast<u16>(mask << split), often);
        } else {
          loadTile(to, ops.x, barrier, step * P::kStepK, m0, often);
        }
        if constexpr (P::kBlocks)
          loadTile(shared + C::kOffsetXScale + stage * C::kBytesXScale, ops.xScaleMap, barrier, m0,
                   step, often);
      };

      // W is not written by kernels; X may be, by the one before.
      const int early = minOf(steps, C::kStages);
      for (int i = 0; i < early; ++i)
        loadW(firstStep + i, i);
      waitForPriorGrids();
      for (int i = 0; i < early; ++i)
        loadX(firstStep + i, i);
      StageCursor<C::kStages> at;
      for (int i = early; i < steps; ++i) {
        if constexpr (C::kShare > 1)
          waitCluster(empty + 8 * at.stage, at.parity);
        else
          wait(empty + 8 * at.stage, at.parity);
        loadW(firstStep + i, at.stage);
        loadX(firstStep + i, at.stage);
        at.advance();
      }
    }
    __syncwarp();
    __syncthreads(); // the stages have been read
    syncCluster();   // the parts are there
    if constexpr (C::kCluster > 1)
      clusterSync(); // and have been read
    return;
  }

  // Products
  if constexpr (C::kMovesRegisters)
    growRegisters<C::kMathRegisters>();
  float total[1][C::kTileM / 2];
#pragma unroll
  for (int i = 0; i < C::kTileM / 2; ++i)
    total[0][i] = 0.f;
  const StepLoop<typename P::Input, C::kTileM, 1, C::kBuffers, P::kPromotes, C::kStages,
                 C::kBytesW, C::kBytesX>
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
    constexpr int kGranule = C::WeightScalesT::kGranule;
    const int row = threadIdx.x / 32 * 16 + lane / 4;
    const u32 wScales = shared + C::kOffsetWScale;
    const SwappedScales<C::kTileM, (kGranule >= 16), C::kBytesXScale, C::kBytesWScale> scales{
        shared + C::kOffsetXScale + 8 * (lane % 4), wScales + row / kGranule * 4,
        wScales + (row + 8) / kGranule * 4};
    loop.run(total, at, steps, scales, release);
  } else {
    loop.run(total, at, steps, PlainSums<C::kTileM>{}, release);
  }

  // Parts to shared memory, [row of X][row of W]. All stages have been read: by this CTA here, and
  // by its neighbours' copies, which end in stages that were waited for.
  __syncthreads();
  float *parts = reinterpret_cast<float *>(memory);
#pragma unroll
  for (int i = 0; i < C::kTileM / 8; ++i) {
    float *to = parts + (8 * i + 2 * (lane % 4)) * C::kPartPitch + threadIdx.x / 32 * 16 + lane / 4;
    to[0] = total[0][4 * i];
    to[C::kPartPitch] = total[0][4 * i + 1];
    to[8] = total[0][4 * i + 2];
    to[C::kPartPitch + 8] = total[0][4 * i + 3];
  }
  syncCluster();
  waitForPriorGrids();

  // Each CTA adds and stores its share of the elements of the tile, four rows of W at a time.
  constexpr int kQuads = C::kTileN / 4;
  const int rows = minOf(C::kTileM, ops.m - m0);
  constexpr int kMathThreads = 128 * C::kMathWarpgroups;
  for (int i = threadIdx.x + split * kMathThreads; i < rows * kQuads;
       i += kMathThreads * C::kSplits) {
    const int row = i / kQuads, column = i % kQuads * 4;
    const u32 at = shared + (row * C::kPartPitch + column) * 4;
    float4 sum = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
    for (int s = 0; s < C::kSplits; ++s) {
      float4 part;
      if constexpr (C::kSplits > 1)
        part = loadCluster16(mapToRank(at, share * C::kSplits + s));
      else
        part = *reinterpret_cast<const float4 *>(memory + (row * C::kPartPitch + column) * 4);
      sum.x = __fadd_rn(sum.x, part.x);
      sum.y = __fadd_rn(sum.y, part.y);
      sum.z = __fadd_rn(sum.z, part.z);
      sum.w = __fadd_rn(sum.w, part.w);
    }
    const float scaleX = rowScale<P>(ops, m0 + row);
    const int n = n0 + column;
    float values[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
    for (int j = 0; j < 4; ++j)
      values[j] =
          finish<P>(values[j], scaleX, columnScale<P>(ops, n + j), columnBias<P>(ops, n + j));
    storeFour<P>(ops, m0 + row, n, values);
  }
  // Shared memory stays until the others have read it.
  if constexpr (C::kCluster > 1)
    clusterSync();
}

} // namespace octet::cuda
