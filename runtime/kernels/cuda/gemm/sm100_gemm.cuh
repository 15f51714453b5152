//===- sm100_gemm.cuh - Products in tensor memory, sm_100f ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   blocks      y[i,j] = round( sum_b sx[i,b] sw[row(j),b] sum_{k in b} x[i,k] w[j,k] + bias[j] )
//               (N6; row(j) by W5b; both scales are powers of two, B1)
//   otherwise   y[i,j] = round( (sum_k x[i,k] w[j,k]) (sx[i] sw[j]) + bias[j] )            (N6b)
//
// Compile-only: no device of this family was at hand.
//
//   operand  shape                            types             contiguous  aligned to
//   x        [m, K]; box kTileM x 128 bytes   BF16, F16, E4M3   K           16
//   xScale   none; [1]; [m] F32; of blocks    F32, words of 4   rows        4
//            [cdiv(blocks of K, 4), align4(m)] UE8M0, lowest first
//   w        [N, K]; box 128 x 128 bytes      as x              K           16
//   wScale   none; [shards]; [N] F32; of      F32, UE8M0        K blocks    4, 1
//            blocks [sum cdiv(N_s, block), cdiv(K, block)]
//   bias     [N]                              F32, BF16, F16    N           its element
//   y        [m, N]                           F32, BF16, F16    N           its element
//
// x and w come by bulk copies of 128 bytes of K with SWIZZLE_128B, so K is a multiple of 16 bytes;
// what lies outside of m, N and K is zeros (W4); the stores of y are masked.
//
// Constants: kTileM tokens, a multiple of 16 up to 128, by 128 rows of w. w is the side of 128
// lanes, because it has so many rows even where there are few tokens, and a warp then stores
// neighbours of a row of y. kBlock is 128 or 32 (B2), 0 without blocks.
//
// 192 threads: warps 0 to 3 take sums out of tensor memory, warp 4 copies, warp 5 multiplies.
// Blocks alternate between two sums in tensor memory, so that one is promoted to FP32 registers
// (N6) while the other is made. The grid is cdiv(m, kTileM) * cdiv(N, 128) along x.
//
// Shared memory: kStages * (128 + kTileM) * 128, kTileM * 8 for scales, barriers, and 1024 to
// align. y is rounded once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/mbarrier.cuh"
#include "ptx/tcgen05.cuh"
#include "ptx/tma.cuh"
#include "tile/descriptor.cuh"
#include "tile/scales.cuh"
#include "tile/shards.cuh"
#include "tile/stages.cuh"

namespace octet::cuda {

/// One of two types.
template <bool kFirst, class A, class B>
struct OneOf {
  using Type = A;
};
template <class A, class B>
struct OneOf<false, A, B> {
  using Type = B;
};

/// `TBias` is void where there is none.
template <class TX, class TY, class TBias, int kN_, int kK_, Scaling kXScaling_, Scaling kWScaling_,
          int kBlock_, int kTileM_, int kStages_, class TShards>
struct Sm100Gemm {
  using X = TX;
  using Y = TY;
  using Bias = TBias;
  using AllShards = TShards;
  static constexpr int kN = kN_, kK = kK_, kBlock = kBlock_;
  static constexpr int kTileM = kTileM_, kTileN = 128, kStages = kStages_;
  static constexpr Scaling kXScaling = kXScaling_, kWScaling = kWScaling_;
  static constexpr bool kIsBlocked = kWScaling == Scaling::Block;
  using XScale = typename OneOf<kIsBlocked, u32, float>::Type;
  using WScale = typename OneOf<kIsBlocked, E8m0, float>::Type;

  static_assert(kIsSame<X, E4m3> || kIsSame<X, Bf16> || kIsSame<X, F16>,
                "operands are E4M3, BF16 or F16");
  static_assert(kK > 0 && kK * sizeof(X) % 16 == 0, "rows are multiples of 16 bytes");
  static_assert(kN > 0 && TShards::kTotal == kN, "the shards are the rows of w");
  static_assert((kXScaling == Scaling::None) == !kIsSame<X, E4m3>, "E4M3 has scales");
  static_assert(kIsBlocked == (kXScaling == Scaling::Block), "blocks scale both operands");
  static_assert(kIsBlocked ? kBlock == 128 || kBlock == 32 : kBlock == 0, "blocks are 128 or 32");
  static_assert(kTileM % 16 == 0 && kTileM >= 16 && kTileM <= 128,
                "a tile has a multiple of 16 tokens, and registers for 128");

  static constexpr int kStepK = kRowBytes / sizeof(X), kSteps = divideUp(kK, kStepK);
  /// Sums that leave tensor memory: of a block, or of all K.
  static constexpr int kParts = kIsBlocked ? divideUp(kK, kBlock) : 1;
  static constexpr int kGroups = kIsBlocked ? kStepK / kBlock : 1; ///< parts in a step
  static constexpr int kProducts = 4 / kGroups;                    ///< of 32 bytes, in each
  static constexpr int kBuffers = kIsBlocked ? 2 : 1;
  static constexpr int kColumns = kBuffers * kTileM <= 32    ? 32
                                  : kBuffers * kTileM <= 64  ? 64
                                  : kBuffers * kTileM <= 128 ? 128
                                                             : 256;

  static constexpr int kThreads = 192, kPromoters = 128;
  static constexpr int kWBytes = kTileN * kRowBytes, kStageBytes = kWBytes + kTileM * kRowBytes;
  static constexpr int kScalesAt = kStages * kStageBytes;
  static constexpr int kBarriersAt = kScalesAt + 2 * kTileM * 4;
  static constexpr int kSharedBytes = kBarriersAt + (2 * kStages + 2 * kBuffers + 1) * 8 + 1024;
};

/// Addresses of what the roles share.
template <class C>
struct Sm100Shared {
  u32 base;
  OCTET_DEVICE u32 w(int stage) const { return base + stage * C::kStageBytes; }
  OCTET_DEVICE u32 x(int stage) const { return w(stage) + C::kWBytes; }
  OCTET_DEVICE u32 scales(int buffer) const { return base + C::kScalesAt + buffer * C::kTileM * 4; }
  OCTET_DEVICE u32 barrier(int i) const { return base + C::kBarriersAt + i * 8; }
  OCTET_DEVICE u32 full(int stage) const { return barrier(stage); }
  OCTET_DEVICE u32 empty(int stage) const { return barrier(C::kStages + stage); }
  OCTET_DEVICE u32 sumsFull(int buffer) const { return barrier(2 * C::kStages + buffer); }
  OCTET_DEVICE u32 sumsEmpty(int buffer) const {
    return barrier(2 * C::kStages + C::kBuffers + buffer);
  }
  OCTET_DEVICE u32 tensorMemory() const { return barrier(2 * C::kStages + 2 * C::kBuffers); }
};

/// By one thread: copies every step of K.
template <class C>
OCTET_DEVICE void copySteps(Sm100Shared<C> shared, const TensorMap *x, const TensorMap *w, int m0,
                            int n0) {
  constexpr int kAhead = minOf(C::kStages, C::kSteps);
  auto copyW = [&](int stage, int step) {
    arriveExpecting(shared.full(stage), C::kStageBytes);
    loadTile(shared.w(stage), w, shared.full(stage), step * C::kStepK, n0);
  };
  auto copyX = [&](int stage, int step) {
    loadTile(shared.x(stage), x, shared.full(stage), step * C::kStepK, m0);
  };
  // Weights need not wait for the kernel before.
  for (int s = 0; s < kAhead; ++s)
    copyW(s, s);
  waitForPriorGrids();
  for (int s = 0; s < kAhead; ++s)
    copyX(s, s);
  StageCursor<C::kStages> at; // the first stages were empty: their second use is phase 0
  for (int step = kAhead; step < C::kSteps; ++step) {
    wait(shared.empty(at.stage), at.parity);
    copyW(at.stage, step);
    copyX(at.stage, step);
    at.advance();
  }
}

/// By one thread: every product.
template <class C>
OCTET_DEVICE void multiplySteps(Sm100Shared<C> shared, u32 sums) {
  constexpr u32 kProduct = tensorProduct<typename C::X, C::kTileM>();
  constexpr u64 kVersion = 1ull << 46; // of descriptors, on this family
  StageCursor<C::kStages> at;
  for (int step = 0; step < C::kSteps; ++step) {
    wait(shared.full(at.stage), at.parity);
    fenceTensorAfter();
    u64 a = swizzledOperand(shared.w(at.stage)) | kVersion;
    u64 b = swizzledOperand(shared.x(at.stage)) | kVersion;
#pragma unroll
    for (int group = 0; group < C::kGroups; ++group) {
      int part = C::kIsBlocked ? step * C::kGroups + group : 0, buffer = part % C::kBuffers;
      if (C::kIsBlocked && part >= C::kParts)
        break;
      if (C::kIsBlocked) {
        wait(shared.sumsEmpty(buffer), (part / C::kBuffers & 1) ^ 1);
        fenceTensorAfter();
      }
#pragma unroll
      for (int k = 0; k < C::kProducts; ++k) {
        int at32 = 2 * (group * C::kProducts + k);
        multiplyInTensorMemory<typename C::X>(sums + buffer * C::kTileM, a + at32, b + at32,
                                              kProduct, C::kIsBlocked ? k > 0 : step + k > 0);
      }
      if (C::kIsBlocked || step == C::kSteps - 1)
        arriveAfterProducts(shared.sumsFull(buffer));
    }
    arriveAfterProducts(shared.empty(at.stage));
    at.advance();
  }
}

/// By the four warps that have lanes of tensor memory: thread t has row n0 + t of w.
template <class C>
OCTET_DEVICE void promoteAndStore(Sm100Shared<C> shared, u32 sums, const typename C::XScale *xScale,
                                  const typename C::WScale *wScale, const typename C::Bias *bias,
                                  typename C::Y *y, int m0, int n0, int rows) {
  constexpr bool kScales = !C::kIsBlocked && C::kXScaling != Scaling::None;
  int thread = threadIdx.x, n = n0 + thread;
  u32 lane = sums + (static_cast<u32>(thread / 32 * 32) << 16);
  bool isThere = n < C::kN;
  const typename C::WScale *rowScales = nullptr;
  if constexpr (C::kIsBlocked)
    rowScales =
        wScale + static_cast<i64>(C::AllShards::scaleRow(isThere ? n : 0, C::kBlock)) * C::kParts;

  float total[C::kTileM] = {};
  for (int part = 0; part < C::kParts; ++part) {
    int buffer = part % C::kBuffers;
    float sw = 1.f;
    if constexpr (C::kIsBlocked) {
      // A word is four blocks. Two buffers: all threads are past the one before the last.
      if (part % 4 == 0) {
        if (thread < C::kTileM) {
          u32 word = m0 + thread < rows
                         ? xScale[static_cast<i64>(part / 4) * alignUp(rows, 4) + m0 + thread]
                         : 0;
          asm volatile("st.shared.u32 [%0], %1;" ::"r"(shared.scales(part / 4 % 2) + thread * 4),
                       "r"(word)
                       : "memory");
        }
        barrierSync(1, C::kPromoters);
      }
      sw = scaleOf(rowScales[part]);
    }
    wait(shared.sumsFull(buffer), part / C::kBuffers & 1);
    fenceTensorAfter();
#pragma unroll
    for (int c = 0; c < C::kTileM; c += 16) {
      float sum[16];
      loadTensorMemory(sum, lane + buffer * C::kTileM + c);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        if constexpr (C::kIsBlocked) {
          u32 word;
          asm volatile("ld.shared.u32 %0, [%1];"
                       : "=r"(word)
                       : "r"(shared.scales(part / 4 % 2) + (c + i) * 4)
                       : "memory");
          float sx = scaleOf(E8m0{static_cast<u8>(word >> (part % 4 * 8))});
          total[c + i] = fmaf(__fmul_rn(sx, sw), sum[i], total[c + i]);
        } else {
          total[c + i] = sum[i];
        }
      }
    }
    fenceTensorBefore();
    if constexpr (C::kIsBlocked)
      arrive(shared.sumsEmpty(buffer));
  }

  if (!isThere)
    return;
  float sw = 1.f, added = 0.f;
  if constexpr (kScales)
    sw = wScale[C::kWScaling == Scaling::Row ? n : C::AllShards::shardOf(n)];
  if constexpr (!kIsSame<typename C::Bias, void>)
    added = toFloat(bias[n]);
#pragma unroll
  for (int i = 0; i < C::kTileM; ++i) {
    int m = m0 + i;
    if (m >= rows)
      break;
    float v = total[i];
    if constexpr (kScales)
      v = __fmul_rn(v, __fmul_rn(xScale[C::kXScaling == Scaling::Row ? m : 0], sw));
    if constexpr (!kIsSame<typename C::Bias, void>)
      v = __fadd_rn(v, added);
    y[static_cast<i64>(m) * C::kN + n] = fromFloat<typename C::Y>(v);
  }
}

/// An operand that is not there is nullptr.
template <class C>
OCTET_DEVICE void sm100Gemm(const TensorMap *x, const typename C::XScale *xScale,
                            const TensorMap *w, const typename C::WScale *wScale,
                            const typename C::Bias *bias, typename C::Y *y, int m) {
  extern __shared__ char raw[];
  Sm100Shared<C> shared{(sharedAddress(raw) + 1023u) & ~1023u}; // of the swizzle
  constexpr int kAcross = divideUp(C::kN, C::kTileN);
  int n0 = static_cast<int>(blockIdx.x) % kAcross * C::kTileN;
  int m0 = static_cast<int>(blockIdx.x) / kAcross * C::kTileM;
  int warp = threadIdx.x / 32, thread = threadIdx.x % 32;

  if (threadIdx.x == 0) {
    for (int s = 0; s < C::kStages; ++s) {
      initBarrier(shared.full(s), 1);
      initBarrier(shared.empty(s), 1);
    }
    for (int b = 0; b < C::kBuffers; ++b) {
      initBarrier(shared.sumsFull(b), 1);
      initBarrier(shared.sumsEmpty(b), C::kPromoters);
    }
    fenceBarrierInit();
  }
  if (warp == 5)
    allocateTensorMemory(shared.tensorMemory(), C::kColumns);
  fenceTensorBefore();
  __syncthreads();
  fenceTensorAfter();
  u32 sums;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(sums) : "r"(shared.tensorMemory()) : "memory");
  launchNextGrid();

  if (warp < 4) {
    waitForPriorGrids();
    promoteAndStore<C>(shared, sums, xScale, wScale, bias, y, m0, n0, m);
  } else if (warp == 4) {
    if (thread == 0)
      copySteps<C>(shared, x, w, m0, n0);
  } else if (thread == 0) {
    multiplySteps<C>(shared, sums);
  }
  __syncwarp();
  fenceTensorBefore();
  __syncthreads();
  fenceTensorAfter();
  if (warp == 5)
    freeTensorMemory(sums, C::kColumns);
}

} // namespace octet::cuda
