//===- Session.h - What verbs share -----------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_SESSION_H
#define OCTET_RUNTIME_CLI_SESSION_H

#include "octet/Support/Status.h"
#include "octet/Text/Tokenizer.h"
#include "runtime/cli/Verbs.h"
#include "runtime/core/Engine.h"
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace octet::rt {

/// One line on stderr that is overwritten; silent unless that is a terminal.
class Progress {
public:
  Progress();
  ~Progress();
  void show(std::string_view text);
  void clear();

private:
  bool terminal;
  bool shown = false;
  std::chrono::steady_clock::time_point last{};
};

/// A loaded model and an engine on it.
struct Session {
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};

/// Loads the weights and prints the model's warnings to stderr.
/// \param wantsModule  whether the verb is for modules or for whole models;
///                     the other kind is a usage error that says which verb.
Result<Session> openSession(Program program, const CommonOptions &common,
                            const char *verb, bool wantsModule);

/// Whether the program carries a tokenizer.
bool hasTokenizer(const CommonOptions &common);
/// The tokenizer that the program carries.
/// \returns an input error if there is none.
Result<Tokenizer> openTokenizer(const CommonOptions &common);

/// `1, 2,3` as integers; `subject` is the option or file in errors.
Result<std::vector<int64_t>> parseIds(std::string_view text,
                                      const std::string &subject);

/// A JSON list of integers.
Result<std::vector<int64_t>> idsOf(const nlohmann::json &value,
                                   const std::string &subject);

/// A prompt or text of ids with the name it has in the file.
struct NamedIds {
  std::string name;
  std::vector<int64_t> ids;
};

/// Ids files: `{"name": [ids…], …}`, sorted by name, or one list, then called
/// `ids`.
Result<std::vector<NamedIds>> readIdsFile(const std::string &path);

/// A prompt of a file: its ids, or its text.
struct FilePrompt {
  std::string subject; ///< of errors: the file and line
  bool isText = false;
  std::vector<int64_t> ids;
  std::string text;
  bool isWhole = false; ///< special tokens are in the text already
};

/// Lines `{"prompt": "text"}` or `{"prompt_ids": [ids…]}`; blank lines are
/// skipped, other keys too.
Result<std::vector<FilePrompt>> readPromptsFile(const std::string &path);

/// All of a file of at most kMaxJsonBytes.
Result<std::string> readTextFile(const std::string &path);

/// Writes to stdout; a full disk or closed pipe is a machine error.
Status print(std::string_view text);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_SESSION_H
