//===- PreTokenizer.h - A text into words -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. The component `pre_tokenizer` of tokenizer.json: cuts a
// piece of text into words that merges never cross.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_PRETOKENIZER_H
#define OCTET_LIB_TEXT_PRETOKENIZER_H

#include "Regex.h"
#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace octet::text {

/// A piece of text.
struct Piece {
  std::string text;
  bool first = false; ///< it begins where the whole text does
};

class PreTokenizer {
public:
  /// \param component  the JSON of `pre_tokenizer`, or null for none.
  /// \param subject    the file.
  static Result<PreTokenizer> read(const nlohmann::json &component,
                                   const std::string &subject);
  /// Replaces each piece by its words; empty ones are dropped.
  Status apply(std::vector<Piece> &pieces) const;

private:
  enum class Behavior {
    Isolated,
    Removed,
    Contiguous,
    MergedWithPrevious,
    MergedWithNext,
  };
  enum class Kind {
    Split,     ///< by `regex`
    Chars,     ///< by `matches`, each character a match
    ByteLevel, ///< prefix space, then `regex` if set, then the alphabet
    Metaspace,
  };
  enum class Prepend { Always, First, Never };
  struct Step {
    Kind kind = Kind::Split;
    std::optional<Regex> regex;
    bool (*matches)(uint32_t code, uint32_t wanted) = nullptr;
    uint32_t wanted = 0; ///< given to `matches`
    Behavior behavior = Behavior::Isolated;
    bool invert = false;
    bool prefixSpace = false;
    std::string replacement; ///< of Metaspace
    Prepend prepend = Prepend::Always;
    bool split = true;
  };
  Status add(const nlohmann::json &component, const std::string &type);
  static Result<Behavior> readBehavior(const nlohmann::json &component,
                                       const std::string &where,
                                       const char *otherwise);
  Status addMetaspace(const nlohmann::json &component);
  static Status applyStep(const Step &step, std::vector<Piece> &pieces);
  static Status cut(const Step &step, Piece piece, std::vector<Span> &spans,
                    std::vector<Piece> &out);
  static void applyBehavior(Behavior behavior, std::vector<Span> &spans);
  std::vector<Step> steps;
  std::string where; ///< subject of errors
};

} // namespace octet::text

#endif // OCTET_LIB_TEXT_PRETOKENIZER_H
