//===- Escape.cpp - Untrusted names in messages ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include <cstdint>

using namespace octet;

int octet::utf8Length(std::string_view text) {
  if (text.empty())
    return 0;
  auto byte = [&](size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  auto follows = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  unsigned first = byte(0);
  if (first < 0x80)
    return 1;
  if (first >= 0xC2 && first <= 0xDF)
    return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    unsigned low = first == 0xE0 ? 0xA0 : 0x80;  // no overlong form
    unsigned high = first == 0xED ? 0x9F : 0xBF; // no surrogate
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    unsigned low = first == 0xF0 ? 0x90 : 0x80;
    unsigned high = first == 0xF4 ? 0x8F : 0xBF;
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

bool octet::isUtf8(std::string_view text) {
  while (!text.empty()) {
    int length = utf8Length(text);
    if (!length)
      return false;
    text.remove_prefix(length);
  }
  return true;
}

namespace {

void appendHex(std::string &out, uint32_t value, int digits) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out += "0123456789abcdef"[value >> shift & 15];
}

/// The code point of a character of `length` bytes that utf8Length accepted.
uint32_t decodeUtf8(std::string_view text, int length) {
  unsigned first = static_cast<unsigned char>(text[0]);
  uint32_t point = length == 1 ? first : first & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i)
    point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  return point;
}

/// Characters that move the cursor, end the line or reverse what follows.
bool isControl(uint32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x61C ||
         (point >= 0x200E && point <= 0x200F) ||
         (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2066 && point <= 0x2069) || point == 0xFEFF;
}

std::string escape(std::string_view text, bool quotes, size_t limit) {
  std::string out;
  size_t characters = 0;
  while (!text.empty()) {
    std::string piece; // never cut inside an escape
    int length = utf8Length(text);
    if (!length) {
      piece = "\\x";
      appendHex(piece, static_cast<unsigned char>(text[0]), 2);
      length = 1;
    } else if (uint32_t point = decodeUtf8(text, length); isControl(point)) {
      piece = point < 0x100 ? "\\x" : "\\u";
      appendHex(piece, point, point < 0x100 ? 2 : 4);
    } else {
      if (quotes && (point == '\'' || point == '"' || point == '\\'))
        piece = '\\';
      piece += text.substr(0, length);
    }
    // A character that is not escaped counts once whatever its bytes.
    size_t width = piece[0] == '\\' ? piece.size() : 1;
    if (characters + width > limit)
      return out + "…";
    characters += width;
    out += piece;
    text.remove_prefix(length);
  }
  return out;
}

} // namespace

std::string octet::escapeName(std::string_view name) {
  return escape(name, /*quotes=*/true, /*limit=*/200);
}

std::string octet::quoteName(std::string_view name) {
  return "'" + escapeName(name) + "'";
}

std::string octet::escapePath(std::string_view path) {
  return escape(path, /*quotes=*/false, /*limit=*/SIZE_MAX);
}
