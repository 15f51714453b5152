//===- AddedTokens.h - Tokens found before all else -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. `added_tokens` of tokenizer.json: texts such as
// <|im_start|> that are one token wherever they stand.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_ADDEDTOKENS_H
#define OCTET_LIB_TEXT_ADDEDTOKENS_H

#include "Vocabulary.h"
#include <string>
#include <string_view>
#include <vector>

namespace octet::text {

struct AddedToken {
  std::string content;
  int32_t id;
  bool special = false;
  bool singleWord = false; ///< not inside a word
  bool lstrip = false;     ///< takes the white space before it
  bool rstrip = false;     ///< and after it
  bool normalized = false; ///< looked for in the normalised text
};

/// A part of a text: an added token, or text between them.
struct AddedSpan {
  size_t begin;
  size_t end;
  int32_t id; ///< -1: text
};

/// Finds the leftmost, then longest of several texts.
class AddedTokenMatcher {
public:
  /// \param pattern  what is looked for; not empty. Of equal patterns the first
  ///                 counts.
  void add(std::string_view pattern, const AddedToken &token);
  bool empty() const { return tokens.empty(); }
  /// Cuts `text`, which is not empty, into its tokens and what is between.
  void split(std::string_view text, std::vector<AddedSpan> &out) const;

private:
  struct Token {
    int32_t id;
    bool singleWord, lstrip, rstrip;
  };
  /// The longest token that starts `text`.
  const Token *match(std::string_view text, size_t &bytes) const;

  struct Node {
    uint32_t index = 0;
  };
  std::vector<Token> tokens;
  std::vector<int32_t> ends{-1}; ///< of each node of the trie: its token
  FlatMap<Node> children;        ///< node << 8 | byte
  bool starts[256] = {};         ///< bytes that any pattern starts with
};

} // namespace octet::text

#endif // OCTET_LIB_TEXT_ADDEDTOKENS_H
