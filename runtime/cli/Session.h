//===- Session.h - What verbs share -----------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_SESSION_H
#define OCTET_RUNTIME_CLI_SESSION_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Output.h"
#include "octet/Support/Status.h"
#include "runtime/cli/Api.h"
#include "runtime/cli/Verbs.h"
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
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

/// A loaded model and how its steps are cut.
struct Session {
  Owned<octet_model> model;
  octet_limits limits;
  std::string path;  ///< of the program, the subject of errors
  int64_t chunk = 0; ///< most prompt tokens of one sequence in a step
  int64_t batch = 0; ///< most sequences in a step

  /// Checks ids from a file or command line and narrows them.
  /// \returns an input error that names `subject`: no ids, an id outside the
  /// vocabulary, more ids than the context holds, each with both numbers.
  Result<std::vector<int32_t>> checkIds(std::span<const int64_t> ids,
                                        const std::string &subject) const;
  /// As checkIds, but of any length.
  Result<std::vector<int32_t>>
  checkVocabulary(std::span<const int64_t> ids,
                  const std::string &subject) const;
  /// Checks the number of tokens alone; `tokens` may be any number.
  Status checkLength(int64_t tokens, const std::string &subject) const;
};

/// `octet_file_info` of the program.
Result<nlohmann::json> programInfo(const CommonOptions &common);

/// Loads the weights and prints the model's warnings to stderr.
/// \param wantsModule  whether the verb is for modules or for whole models;
///                     the other kind is a usage error that says which verb.
Result<Session> openSession(const CommonOptions &common, const char *verb,
                            bool wantsModule);

/// The tokenizer that the program carries.
/// \returns an input error if there is none.
Result<Owned<octet_tokenizer>> openTokenizer(const CommonOptions &common);

/// `1, 2,3` as integers; `subject` is the option or file in errors.
Result<std::vector<int64_t>> parseIds(std::string_view text,
                                      const std::string &subject);
/// As parseIds, of the value of an option: what is no list is wrong usage.
Result<std::vector<int64_t>> parseIdOption(std::string_view text,
                                           const std::string &option);

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
/// skipped.
/// \param path    `text` was read from it.
/// \param others  what becomes of another key: it would ask a run for something
///                that it does not do, and is nothing to a calibration.
enum class OtherKeys { Refuse, Skip };
Result<std::vector<FilePrompt>>
parsePrompts(std::string_view text, const std::string &path,
             OtherKeys others = OtherKeys::Refuse);

/// All of a file or a pipe, of at most kMaxJsonBytes; `-` is standard input.
Result<std::string> readTextFile(const std::string &path);
/// All that is left of a descriptor, of at most `most` bytes.
Result<std::string> readAll(int fd, const std::string &subject, int64_t most);

/// One of some options is needed, and not more.
/// \param given  each with whether it was given.
Status checkOneOf(const char *verb,
                  std::span<const std::pair<const char *, bool>> given);

/// `-o` is a file and replaces nothing that the program reads: itself, its
/// weights, `files`.
Status checkOutput(const CommonOptions &common, const std::string &output,
                   std::vector<std::string> files);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_SESSION_H
