//===- TemplateLexer.h - Tokens of a chat template ------------ -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A template is text with `{{ expression }}`, `{% statement %}` and
// `{# comment #}`. The white space rules are those of jinja2 with trim_blocks
// and lstrip_blocks: the newline behind a statement or comment goes, as does
// the white space before one that begins its line; a `-` beside the brackets
// removes all white space on that side, a `+` keeps it.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_TEMPLATELEXER_H
#define OCTET_LIB_TEXT_TEMPLATELEXER_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octet::jinja {

enum class TokenKind : uint8_t {
  Data,
  VariableBegin,
  VariableEnd,
  BlockBegin,
  BlockEnd,
  Name,
  String,
  Integer,
  Float,
  Operator,
  End,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text; ///< data, name, operator, or a string without its quotes
  int64_t integer = 0;
  double number = 0;
};

/// An input error at a line of the template; `subject` as in ChatOptions.
Status errorAt(const std::string &subject, int line, std::string message);

/// The last token is End. The text is UTF-8.
Result<std::vector<Token>> tokenize(std::string_view text,
                                    const std::string &subject);

} // namespace octet::jinja

#endif // OCTET_LIB_TEXT_TEMPLATELEXER_H
