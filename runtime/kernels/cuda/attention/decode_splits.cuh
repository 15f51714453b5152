//===- decode_splits.cuh - Results of the parts of a decoded sequence -----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   y = sum_i 2^(m_i - m) x_i / sum_i 2^(m_i - m) s_i                      m = max_i m_i   (P11)
//
// of a query's splits i: their maximum m_i, sum s_i and result x_i are FP32. Every fourth split is
// added one after the other, then the four sums; y is rounded once.
//
// The splits of a sequence that is alone are added by the CTA of paged_decode.cuh that is the last
// to finish one of them. In a batch, whose CTAs have several items, the last would be late for
// its next item too and be the last again, so there a second kernel, joinSplits, adds them, a CTA a
// query.
//
//   workspace (kWorkspaceBytes)
//   partial   F32 [kMaxSequences + 1][kv_heads][kMaxSplits][kRows][head_dim]
//   softmax   F32 [the same but head_dim][2]    maximum (of scores times log2 e) and sum
//   arrivals  U32 [kv_heads][kTiles]            splits that were sent, of a sequence that is alone
//
// A sequence that is alone has the last place for its results, which is zeros before and after
// each launch (ptx/atomic.cuh), and so are its arrivals.
//
// `Config` is PagedDecode of attention/paged_decode.cuh.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "attention/kv.cuh"
#include "ptx/atomic.cuh"

namespace octet::cuda {

/// How the pages that a sequence sees are cut.
struct Splits {
  int firstPage, endPage;
  int pages; // of a split
  int count;
};
template <class Config>
OCTET_DEVICE Splits splitsOf(const Sequence &s) {
  using Shape = typename Config::Shape;
  if (s.numRows <= 0 || s.numRows > Config::kMaxRows)
    return {0, 0, 1, 0};
  const int first = keysBegin<Shape>(s, 0) / kPageTokens;
  const int end = divideUp(s.context, kPageTokens);
  const int pages = max(Config::kSplitPages, divideUp(end - first, Config::kMaxSplits));
  return {first, end, pages, divideUp(end - first, pages)};
}

/// A split of a sequence, for one KV head and tile of queries.
struct DecodeItem {
  Sequence sequence;
  int place; // of the sequence's results in the workspace
  int head, tile;
  int split, splits;
  int page, endPage;
};

namespace decode {

/// Of a query in q and y.
template <class Shape>
OCTET_DEVICE i64 outputOffset(const Sequence &s, int head, int query) {
  return (static_cast<i64>(s.firstRow + query / Shape::kGroup) * Shape::kQHeads +
          head * Shape::kGroup + query % Shape::kGroup) *
         Shape::kHeadDim;
}

/// Partial results. A slot is a query of a split of a sequence and KV head.
struct Workspace {
  float *partial;
  float2 *softmaxes;
  u32 *arrivals;
};
template <class Config>
OCTET_DEVICE Workspace workspaceAt(void *memory) {
  float *partial = static_cast<float *>(memory);
  float *softmaxes = partial + Config::kSlots * Config::Shape::kHeadDim;
  return {partial, reinterpret_cast<float2 *>(softmaxes),
          reinterpret_cast<u32 *>(softmaxes + 2 * Config::kSlots)};
}
template <class Config>
OCTET_DEVICE i64 slotOf(int place, int head, int split, int query) {
  return ((static_cast<i64>(place) * Config::Shape::kKvHeads + head) * Config::kMaxSplits + split) *
             Config::kRows +
         query;
}

/// Counts an item of a sequence that is alone among the splits that were sent, by one thread.
/// \returns whether it was the last.
template <class Config>
OCTET_DEVICE bool arrive(const DecodeItem &item, const Workspace &workspace) {
  const u32 last = static_cast<u32>(item.splits) - 1;
  return atomicWrap(workspace.arrivals + item.head * Config::kTiles + item.tile, last) == last;
}

/// Adds the splits of such a sequence's query, by a warp: every fourth one after the other, then
/// the four sums.
template <class Config>
OCTET_DEVICE void joinQuery(const DecodeItem &item, int query, const Workspace &workspace,
                            float vScale, typename Config::Shape::T *y) {
  using Shape = typename Config::Shape;
  using T = typename Shape::T;
  constexpr int kSums = 4, kBatch = 16, kDim = Shape::kHeadDim;
  constexpr int kLoads = divideUp(Config::kMaxSplits, 32);
  const int lane = threadIdx.x % 32, splits = item.splits;
  const i64 slot = slotOf<Config>(item.place, item.head, 0, query);

  // A lane has four neighbours of head_dim
  int column = 4 * lane;
  float4 parts[kBatch];
  auto placeOf = [&](int split) {
    return workspace.partial + (slot + static_cast<i64>(split) * Config::kRows) * kDim + column;
  };
  auto fetch = [&](int split) {
#pragma unroll
    for (int j = 0; j < kBatch; ++j)
      peek(parts[j], placeOf(split + j), column < kDim && split + j < splits);
  };
  fetch(0);

  // Splits `lane` and `lane + 32`
  float2 own[kLoads];
  float factors[kLoads], maximum = minusInfinity();
  auto softmaxOf = [&](int i) {
    return workspace.softmaxes + slot + static_cast<i64>(32 * i + lane) * Config::kRows;
  };
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    own[i] = {minusInfinity(), 0.f};
    peek(own[i], softmaxOf(i), 32 * i + lane < splits);
  }
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    take(own[i], softmaxOf(i), 32 * i + lane < splits);
    maximum = fmaxf(maximum, own[i].x);
  }
  __syncwarp();
#pragma unroll
  for (int step = 1; step < 32; step *= 2)
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, step));
  const float base = finiteMaximum(maximum);
  float sum = 0.f;
#pragma unroll
  for (int i = 0; i < kLoads; ++i) {
    factors[i] = exp2Approximate(own[i].x - base);
#pragma unroll
    for (int j = 0; j < 32; j += kSums) {
      const float factor = __shfl_sync(~0u, factors[i], j + lane % kSums);
      const float x = __shfl_sync(~0u, own[i].y, j + lane % kSums);
      if (32 * i + j + lane % kSums < splits)
        sum += factor * x;
    }
  }
  float all = 0.f;
#pragma unroll
  for (int i = 0; i < kSums; ++i)
    all += __shfl_sync(~0u, sum, i);
  const float scale = vScale / all;

  for (int piece = 0; piece < divideUp(kDim, 128); ++piece, column += 128) {
    float x[kSums][4] = {};
    for (int split = 0; split < splits; split += kBatch) {
      if (piece > 0 || split > 0)
        fetch(split);
      const float from = split < 32 ? factors[0] : factors[kLoads - 1];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const float factor = __shfl_sync(~0u, from, (split + j) % 32);
        if (column < kDim && split + j < splits) {
          take(parts[j], placeOf(split + j), true);
          x[j % kSums][0] += factor * parts[j].x;
          x[j % kSums][1] += factor * parts[j].y;
          x[j % kSums][2] += factor * parts[j].z;
          x[j % kSums][3] += factor * parts[j].w;
        }
        __syncwarp();
      }
    }
    float result[4] = {};
#pragma unroll
    for (int i = 0; i < kSums; ++i)
#pragma unroll
      for (int c = 0; c < 4; ++c)
        result[c] += x[i][c];
    T *to = y + outputOffset<Shape>(item.sequence, item.head, query) + column;
    if (column < kDim)
      *reinterpret_cast<uint2 *>(to) = {packPair<T>(result[0] * scale, result[1] * scale),
                                        packPair<T>(result[2] * scale, result[3] * scale)};
  }
}

} // namespace decode

/// Adds the splits of pagedDecode in a batch of several sequences. A CTA of 128 threads has a
/// query: num_sequences * kv_heads * kRows of them, and more do no harm. Each of its warps takes
/// every fourth split, so that all reads are under way at once.
template <class Config>
OCTET_DEVICE void joinSplits(const float *vScale, typename Config::Shape::T *y,
                             const Sequence *sequences, int numSequences, void *memory) {
  using Shape = typename Config::Shape;
  constexpr int kWarps = Config::kWarps;
  __shared__ __align__(16) float results[kWarps][Shape::kHeadDim];
  __shared__ float sums[kWarps];

  launchNextGrid();
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int query = blockIdx.x % Config::kRows;
  const int head = blockIdx.x / Config::kRows % Shape::kKvHeads;
  const int number = blockIdx.x / (Config::kRows * Shape::kKvHeads);
  if (number >= numSequences)
    return;
  waitForPriorGrids();
  const Sequence s = sequences[number];
  const int splits = splitsOf<Config>(s).count;
  if (splits <= 1 || query / Shape::kGroup >= s.numRows)
    return;

  const decode::Workspace workspace = decode::workspaceAt<Config>(memory);
  const i64 slot = decode::slotOf<Config>(number, head, 0, query);
  float maximum = minusInfinity();
#pragma unroll
  for (int base = 0; base < Config::kMaxSplits; base += 32)
    if (base + lane < splits)
      maximum = fmaxf(maximum,
                      workspace.softmaxes[slot + static_cast<i64>(base + lane) * Config::kRows].x);
#pragma unroll
  for (int step = 1; step < 32; step *= 2)
    maximum = fmaxf(maximum, __shfl_xor_sync(~0u, maximum, step));
  const float base = finiteMaximum(maximum);

  // Lanes have four neighbours of head_dim each
  constexpr int kPieces = divideUp(Shape::kHeadDim, 128);
  float sum = 0.f, x[kPieces][4] = {};
#pragma unroll 8
  for (int i = warp; i < splits; i += kWarps) {
    const i64 at = slot + static_cast<i64>(i) * Config::kRows;
    const float2 own = workspace.softmaxes[at];
    const float factor = exp2Approximate(own.x - base);
    sum += factor * own.y;
#pragma unroll
    for (int j = 0; j < kPieces; ++j)
      if (4 * lane + 128 * j < Shape::kHeadDim) {
        const float4 r = *reinterpret_cast<const float4 *>(
            workspace.partial + at * Shape::kHeadDim + 4 * lane + 128 * j);
        x[j][0] += factor * r.x;
        x[j][1] += factor * r.y;
        x[j][2] += factor * r.z;
        x[j][3] += factor * r.w;
      }
  }
#pragma unroll
  for (int j = 0; j < kPieces; ++j)
    if (4 * lane + 128 * j < Shape::kHeadDim)
      *reinterpret_cast<float4 *>(&results[warp][4 * lane + 128 * j]) = {x[j][0], x[j][1], x[j][2],
                                                                         x[j][3]};
  if (lane == 0)
    sums[warp] = sum;
  __syncthreads();

  // Warps in order
  float all = 0.f;
#pragma unroll
  for (int w = 0; w < kWarps; ++w)
    all += sums[w];
  const float factor = valueScale<Shape>(vScale) / Config::kRaise / all;
  const int d = 2 * static_cast<int>(threadIdx.x);
  if (d < Shape::kHeadDim) {
    float2 total = {0.f, 0.f};
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      total.x += results[w][d];
      total.y += results[w][d + 1];
    }
    *reinterpret_cast<u32 *>(y + decode::outputOffset<Shape>(s, head, query) + d) =
        packPair<typename Shape::T>(total.x * factor, total.y * factor);
  }
}

} // namespace octet::cuda
