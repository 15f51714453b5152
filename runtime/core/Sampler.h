//===- Sampler.h - From logits to a token -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// P17, all in FP32 and in this order:
//
//   forbidden tokens   logit := -inf
//   temperature        logit := logit / temperature        (0: greedy)
//   top-k              the k largest logits stay
//   softmax            p := exp(logit - max) / sum         over those that stay
//   top-p              the fewest largest p whose sum reaches top_p stay
//   min-p              of those, p >= min_p * largest p stay
//   draw               the first token whose running sum of p exceeds
//                      u * (sum of the p that stay)
//
// Tokens are ordered by logit, largest first, equal logits by id: greedy, the
// cuts and the draw all break ties towards the lowest id. A NaN logit counts as
// -inf. Sums run in FP64 so that they do not depend on the vocabulary's length.
//
// u is the first 24 bits of Philox4x32-10 with key = seed and counter =
// (stream, index): a number for each (seed, prompt, token), whatever else runs
// beside.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_SAMPLER_H
#define OCTET_RUNTIME_CORE_SAMPLER_H

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace octet::rt {

struct SamplerOptions {
  float temperature = 0; ///< 0: greedy
  int64_t topK = 0;      ///< 0: all
  float topP = 1;
  float minP = 0;
  uint64_t seed = 0;
};

/// Philox4x32-10 (Salmon et al., 2011): four words for a key and a counter.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter,
                                   std::array<uint32_t, 2> key);

/// A number in [0, 1) for token `index` of `stream`.
float uniform(uint64_t seed, uint64_t stream, uint64_t index);

/// The token with the largest logit, the lowest id among equals; -1 if every
/// logit is -inf or NaN.
int32_t argmax(std::span<const float> logits);

/// Draws a token (the formula above); -1 if no token has a logit above -inf.
/// \param forbidden  ids that must not be drawn.
int32_t drawToken(std::span<const float> logits, const SamplerOptions &options,
                  uint64_t stream, uint64_t index,
                  std::span<const int32_t> forbidden = {});

/// The same with a number of [0, 1) that was drawn already.
int32_t drawTokenAt(std::span<const float> logits,
                    const SamplerOptions &options, float uniform,
                    std::span<const int32_t> forbidden = {});

/// log softmax(logits)[id] in FP32, of the logits as the model gave them.
float logProb(std::span<const float> logits, int32_t id);

/// The `count` most likely tokens and their log-probabilities, best first.
std::vector<std::pair<int32_t, float>>
topLogProbs(std::span<const float> logits, int64_t count);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_SAMPLER_H
