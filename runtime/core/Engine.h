//===- Engine.h - Sequences and steps ---------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sequences on the paged cache of a model, and the batches that its program
// runs: prefill chunks and decode rows of several sequences, within its limits.
// How rows are packed never changes their values (B5), so nothing here has to
// be careful about it.
//
// Sequences share pages: a fork has all pages of its source, and whoever writes
// into a page that others have gets a copy first. So a page that more than one
// sequence has is never written.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_ENGINE_H
#define OCTET_RUNTIME_CORE_ENGINE_H

#include "octet/Support/Status.h"
#include "runtime/core/Model.h"
#include "runtime/core/Sampler.h"
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace octet::rt {

/// How the token after an output row is drawn.
struct Draw {
  SamplerOptions options;
  uint64_t stream = 0, index = 0; ///< of Philox
};

/// Tokens of one sequence and how many of them the cache holds.
struct Sequence {
  std::vector<int32_t> tokens; ///< the prompt and what followed
  int64_t cached = 0;
  std::vector<int32_t> pages; ///< cdiv(cached, OCTET_PAGE), or more

  int64_t pending() const { return int64_t(tokens.size()) - cached; }
};

/// Part of a step: the next `count` pending tokens of a sequence.
struct Feed {
  Sequence *sequence;
  int64_t count;   ///< 1 to pending()
  int64_t outputs; ///< how many of the last of them give logits: 0 to count
};

class Engine {
public:
  explicit Engine(Model &model) : loaded(model) {}

  /// \returns an input error that names `subject`, with both numbers: an id
  /// outside the vocabulary.
  template <typename Id>
  Status checkIds(std::span<const Id> ids, const std::string &subject) const {
    for (size_t i = 0; i < ids.size(); ++i)
      if (ids[i] < 0 || int64_t(ids[i]) >= loaded.info().vocab)
        return outsideVocabulary(i, int64_t(ids[i]), subject);
    return Status::success();
  }
  /// Checks a number of tokens alone; `tokens` may be any number.
  /// \returns an input error that names `subject` and both numbers.
  Status checkLength(int64_t tokens, const std::string &subject) const;

  /// A second sequence of the same tokens, which shares the pages.
  Sequence fork(const Sequence &source);
  /// Cuts a sequence to its first `length` tokens and gives the pages behind
  /// them back.
  void truncate(Sequence &sequence, int64_t length);
  /// Gives all pages of a sequence back; its tokens are pending again.
  void release(Sequence &sequence);

  /// \returns a usage error unless they are 1 to max_seqs feeds of at most
  /// max_step_tokens tokens, each sequence is in one, and all are as Feed says.
  Status checkFeeds(std::span<const Feed> feeds) const;
  /// Rows of logits that a step of these feeds gives.
  static int64_t outputRows(std::span<const Feed> feeds);
  /// Free pages that a step of these feeds takes: for new tokens, and for a
  /// copy of each page that is written and shared.
  int64_t pagesNeeded(std::span<const Feed> feeds) const;

  /// Runs one batch.
  /// \param feeds   as checkFeeds wants them.
  /// \param logits  [out] [outputRows, vocab] F32, in feed order.
  /// \returns a usage error if the feeds or `logits` are not so; a machine
  /// error without enough free pages; what the program recorded. The sequences
  /// are then as before.
  Status step(std::span<const Feed> feeds, std::span<float> logits,
              TraceSink *sink = nullptr);

  /// Runs one batch and draws the token after each output row, where the model
  /// runs: a device keeps its logits.
  /// \param draws   [outputRows] in feed order.
  /// \param tokens  [out] [outputRows]; -1 where no logit is above -inf.
  /// \returns what step() does.
  Status draw(std::span<const Feed> feeds, std::span<const Draw> draws,
              std::span<int32_t> tokens, TraceSink *sink = nullptr);

  /// Runs all pending tokens of `sequence`, in chunks.
  /// \param outputs  of the last rows.
  /// \param logits   [out] appended: [outputs, vocab].
  /// \param chunk    most tokens a step; 0: max_step_tokens.
  Status prefill(Sequence &sequence, int64_t outputs,
                 std::vector<float> &logits, TraceSink *sink = nullptr,
                 int64_t chunk = 0);

  /// Runs an extracted module on one sequence of `rows` rows.
  /// \param x      [rows, in].
  /// \param y      [out] [rows, out].
  /// \param chunk  most rows a step; 0: max_step_tokens.
  Status evaluate(std::span<const float> x, int64_t rows, std::span<float> y,
                  int64_t chunk = 0);

  Model &model() { return loaded; }

private:
  Status outsideVocabulary(size_t index, int64_t id,
                           const std::string &subject) const;
  /// Builds the batch of some feeds, with pages for it, and lets `runBatch`
  /// run it.
  template <typename RunBatch>
  Status withBatch(std::span<const Feed> feeds, const float *input,
                   RunBatch runBatch);
  Status run(std::span<const Feed> feeds, const float *input,
             std::span<float> output, TraceSink *sink);
  int64_t chunkTokens(int64_t wanted) const;
  Model &loaded;
  std::vector<float> scratch; ///< logits that are drawn from here
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_ENGINE_H
