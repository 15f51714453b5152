//===- Logits.cpp - `logits`: every position, for tests and evaluation ----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads {"NAME": [ids…], "NAME.force": [ids…]} and writes, for each NAME:
//
//   NAME.logits         F32 [S, V]   of every position of the prompt
//   NAME.decode_logits  F32 [n, V]   row 0 after the prompt, row i after the
//                                    token i - 1 was fed through the cache
//   NAME.greedy         I64 [n]      the argmax of each row of decode_logits;
//                                    it is what is fed, unless NAME.force is
//   NAME.TRACE          F32, I64     what the program traces over the prompt
//
// n is --decode, or the length of NAME.force. A trace `hidden` with index 3
// becomes NAME.hidden.3, `router.topk_ids` with index 3 NAME.router.3.topk_ids;
// a negative index is left out.
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Numerics.h"
#include "octet/Support/Escape.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>

using namespace octet;
using namespace octet::rt;

namespace {
/// Rows of one trace of one prompt, step after step.
struct TracedTensor {
  bool integer = false;
  int64_t cols = 0;
  std::vector<float> floats;
  std::vector<int64_t> integers;
};

/// One prompt and all that is collected for it.
struct Prompt {
  std::string name;
  Sequence sequence;
  std::vector<int32_t> force;
  bool forced = false;
  int64_t length = 0;
  std::vector<float> logits;
  std::vector<float> decodeLogits;
  std::vector<int64_t> greedy;
  std::map<std::string, TracedTensor> traces;

  int64_t decodeRows(int64_t decode) const {
    return forced ? int64_t(force.size()) : decode;
  }
};

/// Deals the rows of a step's traces out to the prompts they belong to.
class TraceCollector : public TraceSink {
public:
  explicit TraceCollector(std::set<std::string> words)
      : words(std::move(words)) {}

  /// Says whose rows the next step has, in order.
  void expect(std::vector<std::pair<Prompt *, int64_t>> rowsOf) {
    owners = std::move(rowsOf);
    total = 0;
    for (auto &[prompt, count] : owners)
      total += count;
  }

  void trace(const char *name, int64_t index, int32_t type, int64_t rows,
             int64_t cols, const void *data) override {
    std::string_view full = name;
    // `hidden` selects hidden and hidden_norm, `router` router.topk_ids.
    std::string word(full.substr(0, full.find_first_of("._")));
    if (!words.count(word) && !words.count(std::string(full)))
      return;
    if (rows != total) {
      if (status.ok())
        status = internalError(
            "logits", fmt::format("trace {} has {} rows in a step of {}",
                                  quoteName(name), rows, total));
      return;
    }
    int64_t row = 0;
    for (auto &[prompt, count] : owners) {
      append(prompt->traces[key(full, index)], type, cols, row, count, data);
      row += count;
    }
  }
  Status status;

private:
  /// Puts the index after the first component of the name.
  static std::string key(std::string_view name, int64_t index) {
    if (index < 0 || name == "hidden_norm")
      return std::string(name);
    size_t dot = std::min(name.find('.'), name.size());
    return fmt::format("{}.{}{}", name.substr(0, dot), index, name.substr(dot));
  }

  static void append(TracedTensor &out, int32_t type, int64_t cols, int64_t row,
                     int64_t count, const void *data) {
    out.integer = type == OCTET_I32;
    out.cols = cols;
    const char *bytes =
        static_cast<const char *>(data) + row * cols * elementBytes(type);
    for (int64_t i = 0; i < count * cols; ++i) {
      const char *p = bytes + i * elementBytes(type);
      auto load = [p](auto value) {
        std::memcpy(&value, p, sizeof(value));
        return value;
      };
      switch (type) {
      case OCTET_F32:
        out.floats.push_back(load(float()));
        break;
      case OCTET_BF16:
        out.floats.push_back(decodeBF16(load(uint16_t())));
        break;
      case OCTET_F16:
        out.floats.push_back(decodeF16(load(uint16_t())));
        break;
      case OCTET_E4M3:
        out.floats.push_back(decodeE4M3(load(uint8_t())));
        break;
      case OCTET_I32:
        out.integers.push_back(load(int32_t()));
        break;
      }
    }
  }

  std::set<std::string> words;
  std::vector<std::pair<Prompt *, int64_t>> owners;
  int64_t total = 0;
};
} // namespace

/// The words of --trace, checked against those that any program may have.
static Result<std::set<std::string>>
traceWords(const std::vector<std::string> &given, const ProgramInfo &info) {
  std::set<std::string> known{"hidden", "router", "dsa"};
  known.insert(info.traces.begin(), info.traces.end());
  std::set<std::string> words;
  for (const std::string &word : given) {
    if (!known.count(word)) {
      std::string names;
      for (const std::string &name : known)
        names += (names.empty() ? "" : ", ") + name;
      return usageError("--trace",
                        "no trace " + quoteName(word) + "; there are " + names);
    }
    words.insert(word);
  }
  return words;
}

/// Pairs each NAME with its NAME.force.
static Result<std::vector<Prompt>>
readPrompts(const std::string &path, const Engine &engine, int64_t decode) {
  OCTET_TRY_ASSIGN(std::vector<NamedIds> entries, readIdsFile(path));
  std::vector<Prompt> prompts;
  std::map<std::string, std::vector<int32_t>> forces;
  for (NamedIds &entry : entries) {
    const std::string subject = path + ": " + quoteName(entry.name);
    if (entry.name.ends_with(".force")) {
      OCTET_TRY_ASSIGN(auto ids, engine.checkVocabulary(entry.ids, subject));
      forces[entry.name.substr(0, entry.name.size() - 6)] = std::move(ids);
      continue;
    }
    OCTET_TRY_ASSIGN(auto ids, engine.checkIds(entry.ids, subject));
    Prompt prompt;
    prompt.name = entry.name;
    prompt.length = int64_t(ids.size());
    prompt.sequence.tokens = std::move(ids);
    prompts.push_back(std::move(prompt));
  }
  for (Prompt &prompt : prompts) {
    if (auto it = forces.find(prompt.name); it != forces.end()) {
      prompt.force = std::move(it->second);
      prompt.forced = true;
      forces.erase(it);
    }
    // The last row's token is not fed. Neither number is beyond 2^31, the
    // longest context and the largest --decode, so the sum is exact; a file of
    // 2^31 forced ids is beyond kMaxJsonBytes.
    const int64_t fed = std::max<int64_t>(prompt.decodeRows(decode) - 1, 0);
    OCTET_TRY(engine.checkLength(prompt.length + fed,
                                 path + ": " + quoteName(prompt.name) +
                                     " with the tokens after it"));
  }
  if (!forces.empty())
    return inputError(path, quoteName(forces.begin()->first + ".force") +
                                " has no prompt " +
                                quoteName(forces.begin()->first));
  return prompts;
}

/// Runs the prompts of a group side by side, every position with its logits.
static Status prefillGroup(std::span<Prompt> group, Engine &engine,
                           TraceCollector *traces) {
  const int64_t budget = engine.model().info().maxStepTokens;
  const size_t vocab = size_t(engine.model().info().vocab);
  std::vector<float> logits;
  for (;;) {
    std::vector<Feed> feeds;
    std::vector<std::pair<Prompt *, int64_t>> owners;
    int64_t left = budget;
    for (Prompt &prompt : group) {
      int64_t count =
          std::min({prompt.sequence.pending(), engine.chunk(), left});
      if (count == 0)
        continue;
      feeds.push_back({&prompt.sequence, count, Outputs::All});
      owners.push_back({&prompt, count});
      left -= count;
    }
    if (feeds.empty())
      return Status::success();
    if (traces)
      traces->expect(owners);
    OCTET_TRY(engine.step(feeds, logits, traces));
    if (traces)
      OCTET_TRY(traces->status);
    auto row = logits.begin();
    for (auto &[prompt, count] : owners) {
      prompt->logits.insert(prompt->logits.end(), row, row + count * vocab);
      row += count * vocab;
    }
  }
}

/// Feeds one token of each prompt a step until each has its rows.
static Status decodeGroup(std::span<Prompt> group, Engine &engine,
                          int64_t decode) {
  const size_t vocab = size_t(engine.model().info().vocab);
  auto take = [&](Prompt &prompt, std::span<const float> row) {
    prompt.decodeLogits.insert(prompt.decodeLogits.end(), row.begin(),
                               row.end());
    int32_t best = argmax(row);
    size_t number = prompt.greedy.size();
    prompt.greedy.push_back(best);
    // Without a finite logit there is no argmax; 0 keeps the ids in range.
    prompt.sequence.tokens.push_back(prompt.forced ? prompt.force[number]
                                                   : std::max(best, 0));
  };
  for (Prompt &prompt : group)
    if (prompt.decodeRows(decode) > 0)
      take(prompt, std::span(prompt.logits).last(vocab));

  std::vector<float> logits;
  for (;;) {
    std::vector<Feed> feeds;
    std::vector<Prompt *> owners;
    for (Prompt &prompt : group)
      if (int64_t(prompt.greedy.size()) < prompt.decodeRows(decode)) {
        feeds.push_back({&prompt.sequence, 1, Outputs::Last});
        owners.push_back(&prompt);
      }
    if (feeds.empty())
      return Status::success();
    OCTET_TRY(engine.step(feeds, logits));
    for (size_t i = 0; i < owners.size(); ++i)
      take(*owners[i], std::span(logits).subspan(i * vocab, vocab));
  }
}

template <typename T>
static std::span<const std::byte> bytesOf(const std::vector<T> &values) {
  return std::as_bytes(std::span(values));
}

static Status writeOutput(const std::string &path,
                          std::span<const Prompt> prompts, int64_t vocab) {
  std::vector<TensorToWrite> tensors;
  auto add = [&](std::string name, StoredType type, std::vector<int64_t> shape,
                 std::span<const std::byte> data) {
    tensors.push_back({std::move(name), type, std::move(shape), data});
  };
  for (const Prompt &p : prompts) {
    add(p.name + ".logits", StoredType::F32, {p.length, vocab},
        bytesOf(p.logits));
    if (int64_t n = int64_t(p.greedy.size())) {
      add(p.name + ".decode_logits", StoredType::F32, {n, vocab},
          bytesOf(p.decodeLogits));
      add(p.name + ".greedy", StoredType::I64, {n}, bytesOf(p.greedy));
    }
    for (const auto &[key, t] : p.traces)
      add(p.name + "." + key, t.integer ? StoredType::I64 : StoredType::F32,
          {p.length, t.cols},
          t.integer ? bytesOf(t.integers) : bytesOf(t.floats));
  }
  return writeSafetensors(path, tensors);
}

Status rt::logitsVerb(Program program, const CommonOptions &common,
                      const LogitsOptions &options) {
  OCTET_TRY_ASSIGN(Session session,
                   openSession(std::move(program), common, "logits",
                               /*wantsModule=*/false));
  Engine &engine = *session.engine;
  OCTET_TRY_ASSIGN(std::set<std::string> words,
                   traceWords(options.traces, session.model->info()));
  OCTET_TRY_ASSIGN(std::vector<Prompt> prompts,
                   readPrompts(options.idsFile, engine, options.decode));
  // One prompt a step unless --batch asks for more.
  const size_t together = common.batch ? size_t(engine.batch()) : 1;
  TraceCollector collector(words);
  Progress progress;
  for (size_t begin = 0; begin < prompts.size(); begin += together) {
    progress.show(fmt::format("{} of {} prompts", begin, prompts.size()));
    std::span<Prompt> group(prompts.data() + begin,
                            std::min(together, prompts.size() - begin));
    OCTET_TRY(
        prefillGroup(group, engine, words.empty() ? nullptr : &collector));
    OCTET_TRY(decodeGroup(group, engine, options.decode));
    for (Prompt &prompt : group)
      engine.release(prompt.sequence);
  }
  return writeOutput(options.output, prompts, session.model->info().vocab);
}
