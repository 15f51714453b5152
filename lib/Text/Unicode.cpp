//===- Unicode.cpp - Questions about characters ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Unicode.h"
#include "octet/Text/Utf8.h"
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utf8proc.h>

using namespace octet;

static utf8proc_category_t category(uint32_t code) {
  return utf8proc_category(utf8proc_int32_t(code));
}

bool text::isWhiteSpace(uint32_t code) {
  if (code >= 0x09 && code <= 0x0D)
    return true;
  if (code == 0x85)
    return true;
  utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_ZS || c == UTF8PROC_CATEGORY_ZL ||
         c == UTF8PROC_CATEGORY_ZP;
}

bool text::isNumeric(uint32_t code) {
  utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL ||
         c == UTF8PROC_CATEGORY_NO;
}

bool text::isPunctuation(uint32_t code) {
  if (code < 0x80)
    return (code >= 0x21 && code <= 0x2F) || (code >= 0x3A && code <= 0x40) ||
           (code >= 0x5B && code <= 0x60) || (code >= 0x7B && code <= 0x7E);
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO;
}

bool text::isMark(uint32_t code) {
  utf8proc_category_t c = category(code);
  return c >= UTF8PROC_CATEGORY_MN && c <= UTF8PROC_CATEGORY_ME;
}

bool text::isWordChar(uint32_t code) {
  utf8proc_category_t c = category(code);
  if (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL)
    return true; // L, M, Nd and Nl stand one after the other.
  // Circled letters are alphabetic symbols; the joiners belong to words.
  return c == UTF8PROC_CATEGORY_PC || code == 0x200C || code == 0x200D ||
         (code >= 0x24B6 && code <= 0x24E9) ||
         (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) ||
         (code >= 0x1F170 && code <= 0x1F189);
}

bool text::isAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return uint8_t(c) < 0x80; });
}

namespace {
struct Range {
  uint32_t first, last;
};
} // namespace

/// Marks and compatibility characters that are younger than the tables of
/// Hugging Face's normalizers (Unicode 9): there they neither move nor change,
/// and models have learned from texts with them as they were. The test against
/// `tokenizers` goes through all characters.
static constexpr Range kLeftAlone[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},
    {0x9FE, 0x9FE},     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},
    {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},
    {0x1DF6, 0x1DFA},   {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},
    {0xA82C, 0xA82C},   {0xAB69, 0xAB69},   {0x10781, 0x10785},
    {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B},
    {0x1145E, 0x1145E}, {0x11839, 0x1183A}, {0x11938, 0x11938},
    {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
    {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E030, 0x1E06D},
    {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1F16C, 0x1F16C},
    {0x1FBF0, 0x1FBF9}};

bool text::isLeftAlone(uint32_t code) {
  if (code < kLeftAlone[0].first)
    return false;
  auto it = std::ranges::upper_bound(kLeftAlone, code, {}, &Range::first);
  return code <= std::prev(it)->last;
}

/// Appends the normal form of a part without characters that are left alone.
static void normalizePart(std::string_view text, text::NormalForm form,
                          std::string &result) {
  using text::NormalForm;
  if (text::isAscii(text)) {
    result += text;
    return;
  }
  int options = UTF8PROC_STABLE;
  if (form == NormalForm::NFC || form == NormalForm::NFKC)
    options |= UTF8PROC_COMPOSE;
  else
    options |= UTF8PROC_DECOMPOSE;
  if (form == NormalForm::NFKC || form == NormalForm::NFKD)
    options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t *out = nullptr;
  utf8proc_ssize_t bytes = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t *>(text.data()),
      utf8proc_ssize_t(text.size()), &out, utf8proc_option_t(options));
  if (bytes < 0) {
    result += text;
    return;
  }
  result.append(reinterpret_cast<const char *>(out), size_t(bytes));
  std::free(out);
}

std::string text::normalize(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  size_t begin = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t at = text.size() - rest.size();
    if (!isLeftAlone(takeChar(rest)))
      continue;
    normalizePart(text.substr(begin, at - begin), form, result);
    begin = text.size() - rest.size();
    result += text.substr(at, begin - at);
  }
  normalizePart(text.substr(begin), form, result);
  return result;
}

std::string text::toLower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    uint32_t code = takeChar(text);
    if (code == 0x130) // The only one whose lower case is two characters.
      out += "i\xCC\x87";
    else
      appendUtf8(out, uint32_t(utf8proc_tolower(utf8proc_int32_t(code))));
  }
  return out;
}
