//===- Attention.cpp - softmax(q k^T scale) v over a paged cache *- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   s[t] = (q . k[t]) (scale k_scale)    for visible t: t <= pos, t > pos - window       (P8)
//   y    = sum_t round(exp(s[t] - max)) v[t]  (v_scale / sum_t exp(s[t] - max))          (P11)
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
// The queries of a KV head (rows x heads of its group) form tiles that read K and V once. Where
// they are few, a task takes several heads, page by page: the rows of a page's heads lie side by
// side.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "runtime/kernels/cpu/Dot.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

/// Queries of a tile. Scores have four vectors of keys each, results four of columns.
#if OCTET_SIMD_LEVEL == 0
constexpr int kTileQ = 1;
#else
constexpr int kTileQ = 4;
#endif
/// Queries of a task.
constexpr int64_t kTaskQueries = 64;
/// Pages of a split: 512 tokens.
constexpr int64_t kSplitPages = 8;
constexpr int64_t kPage = OCTET_PAGE;
constexpr int kVectors = 4;
static_assert(kPage == 16 * kVectors, "the scores of a page are four vectors");

struct Problem {
  const octet_attention_desc &desc;
  const octet_kv_layer &kv;
  const octet_batch &batch;
  const void *q;
  void *y;
  float scoreScale;
  float valueScale;
  int64_t threads;
  int64_t group;  // query heads of a KV head
  int64_t padded; // head_dim in whole vectors
  ChunkMap map;   // of head_dim
};

/// Queries [begin, end) of some KV heads in a sequence; query i is head i % group of row i / group.
/// Of several heads, they are at most kTaskQueries in all.
struct Task {
  const octet_sequence *sequence;
  int64_t head; // first
  int64_t heads;
  int64_t begin;
  int64_t end;
  int64_t firstSplit; // visible to any of the queries
  int64_t splits;
};

/// The scratch of a task.
struct State {
  VI *x;         // queries, [kTaskQueries][words / 16]
  VI *keys;      // a page, [words][kVectors]: word w of 16 keys in each vector
  VI *values;    // a page, [key steps][padded / 16]
  float *scores; // [kTaskQueries][kPage], then probabilities
  float *part;   // of a split: [kTaskQueries][padded + 16], result, then maximum and sum
  float *whole;  // of the queries, the same shape
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
/// KV heads of a task: a share for each thread.
int64_t headsOfTask(const Problem &p, const octet_sequence &s) {
  return maxOf<int64_t>(
      1, minOf(kTaskQueries / (s.num_rows * p.group), ceilDiv(p.desc.kv_heads, p.threads)));
}
int64_t countTasks(const Problem &p, const octet_sequence &s) {
  return queryTiles(p, s) * ceilDiv(p.desc.kv_heads, headsOfTask(p, s));
}

Task findTask(const Problem &p, int64_t index) {
  for (int64_t s = 0;; ++s) {
    const octet_sequence &sequence = p.batch.sequences[s];
    const int64_t tasks = countTasks(p, sequence);
    if (index >= tasks) {
      index -= tasks;
      continue;
    }
    const int64_t heads = headsOfTask(p, sequence);
    const int64_t groups = ceilDiv(p.desc.kv_heads, heads);
    // The last tile of a prompt sees most keys: it goes first.
    const int64_t tile = queryTiles(p, sequence) - 1 - index / groups;
    const int64_t head = index % groups * heads;
    Task task{&sequence,
              head,
              minOf(heads, p.desc.kv_heads - head),
              tile * kTaskQueries,
              minOf((tile + 1) * kTaskQueries, sequence.num_rows * p.group),
              0,
              0};
    const int64_t split = kSplitPages * kPage;
    task.firstSplit = firstVisible(p, positionOf(p, task, task.begin)) / split;
    task.splits = positionOf(p, task, task.end - 1) / split + 1 - task.firstSplit;
    return task;
  }
}

//===----------------------------------------------------------------------===//
// Scores: lanes are keys
//===----------------------------------------------------------------------===//

/// Words (an F32, or a pair of BF16) of a packed row that are not all padding.
template <typename Family, typename T>
OCTET_INLINE int64_t usedWords(const Problem &p) {
  if constexpr (Family::kSteps == 4)
    return p.desc.head_dim;
  else if constexpr (Family::template kNatural<T>)
    return ceilDiv(p.desc.head_dim, 2);
  else
    return p.map.chunks * Family::kSteps * 16;
}

/// Fetches a row of a page that is needed after this one's, into the second-level cache.
template <typename T>
OCTET_INLINE void fetchRow(const T *p, int64_t count) {
  for (int64_t byte = 0; byte < count * static_cast<int64_t>(sizeof(T)); byte += 64)
    _mm_prefetch(reinterpret_cast<const char *>(p) + byte, _MM_HINT_T1);
}

/// The first `count` keys of a page; the others are zero. `next` is the next page's, or null.
template <typename Family, typename T>
static void packKeys(const Problem &p, const T *keys, int64_t count, const T *next, VI *out) {
  constexpr int S = Family::kSteps;
  const int64_t stride = p.desc.kv_heads * p.desc.head_dim;
  const int64_t words = usedWords<Family, T>(p);
  for (int g = 0; g < kVectors; ++g) {
    const int64_t rows = maxOf<int64_t>(0, minOf<int64_t>(16, count - 16 * g));
    if (next)
      for (int64_t r = 16 * g; r < 16 * g + 16; ++r)
        fetchRow(next + r * stride, p.desc.head_dim);
    for (int64_t c = 0; c < p.map.chunks; ++c) {
      VI rowVectors[16][S];
      for (int64_t r = 0; r < 16; ++r) {
        if (r < rows)
          expandChunk<Family, T>(keys + (16 * g + r) * stride + p.map.begin(c), p.map.length(c),
                                 rowVectors[r]);
        else
          for (int s = 0; s < S; ++s)
            rowVectors[r][s] = VI{};
      }
      for (int s = 0; s < S; ++s) {
        const int64_t first = (c * S + s) * 16;
        if (first >= words)
          break;
        VI v[16];
        for (int r = 0; r < 16; ++r)
          v[r] = rowVectors[r][s];
        transposeWords(v);
        const int64_t used = minOf<int64_t>(16, words - first);
        for (int64_t w = 0; w < used; ++w)
          out[(first + w) * kVectors + g] = v[w];
      }
    }
  }
}

/// scores[i][t] = x[i] . key[t] for MR queries and the keys of a page: one accumulator each, words
/// ascending.
template <typename Family, int MR>
static void scoreTile(const VI *x, int64_t rowVectors, const VI *keys, int64_t words,
                      float *scores) {
  VF acc[MR][kVectors];
  for (int i = 0; i < MR; ++i)
    for (int v = 0; v < kVectors; ++v)
      acc[i][v] = VF{};
  const char *query = reinterpret_cast<const char *>(x);
  for (int64_t w = 0; w < words; ++w) {
    VI k[kVectors];
    for (int v = 0; v < kVectors; ++v)
      k[v] = keys[w * kVectors + v];
    for (int i = 0; i < MR; ++i) {
      const VI word = splatInt(load<int32_t>(query + i * rowVectors * 64 + w * 4));
      for (int v = 0; v < kVectors; ++v)
        acc[i][v] = Family::multiplyAdd(acc[i][v], word, k[v]);
    }
  }
  for (int i = 0; i < MR; ++i)
    for (int v = 0; v < kVectors; ++v)
      store(scores + i * kPage + 16 * v, acc[i][v]);
}

/// Scores of `queries` queries from `first` on.
template <typename Family, typename T>
static void score(const Problem &p, const State &state, int64_t first, int64_t queries) {
  const int64_t rowVectors = p.map.chunks * Family::kSteps;
  const int64_t words = usedWords<Family, T>(p);
  const VI *x = state.x + first * rowVectors;
  int64_t i = 0;
#if OCTET_SIMD_LEVEL > 0
  for (; i + kTileQ <= queries; i += kTileQ)
    scoreTile<Family, kTileQ>(x + i * rowVectors, rowVectors, state.keys, words,
                              state.scores + i * kPage);
  if (i + 2 <= queries) {
    scoreTile<Family, 2>(x + i * rowVectors, rowVectors, state.keys, words,
                         state.scores + i * kPage);
    i += 2;
  }
#endif
  for (; i < queries; ++i)
    scoreTile<Family, 1>(x + i * rowVectors, rowVectors, state.keys, words,
                         state.scores + i * kPage);
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

/// Turns the scores of keys [begin, end) of a page into rounded probabilities (0 for the others;
/// BF16 if kPairs, in the first half of their place) and brings result, maximum and sum to the new
/// maximum.
template <bool kPairs>
static void softmaxPage(const Problem &p, float *scores, int64_t begin, int64_t end,
                        float *result) {
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
    if constexpr (kPairs)
      store(scores + 8 * i, narrowBF16(probability));
    else
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
// Probabilities times values: lanes are columns
//===----------------------------------------------------------------------===//

/// Keys [begin, end) of a page of V, as the family multiplies them: F32 rows, or the words (key 2
/// i, key 2 i + 1) of each column. Zeros behind head_dim; of a pair that is cut, the other key is
/// zero. `next` is the next page's, or null.
template <typename Family, typename T>
static void packValues(const Problem &p, const T *values, int64_t begin, int64_t end, const T *next,
                       VI *out) {
  constexpr int S = Family::kSteps;
  const int64_t stride = p.desc.kv_heads * p.desc.head_dim, vectors = p.padded / 16;
  for (int64_t c = 0; c < p.map.chunks; ++c) {
    const int64_t first = p.map.begin(c), length = p.map.length(c);
    const T *ahead = next ? next + first : nullptr;
    const int64_t used = ceilDiv(length, 16);
    if constexpr (S == 4) {
      for (int64_t t = begin; t < end; ++t) {
        if (ahead)
          fetchRow(ahead + t * stride, length);
        VI v[S];
        expandChunk<Family, F32>(values + t * stride + first, length, v);
        for (int64_t i = 0; i < used; ++i)
          out[t * vectors + c * 4 + i] = v[i];
      }
    } else {
#if OCTET_SIMD_LEVEL == 2
      for (int64_t pair = begin / 2; pair < ceilDiv(end, 2); ++pair) {
        VI a[S] = {}, b[S] = {}, v[4];
        if (ahead) {
          fetchRow(ahead + 2 * pair * stride, length);
          fetchRow(ahead + (2 * pair + 1) * stride, length);
        }
        if (2 * pair >= begin)
          expandChunk<Family, BF16>(values + 2 * pair * stride + first, length, a);
        if (2 * pair + 1 < end)
          expandChunk<Family, BF16>(values + (2 * pair + 1) * stride + first, length, b);
        interleaveHalves(a[0], b[0], v[0], v[1]);
        interleaveHalves(a[1], b[1], v[2], v[3]);
        for (int64_t i = 0; i < used; ++i)
          out[pair * vectors + c * 4 + i] = v[i];
      }
#endif
    }
  }
}

/// results[i] += sum over keys [begin, end), ascending, of probability[i] * value, for MR queries
/// that see the same keys of the page.
template <typename Family, int MR>
static void addValues(const float *scores, const VI *values, int64_t vectors, int64_t begin,
                      int64_t end, float *results, int64_t resultStride) {
  constexpr bool kPairs = Family::kSteps == 2;
  const char *probabilities = reinterpret_cast<const char *>(scores);
  const int64_t first = kPairs ? begin / 2 : begin, last = kPairs ? ceilDiv(end, 2) : end;
  auto columns = [&]<int NV>(int64_t column) __attribute__((always_inline)) {
    VF acc[MR][NV];
    for (int i = 0; i < MR; ++i)
      for (int v = 0; v < NV; ++v)
        acc[i][v] = load<VF>(results + i * resultStride + 16 * (column + v));
    auto step = [&](int64_t t, int32_t mask) __attribute__((always_inline)) {
      VI value[NV];
      for (int v = 0; v < NV; ++v)
        value[v] = values[t * vectors + column + v];
      if (mask != -1)
        for (int v = 0; v < NV; ++v)
          value[v] &= mask;
      for (int i = 0; i < MR; ++i) {
        const VI word = splatInt(load<int32_t>(probabilities + i * kPage * 4 + t * 4));
        for (int v = 0; v < NV; ++v)
          acc[i][v] = Family::multiplyAdd(acc[i][v], word, value[v]);
      }
    };
    // A key that these queries do not see may hold anything: 0 times infinity is not 0.
    int64_t t = first, whole = last;
    if (kPairs && begin % 2)
      step(t++, static_cast<int32_t>(0xFFFF0000u));
    if (kPairs && end % 2)
      --whole;
    for (; t < whole; ++t)
      step(t, -1);
    if (kPairs && end % 2 && t < last)
      step(t, 0xFFFF);
    for (int i = 0; i < MR; ++i)
      for (int v = 0; v < NV; ++v)
        store(results + i * resultStride + 16 * (column + v), acc[i][v]);
  };
  int64_t column = 0;
  for (; column + kVectors <= vectors; column += kVectors)
    columns.template operator()<kVectors>(column);
  for (; column < vectors; ++column)
    columns.template operator()<1>(column);
}

template <typename Family>
static void addValuesTo(int64_t rows, const float *scores, const VI *values, int64_t vectors,
                        int64_t begin, int64_t end, float *results, int64_t resultStride) {
  switch (rows) {
  case 1:
    return addValues<Family, 1>(scores, values, vectors, begin, end, results, resultStride);
#if OCTET_SIMD_LEVEL > 0
  case 2:
    return addValues<Family, 2>(scores, values, vectors, begin, end, results, resultStride);
  case 3:
    return addValues<Family, 3>(scores, values, vectors, begin, end, results, resultStride);
  case 4:
    return addValues<Family, 4>(scores, values, vectors, begin, end, results, resultStride);
#endif
  }
}

//===----------------------------------------------------------------------===//
// Splits and tasks
//===----------------------------------------------------------------------===//

OCTET_INLINE int64_t resultStride(const Problem &p) { return p.padded + 16; }

/// One split of the queries of a task, into `part`: head after head.
template <typename Family, typename T>
static void runSplit(const Problem &p, const Task &task, int64_t split, const State &state,
                     float *part) {
  const int64_t queries = task.end - task.begin, ld = resultStride(p);
  const int64_t d = p.desc.head_dim, keyStride = p.desc.kv_heads * d;
  for (int64_t i = 0; i < task.heads * queries; ++i) {
    float *result = part + i * ld;
    memset(result, 0, static_cast<size_t>(ld) * sizeof(float));
    result[p.padded] = -__builtin_inff();
  }

  const int64_t low = firstVisible(p, positionOf(p, task, task.begin));
  const int64_t high = positionOf(p, task, task.end - 1) + 1;
  const int64_t firstPage = maxOf(split * kSplitPages, low / kPage);
  const int64_t lastPage = minOf((split + 1) * kSplitPages, ceilDiv(high, kPage));
  auto at = [&](const void *base, int64_t page, int64_t head) -> const T * {
    if (page >= lastPage)
      return nullptr;
    const int64_t row = static_cast<int64_t>(task.sequence->pages[page]) * kPage;
    return static_cast<const T *>(base) + row * keyStride + head * d;
  };
  for (int64_t page = firstPage; page < lastPage; ++page) {
    const int64_t start = page * kPage;
    const int64_t count = minOf(kPage, high - start);
    int64_t begin[kTaskQueries], end[kTaskQueries];
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t position = positionOf(p, task, task.begin + i);
      begin[i] = maxOf<int64_t>(0, firstVisible(p, position) - start);
      end[i] = minOf(kPage, position + 1 - start);
    }
    for (int64_t h = 0; h < task.heads; ++h) {
      const int64_t head = task.head + h;
      float *results = part + h * queries * ld;
      packKeys<Family, T>(p, at(p.kv.k, page, head), count, at(p.kv.k, page + 1, head), state.keys);
      score<Family, T>(p, state, h * queries, queries);
      packValues<Family, T>(p, at(p.kv.v, page, head), maxOf<int64_t>(0, low - start), count,
                            at(p.kv.v, page + 1, head), state.values);
      for (int64_t i = 0; i < queries; ++i)
        if (begin[i] < end[i])
          softmaxPage<Family::kSteps == 2>(p, state.scores + i * kPage, begin[i], end[i],
                                           results + i * ld);
      // Queries that see the same keys of the page share a pass over V.
      for (int64_t i = 0, run; i < queries; i += run) {
        run = 1;
        while (run < kTileQ && i + run < queries && begin[i + run] == begin[i] &&
               end[i + run] == end[i])
          ++run;
        if (begin[i] < end[i])
          addValuesTo<Family>(run, state.scores + i * kPage, state.values, p.padded / 16, begin[i],
                              end[i], results + i * ld, ld);
      }
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
  const float *result = whole;
  for (int64_t kvHead = task.head; kvHead < task.head + task.heads; ++kvHead)
    for (int64_t q = task.begin; q < task.end; ++q, result += ld) {
      const float factor = p.valueScale / result[p.padded + 1];
      const int64_t row = task.sequence->first_row + q / p.group;
      const int64_t head = kvHead * p.group + q % p.group;
      for (int64_t c = 0; c < d; c += 16)
        narrowTo(p.y, (row * p.desc.q_heads + head) * d + c, p.desc.type,
                 load<VF>(result + c) * factor, minOf<int64_t>(16, d - c));
    }
}

/// The queries of a task, in the order of the keys.
template <typename Family, typename T, typename Q>
static void packQueries(const Problem &p, const Task &task, VI *out) {
  const int64_t d = p.desc.head_dim;
  const Q *q = static_cast<const Q *>(p.q);
  for (int64_t kvHead = task.head; kvHead < task.head + task.heads; ++kvHead)
    for (int64_t query = task.begin; query < task.end; ++query) {
      const int64_t row = task.sequence->first_row + query / p.group;
      const int64_t head = kvHead * p.group + query % p.group;
      for (int64_t c = 0; c < p.map.chunks; ++c, out += Family::kSteps)
        expandChunk<Family, T>(q + (row * p.desc.q_heads + head) * d + p.map.begin(c),
                               p.map.length(c), out);
    }
}

template <typename Family>
static State makeState(const Problem &p, Scratch &scratch) {
  const int64_t rowVectors = p.map.chunks * Family::kSteps;
  const int64_t x = kTaskQueries * rowVectors, keys = rowVectors * 16 * kVectors;
  const int64_t values = kPage * (p.padded / 16);
  const int64_t floats = kTaskQueries * (kPage + 2 * resultStride(p));
  VI *memory = static_cast<VI *>(scratch.get(static_cast<size_t>(x + keys + values) * sizeof(VI) +
                                             static_cast<size_t>(floats) * sizeof(float)));
  State state;
  state.x = memory;
  state.keys = state.x + x;
  state.values = state.keys + keys;
  state.scores = reinterpret_cast<float *>(state.values + values);
  state.part = state.scores + kTaskQueries * kPage;
  state.whole = state.part + kTaskQueries * resultStride(p);
  return state;
}

template <typename Family, typename T, typename Q>
static void run(ThreadPool &pool, const Problem &p) {
  int64_t tasks = 0, longest = 0;
  for (int64_t s = 0; s < p.batch.num_sequences; ++s) {
    const octet_sequence &sequence = p.batch.sequences[s];
    tasks += countTasks(p, sequence);
  }
  for (int64_t t = 0; t < tasks; ++t)
    longest = maxOf(longest, findTask(p, t).splits);

  if (tasks >= 4 * int64_t(pool.size()) || longest <= 1 || pool.size() == 1) {
    auto whole = [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const Task task = findTask(p, t);
        const int64_t queries = task.heads * (task.end - task.begin);
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
        joinSplit(p, task.heads * (task.end - task.begin), first, first + s * partFloats);
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
                        int64_t(pool.size()),
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
