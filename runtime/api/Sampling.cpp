//===- Sampling.cpp - The next token --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/api/Guard.h"
#include "runtime/api/Handles.h"
#include "runtime/core/Sampler.h"
#include <charconv>
#include <cmath>
#include <iterator>

using namespace octet;
using namespace octet::rt;

/// Size of octet_sampler_options in the first version of octet.h.
static constexpr size_t kSamplerOptionsBytes = 40;
static_assert(sizeof(octet_sampler_options) >= kSamplerOptionsBytes);

static octet_sampler_options defaults() {
  const SamplerOptions o;
  return {.size = sizeof(octet_sampler_options),
          .seed = o.seed,
          .top_k = o.topK,
          .temperature = o.temperature,
          .top_p = o.topP,
          .min_p = o.minP,
          .reserved = 0};
}

void octet_sampler_options_init(octet_sampler_options *options, size_t size) {
  writeStruct(options, size, defaults());
}

Result<SamplerOptions> rt::readSampler(const char *function,
                                       const octet_sampler_options *given) {
  octet_sampler_options o = defaults();
  OCTET_TRY(readOptions(function, given, kSamplerOptionsBytes, o));
  auto wrong = [&](const char *name, auto value, const char *range) {
    char text[64];
    return usageError(
        function,
        std::string("'") + name + "' is " +
            std::string(text, std::to_chars(text, std::end(text), value).ptr) +
            "; " + range + " would work");
  };
  // Written so that NaN is wrong.
  if (!(o.temperature >= 0 && std::isfinite(o.temperature)))
    return wrong("temperature", o.temperature, "0 or more");
  if (!(o.top_p >= 0 && o.top_p <= 1))
    return wrong("top_p", o.top_p, "0 to 1");
  if (!(o.min_p >= 0 && o.min_p <= 1))
    return wrong("min_p", o.min_p, "0 to 1");
  if (o.top_k < 0)
    return wrong("top_k", o.top_k, "0 or more");
  if (o.reserved)
    return wrong("reserved", o.reserved, "0");
  return SamplerOptions{.temperature = o.temperature,
                        .topK = o.top_k,
                        .topP = o.top_p,
                        .minP = o.min_p,
                        .seed = o.seed};
}

static Status checkVocab(const char *function, int64_t vocab) {
  if (vocab >= 1 && vocab <= INT32_MAX)
    return Status::success();
  return usageError(function, "'vocab' is " + std::to_string(vocab) +
                                  "; 1 to 2147483647 would work");
}

octet_status octet_sample(const float *logits, int64_t vocab,
                          const octet_sampler_options *given, uint64_t stream,
                          uint64_t index, const int32_t *forbidden,
                          size_t num_forbidden, int32_t *id,
                          octet_error **error) {
  static constexpr char function[] = "octet_sample";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"logits", logits}, {"id", id}}));
    if (num_forbidden)
      OCTET_TRY(notNull(function, {{"forbidden", forbidden}}));
    *id = -1;
    OCTET_TRY(checkVocab(function, vocab));
    OCTET_TRY_ASSIGN(SamplerOptions options, readSampler(function, given));
    *id = drawToken({logits, size_t(vocab)}, options, stream, index,
                    {forbidden, num_forbidden});
    if (*id < 0)
      return inputError(function, "no token can be chosen, every logit is NaN "
                                  "or -inf");
    return Status::success();
  });
}

octet_status octet_log_probs(const float *logits, int64_t vocab,
                             const int32_t *ids, size_t count, float *values,
                             octet_error **error) {
  static constexpr char function[] = "octet_log_probs";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function,
                      {{"logits", logits}, {"ids", ids}, {"values", values}}));
    OCTET_TRY(checkVocab(function, vocab));
    for (size_t i = 0; i < count; ++i)
      if (ids[i] < 0 || ids[i] >= vocab)
        return usageError(function, "token " + std::to_string(i) + " is id " +
                                        std::to_string(ids[i]) +
                                        "; a row has ids 0 to " +
                                        std::to_string(vocab - 1));
    for (size_t i = 0; i < count; ++i)
      values[i] = logProb({logits, size_t(vocab)}, ids[i]);
    return Status::success();
  });
}

octet_status octet_top_log_probs(const float *logits, int64_t vocab,
                                 size_t count, int32_t *ids, float *values,
                                 size_t *found, octet_error **error) {
  static constexpr char function[] = "octet_top_log_probs";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"logits", logits}, {"found", found}}));
    *found = 0;
    OCTET_TRY(checkVocab(function, vocab));
    if (count == 0)
      return Status::success();
    OCTET_TRY(notNull(function, {{"ids", ids}, {"values", values}}));
    auto top = topLogProbs({logits, size_t(vocab)},
                           int64_t(std::min<size_t>(count, size_t(vocab))));
    for (size_t i = 0; i < top.size(); ++i) {
      ids[i] = top[i].first;
      values[i] = top[i].second;
    }
    *found = top.size();
    return Status::success();
  });
}
