//===- Regex.h - Patterns of tokenizer.json ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. tokenizer.json writes its patterns in the syntax of
// Oniguruma, we match them with PCRE2. The two agree on most of it; where the
// same text means something else the pattern is rewritten, and what has no
// counterpart is an error that names the construct:
//
//   Oniguruma            means                         here
//   \s                   White_Space                   [\t-\r\x20\x85\p{Z}]
//   \w                   Alphabetic, M, Nd, Pc (¹²³¼½¾) a class of these
//   \d                   Nd                            \p{Nd}
//   \h                   a hexadecimal digit           [0-9A-Fa-f]
//   \v                   U+000B                        \x0b
//   \p{Han}              Script, not Script_Extensions \p{sc:Han}
//   ^ $                  at each line                  PCRE2_MULTILINE
//   (?m:                 dot matches newline           (?s:
//   {,n}                 {0,n}                         {0,n}
//   {n,m}+               a repeated repeat             error
//   [a[b]] [a&&b]        union, intersection           error
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_REGEX_H
#define OCTET_LIB_TEXT_REGEX_H

#include "octet/Support/Status.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octet::text {

/// A part of a text: [begin, end) in bytes, and whether the pattern matched it.
struct Span {
  size_t begin;
  size_t end;
  bool isMatch;
};

/// A compiled pattern. Matching is const and may run in several threads.
class Regex {
public:
  Regex(Regex &&) noexcept;
  Regex &operator=(Regex &&) noexcept;
  ~Regex();

  /// \param pattern  in Oniguruma's syntax, UTF-8.
  /// \param subject  of errors: the file and component.
  static Result<Regex> compile(std::string_view pattern,
                               const std::string &subject);
  /// Matches exactly `literal`, which is not empty.
  static Regex literal(std::string_view literal);

  /// Cuts `text` (UTF-8) into matches and what is between them, in order and
  /// without gaps. An empty match counts unless it touches the match before it.
  /// \returns an input error if the pattern needs more steps than the limit.
  Status split(std::string_view text, std::vector<Span> &out) const;

private:
  Regex();
  struct Compiled;
  std::unique_ptr<Compiled> compiled; ///< null for a literal
  std::string text;                   ///< the literal, or the pattern
  std::string subject;
};

/// The pattern in PCRE2's syntax.
Result<std::string> translatePattern(std::string_view pattern,
                                     const std::string &subject);

} // namespace octet::text

#endif // OCTET_LIB_TEXT_REGEX_H
