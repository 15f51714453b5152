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

#include "octet/Support/Escape.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
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
  std::vector<int32_t> ids;
  Owned<octet_seq> sequence; ///< while its group runs
  std::vector<int32_t> force;
  bool forced = false;
  int64_t rows = 0; ///< of decodeLogits
  std::vector<float> logits;
  std::vector<float> decodeLogits;
  std::vector<int64_t> greedy;
  std::map<std::string, TracedTensor> traces;

  int64_t length() const { return int64_t(ids.size()); }
  /// Whether the token after row `number` runs; the last one's row would be
  /// one more.
  bool isFed(size_t number) const { return int64_t(number) + 1 < rows; }
};

/// Deals the rows of a step's traces out to the prompts they belong to.
class TraceCollector {
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

  /// An octet_trace_fn of a TraceCollector.
  static void collect(void *user, const octet_trace *trace) {
    static_cast<TraceCollector *>(user)->add(*trace);
  }
  Status status;

  /// Words that no trace had so far.
  std::vector<std::string> unseen() const {
    std::vector<std::string> rest;
    std::ranges::set_difference(words, seen, std::back_inserter(rest));
    return rest;
  }

private:
  void add(const octet_trace &trace) {
    std::string_view full = trace.name;
    // `hidden` selects hidden and hidden_norm, `router` router.topk_ids.
    std::string word(full.substr(0, full.find_first_of("._")));
    if (!words.count(word))
      word = full;
    if (!words.count(word))
      return;
    seen.insert(word);
    if (trace.rows != total) {
      if (status.ok())
        status = internalError(
            "logits", fmt::format("trace {} has {} rows in a step of {}",
                                  quoteName(full), trace.rows, total));
      return;
    }
    int64_t row = 0;
    for (auto &[prompt, count] : owners) {
      append(prompt->traces[key(full, trace.index)], trace, row, count);
      row += count;
    }
  }

  /// Puts the index after the first component of the name.
  static std::string key(std::string_view name, int64_t index) {
    if (index < 0 || name == "hidden_norm")
      return std::string(name);
    size_t dot = std::min(name.find('.'), name.size());
    return fmt::format("{}.{}{}", name.substr(0, dot), index, name.substr(dot));
  }

  static void append(TracedTensor &out, const octet_trace &trace, int64_t row,
                     int64_t count) {
    out.integer = trace.integers != nullptr;
    out.cols = trace.cols;
    const int64_t begin = row * trace.cols, end = begin + count * trace.cols;
    if (trace.integers)
      out.integers.insert(out.integers.end(), trace.integers + begin,
                          trace.integers + end);
    else
      out.floats.insert(out.floats.end(), trace.floats + begin,
                        trace.floats + end);
  }

  std::set<std::string> words, seen;
  std::vector<std::pair<Prompt *, int64_t>> owners;
  int64_t total = 0;
};
} // namespace

/// The words of --trace, checked against those that any program may have.
static Result<std::set<std::string>>
traceWords(const std::vector<std::string> &given, const CommonOptions &common) {
  std::set<std::string> words, known{"hidden", "router", "dsa"};
  if (given.empty())
    return words;
  OCTET_TRY_ASSIGN(nlohmann::json info, programInfo(common));
  for (const nlohmann::json &name : info["traces"])
    if (name.is_string())
      known.insert(name.get<std::string>());
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

/// A word of which the program traces nothing, as `router` of a dense model, is
/// told; that there is none else is an error.
static Status checkTraced(const std::vector<std::string> &unseen,
                          size_t asked) {
  if (unseen.empty())
    return Status::success();
  const std::string text =
      fmt::format("this program has no values of {}", fmt::join(unseen, ", "));
  if (unseen.size() == asked)
    return usageError("--trace", text);
  std::fputs(fmt::format("warning: --trace: {}\n", text).c_str(), stderr);
  return Status::success();
}

/// Pairs each NAME with its NAME.force.
static Result<std::vector<Prompt>>
readPrompts(const std::string &path, const Session &session, int64_t decode) {
  OCTET_TRY_ASSIGN(std::vector<NamedIds> entries, readIdsFile(path));
  std::vector<Prompt> prompts;
  std::map<std::string, std::vector<int32_t>> forces;
  for (NamedIds &entry : entries) {
    const std::string subject = path + ": " + quoteName(entry.name);
    if (entry.name.ends_with(".force")) {
      OCTET_TRY_ASSIGN(auto ids, session.checkVocabulary(entry.ids, subject));
      forces[entry.name.substr(0, entry.name.size() - 6)] = std::move(ids);
      continue;
    }
    Prompt prompt;
    OCTET_TRY_ASSIGN(prompt.ids, session.checkIds(entry.ids, subject));
    prompt.name = entry.name;
    prompts.push_back(std::move(prompt));
  }
  for (Prompt &prompt : prompts) {
    if (auto it = forces.find(prompt.name); it != forces.end()) {
      prompt.force = std::move(it->second);
      prompt.forced = true;
      forces.erase(it);
    }
    prompt.rows = prompt.forced ? int64_t(prompt.force.size()) : decode;
    // The last row's token is not fed. Neither number is beyond 2^31, the
    // longest context and the largest --decode, so the sum is exact; a file of
    // 2^31 forced ids is beyond kMaxJsonBytes.
    const int64_t fed = std::max<int64_t>(prompt.rows - 1, 0);
    OCTET_TRY(session.checkLength(prompt.length() + fed,
                                  path + ": " + quoteName(prompt.name) +
                                      " with the tokens after it"));
  }
  if (!forces.empty())
    return inputError(path, quoteName(forces.begin()->first + ".force") +
                                " has no prompt " +
                                quoteName(forces.begin()->first));
  return prompts;
}

/// Runs entries; `logits` becomes their rows.
static Status runStep(const Session &session,
                      std::span<const octet_entry> entries,
                      std::vector<float> &logits) {
  int64_t rows = 0;
  for (const octet_entry &entry : entries)
    rows += entry.outputs;
  logits.resize(size_t(rows * session.limits.vocab));
  return call(octet_step, session.model.get(), entries.data(), entries.size(),
              logits.data(), int64_t(logits.size()));
}

/// Runs the prompts of a group side by side, every position with its logits.
static Status prefillGroup(std::span<Prompt> group, const Session &session,
                           TraceCollector *traces) {
  const size_t vocab = size_t(session.limits.vocab);
  for (Prompt &prompt : group) {
    OCTET_TRY_ASSIGN(prompt.sequence,
                     make<octet_seq>(octet_seq_create, session.model.get()));
    OCTET_TRY(call(octet_seq_append, prompt.sequence.get(), prompt.ids.data(),
                   prompt.ids.size()));
  }
  std::vector<float> logits;
  for (;;) {
    std::vector<octet_entry> entries;
    std::vector<std::pair<Prompt *, int64_t>> owners;
    int64_t left = session.limits.max_step_tokens;
    for (Prompt &prompt : group) {
      octet_seq *seq = prompt.sequence.get();
      const int64_t count =
          std::min({octet_seq_pending(seq), session.chunk, left});
      if (count == 0)
        continue;
      entries.push_back({seq, count, count});
      owners.push_back({&prompt, count});
      left -= count;
    }
    if (entries.empty())
      return Status::success();
    if (traces)
      traces->expect(owners);
    OCTET_TRY(runStep(session, entries, logits));
    if (traces)
      OCTET_TRY(std::exchange(traces->status, Status()));
    auto row = logits.begin();
    for (auto &[prompt, count] : owners) {
      prompt->logits.insert(prompt->logits.end(), row, row + count * vocab);
      row += count * vocab;
    }
  }
}

/// Takes a row of decode logits and appends the token that follows.
static Status takeRow(Prompt &prompt, std::span<const float> row) {
  prompt.decodeLogits.insert(prompt.decodeLogits.end(), row.begin(), row.end());
  int32_t best = -1;
  Status drawn = call(octet_sample, row.data(), int64_t(row.size()),
                      static_cast<const octet_sampler_options *>(nullptr),
                      uint64_t(0), uint64_t(0),
                      static_cast<const int32_t *>(nullptr), size_t(0), &best);
  // Without a finite logit there is no argmax; 0 keeps the ids in range.
  if (!drawn.ok() && drawn.info().kind != ErrorKind::Input)
    return drawn;
  const size_t number = prompt.greedy.size();
  prompt.greedy.push_back(best);
  if (prompt.isFed(number)) {
    const int32_t next =
        prompt.forced ? prompt.force[number] : std::max(best, 0);
    return call(octet_seq_append, prompt.sequence.get(), &next, size_t(1));
  }
  return Status::success();
}

/// Feeds one token of each prompt a step until each has its rows.
static Status decodeGroup(std::span<Prompt> group, const Session &session) {
  const size_t vocab = size_t(session.limits.vocab);
  for (Prompt &prompt : group)
    if (prompt.rows > 0)
      OCTET_TRY(takeRow(prompt, std::span(prompt.logits).last(vocab)));

  std::vector<float> logits;
  for (;;) {
    std::vector<octet_entry> entries;
    std::vector<Prompt *> owners;
    for (Prompt &prompt : group)
      if (int64_t(prompt.greedy.size()) < prompt.rows) {
        entries.push_back({prompt.sequence.get(), 1, 1});
        owners.push_back(&prompt);
      }
    if (entries.empty())
      return Status::success();
    OCTET_TRY(runStep(session, entries, logits));
    for (size_t i = 0; i < owners.size(); ++i)
      OCTET_TRY(
          takeRow(*owners[i], std::span(logits).subspan(i * vocab, vocab)));
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
    add(p.name + ".logits", StoredType::F32, {p.length(), vocab},
        bytesOf(p.logits));
    if (int64_t n = int64_t(p.greedy.size())) {
      add(p.name + ".decode_logits", StoredType::F32, {n, vocab},
          bytesOf(p.decodeLogits));
      add(p.name + ".greedy", StoredType::I64, {n}, bytesOf(p.greedy));
    }
    for (const auto &[key, t] : p.traces)
      add(p.name + "." + key, t.integer ? StoredType::I64 : StoredType::F32,
          {p.length(), t.cols},
          t.integer ? bytesOf(t.integers) : bytesOf(t.floats));
  }
  return writeSafetensors(path, tensors);
}

/// Logits that are no number are written as they are, and told: whoever
/// compares or samples them would find every one equal to nothing.
static void warnOfNan(std::span<const Prompt> prompts, int64_t vocab) {
  std::string first;
  int64_t count = 0;
  for (const Prompt &p : prompts)
    for (auto [values, name] : {std::pair(&p.logits, ".logits"),
                                {&p.decodeLogits, ".decode_logits"}}) {
      auto isNan = [](float value) { return std::isnan(value); };
      auto at = std::ranges::find_if(*values, isNan);
      count += std::count_if(at, values->end(), isNan);
      const int64_t index = at - values->begin();
      if (at != values->end() && first.empty())
        first =
            fmt::format("{} is NaN at row {}, token {}",
                        quoteName(p.name + name), index / vocab, index % vocab);
    }
  if (count > 0)
    std::fputs(fmt::format("warning: logits: {}{}\n", first,
                           count == 1
                               ? "; no other logit is"
                               : fmt::format("; so are {} more", count - 1))
                   .c_str(),
               stderr);
}

Status rt::logitsVerb(const CommonOptions &common,
                      const LogitsOptions &options) {
  OCTET_TRY(checkOutput(common, options.output, {options.idsFile}));
  OCTET_TRY_ASSIGN(Session session,
                   openSession(common, "logits", /*wantsModule=*/false));
  OCTET_TRY_ASSIGN(std::set<std::string> words,
                   traceWords(options.traces, common));
  OCTET_TRY_ASSIGN(std::vector<Prompt> prompts,
                   readPrompts(options.idsFile, session, options.decode));
  // One prompt a step unless --batch asks for more.
  const size_t together = common.batch ? size_t(session.batch) : 1;
  TraceCollector collector(words);
  TraceCollector *traces = words.empty() ? nullptr : &collector;
  Progress progress;
  for (size_t begin = 0; begin < prompts.size(); begin += together) {
    progress.show(fmt::format("{} of {} prompts", begin, prompts.size()));
    std::span<Prompt> group(prompts.data() + begin,
                            std::min(together, prompts.size() - begin));
    octet_model_set_trace(session.model.get(),
                          traces ? TraceCollector::collect : nullptr, traces);
    OCTET_TRY(prefillGroup(group, session, traces));
    octet_model_set_trace(session.model.get(), nullptr, nullptr);
    OCTET_TRY(decodeGroup(group, session));
    for (Prompt &prompt : group)
      prompt.sequence.reset();
  }
  OCTET_TRY(checkTraced(collector.unseen(), words.size()));
  warnOfNan(prompts, session.limits.vocab);
  return writeOutput(options.output, prompts, session.limits.vocab);
}
