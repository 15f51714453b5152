//===- Session.cpp - What verbs share -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cli/Session.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

Progress::Progress() : terminal(isatty(STDERR_FILENO)) {}
Progress::~Progress() { clear(); }

void Progress::show(std::string_view text) {
  if (!terminal)
    return;
  auto now = std::chrono::steady_clock::now();
  if (shown && now - last < std::chrono::milliseconds(100))
    return;
  last = now;
  shown = true;
  std::fprintf(stderr, "\r\x1b[K%.*s", int(text.size()), text.data());
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown)
    std::fputs("\r\x1b[K", stderr);
  shown = false;
}

Status rt::print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    return machineError("stdout", std::string("cannot be written: ") +
                                      std::strerror(errno));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

Result<json> rt::programInfo(const CommonOptions &common) {
  OCTET_TRY_ASSIGN(std::string text, callText(octet_file_info, common.file));
  return parseJson(text, octet_file_path(common.file));
}

static Status checkKind(const CommonOptions &common, const char *verb,
                        bool wantsModule) {
  const bool isModule = common.limits.module_in > 0;
  if (isModule && !wantsModule) {
    OCTET_TRY_ASSIGN(json info, programInfo(common));
    return usageError(verb, "this program is the module " +
                                quoteName(info["module"].value("path", "")) +
                                "; only 'eval' and 'info' work on it");
  }
  if (!isModule && wantsModule)
    return usageError(verb, "this program is a whole model; 'eval' works on "
                            "one compiled with --extract MODULE");
  return Status::success();
}

Result<Session> rt::openSession(const CommonOptions &common, const char *verb,
                                bool wantsModule) {
  const octet_limits &limits = common.limits;
  OCTET_TRY(checkKind(common, verb, wantsModule));
  if (common.chunk > limits.max_step_tokens)
    return usageError("--chunk", std::to_string(common.chunk) +
                                     " tokens are more than the " +
                                     std::to_string(limits.max_step_tokens) +
                                     " of max_step_tokens that was compiled");
  if (common.batch > limits.max_sequences)
    return usageError("--batch", std::to_string(common.batch) +
                                     " sequences are more than the " +
                                     std::to_string(limits.max_sequences) +
                                     " of max_seqs that was compiled");
  Session session;
  session.limits = limits;
  session.path = octet_file_path(common.file);
  session.chunk = common.chunk ? common.chunk : limits.max_step_tokens;
  session.batch = std::min(common.batch ? common.batch : limits.max_sequences,
                           limits.max_step_tokens);

  octet_model_options options;
  octet_model_options_init(&options, sizeof(options));
  options.weights = common.weights.empty() ? nullptr : common.weights.c_str();
  options.simd = common.simd.empty() ? nullptr : common.simd.c_str();
  options.threads = common.threads;
  Progress progress;
  progress.show("loading weights");
  OCTET_TRY_ASSIGN(session.model,
                   make<octet_model>(octet_model_load, common.file, &options));
  progress.clear();
  if (common.weights == OCTET_RANDOM_WEIGHTS)
    std::fputs(
        "note: --weights random: values are drawn; no checkpoint is read "
        "or compared with the one compiled\n",
        stderr);
  for (size_t i = 0; i < octet_model_warnings(session.model.get()); ++i)
    std::fprintf(stderr, "warning: %s\n",
                 octet_model_warning(session.model.get(), i));
  return session;
}

Result<Owned<octet_tokenizer>> rt::openTokenizer(const CommonOptions &common) {
  return make<octet_tokenizer>(octet_tokenizer_create, common.file);
}

//===----------------------------------------------------------------------===//
// Ids
//===----------------------------------------------------------------------===//

Result<std::vector<int64_t>> rt::parseIds(std::string_view text,
                                          const std::string &subject) {
  std::vector<int64_t> ids;
  const char *p = text.data(), *end = p + text.size();
  auto skipBlanks = [&] {
    while (p != end && (*p == ' ' || *p == '\t'))
      ++p;
  };
  for (;;) {
    skipBlanks();
    int64_t id;
    auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc())
      return inputError(subject, quoteName(text) +
                                     " is not a list of token ids such as "
                                     "1,2,3");
    ids.push_back(id);
    p = next;
    skipBlanks();
    if (p == end)
      return ids;
    if (*p++ != ',')
      return inputError(subject, quoteName(text) +
                                     " is not a list of token ids such as "
                                     "1,2,3");
  }
}

Result<std::vector<int64_t>> rt::idsOf(const json &value,
                                       const std::string &subject) {
  if (!value.is_array())
    return inputError(subject, "not a list of token ids");
  std::vector<int64_t> ids;
  for (const json &id : value) {
    // Beyond int64_t it is outside every vocabulary all the same.
    bool fits = id.is_number_unsigned()
                    ? id.get<uint64_t>() <= uint64_t(INT64_MAX)
                    : id.is_number_integer();
    if (!fits)
      return inputError(subject, "entry " + std::to_string(ids.size()) +
                                     " is not a token id but " +
                                     escapeName(dumpJson(id)));
    ids.push_back(id.get<int64_t>());
  }
  return ids;
}

Status Session::checkLength(int64_t tokens, const std::string &subject) const {
  return about(call(octet_model_check_length, model.get(), tokens), subject);
}

Result<std::vector<int32_t>>
Session::checkVocabulary(std::span<const int64_t> ids,
                         const std::string &subject) const {
  OCTET_TRY(
      about(call(octet_model_check_ids, model.get(), ids.data(), ids.size()),
            subject));
  return std::vector<int32_t>(ids.begin(), ids.end());
}

Result<std::vector<int32_t>>
Session::checkIds(std::span<const int64_t> ids,
                  const std::string &subject) const {
  OCTET_TRY(checkLength(int64_t(ids.size()), subject));
  return checkVocabulary(ids, subject);
}

Result<std::vector<NamedIds>> rt::readIdsFile(const std::string &path) {
  OCTET_TRY_ASSIGN(json document, readJsonFile(path));
  std::vector<NamedIds> result;
  if (document.is_array()) {
    OCTET_TRY_ASSIGN(std::vector<int64_t> ids, idsOf(document, path));
    result.push_back({"ids", std::move(ids)});
    return result;
  }
  if (!document.is_object() || document.empty())
    return inputError(path, "neither a list of token ids nor an object "
                            "{\"name\": [ids…], …}");
  for (const auto &[name, value] : document.items()) {
    OCTET_TRY_ASSIGN(std::vector<int64_t> ids,
                     idsOf(value, path + ": " + quoteName(name)));
    result.push_back({name, std::move(ids)});
  }
  return result;
}

Result<std::string> rt::readTextFile(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > kMaxJsonBytes)
    return inputError(
        path, std::to_string(file.size()) + " bytes are more than the " +
                  std::to_string(kMaxJsonBytes) + " that are read");
  std::string text(size_t(file.size()), '\0');
  OCTET_TRY(file.read(0, text));
  return text;
}

static Result<FilePrompt> readPrompt(std::string_view line,
                                     const std::string &subject) {
  OCTET_TRY_ASSIGN(json value, parseJson(line, subject));
  const bool isText = value.is_object() && value.contains("prompt");
  const bool isIds = value.is_object() && value.contains("prompt_ids");
  if (isText == isIds || (isText && !value["prompt"].is_string()))
    return inputError(subject, "not an object {\"prompt\": \"text\"} or "
                               "{\"prompt_ids\": [ids…]}");
  FilePrompt prompt;
  prompt.subject = subject;
  prompt.isText = isText;
  if (isText) {
    prompt.text = value["prompt"].get<std::string>();
    return prompt;
  }
  OCTET_TRY_ASSIGN(prompt.ids, idsOf(value["prompt_ids"], subject));
  return prompt;
}

Result<std::vector<FilePrompt>> rt::readPromptsFile(const std::string &path) {
  OCTET_TRY_ASSIGN(std::string text, readTextFile(path));
  std::vector<FilePrompt> prompts;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    size_t length = rest.find('\n');
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(length == rest.npos ? rest.size() : length + 1);
    if (line.find_first_not_of(" \t\r") == line.npos)
      continue;
    OCTET_TRY_ASSIGN(FilePrompt prompt,
                     readPrompt(line, path + ":" + std::to_string(number)));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty())
    return inputError(path, "no line {\"prompt\": \"text\"} or "
                            "{\"prompt_ids\": [ids…]}");
  return prompts;
}
