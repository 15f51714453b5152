//===- Generate.cpp - Continuing prompts ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The scheduler: which tokens of which prompts run in the next step.
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Generate.h"
#include "runtime/cli/Session.h"
#include <algorithm>
#include <deque>

using namespace octet;
using namespace octet::rt;

namespace {
/// A prompt on its way.
struct Running {
  size_t number = 0;
  int64_t promptLength = 0;
  Owned<octet_seq> sequence;
  Completion completion;
  bool finished = false;
};

class Generator {
public:
  Generator(Session &session, const GenerateOptions &options)
      : session(session), options(options) {
    const int32_t *ids = nullptr;
    const size_t count = octet_model_eos(session.model.get(), &ids);
    eos.assign(ids, ids + count);
  }

  Status start(size_t number, std::span<const int32_t> prompt);
  bool isFull() const { return int64_t(running.size()) >= session.batch; }
  bool isEmpty() const { return running.empty(); }
  /// Runs one step and draws what can be drawn.
  Status step();
  /// Calls `done` for what has finished and forgets it.
  void collect(const std::function<void(size_t, const Completion &)> &done);

private:
  void plan();
  Status draw(Running &r, std::span<const float> row, int32_t &id);
  Status advance(Running &r, int32_t id, std::span<const float> row);
  Status addLogProbs(Completion &c, std::span<const float> logits, int32_t id);

  Session &session;
  const GenerateOptions &options;
  std::vector<int32_t> eos;
  std::deque<Running> running;
  std::vector<octet_entry> entries; ///< of a step
  std::vector<Running *> sampled;   ///< of its rows of logits
  std::vector<float> logits;
  std::vector<int32_t> ids;
};
} // namespace

Status Generator::start(size_t number, std::span<const int32_t> prompt) {
  Running r;
  r.number = number;
  r.promptLength = int64_t(prompt.size());
  OCTET_TRY_ASSIGN(r.sequence,
                   make<octet_seq>(octet_seq_create, session.model.get()));
  OCTET_TRY(
      call(octet_seq_append, r.sequence.get(), prompt.data(), prompt.size()));
  running.push_back(std::move(r));
  return Status::success();
}

/// Decode rows first: a long prompt must not hold the others up.
void Generator::plan() {
  entries.clear();
  sampled.clear();
  int64_t budget = session.limits.max_step_tokens;
  for (bool decode : {true, false})
    for (Running &r : running) {
      octet_seq *seq = r.sequence.get();
      const int64_t pending = octet_seq_pending(seq);
      const bool isDecode = octet_seq_cached(seq) >= r.promptLength;
      const int64_t count = std::min({pending, session.chunk, budget});
      if (isDecode != decode || count == 0)
        continue;
      const bool last = count == pending;
      entries.push_back({seq, count, last ? 1 : 0});
      if (last)
        sampled.push_back(&r);
      budget -= count;
    }
}

Status Generator::step() {
  plan();
  ids.assign(sampled.size(), -1);
  // Logits leave a device only for what looks at them.
  if (options.logProbs < 0 && options.forbidden.empty()) {
    std::vector<octet_draw> draws;
    for (const Running *r : sampled)
      draws.push_back({&options.sampler, uint64_t(r->number),
                       uint64_t(r->completion.ids.size())});
    OCTET_TRY(call(octet_step_draw, session.model.get(), entries.data(),
                   entries.size(), draws.data(), draws.size(), ids.data()));
    for (size_t i = 0; i < sampled.size(); ++i)
      OCTET_TRY(advance(*sampled[i], ids[i], {}));
    return Status::success();
  }
  const size_t vocab = size_t(session.limits.vocab);
  logits.resize(sampled.size() * vocab);
  OCTET_TRY(call(octet_step, session.model.get(), entries.data(),
                 entries.size(), logits.data(), int64_t(logits.size())));
  for (size_t i = 0; i < sampled.size(); ++i) {
    const auto row = std::span(logits).subspan(i * vocab, vocab);
    OCTET_TRY(draw(*sampled[i], row, ids[i]));
    OCTET_TRY(advance(*sampled[i], ids[i], row));
  }
  return Status::success();
}

Status Generator::addLogProbs(Completion &c, std::span<const float> row,
                              int32_t id) {
  const int64_t vocab = int64_t(row.size());
  TokenLogProb token{};
  OCTET_TRY(
      call(octet_log_probs, row.data(), vocab, &id, size_t(1), &token.logProb));
  size_t found = size_t(std::min(options.logProbs, vocab));
  std::vector<int32_t> ids(found);
  std::vector<float> values(found);
  OCTET_TRY(call(octet_top_log_probs, row.data(), vocab, ids.size(), ids.data(),
                 values.data(), &found));
  for (size_t i = 0; i < found; ++i)
    token.top.push_back({ids[i], values[i]});
  c.logProbs.push_back(std::move(token));
  return Status::success();
}

/// Draws the next token of `r`; -1 if none can be chosen.
Status Generator::draw(Running &r, std::span<const float> row, int32_t &id) {
  Status drawn =
      call(octet_sample, row.data(), int64_t(row.size()), &options.sampler,
           uint64_t(r.number), uint64_t(r.completion.ids.size()),
           options.forbidden.data(), options.forbidden.size(), &id);
  if (!drawn.ok() && drawn.info().kind == ErrorKind::Input)
    return Status::success();
  return drawn;
}

/// Takes the next token of `r` and decides whether that was the last.
/// \param row  its logits, where they are looked at.
Status Generator::advance(Running &r, int32_t id, std::span<const float> row) {
  Completion &c = r.completion;
  if (id < 0)
    return inputError(session.path,
                      "prompt " + std::to_string(r.number) + ": token " +
                          std::to_string(c.ids.size()) +
                          " cannot be chosen, every logit is NaN or -inf");
  if (std::ranges::count(options.stopIds, id)) {
    c.finish = "stop";
    r.finished = true;
    return Status::success();
  }
  c.ids.push_back(id);
  if (options.logProbs >= 0)
    OCTET_TRY(addLogProbs(c, row, id));
  const int64_t length = octet_seq_length(r.sequence.get()) + 1;
  if (!options.ignoreEos && std::ranges::count(eos, id)) {
    c.finish = "eos";
    r.finished = true;
  } else if (options.onToken && options.onToken(r.number, id)) {
    c.finish = "stop";
    r.finished = true;
  } else if (int64_t(c.ids.size()) >= options.maxTokens ||
             length >= session.limits.max_context) {
    r.finished = true;
  } else {
    OCTET_TRY(call(octet_seq_append, r.sequence.get(), &id, size_t(1)));
  }
  return Status::success();
}

void Generator::collect(
    const std::function<void(size_t, const Completion &)> &done) {
  for (auto it = running.begin(); it != running.end();) {
    if (!it->finished) {
      ++it;
      continue;
    }
    Running finished = std::move(*it);
    it = running.erase(it);
    done(finished.number, finished.completion);
  }
}

Status
rt::generate(Session &session, std::span<const std::vector<int32_t>> prompts,
             const GenerateOptions &options,
             const std::function<void(size_t, const Completion &)> &done) {
  Generator generator(session, options);
  size_t next = 0;
  while (next < prompts.size() || !generator.isEmpty()) {
    for (; next < prompts.size() && !generator.isFull(); ++next) {
      const std::vector<int32_t> &prompt = prompts[next];
      if (options.maxTokens <= 0 ||
          int64_t(prompt.size()) >= session.limits.max_context)
        done(next, Completion()); // No room for a token.
      else
        OCTET_TRY(generator.start(next, prompt));
    }
    if (generator.isEmpty())
      break;
    OCTET_TRY(generator.step());
    generator.collect(done);
  }
  return Status::success();
}
