//===- RegexSyntax.cpp - Oniguruma's syntax to PCRE2's --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Regex.h"
#include "octet/Support/Escape.h"
#include "octet/Text/Utf8.h"
#include <algorithm>
#include <cctype>
#include <optional>

using namespace octet;
using namespace octet::text;

static constexpr size_t kMaxPattern = 1 << 16;

// The insides of classes.
static constexpr char kSpace[] = R"(\t-\r\x20\x85\p{Z})";
static constexpr char kWord[] = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside a class Oniguruma takes characters below U+0100 from a table of their
// own, where six more of Latin-1's are of words.
static constexpr char kWordAlone[] =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\xB2\xB3\xB9\xBC-\xBE)";
static constexpr char kHex[] = "0-9A-Fa-f";

namespace {

struct Name {
  std::string_view long_;
  std::string_view short_;
};
/// Properties that PCRE2 knows by another name, letter case and separators
/// aside.
constexpr Name kCategories[] = {
    {"any", "Any"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
    {"surrogate", "Cs"},
    {"letter", "L"},
    {"casedletter", "L&"},
    {"lowercaseletter", "Ll"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"titlecaseletter", "Lt"},
    {"uppercaseletter", "Lu"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"nonspacingmark", "Mn"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"digit", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"closepunctuation", "Pe"},
    {"finalpunctuation", "Pf"},
    {"initialpunctuation", "Pi"},
    {"otherpunctuation", "Po"},
    {"openpunctuation", "Ps"},
    {"symbol", "S"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"mathsymbol", "Sm"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"spaceseparator", "Zs"},
    {"alpha", "Alphabetic"},
    {"alphabetic", "Alphabetic"},
    {"lower", "Lowercase"},
    {"lowercase", "Lowercase"},
    {"upper", "Uppercase"},
    {"uppercase", "Uppercase"},
    {"space", "White_Space"},
    {"whitespace", "White_Space"},
    {"emoji", "Emoji"},
    {"emojipresentation", "Emoji_Presentation"},
    {"emojimodifier", "Emoji_Modifier"},
    {"ideographic", "Ideographic"},
    {"extendedpictographic", "Extended_Pictographic"},
};

/// One pass from left to right.
class Translator {
public:
  Translator(std::string_view pattern, const std::string &subject)
      : pattern(pattern), rest(pattern), subject(subject) {}

  Result<std::string> run() {
    if (pattern.size() > kMaxPattern)
      return inputError(subject, "a pattern of " +
                                     std::to_string(pattern.size()) +
                                     " bytes; at most " +
                                     std::to_string(kMaxPattern) + " are read");
    if (!isUtf8(pattern))
      return inputError(subject, "a pattern that is not UTF-8");
    while (!rest.empty())
      OCTET_TRY(element());
    return std::move(out);
  }

private:
  Status unsupported(std::string_view construct) const {
    return inputError(subject, "pattern " + quoteName(pattern) +
                                   ": the construct " + quoteName(construct) +
                                   " is not supported");
  }

  bool take(std::string_view prefix) {
    if (!rest.starts_with(prefix))
      return false;
    rest.remove_prefix(prefix.size());
    return true;
  }

  void copyChar() {
    int bytes = utf8Step(rest).bytes;
    out += rest.substr(0, bytes);
    rest.remove_prefix(bytes);
  }

  Status element() {
    switch (rest.front()) {
    case '\\':
      return escape(/*inClass=*/false);
    case '[':
      return characterClass();
    case '(':
      return group();
    case '{':
      return interval();
    default:
      copyChar();
      return Status::success();
    }
  }

  Status group() {
    for (std::string_view same :
         {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:"})
      if (take(same)) {
        out += same;
        return Status::success();
      }
    if (take("(?m:")) {
      out += "(?s:";
      return Status::success();
    }
    // In the middle of a pattern the two disagree on what it reaches.
    if (rest.size() == pattern.size() && take("(?i)")) {
      out += "(?i)";
      return Status::success();
    }
    if (rest.starts_with("(?") || rest.starts_with("(*"))
      return unsupported(rest.substr(0, 4));
    copyChar();
    return Status::success();
  }

  /// `{n}`, `{n,}`, `{n,m}`, `{,m}`; any other brace is a brace.
  Status interval() {
    size_t at = 1;
    auto digits = [&] {
      size_t begin = at;
      while (at < rest.size() && std::isdigit(uint8_t(rest[at])))
        ++at;
      return rest.substr(begin, at - begin);
    };
    std::string_view low = digits();
    bool comma = at < rest.size() && rest[at] == ',';
    std::string_view high;
    if (comma) {
      ++at;
      high = digits();
    }
    if (at >= rest.size() || rest[at] != '}' || (low.empty() && high.empty())) {
      out += "\\{";
      rest.remove_prefix(1);
      return Status::success();
    }
    std::string_view whole = rest.substr(0, at + 1);
    rest.remove_prefix(at + 1);
    // "+" repeats the repeat there and makes it possessive here; "?" after {n}
    // makes it optional there and lazy here.
    if (rest.starts_with("+") || (!comma && rest.starts_with("?")))
      return unsupported(std::string(whole) + rest.front());
    out += '{';
    out += low.empty() ? "0" : low;
    if (comma)
      out += ',';
    out += high;
    out += '}';
    return Status::success();
  }

  void addClass(bool inClass, const char *inside) {
    out += inClass ? inside : "[" + std::string(inside) + "]";
  }

  Status escape(bool inClass) {
    if (rest.size() < 2)
      return unsupported("\\ at the end");
    const std::string_view two = rest.substr(0, 2);
    const char c = rest[1];
    auto done = [&](auto &&text) {
      out += text;
      rest.remove_prefix(2);
      return Status::success();
    };
    auto notClass = [&](const char *inside) {
      return done("[^" + std::string(inside) + "]");
    };
    if (!std::isalnum(uint8_t(c))) {
      if (uint8_t(c) < 0x80)
        return done(two);
      rest.remove_prefix(1); // A character past ASCII needs no escape.
      copyChar();
      return Status::success();
    }
    switch (c) {
    case 's':
      addClass(inClass, kSpace);
      return done("");
    case 'w':
      addClass(inClass, inClass ? kWord : kWordAlone);
      return done("");
    case 'h':
      addClass(inClass, kHex);
      return done("");
    case 'S':
      // PCRE2's own \s has U+180E too, which is no white space any more.
      return inClass ? done("\\S\\x{180E}") : notClass(kSpace);
    case 'W':
      return inClass ? unsupported(two) : notClass(kWordAlone);
    case 'H':
      return inClass ? unsupported(two) : notClass(kHex);
    case 'd':
      return done("\\p{Nd}");
    case 'D':
      return done("\\P{Nd}");
    case 'v':
      return done("\\x0b");
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'a':
    case 'e':
      return done(two);
    case 'b':
    case 'B': {
      if (inClass)
        return c == 'b' ? done("\\x08") : unsupported(two);
      const std::string word = "[" + std::string(kWordAlone) + "]";
      if (c == 'b')
        return done("(?:(?<=" + word + ")(?!" + word + ")|(?<!" + word +
                    ")(?=" + word + "))");
      return done("(?:(?<=" + word + ")(?=" + word + ")|(?<!" + word + ")(?!" +
                  word + "))");
    }
    case 'A':
    case 'z':
    case 'Z':
      return inClass ? unsupported(two) : done(two);
    case 'p':
    case 'P':
      return property();
    case 'u':
      return codePoint(2, 4, 4);
    case 'x':
      return hexadecimal();
    default:
      return unsupported(two);
    }
  }

  /// Digits from `at` on, `least` to `most` of them, as `\x{…}`.
  Status codePoint(size_t at, size_t least, size_t most) {
    size_t end = at;
    while (end < rest.size() && end - at < most &&
           std::isxdigit(uint8_t(rest[end])))
      ++end;
    if (end - at < least)
      return unsupported(rest.substr(0, end));
    out += "\\x{" + std::string(rest.substr(at, end - at)) + "}";
    rest.remove_prefix(end);
    return Status::success();
  }

  Status hexadecimal() {
    if (rest.starts_with("\\x{")) {
      size_t close = rest.find('}');
      if (close == rest.npos || close == 3 || close > 11 ||
          !std::all_of(rest.begin() + 3, rest.begin() + close,
                       [](char c) { return std::isxdigit(uint8_t(c)); }))
        return unsupported(rest.substr(0, 12));
      out += rest.substr(0, close + 1);
      rest.remove_prefix(close + 1);
      return Status::success();
    }
    // There a byte of UTF-8, here a code point: the same below 80.
    if (rest.size() < 4 || rest[2] > '7')
      return unsupported(rest.substr(0, 4));
    return codePoint(2, 2, 2);
  }

  /// `\p{Name}`, `\P{Name}`, `\p{^Name}`.
  Status property() {
    size_t close = rest.find('}');
    if (rest.size() < 4 || rest[2] != '{' || close == rest.npos)
      return unsupported(rest.substr(0, 4));
    std::string_view whole = rest.substr(0, close + 1);
    std::string_view name = whole.substr(3, whole.size() - 4);
    bool negative = whole[1] == 'P';
    if (name.starts_with('^')) {
      negative = !negative;
      name.remove_prefix(1);
    }
    std::string plain;
    for (char c : name)
      if (c != '_' && c != ' ' && c != '-')
        plain += char(std::tolower(uint8_t(c)));
    if (plain.empty() || !std::all_of(plain.begin(), plain.end(), [](char c) {
          return std::isalpha(uint8_t(c)) || c == '&';
        }))
      return unsupported(whole);
    std::string known;
    if (plain.size() <= 2) {
      known = plain;
      known[0] = char(std::toupper(uint8_t(known[0])));
    } else {
      for (const Name &entry : kCategories)
        if (entry.long_ == plain)
          known = entry.short_;
      if (known.empty())
        known = "sc:" + std::string(name); // A script, or PCRE2 says no.
    }
    out += negative ? "\\P{" : "\\p{";
    out += known + "}";
    rest.remove_prefix(whole.size());
    return Status::success();
  }

  Status characterClass() {
    const std::string_view start = rest;
    out += '[';
    rest.remove_prefix(1);
    if (take("^"))
      out += '^';
    if (take("]"))
      out += "\\]";
    while (!rest.empty()) {
      if (take("]")) {
        out += ']';
        return Status::success();
      }
      if (rest.starts_with("[:") || rest.starts_with("&&"))
        return unsupported(rest.substr(0, 2));
      if (rest.front() == '[')
        return unsupported("[ in a class");
      if (rest.front() == '\\') {
        OCTET_TRY(escape(/*inClass=*/true));
        continue;
      }
      copyChar();
    }
    return inputError(subject, "pattern " + quoteName(pattern) +
                                   ": no ']' after " + quoteName(start));
  }

  std::string_view pattern, rest;
  const std::string &subject;
  std::string out;
};

} // namespace

Result<std::string> text::translatePattern(std::string_view pattern,
                                           const std::string &subject) {
  return Translator(pattern, subject).run();
}
