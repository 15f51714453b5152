//===- Engine.cpp - Sequences and steps -----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Engine.h"
#include "octet/Support/Checked.h"
#include <algorithm>
#include <deque>

using namespace octet;
using namespace octet::rt;

/// min(wanted, limit), where 0 asks for the limit.
static int64_t withinLimit(int64_t wanted, int64_t limit) {
  return wanted > 0 ? std::min(wanted, limit) : limit;
}

Engine::Engine(Model &model, EngineOptions options)
    : loaded(model),
      chunkTokens(withinLimit(options.chunk, model.info().maxStepTokens)),
      batchSequences(
          withinLimit(options.batch, std::min(model.info().maxSeqs,
                                              model.info().maxStepTokens))) {}

Result<std::vector<int32_t>>
Engine::checkVocabulary(std::span<const int64_t> ids,
                        const std::string &subject) const {
  const int64_t vocab = loaded.info().vocab;
  std::vector<int32_t> result;
  result.reserve(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab)
      return inputError(subject, "token " + std::to_string(i) + " is id " +
                                     std::to_string(ids[i]) +
                                     ", the vocabulary has ids 0 to " +
                                     std::to_string(vocab - 1));
    result.push_back(int32_t(ids[i]));
  }
  if (result.empty())
    return inputError(subject, "no token ids; at least one is needed");
  return result;
}

Status Engine::checkLength(int64_t tokens, const std::string &subject) const {
  const int64_t limit = loaded.info().maxContext;
  if (tokens <= limit)
    return Status::success();
  return inputError(subject, std::to_string(tokens) +
                                 " tokens are more than the context of " +
                                 std::to_string(limit) +
                                 " that was compiled; compile with "
                                 "--max-context " +
                                 std::to_string(tokens) + " or more");
}

Result<std::vector<int32_t>>
Engine::checkIds(std::span<const int64_t> ids,
                 const std::string &subject) const {
  OCTET_TRY(checkLength(int64_t(ids.size()), subject));
  return checkVocabulary(ids, subject);
}

void Engine::release(Sequence &sequence) {
  loaded.cache().release(sequence.pages);
  sequence.cached = 0;
}

Status Engine::runRows(std::span<const Feed> feeds, const float *input,
                       std::vector<float> &output, TraceSink *sink) {
  const ProgramInfo &info = loaded.info();
  std::vector<int32_t> ids, positions, slots, outputRows;
  std::vector<octet_sequence> sequences;
  for (const Feed &feed : feeds) {
    Sequence &s = *feed.sequence;
    const int64_t context = s.cached + feed.count;
    if (feed.count < 1 || feed.count > s.pending() || context > info.maxContext)
      return internalError(loaded.path(),
                           "a step feeds " + std::to_string(feed.count) +
                               " tokens after " + std::to_string(s.cached));
    if (!loaded.cache().grow(s.pages, context))
      return internalError(loaded.path(), "no free KV page for a context of " +
                                              std::to_string(context) +
                                              " tokens");
    const int64_t first = int64_t(positions.size());
    for (int64_t p = s.cached; p < context; ++p) {
      ids.push_back(s.tokens[p]);
      positions.push_back(int32_t(p));
      slots.push_back(s.pages[p / OCTET_PAGE] * OCTET_PAGE +
                      int32_t(p % OCTET_PAGE));
      if (feed.outputs == Outputs::All ||
          (feed.outputs == Outputs::Last && p + 1 == context))
        outputRows.push_back(int32_t(positions.size()) - 1);
    }
    sequences.push_back({first, feed.count, context, s.pages.data()});
  }
  if (int64_t(positions.size()) > info.maxStepTokens ||
      int64_t(sequences.size()) > info.maxSeqs)
    return internalError(loaded.path(),
                         "a step of " + std::to_string(positions.size()) +
                             " tokens of " + std::to_string(sequences.size()) +
                             " sequences");

  output.resize(outputRows.size() * size_t(info.outputWidth()));
  octet_batch batch{};
  batch.num_rows = int64_t(positions.size());
  batch.ids = input ? nullptr : ids.data();
  batch.input = input;
  batch.positions = positions.data();
  batch.slots = slots.data();
  batch.num_sequences = int64_t(sequences.size());
  batch.sequences = sequences.data();
  batch.num_outputs = int64_t(outputRows.size());
  batch.output_rows = outputRows.data();
  batch.output = output.data();
  OCTET_TRY(loaded.step(batch, sink));
  for (const Feed &feed : feeds)
    feed.sequence->cached += feed.count;
  return Status::success();
}

Status Engine::step(std::span<const Feed> feeds, std::vector<float> &logits,
                    TraceSink *sink) {
  return runRows(feeds, /*input=*/nullptr, logits, sink);
}

Status Engine::prefill(Sequence &sequence, Outputs outputs,
                       std::vector<float> &logits, TraceSink *sink) {
  std::vector<float> part;
  while (int64_t pending = sequence.pending()) {
    int64_t count = std::min(pending, chunkTokens);
    Outputs wanted =
        outputs == Outputs::Last && count < pending ? Outputs::None : outputs;
    Feed feed{&sequence, count, wanted};
    OCTET_TRY(step({&feed, 1}, part, sink));
    logits.insert(logits.end(), part.begin(), part.end());
  }
  return Status::success();
}

Result<std::vector<float>> Engine::evaluate(std::span<const float> x,
                                            int64_t rows) {
  const ProgramInfo &info = loaded.info();
  Sequence sequence;
  sequence.tokens.assign(size_t(rows), 0); // Only their number matters.
  std::vector<float> y, part;
  for (int64_t begin = 0; begin < rows; begin += chunkTokens) {
    int64_t count = std::min(rows - begin, chunkTokens);
    Feed feed{&sequence, count, Outputs::All};
    OCTET_TRY(runRows({&feed, 1}, x.data() + begin * info.moduleIn, part,
                      /*sink=*/nullptr));
    y.insert(y.end(), part.begin(), part.end());
  }
  release(sequence);
  return y;
}

//===----------------------------------------------------------------------===//
// Generation
//===----------------------------------------------------------------------===//

namespace {
/// A prompt on its way.
struct Running {
  size_t number = 0;
  int64_t promptLength = 0;
  Sequence sequence;
  Completion completion;
  bool finished = false;
};
} // namespace

/// Draws the next token of `r` from its logits and decides whether that was
/// the last.
static Status advance(Running &r, std::span<const float> logits,
                      const GenerateOptions &options, const ProgramInfo &info,
                      const std::string &subject) {
  Completion &c = r.completion;
  int32_t id = drawToken(logits, options.sampler, r.number, c.ids.size(),
                         options.forbidden);
  if (id < 0)
    return inputError(subject,
                      "prompt " + std::to_string(r.number) + ": token " +
                          std::to_string(c.ids.size()) +
                          " cannot be chosen, every logit is NaN or -inf");
  if (std::ranges::count(options.stopIds, id)) {
    c.finish = "stop";
    r.finished = true;
    return Status::success();
  }
  c.ids.push_back(id);
  r.sequence.tokens.push_back(id);
  if (options.logProbs >= 0)
    c.logProbs.push_back(
        {logProb(logits, id), topLogProbs(logits, options.logProbs)});
  if (!options.ignoreEos && std::ranges::count(info.eos, int64_t(id))) {
    c.finish = "eos";
    r.finished = true;
  } else if (options.onToken && options.onToken(r.number, id)) {
    c.finish = "stop";
    r.finished = true;
  } else if (int64_t(c.ids.size()) >= options.maxTokens ||
             int64_t(r.sequence.tokens.size()) >= info.maxContext) {
    r.finished = true;
  }
  return Status::success();
}

Status
Engine::generate(std::span<const std::vector<int32_t>> prompts,
                 const GenerateOptions &options,
                 const std::function<void(size_t, const Completion &)> &done) {
  const ProgramInfo &info = loaded.info();
  const size_t vocab = size_t(info.vocab);
  std::deque<Running> running;
  size_t next = 0;
  std::vector<Feed> feeds;
  std::vector<Running *> sampled;
  std::vector<float> logits;

  while (next < prompts.size() || !running.empty()) {
    while (next < prompts.size() && int64_t(running.size()) < batchSequences) {
      const std::vector<int32_t> &prompt = prompts[next];
      Running r;
      r.number = next++;
      r.promptLength = int64_t(prompt.size());
      if (options.maxTokens <= 0 || r.promptLength >= info.maxContext) {
        done(r.number, r.completion); // No room for a token.
        continue;
      }
      r.sequence.tokens = prompt;
      running.push_back(std::move(r));
    }

    // Decode rows first: a long prompt must not hold the others up.
    feeds.clear();
    sampled.clear();
    int64_t budget = info.maxStepTokens;
    for (bool decode : {true, false})
      for (Running &r : running) {
        int64_t pending = r.sequence.pending();
        bool isDecode = r.sequence.cached >= r.promptLength;
        int64_t count = std::min({pending, chunkTokens, budget});
        if (isDecode != decode || count == 0)
          continue;
        bool last = count == pending;
        feeds.push_back(
            {&r.sequence, count, last ? Outputs::Last : Outputs::None});
        if (last)
          sampled.push_back(&r);
        budget -= count;
      }
    if (feeds.empty())
      break; // All that was left had no room for a token.
    OCTET_TRY(step(feeds, logits));

    for (size_t i = 0; i < sampled.size(); ++i) {
      std::span<const float> row(logits.data() + i * vocab, vocab);
      OCTET_TRY(advance(*sampled[i], row, options, info, loaded.path()));
    }
    for (auto it = running.begin(); it != running.end();) {
      if (!it->finished) {
        ++it;
        continue;
      }
      release(it->sequence);
      done(it->number, it->completion);
      it = running.erase(it);
    }
  }
  return Status::success();
}
