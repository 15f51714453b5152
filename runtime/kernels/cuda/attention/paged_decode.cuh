//===- paged_decode.cuh - Attention of sequences with few rows ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formula and the operands are those of attention/kv.cuh. Sequences with more than kMaxRows
// rows are left to another kernel (paged_prefill.cuh).
//
// The pages that a sequence sees are cut into splits: of max(kSplitPages, cdiv(pages, kMaxSplits))
// pages, so a row's result depends on its sequence alone, never on the batch (B5). An item is a
// split and a KV head; its queries (rows x heads of the group) share each read of K and V. CTAs go
// over the items of the batch, each its own share, as one stream of pages.
//
// How splits are added is in attention/decode_splits.cuh.
//
// In a batch of single rows, what the step does not write is under way before the kernels ahead
// have finished: of the cache it writes a page of each sequence. Sequences and page tables are
// there before a step begins.
//
// Products are transposed: S^T = K Q^T and Y^T = V^T P^T, so that 8 queries fill a tensor product.
// A warp has 16 keys of each page to itself: its own ring of copies, maximum, sum and result; the
// warps of a CTA meet once an item. So a row is the sum of four interleaved sums.
//
// Constants  kMaxRows >= 1; kMaxSequences >= 1; kMaxSplits 1 to 64; kStages >= 1 pages under way.
// Threads    128; as many CTAs as fit, at most num_sequences * kItems.
// Shared     kWarps * kStages * kStageBytes + kMaxSequences * 20 + 16 (kSharedBytes).
// Ragged     keys that no row sees are zeros in shared memory, -inf as scores; so are the padding
//            of head_dim (zeros) and queries beyond the last (zeros, not written).
// Rounding   probabilities to T, the result to T once. Partial results are FP32. Codes meet BF16 as
//            F16, which they are made of in one instruction: queries are multiplied by the power
//            of two that brings their largest element to 2^14, rounded probabilities by 2^14. Both
//            keep every bit but of elements below 2^-31 of the largest, which are less than what
//            an FP32 sum drops.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "attention/decode_splits.cuh"

namespace octet::cuda {

template <class Shape_, int kMaxRows_, int kMaxSequences_, int kMaxSplits_, int kSplitPages_,
          int kStages_>
struct PagedDecode {
  using Shape = Shape_;
  static constexpr int kMaxRows = kMaxRows_, kMaxSequences = kMaxSequences_;
  static constexpr int kMaxSplits = kMaxSplits_, kSplitPages = kSplitPages_, kStages = kStages_;
  static_assert(kMaxRows >= 1 && kMaxSequences >= 1, "there is a row and a sequence");
  static_assert(kMaxSplits >= 1 && kMaxSplits <= 64, "a lane has one or two splits");
  static_assert(kSplitPages >= 1, "a split has a page");
  static_assert(kStages >= 1, "a page is copied at a time, or more");

  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kWarpKeys = kPageTokens / kWarps;
  static_assert(kWarpKeys == 16, "a warp's keys are the rows of a tensor product");
  /// Queries of a sequence and KV head, in tiles of one or two tensor products.
  static constexpr int kRows = kMaxRows * Shape::kGroup;
  static constexpr int kNTiles = kRows > 8 ? 2 : 1;
  static constexpr int kQueries = 8 * kNTiles;
  static constexpr int kTiles = divideUp(kRows, kQueries);
  /// Items of a sequence, at most.
  static constexpr int kItems = kMaxSplits * Shape::kKvHeads * kTiles;

  /// Products are of F16 where the cache has codes.
  using Factor = Selected<Shape::kScaled, F16, typename Shape::T>;
  static constexpr bool kRaised = Shape::kScaled && kIsSame<typename Shape::T, Bf16>;
  static constexpr float kRaise = kRaised ? 0x1p14f : 1.f; // of probabilities

  static constexpr int kPadded = alignUp(Shape::kHeadDim, Shape::kScaled ? 32 : 16);
  static constexpr int kPitch = pitchOf(kPadded * static_cast<int>(sizeof(typename Shape::Kv)));
  static constexpr int kTileBytes = kWarpKeys * kPitch;
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kWarpBytes = kStages * kStageBytes;
  /// Where warps meet: results of 8 queries in the place of a page that was used.
  static constexpr int kJoinPitch = kPadded + 4;
  static_assert((8 * kJoinPitch + 16) * 4 <= kStageBytes, "results of 8 queries fit into a stage");
  static constexpr int kSharedBytes = kWarps * kWarpBytes + kMaxSequences * (16 + 4) + 4 * kWarps;

  static constexpr i64 kSlots =
      static_cast<i64>(kMaxSequences + 1) * Shape::kKvHeads * kMaxSplits * kRows;
  static constexpr i64 kArrivals = static_cast<i64>(Shape::kKvHeads) * kTiles;
  static constexpr i64 kWorkspaceBytes = (kSlots * (Shape::kHeadDim + 2) + kArrivals) * 4;
};

namespace decode {

/// Sequences and their items in shared memory: items of sequence i begin at items[i].
struct Table {
  const Sequence *sequences;
  const int *items;
  int count;
};

/// \returns all items of the batch.
template <class Config>
OCTET_DEVICE int fillTable(const Sequence *sequences, int count, Sequence *table, int *items,
                           int *totals) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int before = 0;
  for (int base = 0; base < count; base += Config::kThreads) {
    const int i = base + static_cast<int>(threadIdx.x);
    int own = 0;
    if (i < count) {
      const Sequence s = sequences[i];
      table[i] = s;
      own = splitsOf<Config>(s).count * Config::Shape::kKvHeads * Config::kTiles;
    }
    int sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, sum, step);
      sum += lane >= step ? other : 0;
    }
    if (lane == 31)
      totals[warp] = sum;
    __syncthreads();
    int all = 0;
#pragma unroll
    for (int w = 0; w < Config::kWarps; ++w) {
      const int total = totals[w];
      sum += w < warp ? total : 0;
      all += total;
    }
    if (i < count)
      items[i] = before + sum - own;
    before += all;
    __syncthreads();
  }
  return before;
}

template <class Config>
OCTET_DEVICE DecodeItem findItem(const Table &table, int item) {
  int low = 0, high = table.count; // items[low] <= item
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (table.items[middle] <= item)
      low = middle;
    else
      high = middle;
  }
  DecodeItem result;
  result.place = table.count == 1 ? Config::kMaxSequences : low;
  result.sequence = table.sequences[low];
  item -= table.items[low];
  result.tile = item % Config::kTiles;
  item /= Config::kTiles;
  result.head = item % Config::Shape::kKvHeads;
  result.split = item / Config::Shape::kKvHeads;
  const Splits splits = splitsOf<Config>(result.sequence);
  result.splits = splits.count;
  result.page = splits.firstPage + result.split * splits.pages;
  result.endPage = min(result.page + splits.pages, splits.endPage);
  return result;
}

/// Where the copies of a warp are. All lanes hold the same but for `pageIds`.
struct Loader {
  int item;
  int page, endPage;
  int firstPage; // of the page table
  int keysBegin, keysEnd;
  int pageIds; // page `batch + lane`
  int batch;
  int head;
  bool early;  // the kernels ahead may not have finished
  int written; // while early: the page that sequence `lane` writes in this step, or -1
};

/// Whether copies may begin before the kernels ahead have finished; sets the loader's side of it.
/// A page may be shared, so all that are written are known: there are few.
OCTET_DEVICE void beginEarly(Loader &l, const Table &table, const int *pages) {
  const int lane = threadIdx.x % 32;
  bool single = true;
  l.written = -1;
  if (lane < table.count && table.count <= 32) {
    const Sequence s = table.sequences[lane];
    single = s.numRows <= 1;
    if (s.numRows == 1)
      l.written = pages[s.firstPage + (s.context - 1) / kPageTokens];
  }
  l.early = table.count <= 32 && __all_sync(~0u, single);
}
OCTET_DEVICE void endEarly(Loader &l) {
  waitForPriorGrids();
  l.early = false;
}

template <class Config>
OCTET_DEVICE void start(Loader &l, const Table &table, int total) {
  if (l.item >= total)
    return;
  const DecodeItem item = findItem<Config>(table, l.item);
  l.page = item.page;
  l.endPage = item.endPage;
  l.firstPage = item.sequence.firstPage;
  l.keysBegin = keysBegin<typename Config::Shape>(item.sequence, 0);
  l.keysEnd = item.sequence.context;
  l.head = item.head;
  l.batch = l.page - 32; // none
}

/// Asks for a warp's keys and values of a page in the L2 cache, whoever writes them.
template <class Config>
OCTET_DEVICE void prefetchPage(const Loader &l, int id, const typename Config::Shape::Kv *k,
                               const typename Config::Shape::Kv *v) {
  using Shape = typename Config::Shape;
  static_assert(Config::kWarpKeys == 16, "a lane has a row of keys or of values");
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 row = static_cast<i64>(id) * kPageTokens + warp * Config::kWarpKeys + lane % 16;
  if constexpr (Shape::kChunk == 16)
    prefetchL2((lane < 16 ? k : v) + row * Shape::kKeyStride + l.head * Shape::kHeadDim,
               Shape::kHeadDim * static_cast<int>(sizeof(*k)));
}

/// Pages of the item that have no stage yet, a few.
template <class Config>
OCTET_DEVICE void prefetchNext(const Loader &l, int total, const typename Config::Shape::Kv *k,
                               const typename Config::Shape::Kv *v) {
  constexpr int kMost = 4;
  if (l.item >= total)
    return;
  const int end = min(min(l.endPage, l.batch + 32), l.page + kMost);
  for (int page = l.page; page < end; ++page)
    prefetchPage<Config>(l, __shfl_sync(~0u, l.pageIds, page - l.batch), k, v);
}

/// Begins to copy a warp's keys and values of the next page to `stage`, and goes on.
/// \tparam kMayBeEarly  waits for the kernels ahead before it reads what the step writes
template <class Config, bool kMayBeEarly>
OCTET_DEVICE void loadPage(Loader &l, const Table &table, int total, const int *pages,
                           const typename Config::Shape::Kv *k, const typename Config::Shape::Kv *v,
                           u32 stage) {
  using Shape = typename Config::Shape;
  using Kv = typename Shape::Kv;
  constexpr int kElements = Shape::kChunk / static_cast<int>(sizeof(Kv));
  constexpr int kRowChunks = Config::kPadded / kElements;
  if (l.item < total) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (l.page >= l.batch + 32) {
      l.batch = l.page;
      l.pageIds = l.page + lane < l.endPage ? pages[l.firstPage + l.page + lane] : 0;
    }
    const int id = __shfl_sync(~0u, l.pageIds, l.page - l.batch);
    if (kMayBeEarly && l.early && __any_sync(~0u, id == l.written)) {
      prefetchPage<Config>(l, id, k, v);
      endEarly(l);
    }
    const i64 base =
        (static_cast<i64>(id) * kPageTokens + warp * Config::kWarpKeys) * Shape::kKeyStride +
        l.head * Shape::kHeadDim;
    const int firstKey = l.page * kPageTokens + warp * Config::kWarpKeys;
    constexpr int kCopies = divideUp(Config::kWarpKeys * kRowChunks, 32);
    constexpr bool kWholeRows = Config::kPadded == Shape::kHeadDim && 32 % kRowChunks == 0;
    if (kWholeRows && firstKey >= l.keysBegin && firstKey + Config::kWarpKeys <= l.keysEnd) {
      // All addresses are one and a constant
      const i64 from = base + lane / kRowChunks * Shape::kKeyStride + lane % kRowChunks * kElements;
      const Kv *fromK = k + from, *fromV = v + from;
      const u32 to = stage + lane / kRowChunks * Config::kPitch + lane % kRowChunks * Shape::kChunk;
#pragma unroll
      for (int i = 0; i < kCopies; ++i) {
        constexpr int kRowsEach = maxOf(1, 32 / kRowChunks);
        cpAsync<Shape::kChunk>(to + i * kRowsEach * Config::kPitch,
                               fromK + i * kRowsEach * Shape::kKeyStride, Shape::kChunk);
        cpAsync<Shape::kChunk>(to + i * kRowsEach * Config::kPitch + Config::kTileBytes,
                               fromV + i * kRowsEach * Shape::kKeyStride, Shape::kChunk);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kCopies; ++i) {
        const int index = i * 32 + lane;
        const int row = index / kRowChunks, chunk = index % kRowChunks;
        if (Config::kWarpKeys * kRowChunks % 32 != 0 && row >= Config::kWarpKeys)
          break;
        const int key = firstKey + row;
        const bool valid =
            key >= l.keysBegin && key < l.keysEnd &&
            (Config::kPadded == Shape::kHeadDim || chunk * kElements < Shape::kHeadDim);
        const i64 from = valid ? base + row * Shape::kKeyStride + chunk * kElements : 0;
        const u32 to = stage + row * Config::kPitch + chunk * Shape::kChunk;
        cpAsync<Shape::kChunk>(to, k + from, valid ? Shape::kChunk : 0);
        cpAsync<Shape::kChunk>(to + Config::kTileBytes, v + from, valid ? Shape::kChunk : 0);
      }
    }
    if (++l.page == l.endPage) {
      l.item += gridDim.x;
      start<Config>(l, table, total);
    }
  }
  cpAsyncCommit();
}

/// The queries of an item as right factors of K Q^T.
/// \param scales  in: what scores are multiplied by; out: of the lane's columns of scores, which
///                undoes how the queries were raised.
template <class Config>
OCTET_DEVICE void loadQueries(u32 (&b)[Config::kPadded / 16][Config::kNTiles][2],
                              float (&scales)[Config::kNTiles][2], const DecodeItem &item,
                              const typename Config::Shape::T *q) {
  using Shape = typename Config::Shape;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n) {
    const int query = item.tile * Config::kQueries + 8 * n + g;
    const bool there = query / Shape::kGroup < item.sequence.numRows;
    const typename Shape::T *from =
        q + outputOffset<Shape>(item.sequence, item.head, there ? query : 0);
    float peak = 0.f;
#pragma unroll
    for (int s = 0; s < Config::kPadded / 16; ++s) {
      b[s][n][0] = b[s][n][1] = 0;
      if constexpr (Shape::kScaled) {
        // In the order of the codes in a word of four
        if (there && 16 * s + 4 * t < Shape::kHeadDim) {
          const uint2 x = *reinterpret_cast<const uint2 *>(from + 16 * s + 4 * t);
          b[s][n][0] = x.x;
          b[s][n][1] = x.y;
        }
      } else {
        const u32 *x = reinterpret_cast<const u32 *>(from + 16 * s + 2 * t);
        if (there)
          b[s][n][0] = x[0];
        if (there && 16 * s + 8 < Shape::kHeadDim)
          b[s][n][1] = x[4];
      }
      if constexpr (Config::kRaised)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float2 x = unpackBf16(b[s][n][i]);
          peak = fmaxf(peak, fmaxf(fabsf(x.x), fabsf(x.y)));
        }
    }
    if constexpr (Config::kRaised) {
      peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, 1));
      peak = fmaxf(peak, __shfl_xor_sync(~0u, peak, 2));
      // 2^14 over the peak's power of two; its inverse is a normal number too.
      const int exponent = min(127 + 14 + 127 - static_cast<int>(bitsOf(peak) >> 23), 253);
      const float raise = floatOf(static_cast<u32>(exponent) << 23);
      const float lower = floatOf(static_cast<u32>(254 - exponent) << 23);
#pragma unroll
      for (int s = 0; s < Config::kPadded / 16; ++s)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const float2 x = unpackBf16(b[s][n][i]);
          b[s][n][i] = packF16(x.x * raise, x.y * raise);
        }
#pragma unroll
      for (int i = 0; i < 2; ++i)
        scales[n][i] *= __shfl_sync(~0u, lower, 4 * (2 * t + i));
    }
  }
}

/// What a warp knows of its queries 8 n + 2 t + i: lanes of equal t share them.
template <class Config>
struct State {
  float result[Config::kPadded / 16][Config::kNTiles][4];
  float maximum[Config::kNTiles][2]; // of scores times log2 e
  float sum[Config::kNTiles][2];     // of the lane's keys
};

template <class Config>
OCTET_DEVICE void clear(State<Config> &state) {
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      state.maximum[n][i] = minusInfinity();
      state.sum[n][i] = 0.f;
    }
#pragma unroll
    for (int m = 0; m < Config::kPadded / 16; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        state.result[m][n][i] = 0.f;
  }
}

/// S^T = K Q^T: scores[n] is keys by queries.
template <class Config>
OCTET_DEVICE void score(float (&scores)[Config::kNTiles][4],
                        const u32 (&q)[Config::kPadded / 16][Config::kNTiles][2], u32 keys) {
  using Shape = typename Config::Shape;
  using T = typename Config::Factor;
  const int lane = threadIdx.x % 32;
  const u32 at = keys + lane % 16 * Config::kPitch + lane / 16 * 16;
  float other[Config::kNTiles][4]; // two chains of products are in flight
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores[n][i] = other[n][i] = 0.f;
  if constexpr (Shape::kScaled) {
#pragma unroll
    for (int s = 0; s < Config::kPadded / 32; ++s) {
      u32 codes[4], wide[4][2];
      ldmatrix4(codes, at + 32 * s);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        widenToF16(wide[i], codes[i]);
      const u32 a[4] = {wide[0][0], wide[1][0], wide[0][1], wide[1][1]};
      const u32 b[4] = {wide[2][0], wide[3][0], wide[2][1], wide[3][1]};
#pragma unroll
      for (int n = 0; n < Config::kNTiles; ++n) {
        mmaSync<T>(scores[n], a, q[2 * s][n][0], q[2 * s][n][1]);
        mmaSync<T>(other[n], b, q[2 * s + 1][n][0], q[2 * s + 1][n][1]);
      }
    }
  } else {
#pragma unroll
    for (int s = 0; s < Config::kPadded / 16; ++s) {
      u32 a[4];
      ldmatrix4(a, at + 32 * s);
#pragma unroll
      for (int n = 0; n < Config::kNTiles; ++n)
        mmaSync<T>(s % 2 ? other[n] : scores[n], a, q[s][n][0], q[s][n][1]);
    }
  }
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      scores[n][i] += other[n][i];
}

/// Scores to rounded probabilities, as right factors of V^T P^T; brings `state` to the new maximum.
template <class Config>
OCTET_DEVICE void softmax(u32 (&p)[Config::kNTiles][2], float (&scores)[Config::kNTiles][4],
                          State<Config> &state, const DecodeItem &item, int firstKey,
                          const float (&scales)[Config::kNTiles][2]) {
  using Shape = typename Config::Shape;
  const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  bool moved = false;
  float factor[Config::kNTiles][2];
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = item.tile * Config::kQueries + 8 * n + 2 * t + i;
      // Queries beyond the last see what it sees; nobody reads their result.
      const int row =
          Config::kMaxRows == 1 ? 0 : min(query / Shape::kGroup, item.sequence.numRows - 1);
      const int end = keysEnd<Shape>(item.sequence, row) - firstKey;
      const int begin = Shape::kWindow > 0 ? keysBegin<Shape>(item.sequence, row) - firstKey : 0;
      float &low = scores[n][i], &high = scores[n][2 + i];
      low = g < end && g >= begin ? low * scales[n][i] : minusInfinity();
      high = g + 8 < end && g + 8 >= begin ? high * scales[n][i] : minusInfinity();
      float now = fmaxf(low, high);
#pragma unroll
      for (int step = 4; step < 32; step *= 2)
        now = fmaxf(now, __shfl_xor_sync(~0u, now, step));
      const float before = state.maximum[n][i];
      now = fmaxf(now, before);
      const float base = finiteMaximum(now);
      factor[n][i] = exp2Approximate(before - base);
      moved |= now != before;
      state.maximum[n][i] = now;
      low = exp2Approximate(low - base);
      high = exp2Approximate(high - base);
      state.sum[n][i] = state.sum[n][i] * factor[n][i] + (low + high);
    }
  if (__any_sync(~0u, moved))
#pragma unroll
    for (int n = 0; n < Config::kNTiles; ++n)
#pragma unroll
      for (int m = 0; m < Config::kPadded / 16; ++m)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          state.result[m][n][i] *= factor[n][i % 2];
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      u32 pair = packPair<typename Shape::T>(scores[n][2 * half], scores[n][2 * half + 1]);
      if constexpr (Config::kRaised) {
        const float2 rounded = unpackBf16(pair);
        pair = packF16(rounded.x * Config::kRaise, rounded.y * Config::kRaise);
      }
      p[n][half] = transposeMatrix(pair);
    }
}

/// Y^T += V^T P^T.
template <class Config>
OCTET_DEVICE void addValues(State<Config> &state, const u32 (&p)[Config::kNTiles][2], u32 values) {
  using Shape = typename Config::Shape;
  using T = typename Config::Factor;
  const int lane = threadIdx.x % 32;
  if constexpr (Shape::kScaled) {
    const u32 at = values + lane % 16 * Config::kPitch + lane / 16 * 16;
#pragma unroll
    for (int s = 0; s < Config::kPadded / 32; ++s) {
      // A 16-bit element is two neighbours of head_dim: the even ones become rows 0 to 7 of a
      // product, the odd ones rows 8 to 15.
      u32 codes[4], wide[4][2];
      ldmatrix4Transposed(codes, at + 32 * s);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        widenToF16(wide[i], __byte_perm(codes[i], 0, 0x3120));
      const u32 a[4] = {wide[0][0], wide[0][1], wide[1][0], wide[1][1]};
      const u32 b[4] = {wide[2][0], wide[2][1], wide[3][0], wide[3][1]};
#pragma unroll
      for (int n = 0; n < Config::kNTiles; ++n) {
        mmaSync<T>(state.result[2 * s][n], a, p[n][0], p[n][1]);
        mmaSync<T>(state.result[2 * s + 1][n], b, p[n][0], p[n][1]);
      }
    }
  } else {
    const u32 at = values + (lane / 16 * 8 + lane % 8) * Config::kPitch + lane / 8 % 2 * 16;
#pragma unroll
    for (int m = 0; m < Config::kPadded / 16; ++m) {
      u32 a[4];
      ldmatrix4Transposed(a, at + 32 * m);
#pragma unroll
      for (int n = 0; n < Config::kNTiles; ++n)
        mmaSync<T>(state.result[m][n], a, p[n][0], p[n][1]);
    }
  }
}

/// Joins the warps of a CTA, in the place of the stage that each of them has just used, and writes
/// the item's result or partial result.
template <class Config>
OCTET_DEVICE void finish(State<Config> &state, const DecodeItem &item, char *stage0,
                         int stageOffset, const Workspace &workspace, float vScale,
                         typename Config::Shape::T *y) {
  using Shape = typename Config::Shape;
  constexpr int kPitch = Config::kJoinPitch;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  auto place = [&](int w) {
    return reinterpret_cast<float *>(stage0 + w * Config::kWarpBytes + stageOffset);
  };
#pragma unroll
  for (int n = 0; n < Config::kNTiles; ++n) {
    float *own = place(warp);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum = state.sum[n][i];
#pragma unroll
      for (int step = 4; step < 32; step *= 2)
        sum += __shfl_xor_sync(~0u, sum, step);
      if (g == 0) {
        own[8 * kPitch + 2 * t + i] = state.maximum[n][i];
        own[8 * kPitch + 8 + 2 * t + i] = sum;
      }
#pragma unroll
      for (int m = 0; m < Config::kPadded / 16; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int d = 16 * m + (Shape::kScaled ? 2 * g + half : g + 8 * half);
          own[(2 * t + i) * kPitch + d] = state.result[m][n][2 * half + i];
        }
    }
    __syncthreads();
    constexpr int kPairs = Shape::kHeadDim / 2;
    for (int index = threadIdx.x; index < 8 * kPairs; index += Config::kThreads) {
      const int local = index / kPairs, d = index % kPairs * 2;
      const int query = item.tile * Config::kQueries + 8 * n + local;
      const int row = query / Shape::kGroup;
      if (row >= item.sequence.numRows)
        break;
      float maximum = minusInfinity();
#pragma unroll
      for (int w = 0; w < Config::kWarps; ++w)
        maximum = fmaxf(maximum, place(w)[8 * kPitch + local]);
      const float base = finiteMaximum(maximum);
      float sum = 0.f;
      float2 x = {0.f, 0.f};
#pragma unroll
      for (int w = 0; w < Config::kWarps; ++w) {
        const float *from = place(w);
        const float factor = exp2Approximate(from[8 * kPitch + local] - base);
        const float2 r = *reinterpret_cast<const float2 *>(from + local * kPitch + d);
        sum += factor * from[8 * kPitch + 8 + local];
        x.x += factor * r.x;
        x.y += factor * r.y;
      }
      if (item.splits == 1) {
        const float factor = vScale / sum;
        *reinterpret_cast<u32 *>(y + outputOffset<Shape>(item.sequence, item.head, query) + d) =
            packPair<typename Shape::T>(x.x * factor, x.y * factor);
      } else {
        const i64 slot = slotOf<Config>(item.place, item.head, item.split, query);
        float2 *to = reinterpret_cast<float2 *>(workspace.partial + slot * Shape::kHeadDim + d);
        if (item.place == Config::kMaxSequences) {
          send(to, x);
          if (d == 0)
            send(workspace.softmaxes + slot, {maximum, sum});
        } else {
          *to = x;
          if (d == 0)
            workspace.softmaxes[slot] = {maximum, sum};
        }
      }
    }
    __syncthreads();
  }
}

} // namespace decode

template <class Config>
OCTET_DEVICE void
pagedDecode(const typename Config::Shape::T *q, const typename Config::Shape::Kv *k,
            const typename Config::Shape::Kv *v, const float *kScale, const float *vScale,
            typename Config::Shape::T *y, const Sequence *sequences, int numSequences,
            const int *pages, void *memory) {
  using Shape = typename Config::Shape;
  extern __shared__ __align__(128) char shared[];
  char *stages = shared;
  Sequence *table = reinterpret_cast<Sequence *>(shared + Config::kWarps * Config::kWarpBytes);
  int *items = reinterpret_cast<int *>(table + Config::kMaxSequences);
  int *totals = items + Config::kMaxSequences;

  launchNextGrid();
  const int total = decode::fillTable<Config>(sequences, numSequences, table, items, totals);
  // One CTA that waits is enough for the kernels behind to wait for those ahead.
  if (static_cast<int>(blockIdx.x) >= total) {
    if (blockIdx.x == 0)
      waitForPriorGrids();
    return;
  }

  const decode::Table rows{table, items, numSequences};
  const decode::Workspace workspace = decode::workspaceAt<Config>(memory);
  const int warp = threadIdx.x / 32;
  const u32 ring = sharedAddress(stages + warp * Config::kWarpBytes);
  decode::Loader loader;
  decode::beginEarly(loader, rows, pages);
  if (!loader.early)
    waitForPriorGrids();
  loader.item = blockIdx.x;
  decode::start<Config>(loader, rows, total);
#pragma unroll 1
  for (int i = 0; i < Config::kStages; ++i)
    decode::loadPage<Config, true>(loader, rows, total, pages, k, v,
                                   ring + i * Config::kStageBytes);
  if (loader.early) {
    decode::prefetchNext<Config>(loader, total, k, v);
    decode::endEarly(loader);
  }

  const float scale = scoreScale<Shape>(kScale);
  const float outScale = valueScale<Shape>(vScale) / Config::kRaise;
  int offset = 0; // of the stage in the ring
  for (int index = blockIdx.x; index < total; index += gridDim.x) {
    const DecodeItem item = decode::findItem<Config>(rows, index);
    u32 factors[Config::kPadded / 16][Config::kNTiles][2];
    float scales[Config::kNTiles][2];
#pragma unroll
    for (int n = 0; n < Config::kNTiles; ++n)
      scales[n][0] = scales[n][1] = scale;
    decode::loadQueries<Config>(factors, scales, item, q);
    decode::State<Config> state;
    decode::clear(state);
    for (int page = item.page; page < item.endPage; ++page) {
      cpAsyncWait<Config::kStages - 1>();
      __syncwarp();
      const u32 keys = ring + offset;
      float scores[Config::kNTiles][4];
      u32 p[Config::kNTiles][2];
      decode::score<Config>(scores, factors, keys);
      decode::softmax<Config>(p, scores, state, item, page * kPageTokens + warp * Config::kWarpKeys,
                              scales);
      decode::addValues<Config>(state, p, keys + Config::kTileBytes);
      if (page + 1 == item.endPage)
        decode::finish<Config>(state, item, stages, offset, workspace, outScale, y);
      __syncwarp();
      decode::loadPage<Config, false>(loader, rows, total, pages, k, v, keys);
      offset =
          offset + Config::kStageBytes == Config::kWarpBytes ? 0 : offset + Config::kStageBytes;
    }
  }
  cpAsyncWait<0>();

  // Splits of a sequence that is alone
  if (Config::kMaxSplits == 1 || numSequences > 1)
    return;
  int *isLast = totals;
  for (int index = blockIdx.x; index < total; index += gridDim.x) {
    const DecodeItem item = decode::findItem<Config>(rows, index);
    if (item.splits == 1)
      return;
    __syncthreads(); // what was said of the item before has been read
    if (threadIdx.x == 0)
      *isLast = decode::arrive<Config>(item, workspace);
    __syncthreads();
    if (!*isLast)
      continue;
    const int first = item.tile * Config::kQueries;
    const int end = min(first + Config::kQueries, item.sequence.numRows * Shape::kGroup);
    for (int query = first + warp; query < end; query += Config::kWarps)
      decode::joinQuery<Config>(item, query, workspace, outScale, y);
  }
}

} // namespace octet::cuda
