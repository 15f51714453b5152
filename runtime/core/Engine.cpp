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
#include <map>

using namespace octet;
using namespace octet::rt;

Status Engine::outsideVocabulary(size_t index, int64_t id,
                                 const std::string &subject) const {
  return inputError(subject, "token " + std::to_string(index) + " is id " +
                                 std::to_string(id) +
                                 ", the vocabulary has ids 0 to " +
                                 std::to_string(loaded.info().vocab - 1));
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

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

Sequence Engine::fork(const Sequence &source) {
  Sequence copy = source;
  // Pages beyond what is cached have nothing to share.
  copy.pages.resize(size_t(cdiv(source.cached, OCTET_PAGE)));
  loaded.cache().share(copy.pages);
  return copy;
}

void Engine::truncate(Sequence &sequence, int64_t length) {
  sequence.tokens.resize(size_t(length));
  sequence.cached = std::min(sequence.cached, length);
  loaded.cache().shrink(sequence.pages, sequence.cached);
}

void Engine::release(Sequence &sequence) {
  loaded.cache().release(sequence.pages);
  sequence.cached = 0;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

int64_t Engine::outputRows(std::span<const Feed> feeds) {
  int64_t rows = 0;
  for (const Feed &feed : feeds)
    rows += feed.outputs;
  return rows;
}

int64_t Engine::pagesNeeded(std::span<const Feed> feeds) const {
  int64_t needed = 0;
  std::map<int32_t, int32_t> copies; // of shared pages, in this step
  for (const Feed &feed : feeds) {
    const Sequence &s = *feed.sequence;
    const size_t first = size_t(s.cached / OCTET_PAGE);
    needed += std::max<int64_t>(
        cdiv(s.cached + feed.count, OCTET_PAGE) - int64_t(s.pages.size()), 0);
    // Only the page of the first new token may hold something already.
    if (first >= s.pages.size())
      continue;
    const int32_t page = s.pages[first];
    if (loaded.cache().owners(page) - copies[page] > 1) {
      ++copies[page];
      ++needed;
    }
  }
  return needed;
}

static constexpr char kStepSubject[] = "step";

Status Engine::checkFeeds(std::span<const Feed> feeds) const {
  const std::string subject = kStepSubject;
  const ProgramInfo &info = loaded.info();
  auto number = [](int64_t value) { return std::to_string(value); };
  if (feeds.empty())
    return usageError(subject, "no sequences; at least one is needed");
  if (int64_t(feeds.size()) > info.maxSeqs)
    return usageError(subject, number(int64_t(feeds.size())) +
                                   " sequences are more than the " +
                                   number(info.maxSeqs) +
                                   " of max_seqs that was compiled");
  int64_t rows = 0;
  std::vector<const Sequence *> seen;
  for (const Feed &feed : feeds) {
    const Sequence &s = *feed.sequence;
    const std::string entry = "entry " + number(&feed - feeds.data());
    if (feed.count < 1 || feed.count > s.pending())
      return usageError(subject, entry + " runs " + number(feed.count) +
                                     " tokens of a sequence that has " +
                                     number(s.pending()) +
                                     " to run; 1 to that many are possible");
    if (feed.outputs < 0 || feed.outputs > feed.count)
      return usageError(subject, entry + " wants logits of " +
                                     number(feed.outputs) + " of its " +
                                     number(feed.count) + " tokens");
    OCTET_TRY(checkLength(s.cached + feed.count, subject));
    rows += feed.count;
    seen.push_back(&s);
  }
  std::ranges::sort(seen);
  if (std::ranges::adjacent_find(seen) != seen.end())
    return usageError(subject, "a sequence is in two entries; each may be in "
                               "one");
  if (rows > info.maxStepTokens)
    return usageError(subject, number(rows) + " tokens are more than the " +
                                   number(info.maxStepTokens) +
                                   " of max_step_tokens that was compiled");
  return Status::success();
}

template <typename RunBatch>
Status Engine::withBatch(std::span<const Feed> feeds, const float *input,
                         RunBatch runBatch) {
  OCTET_TRY(checkFeeds(feeds));
  KvCache &cache = loaded.cache();
  if (const int64_t needed = pagesNeeded(feeds); needed > cache.freePages())
    return machineError(
        kStepSubject, "needs " + std::to_string(needed) +
                          " free pages of the KV "
                          "cache, there are " +
                          std::to_string(cache.freePages()) + " of " +
                          std::to_string(cache.numPages()) +
                          "; freeing or truncating sequences gives some back");

  std::vector<int32_t> ids, positions, slots, outputRows;
  std::vector<octet_sequence> sequences;
  for (const Feed &feed : feeds) {
    Sequence &s = *feed.sequence;
    const int64_t context = s.cached + feed.count;
    const size_t page = size_t(s.cached / OCTET_PAGE);
    if ((page < s.pages.size() && !cache.makeOwn(s.pages[page])) ||
        !cache.grow(s.pages, context))
      return internalError(loaded.path(), "free KV pages were miscounted");
    const int64_t first = int64_t(positions.size());
    for (int64_t p = s.cached; p < context; ++p) {
      ids.push_back(s.tokens[p]);
      positions.push_back(int32_t(p));
      slots.push_back(s.pages[p / OCTET_PAGE] * OCTET_PAGE +
                      int32_t(p % OCTET_PAGE));
      if (p >= context - feed.outputs)
        outputRows.push_back(int32_t(positions.size()) - 1);
    }
    sequences.push_back({first, feed.count, context, s.pages.data()});
  }

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
  OCTET_TRY(runBatch(batch));
  for (const Feed &feed : feeds)
    feed.sequence->cached += feed.count;
  return Status::success();
}

Status Engine::run(std::span<const Feed> feeds, const float *input,
                   std::span<float> output, TraceSink *sink) {
  OCTET_TRY(checkFeeds(feeds));
  const int64_t rows = Engine::outputRows(feeds);
  const int64_t width = loaded.info().outputWidth();
  if (int64_t(output.size()) < rows * width)
    return usageError(kStepSubject,
                      "room for " + std::to_string(output.size()) +
                          " logits; " + std::to_string(rows * width) +
                          " are needed (" + std::to_string(rows) + " rows of " +
                          std::to_string(width) + ")");
  return withBatch(feeds, input, [&](octet_batch &batch) {
    batch.output = output.data();
    return loaded.step(batch, sink);
  });
}

Status Engine::draw(std::span<const Feed> feeds, std::span<const Draw> draws,
                    std::span<int32_t> tokens, TraceSink *sink) {
  OCTET_TRY(checkFeeds(feeds));
  const size_t rows = size_t(Engine::outputRows(feeds));
  if (draws.size() < rows || tokens.size() < rows)
    return usageError(kStepSubject,
                      std::to_string(draws.size()) + " draws into room for " +
                          std::to_string(tokens.size()) + " tokens; " +
                          std::to_string(rows) + " are needed");
  if (loaded.draws() && !sink) {
    std::vector<octet_sample_row> options;
    for (const Draw &draw : draws.first(rows)) {
      const SamplerOptions &o = draw.options;
      options.push_back({o.temperature, o.topP, o.minP,
                         uniform(o.seed, draw.stream, draw.index),
                         int32_t(std::min<int64_t>(o.topK, INT32_MAX))});
    }
    return withBatch(feeds, /*input=*/nullptr, [&](octet_batch &batch) {
      return loaded.draw(batch, options, tokens.first(rows));
    });
  }
  const size_t vocab = size_t(loaded.info().vocab);
  std::vector<float> &logits = scratch;
  logits.resize(rows * vocab);
  OCTET_TRY(run(feeds, /*input=*/nullptr, logits, sink));
  for (size_t i = 0; i < rows; ++i)
    tokens[i] = drawToken(std::span(logits).subspan(i * vocab, vocab),
                          draws[i].options, draws[i].stream, draws[i].index);
  return Status::success();
}

Status Engine::step(std::span<const Feed> feeds, std::span<float> logits,
                    TraceSink *sink) {
  return run(feeds, /*input=*/nullptr, logits, sink);
}

int64_t Engine::chunkTokens(int64_t wanted) const {
  const int64_t limit = loaded.info().maxStepTokens;
  return wanted > 0 ? std::min(wanted, limit) : limit;
}

Status Engine::prefill(Sequence &sequence, int64_t outputs,
                       std::vector<float> &logits, TraceSink *sink,
                       int64_t chunk) {
  const size_t vocab = size_t(loaded.info().vocab);
  while (int64_t pending = sequence.pending()) {
    const int64_t count = std::min(pending, chunkTokens(chunk));
    const int64_t rows =
        std::clamp<int64_t>(outputs - (pending - count), 0, count);
    const size_t begin = logits.size();
    logits.resize(begin + size_t(rows) * vocab);
    Feed feed{&sequence, count, rows};
    OCTET_TRY(step({&feed, 1}, std::span(logits).subspan(begin), sink));
  }
  return Status::success();
}

Status Engine::evaluate(std::span<const float> x, int64_t rows,
                        std::span<float> y, int64_t chunk) {
  const ProgramInfo &info = loaded.info();
  Sequence sequence;
  sequence.tokens.assign(size_t(rows), 0); // Only their number matters.
  Status status;
  for (int64_t begin = 0; begin < rows && status.ok();) {
    const int64_t count = std::min(rows - begin, chunkTokens(chunk));
    Feed feed{&sequence, count, count};
    status = run({&feed, 1}, x.data() + begin * info.moduleIn,
                 y.subspan(size_t(begin * info.moduleOut)), /*sink=*/nullptr);
    begin += count;
  }
  release(sequence);
  return status;
}
