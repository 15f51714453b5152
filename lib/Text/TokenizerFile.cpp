//===- TokenizerFile.cpp - The large parts of tokenizer.json --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenizerFile.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Utf8.h"
#include <charconv>

using namespace octet;
using namespace octet::text;

namespace {

/// Where a value lies in the text.
struct Range {
  size_t begin, end;
};

/// Moves over JSON. A function that returns false has met something that it
/// does not take; the whole text is then left to parseJson.
class Scanner {
public:
  Scanner(std::string_view text) : text(text) {}

  char peek() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' ||
                                text[at] == '\r' || text[at] == '\t'))
      ++at;
    return at < text.size() ? text[at] : '\0';
  }
  bool take(char c) {
    if (peek() != c)
      return false;
    ++at;
    return true;
  }

  /// A string; `out` points into the text, or at `buffer` if there were
  /// escapes.
  bool string(std::string_view &out, std::string &buffer) {
    if (!take('"'))
      return false;
    const size_t begin = at;
    bool escaped = false;
    for (;; ++at) {
      if (at >= text.size())
        return false;
      uint8_t c = uint8_t(text[at]);
      if (c == '"')
        break;
      if (c < 0x20)
        return false;
      if (c >= 0x80) {
        Utf8Step step = utf8Step(text.substr(at));
        if (!step.valid)
          return false;
        at += size_t(step.bytes) - 1;
      } else if (c == '\\') {
        escaped = true;
        ++at; // A multi-byte character is no escape: unescape refuses it.
      }
    }
    out = text.substr(begin, at - begin);
    ++at;
    if (escaped) {
      if (!unescape(out, buffer))
        return false;
      out = buffer;
    }
    return true;
  }

  bool integer(int64_t &out) {
    peek();
    auto [end, error] =
        std::from_chars(text.data() + at, text.data() + text.size(), out);
    if (error != std::errc())
      return false;
    at = size_t(end - text.data());
    char next = peek();
    return next == ',' || next == '}'; // No fraction, no exponent.
  }

  /// Any value. Its insides are only counted.
  bool skipValue() {
    int depth = 0;
    do {
      switch (peek()) {
      case '\0':
        return false;
      case '"': {
        ++at;
        while (at < text.size() && text[at] != '"')
          at += text[at] == '\\' ? 2 : 1;
        if (at >= text.size())
          return false;
        ++at;
        break;
      }
      case '{':
      case '[':
        ++depth;
        ++at;
        break;
      case '}':
      case ']':
        if (--depth < 0)
          return false;
        ++at;
        break;
      case ',':
      case ':':
        if (!depth)
          return false;
        ++at;
        break;
      default:
        while (at < text.size() &&
               std::string_view(" \t\r\n,:{}[]\"").find(text[at]) ==
                   std::string_view::npos)
          ++at;
      }
    } while (depth);
    return true;
  }

  size_t at = 0;

private:
  static bool hex4(std::string_view in, uint32_t &out) {
    if (in.size() < 4)
      return false;
    auto [end, error] = std::from_chars(in.data(), in.data() + 4, out, 16);
    return error == std::errc() && end == in.data() + 4;
  }

  static bool unescape(std::string_view in, std::string &out) {
    out.clear();
    while (!in.empty()) {
      size_t plain = std::min(in.find('\\'), in.size());
      out += in.substr(0, plain);
      in.remove_prefix(plain);
      if (in.empty())
        return true;
      static constexpr std::string_view from = "\"\\/bfnrt";
      static constexpr std::string_view to = "\"\\/\b\f\n\r\t";
      if (size_t kind = from.find(in[1]); kind != from.npos) {
        out += to[kind];
        in.remove_prefix(2);
        continue;
      }
      uint32_t code;
      if (in[1] != 'u' || !hex4(in.substr(2), code))
        return false;
      in.remove_prefix(6);
      if (code >= 0xD800 && code < 0xE000) {
        uint32_t low;
        if (code >= 0xDC00 || !in.starts_with("\\u") ||
            !hex4(in.substr(2), low) || low < 0xDC00 || low > 0xDFFF)
          return false;
        in.remove_prefix(6);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      }
      appendUtf8(out, code);
    }
    return true;
  }

  std::string_view text;
};

class Reader {
public:
  Reader(std::string_view text, const std::string &subject)
      : text(text), subject(subject), scan(text) {}

  Result<TokenizerFile> run() {
    OCTET_TRY(findModel());
    std::string document;
    size_t from = 0;
    for (const Range &range : taken) {
      document += text.substr(from, range.begin - from);
      document += "null";
      from = range.end;
    }
    document += text.substr(from);
    OCTET_TRY_ASSIGN(file.rest, parseJson(document, subject));
    return std::move(file);
  }

private:
  /// Calls `member(key)` at the value of each member of an object; false as
  /// soon as the text is not an object.
  template <typename Member>
  bool object(Member member) {
    std::string buffer;
    std::string_view key;
    if (!scan.take('{'))
      return false;
    if (scan.take('}'))
      return true;
    do {
      if (!scan.string(key, buffer) || !scan.take(':') || !member(key))
        return false;
    } while (scan.take(','));
    return scan.take('}');
  }

  Status findModel() {
    Status status;
    object([&](std::string_view key) {
      if (key != "model" || scan.peek() != '{')
        return scan.skipValue();
      return object([&](std::string_view name) {
        const bool isVocab = name == "vocab" && scan.peek() == '{';
        const bool isMerges = name == "merges" && scan.peek() == '[';
        // A second one of the name is for parseJson to refuse.
        if ((!isVocab || file.hasVocab) && (!isMerges || file.hasMerges))
          return scan.skipValue();
        const size_t begin = scan.at;
        if (!(isVocab ? vocab(status) : merges(status)) || !status.ok()) {
          scan.at = begin;
          return status.ok() && scan.skipValue();
        }
        (isVocab ? file.hasVocab : file.hasMerges) = true;
        taken.push_back({begin, scan.at});
        return true;
      });
    });
    return status;
  }

  bool vocab(Status &status) {
    file.vocab = Vocabulary();
    // Token and merge take 28 bytes of a compact file; too large a guess costs
    // the time to clear the table, too small a one to fill it twice.
    file.vocab.reserve(std::min<size_t>(text.size() / 32, 1 << 20),
                       text.size() / 3);
    pending.clear();
    bool whole = object([&](std::string_view token) {
      int64_t id;
      if (!scan.integer(id))
        return false;
      if (id < 0 || id >= kMaxId) {
        status = inputError(subject, "model.vocab: " + quoteName(token) +
                                         " has the id " + std::to_string(id) +
                                         "; ids are 0 to " +
                                         std::to_string(kMaxId - 1));
        return false;
      }
      pending.push_back({token, int32_t(id)});
      // A token with escapes does not outlive this call.
      const bool inText = token.data() >= text.data() &&
                          token.data() < text.data() + text.size();
      if (inText && pending.size() < 64)
        return true;
      return addPending(status);
    });
    return whole && addPending(status);
  }

  bool addPending(Status &status) {
    const size_t added = file.vocab.addAll(pending);
    if (added == pending.size()) {
      pending.clear();
      return true;
    }
    const Vocabulary::Token &token = pending[added];
    auto other = file.vocab.token(token.id);
    status = inputError(
        subject, other && *other != token.text
                     ? "model.vocab: " + quoteName(token.text) + " and " +
                           quoteName(*other) + " have the same id " +
                           std::to_string(token.id)
                     : "model.vocab: has " + quoteName(token.text) + " twice");
    return false;
  }

  std::string_view keep(std::string_view string, const std::string &buffer) {
    if (string.data() != buffer.data())
      return string;
    file.unescaped.push_back(std::make_unique<std::string>(buffer));
    return *file.unescaped.back();
  }

  bool merges(Status &status) {
    std::string buffer;
    file.merges.clear();
    file.merges.reserve(std::min<size_t>(text.size() / 32, 1 << 20));
    if (!scan.take('['))
      return false;
    if (scan.take(']'))
      return true;
    do {
      std::string_view left, right;
      if (scan.peek() == '[') {
        scan.take('[');
        if (!scan.string(left, buffer))
          return false;
        left = keep(left, buffer);
        if (!scan.take(',') || !scan.string(right, buffer))
          return false;
        right = keep(right, buffer);
        if (!scan.take(']'))
          return false;
      } else {
        std::string_view both;
        if (!scan.string(both, buffer))
          return false;
        if (both.starts_with("#version"))
          continue;
        both = keep(both, buffer);
        size_t space = both.find(' ');
        if (space == both.npos || both.find(' ', space + 1) != both.npos) {
          status = inputError(
              subject, "model.merges[" + std::to_string(file.merges.size()) +
                           "]: " + quoteName(both) +
                           " is not two tokens with a space between");
          return false;
        }
        left = both.substr(0, space);
        right = both.substr(space + 1);
      }
      file.merges.push_back({left, right});
    } while (scan.take(','));
    return scan.take(']');
  }

  std::string_view text;
  const std::string &subject;
  Scanner scan;
  TokenizerFile file;
  std::vector<Vocabulary::Token> pending;
  std::vector<Range> taken;
};

} // namespace

Result<TokenizerFile> text::readTokenizerFile(std::string_view text,
                                              const std::string &subject) {
  return Reader(text, subject).run();
}
