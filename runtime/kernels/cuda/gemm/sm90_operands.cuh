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
// Scales of W
//===----------------------------------------------------------------------===//

/// The number of this thread's warp, as one that the compiler knows to be the warp's.
OCTET_DEVICE int uniformWarp() {
  return __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 32, 0);
}

/// Bits 0, step, 2 step, ... of a mask of CTAs.
constexpr __host__ __device__ u32 everyNth(int count, int step) {
  u32 mask = 0;
  for (int i = 0; i < count; ++i)
    mask |= 1u << (i * step);
  return mask;
}

/// The block scales of kRows rows of W in registers of a warp: a lane has one, all lanes kSpan
/// blocks of K, and the kSpan after those are asked for while these are used. Scales are never
/// written while kernels run, so that they are read without a wait for the kernels before.
template <class P, int kRows>
class WeightScales {
public:
  /// Rows, counted from any multiple of it, that have one scale row.
  static constexpr __host__ __device__ int granule() {
    int rows = P::kBlock;
    while (rows > 1 && (kRows % rows != 0 || !P::Shards::isAligned(P::kBlock, rows)))
      rows /= 2;
    return rows;
  }
  static constexpr int kGranule = granule();
  static constexpr int kGranules = kRows / kGranule;

  /// Asks for the first scales of rows from `row`, a multiple of kRows, from step `firstStep` on.
  OCTET_DEVICE void prepare(const float *scales, int row, int firstStep) {
    const int granule = minOf(static_cast<int>(threadIdx.x) % kLanes, kGranules - 1);
    const int n = minOf(row + granule * kGranule, P::kN - 1);
    nextFrom = scales + static_cast<i64>(P::Shards::scaleRow(n, P::kBlock)) * P::kScaleColumns;
    next = fetch(nextFrom, firstStep * P::kSubs);
  }
  /// Goes to what was prepared: `steps` steps of it.
  OCTET_DEVICE void begin(int firstStep, int steps) {
    from = nextFrom;
    now = next;
    slot = 0;
    column = firstStep * P::kSubs + kSpan;
    end = (firstStep + steps) * P::kSubs;
    fetchAhead();
  }
  /// Of a granule and block `sub` of the step.
  OCTET_DEVICE float at(int granule, int sub) const {
    return __shfl_sync(0xffffffff, now, (slot + sub) * kLanes + granule);
  }
  /// To the next step.
  OCTET_DEVICE void advance() {
    slot += P::kSubs;
    if (slot == kSpan) {
      slot = 0;
      now = ahead;
      fetchAhead();
    }
  }

private:
  static constexpr __host__ __device__ int lanes() {
    int count = 1;
    while (count < kGranules)
      count *= 2;
    return count;
  }
  static constexpr int kLanes = lanes(), kSpan = 32 / kLanes;
  static_assert(kLanes * P::kSubs <= 32,
                "a lane has a scale: the tile's rows or the shards' ends are odd");

  static OCTET_DEVICE float fetch(const float *row, int column) {
    float scale = 0.f;
    column += static_cast<int>(threadIdx.x) % 32 / kLanes;
    if (column < P::kScaleColumns)
      asm volatile("ld.global.nc.L2::256B.f32 %0, [%1];" : "=f"(scale) : "l"(row + column));
    return scale;
  }
  OCTET_DEVICE void fetchAhead() {
    if (column < end)
      ahead = fetch(from, column);
    column += kSpan;
  }

  const float *from, *nextFrom; ///< rows of this lane's granule
  int column, end;              ///< blocks of K: the next to ask for, the end
  int slot;                     ///< the step's first in `now`
  float now, ahead, next;       ///< [kSpan][kLanes]
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

/// By one instruction wherever it stands: of predicated ones the compiler makes branches or parts.
OCTET_DEVICE void storeGlobal16(void *to, const uint4 &x) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
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
  OCTET_DEVICE void advance() {}
  OCTET_DEVICE void add(float (&total)[kColumns / 2], const float (&part)[kColumns / 2],
                        const Values &) const {
#pragma unroll
    for (int i = 0; i < kColumns / 2; ++i)
      total[i] = __fadd_rn(total[i], part[i]);
  }
};

/// Rows of the sums are rows of X, columns rows of W. kStrideX is bytes of a stage, kSubX of the
/// scales of X of one block of K.
template <class P, int kColumns, int kStrideX, int kSubX>
struct TiledScales {
  static constexpr bool kReadsLate = false;
  using Weight = WeightScales<P, kColumns>;
  static constexpr int kGranule = Weight::kGranule, kGranules = Weight::kGranules;
  u32 x; ///< this thread's first row, in stage 0
  Weight w;
  struct Values {
    float upper[kGranules], lower[kGranules];
  };
  OCTET_DEVICE Values load(int stage, int pass, int sub) const {
    Values values;
    const u32 at = x + stage * kStrideX + sub * kSubX + pass * 256;
    const float upper = loadShared(at), lower = loadShared(at + 32);
#pragma unroll
    for (int g = 0; g < kGranules; ++g) {
      const float scale = w.at(g, sub);
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
  OCTET_DEVICE void advance() { w.advance(); }
};

/// Rows of the sums are rows of W, of which a warp has 16, columns rows of X.
template <class P, int kColumns, int kStrideX, int kSubX>
struct SwappedScales {
  using Weight = WeightScales<P, 16>;
  static constexpr bool kOneScale = Weight::kGranules == 1;
  static_assert(Weight::kGranules <= 2, "rows of a thread are 8 apart");
  /// Scales of many columns would take more registers than there are: they are read when they are
  /// used, and the stage is released after that.
  static constexpr bool kReadsLate = kColumns >= 64;
  u32 x; ///< this thread's first column, in stage 0
  Weight w;
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
    values.upper = w.at(0, sub);
    values.lower = kOneScale ? values.upper : w.at(1, sub);
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
  OCTET_DEVICE void advance() { w.advance(); }
};

//===----------------------------------------------------------------------===//
// The loop over K
//===----------------------------------------------------------------------===//

/// kPasses products of 64 rows against the same kColumns columns. kBuffers of two starts the
/// product of a step before the sums of the step before are promoted, so that a warpgroup alone
/// keeps the tensor core busy; its registers allow kPasses of one. With kTurns of more than one as
/// many warpgroups give their products in turn: left to themselves they come to promote at the same
/// time, and the tensor core waits.
template <class Input, int kColumns, int kPasses, int kBuffers, bool kPromotes, int kStages,
          int kStageA, int kStageB, int kSubs = 1, int kTurns = 1>
struct StepLoop {
  static_assert(kBuffers == 1 || kPasses == 1, "two buffers are for one pass");
  static constexpr int kSums = kColumns / 2;

  u64 a, b;     ///< operands in stage 0
  u32 full;     ///< barrier of stage 0; the one of a stage is 8 bytes a stage further
  int turn = 0; ///< of kTurns, this warpgroup's

  /// Once, before the first run: the first warpgroup need not wait for the last one.
  OCTET_DEVICE void startTurns() const {
    if constexpr (kTurns > 1)
      if (turn == kTurns - 1)
        endTurn();
  }

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

  /// Sums `steps` steps, one at least, from where `at` is. `release(stage)` tells the producer that
  /// this warp has read a stage. `take(pass)` is done with the sums that `total` had before, while
  /// the first product runs.
  template <class Scales, class Release, class Take>
  OCTET_DEVICE void run(float (&total)[kPasses][kSums], StageCursor<kStages> &at, int steps,
                        Scales &scales, const Release &release, const Take &take) const {
    if constexpr (!kPromotes)
      runInPlace(total, at, steps, release, take);
    else if constexpr (kBuffers == 2 && kSubs == 1)
      runOverlapped(total[0], at, steps, scales, release, take);
    else
      runInTurn(total, at, steps, scales, release, take);
  }

private:
  // Named barriers from 1 on, one a warpgroup: it waits, the one before it arrives.
  OCTET_DEVICE void beginTurn() const {
    if constexpr (kTurns > 1)
      asm volatile("bar.sync %0, 256;" ::"r"(1 + turn) : "memory");
  }
  OCTET_DEVICE void endTurn() const {
    if constexpr (kTurns > 1)
      asm volatile("bar.arrive %0, 256;" ::"r"(turn + 1 < kTurns ? 2 + turn : 1) : "memory");
  }

  static OCTET_DEVICE void clear(float (&sums)[kSums]) {
#pragma unroll
    for (int i = 0; i < kSums; ++i)
      sums[i] = 0.f;
  }

  template <class Release, class Take>
  OCTET_DEVICE void runInPlace(float (&total)[kPasses][kSums], StageCursor<kStages> &at, int steps,
                               const Release &release, const Take &take) const {
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) {
      take(pass);
      clear(total[pass]);
    }
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

  template <bool kFirst, class Scales, class Release, class Take>
  OCTET_DEVICE void addStep(float (&total)[kPasses][kSums], float (&part)[kSums],
                            StageCursor<kStages> &at, Scales &scales, const Release &release,
                            const Take &take) const {
    wait(full + 8 * at.stage, at.parity);
#pragma unroll
    for (int i = 0; i < kPasses * kSubs; ++i) {
      constexpr int kLast = kPasses * kSubs - 1;
      const int pass = i / kSubs, sub = i % kSubs;
      auto values = scales.load(at.stage, pass, sub);
      beginTurn();
      pinRegisters(part);
      wgmmaFence();
      issue(part, at.stage, pass, false, sub);
      endTurn();
      if (kFirst && sub == 0) {
        take(pass);
        clear(total[pass]);
      }
      wgmmaWait<0>();
      pinRegisters(part);
      if (i == kLast && !Scales::kReadsLate)
        release(at.stage);
      scales.add(total[pass], part, values);
      if (i == kLast && Scales::kReadsLate)
        release(at.stage);
    }
    scales.advance();
    at.advance();
  }

  template <class Scales, class Release, class Take>
  OCTET_DEVICE void runInTurn(float (&total)[kPasses][kSums], StageCursor<kStages> &at, int steps,
                              Scales &scales, const Release &release, const Take &take) const {
    float part[kSums];
    addStep<true>(total, part, at, scales, release, take);
    for (int step = 1; step < steps; ++step)
      addStep<false>(total, part, at, scales, release, take);
  }

  template <class Scales, class Release, class Take>
  OCTET_DEVICE void runOverlapped(float (&total)[kSums], StageCursor<kStages> &at, int steps,
                                  Scales &scales, const Release &release, const Take &take) const {
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
    using Values = typename Scales::Values;
    auto end = [&](float (&part)[kSums], int stage, const Values &values) {
      pinRegisters(part);
      scales.advance();
      if constexpr (!Scales::kReadsLate)
        release(stage);
      scales.add(total, part, values);
      if constexpr (Scales::kReadsLate)
        release(stage);
    };
    // The scales of a step come while its product runs.
    auto endBeforeNewest = [&](float (&part)[kSums], int stage) {
      const Values values = scales.load(stage, 0, 0);
      wgmmaWait<1>();
      end(part, stage, values);
    };
    auto endNewest = [&](float (&part)[kSums], int stage) {
      const Values values = scales.load(stage, 0, 0);
      wgmmaWait<0>();
      end(part, stage, values);
    };
    int before = begin(first), next = 0;
    take(0);
    clear(total);
    int step = 1;
    for (; step + 1 < steps; step += 2) {
      next = begin(second);
      endBeforeNewest(first, before);
      before = begin(first);
      endBeforeNewest(second, next);
    }
    if (step < steps) {
      next = begin(second);
      endBeforeNewest(first, before);
      endNewest(second, next);
    } else {
      endNewest(first, before);
    }
  }
};

} // namespace octet::cuda
