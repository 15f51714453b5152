//===- TemplateText.cpp - Values of chat templates as text ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Python's str() and repr(), the `%` and `{}` formats, and json.dumps.
//
//===----------------------------------------------------------------------===//

#include "TemplateInterpreter.h"
#include "TemplateUnicode.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <charconv>
#include <cmath>

using namespace octet;
using namespace octet::jinja;

bool Interpreter::str(const Value &value, std::string &out) {
  out.clear();
  return appendStr(value, out);
}

bool Interpreter::appendStr(const Value &value, std::string &out) {
  if (value.isUndefined())
    return true;
  if (!value.isString())
    return appendRepr(value, out);
  if (!charge(int64_t(value.text().size())))
    return false;
  out += value.text();
  return true;
}

bool Interpreter::appendItems(const std::vector<Value> &items,
                              std::string &out) {
  bool first = true;
  for (const Value &item : items) {
    if (!std::exchange(first, false))
      out += ", ";
    if (!appendRepr(item, out))
      return false;
  }
  return true;
}

bool Interpreter::appendRepr(const Value &value, std::string &out) {
  Level level(*this);
  if (!level.ok() || !charge(8))
    return false;
  switch (value.kind()) {
  case Kind::Undefined:
    out += "Undefined";
    return true;
  case Kind::None:
    out += "None";
    return true;
  case Kind::Bool:
    out += value.asInt() ? "True" : "False";
    return true;
  case Kind::Int:
    out += std::to_string(value.asInt());
    return true;
  case Kind::Float:
    out += floatText(value.asFloat());
    return true;
  case Kind::String:
    if (!charge(int64_t(value.text().size())))
      return false;
    if (value.markup)
      return fail("the repr of a string marked by 'safe' is not supported");
    jinja::appendRepr(out, value.text());
    return true;
  case Kind::List:
    out += '[';
    if (!appendItems(value.items(), out))
      return false;
    out += ']';
    return true;
  case Kind::Tuple:
    out += '(';
    if (!appendItems(value.items(), out))
      return false;
    out += value.items().size() == 1 ? ",)" : ")";
    return true;
  case Kind::Dict: {
    out += '{';
    bool first = true;
    for (const auto &[key, item] : value.dict().entries) {
      if (!std::exchange(first, false))
        out += ", ";
      if (!appendRepr(key, out))
        return false;
      out += ": ";
      if (!appendRepr(item, out))
        return false;
    }
    out += '}';
    return true;
  }
  case Kind::Range: {
    const RangeObject &r = value.range();
    out += "range(" + std::to_string(r.start) + ", " + std::to_string(r.stop);
    if (r.step != 1)
      out += ", " + std::to_string(r.step);
    out += ')';
    return true;
  }
  case Kind::View: {
    std::vector<Value> items;
    if (!elements(value, items))
      return false;
    out += std::string(typeName(value)) + "([";
    if (!appendItems(items, out))
      return false;
    out += "])";
    return true;
  }
  case Kind::Namespace: {
    out += "<Namespace {";
    bool first = true;
    for (const std::string &name : value.ns().order) {
      if (!std::exchange(first, false))
        out += ", ";
      jinja::appendRepr(out, name);
      out += ": ";
      if (!appendRepr(value.ns().attributes.find(name)->second, out))
        return false;
    }
    out += "}>";
    return true;
  }
  default:
    // Python prints an address.
    return fail("a value of type " + std::string(typeName(value)) +
                " has no text");
  }
}

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// One conversion of both formats; `flags` has `-`, `0`, `+`, ` `, or the
/// alignment `<`, `>`, `^` of `{}`.
bool Interpreter::formatOne(char conversion, const std::string &flags,
                            int width, int precision, const Value &value,
                            std::string &out) {
  auto has = [&](char flag) { return flags.find(flag) != flags.npos; };
  std::string text;
  bool isNumber = false;
  switch (conversion) {
  case 's':
    if (!str(value, text))
      return false;
    break;
  case 'r':
    if (!appendRepr(value, text))
      return false;
    break;
  case 'd':
  case 'i':
  case 'u':
  case 'x':
  case 'X': {
    isNumber = true;
    if (!value.isNumber() ||
        (value.is(Kind::Float) && (conversion | 32) == 'x'))
      return fail(std::string("the format '") + conversion +
                  "' needs a number, not " + std::string(typeName(value)));
    double d = value.asFloat();
    if (value.is(Kind::Float) && !(std::fabs(d) < 0x1p63))
      return fail("a number does not fit 64 bits");
    int64_t i = value.is(Kind::Float) ? int64_t(d) : value.asInt();
    char digits[72];
    uint64_t magnitude = i < 0 ? 0 - uint64_t(i) : uint64_t(i);
    auto end = std::to_chars(digits, digits + sizeof(digits), magnitude,
                             (conversion | 32) == 'x' ? 16 : 10)
                   .ptr;
    text = (i < 0      ? "-"
            : has('+') ? "+"
            : has(' ') ? " "
                       : "") +
           std::string(digits, size_t(end - digits));
    if (conversion == 'X')
      text = upper(text);
    break;
  }
  case 'f':
  case 'F':
  case 'e':
  case 'g': {
    isNumber = true;
    if (!value.isNumber())
      return fail(std::string("the format '") + conversion +
                  "' needs a number, not " + std::string(typeName(value)));
    double d = value.asFloat();
    char form[] = "%.*f", digits[512];
    form[3] = conversion;
    snprintf(digits, sizeof(digits), form, precision < 0 ? 6 : precision, d);
    text = (std::signbit(d) ? ""
            : has('+')      ? "+"
            : has(' ')      ? " "
                            : "") +
           std::string(digits);
    break;
  }
  default:
    return fail(std::string("the format '") + escapeName({&conversion, 1}) +
                "' is not supported");
  }
  if (!isNumber && precision >= 0) {
    std::vector<size_t> offsets = charOffsets(text);
    text.resize(offsets[std::min(size_t(precision), offsets.size() - 1)]);
  }
  int64_t missing = width - countChars(text);
  if (missing > 0) {
    std::string fill(size_t(missing), ' ');
    if (has('^'))
      text = fill.substr(0, size_t(missing / 2)) + text +
             fill.substr(size_t(missing / 2));
    else if (has('-') || has('<'))
      text += fill;
    else if (has('0') && isNumber)
      text.insert(text.find_first_of("0123456789in"),
                  std::string(size_t(missing), '0'));
    else
      text = fill + text;
  }
  out += text;
  return charge(int64_t(text.size()));
}

/// Width and precision of one field; more would be an attack.
static constexpr int kMaxWidth = 256;

bool Interpreter::percentFormat(const std::string &format,
                                const Value &arguments, Value &out) {
  bool isTuple = arguments.is(Kind::Tuple), isDict = arguments.is(Kind::Dict);
  size_t used = 0;
  std::string text;
  auto number = [&](size_t &i, int &n) {
    for (n = 0; i < format.size() && format[i] >= '0' && format[i] <= '9'; ++i)
      n = std::min(n * 10 + (format[i] - '0'), kMaxWidth + 1);
    return n <= kMaxWidth || fail("a format is wider than 256 characters");
  };
  for (size_t i = 0; i < format.size();) {
    if (format[i] != '%') {
      text += format[i++];
      continue;
    }
    if (++i < format.size() && format[i] == '%') {
      text += '%';
      ++i;
      continue;
    }
    Value value;
    bool named = i < format.size() && format[i] == '(';
    if (named) {
      size_t end = format.find(')', i);
      if (end == format.npos || !isDict)
        return fail("a format with a name needs a dict");
      const Value *item = arguments.dict().find(
          std::string_view(format).substr(i + 1, end - i - 1));
      if (!item)
        return fail("the format names " +
                    quoteName(format.substr(i + 1, end - i - 1)) +
                    ", which is not there");
      value = *item;
      i = end + 1;
    }
    std::string flags;
    while (i < format.size() &&
           std::string_view("-0+ ").find(format[i]) != std::string_view::npos)
      flags += format[i++];
    int width, precision = -1;
    if (!number(i, width))
      return false;
    if (i < format.size() && format[i] == '.' && !number(++i, precision))
      return false;
    if (i == format.size())
      return fail("the format ends behind '%'");
    if (!named) {
      size_t count = isTuple ? arguments.items().size() : 1;
      if (used >= count)
        return fail("a format has more fields than there are values");
      value = isTuple ? arguments.items()[used] : arguments;
      ++used;
    }
    if (!formatOne(format[i++], flags, width, precision, value, text))
      return false;
  }
  if (!isDict && used < (isTuple ? arguments.items().size() : 1))
    return fail("a format has fewer fields than there are values");
  return makeString(std::move(text), out);
}

/// str.format: `{}`, `{0}`, `{name}`, `!r`, and a width or precision.
bool Interpreter::braceFormat(const std::string &format, Arguments &arguments,
                              Value &out) {
  std::string text;
  size_t automatic = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    char c = format[i];
    if (c != '{' && c != '}') {
      text += c;
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == c) {
      text += c;
      ++i;
      continue;
    }
    size_t end = format.find('}', i);
    if (c == '}' || end == format.npos)
      return fail("a single '" + std::string(1, c) + "' in a format");
    std::string field = format.substr(i + 1, end - i - 1), spec;
    i = end;
    if (size_t colon = field.find(':'); colon != field.npos) {
      spec = field.substr(colon + 1);
      field.resize(colon);
    }
    char conversion = 's';
    bool converts = field.size() >= 2 && field[field.size() - 2] == '!';
    if (converts) {
      conversion = field.back();
      field.resize(field.size() - 2);
    }
    size_t index = automatic;
    const Value *value = nullptr;
    auto [rest, error] =
        std::from_chars(field.data(), field.data() + field.size(), index);
    bool isIndex = field.empty() || (error == std::errc() &&
                                     rest == field.data() + field.size());
    automatic += field.empty();
    if (isIndex && index < arguments.positional.size())
      value = &arguments.positional[index];
    for (const auto &[name, item] : arguments.keywords)
      if (!isIndex && name == field)
        value = &item;
    if (!value)
      return fail("the field " + quoteName(field) +
                  " of a format has no value or is not supported");
    std::string flags;
    size_t at = 0;
    int width = 0, precision = -1;
    while (at < spec.size() &&
           std::string_view("<>^0+ ").find(spec[at]) != std::string_view::npos)
      flags += spec[at++];
    auto digits = [&](int &n) {
      n = 0;
      for (; at < spec.size() && spec[at] >= '0' && spec[at] <= '9'; ++at)
        n = std::min(n * 10 + (spec[at] - '0'), kMaxWidth + 1);
      return n <= kMaxWidth;
    };
    bool fits = digits(width);
    if (fits && at < spec.size() && spec[at] == '.') {
      ++at;
      fits = digits(precision);
    }
    bool isNumber = value->isNumber() && !converts;
    if (at < spec.size() && !converts)
      conversion = spec[at++];
    else if (isNumber && !value->is(Kind::Bool) && !spec.empty())
      conversion = value->is(Kind::Int) ? 'd' : precision >= 0 ? 'g' : 's';
    if (!fits || at != spec.size())
      return fail("the format " + quoteName(spec) + " is not supported");
    // Text stands left, numbers right, unless the format says so.
    if (!isNumber && flags.find_first_of("<>^") == flags.npos)
      flags += '<';
    if (!formatOne(conversion, flags, width, precision, *value, text))
      return false;
  }
  return makeString(std::move(text), out);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

namespace {

struct JsonStyle {
  bool ascii = false, sortKeys = false, indents = false;
  std::string indent, itemSeparator = ", ", keySeparator = ": ";
};

void appendJsonString(std::string &out, std::string_view text, bool ascii) {
  out += '"';
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = nextChar(text, at);
    const char *escape = c == '"'    ? "\\\""
                         : c == '\\' ? "\\\\"
                         : c == '\n' ? "\\n"
                         : c == '\r' ? "\\r"
                         : c == '\t' ? "\\t"
                         : c == '\f' ? "\\f"
                         : c == '\b' ? "\\b"
                                     : nullptr;
    char code[16];
    if (escape) {
      out += escape;
    } else if (c >= 0x20 && (c < 0x7f || !ascii)) {
      out += text.substr(start, at - start);
    } else if (c == 0x7f) {
      out += '\x7f';
    } else if (c < 0x10000) {
      snprintf(code, sizeof(code), "\\u%04x", unsigned(c));
      out += code;
    } else {
      unsigned rest = unsigned(c) - 0x10000;
      snprintf(code, sizeof(code), "\\u%04x\\u%04x", 0xd800 + (rest >> 10),
               0xdc00 + (rest & 0x3ff));
      out += code;
    }
  }
  out += '"';
}

std::string jsonFloat(double d) {
  if (std::isnan(d))
    return "NaN";
  if (std::isinf(d))
    return d < 0 ? "-Infinity" : "Infinity";
  return floatText(d);
}

/// What json.dumps has no text for; empty if all is well.
class JsonWriter {
public:
  JsonWriter(const JsonStyle &style, std::string &out)
      : style(style), out(out) {}

  bool write(const Value &value, int level) {
    if (out.size() > kMaxRenderedBytes)
      return fail("the JSON of a value is too long");
    switch (value.kind()) {
    case Kind::None:
      out += "null";
      return true;
    case Kind::Bool:
      out += value.asInt() ? "true" : "false";
      return true;
    case Kind::Int:
      out += std::to_string(value.asInt());
      return true;
    case Kind::Float:
      out += jsonFloat(value.asFloat());
      return true;
    case Kind::String:
      appendJsonString(out, value.text(), style.ascii);
      return true;
    case Kind::List:
    case Kind::Tuple:
      return writeList(value, level);
    case Kind::Dict:
      return writeDict(value, level);
    default:
      return fail("an object of type " + std::string(typeName(value)) +
                  " has no JSON");
    }
  }

  std::string error;

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }
  void breakLine(int level) {
    if (!style.indents)
      return;
    out += '\n';
    for (int i = 0; i < level; ++i)
      out += style.indent;
  }
  bool writeList(const Value &value, int level) {
    if (value.items().empty()) {
      out += "[]";
      return true;
    }
    out += '[';
    bool first = true;
    for (const Value &item : value.items()) {
      if (!std::exchange(first, false))
        out += style.itemSeparator;
      breakLine(level + 1);
      if (!write(item, level + 1))
        return false;
    }
    breakLine(level);
    out += ']';
    return true;
  }
  bool keyOf(const Value &key, std::string &text) {
    switch (key.kind()) {
    case Kind::String:
      text = key.text();
      return true;
    case Kind::None:
      text = "null";
      return true;
    case Kind::Bool:
      text = key.asInt() ? "true" : "false";
      return true;
    case Kind::Int:
      text = std::to_string(key.asInt());
      return true;
    case Kind::Float:
      text = jsonFloat(key.asFloat());
      return true;
    default:
      return fail("a key of type " + std::string(typeName(key)) +
                  " has no JSON");
    }
  }
  bool writeDict(const Value &value, int level) {
    if (value.dict().entries.empty()) {
      out += "{}";
      return true;
    }
    std::vector<const std::pair<Value, Value> *> entries;
    for (const auto &entry : value.dict().entries)
      entries.push_back(&entry);
    if (style.sortKeys) {
      for (const auto *entry : entries)
        if (!entry->first.isString())
          return fail("sort_keys on keys that are no strings is not "
                      "supported");
      std::sort(entries.begin(), entries.end(), [](auto *a, auto *b) {
        return a->first.text() < b->first.text();
      });
    }
    out += '{';
    bool first = true;
    for (const auto *entry : entries) {
      if (!std::exchange(first, false))
        out += style.itemSeparator;
      breakLine(level + 1);
      std::string key;
      if (!keyOf(entry->first, key))
        return false;
      appendJsonString(out, key, style.ascii);
      out += style.keySeparator;
      if (!write(entry->second, level + 1))
        return false;
    }
    breakLine(level);
    out += '}';
    return true;
  }

  const JsonStyle &style;
  std::string &out;
};

} // namespace

/// The filter of transformers, which is json.dumps without HTML's escapes.
bool Interpreter::toJson(const Value &value, Arguments &arguments, Value &out) {
  Bound bound;
  if (!bind("tojson", arguments,
            {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, bound))
    return false;
  JsonStyle style;
  style.ascii = bound[0] && truthy(*bound[0]);
  style.sortKeys = bound[3] && truthy(*bound[3]);
  if (bound[1] && !bound[1]->isNone()) {
    style.indents = true;
    style.itemSeparator = ",";
    if (bound[1]->isString()) {
      style.indent = bound[1]->text();
    } else {
      if (!wantInt("tojson", *bound[1]))
        return false;
      int64_t width = std::clamp<int64_t>(bound[1]->asInt(), 0, kMaxWidth);
      style.indent = std::string(size_t(width), ' ');
    }
  }
  if (bound[2] && !bound[2]->isNone()) {
    std::vector<Value> pair;
    if (!elements(*bound[2], pair))
      return false;
    if (pair.size() != 2 || !pair[0].isString() || !pair[1].isString())
      return fail("'tojson' needs two strings as separators");
    style.itemSeparator = pair[0].text();
    style.keySeparator = pair[1].text();
  }
  std::string text;
  JsonWriter writer(style, text);
  if (!writer.write(value, 0))
    return fail(writer.error);
  return makeString(std::move(text), out);
}
