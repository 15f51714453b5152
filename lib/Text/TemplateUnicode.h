//===- TemplateUnicode.h - Python's strings on UTF-8 ---------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What Python's str does character by character, on UTF-8. All text is valid:
// the template and the JSON are checked before they get here.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_TEMPLATEUNICODE_H
#define OCTET_LIB_TEXT_TEMPLATEUNICODE_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace octet::jinja {

/// The character at `at`; moves `at` behind it.
char32_t nextChar(std::string_view text, size_t &at);
void appendChar(std::string &out, char32_t c);
int64_t countChars(std::string_view text);
/// Where each character starts, and the end.
std::vector<size_t> charOffsets(std::string_view text);

bool isSpace(char32_t c);
bool isAlpha(char32_t c);
bool isCased(char32_t c);
bool isUpper(char32_t c);
bool isLower(char32_t c);
/// Python's str.isprintable, of one character.
bool isPrintable(char32_t c);

/// Removes characters of `chars` from the ends; without one, white space.
std::string_view strip(std::string_view text, bool left, bool right,
                       const std::string *chars = nullptr);
std::string upper(std::string_view text);
std::string lower(std::string_view text);
/// str.title, str.capitalize, str.swapcase.
std::string title(std::string_view text);
std::string capitalize(std::string_view text);
/// str.splitlines; `keepEnds` keeps the line breaks.
std::vector<std::string_view> splitLines(std::string_view text, bool keepEnds);
/// Python's repr of a str.
void appendRepr(std::string &out, std::string_view text);
/// Where `part` is in `text` at or after `from`, in linear time; npos if
/// nowhere.
size_t findText(std::string_view text, std::string_view part, size_t from = 0);

} // namespace octet::jinja

#endif // OCTET_LIB_TEXT_TEMPLATEUNICODE_H
