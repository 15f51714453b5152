//===- Run.cpp - `run`: continue prompts ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "runtime/cli/Chat.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/TextStream.h"
#include "runtime/cli/Verbs.h"
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <future>
#include <map>

using namespace octet;
using namespace octet::rt;

/// A number that reads back as the same float; JSON has no infinity.
static std::string jsonFloat(float value) {
  return std::isfinite(value) ? fmt::format("{}", value) : "null";
}

static std::string jsonIds(std::span<const int32_t> ids) {
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

/// \param text  nothing without a tokenizer.
static std::string jsonLine(std::span<const int32_t> prompt,
                            const Completion &c,
                            const std::optional<std::string> &text,
                            bool withLogProbs) {
  std::string line =
      fmt::format("{{\"prompt_ids\": {}, \"ids\": {}, \"finish\": \"{}\"",
                  jsonIds(prompt), jsonIds(c.ids), c.finish);
  if (text)
    line += fmt::format(", \"text\": {}", dumpJson(*text));
  if (withLogProbs) {
    std::vector<std::string> values, tops;
    for (const TokenLogProb &token : c.logProbs) {
      values.push_back(jsonFloat(token.logProb));
      std::vector<std::string> top;
      for (auto [id, value] : token.top)
        top.push_back(fmt::format("[{}, {}]", id, jsonFloat(value)));
      tops.push_back(fmt::format("[{}]", fmt::join(top, ", ")));
    }
    line += fmt::format(", \"logprobs\": [{}], \"top_logprobs\": [{}]",
                        fmt::join(values, ", "), fmt::join(tops, ", "));
  }
  return line + "}\n";
}

/// `5(-0.1000; 5 -0.1000, 7 -2.3000)`: an id, its log-probability, and those
/// of the likeliest.
static std::string idLine(const Completion &c, bool withLogProbs) {
  std::string line;
  for (size_t i = 0; i < c.ids.size(); ++i) {
    line += fmt::format("{}{}", i ? " " : "", c.ids[i]);
    if (!withLogProbs)
      continue;
    line += fmt::format("({:.4f}", c.logProbs[i].logProb);
    for (size_t k = 0; auto [id, value] : c.logProbs[i].top)
      line += fmt::format("{}{} {:.4f}", k++ ? ", " : "; ", id, value);
    line += ')';
  }
  return fmt::format("{}{}[{}]\n", line, line.empty() ? "" : " ", c.finish);
}

/// After the text of a completion: its tokens, a line each, with their
/// log-probabilities and the likeliest tokens.
static std::string tokenLines(const octet_tokenizer *tokenizer,
                              const Completion &c) {
  std::string lines;
  auto quoted = [&](int32_t id) {
    return dumpJson(std::string(tokenOf(tokenizer, id)));
  };
  for (size_t i = 0; i < c.ids.size(); ++i) {
    lines += fmt::format("{} {:.4f}", quoted(c.ids[i]), c.logProbs[i].logProb);
    for (size_t k = 0; auto [id, value] : c.logProbs[i].top)
      lines += fmt::format("{} {} {:.4f}", k++ ? "," : ";", quoted(id), value);
    lines += '\n';
  }
  return lines;
}

//===----------------------------------------------------------------------===//
// What is asked for
//===----------------------------------------------------------------------===//

namespace {
/// Prompts and the tokenizer that they need.
struct Prompts {
  std::vector<std::vector<int32_t>> ids;
  bool anyText = false;
};
} // namespace

static Result<std::vector<int32_t>>
encodePrompt(const FilePrompt &prompt, const octet_tokenizer *tokenizer,
             const Session &session) {
  OCTET_TRY_ASSIGN(
      std::vector<int32_t> ids,
      encode(tokenizer, prompt.text, /*addSpecial=*/!prompt.isWhole));
  return session.checkIds(std::vector<int64_t>(ids.begin(), ids.end()),
                          prompt.subject);
}

/// The prompts of the command line or file, checked. `tokenizer` is opened if a
/// prompt is text.
static Result<Prompts> readPrompts(const RunOptions &options,
                                   const CommonOptions &common,
                                   const Session &session,
                                   Owned<octet_tokenizer> &tokenizer) {
  std::vector<FilePrompt> given;
  for (const std::string &text : options.prompts)
    given.push_back({"--prompt", true, {}, text, false});
  for (const std::string &text : options.promptIds) {
    OCTET_TRY_ASSIGN(auto ids, parseIdOption(text, "--prompt-ids"));
    given.push_back({"--prompt-ids", false, std::move(ids), "", false});
  }
  if (!options.promptsFile.empty()) {
    OCTET_TRY_ASSIGN(std::string text, readTextFile(options.promptsFile));
    OCTET_TRY_ASSIGN(given, parsePrompts(text, options.promptsFile));
  }
  if (!options.chats.empty() || !options.messagesFile.empty()) {
    OCTET_TRY_ASSIGN(given, readConversations(options, common));
  }
  Prompts prompts;
  for (const FilePrompt &prompt : given) {
    prompts.anyText |= prompt.isText;
    if (prompt.isText && !tokenizer) {
      OCTET_TRY_ASSIGN(tokenizer, openTokenizer(common));
    }
    OCTET_TRY_ASSIGN(
        auto ids, prompt.isText ? encodePrompt(prompt, tokenizer.get(), session)
                                : session.checkIds(prompt.ids, prompt.subject));
    prompts.ids.push_back(std::move(ids));
  }
  return prompts;
}

static Result<std::vector<int32_t>>
readIdSet(const std::string &text, const char *option, const Session &session) {
  if (text.empty())
    return std::vector<int32_t>();
  OCTET_TRY_ASSIGN(auto ids, parseIdOption(text, option));
  return session.checkVocabulary(ids, option);
}

//===----------------------------------------------------------------------===//
// What comes out
//===----------------------------------------------------------------------===//

namespace {
/// Prompts finish in any order and are printed in theirs; the text of the one
/// whose turn it is goes out as it comes.
class Printer {
public:
  Printer(const Prompts &prompts, const RunOptions &options,
          const octet_tokenizer *tokenizer)
      : prompts(prompts), options(options), tokenizer(tokenizer),
        asText(prompts.anyText && !options.json) {}

  /// \returns true if the prompt is to end.
  bool token(size_t number, int32_t id) {
    if (!tokenizer)
      return false;
    bool stop = stream(number).push(id);
    if (output.ok())
      output = stream(number).takeStatus();
    if (asText && number == printed)
      writeText(number, std::string(stream(number).takeFresh()));
    return stop || !output.ok();
  }

  void done(size_t number, const Completion &completion) {
    finished.emplace(number, completion);
    progress.clear();
    for (auto it = finished.find(printed); it != finished.end();
         it = finished.find(++printed)) {
      writeText(printed, report(printed, it->second));
      finished.erase(it);
      streams.erase(printed);
    }
    if (asText && streams.count(printed))
      writeText(printed, std::string(stream(printed).takeFresh()));
    // A line that is overwritten would be in the way of text.
    if (printed < prompts.ids.size() && !asText)
      progress.show(
          fmt::format("{} of {} prompts", printed, prompts.ids.size()));
  }

  Status output;

private:
  void write(const std::string &text) {
    if (output.ok() && !text.empty())
      output = print(text);
  }

  /// Texts have lines of their own: where there are several, a heading says
  /// which one begins.
  void writeText(size_t number, std::string text) {
    if (asText && prompts.ids.size() > 1 && number == begun && !text.empty()) {
      ++begun;
      text =
          fmt::format("--- prompt {} of {}\n", number + 1, prompts.ids.size()) +
          text;
    }
    write(text);
  }

  TextStream &stream(size_t number) {
    auto it = streams.find(number);
    if (it == streams.end())
      it = streams
               .emplace(number, TextStream(tokenizer, prompts.ids[number],
                                           options.stops))
               .first;
    return it->second;
  }

  std::string report(size_t number, const Completion &completion) {
    const bool withLogProbs = options.generate.logProbs >= 0;
    std::optional<std::string> text;
    if (tokenizer) {
      stream(number).finish();
      text = stream(number).text();
    }
    if (options.json)
      return jsonLine(prompts.ids[number], completion, text, withLogProbs);
    if (!asText)
      return idLine(completion, withLogProbs);
    std::string rest(stream(number).takeFresh());
    rest += '\n';
    return withLogProbs ? rest + tokenLines(tokenizer, completion) : rest;
  }

  const Prompts &prompts;
  const RunOptions &options;
  const octet_tokenizer *tokenizer;
  bool asText;
  Progress progress;
  std::map<size_t, TextStream> streams;
  std::map<size_t, Completion> finished;
  size_t printed = 0;
  size_t begun = 0; ///< prompts with a heading
};
} // namespace

static Status checkOptions(const RunOptions &options) {
  const std::pair<const char *, bool> kinds[] = {
      {"--prompt", !options.prompts.empty()},
      {"--prompt-ids", !options.promptIds.empty()},
      {"--prompts", !options.promptsFile.empty()},
      {"--chat", !options.chats.empty()},
      {"--messages", !options.messagesFile.empty()}};
  OCTET_TRY(checkOneOf("run", kinds));
  for (const std::string &stop : options.stops)
    if (stop.empty())
      return usageError("--stop", "an empty text would end everything");
  return Status::success();
}

Status rt::runVerb(const CommonOptions &common, const RunOptions &options) {
  OCTET_TRY(checkOptions(options));
  // --json gives the text of prompts given as ids too, where it can. A large
  // vocabulary takes as long as the weights, so both are read at once.
  std::future<Result<Owned<octet_tokenizer>>> opening;
  if (!options.stops.empty() || !options.prompts.empty() ||
      !options.chats.empty() || !options.messagesFile.empty() ||
      (options.json && octet_file_has_tokenizer(common.file)))
    opening = std::async(std::launch::async,
                         [&common] { return openTokenizer(common); });
  OCTET_TRY_ASSIGN(Session session,
                   openSession(common, "run", /*wantsModule=*/false));
  Owned<octet_tokenizer> tokenizer;
  if (opening.valid()) {
    OCTET_TRY_ASSIGN(tokenizer, opening.get());
  }
  OCTET_TRY_ASSIGN(Prompts prompts,
                   readPrompts(options, common, session, tokenizer));
  GenerateOptions generate = options.generate;
  OCTET_TRY_ASSIGN(generate.stopIds,
                   readIdSet(options.stopIds, "--stop-ids", session));
  OCTET_TRY_ASSIGN(generate.forbidden,
                   readIdSet(options.forbidIds, "--forbid-ids", session));

  Printer printer(prompts, options, tokenizer.get());
  generate.onToken = [&](size_t number, int32_t id) {
    return printer.token(number, id);
  };
  OCTET_TRY(rt::generate(session, prompts.ids, generate,
                         [&](size_t number, const Completion &completion) {
                           printer.done(number, completion);
                         }));
  return std::move(printer.output);
}
