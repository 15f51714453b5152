//===- TextTest.cpp - Tokenizers ------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What can be said on a few tokens. test/e2e/test_tokenizer.py holds the
// library against Hugging Face's on many.
//
//===----------------------------------------------------------------------===//

#include "lib/Text/Regex.h"
#include "lib/Text/Unicode.h"
#include "octet/Text/Tokenizer.h"
#include "octet/Text/Utf8.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace octet;
using namespace octet::text;
using nlohmann::json;
using Ids = std::vector<int32_t>;

//===----------------------------------------------------------------------===//
// UTF-8
//===----------------------------------------------------------------------===//

static std::string replacements(int n) {
  std::string text;
  while (n--)
    text += "\uFFFD";
  return text;
}

TEST(Utf8, ReplacesMaximalParts) {
  EXPECT_EQ(toUtf8("a\xC3\xA4\u4F60\U0001F600"), "aä你😀");
  // Each as Python's bytes.decode(errors="replace") gives it.
  EXPECT_EQ(toUtf8("\xFF"), replacements(1));
  EXPECT_EQ(toUtf8("\xC3"), replacements(1));
  EXPECT_EQ(toUtf8("\xE4\xBD"), replacements(1));
  EXPECT_EQ(toUtf8("\xF0\x9F\x98"), replacements(1));
  EXPECT_EQ(toUtf8("\xED\xA0\x80"), replacements(3)); // a surrogate
  EXPECT_EQ(toUtf8("\xC0\xAF"), replacements(2));     // overlong
  EXPECT_EQ(toUtf8("\xE0\x80\xAF"), replacements(3));
  EXPECT_EQ(toUtf8("\xF4\x90\x80\x80"), replacements(4)); // over U+10FFFF
  EXPECT_EQ(toUtf8("\xF0\x9F\x41"), replacements(1) + "A");
}

TEST(Utf8, StreamGivesWholeCharacters) {
  const std::string text = "aä你😀z";
  Utf8Stream stream;
  std::string out;
  for (char byte : text) {
    std::string piece;
    stream.push(std::string_view(&byte, 1), piece);
    EXPECT_EQ(toUtf8(piece), piece);
    out += piece;
  }
  stream.finish(out);
  EXPECT_EQ(out, text);

  stream.push("\xF0\x9F", out = "");
  EXPECT_EQ(out, "");
  stream.finish(out);
  EXPECT_EQ(out, replacements(1));
}

TEST(Utf8, TakeCharInvertsAppend) {
  for (uint32_t code :
       {0u, 0x7Fu, 0x80u, 0x7FFu, 0x800u, 0xFFFFu, 0x10000u, 0x10FFFFu}) {
    std::string text;
    appendUtf8(text, code);
    std::string_view rest = text;
    EXPECT_EQ(takeChar(rest), code);
    EXPECT_TRUE(rest.empty());
  }
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

/// The parts of `text`, matches in brackets.
static std::string cut(std::string_view pattern, std::string_view text) {
  Result<Regex> regex = Regex::compile(pattern, "test");
  if (!regex)
    return regex.status().info().format();
  std::vector<Span> spans;
  Status status = regex->split(text, spans);
  if (!status.ok())
    return status.info().format();
  std::string out;
  for (const Span &span : spans) {
    std::string part(text.substr(span.begin, span.end - span.begin));
    out += span.isMatch ? "[" + part + "]" : part;
  }
  return out;
}

TEST(Regex, MeansWhatOnigurumaMeans) {
  EXPECT_EQ(cut(R"(\s+)", "a\x0B\x0C\u0085\u3000z"),
            "a[\x0B\x0C\u0085\u3000]z");
  EXPECT_EQ(cut(R"(\s)", "a\u180Ez"), "a\u180Ez"); // PCRE2's \s has it
  EXPECT_EQ(cut(R"([^\S]+)", "a \u180Ez"), "a[ ]\u180Ez");
  EXPECT_EQ(cut(R"(\w+)", "-e\u0301_\u203F5-"), "-[e\u0301_\u203F5]-");
  EXPECT_EQ(cut(R"(\w+)", "x²⁴"), "[x²]⁴");
  EXPECT_EQ(cut(R"([\w]+)", "x²⁴"), "[x]²⁴");
  EXPECT_EQ(cut(R"(\d)", "1٣½"), "[1][٣]½");
  EXPECT_EQ(cut(R"(\h+)", "xyzBEEF09"), "xyz[BEEF09]");
  EXPECT_EQ(cut(R"(^a$)", "a\na"), "[a]\n[a]");
  EXPECT_EQ(cut(R"((?m:a.b))", "a\nb"), "[a\nb]");
  EXPECT_EQ(cut("a.b", "a\nb"), "a\nb");
  EXPECT_EQ(cut("a{,2}b", "aaab"), "a[aab]");
  EXPECT_EQ(cut("a{x", "a{x"), "[a{x]");
  EXPECT_EQ(cut(R"((?i:'S))", "'s'\u017F"), "['s]['\u017F]");
  // U+3001 is used with Han, but is no Han character.
  EXPECT_EQ(cut(R"(\p{Han}+)", "漢、"), "[漢]、");
  EXPECT_EQ(cut(R"(\p{^L}+\p{Uppercase_Letter})", "a1B"), "a[1B]");
  EXPECT_EQ(cut(R"(\u4f60|\x41)", "你A"), "[你][A]");
  EXPECT_EQ(cut("x*", "axb"), "[]a[x]b[]");
}

TEST(Regex, RefusesWhatItDoesNotHave) {
  for (auto [pattern, construct] : {std::pair(R"(a(?<n>b)\k<n>)", "(?<n"),
                                    {R"((a)\1)", "\\1"},
                                    {R"([a[b]])", "[ in a class"},
                                    {R"([a&&b])", "&&"},
                                    {R"([[:alpha:]])", "[:"},
                                    {R"(a{2}+)", "{2}+"},
                                    {R"(\R)", "\\R"},
                                    {R"(a(?i)b)", "(?i)"},
                                    {R"((*FAIL))", "(*FA"},
                                    {R"(\x80)", "\\x80"},
                                    {"[ab", "no ']'"},
                                    {"(a", "missing closing parenthesis"},
                                    {R"(\p{Klingon})", "property"}}) {
    std::string text = cut(pattern, "");
    EXPECT_TRUE(text.starts_with("error: test: pattern ")) << text;
    std::string escaped;
    for (char c : std::string_view(construct))
      escaped +=
          c == '\\' || c == '\'' ? std::string("\\") + c : std::string(1, c);
    EXPECT_TRUE(text.find(construct) != text.npos ||
                text.find(escaped) != text.npos)
        << text;
  }
}

TEST(Regex, EndlessPatternIsAnError) {
  std::string text(5000, 'a');
  std::string message = cut(R"((?:a+a+)+\d)", text);
  EXPECT_NE(message.find("does not come to an end"), message.npos) << message;
}

TEST(Unicode, NormalForms) {
  EXPECT_EQ(normalize("e\u0301", NormalForm::NFC), "é");
  EXPECT_EQ(normalize("é", NormalForm::NFD), "e\u0301");
  EXPECT_EQ(normalize("ﬁ²", NormalForm::NFKC), "fi2");
  EXPECT_EQ(normalize("각", NormalForm::NFD), "\u1100\u1161\u11A8");
  // Marks change places by class, but not with one that is left alone.
  EXPECT_EQ(normalize("a\u0345\u0334", NormalForm::NFC), "a\u0334\u0345");
  EXPECT_EQ(normalize("a\u1DF9\u0334", NormalForm::NFC), "a\u1DF9\u0334");
  EXPECT_EQ(toLower("ÄİΣ"), "äi\u0307σ");
}

//===----------------------------------------------------------------------===//
// Tokenizers
//===----------------------------------------------------------------------===//

/// A byte-level tokenizer of a few tokens.
static json byteLevelJson() {
  return json::parse(R"({
    "added_tokens": [{"id": 9, "content": "<e>", "special": true,
      "single_word": false, "lstrip": false, "rstrip": false,
      "normalized": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false,
      "trim_offsets": true, "use_regex": true},
    "post_processor": null,
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "ab": 3,
      "Ġab": 4, "Ã": 5, "¤": 6, "c": 7, "abc": 8},
      "merges": ["a b", ["Ġ", "ab"]]}})");
}

static Tokenizer make(const json &description) {
  Result<Tokenizer> tokenizer =
      Tokenizer::fromJson(description.dump(), "tokenizer.json");
  if (!tokenizer) {
    ADD_FAILURE() << tokenizer.status().info().format();
    std::abort();
  }
  return tokenizer.take();
}

static Ids encode(const Tokenizer &tokenizer, std::string_view text) {
  Result<Ids> ids = tokenizer.encode(text);
  EXPECT_TRUE(ids.ok());
  return ids.ok() ? *ids : Ids{-1};
}

static std::string errorOf(const std::string &text) {
  Result<Tokenizer> tokenizer = Tokenizer::fromJson(text, "tokenizer.json");
  if (tokenizer.ok())
    return "no error";
  EXPECT_EQ(tokenizer.status().info().exitCode(), 1);
  return tokenizer.status().info().format();
}

/// The error with a part of the description replaced.
static std::string errorWith(const char *pointer, json value) {
  json description = byteLevelJson();
  description[json::json_pointer(pointer)] = std::move(value);
  return errorOf(description.dump());
}

TEST(Tokenizer, ByteLevel) {
  Tokenizer tokenizer = make(byteLevelJson());
  EXPECT_EQ(encode(tokenizer, "ab ab"), (Ids{3, 4}));
  EXPECT_EQ(encode(tokenizer, "ab<e>ä"), (Ids{3, 9, 5, 6}));
  EXPECT_EQ(encode(tokenizer, ""), Ids{});
  EXPECT_EQ(tokenizer.decode(Ids{3, 9, 4, 5, 6}), "ab<e> abä");
  EXPECT_EQ(tokenizer.decode(Ids{3, 9, 4}, /*skipSpecial=*/true), "ab ab");
  EXPECT_EQ(tokenizer.decode(Ids{3, 77, -5, 3}), "abab");
  EXPECT_EQ(tokenizer.token(4), "Ġab");
  EXPECT_EQ(tokenizer.token(9), "<e>");
  EXPECT_EQ(tokenizer.token(10), std::nullopt);
  EXPECT_EQ(tokenizer.token(-1), std::nullopt);
  EXPECT_EQ(tokenizer.find("<e>"), 9);
  EXPECT_EQ(tokenizer.find("nothing"), -1);
  EXPECT_TRUE(tokenizer.isSpecial(9));
  EXPECT_FALSE(tokenizer.isSpecial(4));
  EXPECT_EQ(tokenizer.end(), 10);
  EXPECT_TRUE(tokenizer.warnings().empty());
}

TEST(Tokenizer, IgnoreMergesTakesWholeWords) {
  json description = byteLevelJson();
  EXPECT_EQ(encode(make(description), "abc"), (Ids{3, 7}));
  description["model"]["ignore_merges"] = true;
  EXPECT_EQ(encode(make(description), "abc"), Ids{8});
}

TEST(Tokenizer, AddedTokenTakesSpaces) {
  json description = byteLevelJson();
  description["added_tokens"][0]["lstrip"] = true;
  EXPECT_EQ(encode(make(description), "a <e> a"), (Ids{0, 9, 2, 0}));
  description["added_tokens"][0]["rstrip"] = true;
  EXPECT_EQ(encode(make(description), "a <e> a"), (Ids{0, 9, 0}));
}

TEST(Tokenizer, AddedTokenOfOneWord) {
  json description = byteLevelJson();
  description["added_tokens"][0]["content"] = "bb";
  description["added_tokens"][0]["single_word"] = true;
  Tokenizer tokenizer = make(description);
  EXPECT_EQ(encode(tokenizer, "bb"), Ids{9});
  EXPECT_EQ(encode(tokenizer, "bb bb"), (Ids{9, 2, 9}));
  EXPECT_EQ(encode(tokenizer, "bbb"), (Ids{1, 1, 1}));
  EXPECT_EQ(encode(tokenizer, "abb"), (Ids{3, 1}));
}

TEST(Tokenizer, LongestAddedTokenWins) {
  json description = byteLevelJson();
  json other = description["added_tokens"][0];
  other["content"] = "<e><e>";
  other["id"] = 10;
  description["added_tokens"].push_back(other);
  EXPECT_EQ(encode(make(description), "<e><e><e>"), (Ids{10, 9}));
}

TEST(Tokenizer, IdsOfAddedTokensFollowTheVocabulary) {
  json description = byteLevelJson();
  description["added_tokens"][0]["id"] = 30;
  Tokenizer tokenizer = make(description);
  EXPECT_EQ(encode(tokenizer, "<e>"), Ids{9});
  ASSERT_EQ(tokenizer.warnings().size(), 1u);
  EXPECT_NE(tokenizer.warnings()[0].find("'<e>' has the id 30 in the file, but "
                                         "9 by the vocabulary"),
            std::string::npos);
}

TEST(Tokenizer, PostProcessorAddsTokens) {
  json description = byteLevelJson();
  description["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "<e>", "type_id": 0}},
               {"Sequence": {"id": "A", "type_id": 0}}], "pair": [],
    "special_tokens": {"<e>": {"id": "<e>", "ids": [9], "tokens": ["<e>"]}}})");
  Tokenizer tokenizer = make(description);
  EXPECT_EQ(encode(tokenizer, "ab"), (Ids{9, 3}));
  EXPECT_EQ(*tokenizer.encode("ab", /*addSpecial=*/false), Ids{3});
}

/// SentencePiece-style, without merges but one.
static json sentencePieceJson() {
  json description = json::parse(R"({
    "added_tokens": [{"id": 0, "content": "<s>", "special": true,
      "single_word": false, "lstrip": false, "rstrip": false,
      "normalized": false}],
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "▁"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<s>", "byte_fallback": true,
      "fuse_unk": true, "merges": ["▁ a"]}})");
  json vocab = {{"<s>", 0}, {"▁", 1}, {"a", 2}, {"▁a", 3}, {"é", 4}};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", unsigned(byte));
    vocab[name] = 5 + byte;
  }
  description["model"]["vocab"] = vocab;
  return description;
}

TEST(Tokenizer, ByteFallback) {
  Tokenizer tokenizer = make(sentencePieceJson());
  EXPECT_EQ(encode(tokenizer, "a aé"), (Ids{3, 3, 4}));
  EXPECT_EQ(encode(tokenizer, "ä"), (Ids{1, 5 + 0xC3, 5 + 0xA4}));
  // A byte that is no text stands for U+FFFD.
  EXPECT_EQ(encode(tokenizer, "\xFF"), (Ids{1, 5 + 0xEF, 5 + 0xBF, 5 + 0xBD}));
  EXPECT_EQ(tokenizer.decode(Ids{3, 5 + 0xC3, 5 + 0xA4, 3}), "aä a");
  EXPECT_EQ(tokenizer.decode(Ids{5 + 0xC3, 5 + 'x', 3}),
            replacements(2) + " a");
}

TEST(Tokenizer, UnknownTokens) {
  json description = sentencePieceJson();
  description["model"]["byte_fallback"] = false;
  EXPECT_EQ(encode(make(description), "xya"), (Ids{1, 0, 2}));
  description["model"]["fuse_unk"] = false;
  EXPECT_EQ(encode(make(description), "xya"), (Ids{1, 0, 0, 2}));
  description["model"]["unk_token"] = nullptr;
  // Nothing stands for them, so their neighbours have become neighbours.
  EXPECT_EQ(encode(make(description), "xya"), Ids{3});
}

TEST(StreamDecoder, NeverGivesHalfACharacter) {
  Tokenizer bytes = make(byteLevelJson());
  StreamDecoder decoder(bytes);
  EXPECT_EQ(decoder.push(3), "ab");
  EXPECT_EQ(decoder.push(5), "");
  EXPECT_EQ(decoder.push(6), "ä");
  EXPECT_EQ(decoder.push(5), "");
  EXPECT_EQ(decoder.push(3), replacements(1) + "ab");
  EXPECT_EQ(decoder.push(5), "");
  EXPECT_EQ(decoder.finish(), replacements(1));
  EXPECT_EQ(decoder.push(3), "ab"); // anew

  Tokenizer pieces = make(sentencePieceJson());
  StreamDecoder second(pieces);
  EXPECT_EQ(second.push(3), "a"); // the first space is stripped
  EXPECT_EQ(second.push(3), " a");
  EXPECT_EQ(second.push(5 + 0xC3), "");
  EXPECT_EQ(second.push(5 + 0xA4), "");
  EXPECT_EQ(second.push(2), "äa");
  EXPECT_EQ(second.push(5 + 0xC3), "");
  EXPECT_EQ(second.finish(), replacements(1));
}

TEST(StreamDecoder, PiecesJoinedAreTheWhole) {
  json description = sentencePieceJson();
  json steps = description["decoder"]["decoders"];
  for (json decoder : {description["decoder"],
                       json{{"type", "Metaspace"}, {"replacement", "▁"}},
                       json(nullptr), steps[1], steps[3],
                       json{{"type", "Sequence"},
                            {"decoders",
                             {steps[1],
                              steps[2],
                              steps[0],
                              {{"type", "Strip"},
                               {"content", " "},
                               {"start", 2},
                               {"stop", 3}}}}}}) {
    description["decoder"] = decoder;
    Tokenizer tokenizer = make(description);
    Ids ids = {1, 1,        3, 5 + 0xE2, 5 + 0x82, 5 + 0xAC, 1,
               4, 5 + 0xE2, 2, 0,        1,        1};
    StreamDecoder stream(tokenizer);
    std::string joined;
    for (int32_t id : ids) {
      std::string piece = stream.push(id);
      EXPECT_EQ(toUtf8(piece), piece);
      joined += piece;
    }
    joined += stream.finish();
    EXPECT_EQ(joined, tokenizer.decode(ids));
  }
}

//===----------------------------------------------------------------------===//
// Hostile files
//===----------------------------------------------------------------------===//

TEST(TokenizerErrors, NameTheComponent) {
  const std::pair<std::string, const char *> cases[] = {
      {errorWith("/model/type", "Unigram"), "model: type 'Unigram' is not"},
      {errorWith("/normalizer", {{"type", "Nmt"}}),
       "normalizer: type 'Nmt' is not supported; there are"},
      {errorWith("/pre_tokenizer", {{"type", "UnicodeScripts"}}),
       "pre_tokenizer: type 'UnicodeScripts' is not"},
      {errorWith("/pre_tokenizer/add_prefix_space", 3),
       "pre_tokenizer: field 'add_prefix_space' is 3; expected true or false"},
      {errorWith("/post_processor", {{"type", "Other"}}),
       "post_processor: type 'Other'"},
      {errorWith("/decoder", {{"type", "WordPiece"}}), "decoder: type"},
      {errorWith("/decoder", json::array()), "decoder: is []; expected"},
      {errorWith("/model/dropout", 0.5), "model: dropout is 0.5"},
      {errorWith("/model/vocab/ab", -1), "'ab' has the id -1; ids are 0 to"},
      {errorWith("/model/vocab/ab", 4000000000), "'ab' has the id 4000000000"},
      {errorWith("/model/vocab/ab", 0), "have the same id 0"},
      {errorWith("/model/vocab/ab", 1.5), "'vocab' is not an object"},
      {errorWith("/model/vocab", nullptr), "'vocab' is not an object"},
      {errorWith("/model/merges", {"a  b"}), "model.merges[0]: 'a  b' is not"},
      {errorWith("/model/merges", {"a b", "a c"}),
       "model.merges[1]: 'ac' is not in model.vocab"},
      {errorWith("/model/merges", {"a zz"}), "'zz' is not in model.vocab"},
      {errorWith("/model/merges", {1}), "'merges' is not a list"},
      {errorWith("/model/merges", {{"a"}}), "'merges' is not a list"},
      {errorWith("/added_tokens", 5), "added_tokens: is not a list"},
      {errorWith("/added_tokens/0/content", 5), "field 'content' is 5"},
      {errorWith("/added_tokens", {5}), "added_tokens[0]: is not an object"},
      {errorWith("/model", 1), "model: is missing or not an object"},
      {errorOf("[]"), "is not a JSON object"},
      {errorOf("{}"), "model: is missing"},
      {errorOf(""), "is not JSON"},
  };
  for (const auto &[message, part] : cases) {
    EXPECT_TRUE(message.starts_with("error: tokenizer.json")) << message;
    EXPECT_NE(message.find(part), message.npos) << message << part;
  }
}

TEST(TokenizerErrors, TextsDoNotGrowWithoutEnd) {
  json twice = {
      {"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  json description = byteLevelJson();
  description["normalizer"] = {{"type", "Sequence"},
                               {"normalizers", std::vector<json>(40, twice)}};
  Result<Ids> ids = make(description).encode("a");
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.status().info().format().find(
                "error: tokenizer.json: normalizer: makes more than"),
            std::string::npos);

  description = byteLevelJson();
  json step = description["pre_tokenizer"];
  step["use_regex"] = false;
  description["pre_tokenizer"] = {
      {"type", "Sequence"}, {"pretokenizers", std::vector<json>(40, step)}};
  ids = make(description).encode("ä");
  ASSERT_FALSE(ids.ok());
  EXPECT_NE(ids.status().info().format().find(
                "error: tokenizer.json: pre_tokenizer: makes more than"),
            std::string::npos);

  // A decoder has no way to fail: what would be too long stays as it is.
  description = byteLevelJson();
  description["decoder"] = {{"type", "Sequence"},
                            {"decoders", std::vector<json>(40, twice)}};
  Tokenizer tokenizer = make(description);
  const int32_t a = tokenizer.find("a");
  ASSERT_GE(a, 0);
  EXPECT_EQ(tokenizer.decode(Ids{a}), std::string(4096, 'a'));
}

TEST(TokenizerErrors, ComponentsHaveSoManySteps) {
  for (auto [component, list, type] :
       {std::tuple("normalizer", "normalizers", "NFC"),
        std::tuple("pre_tokenizer", "pretokenizers", "Whitespace"),
        std::tuple("post_processor", "processors", "ByteLevel"),
        std::tuple("decoder", "decoders", "Fuse")}) {
    json steps(256, {{"type", type}});
    json description = byteLevelJson();
    description[component] = {{"type", "Sequence"}, {list, steps}};
    EXPECT_EQ(errorOf(description.dump()), "no error") << component;
    // However they are nested.
    description[component] = {
        {"type", "Sequence"},
        {list, {{{"type", "Sequence"}, {list, steps}}, {{"type", type}}}}};
    EXPECT_EQ(errorOf(description.dump()),
              std::string("error: tokenizer.json: ") + component +
                  ": has more than 256 steps\n");
  }
}

TEST(TokenizerErrors, EveryPrefixIsRefused) {
  const std::string text = byteLevelJson().dump();
  for (size_t length = 0; length < text.size(); ++length)
    EXPECT_NE(errorOf(text.substr(0, length)), "no error") << length;
}

TEST(TokenizerErrors, DuplicateKeys) {
  EXPECT_NE(errorOf(R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})")
                .find("model.vocab: has 'a' twice"),
            std::string::npos);
  EXPECT_NE(errorOf(R"({"model": {"vocab": {}, "vocab": {}, "merges": []}})")
                .find("'vocab' twice"),
            std::string::npos);
}

TEST(TokenizerFile, Escapes) {
  Tokenizer tokenizer = make(json::parse(R"({"model": {
    "vocab": {"\"": 0, "\\": 1, "\ud83d\ude00": 2, "\n": 3, "\"\\": 4},
    "merges": ["\" \\"]}})"));
  EXPECT_EQ(encode(tokenizer, "\"\\😀\n"), (Ids{4, 2, 3}));
  // As written, not as nlohmann would dump it.
  Result<Tokenizer> raw = Tokenizer::fromJson(
      "{\"model\":{\"vocab\":{\"\\u00e9\\/\":0,\"\\ud83d\\ude00\":1},"
      "\"merges\":[]}}",
      "t");
  ASSERT_TRUE(raw.ok()) << raw.status().info().format();
  EXPECT_EQ(raw->token(0), "é/");
  EXPECT_EQ(raw->token(1), "😀");
  EXPECT_NE(errorOf(R"({"model": {"vocab": {"\ud83d": 0}, "merges": []}})"),
            "no error");
}

//===----------------------------------------------------------------------===//
// GGUF
//===----------------------------------------------------------------------===//

static TokenizerSpec byteLevelSpec() {
  TokenizerSpec spec;
  spec.model = "gpt2";
  spec.pre = "smollm";
  spec.tokens = {"a", "b", "Ġ", "ab", "Ġab", "1", "2", "12", "<e>"};
  spec.types = {1, 1, 1, 1, 1, 1, 1, 1, 3};
  spec.merges = {"a b", "Ġ ab", "1 2"};
  spec.bos = spec.eos = 8;
  return spec;
}

TEST(TokenizerSpec, ByteLevel) {
  TokenizerSpec spec = byteLevelSpec();
  Result<Tokenizer> tokenizer = Tokenizer::fromSpec(spec, "file.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().info().format();
  EXPECT_EQ(encode(*tokenizer, "ab ab<e>12"), (Ids{3, 4, 8, 5, 6}));
  EXPECT_TRUE(tokenizer->isSpecial(8));
  spec.addBos = true;
  spec.pre = "llama-bpe";
  EXPECT_EQ(encode(*Tokenizer::fromSpec(spec, "file.gguf"), "ab12"),
            (Ids{8, 3, 7}));
}

TEST(TokenizerSpec, EveryPreTokenizerIsRead) {
  TokenizerSpec spec = byteLevelSpec();
  for (const std::string &name : knownPreTokenizers()) {
    spec.pre = name;
    Result<Tokenizer> tokenizer = Tokenizer::fromSpec(spec, "file.gguf");
    EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().info().format();
  }
}

TEST(TokenizerSpec, SentencePiece) {
  TokenizerSpec spec;
  spec.model = "llama";
  spec.tokens = {"<unk>", "<s>", "▁", "a", "b", "▁a", "ab", "▁ab", "<0xC3>"};
  spec.types = {2, 3, 1, 1, 1, 1, 1, 1, 6};
  spec.scores = {0, 0, -9, -9, -9, -2, -1, -3, 0};
  spec.bos = 1;
  spec.unk = 0;
  spec.addBos = true;
  Result<Tokenizer> tokenizer = Tokenizer::fromSpec(spec, "file.gguf");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().info().format();
  // "ab" has the best score, then "▁" + "ab".
  EXPECT_EQ(encode(*tokenizer, "ab"), (Ids{1, 7}));
  EXPECT_EQ(encode(*tokenizer, "ba"), (Ids{1, 2, 4, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{7, 7}), "ab ab");
}

TEST(TokenizerSpec, Errors) {
  const auto errorFor = [](void (*change)(TokenizerSpec &)) {
    TokenizerSpec spec = byteLevelSpec();
    change(spec);
    Result<Tokenizer> tokenizer = Tokenizer::fromSpec(spec, "file.gguf");
    return tokenizer.ok() ? "no error" : tokenizer.status().info().format();
  };
  const std::pair<std::string, const char *> cases[] = {
      {errorFor([](TokenizerSpec &s) { s.model = "bert"; }),
       "tokenizer.ggml.model 'bert' is not supported; there are gpt2 and "
       "llama"},
      {errorFor([](TokenizerSpec &s) { s.pre = "x"; }),
       "tokenizer.ggml.pre 'x' is not supported; there are gpt-2, smollm"},
      {errorFor([](TokenizerSpec &s) { s.tokens.clear(); }), "has 0 tokens"},
      {errorFor([](TokenizerSpec &s) { s.types.pop_back(); }),
       "token_type has 8 entries; there are 9 tokens"},
      {errorFor([](TokenizerSpec &s) { s.model = "llama"; }),
       "scores has 0 entries"},
      {errorFor([](TokenizerSpec &s) { s.tokens[1] = "a"; }),
       "tokens[1] 'a' is also token 0"},
      {errorFor([](TokenizerSpec &s) { s.tokens[1] = "\xFF"; }), "not UTF-8"},
      {errorFor([](TokenizerSpec &s) { s.eos = 9; }), "eos_token_id is 9"},
      {errorFor([](TokenizerSpec &s) { s.merges[0] = "ab"; }),
       "model.merges[0]: 'ab' is not two tokens"},
  };
  for (const auto &[message, part] : cases) {
    EXPECT_TRUE(message.starts_with("error: file.gguf")) << message;
    EXPECT_NE(message.find(part), message.npos) << message << part;
  }
}
