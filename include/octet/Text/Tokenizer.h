//===- Tokenizer.h - Text to ids and back -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tokenizers of tokenizer.json whose model is BPE: byte-level (Llama-3,
// Qwen, DeepSeek, GLM, SmolLM2, GPT-2) and SentencePiece's with byte fallback
// (Llama-2, Mistral). Ids are those of Hugging Face's `tokenizers`. The file is
// hostile input. No LLVM: the executable uses this library.
//
// What differs: `truncation` and `padding` of the file are not applied. Invalid
// UTF-8 in a text counts as U+FFFD, as with Python's errors="replace". Unicode
// is that of the PCRE2 and utf8proc that were built in (14 and 15 on Debian
// 12): a character that is newer counts as unassigned.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEXT_TOKENIZER_H
#define OCTET_TEXT_TOKENIZER_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet {

/// A tokenizer as a GGUF file's `tokenizer.ggml.*` describes it.
struct TokenizerSpec {
  std::string model; ///< "gpt2" (byte-level) or "llama" (SentencePiece)
  std::string pre;   ///< of "gpt2": "smollm", "llama-bpe", "qwen2", …
  std::vector<std::string> tokens; ///< by id
  std::vector<int32_t> types;      ///< of each token: TokenType; empty: normal
  std::vector<float> scores;       ///< of "llama"
  std::vector<std::string> merges; ///< of "gpt2": "left right", by rank
  int64_t bos = -1, eos = -1, unk = -1; ///< ids, -1: none
  bool addBos = false;
  bool addEos = false;
  bool addSpacePrefix = true; ///< of "llama"

  enum TokenType : int32_t {
    Normal = 1,
    Unknown = 2,
    Control = 3,
    UserDefined = 4,
    Unused = 5,
    Byte = 6,
  };
};

/// tokenizer.json of a spec: what a program carries and what is written beside
/// converted weights.
/// \param subject  the file, for errors.
/// \returns an input error that names the field: a model or `pre` we do not
/// know (with those that we do), lists of different lengths, a token twice, a
/// merge that is not two tokens.
Result<std::string> writeTokenizerJson(const TokenizerSpec &spec,
                                       const std::string &subject);

/// The values of TokenizerSpec::pre that writeTokenizerJson knows.
std::vector<std::string> knownPreTokenizers();

class StreamDecoder;

/// Const after it was made; several threads may use one.
class Tokenizer {
public:
  Tokenizer(Tokenizer &&) noexcept;
  Tokenizer &operator=(Tokenizer &&) noexcept;
  ~Tokenizer();

  /// \param text     tokenizer.json.
  /// \param subject  the file, for errors.
  /// \returns an input error that names the component: not JSON, a field of
  /// the wrong type, a type of component we do not support, a merge of tokens
  /// that are not there, two tokens of one id.
  static Result<Tokenizer> fromJson(std::string_view text,
                                    const std::string &subject);
  static Result<Tokenizer> fromFile(const std::string &path);
  static Result<Tokenizer> fromSpec(const TokenizerSpec &spec,
                                    const std::string &subject);

  /// Added and special tokens in the text are recognised.
  /// \param addSpecial  with what the post-processor adds, such as bos.
  /// \returns an input error if a pattern of the file finds no end on the text.
  Result<std::vector<int32_t>> encode(std::string_view text,
                                      bool addSpecial = true) const;

  /// Ids that no token has are passed over.
  /// \param skipSpecial  leaves special tokens out.
  std::string decode(std::span<const int32_t> ids,
                     bool skipSpecial = false) const;

  /// The token as the vocabulary spells it (`Ġthe`, `▁the`, `<0x0A>`).
  std::optional<std::string_view> token(int64_t id) const;
  /// The id of a token by that spelling; -1 if there is none.
  int32_t find(std::string_view token) const;
  bool isSpecial(int64_t id) const;
  /// Largest id + 1.
  int64_t end() const;
  /// What is odd in the file but can be used.
  std::span<const std::string> warnings() const;

private:
  friend class StreamDecoder;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Decodes ids one after the other. The pieces joined are what `decode` gives
/// for all ids; each piece is whole characters.
class StreamDecoder {
public:
  /// \param tokenizer  must outlive the decoder.
  explicit StreamDecoder(const Tokenizer &tokenizer, bool skipSpecial = false);
  StreamDecoder(StreamDecoder &&) noexcept;
  StreamDecoder &operator=(StreamDecoder &&) noexcept;
  ~StreamDecoder();

  /// The text that this id completes; often empty.
  std::string push(int32_t id);
  /// What is left: U+FFFD for a character that was begun. Starts anew.
  std::string finish();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace octet

#endif // OCTET_TEXT_TOKENIZER_H
