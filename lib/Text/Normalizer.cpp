//===- Normalizer.cpp - What happens to a text first ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Normalizer.h"
#include "Fields.h"
#include "octet/Text/Utf8.h"
#include <array>

using namespace octet;
using namespace octet::text;
using nlohmann::json;

//===----------------------------------------------------------------------===//
// The byte-level alphabet
//===----------------------------------------------------------------------===//

namespace {
struct ByteAlphabet {
  std::array<uint16_t, 256> chars;
  std::array<int16_t, 0x200> bytes;

  constexpr ByteAlphabet() : chars(), bytes() {
    for (int16_t &byte : bytes)
      byte = -1;
    uint16_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      bool printable = (byte >= 0x21 && byte <= 0x7E) ||
                       (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      chars[byte] = printable ? uint16_t(byte) : next++;
      bytes[chars[byte]] = int16_t(byte);
    }
  }
};
constexpr ByteAlphabet kAlphabet;
} // namespace

uint32_t text::byteLevelChar(uint8_t byte) { return kAlphabet.chars[byte]; }

int text::byteOfChar(uint32_t code) {
  return code < kAlphabet.bytes.size() ? kAlphabet.bytes[code] : -1;
}

std::string text::toByteLevel(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 2);
  for (char c : text)
    appendUtf8(out, byteLevelChar(uint8_t(c)));
  return out;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

static constexpr char kKnown[] =
    "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace, Strip, "
    "StripAccents and ByteLevel";

Result<std::optional<Regex>> text::readPattern(const json &component,
                                               const std::string &where) {
  const json *pattern = field(component, "pattern");
  if (!pattern || !pattern->is_object())
    return inputError(where, "field 'pattern' is not {\"String\": …} or "
                             "{\"Regex\": …}");
  if (field(*pattern, "String")) {
    OCTET_TRY_ASSIGN(std::string literal,
                     stringField(*pattern, "String", where));
    if (literal.empty())
      return std::optional<Regex>();
    return std::optional<Regex>(Regex::literal(literal));
  }
  OCTET_TRY_ASSIGN(std::string text, stringField(*pattern, "Regex", where));
  OCTET_TRY_ASSIGN(Regex regex, Regex::compile(text, where));
  return std::optional<Regex>(std::move(regex));
}

Result<Normalizer> Normalizer::read(const json &component,
                                    const std::string &subject) {
  Normalizer normalizer;
  normalizer.where = subject + ": normalizer";
  if (component.is_null())
    return normalizer;
  OCTET_TRY_ASSIGN(std::vector<Component> components,
                   readComponents(component, "normalizers", normalizer.where));
  for (const Component &each : components)
    OCTET_TRY(normalizer.add(*each.fields, each.type));
  return normalizer;
}

Status Normalizer::add(const json &component, const std::string &type) {
  Step step;
  if (type == "NFC") {
    step.form = NormalForm::NFC;
  } else if (type == "NFD") {
    step.form = NormalForm::NFD;
  } else if (type == "NFKC") {
    step.form = NormalForm::NFKC;
  } else if (type == "NFKD") {
    step.form = NormalForm::NFKD;
  } else if (type == "Lowercase") {
    step.kind = Kind::Lowercase;
  } else if (type == "StripAccents") {
    step.kind = Kind::StripAccents;
  } else if (type == "ByteLevel") {
    step.kind = Kind::ByteLevel;
  } else if (type == "Prepend") {
    step.kind = Kind::Prepend;
    OCTET_TRY_ASSIGN(step.text, stringField(component, "prepend", where));
  } else if (type == "Replace") {
    step.kind = Kind::Replace;
    OCTET_TRY_ASSIGN(step.regex, readPattern(component, where));
    OCTET_TRY_ASSIGN(step.text, stringField(component, "content", where));
  } else if (type == "Strip") {
    step.kind = Kind::Strip;
    OCTET_TRY_ASSIGN(step.left, boolField(component, "strip_left", where));
    OCTET_TRY_ASSIGN(step.right, boolField(component, "strip_right", where));
  } else {
    return unsupportedType(where, type, kKnown);
  }
  steps.push_back(std::move(step));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

static std::string strip(std::string_view text, bool left, bool right) {
  while (left && !text.empty()) {
    std::string_view rest = text;
    if (!isWhiteSpace(takeChar(rest)))
      break;
    text = rest;
  }
  while (right && !text.empty()) {
    size_t at = text.size() - 1;
    while (at && (uint8_t(text[at]) & 0xC0) == 0x80)
      --at;
    std::string_view last = text.substr(at);
    if (!isWhiteSpace(takeChar(last)))
      break;
    text = text.substr(0, at);
  }
  return std::string(text);
}

static std::string removeMarks(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    uint32_t code = takeChar(text);
    if (!isMark(code) || isLeftAlone(code))
      appendUtf8(out, code);
  }
  return out;
}

Status text::checkGrowth(size_t before, size_t after,
                         const std::string &where) {
  constexpr size_t kTimes = 64, kPlus = 1 << 20;
  if (after <= before * kTimes + kPlus)
    return Status::success();
  return inputError(where, "makes more than " + std::to_string(after) +
                               " bytes of a text of " + std::to_string(before));
}

/// Replaces the matches in `text`, which began with `before` bytes.
static Status replaceMatches(const Regex &regex, std::string_view content,
                             size_t before, const std::string &where,
                             std::string &text) {
  std::vector<Span> spans;
  OCTET_TRY(regex.split(text, spans));
  std::string out;
  out.reserve(text.size());
  for (const Span &span : spans) {
    if (span.isMatch)
      out += content;
    else
      out.append(text, span.begin, span.end - span.begin);
    OCTET_TRY(checkGrowth(before, out.size(), where));
  }
  text = std::move(out);
  return Status::success();
}

Status Normalizer::apply(std::string &text) const {
  const size_t before = text.size();
  for (const Step &step : steps) {
    switch (step.kind) {
    case Kind::Form:
      text = normalize(text, step.form);
      break;
    case Kind::Lowercase:
      text = toLower(text);
      break;
    case Kind::StripAccents:
      text = removeMarks(text);
      break;
    case Kind::ByteLevel:
      text = toByteLevel(text);
      break;
    case Kind::Prepend:
      if (!text.empty())
        text.insert(0, step.text);
      break;
    case Kind::Replace:
      if (step.regex && !text.empty())
        OCTET_TRY(replaceMatches(*step.regex, step.text, before, where, text));
      break;
    case Kind::Strip:
      text = strip(text, step.left, step.right);
      break;
    }
    OCTET_TRY(checkGrowth(before, text.size(), where));
  }
  return Status::success();
}
