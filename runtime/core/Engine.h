//===- Engine.h - Sequences and steps ---------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Packs prefill chunks and decode rows of several sequences into the batches
// that a program runs, within its limits. How rows are packed never changes
// their values (B5), so nothing here has to be careful about it.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_ENGINE_H
#define OCTET_RUNTIME_CORE_ENGINE_H

#include "octet/Support/Status.h"
#include "runtime/core/Model.h"
#include "runtime/core/Sampler.h"
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace octet::rt {

/// Tokens of one sequence and how many of them the cache holds.
struct Sequence {
  std::vector<int32_t> tokens; ///< the prompt and what followed
  int64_t cached = 0;
  std::vector<int32_t> pages;

  int64_t pending() const { return int64_t(tokens.size()) - cached; }
};

/// Which rows of a feed give logits.
enum class Outputs { None, Last, All };

/// Part of a step: the next `count` pending tokens of a sequence.
struct Feed {
  Sequence *sequence;
  int64_t count;
  Outputs outputs;
};

struct EngineOptions {
  /// Largest number of prompt tokens of one sequence in a step; 0: the
  /// program's max_step_tokens.
  int64_t chunk = 0;
  /// Largest number of sequences in a step; 0: the program's max_seqs.
  int64_t batch = 0;
};

struct GenerateOptions {
  int64_t maxTokens = 16;
  bool ignoreEos = false;
  std::vector<int32_t> stopIds = {};   ///< end with "stop"; not part of the ids
  std::vector<int32_t> forbidden = {}; ///< never drawn (P17)
  SamplerOptions sampler = {};
  /// Called with a prompt's number and each new id that is not an end; true
  /// ends the prompt with "stop", this id included.
  std::function<bool(size_t, int32_t)> onToken = {};
  int64_t logProbs = -1; ///< alternatives a token; -1: no log-probabilities
};

struct TokenLogProb {
  float logProb;
  std::vector<std::pair<int32_t, float>> top;
};

/// What became of one prompt.
struct Completion {
  std::vector<int32_t>
      ids; ///< without the prompt; ends in eos if that ended it
  const char *finish = "length"; ///< "length", "eos" or "stop"
  std::vector<TokenLogProb> logProbs;
};

class Engine {
public:
  Engine(Model &model, EngineOptions options);

  /// Checks ids from a file or command line and narrows them.
  /// \returns an input error that names `subject`: no ids, an id outside the
  /// vocabulary, more ids than the context holds, each with both numbers.
  Result<std::vector<int32_t>> checkIds(std::span<const int64_t> ids,
                                        const std::string &subject) const;
  /// Checks the number of tokens alone; `tokens` may be any number.
  /// \returns an input error that names `subject` and both numbers.
  Status checkLength(int64_t tokens, const std::string &subject) const;
  /// As checkIds, but of any length.
  Result<std::vector<int32_t>>
  checkVocabulary(std::span<const int64_t> ids,
                  const std::string &subject) const;

  /// Runs one batch.
  /// \param feeds   within the program's limits; each sequence once.
  /// \param logits  [out] [outputs, vocab], the rows wanted in feed order;
  ///                replaced.
  Status step(std::span<const Feed> feeds, std::vector<float> &logits,
              TraceSink *sink = nullptr);

  /// Runs all pending tokens of `sequence`, chunk after chunk.
  /// \param logits  [out] appended: the rows `outputs` asks for.
  Status prefill(Sequence &sequence, Outputs outputs,
                 std::vector<float> &logits, TraceSink *sink = nullptr);

  /// Gives the pages of a sequence back.
  void release(Sequence &sequence);

  /// Runs an extracted module on one sequence of `rows` rows.
  /// \param x  [rows, in].
  /// \returns  [rows, out].
  Result<std::vector<float>> evaluate(std::span<const float> x, int64_t rows);

  /// Continues each prompt; as many at once as options and program allow.
  /// Drawing depends on the prompt's number and the token's, not on the batch.
  /// \param done  called once a prompt, when it is finished.
  Status generate(std::span<const std::vector<int32_t>> prompts,
                  const GenerateOptions &options,
                  const std::function<void(size_t, const Completion &)> &done);

  Model &model() { return loaded; }
  int64_t chunk() const { return chunkTokens; }
  int64_t batch() const { return batchSequences; }

private:
  Status runRows(std::span<const Feed> feeds, const float *input,
                 std::vector<float> &output, TraceSink *sink);
  Model &loaded;
  int64_t chunkTokens;
  int64_t batchSequences;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_ENGINE_H
