//===- Tokenize.cpp - `tokenize` and `detokenize` -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "runtime/cli/Session.h"
#include "runtime/cli/Verbs.h"
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;
using nlohmann::json;

static Result<std::string> readStandardInput() {
  return readAll(STDIN_FILENO, "standard input", INT64_MAX);
}

/// The parts of `text` that `separator` ends; a last one need not be ended.
static std::vector<std::string_view> splitAt(std::string_view text,
                                             char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    size_t length = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, length));
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return parts;
}

//===----------------------------------------------------------------------===//
// tokenize
//===----------------------------------------------------------------------===//

static std::string describe(const octet_tokenizer *tokenizer,
                            std::span<const int32_t> ids, bool asJson) {
  if (!asJson)
    return fmt::format("{}\n", fmt::join(ids, ","));
  json tokens = json::array();
  for (int32_t id : ids)
    tokens.push_back(std::string(tokenOf(tokenizer, id)));
  return fmt::format("{{\"ids\": [{}], \"tokens\": {}}}\n",
                     fmt::join(ids, ", "), dumpJson(tokens));
}

Status rt::tokenizeVerb(const CommonOptions &common,
                        const TokenizeOptions &options) {
  OCTET_TRY_ASSIGN(Owned<octet_tokenizer> tokenizer, openTokenizer(common));
  OCTET_TRY_ASSIGN(std::string input, readStandardInput());
  std::vector<std::string_view> texts{input};
  if (options.null)
    texts = splitAt(input, '\0');
  for (std::string_view text : texts) {
    OCTET_TRY_ASSIGN(std::vector<int32_t> ids,
                     encode(tokenizer.get(), text, !options.noSpecial));
    OCTET_TRY(print(describe(tokenizer.get(), ids, options.json)));
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// detokenize
//===----------------------------------------------------------------------===//

/// `1,2 3`, `[1, 2, 3]` or `{"ids": [1, 2, 3]}`.
static Result<std::vector<int64_t>> readIds(std::string_view line,
                                            const std::string &subject) {
  size_t first = line.find_first_not_of(" \t\r");
  if (first == line.npos)
    return std::vector<int64_t>();
  if (line[first] == '[' || line[first] == '{') {
    OCTET_TRY_ASSIGN(json value, parseJson(line, subject));
    if (value.is_array())
      return idsOf(value, subject);
    if (!value.contains("ids"))
      return inputError(subject, "not an object {\"ids\": [ids…]}");
    return idsOf(value["ids"], subject);
  }
  std::string list;
  for (char c : line.substr(first, line.find_last_not_of(" \t\r") + 1 - first))
    if (bool blank = c == ' ' || c == '\t' || c == '\r' || c == ','; !blank)
      list += c;
    else if (!list.empty() && list.back() != ',')
      list += ',';
  return parseIds(list, subject);
}

Status rt::detokenizeVerb(const CommonOptions &common,
                          const TokenizeOptions &options) {
  OCTET_TRY_ASSIGN(Owned<octet_tokenizer> tokenizer, openTokenizer(common));
  OCTET_TRY_ASSIGN(std::string input, readStandardInput());
  bool first = true;
  for (std::string_view line : splitAt(input, '\n')) {
    OCTET_TRY_ASSIGN(std::vector<int64_t> wide,
                     readIds(line, "standard input"));
    std::vector<int32_t> ids;
    for (int64_t id : wide) {
      if (!octet_tokenizer_token(tokenizer.get(), id, nullptr))
        return inputError(
            "standard input",
            "id " + std::to_string(id) +
                " is no token; the tokenizer has ids 0 to " +
                std::to_string(octet_tokenizer_end(tokenizer.get()) - 1));
      ids.push_back(int32_t(id));
    }
    OCTET_TRY_ASSIGN(std::string text,
                     callText(octet_tokenizer_decode, tokenizer.get(),
                              ids.data(), ids.size(),
                              int32_t(options.noSpecial)));
    if (options.json)
      OCTET_TRY(print("{\"text\": " + dumpJson(text) + "}\n"));
    else
      OCTET_TRY(print((first ? "" : "\n") + text));
    first = false;
  }
  return Status::success();
}
