//===- TokenizerSpec.cpp - tokenizer.json of a GGUF file ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GGUF file names its pre-tokenizer by a word (`tokenizer.ggml.pre`); the
// components here are those of the tokenizer.json that the word stands for.
//
//===----------------------------------------------------------------------===//

#include "Vocabulary.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Tokenizer.h"
#include "octet/Text/Utf8.h"
#include <algorithm>

using namespace octet;
using namespace octet::text;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// Pre-tokenizers by name
//===----------------------------------------------------------------------===//

namespace {
struct PreTokenizerName {
  const char *name;
  std::vector<const char *> patterns; ///< each a Split, Isolated
  bool digits = false;                ///< single digits first
  bool gpt2 = false;                  ///< ByteLevel's own pattern
  bool nfc = false;
  bool ignoreMerges = false;
};
} // namespace

static constexpr char kLlama3[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char kQwen2[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char kQwen35[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char kDeepSeek3[] =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char kTekken[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
static constexpr char kGpt4o[] =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

static const std::vector<PreTokenizerName> &preTokenizers() {
  static const std::vector<PreTokenizerName> names = {
      {.name = "gpt-2", .patterns = {}, .gpt2 = true},
      {.name = "smollm", .patterns = {}, .digits = true, .gpt2 = true},
      {.name = "llama-bpe", .patterns = {kLlama3}, .ignoreMerges = true},
      {.name = "llama3", .patterns = {kLlama3}, .ignoreMerges = true},
      {.name = "llama-v3", .patterns = {kLlama3}, .ignoreMerges = true},
      {.name = "qwen2", .patterns = {kQwen2}, .nfc = true},
      {.name = "qwen35", .patterns = {kQwen35}, .nfc = true},
      {.name = "deepseek-v3",
       .patterns = {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3}},
      {.name = "glm4", .patterns = {kLlama3}},
      {.name = "chatglm-bpe", .patterns = {kLlama3}},
      {.name = "tekken", .patterns = {kTekken}, .ignoreMerges = true},
      {.name = "gpt-4o", .patterns = {kGpt4o}},
  };
  return names;
}

std::vector<std::string> octet::knownPreTokenizers() {
  std::vector<std::string> names;
  for (const PreTokenizerName &entry : preTokenizers())
    names.push_back(entry.name);
  return names;
}

static json byteLevel(bool useRegex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", useRegex}};
}

static json sequence(const char *key, json list) {
  return {{"type", "Sequence"}, {key, std::move(list)}};
}

static Status addByteLevel(const TokenizerSpec &spec,
                           const std::string &subject, json &root) {
  const auto &names = preTokenizers();
  auto found = std::ranges::find_if(
      names, [&](const PreTokenizerName &e) { return spec.pre == e.name; });
  if (found == names.end()) {
    std::string known;
    for (const PreTokenizerName &entry : names)
      known += (known.empty() ? "" : ", ") + std::string(entry.name);
    return inputError(subject, "tokenizer.ggml.pre " + quoteName(spec.pre) +
                                   " is not supported; there are " + known);
  }
  json list = json::array();
  if (found->digits)
    list.push_back({{"type", "Digits"}, {"individual_digits", true}});
  for (const char *pattern : found->patterns)
    list.push_back({{"type", "Split"},
                    {"pattern", {{"Regex", pattern}}},
                    {"behavior", "Isolated"},
                    {"invert", false}});
  list.push_back(byteLevel(found->gpt2));
  root["pre_tokenizer"] = sequence("pretokenizers", std::move(list));
  if (found->nfc)
    root["normalizer"] = {{"type", "NFC"}};
  root["decoder"] = byteLevel(true);
  root["model"]["ignore_merges"] = found->ignoreMerges;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// SentencePiece
//===----------------------------------------------------------------------===//

static void addSentencePiece(const TokenizerSpec &spec, json &root) {
  json normalizers = json::array();
  if (spec.addSpacePrefix)
    normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back(
      {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  root["normalizer"] = sequence("normalizers", std::move(normalizers));
  json decoders = json::array(
      {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
       {{"type", "ByteFallback"}},
       {{"type", "Fuse"}}});
  if (spec.addSpacePrefix)
    decoders.push_back(
        {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  root["decoder"] = sequence("decoders", std::move(decoders));
  root["model"]["byte_fallback"] = true;
  root["model"]["fuse_unk"] = true;
}

/// SentencePiece merges whatever gives the token of the highest score. As a
/// list of merges: every way to cut a token into two tokens, by the token's
/// score, then by the length of the parts in characters.
static json mergesByScore(const TokenizerSpec &spec, const Vocabulary &vocab) {
  struct Merge {
    float score;
    int64_t leftChars, rightChars;
    int32_t left, right;
    size_t order;
  };
  std::vector<Merge> merges;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string_view token = spec.tokens[id];
    const size_t first = merges.size();
    int64_t chars = 0;
    for (std::string_view rest = token; !rest.empty(); takeChar(rest))
      ++chars;
    int64_t leftChars = 0;
    for (std::string_view rest = token; !rest.empty();) {
      takeChar(rest);
      ++leftChars;
      if (rest.empty())
        break;
      int32_t left = vocab.find(token.substr(0, token.size() - rest.size()));
      int32_t right = vocab.find(rest);
      if (left >= 0 && right >= 0)
        merges.push_back(
            {spec.scores[id], leftChars, chars - leftChars, left, right, 0});
    }
    std::sort(merges.begin() + first, merges.end(),
              [](const Merge &a, const Merge &b) {
                return std::pair(a.left, a.right) < std::pair(b.left, b.right);
              });
  }
  for (size_t i = 0; i < merges.size(); ++i)
    merges[i].order = i;
  // Larger first, in all three; equal ones keep their order.
  std::sort(merges.begin(), merges.end(), [](const Merge &a, const Merge &b) {
    if (a.score != b.score)
      return a.score > b.score;
    if (a.leftChars != b.leftChars)
      return a.leftChars > b.leftChars;
    if (a.rightChars != b.rightChars)
      return a.rightChars > b.rightChars;
    return a.order < b.order;
  });
  json list = json::array();
  for (const Merge &merge : merges)
    list.push_back(json::array(
        {spec.tokens[size_t(merge.left)], spec.tokens[size_t(merge.right)]}));
  return list;
}

//===----------------------------------------------------------------------===//
// The whole
//===----------------------------------------------------------------------===//

static Status checkSpec(const TokenizerSpec &spec, const std::string &subject,
                        Vocabulary &vocab) {
  const size_t count = spec.tokens.size();
  if (count == 0 || count > size_t(kMaxId))
    return inputError(subject, "tokenizer.ggml.tokens has " +
                                   std::to_string(count) + " tokens; 1 to " +
                                   std::to_string(kMaxId) + " can be used");
  const auto sameLength = [&](size_t length, const char *name) {
    if (length == count)
      return Status::success();
    return inputError(subject, "tokenizer.ggml." + std::string(name) + " has " +
                                   std::to_string(length) +
                                   " entries; there are " +
                                   std::to_string(count) + " tokens");
  };
  if (!spec.types.empty())
    OCTET_TRY(sameLength(spec.types.size(), "token_type"));
  if (spec.model == "llama")
    OCTET_TRY(sameLength(spec.scores.size(), "scores"));
  vocab.reserve(count);
  for (size_t id = 0; id < count; ++id) {
    if (!isUtf8(spec.tokens[id]))
      return inputError(subject, "tokenizer.ggml.tokens[" + std::to_string(id) +
                                     "] " + quoteName(spec.tokens[id]) +
                                     " is not UTF-8");
    if (!vocab.add(spec.tokens[id], int32_t(id)))
      return inputError(subject,
                        "tokenizer.ggml.tokens[" + std::to_string(id) + "] " +
                            quoteName(spec.tokens[id]) + " is also token " +
                            std::to_string(vocab.find(spec.tokens[id])));
  }
  for (auto [id, name] : {std::pair(spec.bos, "bos_token_id"),
                          {spec.eos, "eos_token_id"},
                          {spec.unk, "unknown_token_id"}})
    if (id < -1 || id >= int64_t(count))
      return inputError(subject, "tokenizer.ggml." + std::string(name) +
                                     " is " + std::to_string(id) +
                                     "; there are " + std::to_string(count) +
                                     " tokens");
  return Status::success();
}

static json templateOf(const TokenizerSpec &spec) {
  json single = json::array(), specials = json::object();
  const auto add = [&](bool wanted, int64_t id) {
    if (!wanted || id < 0)
      return;
    const std::string &token = spec.tokens[size_t(id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    specials[token] = {
        {"id", token}, {"ids", {id}}, {"tokens", json::array({token})}};
  };
  add(spec.addBos, spec.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(spec.addEos, spec.eos);
  if (single.size() == 1)
    return nullptr;
  json pair = single; // Pairs are not for decoders, but the field is required.
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"},
          {"single", std::move(single)},
          {"pair", std::move(pair)},
          {"special_tokens", std::move(specials)}};
}

Result<std::string> octet::writeTokenizerJson(const TokenizerSpec &spec,
                                              const std::string &subject) {
  const bool sentencePiece = spec.model == "llama";
  if (!sentencePiece && spec.model != "gpt2")
    return inputError(subject, "tokenizer.ggml.model " + quoteName(spec.model) +
                                   " is not supported; there are gpt2 and "
                                   "llama");
  Vocabulary vocab;
  OCTET_TRY(checkSpec(spec, subject, vocab));

  json root = {{"version", "1.0"},         {"truncation", nullptr},
               {"padding", nullptr},       {"normalizer", nullptr},
               {"pre_tokenizer", nullptr}, {"decoder", nullptr}};
  json &model = root["model"] = {{"type", "BPE"},
                                 {"dropout", nullptr},
                                 {"unk_token", nullptr},
                                 {"continuing_subword_prefix", nullptr},
                                 {"end_of_word_suffix", nullptr},
                                 {"fuse_unk", false},
                                 {"byte_fallback", false},
                                 {"ignore_merges", false}};
  if (sentencePiece) {
    addSentencePiece(spec, root);
    if (spec.unk >= 0)
      model["unk_token"] = spec.tokens[size_t(spec.unk)];
    model["merges"] = mergesByScore(spec, vocab);
  } else {
    OCTET_TRY(addByteLevel(spec, subject, root));
    for (size_t i = 0; i < spec.merges.size(); ++i)
      if (!isUtf8(spec.merges[i]))
        return inputError(subject, "tokenizer.ggml.merges[" +
                                       std::to_string(i) + "] is not UTF-8");
    model["merges"] = spec.merges;
  }
  json entries = json::object();
  for (size_t id = 0; id < spec.tokens.size(); ++id)
    entries[spec.tokens[id]] = id;
  model["vocab"] = std::move(entries);

  json added = json::array();
  for (size_t id = 0; id < spec.types.size(); ++id) {
    const int32_t type = spec.types[id];
    const bool special = type == TokenizerSpec::Control ||
                         (sentencePiece && type == TokenizerSpec::Unknown);
    if (!special && type != TokenizerSpec::UserDefined)
      continue;
    added.push_back({{"id", id},
                     {"content", spec.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  root["added_tokens"] = std::move(added);
  root["post_processor"] = templateOf(spec);
  return dumpJson(root);
}
