//===- Decoder.cpp - Tokens back to text ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Decoder.h"
#include "Fields.h"
#include "Normalizer.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;
using namespace octet::text;
using nlohmann::json;

static constexpr char kKnown[] = "Sequence, ByteLevel, ByteFallback, Fuse, "
                                 "Strip, Replace and Metaspace";

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Result<Decoder> Decoder::read(const json &component,
                              const std::string &subject) {
  Decoder decoder;
  if (component.is_null()) {
    decoder.joinBySpaces = true;
    return decoder;
  }
  const std::string where = subject + ": decoder";
  OCTET_TRY_ASSIGN(std::vector<Component> components,
                   readComponents(component, "decoders", where));
  for (const Component &each : components)
    OCTET_TRY(decoder.add(*each.fields, each.type, where));
  bool fused = false;
  for (Step &step : decoder.steps) {
    step.fused = fused;
    step.whole = fused && step.kind != Kind::Fuse &&
                 !(step.kind == Kind::Strip && step.stop == 0);
    fused |= step.kind == Kind::Fuse || step.kind == Kind::ByteLevel;
  }
  return decoder;
}

Status Decoder::add(const json &component, const std::string &type,
                    const std::string &where) {
  Step step;
  if (type == "ByteLevel") {
    step.kind = Kind::ByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = Kind::ByteFallback;
  } else if (type == "Strip") {
    step.kind = Kind::Strip;
    OCTET_TRY_ASSIGN(step.text, charField(component, "content", where));
    OCTET_TRY_ASSIGN(step.start, intField(component, "start", where));
    OCTET_TRY_ASSIGN(step.stop, intField(component, "stop", where));
    if (step.start < 0 || step.stop < 0)
      return inputError(where, "a Strip of " + std::to_string(step.start) +
                                   " and " + std::to_string(step.stop) +
                                   " characters; they may not be negative");
  } else if (type == "Replace") {
    step.kind = Kind::Replace;
    OCTET_TRY_ASSIGN(step.regex, readPattern(component, where));
    OCTET_TRY_ASSIGN(step.text, stringField(component, "content", where));
  } else if (type == "Metaspace") {
    step.kind = Kind::Metaspace;
    OCTET_TRY_ASSIGN(step.text, charField(component, "replacement", where));
    OCTET_TRY_ASSIGN(std::string scheme,
                     stringField(component, "prepend_scheme", where, "always"));
    OCTET_TRY_ASSIGN(bool prefix,
                     boolField(component, "add_prefix_space", where, true));
    step.dropFirst = scheme != "never" && prefix;
  } else if (type != "Fuse") {
    return unsupportedType(where, type, kKnown);
  }
  steps.push_back(std::move(step));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// The byte of `<0x0A>`; -1 for other tokens.
static int byteToken(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>')
    return -1;
  int value = 0;
  for (char c : token.substr(3, 2)) {
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                       : -1;
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

/// The bytes that a token of a byte-level vocabulary stands for; a token with
/// any other character stands for itself.
static std::string byteLevelBytes(std::string_view token) {
  std::string bytes;
  for (std::string_view rest = token; !rest.empty();) {
    int byte = byteOfChar(takeChar(rest));
    if (byte < 0)
      return std::string(token);
    bytes += char(byte);
  }
  return bytes;
}

/// \param most  bytes of the result; a larger one leaves the token as it is.
static std::string replaceAll(const std::optional<Regex> &regex,
                              std::string_view token,
                              const std::string &content, size_t most) {
  std::vector<Span> spans;
  // A pattern that finds no end leaves the token as it is.
  if (!regex || !regex->split(token, spans).ok())
    return std::string(token);
  std::string out;
  for (const Span &span : spans) {
    out += span.isMatch ? std::string_view(content)
                        : token.substr(span.begin, span.end - span.begin);
    if (out.size() > most)
      return std::string(token);
  }
  return out;
}

void Decoder::Stream::feed(size_t step, std::string_view token,
                           std::string &out) {
  if (step == decoder->steps.size())
    out += token;
  else if (decoder->steps[step].whole)
    states[step].held += token;
  else
    run(step, token, out);
}

void Decoder::Stream::run(size_t number, std::string_view token,
                          std::string &out) {
  const Step &step = decoder->steps[number];
  State &state = states[number];
  switch (step.kind) {
  case Kind::Fuse:
    feed(number + 1, token, out);
    return;
  case Kind::ByteLevel: {
    std::string text;
    state.utf8.push(byteLevelBytes(token), text);
    if (!text.empty())
      feed(number + 1, text, out);
    return;
  }
  case Kind::ByteFallback:
    if (int byte = byteToken(token); byte >= 0) {
      state.held += char(byte);
      return;
    }
    flushBytes(number, out);
    feed(number + 1, token, out);
    return;
  case Kind::Strip: {
    if (!step.fused || step.whole)
      state.cut = 0, state.cutDone = false;
    while (!state.cutDone && state.cut < step.start &&
           token.starts_with(step.text)) {
      token.remove_prefix(step.text.size());
      ++state.cut;
    }
    if (!token.empty() || state.cut == step.start)
      state.cutDone = true;
    for (int64_t i = 0; i < step.stop && token.ends_with(step.text); ++i)
      token.remove_suffix(step.text.size());
    feed(number + 1, token, out);
    return;
  }
  case Kind::Replace: {
    // Not checkGrowth, whose MiB is for one text: this is run for each token.
    const size_t from = step.fused ? tokenBytes : lastBytes;
    const size_t most = std::max(token.size(), from * 64 + 4096);
    feed(number + 1, replaceAll(step.regex, token, step.text, most), out);
    return;
  }
  case Kind::Metaspace: {
    const bool drop = state.index++ == 0 && step.dropFirst;
    std::string text;
    while (!token.empty()) {
      if (token.starts_with(step.text)) {
        if (!drop)
          text += ' ';
        token.remove_prefix(step.text.size());
      } else {
        text += token.front();
        token.remove_prefix(1);
      }
    }
    feed(number + 1, text, out);
    return;
  }
  }
}

/// A run of byte tokens has ended: its characters, or a U+FFFD for each byte if
/// they are not UTF-8.
void Decoder::Stream::flushBytes(size_t number, std::string &out) {
  State &state = states[number];
  if (state.held.empty())
    return;
  std::string bytes = std::move(state.held);
  state.held.clear();
  if (isUtf8(bytes)) {
    feed(number + 1, bytes, out);
    return;
  }
  for (size_t i = 0; i < bytes.size(); ++i)
    feed(number + 1, "\xEF\xBF\xBD", out);
}

void Decoder::Stream::flush(size_t number, std::string &out) {
  const Step &step = decoder->steps[number];
  State &state = states[number];
  if (step.whole) {
    std::string token = std::move(state.held);
    state.held.clear();
    run(number, token, out);
  }
  if (step.kind == Kind::ByteFallback)
    flushBytes(number, out);
  if (step.kind == Kind::ByteLevel) {
    std::string text;
    state.utf8.finish(text);
    if (!text.empty())
      feed(number + 1, text, out);
  }
}

void Decoder::Stream::push(std::string_view token, std::string &out) {
  if (decoder->joinBySpaces && tokens)
    out += ' ';
  ++tokens;
  lastBytes = token.size();
  tokenBytes += lastBytes;
  feed(0, token, out);
}

void Decoder::Stream::finish(std::string &out) {
  for (size_t step = 0; step < decoder->steps.size(); ++step)
    flush(step, out);
  *this = Stream(*decoder);
}
