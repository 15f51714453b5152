//===- Score.cpp - `score`: log-probabilities and perplexity --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every token but the first is scored once. A text longer than the context is
// read in windows of the context's length, each `stride` tokens after the one
// before; a window scores the tokens that no earlier one has.
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>

using namespace octet;
using namespace octet::rt;

namespace {
struct Text {
  std::string name;
  std::vector<int32_t> ids;
};
} // namespace

/// Appends the log-probabilities of ids[scored .. end) given those from
/// `begin` on.
static Status scoreWindow(Session &session, std::span<const int32_t> ids,
                          int64_t begin, int64_t end, int64_t &scored,
                          std::vector<float> &logProbs,
                          const std::function<void(int64_t)> &progress) {
  const int64_t vocab = session.limits.vocab;
  OCTET_TRY_ASSIGN(Owned<octet_seq> sequence,
                   make<octet_seq>(octet_seq_create, session.model.get()));
  OCTET_TRY(call(octet_seq_append, sequence.get(), ids.data() + begin,
                 size_t(end - begin)));
  std::vector<float> logits;
  while (int64_t pending = octet_seq_pending(sequence.get())) {
    const int64_t first = begin + octet_seq_cached(sequence.get());
    const int64_t count = std::min(pending, session.chunk);
    // The row of token t gives the probability of token t + 1.
    const bool wanted = first + count >= scored;
    progress(first);
    octet_entry entry{sequence.get(), count, wanted ? count : 0};
    logits.resize(size_t(entry.outputs * vocab));
    OCTET_TRY(call(octet_step, session.model.get(), &entry, size_t(1),
                   logits.data(), int64_t(logits.size())));
    for (int64_t row = 0; wanted && row < count; ++row) {
      const int64_t token = first + row + 1;
      if (token != scored || token >= end)
        continue;
      float value = 0;
      OCTET_TRY(call(octet_log_probs, logits.data() + row * vocab, vocab,
                     ids.data() + token, size_t(1), &value));
      if (std::isnan(value))
        return inputError(session.path,
                          fmt::format("the log-probability of token {} is NaN; "
                                      "logits of the model are no numbers",
                                      token));
      logProbs.push_back(value);
      ++scored;
    }
  }
  return Status::success();
}

static std::string number(double value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

static std::string report(const Text &text, std::span<const float> logProbs,
                          bool json) {
  double sum = 0;
  for (float value : logProbs)
    sum += value;
  const double perplexity =
      logProbs.empty() ? NAN : std::exp(-sum / double(logProbs.size()));
  if (!json)
    return fmt::format("{}: {} tokens scored, log-probability {:.4f}, "
                       "perplexity {:.4f}\n",
                       escapeName(text.name), logProbs.size(), sum, perplexity);
  std::vector<std::string> values;
  for (float value : logProbs)
    values.push_back(std::isfinite(value) ? fmt::format("{}", value) : "null");
  return fmt::format("{{\"name\": {}, \"tokens\": {}, \"logprob\": {}, "
                     "\"perplexity\": {}, \"logprobs\": [{}]}}\n",
                     dumpJson(text.name), logProbs.size(), number(sum),
                     number(perplexity), fmt::join(values, ", "));
}

/// The ids of the file, or of the text as one entry that has the file's name.
static Result<std::vector<NamedIds>> readEntries(const ScoreOptions &options,
                                                 const CommonOptions &common) {
  if (options.textFile.empty())
    return readIdsFile(options.idsFile);
  OCTET_TRY_ASSIGN(Owned<octet_tokenizer> tokenizer, openTokenizer(common));
  OCTET_TRY_ASSIGN(std::string text, readTextFile(options.textFile));
  OCTET_TRY_ASSIGN(std::vector<int32_t> ids, encode(tokenizer.get(), text));
  return std::vector<NamedIds>{
      {options.textFile, std::vector<int64_t>(ids.begin(), ids.end())}};
}

Status rt::scoreVerb(const CommonOptions &common, const ScoreOptions &options) {
  const std::pair<const char *, bool> kinds[] = {
      {"--text", !options.textFile.empty()},
      {"--ids-file", !options.idsFile.empty()}};
  OCTET_TRY(checkOneOf("score", kinds));
  OCTET_TRY_ASSIGN(Session session,
                   openSession(common, "score", /*wantsModule=*/false));
  const int64_t context = session.limits.max_context;
  const int64_t stride =
      options.stride ? options.stride : std::max<int64_t>(context / 2, 1);
  OCTET_TRY_ASSIGN(std::vector<NamedIds> entries, readEntries(options, common));
  const std::string &file =
      options.textFile.empty() ? options.idsFile : options.textFile;
  std::vector<Text> texts;
  for (const NamedIds &entry : entries) {
    const std::string subject =
        options.textFile.empty() ? file + ": " + quoteName(entry.name) : file;
    OCTET_TRY_ASSIGN(auto ids, session.checkVocabulary(entry.ids, subject));
    if (ids.size() < 2)
      return inputError(subject, "has 1 token; the first one of a text has no "
                                 "probability, at least 2 are needed");
    if (int64_t(ids.size()) > context && stride >= context)
      return usageError("--stride", fmt::format("{} leaves tokens between "
                                                "windows of {} unscored; 1 to "
                                                "{} would work",
                                                stride, context, context - 1));
    texts.push_back({entry.name, std::move(ids)});
  }

  Progress progress;
  for (const Text &text : texts) {
    std::vector<float> logProbs;
    int64_t scored = 1;
    const int64_t length = int64_t(text.ids.size());
    auto show = [&](int64_t token) {
      progress.show(fmt::format("{}: {} of {} tokens", escapeName(text.name),
                                token, length));
    };
    for (int64_t begin = 0; scored < length; begin += stride)
      OCTET_TRY(scoreWindow(session, text.ids, begin,
                            std::min(begin + context, length), scored, logProbs,
                            show));
    progress.clear();
    OCTET_TRY(print(report(text, logProbs, options.json)));
  }
  return Status::success();
}
