//===- paged_prefill.cuh - Attention of sequences with many rows ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formula and the operands are those of attention/kv.cuh. Sequences with up to kSkipRows rows
// are left to another kernel (paged_decode.cuh).
//
// A CTA has a KV head and kQueries queries of a sequence: query i is head i % group of row
// i / group, so that the heads of a group share each read of K and V. A warp has 16 * kRowTiles of
// them. Keys come in tiles of kKeys, in ascending order: while S = Q K^T is made, V is on its way;
// while Y += P V is, the next K. Tiles are counted from the sequence's first key, so a row's result
// does not depend on other sequences (B5), nor, while this kernel takes it, on how the prompt was
// cut.
//
// Constants  kWarps, kRowTiles 1 or 2, kKeys 32 or 64; kSkipRows >= 0 (0: every sequence is taken).
// Threads    32 * kWarps; kv_heads * (cdiv(T * group, kQueries) + num_sequences) CTAs at most: the
//            KV head is fastest, the tiles of a sequence that see most keys come first.
// Shared     (kQueries + 2 * kKeys) * kPitch, and of E4M3 2 * kKeys * kRawPitch (kSharedBytes).
// Ragged     keys beyond the context are zeros in shared memory; a key that a query does not see
//            has the score -inf and a probability of 0 (a value that is not finite reaches the
//            earlier rows of its own step). Padding of head_dim is zeros. Queries beyond the last
//            see what it sees and are not written.
// Rounding   probabilities to T, the result to T once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "attention/kv.cuh"

namespace octet::cuda {

template <class Shape_, int kWarps_, int kRowTiles_, int kKeys_, int kSkipRows_>
struct PagedPrefill {
  using Shape = Shape_;
  static constexpr int kWarps = kWarps_, kRowTiles = kRowTiles_, kKeys = kKeys_;
  static constexpr int kSkipRows = kSkipRows_;
  static_assert(kRowTiles == 1 || kRowTiles == 2, "a warp has 16 or 32 queries");
  static_assert(kKeys == 32 || kKeys == 64, "a tile of keys is half a page or a page");
  static_assert(kSkipRows >= 0, "rows are counted");

  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kWarpQueries = 16 * kRowTiles, kQueries = kWarps * kWarpQueries;
  static constexpr int kPadded = alignUp(Shape::kHeadDim, 16);
  static constexpr int kPitch = pitchOf(kPadded * 2);
  /// Of codes as they were copied; each thread widens what it copied itself.
  static constexpr int kRawPitch = Shape::kScaled ? alignUp(Shape::kHeadDim, 16) + 16 : 0;
  static constexpr int kTileBytes = kKeys * kPitch, kRawBytes = kKeys * kRawPitch;
  static constexpr int kSharedBytes = kQueries * kPitch + 2 * kTileBytes + 2 * kRawBytes;
};

namespace prefill {

/// Queries [first, first + kQueries) of a sequence.
struct Tile {
  Sequence sequence;
  int first;
};

template <class Config>
OCTET_DEVICE int tilesOf(const Sequence &s) {
  return s.numRows > Config::kSkipRows
             ? divideUp(s.numRows * Config::Shape::kGroup, Config::kQueries)
             : 0;
}

/// \returns whether there is a tile `index`; all warps look for it themselves.
template <class Config>
OCTET_DEVICE bool findTile(Tile &tile, const Sequence *sequences, int count, int index) {
  const int lane = threadIdx.x % 32;
  for (int base = 0; base < count; base += 32) {
    Sequence s{0, 0, 0, 0};
    if (base + lane < count)
      s = sequences[base + lane];
    const int own = tilesOf<Config>(s);
    int sum = own;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(~0u, sum, step);
      sum += lane >= step ? other : 0;
    }
    const u32 beyond = __ballot_sync(~0u, index < sum);
    if (beyond != 0) {
      const int source = __ffs(static_cast<int>(beyond)) - 1;
      tile.sequence.firstRow = __shfl_sync(~0u, s.firstRow, source);
      tile.sequence.numRows = __shfl_sync(~0u, s.numRows, source);
      tile.sequence.context = __shfl_sync(~0u, s.context, source);
      tile.sequence.firstPage = __shfl_sync(~0u, s.firstPage, source);
      // The last tile sees most keys.
      tile.first = (__shfl_sync(~0u, sum, source) - 1 - index) * Config::kQueries;
      return true;
    }
    index -= __shfl_sync(~0u, sum, 31);
  }
  return false;
}

template <class Shape>
OCTET_DEVICE i64 queryOffset(const Tile &tile, int head, int query) {
  const int row = query / Shape::kGroup;
  return (static_cast<i64>(tile.sequence.firstRow + row) * Shape::kQHeads + head * Shape::kGroup +
          query % Shape::kGroup) *
         Shape::kHeadDim;
}

template <class Config>
OCTET_DEVICE void loadQueries(u32 shared, const Tile &tile, int head,
                              const typename Config::Shape::T *q) {
  using Shape = typename Config::Shape;
  constexpr int kRowChunks = Config::kPadded / 8;
  const int queries = tile.sequence.numRows * Shape::kGroup;
  for (int index = threadIdx.x; index < Config::kQueries * kRowChunks; index += Config::kThreads) {
    const int local = index / kRowChunks, chunk = index % kRowChunks;
    const bool valid = tile.first + local < queries && chunk * 8 < Shape::kHeadDim;
    const i64 from = valid ? queryOffset<Shape>(tile, head, tile.first + local) + chunk * 8 : 0;
    cpAsync<16>(shared + local * Config::kPitch + chunk * 16, q + from, valid ? 16 : 0);
  }
}

/// Visits the chunks of a tile that the thread copies: visit(key, chunk).
template <class Config, class Visit>
OCTET_DEVICE void forChunks(Visit visit) {
  using Shape = typename Config::Shape;
  using Kv = typename Shape::Kv;
  constexpr int kElements = Shape::kChunk / static_cast<int>(sizeof(Kv));
  // Codes have no padding: it is made where they are widened.
  constexpr int kWidth = Shape::kScaled ? Shape::kHeadDim : Config::kPadded;
  constexpr int kRowChunks = kWidth / kElements, kChunks = Config::kKeys * kRowChunks;
#pragma unroll
  for (int i = 0; i < divideUp(kChunks, Config::kThreads); ++i) {
    const int index = i * Config::kThreads + static_cast<int>(threadIdx.x);
    if (kChunks % Config::kThreads == 0 || index < kChunks)
      visit(index / kRowChunks, index % kRowChunks);
  }
}

/// Begins to copy the keys or values from `firstKey` on, to `shared` rows of kPitch or, of codes,
/// kRawPitch bytes.
template <class Config>
OCTET_DEVICE void loadTile(u32 shared, const typename Config::Shape::Kv *cache, int page,
                           int firstKey, int context, int head) {
  using Shape = typename Config::Shape;
  constexpr int kElements = Shape::kChunk / static_cast<int>(sizeof(typename Shape::Kv));
  constexpr int kPitch = Shape::kScaled ? Config::kRawPitch : Config::kPitch;
  const typename Shape::Kv *base =
      cache + (static_cast<i64>(page) * kPageTokens + firstKey % kPageTokens) * Shape::kKeyStride +
      head * Shape::kHeadDim;
  forChunks<Config>([&](int key, int chunk) {
    const bool valid = firstKey + key < context && chunk * kElements < Shape::kHeadDim;
    const i64 from = valid ? key * Shape::kKeyStride + chunk * kElements : 0;
    cpAsync<Shape::kChunk>(shared + key * kPitch + chunk * Shape::kChunk, base + from,
                           valid ? Shape::kChunk : 0);
  });
}

/// Widens the codes that this thread has copied.
template <class Config>
OCTET_DEVICE void widenTile(char *wide, const char *raw) {
  using Shape = typename Config::Shape;
  using T = typename Shape::T;
  forChunks<Config>([&](int key, int chunk) {
    const char *from = raw + key * Config::kRawPitch + chunk * Shape::kChunk;
    char *to = wide + key * Config::kPitch + chunk * 2 * Shape::kChunk;
#pragma unroll
    for (int i = 0; i < Shape::kChunk / 8; ++i) {
      const uint2 codes = *reinterpret_cast<const uint2 *>(from + 8 * i);
      u32 a[2], b[2], nan = 0;
      splitE4m3<T>(a, codes.x, nan);
      splitE4m3<T>(b, codes.y, nan);
      if (hasNan(nan)) {
        restoreNan(a, codes.x);
        restoreNan(b, codes.y);
      }
      store16(to + 16 * i, {__byte_perm(a[0], a[1], 0x5410), __byte_perm(a[0], a[1], 0x7632),
                            __byte_perm(b[0], b[1], 0x5410), __byte_perm(b[0], b[1], 0x7632)});
    }
  });
}

/// Zeros behind head_dim, which widenTile never writes.
template <class Config>
OCTET_DEVICE void clearPadding(char *tile) {
  if constexpr (Config::Shape::kScaled && Config::kPadded != Config::Shape::kHeadDim)
    for (int key = threadIdx.x; key < Config::kKeys; key += Config::kThreads)
      store16(tile + key * Config::kPitch + Config::Shape::kHeadDim * 2, {0, 0, 0, 0});
}

} // namespace prefill

template <class Config>
OCTET_DEVICE void pagedPrefill(const typename Config::Shape::T *q,
                               const typename Config::Shape::Kv *k,
                               const typename Config::Shape::Kv *v, const float *kScale,
                               const float *vScale, typename Config::Shape::T *y,
                               const Sequence *sequences, int numSequences, const int *pages) {
  using Shape = typename Config::Shape;
  using T = typename Shape::T;
  constexpr int kRowTiles = Config::kRowTiles, kKeyTiles = Config::kKeys / 8;
  constexpr int kDimTiles = Config::kPadded / 8, kPitch = Config::kPitch;
  extern __shared__ __align__(128) char shared[];
  char *sharedQ = shared;
  char *sharedK = sharedQ + Config::kQueries * kPitch;
  char *sharedV = sharedK + Config::kTileBytes;
  char *rawK = sharedV + Config::kTileBytes;
  char *rawV = rawK + Config::kRawBytes;
  const u32 qAt = sharedAddress(sharedQ), kAt = sharedAddress(sharedK);
  const u32 vAt = sharedAddress(sharedV);
  // Where copies go.
  const u32 kTo = Shape::kScaled ? sharedAddress(rawK) : kAt;
  const u32 vTo = Shape::kScaled ? sharedAddress(rawV) : vAt;

  launchNextGrid();
  waitForPriorGrids();
  const int head = blockIdx.x % Shape::kKvHeads;
  prefill::Tile tile;
  if (!prefill::findTile<Config>(tile, sequences, numSequences, blockIdx.x / Shape::kKvHeads))
    return;
  const Sequence &s = tile.sequence;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const int lastQuery = min(tile.first + Config::kQueries, s.numRows * Shape::kGroup) - 1;
  const int firstKey =
      keysBegin<Shape>(s, tile.first / Shape::kGroup) / Config::kKeys * Config::kKeys;
  const int endKey = keysEnd<Shape>(s, lastQuery / Shape::kGroup);
  const int *ids = pages + s.firstPage;

  // What each row of the warp sees: row g + 8 i of product r.
  int rowEnd[kRowTiles][2], rowBegin[kRowTiles][2];
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int query = tile.first + warp * Config::kWarpQueries + 16 * r + 8 * i + g;
      const int row = min(query, lastQuery) / Shape::kGroup;
      rowEnd[r][i] = keysEnd<Shape>(s, row);
      rowBegin[r][i] = keysBegin<Shape>(s, row);
    }
  // Tiles that every row of the warp sees whole need no mask.
  const int warpFirst = min(tile.first + warp * Config::kWarpQueries, lastQuery);
  const int warpLast = min(warpFirst + Config::kWarpQueries - 1, lastQuery);
  const int wholeEnd = keysEnd<Shape>(s, warpFirst / Shape::kGroup);
  const int wholeBegin = keysBegin<Shape>(s, warpLast / Shape::kGroup);

  prefill::clearPadding<Config>(sharedK);
  prefill::clearPadding<Config>(sharedV);
  prefill::loadQueries<Config>(qAt, tile, head, q);
  int page = ids[firstKey / kPageTokens];
  prefill::loadTile<Config>(kTo, k, page, firstKey, endKey, head);
  cpAsyncCommit();
  if (Shape::kScaled) {
    prefill::loadTile<Config>(vTo, v, page, firstKey, endKey, head);
    cpAsyncCommit();
  }

  float result[kRowTiles][kDimTiles][4];
  float maximum[kRowTiles][2], sum[kRowTiles][2]; // of scores times log2 e
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r) {
#pragma unroll
    for (int d = 0; d < kDimTiles; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        result[r][d][i] = 0.f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      maximum[r][i] = minusInfinity();
      sum[r][i] = 0.f;
    }
  }
  const float scale = scoreScale<Shape>(kScale);

  for (int key = firstKey; key < endKey; key += Config::kKeys) {
    const int nextKey = key + Config::kKeys;
    const int nextPage = nextKey < endKey ? ids[nextKey / kPageTokens] : 0;

    // K is there; V is on its way
    if constexpr (Shape::kScaled) {
      cpAsyncWait<1>();
      prefill::widenTile<Config>(sharedK, rawK);
      if (nextKey < endKey)
        prefill::loadTile<Config>(kTo, k, nextPage, nextKey, endKey, head);
      cpAsyncCommit();
      __syncthreads();
    } else {
      cpAsyncWait<0>();
      __syncthreads();
      prefill::loadTile<Config>(vTo, v, page, key, endKey, head);
      cpAsyncCommit();
    }

    // S = Q K^T
    float scores[kRowTiles][kKeyTiles][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          scores[r][j][i] = 0.f;
    const u32 qRow = qAt + (warp * Config::kWarpQueries + lane % 16) * kPitch + lane / 16 * 16;
    const u32 kRow = kAt + (lane / 16 * 8 + lane % 8) * kPitch + lane / 8 % 2 * 16;
#pragma unroll
    for (int d = 0; d < Config::kPadded / 16; ++d) {
      u32 a[kRowTiles][4];
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
        ldmatrix4(a[r], qRow + 16 * r * kPitch + 32 * d);
#pragma unroll
      for (int j = 0; j < kKeyTiles / 2; ++j) {
        u32 b[4];
        ldmatrix4(b, kRow + 16 * j * kPitch + 32 * d);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          mmaSync<T>(scores[r][2 * j], a[r], b[0], b[1]);
          mmaSync<T>(scores[r][2 * j + 1], a[r], b[2], b[3]);
        }
      }
    }

    // Mask
    if (nextKey > wholeEnd || key < wholeBegin) {
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int at = key + 8 * j + 2 * t + i % 2;
            if (at >= rowEnd[r][i / 2] || (Shape::kWindow > 0 && at < rowBegin[r][i / 2]))
              scores[r][j][i] = minusInfinity();
          }
    }

    // Probabilities, and the result at the new maximum
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float now = minusInfinity();
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
          now = fmaxf(now, fmaxf(scores[r][j][2 * i], scores[r][j][2 * i + 1]));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
        now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
        now = fmaxf(maximum[r][i], now * scale);
        const float base = finiteMaximum(now);
        // 1 where the maximum stays, so that tiles that a row does not see change nothing.
        const float factor = exp2Approximate(maximum[r][i] - base);
        maximum[r][i] = now;
        float total = 0.f;
#pragma unroll
        for (int j = 0; j < kKeyTiles; ++j)
#pragma unroll
          for (int c = 0; c < 2; ++c) {
            float &x = scores[r][j][2 * i + c];
            x = exp2Approximate(fmaf(x, scale, -base));
            total += x;
          }
        sum[r][i] = fmaf(sum[r][i], factor, total);
#pragma unroll
        for (int d = 0; d < kDimTiles; ++d) {
          result[r][d][2 * i] *= factor;
          result[r][d][2 * i + 1] *= factor;
        }
      }
    u32 p[kRowTiles][kKeyTiles / 2][4];
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
      for (int j = 0; j < kKeyTiles / 2; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          p[r][j][i] = packPair<T>(scores[r][2 * j + i / 2][i % 2 * 2],
                                   scores[r][2 * j + i / 2][i % 2 * 2 + 1]);

    // V is there; the next K is on its way
    if constexpr (Shape::kScaled) {
      cpAsyncWait<1>();
      prefill::widenTile<Config>(sharedV, rawV);
      if (nextKey < endKey)
        prefill::loadTile<Config>(vTo, v, nextPage, nextKey, endKey, head);
      cpAsyncCommit();
      __syncthreads();
    } else {
      cpAsyncWait<0>();
      __syncthreads();
      if (nextKey < endKey) {
        prefill::loadTile<Config>(kTo, k, nextPage, nextKey, endKey, head);
        cpAsyncCommit();
      }
    }

    // Y += P V
    const u32 vRow = vAt + lane % 16 * kPitch + lane / 16 * 16;
#pragma unroll
    for (int j = 0; j < kKeyTiles / 2; ++j)
#pragma unroll
      for (int d = 0; d < kDimTiles / 2; ++d) {
        u32 b[4];
        ldmatrix4Transposed(b, vRow + 16 * j * kPitch + 32 * d);
#pragma unroll
        for (int r = 0; r < kRowTiles; ++r) {
          mmaSync<T>(result[r][2 * d], p[r][j], b[0], b[1]);
          mmaSync<T>(result[r][2 * d + 1], p[r][j], b[2], b[3]);
        }
      }
    page = nextPage;
  }
  cpAsyncWait<0>();

  // The results of a warp take the place of its queries and are written in whole rows
  const float outScale = valueScale<Shape>(vScale);
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      sum[r][i] += __shfl_xor_sync(~0u, sum[r][i], 1);
      sum[r][i] += __shfl_xor_sync(~0u, sum[r][i], 2);
      const float factor = outScale / sum[r][i];
      char *to = sharedQ + (warp * Config::kWarpQueries + 16 * r + 8 * i + g) * kPitch + 4 * t;
#pragma unroll
      for (int d = 0; d < kDimTiles; ++d)
        *reinterpret_cast<u32 *>(to + 16 * d) =
            packPair<T>(result[r][d][2 * i] * factor, result[r][d][2 * i + 1] * factor);
    }
  __syncwarp();
  constexpr int kRowChunks = Shape::kHeadDim / 8;
  for (int index = lane; index < Config::kWarpQueries * kRowChunks; index += 32) {
    const int local = warp * Config::kWarpQueries + index / kRowChunks;
    const int chunk = index % kRowChunks;
    if (tile.first + local <= lastQuery)
      store16(y + prefill::queryOffset<Shape>(tile, head, tile.first + local) + chunk * 8,
              load16(sharedQ + local * kPitch + chunk * 16));
  }
}

} // namespace octet::cuda
