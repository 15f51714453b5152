//===- sm90_operands.cuh - What the products of sm_90a share --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product as its contract has it (Sm90Product), the scales of one step of K, and the loop over K
// of one warpgroup:
//
//   block scales   total += (x w^T over 128 or 32 of K) * (sx * sw), one FMA an element (N6)
//   other FP8      total += (x w^T over 128 of K)                 FP32, so that the tensor core's
//                                                                 shorter sums stay short (N6)
//   16-bit floats  total  = x w^T, in the tensor core's FP32
//
// A step of K is 128 bytes of a row: 128 E4M3 or 64 BF16/F16. Where K ends inside a step, bulk
// copies fill zeros. Rows beyond M or N are zeros too, and are not stored.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "tile/descriptor.cuh"
#include "tile/scales.cuh"
#include "tile/shards.cuh"
#include "tile/stages.cuh"

namespace octet::cuda {

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

template <bool kFirst, class A, class B>
struct ChooseType {
  using Type = A;
};
template <class A, class B>
struct ChooseType<false, A, B> {
  using Type = B;
};
template <bool kFirst, class A, class B>
using Choose = typename ChooseType<kFirst, A, B>::Type;

template <class Input_, class Output_, class Bias_, Scaling kXScaling_, Scaling kWScaling_, int kN_,
          int kK_, class Shards_, int kBlock_ = 128>
struct Sm90Product {
  using Input = Input_;   ///< of X and W: E4m3, Bf16 or F16
  using Output = Output_; ///< Bf16, F16 or float
  using Bias = Bias_;     ///< Bf16, F16, float, or void where there is none
  using Shards = Shards_;
  static constexpr Scaling kXScaling = kXScaling_, kWScaling = kWScaling_;
  static constexpr int kN = kN_, kK = kK_;
  static constexpr bool kBlocks = kWScaling == Scaling::Block;
  static constexpr bool kHasBias = !kIsSame<Bias, void>;
  /// The argument of the scales of X: by tensor map where they are of blocks.
  using XScale = Choose<kBlocks, TensorMap, float>;
  static constexpr bool kPromotes = kIsSame<Input, E4m3>;
  static constexpr int kStepK = kRowBytes / sizeof(Input);
  static constexpr int kSteps = divideUp(kK, kStepK);
  /// Blocks of scales are kBlock x kBlock; a step has the scales of kSubs.
  static constexpr int kBlock = kBlock_, kSubs = kBlocks ? 128 / kBlock : 1;
  static constexpr int kScaleColumns = divideUp(kK, kBlock);

  static_assert(kIsSame<Input, E4m3> || kIsSame<Input, Bf16> || kIsSame<Input, F16>,
                "operands are E4M3, BF16 or F16");
  static_assert(kK * sizeof(Input) % 16 == 0, "rows of X and W are multiples of 16 bytes");
  static_assert(Shards::kTotal == kN, "the shards are all rows of W");
  static_assert(kBlocks == (kXScaling == Scaling::Block), "blocks scale both operands or neither");
  static_assert((kXScaling == Scaling::None) == (kWScaling == Scaling::None) &&
                    (kXScaling == Scaling::None) == !kIsSame<Input, E4m3>,
                "E4M3 is scaled, other operands are not");
  static_assert(kBlock == 128 || kBlock == 32, "blocks are 128x128 or 32x32");
  static_assert(!kBlocks || Shards::isAligned(128, 8),
                "shards that have block scales start at multiples of 8 rows");
};

/// Operands in global memory; those that a contract has not are null.
template <class P>
struct Sm90Operands {
  const TensorMap *x;
  const typename P::XScale *xScale; ///< blocks [K / kBlock][M], [M] or one
  const TensorMap *w;
  const float *wScale;          ///< blocks [rows][K / kBlock], [N] or one a shard
  const typename P::Bias *bias; ///< [N]
  typename P::Output *y;        ///< [M][N]
  int m;
};

template <class P>
OCTET_DEVICE void prefetchMaps(const Sm90Operands<P> &ops) {
  prefetchMap(ops.w);
  prefetchMap(ops.x);
  if constexpr (P::kBlocks)
    prefetchMap(ops.xScale);
}

/// What a sum of row `row` is multiplied by at its end, N's part left out.
template <class P>
OCTET_DEVICE float rowScale(const Sm90Operands<P> &ops, int row) {
  if constexpr (P::kXScaling == Scaling::Row)
    return row < ops.m ? ops.xScale[row] : 0.f;
  else if constexpr (P::kXScaling == Scaling::Tensor)
    return ops.xScale[0];
  else
    return 1.f;
}

template <class P>
OCTET_DEVICE float columnScale(const Sm90Operands<P> &ops, int column) {
  if constexpr (P::kWScaling == Scaling::Row)
    return column < P::kN ? ops.wScale[column] : 0.f;
  else if constexpr (P::kWScaling == Scaling::Tensor)
    return ops.wScale[P::Shards::shardOf(column)];
  else
    return 1.f;
}

template <class P>
OCTET_DEVICE float columnBias(const Sm90Operands<P> &ops, int column) {
  if constexpr (P::kHasBias)
    return column < P::kN ? toFloat(ops.bias[column]) : 0.f;
  else
    return 0.f;
}

/// The value before its one rounding (N6, N6b).
template <class P>
OCTET_DEVICE float finish(float sum, float scaleX, float scaleW, float bias) {
  if constexpr (P::kXScaling == Scaling::Row || P::kXScaling == Scaling::Tensor)
    sum = __fmul_rn(sum, __fmul_rn(scaleX, scaleW));
  return P::kHasBias ? __fadd_rn(sum, bias) : sum;
}

//===----------------------------------------------------------------------===//
// Scales of W in a stage
//===----------------------------------------------------------------------===//

/// Bits 0, step, 2 step, ... of a mask of CTAs.
constexpr __host__ __device__ u32 everyNth(int count, int step) {
  u32 mask = 0;
  for (int i = 0; i < count; ++i)
    mask |= 1u << (i * step);
  return mask;
}

/// The block scales of a tile of kRows rows of W for one step of K: one float a granule, copied by
/// as many lanes of the producer's warp, which arrive on the stage's barrier when theirs is there.
template <class P, int kRows>
struct WeightScales {
  /// Rows, counted from any multiple of it, that have one scale row.
  static constexpr __host__ __device__ int granule() {
    int rows = P::kBlock;
    while (rows > 1 && (kRows % rows != 0 || !P::Shards::isAligned(P::kBlock, rows)))
      rows /= 2;
    return rows;
  }
  static constexpr int kGranule = granule();
  static constexpr int kGranules = kRows / kGranule;
  static constexpr int kCount = P::kBlocks ? kGranules * P::kSubs : 0; ///< [kSubs][kGranules]
  static constexpr int kBytes = alignUp(kCount * 4, 16);
  static_assert(kCount <= 32, "a lane copies a scale: the tile's rows or the shards' ends are odd");

  /// By the lanes below kCount, each its own.
  static OCTET_DEVICE void copy(const float *scales, int row, int step, u32 stage, u32 barrier) {
    const int lane = threadIdx.x % 32, n = minOf(row + lane % kGranules * kGranule, P::kN - 1);
    const int column = minOf(step * P::kSubs + lane / kGranules, P::kScaleColumns - 1);
    const float *from =
        scales + static_cast<i64>(P::Shards::scaleRow(n, P::kBlock)) * P::kScaleColumns + column;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n"
                 "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%2];" ::"r"(stage + 4 * lane),
                 "l"(from), "r"(barrier)
                 : "memory");
  }
};

OCTET_DEVICE float loadShared(u32 address) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(address));
  return x;
}
OCTET_DEVICE float2 loadShared2(u32 address) {
  float2 x;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
  return x;
}

//===----------------------------------------------------------------------===//
// Promotion
//===----------------------------------------------------------------------===//

/// Sums without block scales: added as they are.
template <int kColumns>
struct PlainSums {
  static constexpr bool kReadsLate = false;
  struct Values {};
  OCTET_DEVICE Values load(int, int, int) const { return {}; }
  OCTET_DEVICE void add(float (&total)[kColumns / 2], const float (&part)[kColumns / 2],
                        const Values &) const {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i)
      total[i] = __fadd_rn(total[i], part[i]);
  }
};

/// Rows of the sums are rows of X, columns rows of W. kStrideX and kStrideW are bytes of a stage,
/// kSubX of the scales of X of one block of K.
template <int kColumns, int kGranule, int kStrideX, int kSubX, int kStrideW>
struct TiledScales {
  static constexpr bool kReadsLate = false;
  static constexpr int kGranules = kColumns / kGranule;
  u32 x, w; ///< this thread's first row, the tile's first granule, in stage 0
  struct Values {
    float upper[kGranules], lower[kGranules];
  };
  OCTET_DEVICE Values load(int stage, int pass, int sub) const {
    Values values;
    const u32 at = x + stage * kStrideX + sub * kSubX + pass * 256;
    const float upper = loadShared(at), lower = loadShared(at + 32);
#pragma unroll
    for (int g = 0; g < kGranules; ++g) {
      float scale = loadShared(w + stage * kStrideW + 4 * (sub * kGranules + g));
      values.upper[g] = __fmul_rn(upper, scale);
      values.lower[g] = __fmul_rn(lower, scale);
    }
    return values;
  }
  OCTET_DEVICE void add(float (&total)[kColumns / 2], const float (&part)[kColumns / 2],
                        const Values &values) const {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      float upper = values.upper[8 * i / kGranule], lower = values.lower[8 * i / kGranule];
      total[4 * i] = __fmaf_rn(part[4 * i], upper, total[4 * i]);
      total[4 * i + 1] = __fmaf_rn(part[4 * i + 1], upper, total[4 * i + 1]);
      total[4 * i + 2] = __fmaf_rn(part[4 * i + 2], lower, total[4 * i + 2]);
      total[4 * i + 3] = __fmaf_rn(part[4 * i + 3], lower, total[4 * i + 3]);
    }
  }
};

/// Rows of the sums are rows of W, columns rows of X.
template <int kColumns, bool kOneScale, int kStrideX, int kSubX, int kStrideW, int kSubW>
struct SwappedScales {
  /// Scales of many columns would take more registers than there are: they are read when they are
  /// used, and the stage is released after that.
  static constexpr bool kReadsLate = kColumns >= 64;
  u32 x;            ///< this thread's first column, in stage 0
  u32 upper, lower; ///< the scales of its two rows; one where a granule holds both
  struct Values {
    float2 x[kReadsLate ? 1 : kColumns / 8];
    float upper, lower;
    u32 at;
  };
  OCTET_DEVICE Values load(int stage, int, int sub) const {
    Values values;
    values.at = x + stage * kStrideX + sub * kSubX;
    if constexpr (!kReadsLate)
#pragma unroll
      for (int i = 0; i < kColumns / 8; ++i)
        values.x[i] = loadShared2(values.at + 32 * i);
    values.upper = loadShared(upper + stage * kStrideW + sub * kSubW);
    values.lower = kOneScale ? values.upper : loadShared(lower + stage * kStrideW + sub * kSubW);
    return values;
  }
  OCTET_DEVICE void add(float (&total)[kColumns / 2], const float (&part)[kColumns / 2],
                        const Values &values) const {
#pragma unroll
    for (int i = 0; i < kColumns / 8; ++i) {
      float2 scale;
      if constexpr (kReadsLate)
        scale = loadShared2(values.at + 32 * i);
      else
        scale = values.x[i];
      float even = __fmul_rn(scale.x, values.upper);
      float odd = __fmul_rn(scale.y, values.upper);
      total[4 * i] = __fmaf_rn(part[4 * i], even, total[4 * i]);
      total[4 * i + 1] = __fmaf_rn(part[4 * i + 1], odd, total[4 * i + 1]);
      if constexpr (!kOneScale) {
        even = __fmul_rn(scale.x, values.lower);
        odd = __fmul_rn(scale.y, values.lower);
      }
      total[4 * i + 2] = __fmaf_rn(part[4 * i + 2], even, total[4 * i + 2]);
      total[4 * i + 3] = __fmaf_rn(part[4 * i + 3], odd, total[4 * i + 3]);
    }
  }
};

//===----------------------------------------------------------------------===//
// The loop over K
//===----------------------------------------------------------------------===//

/// kPasses products of 64 rows against the same kColumns columns. kBuffers of two starts the
/// product of a step before the sums of the step before are promoted, so that a warpgroup alone
/// keeps the tensor core busy; its registers allow kPasses of one.
template <class Input, int kColumns, int kPasses, int kBuffers, bool kPromotes, int kStages,
          int kStageA, int kStageB, int kSubs = 1>
struct StepLoop {
  static_assert(kBuffers == 1 || kPasses == 1, "two buffers are for one pass");
  static constexpr int kSums = kColumns / 2;

  u64 a, b; ///< operands in stage 0
  u32 full; ///< barrier of stage 0; the one of a stage is 8 bytes a stage further

  OCTET_DEVICE void issue(float (&sums)[kSums], int stage, int pass, bool accumulate,
                          int sub = 0) const {
    const u64 atA = a + stage * (kStageA / 16) + pass * (64 * kRowBytes / 16);
    const u64 atB = b + stage * (kStageB / 16);
#pragma unroll
    for (int i = 0; i < 4 / kSubs; ++i) {
      const int k = sub * (4 / kSubs) + i;
      Wgmma<Input, kColumns>::multiply(sums, atA + 2 * k, atB + 2 * k, accumulate || i);
    }
    wgmmaCommit();
  }

  /// Adds `steps` steps, from where `at` is, to `total`. `release(stage)` tells the producer that
  /// this warp has read a stage.
  template <class Scales, class Release>
  OCTET_DEVICE void run(float (&total)[kPasses][kSums], StageCursor<kStages> &at, int steps,
                        const Scales &scales, const Release &release) const {
    if constexpr (!kPromotes)
      runInPlace(total, at, steps, release);
    else if constexpr (kBuffers == 2 && kSubs == 1)
      runOverlapped(total[0], at, steps, scales, release);
    else
      runInTurn(total, at, steps, scales, release);
  }

private:
  template <class Release>
  OCTET_DEVICE void runInPlace(float (&total)[kPasses][kSums], StageCursor<kStages> &at, int steps,
                               const Release &release) const {
    int last = -1;
    for (int step = 0; step < steps; ++step) {
      wait(full + 8 * at.stage, at.parity);
      wgmmaFence();
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass)
        issue(total[pass], at.stage, pass, true);
      wgmmaWait<kPasses>();
      if (last >= 0)
        release(last);
      last = at.stage;
      at.advance();
    }
    wgmmaWait<0>();
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass)
      pinRegisters(total[pass]);
    if (last >= 0)
      release(last);
  }

  template <class Scales, class Release>
  OCTET_DEVICE void runInTurn(float (&total)[kPasses][kSums], StageCursor<kStages> &at, int steps,
                              const Scales &scales, const Release &release) const {
    float part[kSums];
    for (int step = 0; step < steps; ++step) {
      wait(full + 8 * at.stage, at.parity);
#pragma unroll
      for (int i = 0; i < kPasses * kSubs; ++i) {
        constexpr int kLast = kPasses * kSubs - 1;
        const int pass = i / kSubs, sub = i % kSubs;
        pinRegisters(part);
        wgmmaFence();
        issue(part, at.stage, pass, false, sub);
        auto values = scales.load(at.stage, pass, sub);
        wgmmaWait<0>();
        pinRegisters(part);
        if (i == kLast && !Scales::kReadsLate)
          release(at.stage);
        scales.add(total[pass], part, values);
        if (i == kLast && Scales::kReadsLate)
          release(at.stage);
      }
      at.advance();
    }
  }

  template <class Scales, class Release>
  OCTET_DEVICE void runOverlapped(float (&total)[kSums], StageCursor<kStages> &at, int steps,
                                  const Scales &scales, const Release &release) const {
    float first[kSums], second[kSums];
    auto begin = [&](float (&part)[kSums]) {
      wait(full + 8 * at.stage, at.parity);
      pinRegisters(part);
      wgmmaFence();
      issue(part, at.stage, 0, false);
      int stage = at.stage;
      at.advance();
      return stage;
    };
    auto end = [&](float (&part)[kSums], int stage) {
      pinRegisters(part);
      auto values = scales.load(stage, 0, 0);
      if constexpr (!Scales::kReadsLate)
        release(stage);
      scales.add(total, part, values);
      if constexpr (Scales::kReadsLate)
        release(stage);
    };
    if (steps <= 0)
      return;
    int before = begin(first), next = 0;
    int step = 1;
    for (; step + 1 < steps; step += 2) {
      next = begin(second);
      wgmmaWait<1>();
      end(first, before);
      before = begin(first);
      wgmmaWait<1>();
      end(second, next);
    }
    if (step < steps) {
      next = begin(second);
      wgmmaWait<1>();
      end(first, before);
      wgmmaWait<0>();
      end(second, next);
    } else {
      wgmmaWait<0>();
      end(first, before);
    }
  }
};

} // namespace octet::cuda
