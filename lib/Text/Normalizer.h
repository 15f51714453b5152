//===- Normalizer.h - What happens to a text first --------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. The component `normalizer` of tokenizer.json: rewrites a
// piece of text between added tokens.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_NORMALIZER_H
#define OCTET_LIB_TEXT_NORMALIZER_H

#include "Regex.h"
#include "Unicode.h"
#include "octet/Support/Status.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace octet::text {

class Normalizer {
public:
  /// \param component  the JSON of `normalizer`, or null for none.
  /// \param subject    the file.
  static Result<Normalizer> read(const nlohmann::json &component,
                                 const std::string &subject);
  Status apply(std::string &text) const;
  bool empty() const { return steps.empty(); }

private:
  enum class Kind {
    Form,
    Lowercase,
    Prepend,
    Replace,
    Strip,
    StripAccents,
    ByteLevel,
  };
  struct Step {
    Kind kind = Kind::Form;
    NormalForm form = NormalForm::NFC;
    std::string text;           ///< of Prepend, Replace
    std::optional<Regex> regex; ///< of Replace
    bool left = false, right = false;
  };
  Status add(const nlohmann::json &component, const std::string &type);
  std::vector<Step> steps;
  std::string where; ///< subject of errors
};

/// A file may not blow a text up without end, by replacing a letter by two
/// thirty times, say.
/// \param before, after  sizes in bytes; a text may grow 64-fold and by 1 MiB.
Status checkGrowth(size_t before, size_t after, const std::string &where);

/// The 256 characters that stand for bytes in byte-level vocabularies: itself
/// where a byte is a printable character of Latin-1, else one from U+0100 on.
uint32_t byteLevelChar(uint8_t byte);
/// The byte that a character stands for; -1 for the others.
int byteOfChar(uint32_t code);
/// Each byte of `text` as its character.
std::string toByteLevel(std::string_view text);

/// The pattern of a Replace or Split: `{"String": …}` or `{"Regex": …}`.
/// Nothing for an empty string, which matches nowhere.
Result<std::optional<Regex>> readPattern(const nlohmann::json &component,
                                         const std::string &where);

} // namespace octet::text

#endif // OCTET_LIB_TEXT_NORMALIZER_H
