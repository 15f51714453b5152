//===- TemplateUnicode.cpp - Python's strings on UTF-8 --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateUnicode.h"
#include <cstdio>
#include <cstring>
#include <utf8proc.h>

using namespace octet;
using namespace octet::jinja;

char32_t jinja::nextChar(std::string_view text, size_t &at) {
  auto byte = [&](size_t i) -> char32_t {
    return i < text.size() ? uint8_t(text[i]) & 0x3f : 0;
  };
  char32_t c = uint8_t(text[at]);
  if (c < 0x80) {
    ++at;
    return c;
  }
  if (c < 0xe0) {
    c = (c & 0x1f) << 6 | byte(at + 1);
    at += 2;
  } else if (c < 0xf0) {
    c = (c & 0x0f) << 12 | byte(at + 1) << 6 | byte(at + 2);
    at += 3;
  } else {
    c = (c & 0x07) << 18 | byte(at + 1) << 12 | byte(at + 2) << 6 |
        byte(at + 3);
    at += 4;
  }
  at = std::min(at, text.size());
  return c;
}

void jinja::appendChar(std::string &out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t n = utf8proc_encode_char(utf8proc_int32_t(c), bytes);
  out.append(reinterpret_cast<char *>(bytes), size_t(n));
}

int64_t jinja::countChars(std::string_view text) {
  int64_t n = 0;
  for (char c : text)
    n += (uint8_t(c) & 0xc0) != 0x80;
  return n;
}

std::vector<size_t> jinja::charOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.size(); nextChar(text, at))
    offsets.push_back(at);
  offsets.push_back(text.size());
  return offsets;
}

//===----------------------------------------------------------------------===//
// Classes of characters
//===----------------------------------------------------------------------===//

static utf8proc_category_t categoryOf(char32_t c) {
  return utf8proc_category(utf8proc_int32_t(c));
}

bool jinja::isSpace(char32_t c) {
  if (c < 0x80)
    return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
  if (categoryOf(c) == UTF8PROC_CATEGORY_ZS)
    return true;
  switch (utf8proc_get_property(utf8proc_int32_t(c))->bidi_class) {
  case UTF8PROC_BIDI_CLASS_WS:
  case UTF8PROC_BIDI_CLASS_B:
  case UTF8PROC_BIDI_CLASS_S:
    return true;
  default:
    return false;
  }
}

bool jinja::isAlpha(char32_t c) {
  switch (categoryOf(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
    return true;
  default:
    return false;
  }
}

bool jinja::isUpper(char32_t c) {
  return utf8proc_isupper(utf8proc_int32_t(c));
}
bool jinja::isLower(char32_t c) {
  return utf8proc_islower(utf8proc_int32_t(c));
}
bool jinja::isCased(char32_t c) {
  return isUpper(c) || isLower(c) || categoryOf(c) == UTF8PROC_CATEGORY_LT;
}

bool jinja::isPrintable(char32_t c) {
  switch (categoryOf(c)) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CS:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CN:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return false;
  case UTF8PROC_CATEGORY_ZS:
    return c == ' ';
  default:
    return true;
  }
}

std::string_view jinja::strip(std::string_view text, bool left, bool right,
                              const std::string *chars) {
  std::u32string set;
  if (chars)
    for (size_t at = 0; at < chars->size();)
      set += nextChar(*chars, at);
  auto drops = [&](char32_t c) {
    return chars ? set.find(c) != set.npos : isSpace(c);
  };
  while (left && !text.empty()) {
    size_t at = 0;
    if (!drops(nextChar(text, at)))
      break;
    text.remove_prefix(at);
  }
  while (right && !text.empty()) {
    size_t start = text.size() - 1;
    while (start > 0 && (uint8_t(text[start]) & 0xc0) == 0x80)
      --start;
    size_t at = start;
    if (!drops(nextChar(text, at)))
      break;
    text = text.substr(0, start);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Upper and lower case
//===----------------------------------------------------------------------===//

/// The full mapping of Unicode's SpecialCasing, which is that of the parts
/// wherever a letter has no capital of its own (ŉ, ﬁ, ᾳ, ΐ).
static void appendUpper(std::string &out, char32_t c) {
  if (c < 0x80) {
    out += char(c >= 'a' && c <= 'z' ? c - 32 : c);
    return;
  }
  if (c == 0xdf) { // ß
    out += "SS";
    return;
  }
  auto up = char32_t(utf8proc_toupper(utf8proc_int32_t(c)));
  const utf8proc_property_t *p = utf8proc_get_property(utf8proc_int32_t(c));
  bool lacksCapital =
      up == c && p->category == UTF8PROC_CATEGORY_LL &&
      (p->decomp_type == 0 || p->decomp_type == UTF8PROC_DECOMP_TYPE_COMPAT);
  // The one capital of ᾳ is a title-case letter; of ǆ it is not.
  bool isTitle = categoryOf(up) == UTF8PROC_CATEGORY_LT && up >= 0x1f80;
  if (lacksCapital || isTitle) {
    utf8proc_int32_t parts[8];
    int boundClass = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char(
        utf8proc_int32_t(c), parts, 8,
        utf8proc_option_t(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT), &boundClass);
    if (n > 1 && n <= 8) {
      std::string mapped;
      for (utf8proc_ssize_t i = 0; i < n; ++i)
        appendChar(mapped, char32_t(utf8proc_toupper(parts[i])));
      // Before a subscript iota accents stay composed: ᾲ becomes Ὰ and Ι.
      constexpr utf8proc_int32_t kIota = 0x345;
      if (parts[n - 1] == kIota) {
        utf8proc_uint8_t *composed = nullptr;
        utf8proc_ssize_t bytes = utf8proc_map(
            reinterpret_cast<const utf8proc_uint8_t *>(mapped.data()),
            utf8proc_ssize_t(mapped.size()), &composed,
            utf8proc_option_t(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
        if (bytes >= 0)
          mapped.assign(reinterpret_cast<char *>(composed), size_t(bytes));
        free(composed);
      }
      out += mapped;
      return;
    }
  }
  appendChar(out, up);
}

std::string jinja::upper(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();)
    appendUpper(out, nextChar(text, at));
  return out;
}

/// Characters that Unicode's final-sigma rule looks through.
static bool isCaseIgnorable(char32_t c) {
  switch (categoryOf(c)) {
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_SK:
    return true;
  default:
    return c == '\'' || c == '.' || c == ':' || c == 0xb7 || c == 0x2018 ||
           c == 0x2019 || c == 0x2024 || c == 0x2027;
  }
}

/// Σ ends a word: a letter before it and none behind it.
static bool isFinalSigma(std::string_view text, size_t start, size_t end) {
  size_t at = start;
  bool before = false;
  while (at > 0) {
    size_t begin = at - 1;
    while (begin > 0 && (uint8_t(text[begin]) & 0xc0) == 0x80)
      --begin;
    size_t next = begin;
    char32_t c = nextChar(text, next);
    at = begin;
    if (isCaseIgnorable(c))
      continue;
    before = isCased(c);
    break;
  }
  if (!before)
    return false;
  for (at = end; at < text.size();) {
    char32_t c = nextChar(text, at);
    if (!isCaseIgnorable(c))
      return !isCased(c);
  }
  return true;
}

static void appendLower(std::string &out, std::string_view text, size_t start,
                        size_t end, char32_t c) {
  if (c < 0x80)
    out += char(c >= 'A' && c <= 'Z' ? c + 32 : c);
  else if (c == 0x130) // İ
    out += "i\u0307";
  else if (c == 0x3a3 && isFinalSigma(text, start, end))
    out += "ς";
  else
    appendChar(out, char32_t(utf8proc_tolower(utf8proc_int32_t(c))));
}

std::string jinja::lower(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = nextChar(text, at);
    appendLower(out, text, start, at, c);
  }
  return out;
}

/// A first letter: title case, of which the ligatures have a mixed one (ﬁ: Fi).
static void appendTitle(std::string &out, char32_t c) {
  auto title = char32_t(utf8proc_totitle(utf8proc_int32_t(c)));
  bool isWhole = title != c || categoryOf(c) == UTF8PROC_CATEGORY_LT ||
                 char32_t(utf8proc_toupper(utf8proc_int32_t(c))) != c;
  std::string up;
  appendUpper(up, c);
  size_t at = 0;
  nextChar(up, at);
  if (c == 0x149) // ŉ, whose first part is no letter
    out += up;
  else if (c != 0xdf && isWhole) // ß is Ss
    appendChar(out, title);
  else
    out += up.substr(0, at) + lower(up.substr(at));
}

std::string jinja::title(std::string_view text) {
  std::string out;
  bool inWord = false;
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = nextChar(text, at);
    if (inWord)
      appendLower(out, text, start, at, c);
    else
      appendTitle(out, c);
    inWord = isCased(c);
  }
  return out;
}

std::string jinja::capitalize(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = nextChar(text, at);
    if (start == 0)
      appendTitle(out, c);
    else
      appendLower(out, text, start, at, c);
  }
  return out;
}

//===----------------------------------------------------------------------===//
// Lines, repr, search
//===----------------------------------------------------------------------===//

static bool isLineBreak(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 ||
         c == 0x2028 || c == 0x2029;
}

std::vector<std::string_view> jinja::splitLines(std::string_view text,
                                                bool keepEnds) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    char32_t c = nextChar(text, at);
    if (!isLineBreak(c))
      continue;
    if (c == '\r' && at < text.size() && text[at] == '\n')
      ++at;
    lines.push_back(text.substr(start, (keepEnds ? at : end) - start));
    start = at;
  }
  if (start < text.size())
    lines.push_back(text.substr(start));
  return lines;
}

void jinja::appendRepr(std::string &out, std::string_view text) {
  bool useDouble = text.find('\'') != text.npos && text.find('"') == text.npos;
  char quote = useDouble ? '"' : '\'';
  out += quote;
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = nextChar(text, at);
    if (c == char32_t(quote) || c == '\\') {
      out += '\\';
      out += char(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (isPrintable(c)) {
      out += text.substr(start, at - start);
    } else {
      char code[16];
      const char *form = c < 0x100     ? "\\x%02x"
                         : c < 0x10000 ? "\\u%04x"
                                       : "\\U%08x";
      snprintf(code, sizeof(code), form, unsigned(c));
      out += code;
    }
  }
  out += quote;
}

size_t jinja::findText(std::string_view text, std::string_view part,
                       size_t from) {
  if (from > text.size())
    return text.npos;
  if (part.empty())
    return from;
  const void *at =
      memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return at ? size_t(static_cast<const char *>(at) - text.data()) : text.npos;
}
