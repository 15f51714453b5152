//===- sm90_prefill.cuh - Attention of many rows by warp-group products ---===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// paged_prefill.cuh for sm_90a: the same formula, operands, queries of a CTA, order of keys and
// roundings. K and V are tensor maps over [rows of the cache, kv_heads * head_dim]: of T with boxes
// of a page by 64 columns and 128-byte swizzle, of E4M3 with boxes of a page by head_dim, as they
// lie.
//
// A warp group copies, kMathGroups compute, 64 queries each. While a group turns the scores of a
// tile into probabilities, its products with the values of the tile before are under way.
//
//   stage     K or V of kKeys keys: head_dim / 64 parts of kKeys rows of 128 bytes
//   full, empty   barriers of each stage, of K and of V
//   raw       of E4M3: codes of kKeys keys, of K and of V, which the warp group that copies widens
//
// Constants  kKeys 64 or 128; kStages >= 1, of K and of V; kSkipRows as in paged_prefill.cuh.
// Threads    128 * (1 + kMathGroups): a warp group that copies, then those that compute. The grid
//            is that of paged_prefill.cuh.
// Shared     1024 + (kQueries + 2 * kStages * kKeys) * head_dim * 2 + 32 * kStages + 16, and of
// E4M3
//            2 * kKeys * head_dim (kSharedBytes).
// Ragged     as in paged_prefill.cuh; values behind the last key are made zeros before the last
//            product, keys behind it are anything and masked (of E4M3 both are zeros).
// Rounding   probabilities to T, the result to T once.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "attention/paged_prefill.cuh"
#include "ptx/cluster.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/tma.cuh"
#include "ptx/wgmma.cuh"
#include "tile/descriptor.cuh"
#include "tile/stages.cuh"

namespace octet::cuda {

template <class Shape_, int kKeys_, int kStages_, int kSkipRows_>
struct Sm90Prefill {
  using Shape = Shape_;
  using T = typename Shape::T;
  static constexpr int kKeys = kKeys_, kStages = kStages_, kSkipRows = kSkipRows_;
  static_assert(Shape::kHeadDim % 64 == 0, "head_dim is a multiple of 64, a box of a tensor map");
  static_assert(kKeys == 64 || kKeys == 128, "a tile of keys is a page or two");
  static_assert(kStages >= 1 && kSkipRows >= 0, "there is a stage, and rows are counted");

  static constexpr int kMathGroups = 2, kThreads = 128 * (1 + kMathGroups);
  static constexpr int kMathThreads = 128 * kMathGroups;
  static constexpr int kQueries = 64 * kMathGroups;
  static constexpr int kParts = Shape::kHeadDim / 64;
  static constexpr int kQueryBytes = kQueries * Shape::kHeadDim * 2;
  static constexpr int kTileBytes = kKeys * Shape::kHeadDim * 2;
  static constexpr int kRawBytes = Shape::kScaled ? kKeys * Shape::kHeadDim : 0;
  static constexpr int kSharedBytes =
      1024 + kQueryBytes + 2 * kStages * kTileBytes + 2 * kRawBytes + 32 * kStages + 16;
  /// Registers of a thread that copies and of one that computes. They change within what the CTA
  /// was launched with, 168 a thread: more would wait for ever.
  static constexpr bool kWide = Shape::kHeadDim > 128;
  static constexpr int kCopyRegisters = !Shape::kScaled ? 24 : kWide ? 88 : 104;
  static constexpr int kMathRegisters = !Shape::kScaled ? 240 : kWide ? 208 : 200;
  static_assert(kCopyRegisters + kMathGroups * kMathRegisters <= 168 * (1 + kMathGroups),
                "registers of a CTA");
  /// Arrivals at a full barrier: of the thread that copies, or of the warps that widen.
  static constexpr int kCopyArrivals = Shape::kScaled ? 4 : 1;
};

namespace sm90 {

/// Rows of 128 bytes along head_dim (the columns of a product) and keys along its K: groups of 8
/// keys 1024 bytes apart, parts of 64 columns `partBytes` apart.
OCTET_DEVICE u64 valuesOperand(u32 address, u32 partBytes) {
  return static_cast<u64>((address & 0x3ffffu) >> 4) | static_cast<u64>(partBytes >> 4) << 16 |
         (64ull << 32) | (1ull << 62);
}

template <int kCount>
OCTET_DEVICE void pinWords(u32 (&x)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+r"(x[i])::"memory");
}

OCTET_DEVICE uint4 loadShared16(u32 from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(from)
               : "memory");
  return x;
}
OCTET_DEVICE void storeShared16(u32 to, uint4 x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z),
               "r"(x.w)
               : "memory");
}

/// What a CTA has in shared memory.
template <class Config>
struct Memory {
  u32 queries, keys, values; // at multiples of 1024
  u32 rawKeys, rawValues;
  u32 barriers;

  OCTET_DEVICE explicit Memory(char *shared) {
    queries = (sharedAddress(shared) + 1023) & ~1023u;
    keys = queries + Config::kQueryBytes;
    values = keys + Config::kStages * Config::kTileBytes;
    rawKeys = values + Config::kStages * Config::kTileBytes;
    rawValues = rawKeys + Config::kRawBytes;
    barriers = rawValues + Config::kRawBytes;
  }
  OCTET_DEVICE u32 fullKeys(int stage) const { return barriers + 8 * stage; }
  OCTET_DEVICE u32 fullValues(int stage) const { return barriers + 8 * (Config::kStages + stage); }
  OCTET_DEVICE u32 emptyKeys(int stage) const {
    return barriers + 8 * (2 * Config::kStages + stage);
  }
  OCTET_DEVICE u32 emptyValues(int stage) const {
    return barriers + 8 * (3 * Config::kStages + stage);
  }
  OCTET_DEVICE u32 fullRawKeys() const { return barriers + 32 * Config::kStages; }
  OCTET_DEVICE u32 fullRawValues() const { return fullRawKeys() + 8; }
};

/// Keys or values of the pages of a tile that exist: parts of 64 columns of all pages, one after
/// the other, or codes, page after page.
template <class Config>
OCTET_DEVICE void copyTile(u32 to, u32 full, const TensorMap *map, const int *ids, int key,
                           int endKey, int head) {
  constexpr bool kScaled = Config::Shape::kScaled;
  constexpr int kPages = Config::kKeys / kPageTokens, kDim = Config::Shape::kHeadDim;
  constexpr int kParts = kScaled ? 1 : Config::kParts;
  constexpr int kBoxBytes = kPageTokens * (kScaled ? kDim : kRowBytes);
  const int pages = min(kPages, divideUp(endKey - key, kPageTokens));
  arriveExpecting(full, pages * kParts * kBoxBytes);
  for (int i = 0; i < pages; ++i) {
    const int row = ids[key / kPageTokens + i] * kPageTokens;
#pragma unroll
    for (int part = 0; part < kParts; ++part)
      loadTile(to + (part * kPages + i) * kBoxBytes, map, full, head * kDim + 64 * part, row);
  }
}

/// What the warp group that copies does with a cache of T: one thread fills the stages.
template <class Config>
OCTET_DEVICE void copyStages(const Memory<Config> &memory, const TensorMap *k, const TensorMap *v,
                             const int *ids, int firstKey, int endKey, int head) {
  if (threadIdx.x != 0)
    return;
  StageCursor<Config::kStages> at;
  for (int key = firstKey; key < endKey; key += Config::kKeys, at.advance()) {
    wait(memory.emptyKeys(at.stage), at.parity ^ 1);
    copyTile<Config>(memory.keys + at.stage * Config::kTileBytes, memory.fullKeys(at.stage), k, ids,
                     key, endKey, head);
    wait(memory.emptyValues(at.stage), at.parity ^ 1);
    copyTile<Config>(memory.values + at.stage * Config::kTileBytes, memory.fullValues(at.stage), v,
                     ids, key, endKey, head);
  }
}

/// 16 codes as elements of T.
template <class T>
OCTET_DEVICE void widen16(uint4 (&y)[2], const uint4 &codes) {
  const u32 words[4] = {codes.x, codes.y, codes.z, codes.w};
  u32 wide[4][2];
  if constexpr (kIsSame<T, F16>) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      widenToF16(wide[i], words[i]);
  } else {
    u32 nan = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      splitE4m3<T>(wide[i], words[i], nan);
    if (hasNan(nan))
#pragma unroll
      for (int i = 0; i < 4; ++i)
        restoreNan(wide[i], words[i]);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const u32 even = wide[i][0], odd = wide[i][1];
      wide[i][0] = __byte_perm(even, odd, 0x5410);
      wide[i][1] = __byte_perm(even, odd, 0x7632);
    }
  }
  y[0] = {wide[0][0], wide[0][1], wide[1][0], wide[1][1]};
  y[1] = {wide[2][0], wide[2][1], wide[3][0], wide[3][1]};
}

/// The codes of a raw tile that the thread widens; zeros behind the last key.
template <class Config>
struct Codes {
  static constexpr int kRowLoads = Config::Shape::kHeadDim / 16;
  static constexpr int kLoads = Config::kKeys * kRowLoads / 128;
  uint4 codes[kLoads];

  OCTET_DEVICE void read(u32 raw, int rows) {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int index = i * 128 + static_cast<int>(threadIdx.x);
      codes[i] = loadShared16(raw + 16 * index);
      if (index / kRowLoads >= rows)
        codes[i] = {0, 0, 0, 0};
    }
  }
  OCTET_DEVICE void write(u32 stage) const {
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int index = i * 128 + static_cast<int>(threadIdx.x);
      const int row = index / kRowLoads, chunk = index % kRowLoads * 2, part = chunk / 8;
      uint4 wide[2];
      widen16<typename Config::T>(wide, codes[i]);
      // Every other part begins with the second half: its chunks lie in the other banks.
      const int first = part & 1;
      const u32 to = stage + part * (Config::kKeys * kRowBytes);
      storeShared16(to + swizzledOffset(row, chunk % 8 + first), first ? wide[1] : wide[0]);
      storeShared16(to + swizzledOffset(row, chunk % 8 + 1 - first), first ? wide[0] : wide[1]);
    }
  }
};

/// And with a cache of E4M3: one thread copies codes, all widen them into the stages.
template <class Config>
OCTET_DEVICE void widenStages(const Memory<Config> &memory, const TensorMap *k, const TensorMap *v,
                              const int *ids, int firstKey, int endKey, int head) {
  constexpr int kAllRead = 4; // a barrier of the warp group
  auto publish = [](u32 full) {
    fenceSharedForAsync();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      arrive(full);
  };
  if (threadIdx.x == 0) {
    copyTile<Config>(memory.rawKeys, memory.fullRawKeys(), k, ids, firstKey, endKey, head);
    copyTile<Config>(memory.rawValues, memory.fullRawValues(), v, ids, firstKey, endKey, head);
  }
  StageCursor<Config::kStages> at;
  StageCursor<1> raw;
  for (int key = firstKey; key < endKey; key += Config::kKeys, at.advance(), raw.advance()) {
    const int next = key + Config::kKeys;
    Codes<Config> codes;
    wait(memory.fullRawKeys(), raw.parity);
    codes.read(memory.rawKeys, endKey - key);
    barrierSync(kAllRead, 128);
    if (threadIdx.x == 0 && next < endKey)
      copyTile<Config>(memory.rawKeys, memory.fullRawKeys(), k, ids, next, endKey, head);
    wait(memory.emptyKeys(at.stage), at.parity ^ 1);
    codes.write(memory.keys + at.stage * Config::kTileBytes);
    publish(memory.fullKeys(at.stage));

    wait(memory.fullRawValues(), raw.parity);
    codes.read(memory.rawValues, endKey - key);
    barrierSync(kAllRead, 128);
    if (threadIdx.x == 0 && next < endKey)
      copyTile<Config>(memory.rawValues, memory.fullRawValues(), v, ids, next, endKey, head);
    wait(memory.emptyValues(at.stage), at.parity ^ 1);
    codes.write(memory.values + at.stage * Config::kTileBytes);
    publish(memory.fullValues(at.stage));
  }
}

/// The queries of the CTA as left factors; zeros behind the last.
template <class Config>
OCTET_DEVICE void storeQueries(u32 to, const prefill::Tile &tile, int head, int thread,
                               const typename Config::T *q) {
  using Shape = typename Config::Shape;
  constexpr int kRowChunks = Shape::kHeadDim / 8;
  const int queries = tile.sequence.numRows * Shape::kGroup;
  for (int index = thread; index < Config::kQueries * kRowChunks; index += Config::kMathThreads) {
    const int local = index / kRowChunks, chunk = index % kRowChunks;
    const int query = tile.first + local;
    uint4 x = {0, 0, 0, 0};
    if (query < queries)
      x = load16(q + prefill::queryOffset<Shape>(tile, head, query) + chunk * 8);
    const u32 at =
        to + chunk / 8 * (Config::kQueries * kRowBytes) + swizzledOffset(local, chunk % 8);
    storeShared16(at, x);
  }
}

/// Zeros in the rows of a tile of values from `rows` on, by the threads of one warp group.
template <class Config>
OCTET_DEVICE void clearValues(u32 values, int rows, int thread) {
  const int count = (Config::kKeys - rows) * Config::kParts * 8;
  for (int index = thread; index < count; index += 128) {
    const int row = rows + index / (Config::kParts * 8), chunk = index % (Config::kParts * 8);
    storeShared16(values + chunk / 8 * (Config::kKeys * kRowBytes) + row * kRowBytes +
                      chunk % 8 * 16,
                  {0, 0, 0, 0});
  }
}

} // namespace sm90

template <class Config>
OCTET_DEVICE void sm90Prefill(const typename Config::T *q, const TensorMap &k, const TensorMap &v,
                              const float *kScale, const float *vScale, typename Config::T *y,
                              const Sequence *sequences, int numSequences, const int *pages) {
  using Shape = typename Config::Shape;
  using T = typename Config::T;
  constexpr int kKeys = Config::kKeys, kStages = Config::kStages, kDim = Shape::kHeadDim;
  constexpr int kPartRows = Config::kQueries * kRowBytes, kPartKeys = kKeys * kRowBytes;
  extern __shared__ __align__(128) char shared[];
  const sm90::Memory<Config> memory(shared);
  const int thread = threadIdx.x, lane = thread % 32;

  if (thread == 0) {
    prefetchMap(&k);
    prefetchMap(&v);
    if (Shape::kScaled) {
      initBarrier(memory.fullRawKeys(), 1);
      initBarrier(memory.fullRawValues(), 1);
    }
    for (int i = 0; i < kStages; ++i) {
      initBarrier(memory.fullKeys(i), Config::kCopyArrivals);
      initBarrier(memory.fullValues(i), Config::kCopyArrivals);
      initBarrier(memory.emptyKeys(i), Config::kMathThreads / 32);
      initBarrier(memory.emptyValues(i), Config::kMathThreads / 32);
    }
    fenceBarrierInit();
  }
  launchNextGrid();
  waitForPriorGrids();
  __syncthreads();

  const int head = blockIdx.x % Shape::kKvHeads;
  prefill::Tile tile;
  if (!prefill::findTile<Config>(tile, sequences, numSequences, blockIdx.x / Shape::kKvHeads))
    return;
  const Sequence &s = tile.sequence;
  const int lastQuery = min(tile.first + Config::kQueries, s.numRows * Shape::kGroup) - 1;
  const int firstKey = keysBegin<Shape>(s, tile.first / Shape::kGroup) / kKeys * kKeys;
  const int endKey = keysEnd<Shape>(s, lastQuery / Shape::kGroup);

  // Copies
  if (thread < 128) {
    shrinkRegisters<Config::kCopyRegisters>();
    if constexpr (Shape::kScaled)
      sm90::widenStages<Config>(memory, &k, &v, pages + s.firstPage, firstKey, endKey, head);
    else
      sm90::copyStages<Config>(memory, &k, &v, pages + s.firstPage, firstKey, endKey, head);
    return;
  }

  // Products
  growRegisters<Config::kMathRegisters>();
  const int mathThread = thread - 128, group = mathThread / 128;
  const int warp = mathThread / 32, g = lane / 4, t = lane % 4;
  sm90::storeQueries<Config>(memory.queries, tile, head, mathThread, q);
  fenceSharedForAsync();
  barrierSync(1, Config::kMathThreads);

  // What rows g and g + 8 of the warp see
  int rowEnd[2], rowBegin[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int query = min(tile.first + 16 * warp + 8 * i + g, lastQuery);
    rowEnd[i] = keysEnd<Shape>(s, query / Shape::kGroup);
    rowBegin[i] = keysBegin<Shape>(s, query / Shape::kGroup);
  }
  const int warpFirst = min(tile.first + 16 * warp, lastQuery);
  const int warpLast = min(warpFirst + 15, lastQuery);
  const int wholeEnd = keysEnd<Shape>(s, warpFirst / Shape::kGroup);
  const int wholeBegin = keysBegin<Shape>(s, warpLast / Shape::kGroup);
  const float scale = scoreScale<Shape>(kScale);

  float scores[kKeys / 2], result[kDim / 2];
  u32 p[kKeys / 4];
  float maximum[2] = {minusInfinity(), minusInfinity()}, sum[2] = {0.f, 0.f}, factor[2];
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i)
    result[i] = 0.f;

  const u64 queries = swizzledOperand(memory.queries + group * (64 * kRowBytes));
  auto issueScores = [&](int stage) {
    const u64 keys = swizzledOperand(memory.keys + stage * Config::kTileBytes);
#pragma unroll
    for (int d = 0; d < kDim / 16; ++d) // 2: 32 bytes
      Wgmma<T, kKeys>::multiply(scores, queries + d / 4 * (kPartRows / 16) + d % 4 * 2,
                                keys + d / 4 * (kPartKeys / 16) + d % 4 * 2, d > 0);
    wgmmaCommit();
  };
  auto issueValues = [&](int stage) {
    const u64 values = sm90::valuesOperand(memory.values + stage * Config::kTileBytes, kPartKeys);
#pragma unroll
    for (int j = 0; j < kKeys / 16; ++j) {
      const u32 a[4] = {p[4 * j], p[4 * j + 1], p[4 * j + 2], p[4 * j + 3]};
      Wgmma<T, kDim>::template multiply<true>(result, a, values + j * (16 * kRowBytes / 16), true);
    }
    wgmmaCommit();
  };
  auto release = [&](u32 barrier) {
    if (lane == 0)
      arrive(barrier);
  };
  // Scores of the tile at `key` to probabilities, in place; `factor` brings what was before to the
  // new maximum.
  auto softmax = [&](int key) {
    if (key + kKeys > wholeEnd || key < wholeBegin) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        const int at = key + 8 * (i / 4) + 2 * t + i % 2, row = i / 2 % 2;
        if (at >= rowEnd[row] || (Shape::kWindow > 0 && at < rowBegin[row]))
          scores[i] = minusInfinity();
      }
    }
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      float now = minusInfinity();
#pragma unroll
      for (int i = 0; i < kKeys / 8; ++i)
        now = fmaxf(now, fmaxf(scores[4 * i + 2 * row], scores[4 * i + 2 * row + 1]));
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
      now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
      now = fmaxf(maximum[row], now * scale);
      const float base = finiteMaximum(now);
      // 1 where the maximum stays, so that tiles that a row does not see change nothing.
      factor[row] = exp2Approximate(maximum[row] - base);
      maximum[row] = now;
      float total = 0.f;
#pragma unroll
      for (int i = 0; i < kKeys / 8; ++i)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          float &x = scores[4 * i + 2 * row + c];
          x = exp2Approximate(fmaf(x, scale, -base));
          total += x;
        }
      sum[row] = fmaf(sum[row], factor[row], total);
    }
  };
  auto roundProbabilities = [&] {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i)
      p[i] = packPair<T>(scores[2 * i], scores[2 * i + 1]);
  };

  // The first tile
  StageCursor<kStages> at;
  wait(memory.fullKeys(0), 0);
  pinRegisters(scores);
  wgmmaFence();
  issueScores(0);
  wgmmaWait<0>();
  pinRegisters(scores);
  release(memory.emptyKeys(0));
  softmax(firstKey);
  roundProbabilities();

  // Scores of a tile beside the values of the one before
  for (int key = firstKey + kKeys; key < endKey; key += kKeys) {
    const StageCursor<kStages> before = at;
    at.advance();
    wait(memory.fullKeys(at.stage), at.parity);
    pinRegisters(scores);
    wgmmaFence();
    issueScores(at.stage);
    wait(memory.fullValues(before.stage), before.parity);
    pinRegisters(result);
    sm90::pinWords(p);
    wgmmaFence();
    issueValues(before.stage);
    wgmmaWait<1>();
    pinRegisters(scores);
    release(memory.emptyKeys(at.stage));
    softmax(key);
    wgmmaWait<0>();
    pinRegisters(result);
    sm90::pinWords(p);
    release(memory.emptyValues(before.stage));
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i)
      result[i] *= factor[i / 2 % 2];
    roundProbabilities();
  }

  // The values of the last tile
  wait(memory.fullValues(at.stage), at.parity);
  const int rows = endKey - (endKey - 1 - firstKey) / kKeys * kKeys - firstKey;
  if (!Shape::kScaled && rows < kKeys) {
    sm90::clearValues<Config>(memory.values + at.stage * Config::kTileBytes, rows,
                              mathThread % 128);
    fenceSharedForAsync();
    barrierSync(2 + group, 128);
  }
  pinRegisters(result);
  sm90::pinWords(p);
  wgmmaFence();
  issueValues(at.stage);
  wgmmaWait<0>();
  pinRegisters(result);

  // Results take the place of the warp's queries and are written in whole rows
  auto placeOf = [&](int local, int chunk) {
    return memory.queries + chunk / 8 * kPartRows + swizzledOffset(local, chunk % 8);
  };
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    sum[row] += __shfl_xor_sync(~0u, sum[row], 1);
    sum[row] += __shfl_xor_sync(~0u, sum[row], 2);
    const float inverse = valueScale<Shape>(vScale) / sum[row];
#pragma unroll
    for (int i = 0; i < kDim / 8; ++i)
      asm volatile(
          "st.shared.u32 [%0], %1;" ::"r"(placeOf(16 * warp + 8 * row + g, i) + 4 * t),
          "r"(packPair<T>(result[4 * i + 2 * row] * inverse, result[4 * i + 2 * row + 1] * inverse))
          : "memory");
  }
  __syncwarp();
  constexpr int kRowChunks = kDim / 8;
  for (int index = lane; index < 16 * kRowChunks; index += 32) {
    const int local = 16 * warp + index / kRowChunks, chunk = index % kRowChunks;
    const uint4 x = sm90::loadShared16(placeOf(local, chunk));
    if (tile.first + local <= lastQuery)
      store16(y + prefill::queryOffset<Shape>(tile, head, tile.first + local) + chunk * 8, x);
  }
}

} // namespace octet::cuda
