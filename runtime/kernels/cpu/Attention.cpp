//===- Attention.cpp - softmax(q k^T scale) v over a paged cache *- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   s[t] = (q . k[t]) (scale k_scale)     visible t only: t <= pos, t > pos - window
//   y    = sum_t round(exp(s[t] - max)) v[t]  (v_scale / sum_t exp(s[t] - max))            (P11, P8)
//
//   operand   shape                                     types                  contiguous
//   q, y      [T, q_heads, head_dim]                    F32, BF16, F16         head_dim
//   k, v      [pages, OCTET_PAGE, kv_heads, head_dim]   F32, BF16, F16, E4M3   head_dim
//
// Scores, maximum, sum and the result are FP32; probabilities are rounded to the type of q before
// they meet v (not for F32); y is rounded once.
//
// A query goes over its visible pages in ascending order: a maximum and a sum for each page (online
// softmax), starting anew every kSplitPages pages, counted from the sequence's page 0; the splits
// are joined in ascending order. So the result depends neither on how a prompt was cut into chunks
// nor on the threads, and a long context can still be shared out.
//
// The queries of a KV head (rows x heads of its group) form tiles that read K and V once.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "runtime/kernels/cpu/Dot.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

#if OCTET_SIMD_LEVEL == 0
constexpr int kTileQ = 2, kTileKeys = 2, kDirectQ = 1, kPvRows = 2, kPvVectors = 2;
#else
constexpr int kTileQ = 4, kTileKeys = 6, kDirectQ = 4, kPvRows = 4, kPvVectors = 4;
#endif
/// Queries of a task.
constexpr int64_t kTaskQueries = 64;
/// Pages of a split: 512 tokens.
constexpr int64_t kSplitPages = 8;
/// Queries up to which V is widened as it is read rather than once a page.
constexpr int64_t kDirectV = 8;
constexpr int64_t kPage = OCTET_PAGE;
/// Scores of a query: a page, and what a tile writes behind it.
constexpr int64_t kScoreStride = 80;
static_assert(kPage == 64, "a page is four vectors of scores");
static_assert(ceilDiv(kPage, kTileKeys) * kTileKeys <= kScoreStride, "tiles of keys fit");

struct Problem {
  const octet_attention_desc &desc;
  const octet_kv_layer &kv;
  const octet_batch &batch;
  const void *q;
  void *y;
  float scoreScale;
  float valueScale;
  int64_t group;  // query heads of a KV head
  int64_t padded; // head_dim in whole vectors
  ChunkMap map;
};

/// Queries [begin, end) of a KV head in a sequence; query i is head i % group of row i / group.
struct Task {
  const octet_sequence *sequence;
  int64_t head;
  int64_t begin;
  int64_t end;
  int64_t firstSplit; // visible to any of the queries
  int64_t splits;
};

/// The scratch of a task, [kTaskQueries] each.
struct State {
  VI *x;        // queries, packed
  VI *keys;     // a page, packed
  float *values; // a page widened, [kPage, padded]
  float *scores; // [kTaskQueries, kScoreStride], then probabilities
  float *part;   // of the split: kTaskQueries x (padded + 16): result, then maximum and sum
  float *whole;  // of the query, the same shape
};

OCTET_INLINE int64_t positionOf(const Problem &p, const Task &task, int64_t query) {
  return p.batch.positions[task.sequence->first_row + query / p.group];
}
OCTET_INLINE int64_t firstVisible(const Problem &p, int64_t position) {
  return p.desc.window > 0 ? maxOf<int64_t>(0, position - p.desc.window + 1) : 0;
}

int64_t queryTiles(const Problem &p, const octet_sequence &s) {
  return ceilDiv(s.num_rows * p.group, kTaskQueries);
}

Task findTask(const Problem &p, int64_t index) {
  for (int64_t s = 0;; ++s) {
    const octet_sequence &sequence = p.batch.sequences[s];
    const int64_t tiles = queryTiles(p, sequence);
    if (index >= tiles * p.desc.kv_heads) {
      index -= tiles * p.desc.kv_heads;
      continue;
    }
    // The last tile of a prompt sees most keys: it goes first.
    const int64_t tile = tiles - 1 - index / p.desc.kv_heads;
    Task task{&sequence, index % p.desc.kv_heads, tile * kTaskQueries,
              minOf((tile + 1) * kTaskQueries, sequence.num_rows * p.group), 0, 0};
    const int64_t split = kSplitPages * kPage;
    task.firstSplit = firstVisible(p, positionOf(p, task, task.begin)) / split;
    task.splits = positionOf(p, task, task.end - 1) / split + 1 - task.firstSplit;
    return task;
  }
}

//===----------------------------------------------------------------------===//
// Scores
//===----------------------------------------------------------------------===//

template <typename Family, typename T, int MR>
static void scoreDirect(const Problem &p, const State &state, const T *keys, int64_t count) {
  constexpr int NR = 4;
  const int64_t d = p.desc.head_dim, stride = p.desc.kv_heads * d, tail = d % kChunk;
  alignas(64) T tails[NR][kChunk];
  const TileScales<NR> scales{};
  for (int64_t j = 0; j < count; j += NR) {
    DirectRows<Family, T, NR> rows;
    rows.tailChunk = tail ? p.map.chunks - 1 : -1;
    rows.chunks = p.map.chunks;
    rows.ahead = p.map.chunks;
    rows.next = 2 * NR * stride;
    for (int r = 0; r < NR; ++r) {
      rows.row[r] = keys + minOf(j + r, count - 1) * stride;
      rows.tail[r] = tails[r];
      if (tail) {
        memset(tails[r], 0, sizeof tails[r]);
        memcpy(tails[r], rows.row[r] + (d - tail), static_cast<size_t>(tail) * sizeof(T));
      }
    }
    dotTileRow<Family, MR, NR, false>(state.x, rows, p.map, scales, state.scores + j, kScoreStride);
  }
}

template <typename Family, typename T>
static void score(const Problem &p, const State &state, int64_t queries, const T *keys,
                  int64_t count) {
  switch (queries) {
  case 1:
    return scoreDirect<Family, T, 1>(p, state, keys, count);
#if OCTET_SIMD_LEVEL > 0
  case 2:
    return scoreDirect<Family, T, 2>(p, state, keys, count);
  case 3:
    return scoreDirect<Family, T, 3>(p, state, keys, count);
  case 4:
    return scoreDirect<Family, T, 4>(p, state, keys, count);
#endif
  }
  const int64_t rowVectors = p.map.chunks * Family::kSteps;
  const TileScales<kTileKeys> scales{};
  packRows<Family, T>(keys, count, p.desc.kv_heads * p.desc.head_dim, kTileKeys, p.map, state.keys);
  for (int64_t j = 0; j < count; j += kTileKeys)
    for (int64_t i = 0; i < queries; i += kTileQ)
      dotTileRow<Family, kTileQ, kTileKeys, false>(
          state.x + i * rowVectors, PackedRows<Family, kTileKeys>{state.keys + j * rowVectors}, p.map,
          scales, state.scores + i * kScoreStride + j, kScoreStride);
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

OCTET_INLINE VF roundTo(int32_t type, VF v) {
  if (type == OCTET_F32)
    return v;
  if (type == OCTET_BF16) {
    const VH16 h = narrowBF16(v);
    return (VF)(__builtin_convertvector(h, VI) << 16);
  }
  const VH16 h = narrowF16(v);
  return widen(reinterpret_cast<const F16 *>(&h));
}

/// Turns the scores of keys [begin, end) of a page into rounded probabilities (0 for the others) and
/// brings result, maximum and sum to the new maximum.
static void softmaxPage(const Problem &p, float *scores, int64_t begin, int64_t end, float *result) {
  constexpr VI kLanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const VF infinity = splat(__builtin_inff());
  VF s[4];
  for (int i = 0; i < 4; ++i) {
    const VI t = kLanes + 16 * i;
    const VF scaled = load<VF>(scores + 16 * i) * p.scoreScale;
    const VI visible = (t >= static_cast<int32_t>(begin)) & (t < static_cast<int32_t>(end));
    s[i] = visible ? scaled : -infinity;
  }
  float *maximum = result + p.padded, *sum = maximum + 1;
  const float before = *maximum;
  const float inPage = maxOfLanes(maxLanes(maxLanes(s[0], s[1]), maxLanes(s[2], s[3])));
  const float now = maxOf(before, inPage);
  VF total = VF{};
  for (int i = 0; i < 4; ++i) {
    const VF probability = expNonPositive(s[i] - now);
    total += probability;
    store(scores + 16 * i, roundTo(p.desc.type, probability));
  }
  // Minus infinity before the first page: the factor is 0, as is what it scales.
  const float factor = now == before ? 1.0f : expNonPositive(splat(before - now))[0];
  *sum = *sum * factor + sumLanes(total);
  *maximum = now;
  if (now != before)
    for (int64_t d = 0; d < p.padded; d += 16)
      store(result + d, load<VF>(result + d) * factor);
}

//===----------------------------------------------------------------------===//
// Probabilities times values
//===----------------------------------------------------------------------===//

/// results[i] += sum over keys [begin, end), ascending, of probability[i] * value, for MR queries.
template <typename T, int MR>
static void addValues(const float *scores, const T *values, int64_t stride, int64_t begin, int64_t end,
                      int64_t padded, float *results, int64_t resultStride) {
  auto columns = [&]<int NV>(int64_t d) __attribute__((always_inline)) {
    VF acc[MR][NV];
    for (int i = 0; i < MR; ++i)
      for (int v = 0; v < NV; ++v)
        acc[i][v] = load<VF>(results + i * resultStride + d + 16 * v);
    const T *row = values + begin * stride + d;
    for (int64_t t = begin; t < end; ++t, row += stride) {
      VF value[NV];
      for (int v = 0; v < NV; ++v)
        value[v] = widen(row + 16 * v);
      for (int i = 0; i < MR; ++i) {
        const VF probability = splat(scores[i * kScoreStride + t]);
        for (int v = 0; v < NV; ++v)
          acc[i][v] = fma(probability, value[v], acc[i][v]);
      }
    }
    for (int i = 0; i < MR; ++i)
      for (int v = 0; v < NV; ++v)
        store(results + i * resultStride + d + 16 * v, acc[i][v]);
  };
  int64_t d = 0;
  for (; d + 16 * kPvVectors <= padded; d += 16 * kPvVectors)
    columns.template operator()<kPvVectors>(d);
  for (; d < padded; d += 16)
    columns.template operator()<1>(d);
}

template <typename T>
static void addValuesOf(int64_t rows, const float *scores, const T *values, int64_t stride,
                        int64_t begin, int64_t end, int64_t padded, float *results,
                        int64_t resultStride) {
  switch (rows) {
  case 1:
    return addValues<T, 1>(scores, values, stride, begin, end, padded, results, resultStride);
  case 2:
    return addValues<T, 2>(scores, values, stride, begin, end, padded, results, resultStride);
#if OCTET_SIMD_LEVEL > 0
  case 3:
    return addValues<T, 3>(scores, values, stride, begin, end, padded, results, resultStride);
  case 4:
    return addValues<T, 4>(scores, values, stride, begin, end, padded, results, resultStride);
#endif
  }
}

/// Rows [begin, end) of a page of V as F32, zeros behind head_dim.
template <typename T>
static void widenValues(const Problem &p, const T *values, int64_t begin, int64_t end, float *out) {
  const int64_t d = p.desc.head_dim, stride = p.desc.kv_heads * d;
  for (int64_t t = begin; t < end; ++t) {
    const T *row = values + t * stride;
    int64_t c = 0;
    for (; c + 16 <= d; c += 16)
      store(out + t * p.padded + c, widen(row + c));
    if (c < d) {
      T copy[16];
      memset(copy, 0, sizeof copy);
      memcpy(copy, row + c, static_cast<size_t>(d - c) * sizeof(T));
      store(out + t * p.padded + c, widen(copy));
    }
  }
}

//===----------------------------------------------------------------------===//
// Splits and tasks
//===----------------------------------------------------------------------===//

OCTET_INLINE int64_t resultStride(const Problem &p) { return p.padded + 16; }

/// One split of the queries of a task, into `part`.
template <typename Family, typename T>
static void runSplit(const Problem &p, const Task &task, int64_t split, const State &state,
                     float *part) {
  const int64_t queries = task.end - task.begin, ld = resultStride(p);
  const int64_t d = p.desc.head_dim, keyStride = p.desc.kv_heads * d;
  for (int64_t i = 0; i < queries; ++i) {
    float *result = part + i * ld;
    memset(result, 0, static_cast<size_t>(ld) * sizeof(float));
    result[p.padded] = -__builtin_inff();
  }

  const int64_t low = firstVisible(p, positionOf(p, task, task.begin));
  const int64_t high = positionOf(p, task, task.end - 1) + 1;
  const int64_t firstPage = maxOf(split * kSplitPages, low / kPage);
  const int64_t lastPage = minOf((split + 1) * kSplitPages, ceilDiv(high, kPage));
  const bool directV = queries <= kDirectV && d % 16 == 0;
  for (int64_t page = firstPage; page < lastPage; ++page) {
    const int64_t start = page * kPage;
    const int64_t count = minOf(kPage, high - start);
    const int64_t offset =
        static_cast<int64_t>(task.sequence->pages[page]) * kPage * keyStride + task.head * d;
    const T *keys = static_cast<const T *>(p.kv.k) + offset;
    const T *values = static_cast<const T *>(p.kv.v) + offset;

    score<Family, T>(p, state, queries, keys, count);
    if (!directV)
      widenValues(p, values, maxOf<int64_t>(0, low - start), count, state.values);

    // Queries that see the same keys of the page share a pass over V.
    int64_t begin[kTaskQueries], end[kTaskQueries];
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t position = positionOf(p, task, task.begin + i);
      begin[i] = maxOf<int64_t>(0, firstVisible(p, position) - start);
      end[i] = minOf(kPage, position + 1 - start);
      if (begin[i] < end[i])
        softmaxPage(p, state.scores + i * kScoreStride, begin[i], end[i], part + i * ld);
    }
    for (int64_t i = 0, run; i < queries; i += run) {
      run = 1;
      while (run < kPvRows && i + run < queries && begin[i + run] == begin[i] &&
             end[i + run] == end[i])
        ++run;
      if (begin[i] >= end[i])
        continue;
      const float *scores = state.scores + i * kScoreStride;
      if (directV)
        addValuesOf(run, scores, values, keyStride, begin[i], end[i], p.padded, part + i * ld, ld);
      else
        addValuesOf(run, scores, reinterpret_cast<const F32 *>(state.values), p.padded, begin[i],
                    end[i], p.padded, part + i * ld, ld);
    }
  }
}

/// Joins a split to what came before it: `whole` and `part` at their common maximum.
static void joinSplit(const Problem &p, int64_t queries, float *whole, const float *part) {
  const int64_t ld = resultStride(p);
  for (int64_t i = 0; i < queries; ++i) {
    float *a = whole + i * ld;
    const float *b = part + i * ld;
    // A split in which the query sees nothing has no sum. So has a query before its first split.
    if (b[p.padded + 1] == 0)
      continue;
    if (a[p.padded + 1] == 0) {
      memcpy(a, b, static_cast<size_t>(ld) * sizeof(float));
      continue;
    }
    const float maximum = maxOf(a[p.padded], b[p.padded]);
    const float fa = expNonPositive(splat(a[p.padded] - maximum))[0];
    const float fb = expNonPositive(splat(b[p.padded] - maximum))[0];
    for (int64_t d = 0; d < p.padded; d += 16)
      store(a + d, fma(load<VF>(b + d), splat(fb), load<VF>(a + d) * fa));
    a[p.padded + 1] = a[p.padded + 1] * fa + b[p.padded + 1] * fb;
    a[p.padded] = maximum;
  }
}

static void writeResult(const Problem &p, const Task &task, const float *whole) {
  const int64_t ld = resultStride(p), d = p.desc.head_dim;
  for (int64_t q = task.begin; q < task.end; ++q) {
    const float *result = whole + (q - task.begin) * ld;
    const float factor = p.valueScale / result[p.padded + 1];
    const int64_t row = task.sequence->first_row + q / p.group;
    const int64_t head = task.head * p.group + q % p.group;
    for (int64_t c = 0; c < d; c += 16)
      narrowTo(p.y, (row * p.desc.q_heads + head) * d + c, p.desc.type, load<VF>(result + c) * factor,
               minOf<int64_t>(16, d - c));
  }
}

/// The queries of a task, packed in tiles as `score` wants them.
template <typename Family, typename T, typename Q>
static void packQueries(const Problem &p, const Task &task, VI *out) {
  const int64_t queries = task.end - task.begin, d = p.desc.head_dim;
  const int64_t tile = queries <= kDirectQ ? queries : kTileQ;
  const Q *q = static_cast<const Q *>(p.q);
  for (int64_t t = 0; t < queries; t += tile) {
    for (int64_t c = 0; c < p.map.chunks; ++c) {
      for (int64_t r = 0; r < tile; ++r, out += Family::kSteps) {
        const int64_t query = task.begin + t + r;
        if (query >= task.end) {
          for (int s = 0; s < Family::kSteps; ++s)
            out[s] = VI{};
          continue;
        }
        const int64_t row = task.sequence->first_row + query / p.group;
        const int64_t head = task.head * p.group + query % p.group;
        expandChunk<Family, T>(q + (row * p.desc.q_heads + head) * d + p.map.begin(c),
                               p.map.length(c), out);
      }
    }
  }
}

template <typename Family>
static State makeState(const Problem &p, Scratch &scratch) {
  const int64_t rowVectors = p.map.chunks * Family::kSteps;
  const int64_t vectors = (kTaskQueries + ceilDiv(kPage, kTileKeys) * kTileKeys) * rowVectors;
  const int64_t floats = kPage * p.padded + kTaskQueries * (kScoreStride + 2 * resultStride(p));
  char *memory = static_cast<char *>(
      scratch.get(static_cast<size_t>(vectors) * sizeof(VI) + static_cast<size_t>(floats) * 4));
  State state;
  state.x = reinterpret_cast<VI *>(memory);
  state.keys = state.x + kTaskQueries * rowVectors;
  state.values = reinterpret_cast<float *>(state.x + vectors);
  state.scores = state.values + kPage * p.padded;
  state.part = state.scores + kTaskQueries * kScoreStride;
  state.whole = state.part + kTaskQueries * resultStride(p);
  return state;
}

template <typename Family, typename T, typename Q>
static void run(ThreadPool &pool, const Problem &p) {
  int64_t tasks = 0, longest = 0;
  for (int64_t s = 0; s < p.batch.num_sequences; ++s) {
    const octet_sequence &sequence = p.batch.sequences[s];
    tasks += queryTiles(p, sequence) * p.desc.kv_heads;
  }
  for (int64_t t = 0; t < tasks; ++t)
    longest = maxOf(longest, findTask(p, t).splits);

  if (tasks >= 4 * int64_t(pool.size()) || longest <= 1 || pool.size() == 1) {
    auto whole = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Task task = findTask(p, t);
        const int64_t queries = task.end - task.begin;
        const State state = makeState<Family>(p, ThreadPool::threadScratch());
        packQueries<Family, T, Q>(p, task, state.x);
        memset(state.whole, 0, static_cast<size_t>(queries * resultStride(p)) * 4);
        for (int64_t s = 0; s < task.splits; ++s) {
          runSplit<Family, T>(p, task, task.firstSplit + s, state, state.part);
          joinSplit(p, queries, state.whole, state.part);
        }
        writeResult(p, task, state.whole);
      }
    };
    pool.parallelChunks(tasks, 1, whole);
    return;
  }

  // Few tasks with long contexts: their splits are tasks of their own.
  const int64_t partFloats = kTaskQueries * resultStride(p);
  float *parts = static_cast<float *>(ThreadPool::callerScratch().get(
      static_cast<size_t>(tasks * longest * partFloats) * sizeof(float)));
  auto splits = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Task task = findTask(p, t / longest);
      if (t % longest >= task.splits)
        continue;
      const State state = makeState<Family>(p, ThreadPool::threadScratch());
      packQueries<Family, T, Q>(p, task, state.x);
      runSplit<Family, T>(p, task, task.firstSplit + t % longest, state, parts + t * partFloats);
    }
  };
  pool.parallelChunks(tasks * longest, 1, splits);
  auto join = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const Task task = findTask(p, t);
      float *first = parts + t * longest * partFloats;
      for (int64_t s = 1; s < task.splits; ++s)
        joinSplit(p, task.end - task.begin, first, first + s * partFloats);
      writeResult(p, task, first);
    }
  };
  pool.parallelFor(tasks, 1, join);
}

template <typename T>
static void runFma(ThreadPool &pool, const Problem &p) {
  switch (p.desc.type) {
  case OCTET_F32:
    return run<FmaFamily, T, F32>(pool, p);
  case OCTET_BF16:
    return run<FmaFamily, T, BF16>(pool, p);
  case OCTET_F16:
    return run<FmaFamily, T, F16>(pool, p);
  }
}

} // namespace

void attention(ThreadPool &pool, const octet_attention_desc &desc, const octet_kv_layer &kv,
               const octet_batch &batch, const void *q, const float *kScale, const float *vScale,
               void *y) {
  const bool scaled = desc.kv_type == OCTET_E4M3; // P8
  const Problem problem{desc,
                        kv,
                        batch,
                        q,
                        y,
                        scaled ? desc.scale * *kScale : desc.scale,
                        scaled ? *vScale : 1.0f,
                        desc.q_heads / desc.kv_heads,
                        ceilDiv(desc.head_dim, 16) * 16,
                        ChunkMap(desc.head_dim, desc.head_dim)};
#if OCTET_SIMD_LEVEL == 2
  if (desc.type == OCTET_BF16 && desc.kv_type == OCTET_BF16)
    return run<DotFamily, BF16, BF16>(pool, problem);
  if (desc.type == OCTET_BF16 && desc.kv_type == OCTET_E4M3)
    return run<DotFamily, E4M3, BF16>(pool, problem);
#endif
  switch (desc.kv_type) {
  case OCTET_F32:
    return runFma<F32>(pool, problem);
  case OCTET_BF16:
    return runFma<BF16>(pool, problem);
  case OCTET_F16:
    return runFma<F16>(pool, problem);
  case OCTET_E4M3:
    return runFma<E4M3>(pool, problem);
  }
}

} // namespace octet::rt::OCTET_LEVEL_NAMESPACE
