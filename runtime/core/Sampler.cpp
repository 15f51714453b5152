//===- Sampler.cpp - From logits to a token -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Sampler.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace octet;
using namespace octet::rt;

static constexpr float kMinusInf = -std::numeric_limits<float>::infinity();

std::array<uint32_t, 4> rt::philox4x32(std::array<uint32_t, 4> c,
                                       std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * c[0];
    uint64_t b = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b),
         uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    k[0] += 0x9E3779B9;
    k[1] += 0xBB67AE85;
  }
  return c;
}

float rt::uniform(uint64_t seed, uint64_t stream, uint64_t index) {
  auto words = philox4x32({uint32_t(index), uint32_t(index >> 32),
                           uint32_t(stream), uint32_t(stream >> 32)},
                          {uint32_t(seed), uint32_t(seed >> 32)});
  return float(words[0] >> 8) * 0x1p-24f;
}

int32_t rt::argmax(std::span<const float> logits) {
  int32_t best = -1;
  float value = kMinusInf;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > value) {
      value = logits[i];
      best = int32_t(i);
    }
  return best;
}

namespace {
struct Candidate {
  int32_t id;
  float value; // a logit, then a probability
};
} // namespace

/// Largest first, the lower id among equals.
static bool before(const Candidate &a, const Candidate &b) {
  return a.value != b.value ? a.value > b.value : a.id < b.id;
}

/// exp in FP64, rounded once: the C library's float exp differs by machine.
static float expRounded(float x) { return float(std::exp(double(x))); }

int32_t rt::drawToken(std::span<const float> logits,
                      const SamplerOptions &options, uint64_t stream,
                      uint64_t index, std::span<const int32_t> forbidden) {
  return drawTokenAt(logits, options, uniform(options.seed, stream, index),
                     forbidden);
}

int32_t rt::drawTokenAt(std::span<const float> logits,
                        const SamplerOptions &options, float uniform,
                        std::span<const int32_t> forbidden) {
  const bool greedy = options.temperature <= 0;
  if (greedy && forbidden.empty())
    return argmax(logits);
  std::vector<float> allowed(logits.begin(), logits.end());
  for (int32_t id : forbidden)
    if (id >= 0 && size_t(id) < allowed.size())
      allowed[id] = kMinusInf;
  if (greedy)
    return argmax(allowed);

  std::vector<Candidate> kept;
  for (size_t i = 0; i < allowed.size(); ++i) {
    float value = allowed[i] / options.temperature;
    if (value > kMinusInf)
      kept.push_back({int32_t(i), value});
  }
  if (kept.empty())
    return -1;
  if (options.topK > 0 && size_t(options.topK) < kept.size()) {
    std::nth_element(kept.begin(), kept.begin() + options.topK, kept.end(),
                     before);
    kept.resize(options.topK);
  }
  std::sort(kept.begin(), kept.end(), before);

  float largest = kept.front().value;
  if (std::isinf(largest)) // A tiny temperature: inf - inf would be NaN.
    return argmax(allowed);
  double sum = 0;
  for (Candidate &c : kept) {
    c.value = expRounded(c.value - largest);
    sum += c.value;
  }
  size_t count = 0;
  double mass = 0;
  for (Candidate &c : kept) {
    c.value = float(double(c.value) / sum);
    bool reached = options.topP < 1 && mass >= options.topP;
    bool unlikely = c.value < options.minP * kept.front().value;
    if (count > 0 && (reached || unlikely))
      break;
    mass += c.value;
    ++count;
  }
  double target = double(uniform) * mass;
  double running = 0;
  for (size_t i = 0; i < count; ++i) {
    running += kept[i].value;
    if (running > target)
      return kept[i].id;
  }
  return kept[count - 1].id;
}

/// max and log(sum(exp(logit - max))) of the logits.
static std::pair<float, double> logNormalizer(std::span<const float> logits) {
  float largest = kMinusInf;
  for (float v : logits)
    largest = v > largest ? v : largest;
  double sum = 0;
  for (float v : logits)
    if (v > kMinusInf)
      sum += std::exp(double(v - largest));
  return {largest, std::log(sum)};
}

float rt::logProb(std::span<const float> logits, int32_t id) {
  auto [largest, logSum] = logNormalizer(logits);
  return float(double(logits[id] - largest) - logSum);
}

std::vector<std::pair<int32_t, float>>
rt::topLogProbs(std::span<const float> logits, int64_t count) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > kMinusInf)
      all.push_back({int32_t(i), logits[i]});
  size_t n = std::min(all.size(), size_t(std::max<int64_t>(count, 0)));
  std::partial_sort(all.begin(), all.begin() + n, all.end(), before);
  auto [largest, logSum] = logNormalizer(logits);
  std::vector<std::pair<int32_t, float>> result;
  for (size_t i = 0; i < n; ++i)
    result.push_back(
        {all[i].id, float(double(all[i].value - largest) - logSum)});
  return result;
}
