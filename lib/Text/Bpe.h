//===- Bpe.h - Byte pair encoding of one word -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. The model of tokenizer.json: a word becomes characters,
// then the pair of neighbours of the lowest rank is merged (the leftmost, among
// equals), until no pair has a rank.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_BPE_H
#define OCTET_LIB_TEXT_BPE_H

#include "Vocabulary.h"
#include "octet/Support/Status.h"
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace octet::text {

struct BpeOptions {
  std::string unkToken;
  bool hasUnk = false;
  bool fuseUnk = false;
  bool byteFallback = false;
  bool ignoreMerges = false;
  std::string continuingPrefix; ///< before each character but the first
  std::string endSuffix;        ///< after the last character
};

class Bpe {
public:
  /// \param merges  (left, right) token texts by rank. Of a pair that is there
  ///                twice the later rank holds.
  /// \returns an input error naming the merge whose parts or result are not in
  /// the vocabulary, or the unknown token if it is not.
  static Result<Bpe>
  create(Vocabulary vocabulary, BpeOptions options,
         std::span<const std::pair<std::string_view, std::string_view>> merges,
         const std::string &subject);

  /// Room that `encode` works in, to be used again.
  struct Scratch {
    struct Symbol {
      int32_t id;
      int32_t previous, next; ///< -1: none
      bool alive;
    };
    struct Candidate {
      uint32_t rank;
      int32_t position;
      int32_t id;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
    std::string text;
  };

  /// Appends the ids of one word, which is UTF-8 and not empty.
  void encode(std::string_view word, Scratch &scratch,
              std::vector<int32_t> &ids) const;

  const Vocabulary &vocabulary() const { return vocab; }

private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  static uint64_t pairKey(int32_t left, int32_t right) {
    return uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  }
  Status addMerges(
      std::span<const std::pair<std::string_view, std::string_view>> pairs,
      const std::string &subject);
  /// The token is `left` followed by `right`.
  bool isJoined(int32_t id, std::string_view left,
                std::string_view right) const;
  void addSymbols(std::string_view word, Scratch &scratch) const;
  void mergeAll(Scratch &scratch) const;

  Vocabulary vocab;
  BpeOptions options;
  FlatMap<Merge> merges;
  int32_t unk = -1;
  int32_t byteIds[256]; ///< of <0x00> … <0xFF>; -1: not in the vocabulary
  /// Ids of the characters below 0x200, which the byte-level alphabet is.
  std::vector<int32_t> lowIds;
};

} // namespace octet::text

#endif // OCTET_LIB_TEXT_BPE_H
