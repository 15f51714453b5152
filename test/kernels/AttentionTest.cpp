//===- AttentionTest.cpp - Paged attention against double
//---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tolerance. With u = 2^-24: a score is off by at most
//   ds = 2 (D / 16 + 8) u sum |q k| scale + 4 u |s|,
// the maximum's by as much, so a probability by a factor of 1 + 2 ds + 8 u
// (exponential 1 ulp, differences of scores up to |s|); its rounding to BF16 or
// F16 adds 2^-8 or 2^-11 of it (for F16 also 2^-25 below the normal range); the
// sums over n keys n u. All of it weighs p |v| / sum p. Then y is rounded.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

#include <algorithm>

using namespace octet;
using namespace octet::test;

namespace {

constexpr int kSeed = 77;

struct Shape {
  int64_t qHeads, kvHeads, dim, window;
  int32_t type, kvType;
};

std::ostream &operator<<(std::ostream &os, const Shape &s) {
  return os << s.qHeads << '/' << s.kvHeads << " heads of " << s.dim
            << " window " << s.window << ' ' << nameOf(s.type) << " cache "
            << nameOf(s.kvType);
}

/// Sequences of given lengths whose whole cache is filled, pages in a random
/// order; what no token wrote is NaN.
struct Cache {
  Shape shape;
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> pages;
  std::vector<Tensor> q; // of each sequence, [length, qHeads * dim]
  Tensor k, v;
  float kScale = 1, vScale = 1;
  float scale;

  Cache(const Shape &s, std::vector<int64_t> lengths, std::mt19937 &random)
      : shape(s), lengths(std::move(lengths)),
        scale(1 / std::sqrt(static_cast<float>(s.dim))) {
    int32_t count = 0;
    for (int64_t n : this->lengths)
      count += static_cast<int32_t>(ceilDiv(n, OCTET_PAGE));
    std::vector<int32_t> order(count);
    for (int32_t i = 0; i < count; ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), random);
    const int64_t width = s.kvHeads * s.dim;
    k = Tensor(s.kvType, count * OCTET_PAGE * width);
    v = Tensor(s.kvType, count * OCTET_PAGE * width);
    for (int64_t i = 0; i < k.count; ++i) {
      k.set(i, std::nanf(""));
      v.set(i, std::nanf(""));
    }
    if (s.kvType == OCTET_E4M3) {
      kScale = 0.75f;
      vScale = 1.5f;
    }
    std::normal_distribution<float> normal(0, 1.2f);
    size_t next = 0;
    for (int64_t n : this->lengths) {
      pages.emplace_back();
      for (int64_t p = 0; p < ceilDiv(n, OCTET_PAGE); ++p)
        pages.back().push_back(order[next++]);
      for (int64_t t = 0; t < n; ++t)
        for (int64_t c = 0; c < width; ++c) {
          k.set(slot(pages.size() - 1, t) * width + c, normal(random) / kScale);
          v.set(slot(pages.size() - 1, t) * width + c, normal(random) / vScale);
        }
      q.emplace_back(s.type, n * s.qHeads * s.dim).randomize(random, 1.5f);
    }
  }

  int64_t slot(size_t sequence, int64_t t) const {
    return int64_t(pages[sequence][t / OCTET_PAGE]) * OCTET_PAGE +
           t % OCTET_PAGE;
  }

  /// Rows [begin, end) of each sequence as one step.
  std::vector<Tensor>
  run(rt::ThreadPool &pool, const rt::KernelTable &kernels,
      const std::vector<std::pair<int64_t, int64_t>> &ranges) const {
    const int64_t width = shape.qHeads * shape.dim;
    std::vector<octet_sequence> sequences;
    std::vector<int32_t> positions;
    for (size_t s = 0; s < ranges.size(); ++s) {
      const auto [begin, end] = ranges[s];
      if (begin == end)
        continue;
      sequences.push_back({static_cast<int64_t>(positions.size()), end - begin,
                           end, pages[s].data()});
      for (int64_t t = begin; t < end; ++t)
        positions.push_back(static_cast<int32_t>(t));
    }
    const auto rows = static_cast<int64_t>(positions.size());
    Tensor in(shape.type, rows * width), out(shape.type, rows * width);
    int64_t row = 0;
    for (size_t s = 0; s < ranges.size(); ++s)
      for (int64_t t = ranges[s].first; t < ranges[s].second; ++t, ++row)
        for (int64_t c = 0; c < width; ++c)
          in.setBits(row * width + c, q[s].bits(t * width + c));
    octet_batch batch{};
    batch.num_rows = rows;
    batch.positions = positions.data();
    batch.num_sequences = static_cast<int64_t>(sequences.size());
    batch.sequences = sequences.data();
    octet_kv_layer layer{const_cast<void *>(k.data()),
                         const_cast<void *>(v.data())};
    octet_attention_desc desc{"test",       shape.qHeads, shape.kvHeads,
                              shape.dim,    shape.window, shape.type,
                              shape.kvType, scale,        0};
    kernels.attention(pool, desc, layer, batch, in.data(), &kScale, &vScale,
                      out.data());
    std::vector<Tensor> results;
    row = 0;
    for (const auto &[begin, end] : ranges) {
      results.emplace_back(shape.type, (end - begin) * width);
      for (int64_t i = 0; i < (end - begin) * width; ++i)
        results.back().setBits(i, out.bits(row * width + i));
      row += end - begin;
    }
    return results;
  }

  std::vector<std::pair<int64_t, int64_t>> whole() const {
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (int64_t n : lengths)
      ranges.emplace_back(0, n);
    return ranges;
  }

  void check(size_t s, const Tensor &y) const {
    const int64_t d = shape.dim, group = shape.qHeads / shape.kvHeads;
    const int64_t width = shape.kvHeads * d;
    const double u = 0x1p-24;
    const double round = shape.type == OCTET_BF16  ? 0x1p-8
                         : shape.type == OCTET_F16 ? 0x1p-11
                                                   : 0;
    for (int64_t t = 0; t < lengths[s]; ++t) {
      // Around the edges of pages, and every 23rd.
      if (t % OCTET_PAGE > 1 && t % OCTET_PAGE < 62 && t % 23 != 0 &&
          t + 1 < lengths[s])
        continue;
      const int64_t low =
          shape.window ? std::max<int64_t>(0, t - shape.window + 1) : 0;
      for (int64_t h = 0; h < shape.qHeads; ++h) {
        std::vector<double> scores;
        double ds = 0, largest = -1e300;
        for (int64_t key = low; key <= t; ++key) {
          double sum = 0, magnitude = 0;
          for (int64_t c = 0; c < d; ++c) {
            const double term =
                double(q[s].value((t * shape.qHeads + h) * d + c)) *
                k.value(slot(s, key) * width + h / group * d + c) * kScale;
            sum += term;
            magnitude += std::fabs(term);
          }
          scores.push_back(sum * scale);
          largest = std::max(largest, scores.back());
          ds = std::max(ds, 2 * (d / 16.0 + 8) * u * magnitude * scale +
                                4 * u * std::fabs(scores.back()));
        }
        double total = 0;
        for (double &x : scores)
          total += x = std::exp(x - largest);
        const double relative = round + 4 * ds + (2.0 * scores.size() + 16) * u;
        for (int64_t c = 0; c < d; ++c) {
          double sum = 0, magnitude = 0, absolute = 0;
          for (int64_t key = low; key <= t; ++key) {
            const double value =
                v.value(slot(s, key) * width + h / group * d + c) * vScale;
            sum += scores[key - low] / total * value;
            magnitude += scores[key - low] / total * std::fabs(value);
            if (shape.type == OCTET_F16)
              absolute += 0x1p-25 / total * std::fabs(value);
          }
          const double bound =
              relative * magnitude + absolute + 1e-30 +
              roundingError(shape.type, std::fabs(sum) + magnitude * relative);
          const double got = y.value((t * shape.qHeads + h) * d + c);
          ASSERT_LE(std::fabs(got - sum), bound)
              << "sequence " << s << " position " << t << " head " << h
              << " column " << c << ": " << got << " and " << sum;
        }
      }
    }
  }
};

const std::vector<Shape> &shapes() {
  static const std::vector<Shape> all = {
      {4, 2, 64, 0, OCTET_F32, OCTET_F32},
      {6, 2, 32, 0, OCTET_BF16, OCTET_BF16},
      {4, 4, 128, 0, OCTET_BF16, OCTET_BF16},
      {8, 1, 64, 0, OCTET_BF16, OCTET_BF16},
      {3, 1, 80, 0, OCTET_BF16, OCTET_BF16}, // a ragged chunk
      {2, 1, 24, 0, OCTET_F32, OCTET_F32},   // a ragged vector
      {2, 2, 20, 9, OCTET_BF16, OCTET_E4M3},
      {4, 2, 64, 0, OCTET_BF16, OCTET_E4M3},
      {4, 1, 128, 100, OCTET_BF16, OCTET_BF16},
      {12, 1, 64, 70, OCTET_F32, OCTET_F32},
      {4, 2, 64, 0, OCTET_F16, OCTET_F16},
      {4, 2, 64, 0, OCTET_F16, OCTET_E4M3},
      {4, 2, 64, 0, OCTET_F32, OCTET_E4M3},
      {4, 2, 64, 1, OCTET_F32, OCTET_BF16},   // only itself
      {70, 1, 16, 0, OCTET_BF16, OCTET_BF16}, // a group wider than a task
  };
  return all;
}

class Attention : public EveryLevel {};
OCTET_EVERY_LEVEL(Attention);

TEST_P(Attention, P11_MatchesDouble) {
  std::mt19937 random(kSeed);
  rt::ThreadPool pool(2);
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(::testing::Message() << shape << ", seed " << kSeed);
    Cache cache(shape, {130, 1, 64, 65}, random);
    const auto y = cache.run(pool, kernels(), cache.whole());
    for (size_t s = 0; s < cache.lengths.size(); ++s) {
      cache.check(s, y[s]);
      if (HasFatalFailure())
        return;
    }
  }
}

TEST_P(Attention, B5_ChunksBatchAndThreadsDoNotMatter) {
  std::mt19937 random(kSeed + 1);
  rt::ThreadPool one(1), two(2), three(3), seven(7);
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(::testing::Message() << shape);
    // Past the end of a split (512), where few tasks share out their splits.
    Cache cache(shape, {530, 77, 3}, random);
    const int64_t width = shape.qHeads * shape.dim;
    const auto y = cache.run(one, kernels(), cache.whole());
    for (rt::ThreadPool *pool : {&two, &three, &seven}) {
      const auto z = cache.run(*pool, kernels(), cache.whole());
      for (size_t s = 0; s < y.size(); ++s)
        ASSERT_TRUE(sameBits(y[s], z[s], width)) << "sequence " << s;
    }
    for (int64_t chunk : {1, 7, 64, 100}) {
      for (int64_t begin = chunk == 1 ? 500 : 0; begin < 530; begin += chunk) {
        std::vector<std::pair<int64_t, int64_t>> ranges;
        for (int64_t n : cache.lengths)
          ranges.emplace_back(std::min(begin, n), std::min(begin + chunk, n));
        const auto z = cache.run(chunk == 7 ? one : seven, kernels(), ranges);
        for (size_t s = 0; s < z.size(); ++s)
          for (int64_t i = 0; i < z[s].count; ++i)
            ASSERT_EQ(z[s].bits(i), y[s].bits(ranges[s].first * width + i))
                << "sequence " << s << " row " << ranges[s].first + i / width
                << " in chunks of " << chunk;
      }
    }
  }
}

TEST_P(Attention, P11_LongContextInSplits) {
  std::mt19937 random(kSeed + 2);
  rt::ThreadPool one(1), seven(7);
  for (int64_t window : {0, 700}) {
    const Shape shape{2, 1, 64, window, OCTET_BF16, OCTET_BF16};
    Cache cache(shape, {1300}, random);
    const auto y = cache.run(seven, kernels(), cache.whole());
    cache.check(0, y[0]);
    for (rt::ThreadPool *pool : {&one, &seven}) {
      const auto last = cache.run(*pool, kernels(), {{1299, 1300}});
      for (int64_t i = 0; i < 128; ++i)
        ASSERT_EQ(last[0].bits(i), y[0].bits(1299 * 128 + i));
    }
  }
}

TEST_P(Attention, LaterTokensNeverReachEarlierOnes) {
  // NaN in the key and value of the last position; only its own row may see it.
  std::mt19937 random(kSeed + 3);
  rt::ThreadPool pool(2);
  for (const Shape &shape : shapes()) {
    SCOPED_TRACE(::testing::Message() << shape);
    Cache cache(shape, {100}, random);
    const int64_t width = shape.kvHeads * shape.dim;
    for (int64_t c = 0; c < width; ++c) {
      cache.k.set(cache.slot(0, 99) * width + c, std::nanf(""));
      cache.v.set(cache.slot(0, 99) * width + c, std::nanf(""));
    }
    const auto y = cache.run(pool, kernels(), cache.whole());
    const int64_t row = shape.qHeads * shape.dim;
    for (int64_t i = 0; i < y[0].count; ++i)
      ASSERT_EQ(std::isnan(y[0].value(i)), i / row == 99) << "row " << i / row;
  }
}

TEST_P(Attention, EqualScoresGiveTheMean) {
  rt::ThreadPool pool(1);
  std::mt19937 random(1);
  Cache cache({1, 1, 16, 0, OCTET_F32, OCTET_F32}, {64}, random);
  for (int64_t i = 0; i < cache.q[0].count; ++i)
    cache.q[0].set(i, 0);
  for (int64_t t = 0; t < 64; ++t)
    for (int64_t c = 0; c < 16; ++c)
      cache.v.set(cache.slot(0, t) * 16 + c, static_cast<float>(t));
  const auto y = cache.run(pool, kernels(), cache.whole());
  EXPECT_EQ(y[0].value(63 * 16), 31.5f);
  EXPECT_EQ(y[0].value(1 * 16 + 15), 0.5f);
}

} // namespace
