//===- TemplateLexer.cpp - Tokens of a chat template ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateLexer.h"
#include "TemplateUnicode.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <charconv>

using namespace octet;
using namespace octet::jinja;

Status jinja::errorAt(const std::string &subject, int line,
                      std::string message) {
  return inputError(subject + ": line " + std::to_string(line),
                    std::move(message));
}

namespace {

bool isDigit(char c) { return c >= '0' && c <= '9'; }
bool isNameStart(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool isNameChar(char c) { return isNameStart(c) || isDigit(c); }

class Lexer {
public:
  Lexer(std::string_view text, const std::string &subject) : subject(subject) {
    // Python's splitlines of \r\n, \r and \n; one newline at the end goes.
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != '\r') {
        source += text[i];
        continue;
      }
      source += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n')
        ++i;
    }
    if (source.ends_with('\n'))
      source.pop_back();
  }

  Result<std::vector<Token>> run() {
    while (pos < source.size())
      OCTET_TRY(lexRoot());
    add(TokenKind::End, "");
    return std::move(tokens);
  }

private:
  Status fail(std::string message) const {
    return errorAt(subject, line, std::move(message));
  }
  void add(TokenKind kind, std::string text) {
    tokens.push_back({kind, line, std::move(text)});
  }
  bool at(std::string_view part) const {
    return source.compare(pos, part.size(), part) == 0;
  }
  void advanceTo(size_t end) {
    line += int(std::count(source.begin() + long(pos),
                           source.begin() + long(end), '\n'));
    pos = end;
  }
  void skipSpace() {
    size_t end = pos;
    for (size_t next = pos; next < source.size(); end = next)
      if (!isSpace(nextChar(source, next)))
        break;
    advanceTo(end);
  }

  /// `%}`, `-%}` or `+%}` at the position; consumes it and what it trims.
  bool consumeEnd(std::string_view close, bool allowPlus, bool trims) {
    bool minus = at("-"), plus = allowPlus && at("+");
    size_t start = pos + (minus || plus);
    if (source.compare(start, close.size(), close) != 0)
      return false;
    pos = start + close.size();
    size_t end = pos;
    if (minus)
      skipSpace();
    else if (!plus && trims && at("\n"))
      advanceTo(pos + 1);
    lineStarting = pos > end && source[pos - 1] == '\n';
    return true;
  }

  /// The data before a tag, stripped as its sign and lstrip_blocks say.
  void addData(std::string_view text, char sign, bool strips) {
    std::string_view kept = text;
    if (sign == '-') {
      kept = strip(text, false, true);
    } else if (sign != '+' && strips) {
      size_t begin = text.rfind('\n') + 1; // 0 without a newline
      if ((begin > 0 || lineStarting) &&
          strip(text.substr(begin), true, false).empty())
        kept = text.substr(0, begin);
    }
    if (!kept.empty())
      add(TokenKind::Data, std::string(kept));
  }

  /// `raw` of `{%- raw -%}` at the position: the length of the tag.
  size_t rawTagLength(std::string_view name, size_t from) const {
    size_t i = from + 2;
    if (i < source.size() && (source[i] == '-' || source[i] == '+'))
      ++i;
    auto skip = [&] {
      for (size_t next = i; next < source.size(); i = next)
        if (!isSpace(nextChar(source, next)))
          break;
    };
    skip();
    if (source.compare(i, name.size(), name) != 0)
      return 0;
    i += name.size();
    skip();
    return i;
  }

  Status lexRoot();
  Status lexComment();
  Status lexRaw();
  Status lexTag(bool isBlock);
  Status lexNumber();
  Status lexString();
  Status lexOperator();

  const std::string subject;
  std::string source;
  size_t pos = 0;
  int line = 1;
  bool lineStarting = true; ///< the last tag ended with a newline
  std::string open;         ///< brackets that wait for their end
  std::vector<Token> tokens;
};

Status Lexer::lexRoot() {
  size_t tag = pos;
  for (;; ++tag) {
    tag = source.find('{', tag);
    if (tag == source.npos || tag + 1 >= source.size()) {
      add(TokenKind::Data, source.substr(pos));
      pos = source.size();
      return Status::success();
    }
    char next = source[tag + 1];
    if (next == '{' || next == '%' || next == '#')
      break;
  }
  char kind = source[tag + 1];
  char sign = tag + 2 < source.size() ? source[tag + 2] : 0;
  bool signs = sign == '-' || sign == '+';
  addData(std::string_view(source).substr(pos, tag - pos), sign,
          /*strips=*/kind != '{');
  advanceTo(tag);
  if (kind == '%') {
    // `{% raw %}` is a tag of the lexer: what follows is not looked at.
    if (size_t end = rawTagLength("raw", tag)) {
      bool minus = source.compare(end, 3, "-%}") == 0;
      if (minus || source.compare(end, 2, "%}") == 0) {
        advanceTo(end + (minus ? 3 : 2));
        if (minus)
          skipSpace();
        return lexRaw();
      }
    }
  }
  pos = tag + 2 + signs;
  if (kind == '#')
    return lexComment();
  add(kind == '{' ? TokenKind::VariableBegin : TokenKind::BlockBegin, "");
  return lexTag(/*isBlock=*/kind == '%');
}

Status Lexer::lexComment() {
  size_t end = source.find("#}", pos);
  if (end == source.npos)
    return fail("a comment has no end, '#}'");
  if (end > pos && (source[end - 1] == '-' || source[end - 1] == '+'))
    --end;
  advanceTo(end);
  consumeEnd("#}", /*allowPlus=*/true, /*trims=*/true);
  return Status::success();
}

Status Lexer::lexRaw() {
  for (size_t tag = source.find("{%", pos); tag != source.npos;
       tag = source.find("{%", tag + 1)) {
    size_t end = rawTagLength("endraw", tag);
    if (!end)
      continue;
    size_t begin = pos;
    std::string_view text = std::string_view(source).substr(begin, tag - begin);
    size_t close = end + (end < source.size() &&
                          (source[end] == '-' || source[end] == '+'));
    if (source.compare(close, 2, "%}") != 0)
      continue;
    lineStarting = begin > 0 && source[begin - 1] == '\n';
    addData(text, source[tag + 2], /*strips=*/true);
    advanceTo(end);
    consumeEnd("%}", /*allowPlus=*/true, /*trims=*/true);
    return Status::success();
  }
  return fail("'raw' has no end, '{% endraw %}'");
}

Status Lexer::lexTag(bool isBlock) {
  open.clear();
  while (true) {
    if (open.empty() && consumeEnd(isBlock ? "%}" : "}}", isBlock, isBlock)) {
      add(isBlock ? TokenKind::BlockEnd : TokenKind::VariableEnd, "");
      return Status::success();
    }
    if (pos >= source.size())
      return fail(std::string("the template ends inside of a tag; '") +
                  (isBlock ? "%}" : "}}") + "' is missing");
    size_t before = pos;
    skipSpace();
    if (pos > before)
      continue;
    char c = source[pos];
    if (isDigit(c)) {
      OCTET_TRY(lexNumber());
    } else if (isNameStart(c)) {
      size_t end = pos;
      while (end < source.size() && isNameChar(source[end]))
        ++end;
      add(TokenKind::Name, source.substr(pos, end - pos));
      pos = end;
    } else if (c == '\'' || c == '"') {
      OCTET_TRY(lexString());
    } else {
      OCTET_TRY(lexOperator());
    }
  }
}

Status Lexer::lexNumber() {
  std::string digits;
  auto take = [&](size_t i, auto accept) {
    // Digits with single underscores between them.
    while (i < source.size()) {
      if (accept(source[i]))
        digits += source[i++];
      else if (source[i] == '_' && i + 1 < source.size() &&
               accept(source[i + 1]))
        ++i;
      else
        break;
    }
    return i;
  };
  int base = 10;
  char mark = pos + 1 < source.size() ? char(source[pos + 1] | 0x20) : 0;
  if (source[pos] == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
    base = mark == 'x' ? 16 : mark == 'o' ? 8 : 2;
    auto accept = [&](char c) {
      int digit = isDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
      return (isDigit(c) || isNameStart(c)) && c != '_' && digit < base;
    };
    size_t end = take(pos + 2, accept);
    if (digits.empty())
      return fail("'" + source.substr(pos, 2) + "' is no number");
    pos = end;
  } else {
    size_t end = take(pos, isDigit);
    bool isFloat = false;
    bool afterDot = pos > 0 && source[pos - 1] == '.';
    std::string whole = digits;
    auto digitAt = [&](size_t i) {
      return i < source.size() && isDigit(source[i]);
    };
    if (!afterDot && end < source.size() && source[end] == '.' &&
        digitAt(end + 1)) {
      digits += '.';
      end = take(end + 1, isDigit);
      isFloat = true;
    }
    if (!afterDot && end < source.size() && (source[end] | 0x20) == 'e') {
      size_t power = end + 1;
      if (power < source.size() &&
          (source[power] == '+' || source[power] == '-'))
        ++power;
      if (digitAt(power)) {
        digits += 'e';
        if (source[power - 1] == '-')
          digits += '-';
        end = take(power, isDigit);
        isFloat = true;
      }
    }
    pos = end;
    if (isFloat) {
      add(TokenKind::Float, digits);
      auto [rest, error] = std::from_chars(
          digits.data(), digits.data() + digits.size(), tokens.back().number);
      if (error != std::errc())
        return fail("the number " + escapeName(digits) +
                    " does not fit a double");
      return Status::success();
    }
    if (digits.size() > 1 && digits[0] == '0' &&
        digits.find_first_not_of('0') != digits.npos)
      return fail("the number " + escapeName(digits) + " begins with 0");
  }
  add(TokenKind::Integer, digits);
  auto [rest, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(),
                      tokens.back().integer, base);
  if (error != std::errc())
    return fail("the integer " + escapeName(digits) + " does not fit 64 bits");
  return Status::success();
}

Status Lexer::lexString() {
  char quote = source[pos];
  int begins = line;
  size_t i = pos + 1;
  std::string text;
  while (i < source.size() && source[i] != quote) {
    char c = source[i++];
    if (c == '\n')
      ++line;
    if (c != '\\') {
      text += c;
      continue;
    }
    if (i == source.size())
      break;
    char e = source[i++];
    size_t hexDigits = 0;
    switch (e) {
    case '\n':
      ++line;
      break;
    case '\\':
    case '\'':
    case '"':
      text += e;
      break;
    case 'a':
      text += '\a';
      break;
    case 'b':
      text += '\b';
      break;
    case 'f':
      text += '\f';
      break;
    case 'n':
      text += '\n';
      break;
    case 'r':
      text += '\r';
      break;
    case 't':
      text += '\t';
      break;
    case 'v':
      text += '\v';
      break;
    case 'x':
      hexDigits = 2;
      break;
    case 'u':
      hexDigits = 4;
      break;
    case 'U':
      hexDigits = 8;
      break;
    case 'N':
      return fail("the escape '\\N' in a string is not supported");
    default:
      if (e >= '0' && e <= '7') {
        char32_t value = char32_t(e - '0');
        for (int n = 1;
             n < 3 && i < source.size() && source[i] >= '0' && source[i] <= '7';
             ++n)
          value = value * 8 + char32_t(source[i++] - '0');
        appendChar(text, value);
      } else if (uint8_t(e) >= 0x80) {
        return fail("a backslash before a character that is not ASCII is not "
                    "supported");
      } else {
        text += '\\';
        text += e;
      }
    }
    if (hexDigits) {
      uint32_t value = 0;
      const char *first = source.data() + i;
      const char *last = first + std::min(hexDigits, source.size() - i);
      auto [rest, error] = std::from_chars(first, last, value, 16);
      if (error != std::errc() || rest != first + hexDigits ||
          value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
        return fail(std::string("the escape '\\") + e +
                    "' in a string is no character");
      appendChar(text, value);
      i += hexDigits;
    }
  }
  if (i >= source.size()) {
    line = begins;
    return fail(std::string("a string has no end, ") + quote);
  }
  tokens.push_back({TokenKind::String, begins, std::move(text)});
  pos = i + 1;
  return Status::success();
}

Status Lexer::lexOperator() {
  static constexpr std::string_view kOperators[] = {
      "**", "//", "==", "!=", ">=", "<=", "+", "-", "*", "/", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  for (std::string_view op : kOperators) {
    if (!at(op))
      continue;
    char c = op[0];
    if (c == '(' || c == '[' || c == '{') {
      open += c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == ')' || c == ']' || c == '}') {
      if (open.empty())
        return fail(std::string("unexpected '") + c + "'");
      if (open.back() != c)
        return fail(std::string("unexpected '") + c + "', expected '" +
                    open.back() + "'");
      open.pop_back();
    }
    add(TokenKind::Operator, std::string(op));
    pos += op.size();
    return Status::success();
  }
  size_t end = pos;
  nextChar(source, end);
  return fail("unexpected character " +
              quoteName(source.substr(pos, end - pos)));
}

} // namespace

Result<std::vector<Token>> jinja::tokenize(std::string_view text,
                                           const std::string &subject) {
  return Lexer(text, subject).run();
}
