//===- Run.cpp - `run`: continue prompts ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
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

static std::string jsonLine(std::span<const int32_t> prompt,
                            const Completion &c, bool withLogProbs) {
  std::string line =
      fmt::format("{{\"prompt_ids\": {}, \"ids\": {}, \"finish\": \"{}\"",
                  jsonIds(prompt), jsonIds(c.ids), c.finish);
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

static std::string textLine(const Completion &c, bool withLogProbs) {
  std::string line;
  for (size_t i = 0; i < c.ids.size(); ++i) {
    line += fmt::format("{}{}", i ? " " : "", c.ids[i]);
    if (withLogProbs)
      line += fmt::format("({:.4f})", c.logProbs[i].logProb);
  }
  return fmt::format("{}{}[{}]\n", line, line.empty() ? "" : " ", c.finish);
}

/// The prompts of the command line or file, checked.
static Result<std::vector<std::vector<int32_t>>>
readPrompts(const RunOptions &options, const Engine &engine) {
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string &text : options.promptIds) {
    OCTET_TRY_ASSIGN(auto ids, parseIds(text, "--prompt-ids"));
    OCTET_TRY_ASSIGN(auto checked, engine.checkIds(ids, "--prompt-ids"));
    prompts.push_back(std::move(checked));
  }
  if (!options.promptsFile.empty()) {
    OCTET_TRY_ASSIGN(auto lines, readPromptsFile(options.promptsFile));
    for (size_t i = 0; i < lines.size(); ++i) {
      OCTET_TRY_ASSIGN(
          auto checked,
          engine.checkIds(
              lines[i], fmt::format("{}: prompt {}", options.promptsFile, i)));
      prompts.push_back(std::move(checked));
    }
  }
  return prompts;
}

static Result<std::vector<int32_t>>
readIdSet(const std::string &text, const char *option, const Engine &engine) {
  if (text.empty())
    return std::vector<int32_t>();
  OCTET_TRY_ASSIGN(auto ids, parseIds(text, option));
  return engine.checkVocabulary(ids, option);
}

Status rt::runVerb(Program program, const CommonOptions &common,
                   const RunOptions &options) {
  if (options.promptIds.empty() == options.promptsFile.empty())
    return usageError("run", "one of --prompt-ids and --prompts is needed");
  OCTET_TRY_ASSIGN(Session session, openSession(std::move(program), common,
                                                "run", /*wantsModule=*/false));
  Engine &engine = *session.engine;
  OCTET_TRY_ASSIGN(auto prompts, readPrompts(options, engine));
  GenerateOptions generate = options.generate;
  OCTET_TRY_ASSIGN(generate.stopIds,
                   readIdSet(options.stopIds, "--stop-ids", engine));
  OCTET_TRY_ASSIGN(generate.forbidden,
                   readIdSet(options.forbidIds, "--forbid-ids", engine));

  // Prompts finish in any order and are printed in theirs.
  Progress progress;
  const bool withLogProbs = generate.logProbs >= 0;
  std::map<size_t, Completion> waiting;
  size_t printed = 0;
  Status output;
  auto done = [&](size_t number, const Completion &completion) {
    waiting.emplace(number, completion);
    progress.clear();
    for (auto it = waiting.find(printed); it != waiting.end() && output.ok();
         it = waiting.find(++printed)) {
      output = print(options.json
                         ? jsonLine(prompts[printed], it->second, withLogProbs)
                         : textLine(it->second, withLogProbs));
      waiting.erase(it);
    }
    if (printed < prompts.size())
      progress.show(fmt::format("{} of {} prompts", printed, prompts.size()));
  };
  OCTET_TRY(engine.generate(prompts, generate, done));
  return output;
}
