//===- GgufTokenizer.cpp - The tokenizer of a GGUF file -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Gguf.h"
#include "octet/Support/Escape.h"

using namespace octet;

namespace {

Status keyError(const GgufMetadata &metadata, std::string_view key,
                std::string message) {
  return inputError(metadata.subject, "metadata key " + quoteName(key) + ": " +
                                          std::move(message));
}

Status readId(const GgufMetadata &metadata, const char *name, size_t count,
              std::optional<int64_t> &id) {
  std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
  OCTET_TRY_ASSIGN(id, metadata.findInteger(key));
  // Some writers give 2^32 - 1 for none.
  if (id == int64_t(UINT32_MAX))
    id.reset();
  if (id && (*id < 0 || uint64_t(*id) >= count))
    return keyError(metadata, key,
                    "is " + std::to_string(*id) + "; there are " +
                        std::to_string(count) + " tokens");
  return Status::success();
}

template <typename T>
Status takeList(const GgufMetadata &metadata, const char *key, size_t count,
                Result<const std::vector<T> *> list, std::vector<T> &out) {
  if (!list.ok())
    return list.takeStatus();
  if (!*list)
    return Status::success();
  if ((*list)->size() != count)
    return keyError(metadata, key,
                    "has " + std::to_string((*list)->size()) +
                        " elements for " + std::to_string(count) + " tokens");
  out = **list;
  return Status::success();
}

} // namespace

Result<std::optional<GgufTokenizer>>
octet::readGgufTokenizer(const GgufMetadata &metadata) {
  constexpr const char *kTokens = "tokenizer.ggml.tokens";
  OCTET_TRY_ASSIGN(const std::vector<std::string> *tokens,
                   metadata.findStrings(kTokens));
  if (!tokens)
    return std::optional<GgufTokenizer>();
  GgufTokenizer result;
  result.tokens = *tokens;
  for (size_t i = 0; i < tokens->size(); ++i)
    if (!isUtf8((*tokens)[i]))
      return keyError(metadata, kTokens,
                      "token " + std::to_string(i) + " " +
                          quoteName((*tokens)[i]) + " is no UTF-8");
  OCTET_TRY_ASSIGN(std::optional<std::string> model,
                   metadata.findString("tokenizer.ggml.model"));
  OCTET_TRY_ASSIGN(std::optional<std::string> pre,
                   metadata.findString("tokenizer.ggml.pre"));
  result.model = model.value_or("");
  result.pre = pre.value_or("");
  OCTET_TRY(takeList(metadata, "tokenizer.ggml.scores", tokens->size(),
                     metadata.findNumbers("tokenizer.ggml.scores"),
                     result.scores));
  OCTET_TRY(takeList(metadata, "tokenizer.ggml.token_type", tokens->size(),
                     metadata.findIntegers("tokenizer.ggml.token_type"),
                     result.types));
  OCTET_TRY_ASSIGN(const std::vector<std::string> *merges,
                   metadata.findStrings("tokenizer.ggml.merges"));
  if (merges)
    result.merges = *merges;
  for (auto [name, id] :
       {std::pair("bos", &result.bos), std::pair("eos", &result.eos),
        std::pair("eot", &result.eot), std::pair("unknown", &result.unknown),
        std::pair("padding", &result.padding)})
    OCTET_TRY(readId(metadata, name, tokens->size(), *id));
  OCTET_TRY_ASSIGN(result.addBos,
                   metadata.findBool("tokenizer.ggml.add_bos_token"));
  OCTET_TRY_ASSIGN(result.addEos,
                   metadata.findBool("tokenizer.ggml.add_eos_token"));
  OCTET_TRY_ASSIGN(result.addSpacePrefix,
                   metadata.findBool("tokenizer.ggml.add_space_prefix"));
  OCTET_TRY_ASSIGN(result.chatTemplate,
                   metadata.findString("tokenizer.chat_template"));
  if (result.chatTemplate && !isUtf8(*result.chatTemplate))
    return keyError(metadata, "tokenizer.chat_template", "is no UTF-8");
  return std::optional<GgufTokenizer>(std::move(result));
}
