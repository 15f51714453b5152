//===- PreTokenizer.cpp - A text into words -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PreTokenizer.h"
#include "Fields.h"
#include "Normalizer.h"
#include "Unicode.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Utf8.h"
#include <algorithm>

using namespace octet;
using namespace octet::text;
using nlohmann::json;

/// GPT-2's, which ByteLevel means by `use_regex`.
static constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// Whitespace's `\w+|[^\w\s]+`, in the words of Rust's library: with the
/// joiners, without numbers such as U+00B2.
static constexpr char kWords[] =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|)"
    R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)";

static constexpr char kKnown[] =
    "Sequence, Split, ByteLevel, Metaspace, Digits, Whitespace, "
    "WhitespaceSplit, Punctuation, CharDelimiterSplit and BertPreTokenizer";

static bool matchesWhiteSpace(uint32_t code, uint32_t) {
  return isWhiteSpace(code);
}
static bool matchesNumeric(uint32_t code, uint32_t) { return isNumeric(code); }
static bool matchesPunctuation(uint32_t code, uint32_t) {
  return isPunctuation(code);
}
static bool matchesChar(uint32_t code, uint32_t wanted) {
  return code == wanted;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<PreTokenizer> PreTokenizer::read(const json &component,
                                        const std::string &subject) {
  PreTokenizer result;
  result.where = subject + ": pre_tokenizer";
  if (component.is_null())
    return result;
  OCTET_TRY_ASSIGN(std::vector<Component> components,
                   readComponents(component, "pretokenizers", result.where));
  for (const Component &each : components)
    OCTET_TRY(result.add(*each.fields, each.type));
  return result;
}

Result<PreTokenizer::Behavior>
PreTokenizer::readBehavior(const json &component, const std::string &where,
                           const char *otherwise) {
  std::optional<std::string> missing;
  if (otherwise)
    missing = otherwise;
  OCTET_TRY_ASSIGN(std::string name,
                   stringField(component, "behavior", where, missing));
  if (name == "Isolated")
    return Behavior::Isolated;
  if (name == "Removed")
    return Behavior::Removed;
  if (name == "Contiguous")
    return Behavior::Contiguous;
  if (name == "MergedWithPrevious")
    return Behavior::MergedWithPrevious;
  if (name == "MergedWithNext")
    return Behavior::MergedWithNext;
  return inputError(where, "behavior " + quoteName(name) +
                               " is unknown; there are Isolated, Removed, "
                               "Contiguous, MergedWithPrevious and "
                               "MergedWithNext");
}

Status PreTokenizer::addMetaspace(const json &component) {
  Step step;
  step.kind = Kind::Metaspace;
  OCTET_TRY_ASSIGN(step.replacement,
                   charField(component, "replacement", where));
  OCTET_TRY_ASSIGN(std::string scheme,
                   stringField(component, "prepend_scheme", where, "always"));
  OCTET_TRY_ASSIGN(bool prefix,
                   boolField(component, "add_prefix_space", where, true));
  if (scheme == "never" || !prefix)
    step.prepend = Prepend::Never;
  else if (scheme == "first")
    step.prepend = Prepend::First;
  else if (scheme != "always")
    return inputError(where, "prepend_scheme " + quoteName(scheme) +
                                 " is unknown; there are always, first and "
                                 "never");
  OCTET_TRY_ASSIGN(step.split, boolField(component, "split", where, true));
  steps.push_back(std::move(step));
  return Status::success();
}

Status PreTokenizer::add(const json &component, const std::string &type) {
  if (type == "Metaspace")
    return addMetaspace(component);

  Step step;
  if (type == "Split") {
    OCTET_TRY_ASSIGN(step.regex, readPattern(component, where));
    OCTET_TRY_ASSIGN(step.behavior, readBehavior(component, where, nullptr));
    OCTET_TRY_ASSIGN(step.invert, boolField(component, "invert", where, false));
  } else if (type == "ByteLevel") {
    step.kind = Kind::ByteLevel;
    OCTET_TRY_ASSIGN(step.prefixSpace,
                     boolField(component, "add_prefix_space", where));
    OCTET_TRY_ASSIGN(bool useRegex,
                     boolField(component, "use_regex", where, true));
    if (useRegex) {
      OCTET_TRY_ASSIGN(step.regex, Regex::compile(kGpt2, where));
    }
  } else if (type == "Digits") {
    step.kind = Kind::Chars;
    step.matches = matchesNumeric;
    OCTET_TRY_ASSIGN(bool individual,
                     boolField(component, "individual_digits", where, false));
    step.behavior = individual ? Behavior::Isolated : Behavior::Contiguous;
  } else if (type == "Whitespace") {
    OCTET_TRY_ASSIGN(step.regex, Regex::compile(kWords, where));
    step.invert = true;
    step.behavior = Behavior::Removed;
  } else if (type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    step.kind = Kind::Chars;
    step.matches = matchesWhiteSpace;
    step.behavior = Behavior::Removed;
    if (type == "BertPreTokenizer") {
      steps.push_back(std::move(step));
      step = Step();
      step.kind = Kind::Chars;
      step.matches = matchesPunctuation;
    }
  } else if (type == "Punctuation") {
    step.kind = Kind::Chars;
    step.matches = matchesPunctuation;
    OCTET_TRY_ASSIGN(step.behavior, readBehavior(component, where, "Isolated"));
  } else if (type == "CharDelimiterSplit") {
    step.kind = Kind::Chars;
    OCTET_TRY_ASSIGN(std::string delimiter,
                     charField(component, "delimiter", where));
    std::string_view rest = delimiter;
    step.wanted = takeChar(rest);
    step.matches = matchesChar;
    step.behavior = Behavior::Removed;
  } else {
    return unsupportedType(where, type, kKnown);
  }
  steps.push_back(std::move(step));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Applying
//===----------------------------------------------------------------------===//

/// Each character that matches is a match of its own.
static void splitChars(std::string_view text,
                       bool (*matches)(uint32_t, uint32_t), uint32_t wanted,
                       std::vector<Span> &spans) {
  spans.clear();
  size_t previous = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const size_t begin = text.size() - rest.size();
    if (!matches(takeChar(rest), wanted))
      continue;
    const size_t end = text.size() - rest.size();
    if (previous != begin)
      spans.push_back({previous, begin, false});
    spans.push_back({begin, end, true});
    previous = end;
  }
  if (previous != text.size())
    spans.push_back({previous, text.size(), false});
}

/// Joins the spans as the behavior says. What is a match in the result is to be
/// removed.
void PreTokenizer::applyBehavior(Behavior behavior, std::vector<Span> &spans) {
  if (behavior == Behavior::Removed)
    return;
  std::vector<Span> out;
  out.reserve(spans.size());
  bool previousMatch = false;
  const auto step = [&](const Span &span, bool join, bool backwards) {
    if (join && !out.empty()) {
      if (backwards)
        out.back().begin = span.begin;
      else
        out.back().end = span.end;
    } else {
      out.push_back({span.begin, span.end, false});
    }
    previousMatch = span.isMatch;
  };
  switch (behavior) {
  case Behavior::Removed:
  case Behavior::Isolated:
    for (const Span &span : spans)
      step(span, false, false);
    break;
  case Behavior::Contiguous:
    for (const Span &span : spans)
      step(span, span.isMatch == previousMatch, false);
    break;
  case Behavior::MergedWithPrevious:
    for (const Span &span : spans)
      step(span, span.isMatch && !previousMatch, false);
    break;
  case Behavior::MergedWithNext:
    for (auto span = spans.rbegin(); span != spans.rend(); ++span)
      step(*span, span->isMatch && !previousMatch, true);
    std::ranges::reverse(out);
    break;
  }
  spans = std::move(out);
}

Status PreTokenizer::cut(const Step &step, Piece piece,
                         std::vector<Span> &spans, std::vector<Piece> &out) {
  const std::string_view text = piece.text;
  if (step.matches) {
    splitChars(text, step.matches, step.wanted, spans);
  } else if (step.regex) {
    OCTET_TRY(step.regex->split(text, spans));
  } else {
    out.push_back(std::move(piece));
    return Status::success();
  }
  if (step.invert)
    for (Span &span : spans)
      span.isMatch = !span.isMatch;
  applyBehavior(step.behavior, spans);
  for (const Span &span : spans)
    if (span.begin != span.end && !span.isMatch)
      out.push_back(
          {std::string(text.substr(span.begin, span.end - span.begin)),
           piece.first && span.begin == 0});
  return Status::success();
}

static void replaceSpaces(std::string &text, const std::string &replacement) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (char c : text)
    if (c == ' ')
      out += replacement;
    else
      out += c;
  text = std::move(out);
}

Status PreTokenizer::applyStep(const Step &step, std::vector<Piece> &pieces) {
  std::vector<Piece> out;
  out.reserve(pieces.size() * 2);
  std::vector<Span> spans;
  for (Piece &piece : pieces) {
    switch (step.kind) {
    case Kind::Split:
    case Kind::Chars:
      OCTET_TRY(cut(step, std::move(piece), spans, out));
      break;
    case Kind::ByteLevel: {
      if (step.prefixSpace && !piece.text.starts_with(' '))
        piece.text.insert(0, " ");
      const size_t from = out.size();
      OCTET_TRY(cut(step, std::move(piece), spans, out));
      for (size_t i = from; i < out.size(); ++i)
        out[i].text = toByteLevel(out[i].text);
      break;
    }
    case Kind::Metaspace: {
      replaceSpaces(piece.text, step.replacement);
      if (step.prepend == Prepend::Always ||
          (step.prepend == Prepend::First && piece.first))
        if (!piece.text.starts_with(step.replacement))
          piece.text.insert(0, step.replacement);
      if (!step.split) {
        out.push_back(std::move(piece));
        break;
      }
      std::string_view mark = step.replacement;
      Step byMark;
      byMark.kind = Kind::Chars;
      byMark.matches = matchesChar;
      byMark.wanted = takeChar(mark);
      byMark.behavior = Behavior::MergedWithNext;
      OCTET_TRY(cut(byMark, std::move(piece), spans, out));
      break;
    }
    }
  }
  pieces = std::move(out);
  return Status::success();
}

static size_t bytesOf(const std::vector<Piece> &pieces) {
  size_t bytes = 0;
  for (const Piece &piece : pieces)
    bytes += piece.text.size();
  return bytes;
}

Status PreTokenizer::apply(std::vector<Piece> &pieces) const {
  const size_t before = bytesOf(pieces);
  for (const Step &step : steps) {
    OCTET_TRY(applyStep(step, pieces));
    OCTET_TRY(checkGrowth(before, bytesOf(pieces), where));
  }
  return Status::success();
}
