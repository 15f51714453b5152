//===- GgufTokenizerFiles.cpp - The tokenizer of a GGUF file --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Quantize/GgufTokenizerFiles.h"
#include "octet/Text/Tokenizer.h"

using namespace octet;
using Json = nlohmann::ordered_json;

/// What llama.cpp assumes where the metadata do not say.
static bool addsBosByDefault(const GgufTokenizer &tokenizer) {
  if (tokenizer.model == "llama")
    return true;
  for (const char *pre : {"llama-bpe", "llama3", "llama-v3", "tekken"})
    if (tokenizer.pre == pre)
      return true;
  return false;
}

static TokenizerSpec makeSpec(const GgufTokenizer &tokenizer) {
  TokenizerSpec spec;
  spec.model = tokenizer.model;
  spec.pre = tokenizer.pre;
  spec.tokens = tokenizer.tokens;
  // Types beyond 32 bits are unknown ones either way.
  for (int64_t type : tokenizer.types)
    spec.types.push_back(type == int32_t(type) ? int32_t(type) : 0);
  spec.scores.assign(tokenizer.scores.begin(), tokenizer.scores.end());
  spec.merges = tokenizer.merges;
  spec.bos = tokenizer.bos.value_or(-1);
  spec.eos = tokenizer.eos.value_or(-1);
  spec.unk = tokenizer.unknown.value_or(-1);
  spec.addBos =
      tokenizer.bos && tokenizer.addBos.value_or(addsBosByDefault(tokenizer));
  spec.addEos = tokenizer.eos && tokenizer.addEos.value_or(false);
  spec.addSpacePrefix = tokenizer.addSpacePrefix.value_or(true);
  return spec;
}

/// `added_tokens_decoder` repeats the added tokens of tokenizer.json, by id.
static Json makeAddedTokens(const nlohmann::json &added) {
  Json::object_t entries;
  for (const nlohmann::json &token : added) {
    Json entry = token;
    std::string id = std::to_string(entry["id"].get<int64_t>());
    entry.erase("id");
    // Ids differ. An ordered object would look at every key it has first.
    entries.Json::object_t::Container::emplace_back(std::move(id),
                                                    std::move(entry));
  }
  return entries;
}

Result<std::optional<TokenizerFiles>>
octet::makeTokenizerFiles(const GgufMetadata &metadata) {
  OCTET_TRY_ASSIGN(std::optional<GgufTokenizer> tokenizer,
                   readGgufTokenizer(metadata));
  if (!tokenizer)
    return std::optional<TokenizerFiles>();
  TokenizerSpec spec = makeSpec(*tokenizer);
  TokenizerFiles files;
  OCTET_TRY_ASSIGN(files.tokenizer, writeTokenizerJson(spec, metadata.subject));

  Json config;
  config["add_bos_token"] = spec.addBos;
  config["add_prefix_space"] = false;
  nlohmann::json written =
      nlohmann::json::parse(files.tokenizer, nullptr, /*exceptions=*/false);
  config["added_tokens_decoder"] = makeAddedTokens(written["added_tokens"]);
  for (auto [key, id] : {std::pair("bos_token", tokenizer->bos),
                         std::pair("eos_token", tokenizer->eos),
                         std::pair("unk_token", tokenizer->unknown),
                         std::pair("pad_token", tokenizer->padding)})
    if (id)
      config[key] = tokenizer->tokens[size_t(*id)];
  if (tokenizer->chatTemplate)
    config["chat_template"] = *tokenizer->chatTemplate;
  config["clean_up_tokenization_spaces"] = false;
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  files.tokenizerConfig =
      config.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return std::optional<TokenizerFiles>(std::move(files));
}
