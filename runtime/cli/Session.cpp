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
#include <fcntl.h>
#include <sys/stat.h>
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
// What is asked for
//===----------------------------------------------------------------------===//

Status rt::checkOneOf(const char *verb,
                      std::span<const std::pair<const char *, bool>> given) {
  std::string names;
  const char *first = nullptr;
  for (size_t i = 0; i < given.size(); ++i) {
    auto [name, isGiven] = given[i];
    names += (i == 0                  ? ""
              : i + 1 == given.size() ? " and "
                                      : ", ") +
             std::string(name);
    if (isGiven && first)
      return usageError(verb, std::string(first) + " and " + name +
                                  " exclude each other");
    if (isGiven)
      first = name;
  }
  if (first)
    return Status::success();
  return usageError(verb, "one of " + names + " is needed");
}

Status rt::checkOutput(const CommonOptions &common, const std::string &output,
                       std::vector<std::string> files) {
  if (output == "-")
    return usageError("-o -", "results of this verb go to a file, not to "
                              "stdout; ./- is a file of that name");
  files.push_back(octet_file_path(common.file));
  OCTET_TRY_ASSIGN(json info, programInfo(common));
  if (common.weights != OCTET_RANDOM_WEIGHTS)
    files.push_back(!common.weights.empty() ? common.weights
                                            : info.value("checkpoint", ""));
  return checkNotInput("-o", output, files);
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

Result<std::vector<int64_t>> rt::parseIdOption(std::string_view text,
                                               const std::string &option) {
  Result<std::vector<int64_t>> ids = parseIds(text, option);
  if (ids.ok())
    return ids;
  return usageError(option, ids.status().info().message);
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
  OCTET_TRY_ASSIGN(std::string text, readTextFile(path));
  OCTET_TRY_ASSIGN(json document, parseJson(text, path));
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

static Status checkSize(int64_t bytes, int64_t most,
                        const std::string &subject) {
  if (bytes <= most)
    return Status::success();
  return inputError(subject, std::to_string(bytes) +
                                 " bytes are more than the " +
                                 std::to_string(most) + " that are read");
}

Result<std::string> rt::readAll(int fd, const std::string &subject,
                                int64_t most) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    ssize_t bytes = ::read(fd, buffer, sizeof buffer);
    if (bytes == 0)
      return text;
    if (bytes < 0 && errno == EINTR)
      continue;
    if (bytes < 0)
      return machineError(subject, std::string("cannot be read: ") +
                                       std::strerror(errno));
    text.append(buffer, size_t(bytes));
    OCTET_TRY(checkSize(int64_t(text.size()), most, subject));
  }
}

Result<std::string> rt::readTextFile(const std::string &path) {
  if (path == "-")
    return readAll(STDIN_FILENO, "standard input", kMaxJsonBytes);
  struct stat info;
  if (::stat(path.c_str(), &info) == 0 &&
      (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0)
      return inputError(escapePath(path), std::string("cannot be opened: ") +
                                              std::strerror(errno));
    Result<std::string> text = readAll(fd, escapePath(path), kMaxJsonBytes);
    ::close(fd);
    return text;
  }
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  OCTET_TRY(checkSize(file.size(), kMaxJsonBytes, escapePath(path)));
  std::string text(size_t(file.size()), '\0');
  OCTET_TRY(file.read(0, text));
  return text;
}

static Result<FilePrompt> readPrompt(std::string_view line,
                                     const std::string &subject,
                                     OtherKeys others) {
  OCTET_TRY_ASSIGN(json value, parseJson(line, subject));
  const bool isText = value.is_object() && value.contains("prompt");
  const bool isIds = value.is_object() && value.contains("prompt_ids");
  if (isText == isIds || (isText && !value["prompt"].is_string()))
    return inputError(subject, "not an object {\"prompt\": \"text\"} or "
                               "{\"prompt_ids\": [ids…]}");
  for (const auto &[key, other] : value.items())
    if (others == OtherKeys::Refuse && key != "prompt" && key != "prompt_ids")
      return inputError(subject, "key " + quoteName(key) +
                                     " means nothing here; a line has "
                                     "'prompt' or 'prompt_ids' alone, options "
                                     "such as --max-tokens are for all lines");
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

Result<std::vector<FilePrompt>> rt::parsePrompts(std::string_view text,
                                                 const std::string &path,
                                                 OtherKeys others) {
  std::vector<FilePrompt> prompts;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    size_t length = rest.find('\n');
    std::string_view line = rest.substr(0, length);
    rest.remove_prefix(length == rest.npos ? rest.size() : length + 1);
    if (line.find_first_not_of(" \t\r") == line.npos)
      continue;
    OCTET_TRY_ASSIGN(
        FilePrompt prompt,
        readPrompt(line, path + ":" + std::to_string(number), others));
    prompts.push_back(std::move(prompt));
  }
  if (prompts.empty())
    return inputError(path, "no line {\"prompt\": \"text\"} or "
                            "{\"prompt_ids\": [ids…]}");
  return prompts;
}
