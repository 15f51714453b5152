//===- FuzzTokenizer.cpp - tokenizer.json, then a text --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: tokenizer.json, a zero byte, a text. Without JSON the text goes
// through tokenizers of our own, which must give it back as it was.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Tokenizer.h"
#include "octet/Text/Utf8.h"

using namespace octet;
using namespace octet::fuzz;

OCTET_FUZZ_MUTATES_JSON

/// Text decoded id by id is the text decoded at once; each piece is whole
/// characters.
static std::string decode(const Tokenizer &tokenizer,
                          const std::vector<int32_t> &ids, bool skipSpecial) {
  StreamDecoder stream(tokenizer, skipSpecial);
  std::string text;
  for (int32_t id : ids) {
    const std::string piece = stream.push(id);
    require(isUtf8(piece), "a piece is whole characters", piece);
    text += piece;
  }
  text += stream.finish();
  require(isUtf8(text), "decoded text is UTF-8", text);
  require(text == tokenizer.decode(ids, skipSpecial),
          "a stream gives what decode gives", text);
  return text;
}

/// \returns the text of the ids, or nothing where a pattern finds no end.
static std::optional<std::string>
roundTrip(const Tokenizer &tokenizer, std::string_view text, bool addSpecial) {
  Result<std::vector<int32_t>> ids = tokenizer.encode(text, addSpecial);
  if (!ids) {
    requireGoodError(ids.status());
    return std::nullopt;
  }
  Result<std::vector<int32_t>> again = tokenizer.encode(text, addSpecial);
  require(again.ok() && *again == *ids, "the same text has the same ids");
  for (int32_t id : *ids) {
    require(id >= 0 && id < tokenizer.end(), "an id is below the end",
            std::to_string(id));
    require(tokenizer.token(id).has_value(), "an id has a token",
            std::to_string(id));
  }
  std::string decoded = decode(tokenizer, *ids, /*skipSpecial=*/false);
  decode(tokenizer, *ids, /*skipSpecial=*/true);
  // What no encoder gives: any order, ids that nobody has.
  std::vector<int32_t> shuffled;
  for (size_t i = 0; i < text.size() && i < 64; ++i)
    shuffled.push_back(int32_t(uint8_t(text[i])) * 37 - 100);
  shuffled.insert(shuffled.end(), ids->rbegin(), ids->rend());
  decode(tokenizer, shuffled, /*skipSpecial=*/false);
  return decoded;
}

//===----------------------------------------------------------------------===//
// Tokenizers of our own
//===----------------------------------------------------------------------===//

static TokenizerSpec byteLevelSpec(const char *pre) {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = pre;
  // The characters that stand for the bytes: printable ones for themselves.
  uint32_t other = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool isPlain = (byte >= 33 && byte < 127) ||
                         (byte >= 161 && byte < 173) || byte >= 174;
    appendUtf8(spec.tokens.emplace_back(), isPlain ? byte : other++);
  }
  for (const char *merge : {"t h", "th e", "\u0120 the", "i n", "in g", "1 2",
                            "12 3", "\u00c3 \u00a4", "\u010a \u010a"}) {
    spec.merges.push_back(merge);
    std::string token = merge;
    token.erase(token.find(' '), 1);
    spec.tokens.push_back(token);
  }
  spec.types.assign(spec.tokens.size(), TokenizerSpec::Normal);
  return spec;
}

static TokenizerSpec byteFallbackSpec() {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.addSpacePrefix = false;
  auto add = [&](std::string token, float score,
                 TokenizerSpec::TokenType type) {
    spec.tokens.push_back(std::move(token));
    spec.scores.push_back(score);
    spec.types.push_back(type);
  };
  add("<unk>", 0, TokenizerSpec::Unknown);
  spec.unk = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const char *digits = "0123456789ABCDEF";
    add(std::string("<0x") + digits[byte / 16] + digits[byte % 16] + ">", 0,
        TokenizerSpec::Byte);
  }
  float score = -1;
  for (const char *token : {"\u2581", "t", "h", "e", "th", "the", "\u2581the",
                            "\u00e4", "\u4f60", "1", "11", "\u2581\u2581"})
    add(token, score--, TokenizerSpec::Normal);
  return spec;
}

static std::vector<Tokenizer> makeOwn() {
  std::vector<TokenizerSpec> specs = {byteFallbackSpec()};
  // qwen2 normalises (NFC) and gives back the normalised text.
  for (const char *pre : {"smollm", "llama-bpe"})
    specs.push_back(byteLevelSpec(pre));
  std::vector<Tokenizer> tokenizers;
  for (const TokenizerSpec &spec : specs) {
    Result<Tokenizer> tokenizer = Tokenizer::fromSpec(spec, spec.pre);
    require(tokenizer.ok(), "our own tokenizer can be read",
            tokenizer.ok() ? "" : tokenizer.status().info().format());
    tokenizers.push_back(tokenizer.take());
  }
  return tokenizers;
}

static void readText(std::string_view text) {
  static const std::vector<Tokenizer> kOwn = makeOwn();
  std::string expected = toUtf8(text);
  for (const Tokenizer &tokenizer : kOwn) {
    std::optional<std::string> decoded =
        roundTrip(tokenizer, text, /*addSpecial=*/false);
    require(decoded.has_value(), "our own patterns come to an end");
    // A U+2581 of the text is a space to SentencePiece.
    if (&tokenizer == &kOwn[0] && expected.find("\u2581") != expected.npos)
      continue;
    // A token's spelling in the text is that token.
    if (expected.find("<unk>") != expected.npos)
      continue;
    require(*decoded == expected, "decode inverts encode", *decoded);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view text = toText(data, size);
  const std::string_view file = takePart(text);
  if (file.empty()) {
    readText(text);
    return 0;
  }
  Result<Tokenizer> tokenizer = Tokenizer::fromJson(file, "tokenizer.json");
  if (!tokenizer) {
    requireGoodError(tokenizer.status());
    return 0;
  }
  for (const std::string &warning : tokenizer->warnings())
    requireGoodText(warning);
  for (int64_t id = -1; id < std::min<int64_t>(tokenizer->end(), 512); ++id)
    if (std::optional<std::string_view> token = tokenizer->token(id))
      require(tokenizer->find(*token) >= 0, "a token is found", *token);
  roundTrip(*tokenizer, text, /*addSpecial=*/true);
  roundTrip(*tokenizer, text, /*addSpecial=*/false);
  return 0;
}
