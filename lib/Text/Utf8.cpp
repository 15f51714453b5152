//===- Utf8.cpp - UTF-8 that may be broken --------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Text/Utf8.h"

using namespace octet;

static constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

Utf8Step octet::utf8Step(std::string_view text) {
  const auto byte = [&](size_t i) { return uint8_t(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80)
    return {1, true, false};
  // The second byte's range keeps out overlong forms, surrogates and what is
  // over U+10FFFF; the others are 80..BF.
  int length;
  uint8_t low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    low = lead == 0xE0 ? 0xA0 : 0x80;
    high = lead == 0xED ? 0x9F : 0xBF;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    low = lead == 0xF0 ? 0x90 : 0x80;
    high = lead == 0xF4 ? 0x8F : 0xBF;
  } else {
    return {1, false, false};
  }
  for (int i = 1; i < length; ++i) {
    if (size_t(i) == text.size())
      return {i, false, true};
    if (byte(i) < low || byte(i) > high)
      return {i, false, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true, false};
}

void octet::appendUtf8(std::string &out, uint32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xC0 | code >> 6);
    out += char(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += char(0xE0 | code >> 12);
    out += char(0x80 | (code >> 6 & 0x3F));
    out += char(0x80 | (code & 0x3F));
  } else {
    out += char(0xF0 | code >> 18);
    out += char(0x80 | (code >> 12 & 0x3F));
    out += char(0x80 | (code >> 6 & 0x3F));
    out += char(0x80 | (code & 0x3F));
  }
}

uint32_t octet::takeChar(std::string_view &text) {
  const auto next = [&] {
    uint8_t byte = uint8_t(text.front());
    text.remove_prefix(1);
    return uint32_t(byte);
  };
  const uint32_t lead = next();
  if (lead < 0x80)
    return lead;
  uint32_t code = lead < 0xE0   ? lead & 0x1F
                  : lead < 0xF0 ? lead & 0x0F
                                : lead & 0x07;
  for (int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3; more; --more)
    code = code << 6 | (next() & 0x3F);
  return code;
}

std::string octet::toUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Utf8Stream stream;
  stream.push(text, out);
  stream.finish(out);
  return out;
}

void Utf8Stream::push(std::string_view bytes, std::string &out) {
  std::string joined;
  if (!pending.empty()) {
    joined = std::move(pending);
    joined += bytes;
    bytes = joined;
    pending.clear();
  }
  while (!bytes.empty()) {
    Utf8Step step = utf8Step(bytes);
    if (step.incomplete) {
      pending = bytes;
      return;
    }
    out += step.valid ? bytes.substr(0, step.bytes) : kReplacement;
    bytes.remove_prefix(step.bytes);
  }
}

void Utf8Stream::finish(std::string &out) {
  if (!pending.empty())
    out += kReplacement;
  pending.clear();
}
