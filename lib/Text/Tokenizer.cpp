//===- Tokenizer.cpp - Text to ids and back -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The way of a text: added tokens that are looked for in the text as it is; the
// pieces between them normalised; added tokens that are looked for in the
// normalised text; the pieces between them cut into words; the words merged;
// the post-processor's tokens around it all.
//
//===----------------------------------------------------------------------===//

#include "octet/Text/Tokenizer.h"
#include "AddedTokens.h"
#include "Bpe.h"
#include "Decoder.h"
#include "Fields.h"
#include "Normalizer.h"
#include "PostProcessor.h"
#include "PreTokenizer.h"
#include "TokenizerFile.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Text/Utf8.h"
#include <algorithm>
#include <unordered_map>

using namespace octet;
using namespace octet::text;
using nlohmann::json;

struct Tokenizer::Impl {
  Bpe bpe;
  std::vector<AddedToken> added;
  /// Ids that are in `added`, to their place there.
  FlatMap<int32_t> addedById;
  AddedTokenMatcher plain, normalized;
  Normalizer normalizer;
  PreTokenizer preTokenizer;
  PostProcessor postProcessor;
  Decoder decoder;
  std::vector<std::string> warnings;

  Status addTokens(const json &list, const std::string &subject);
  Status encodePiece(std::string_view text, bool first, struct WordCache &cache,
                     std::vector<int32_t> &ids) const;
  Status encodeWords(std::string_view text, bool first, WordCache &cache,
                     std::vector<int32_t> &ids) const;
  const AddedToken *findAdded(int64_t id) const {
    if (id < 0)
      return nullptr;
    const int32_t *index = addedById.find(uint64_t(id));
    return index ? &added[*index] : nullptr;
  }
};

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer &&) noexcept = default;
Tokenizer &Tokenizer::operator=(Tokenizer &&) noexcept = default;
Tokenizer::~Tokenizer() = default;

static Result<BpeOptions> readBpeOptions(const json &model,
                                         const std::string &where) {
  BpeOptions options;
  OCTET_TRY_ASSIGN(std::string type, stringField(model, "type", where, "BPE"));
  if (type != "BPE")
    return unsupportedType(where, type, "BPE");
  if (const json *dropout = field(model, "dropout"))
    if (!dropout->is_number() || dropout->get<double>() != 0)
      return inputError(where, "dropout is " + escapeName(dumpJson(*dropout)) +
                                   "; only null and 0 give the same ids twice");
  options.hasUnk = field(model, "unk_token") != nullptr;
  OCTET_TRY_ASSIGN(options.unkToken,
                   stringField(model, "unk_token", where, ""));
  OCTET_TRY_ASSIGN(options.fuseUnk, boolField(model, "fuse_unk", where, false));
  OCTET_TRY_ASSIGN(options.byteFallback,
                   boolField(model, "byte_fallback", where, false));
  OCTET_TRY_ASSIGN(options.ignoreMerges,
                   boolField(model, "ignore_merges", where, false));
  OCTET_TRY_ASSIGN(options.continuingPrefix,
                   stringField(model, "continuing_subword_prefix", where, ""));
  OCTET_TRY_ASSIGN(options.endSuffix,
                   stringField(model, "end_of_word_suffix", where, ""));
  return options;
}

/// As Hugging Face's library numbers them: an added token that the vocabulary
/// has keeps that id, the others follow after it; the file's own ids are what
/// they should come to.
Status Tokenizer::Impl::addTokens(const json &list,
                                  const std::string &subject) {
  const std::string where = subject + ": added_tokens";
  if (list.is_null())
    return Status::success();
  if (!list.is_array())
    return inputError(where, "is not a list");
  std::unordered_map<std::string, size_t> byContent;
  int64_t next = int64_t(bpe.vocabulary().size());
  for (const json &entry : list) {
    const std::string here =
        where + "[" + std::to_string(&entry - &list[0]) + "]";
    if (!entry.is_object())
      return inputError(here, "is not an object");
    AddedToken token;
    OCTET_TRY_ASSIGN(int64_t id, intField(entry, "id", here));
    OCTET_TRY_ASSIGN(token.content, stringField(entry, "content", here));
    OCTET_TRY_ASSIGN(token.special, boolField(entry, "special", here, false));
    OCTET_TRY_ASSIGN(token.singleWord,
                     boolField(entry, "single_word", here, false));
    OCTET_TRY_ASSIGN(token.lstrip, boolField(entry, "lstrip", here, false));
    OCTET_TRY_ASSIGN(token.rstrip, boolField(entry, "rstrip", here, false));
    OCTET_TRY_ASSIGN(token.normalized,
                     boolField(entry, "normalized", here, !token.special));
    if (token.content.empty())
      continue;
    if (byContent.count(token.content)) {
      warnings.push_back(here + ": " + quoteName(token.content) +
                         " is there twice; the first counts");
      continue;
    }
    int32_t known = bpe.vocabulary().find(token.content);
    token.id = known >= 0 ? known : int32_t(next);
    if (known < 0)
      ++next;
    if (next > kMaxId)
      return inputError(here, "the vocabulary is full with " +
                                  std::to_string(kMaxId) + " tokens");
    if (token.id != id)
      warnings.push_back(here + ": " + quoteName(token.content) +
                         " has the id " + std::to_string(id) +
                         " in the file, but " + std::to_string(token.id) +
                         " by the vocabulary, which counts");
    byContent.emplace(token.content, added.size());
    addedById[uint64_t(token.id)] = int32_t(added.size());
    added.push_back(std::move(token));
  }
  // Special tokens come first where two look alike.
  for (bool special : {true, false})
    for (const AddedToken &token : added) {
      if (token.special != special)
        continue;
      std::string pattern = token.content;
      if (token.normalized)
        OCTET_TRY(normalizer.apply(pattern));
      if (!pattern.empty())
        (token.normalized ? normalized : plain).add(pattern, token);
    }
  return Status::success();
}

Result<Tokenizer> Tokenizer::fromJson(std::string_view text,
                                      const std::string &subject) {
  OCTET_TRY_ASSIGN(TokenizerFile file, readTokenizerFile(text, subject));
  const json &root = file.rest;
  if (!root.is_object())
    return inputError(subject, "is not a JSON object");
  static const json kNull;
  const auto part = [&](const char *key) -> const json & {
    const json *value = field(root, key);
    return value ? *value : kNull;
  };

  const std::string where = subject + ": model";
  const json &model = part("model");
  if (!model.is_object())
    return inputError(where, "is missing or not an object");
  OCTET_TRY_ASSIGN(BpeOptions options, readBpeOptions(model, where));
  if (!file.hasVocab)
    return inputError(where, "'vocab' is not an object {\"token\": id, …}");
  if (!file.hasMerges)
    return inputError(where, "'merges' is not a list of \"left right\" or "
                             "[\"left\", \"right\"]");

  auto impl = std::make_unique<Impl>();
  if (options.hasUnk && file.vocab.find(options.unkToken) < 0)
    impl->warnings.push_back(where + ": unk_token " +
                             quoteName(options.unkToken) +
                             " is not in the vocabulary; unknown characters "
                             "are left out");
  OCTET_TRY_ASSIGN(impl->bpe,
                   Bpe::create(std::move(file.vocab), std::move(options),
                               file.merges, subject));
  OCTET_TRY_ASSIGN(impl->normalizer,
                   Normalizer::read(part("normalizer"), subject));
  OCTET_TRY_ASSIGN(impl->preTokenizer,
                   PreTokenizer::read(part("pre_tokenizer"), subject));
  OCTET_TRY_ASSIGN(impl->postProcessor,
                   PostProcessor::read(part("post_processor"), subject));
  OCTET_TRY_ASSIGN(impl->decoder, Decoder::read(part("decoder"), subject));
  OCTET_TRY(impl->addTokens(part("added_tokens"), subject));

  Tokenizer tokenizer(std::move(impl));
  for (int32_t id : tokenizer.impl->postProcessor.added())
    if (!tokenizer.token(id))
      return inputError(subject + ": post_processor",
                        "the id " + std::to_string(id) +
                            " that it adds is no token's");
  return tokenizer;
}

Result<Tokenizer> Tokenizer::fromFile(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  if (file.size() > kMaxJsonBytes)
    return inputError(escapePath(path), "is " + std::to_string(file.size()) +
                                            " bytes; JSON over " +
                                            std::to_string(kMaxJsonBytes) +
                                            " bytes is not read");
  std::string text(size_t(file.size()), '\0');
  OCTET_TRY(file.read(0, text));
  return fromJson(text, escapePath(path));
}

Result<Tokenizer> Tokenizer::fromSpec(const TokenizerSpec &spec,
                                      const std::string &subject) {
  OCTET_TRY_ASSIGN(std::string text, writeTokenizerJson(spec, subject));
  return fromJson(text, subject);
}

//===----------------------------------------------------------------------===//
// Encoding
//===----------------------------------------------------------------------===//

namespace octet {
/// Ids of words that a text has had before; of one call, so that no thread
/// waits for another.
struct WordCache {
  struct Range {
    uint32_t begin, count;
  };
  static constexpr size_t kMaxWords = 1 << 16;
  static constexpr size_t kMaxBytes = 64; ///< longer words rarely come back

  std::unordered_map<std::string, Range> words;
  std::vector<int32_t> ids;
  Bpe::Scratch scratch;
};
} // namespace octet

static void encodeWord(const Bpe &bpe, const std::string &word,
                       WordCache &cache, std::vector<int32_t> &ids) {
  if (word.size() > WordCache::kMaxBytes) {
    bpe.encode(word, cache.scratch, ids);
    return;
  }
  if (auto it = cache.words.find(word); it != cache.words.end()) {
    auto begin = cache.ids.begin() + it->second.begin;
    ids.insert(ids.end(), begin, begin + it->second.count);
    return;
  }
  const size_t from = ids.size();
  bpe.encode(word, cache.scratch, ids);
  if (cache.words.size() >= WordCache::kMaxWords)
    return;
  cache.words.emplace(word, WordCache::Range{uint32_t(cache.ids.size()),
                                             uint32_t(ids.size() - from)});
  cache.ids.insert(cache.ids.end(), ids.begin() + from, ids.end());
}

Status Tokenizer::Impl::encodeWords(std::string_view text, bool first,
                                    WordCache &cache,
                                    std::vector<int32_t> &ids) const {
  std::vector<Piece> pieces;
  pieces.push_back({std::string(text), first});
  OCTET_TRY(preTokenizer.apply(pieces));
  for (const Piece &piece : pieces)
    if (!piece.text.empty())
      encodeWord(bpe, piece.text, cache, ids);
  return Status::success();
}

Status Tokenizer::Impl::encodePiece(std::string_view text, bool first,
                                    WordCache &cache,
                                    std::vector<int32_t> &ids) const {
  std::string changed(text);
  OCTET_TRY(normalizer.apply(changed));
  std::vector<AddedSpan> spans;
  normalized.split(changed, spans);
  for (const AddedSpan &span : spans) {
    if (span.id >= 0)
      ids.push_back(span.id);
    else
      OCTET_TRY(encodeWords(
          std::string_view(changed).substr(span.begin, span.end - span.begin),
          first && span.begin == 0, cache, ids));
  }
  return Status::success();
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view raw,
                                               bool addSpecial) const {
  const std::string text = toUtf8(raw);
  std::vector<int32_t> ids;
  WordCache cache;
  std::vector<AddedSpan> spans;
  impl->plain.split(text, spans);
  for (const AddedSpan &span : spans) {
    if (span.id >= 0)
      ids.push_back(span.id);
    else
      OCTET_TRY(impl->encodePiece(
          std::string_view(text).substr(span.begin, span.end - span.begin),
          span.begin == 0, cache, ids));
  }
  if (addSpecial)
    impl->postProcessor.apply(ids);
  return ids;
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

std::optional<std::string_view> Tokenizer::token(int64_t id) const {
  if (const AddedToken *added = impl->findAdded(id))
    return added->content;
  return impl->bpe.vocabulary().token(id);
}

int32_t Tokenizer::find(std::string_view token) const {
  for (const AddedToken &added : impl->added)
    if (added.content == token)
      return added.id;
  return impl->bpe.vocabulary().find(token);
}

bool Tokenizer::isSpecial(int64_t id) const {
  const AddedToken *added = impl->findAdded(id);
  return added && added->special;
}

int64_t Tokenizer::end() const {
  int64_t end = impl->bpe.vocabulary().end();
  for (const AddedToken &token : impl->added)
    end = std::max(end, int64_t(token.id) + 1);
  return end;
}

std::span<const std::string> Tokenizer::warnings() const {
  return impl->warnings;
}

std::string Tokenizer::decode(std::span<const int32_t> ids,
                              bool skipSpecial) const {
  StreamDecoder decoder(*this, skipSpecial);
  std::string text;
  for (int32_t id : ids)
    text += decoder.push(id);
  return text + decoder.finish();
}

struct StreamDecoder::Impl {
  const Tokenizer *tokenizer;
  bool skipSpecial;
  Decoder::Stream stream;
};

StreamDecoder::StreamDecoder(const Tokenizer &tokenizer, bool skipSpecial)
    : impl(std::make_unique<Impl>(Impl{
          &tokenizer, skipSpecial, Decoder::Stream(tokenizer.impl->decoder)})) {
}
StreamDecoder::StreamDecoder(StreamDecoder &&) noexcept = default;
StreamDecoder &StreamDecoder::operator=(StreamDecoder &&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(int32_t id) {
  std::string out;
  if (impl->skipSpecial && impl->tokenizer->isSpecial(id))
    return out;
  if (std::optional<std::string_view> token = impl->tokenizer->token(id))
    impl->stream.push(*token, out);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  impl->stream.finish(out);
  return out;
}
