//===- RuntimeSamplerTest.cpp - From logits to a token (P17) --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Sampler.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <map>

using namespace octet::rt;

static constexpr float kInf = std::numeric_limits<float>::infinity();
static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Sampler, GreedyTakesTheLowestIdAmongEquals) {
  EXPECT_EQ(argmax(std::vector<float>{1, 3, 2, 3}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-0.0f, 0.0f}), 0);
  EXPECT_EQ(argmax(std::vector<float>{kNan, 1, kNan}), 1);
  EXPECT_EQ(argmax(std::vector<float>{-kInf, kNan}), -1);
  EXPECT_EQ(argmax(std::vector<float>{1, kInf}), 1);
  EXPECT_EQ(argmax(std::vector<float>{}), -1);
}

// Random123's known answers for philox4x32-10.
TEST(Sampler, PhiloxKnownAnswers) {
  using W = std::array<uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (W{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  const uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (W{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (W{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// How often each id comes in `n` draws.
static std::map<int32_t, int> histogram(const std::vector<float> &logits,
                                        const SamplerOptions &options, int n,
                                        std::vector<int32_t> forbidden = {}) {
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i)
    ++counts[drawToken(logits, options, 0, i, forbidden)];
  return counts;
}

// Frequencies within 4.5 standard deviations, sqrt(n p (1-p)), of softmax.
TEST(Sampler, FrequenciesFollowSoftmax) {
  std::vector<float> logits{0, 1, 2, -1};
  const int n = 20000;
  for (float temperature : {0.5f, 1.0f, 2.0f}) {
    auto counts = histogram(logits, {.temperature = temperature, .seed = 7}, n);
    double sum = 0;
    for (float v : logits)
      sum += std::exp(v / temperature);
    for (int i = 0; i < 4; ++i) {
      double p = std::exp(logits[i] / temperature) / sum;
      EXPECT_NEAR(counts[i], n * p, 4.5 * std::sqrt(n * p * (1 - p)))
          << "id " << i << " temperature " << temperature;
    }
  }
}

TEST(Sampler, Cuts) {
  std::vector<float> logits{0, 1, 2, 1, -4};
  auto ids = [&](SamplerOptions options, std::vector<int32_t> forbidden = {}) {
    options.temperature = 1;
    std::vector<int32_t> seen;
    for (auto [id, count] : histogram(logits, options, 4000, forbidden))
      seen.push_back(id);
    return seen;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(ids({.topK = 1}), (Ids{2}));
  // Ids 1 and 3 tie for the second place: the lower one stays.
  EXPECT_EQ(ids({.topK = 2}), (Ids{1, 2}));
  EXPECT_EQ(ids({.topK = 3}), (Ids{1, 2, 3}));
  // Probabilities: 2: .53, 1 and 3: .196, 0: .072, 4: .001.
  EXPECT_EQ(ids({.topP = 0.5f}), (Ids{2}));
  EXPECT_EQ(ids({.topP = 0.6f}), (Ids{1, 2}));
  EXPECT_EQ(ids({.topP = 0.9f}), (Ids{1, 2, 3}));
  EXPECT_EQ(ids({.topP = 0.0f}), (Ids{2}));
  EXPECT_EQ(ids({.minP = 0.3f}), (Ids{1, 2, 3}));
  EXPECT_EQ(ids({.minP = 1.0f}), (Ids{2}));
  EXPECT_EQ(ids({.topK = 2}, {2}), (Ids{1, 3}));
  EXPECT_EQ(ids({}, {0, 1, 3, 4}), (Ids{2}));
  EXPECT_EQ(drawToken(logits, {}, 0, 0, Ids{2}), 1);
  EXPECT_EQ(drawToken(logits, {.temperature = 1}, 0, 0, Ids{0, 1, 2, 3, 4}),
            -1);
}

TEST(Sampler, ExtremeLogits) {
  // A temperature that takes logits / temperature to infinity is greedy.
  EXPECT_EQ(
      drawToken(std::vector<float>{1, 3, 3}, {.temperature = 1e-39f}, 0, 0), 1);
  EXPECT_EQ(
      drawToken(std::vector<float>{kNan, -kInf, 1}, {.temperature = 1}, 0, 0),
      2);
  EXPECT_EQ(
      drawToken(std::vector<float>{kNan, -kInf}, {.temperature = 1}, 0, 0), -1);
}

TEST(Sampler, DrawsDependOnSeedStreamAndIndexAlone) {
  EXPECT_EQ(uniform(1, 2, 3), uniform(1, 2, 3));
  EXPECT_NE(uniform(1, 2, 3), uniform(2, 2, 3));
  EXPECT_NE(uniform(1, 2, 3), uniform(1, 3, 3));
  EXPECT_NE(uniform(1, 2, 3), uniform(1, 2, 4));
  EXPECT_NE(uniform(1, 2, 3), uniform(1 + (uint64_t(1) << 32), 2, 3));
  for (int i = 0; i < 1000; ++i) {
    float u = uniform(5, 0, i);
    EXPECT_TRUE(u >= 0 && u < 1) << u;
  }
}

TEST(Sampler, LogProbs) {
  std::vector<float> logits{1000, 1001, -kInf};
  // log(1 / (1 + e)), rounded once to FP32; the difference is exact.
  EXPECT_FLOAT_EQ(logProb(logits, 0), -1.3132616875182228f);
  EXPECT_FLOAT_EQ(logProb(logits, 1), -0.31326168751822286f);
  EXPECT_EQ(logProb(logits, 2), -kInf);
  auto top = topLogProbs(logits, 5);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].first, 1);
  EXPECT_EQ(top[1].second, logProb(logits, 0));
  EXPECT_EQ(topLogProbs(logits, 1).size(), 1u);
}
