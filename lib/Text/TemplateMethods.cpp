//===- TemplateMethods.cpp - Methods of values in chat templates ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateInterpreter.h"
#include "TemplateUnicode.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <functional>

using namespace octet;
using namespace octet::jinja;

bool Interpreter::callMethod(const Value &self, const std::string &name,
                             Arguments &arguments, Value &out) {
  switch (self.kind()) {
  case Kind::String:
    if (self.markup)
      return fail("a method of a string marked by 'safe' is not supported");
    return stringMethod(self.text(), name, arguments, out);
  case Kind::Dict:
    return dictMethod(self, name, arguments, out);
  case Kind::Loop: {
    Loop &loop = self.loop();
    auto &args = arguments.positional;
    if (!arguments.keywords.empty())
      return fail("'loop." + name + "' takes no named arguments");
    if (name == "cycle") {
      if (args.empty())
        return fail("'loop.cycle' needs values");
      out = args[size_t(loop.index0) % args.size()];
      return true;
    }
    bool same = loop.changed.has_value();
    if (same && !sameItems(*loop.changed, args, same))
      return false;
    if (!same)
      loop.changed = args;
    out = Value::boolean(!same);
    return true;
  }
  default:
    return sequenceMethod(self, name, arguments, out);
  }
}

static bool isMutating(std::string_view name) {
  static constexpr std::string_view kNames[] = {
      "append", "clear",  "pop",    "popitem",    "reverse", "insert",
      "sort",   "extend", "remove", "setdefault", "update"};
  return std::find(std::begin(kNames), std::end(kNames), name) !=
         std::end(kNames);
}

bool Interpreter::dictMethod(const Value &self, const std::string &name,
                             Arguments &arguments, Value &out) {
  Bound bound;
  if (name == "get") {
    // Python takes them by position alone.
    if (!arguments.keywords.empty())
      return fail("'get' takes no named arguments");
    if (!bind(name, arguments, {"key", "default"}, 1, bound))
      return false;
    std::string text;
    if (!keyText(*bound[0], text))
      return fail("a value of type " + std::string(typeName(*bound[0])) +
                  " cannot be the key of a dict");
    const Value *item = self.dict().find(*bound[0]);
    out = item ? *item : bound[1] ? *bound[1] : Value::none();
    return true;
  }
  if (name == "keys" || name == "values" || name == "items") {
    if (!bind(name, arguments, {}, 0, bound))
      return false;
    out = Value::view(self, name);
    return true;
  }
  if (name == "copy") {
    out = self;
    return bind(name, arguments, {}, 0, bound);
  }
  return fail("the method " + quoteName(name) + " of a dict is " +
              (isMutating(name) ? "unsafe: the sandbox forbids changes"
                                : "not supported"));
}

bool Interpreter::sequenceMethod(const Value &self, const std::string &name,
                                 Arguments &arguments, Value &out) {
  Bound bound;
  if (name == "copy" && self.is(Kind::List)) {
    out = self;
    return bind(name, arguments, {}, 0, bound);
  }
  if (self.isSequence() && (name == "index" || name == "count")) {
    if (!bind(name, arguments, {"value"}, 1, bound))
      return false;
    int64_t count = 0;
    for (size_t i = 0; i < self.items().size(); ++i) {
      bool same;
      if (!equal(self.items()[i], *bound[0], same))
        return false;
      if (same && name == "index") {
        out = Value::integer(int64_t(i));
        return true;
      }
      count += same;
    }
    if (name == "index")
      return fail("'index' of a value that is not in the list");
    out = Value::integer(count);
    return true;
  }
  return fail("the method " + quoteName(name) + " of " +
              std::string(typeName(self)) + " is " +
              (isMutating(name) && self.is(Kind::List)
                   ? "unsafe: the sandbox forbids changes"
                   : "not supported"));
}

//===----------------------------------------------------------------------===//
// Strings
//===----------------------------------------------------------------------===//

bool Interpreter::replaceText(const std::string &text, const std::string &from,
                              const std::string &to, int64_t count,
                              Value &out) {
  if (count < 0)
    count = INT64_MAX;
  std::string result;
  if (!charge(int64_t(text.size() / 4)))
    return false;
  size_t at = 0;
  if (from.empty()) {
    // Between all characters, and at both ends.
    while (count-- > 0) {
      if (!charge(int64_t(to.size())))
        return false;
      result += to;
      if (at == text.size())
        return makeString(std::move(result), out);
      size_t start = at;
      nextChar(text, at);
      result.append(text, start, at - start);
    }
    result.append(text, at);
    return makeString(std::move(result), out);
  }
  while (count-- > 0) {
    size_t found = findText(text, from, at);
    if (found == text.npos)
      break;
    if (!charge(int64_t(to.size()) + 8))
      return false;
    result.append(text, at, found - at);
    result += to;
    at = found + from.size();
  }
  result.append(text, at);
  return makeString(std::move(result), out);
}

/// str.join, or with `convert` the filter, which takes str() of each item.
bool Interpreter::joinStrings(const std::string &separator, const Value &items,
                              bool convert, Value &out) {
  std::vector<Value> parts;
  std::string text;
  if (!elements(items, parts))
    return false;
  bool first = true;
  for (const Value &part : parts) {
    if (!std::exchange(first, false)) {
      if (!charge(int64_t(separator.size())))
        return false;
      text += separator;
    }
    if (!convert && !part.isString())
      return fail("'join' of a value of type " + std::string(typeName(part)));
    if (!appendStr(part, text))
      return false;
  }
  return makeString(std::move(text), out);
}

bool Interpreter::stripText(std::string_view what, const std::string &text,
                            bool left, bool right,
                            const std::optional<Value> &chars, Value &out) {
  const std::string *set = nullptr;
  if (chars && !chars->isNone()) {
    if (!wantString(what, *chars))
      return false;
    set = &chars->text();
    if (!charge(int64_t(text.size() / 16 * (1 + set->size()))))
      return false;
  }
  return makeString(std::string(strip(text, left, right, set)), out);
}

bool Interpreter::stringMethod(const std::string &text, const std::string &name,
                               Arguments &arguments, Value &out) {
  Bound bound;
  using Map = std::string (*)(std::string_view);
  static constexpr std::pair<std::string_view, Map> kMaps[] = {
      {"upper", upper},
      {"lower", lower},
      {"title", title},
      {"capitalize", capitalize}};
  for (auto [word, map] : kMaps)
    if (name == word)
      return bind(name, arguments, {}, 0, bound) && makeString(map(text), out);
  if (name == "strip" || name == "lstrip" || name == "rstrip")
    return bind(name, arguments, {"chars"}, 0, bound) &&
           stripText(name, text, name != "rstrip", name != "lstrip", bound[0],
                     out);
  if (name == "split" || name == "rsplit" || name == "splitlines" ||
      name == "partition" || name == "rpartition")
    return splitMethod(text, name, arguments, out);
  if (name == "startswith" || name == "endswith" || name == "removeprefix" ||
      name == "removesuffix")
    return affixMethod(text, name, arguments, out);
  if (name == "find" || name == "rfind" || name == "index" ||
      name == "rindex" || name == "count")
    return searchMethod(text, name, arguments, out);
  if (name == "center" || name == "ljust" || name == "rjust" || name == "zfill")
    return padMethod(text, name, arguments, out);
  if (name == "replace") {
    if (!bind(name, arguments, {"old", "new", "count"}, 2, bound) ||
        !wantString(name, *bound[0]) || !wantString(name, *bound[1]) ||
        (bound[2] && !wantInt(name, *bound[2])))
      return false;
    return replaceText(text, bound[0]->text(), bound[1]->text(),
                       bound[2] ? bound[2]->asInt() : -1, out);
  }
  if (name == "join")
    return bind(name, arguments, {"iterable"}, 1, bound) &&
           joinStrings(text, *bound[0], /*convert=*/false, out);
  if (name == "format")
    return braceFormat(text, arguments, out);
  using Is = bool (*)(char32_t);
  static constexpr std::pair<std::string_view, Is> kClasses[] = {
      {"isspace", isSpace}, {"isalpha", isAlpha}};
  for (auto [word, is] : kClasses)
    if (name == word) {
      bool all = !text.empty();
      for (size_t at = 0; at < text.size() && all;)
        all = is(nextChar(text, at));
      out = Value::boolean(all);
      return bind(name, arguments, {}, 0, bound) &&
             charge(int64_t(text.size() / 8));
    }
  if (name == "isupper" || name == "islower") {
    bool all;
    if (!bind(name, arguments, {}, 0, bound) ||
        !test(name.substr(2), Value::string(text), arguments, all))
      return false;
    out = Value::boolean(all);
    return true;
  }
  if (name == "isascii" || name == "isdigit" || name == "isdecimal" ||
      name == "isnumeric" || name == "isalnum") {
    bool ascii = std::all_of(text.begin(), text.end(),
                             [](char c) { return uint8_t(c) < 0x80; });
    if (!ascii && name != "isascii")
      return fail("'" + name + "' of text beyond ASCII is not supported");
    bool all = std::all_of(text.begin(), text.end(), [&](char c) {
      return (c >= '0' && c <= '9') ||
             (name == "isalnum" && isAlpha(char32_t(c)));
    });
    out = Value::boolean(name == "isascii" ? ascii : all && !text.empty());
    return bind(name, arguments, {}, 0, bound);
  }
  return fail("the method " + quoteName(name) +
              " of a string is not "
              "supported");
}

/// str.split and its like.
bool Interpreter::splitMethod(const std::string &text, const std::string &name,
                              Arguments &arguments, Value &out) {
  Bound bound;
  std::vector<std::string_view> parts;
  std::string_view rest = text;
  auto finish = [&] {
    std::vector<Value> items;
    if (!charge(128 * int64_t(parts.size()) + int64_t(text.size())))
      return false;
    for (std::string_view part : parts)
      items.push_back(Value::string(std::string(part)));
    out = name.ends_with("partition") ? Value::tuple(std::move(items))
                                      : Value::list(std::move(items));
    return true;
  };
  if (name == "splitlines") {
    if (!bind(name, arguments, {"keepends"}, 0, bound))
      return false;
    parts = splitLines(text, bound[0] && truthy(*bound[0]));
    return finish();
  }
  bool fromRight = name[0] == 'r';
  if (name.ends_with("partition")) {
    if (!bind(name, arguments, {"sep"}, 1, bound) ||
        !wantString(name, *bound[0]))
      return false;
    const std::string &separator = bound[0]->text();
    if (separator.empty())
      return fail("'" + name + "' with an empty separator");
    size_t at = fromRight ? text.rfind(separator) : findText(text, separator);
    if (fromRight && !charge(int64_t(text.size() / 8 * separator.size())))
      return false;
    if (at == text.npos) {
      parts = {rest, "", ""};
      if (fromRight)
        parts = {"", "", rest};
    } else {
      parts = {rest.substr(0, at), rest.substr(at, separator.size()),
               rest.substr(at + separator.size())};
    }
    return finish();
  }
  if (!bind(name, arguments, {"sep", "maxsplit"}, 0, bound) ||
      (bound[1] && !wantInt(name, *bound[1])))
    return false;
  int64_t left = bound[1] ? bound[1]->asInt() : -1;
  left = left < 0 ? INT64_MAX : left;
  bool bySpace = !bound[0] || bound[0]->isNone();
  if (bySpace) {
    // At runs of white space, none of it at the ends.
    while (true) {
      rest = strip(rest, !fromRight, fromRight);
      if (rest.empty() || left-- == 0)
        break;
      size_t at = 0, cut = fromRight ? 0 : rest.size();
      while (at < rest.size()) {
        size_t start = at;
        bool space = isSpace(nextChar(rest, at));
        if (space && !fromRight) {
          cut = start;
          break;
        }
        if (space)
          cut = at;
      }
      // From the right, each part costs a walk over the rest.
      if (fromRight && !charge(int64_t(rest.size())))
        return false;
      parts.push_back(fromRight ? rest.substr(cut) : rest.substr(0, cut));
      rest = fromRight ? rest.substr(0, cut) : rest.substr(cut);
    }
    if (!rest.empty())
      parts.push_back(rest);
  } else {
    if (!wantString(name, *bound[0]))
      return false;
    std::string_view separator = bound[0]->text();
    if (separator.empty())
      return fail("'" + name + "' with an empty separator");
    if (fromRight && !charge(int64_t(text.size() / 8 * separator.size())))
      return false;
    for (; left > 0; --left) {
      size_t at = fromRight ? rest.rfind(separator) : findText(rest, separator);
      if (at == rest.npos)
        break;
      std::string_view before = rest.substr(0, at);
      std::string_view after = rest.substr(at + separator.size());
      parts.push_back(fromRight ? after : before);
      rest = fromRight ? before : after;
    }
    parts.push_back(rest);
  }
  if (fromRight)
    std::reverse(parts.begin(), parts.end());
  return finish();
}

bool Interpreter::affixMethod(const std::string &text, const std::string &name,
                              Arguments &arguments, Value &out) {
  Bound bound;
  bool atStart = name == "startswith" || name == "removeprefix";
  auto has = [&](std::string_view affix) {
    return atStart ? text.starts_with(affix) : text.ends_with(affix);
  };
  if (!bind(name, arguments, {"affix"}, 1, bound))
    return false;
  if (name.starts_with("remove")) {
    if (!wantString(name, *bound[0]))
      return false;
    size_t cut = has(bound[0]->text()) ? bound[0]->text().size() : 0;
    return makeString(
        atStart ? text.substr(cut) : text.substr(0, text.size() - cut), out);
  }
  std::vector<Value> affixes{*bound[0]};
  if (bound[0]->is(Kind::Tuple))
    affixes = bound[0]->items();
  bool found = false;
  for (const Value &affix : affixes) {
    if (!wantString(name, affix))
      return false;
    found |= has(affix.text());
  }
  out = Value::boolean(found);
  return true;
}

bool Interpreter::searchMethod(const std::string &text, const std::string &name,
                               Arguments &arguments, Value &out) {
  Bound bound;
  if (!bind(name, arguments, {"sub", "start", "end"}, 1, bound) ||
      !wantString(name, *bound[0]))
    return false;
  const std::string &part = bound[0]->text();
  std::vector<size_t> offsets;
  int64_t length = countChars(text), from = 0, to = length;
  auto place = [&](const std::optional<Value> &value, int64_t &i) {
    if (!value || value->isNone())
      return true;
    if (!wantInt(name, *value))
      return false;
    i = value->asInt();
    i = std::clamp<int64_t>(i < 0 ? i + length : i, 0, length + 1);
    return true;
  };
  if (!place(bound[1], from) || !place(bound[2], to))
    return false;
  if (!charge(int64_t(text.size() / 4)))
    return false;
  to = std::min(to, length);
  bool exists = from <= to;
  std::string_view window;
  size_t begin = 0;
  if (exists) {
    offsets = charOffsets(text);
    begin = offsets[size_t(from)];
    window = std::string_view(text).substr(begin, offsets[size_t(to)] - begin);
  }
  if (name == "count") {
    int64_t count = 0;
    if (exists && part.empty())
      count = to - from + 1;
    for (size_t at = 0; exists && !part.empty(); ++count) {
      at = findText(window, part, at);
      if (at == window.npos)
        break;
      at += part.size();
    }
    out = Value::integer(count);
    return true;
  }
  size_t at = std::string::npos;
  if (exists && name[0] == 'r') {
    if (!charge(int64_t(window.size() / 8 * (1 + part.size()))))
      return false;
    at = window.rfind(part);
  } else if (exists) {
    at = findText(window, part);
  }
  if (at == std::string::npos) {
    if (name.ends_with("index"))
      return fail("'" + name + "' of text that is not there");
    out = Value::integer(-1);
    return true;
  }
  out =
      Value::integer(countChars(std::string_view(text).substr(0, begin + at)));
  return true;
}

bool Interpreter::padMethod(const std::string &text, const std::string &name,
                            Arguments &arguments, Value &out) {
  Bound bound;
  if (!bind(name, arguments, {"width", "fillchar"}, 1, bound) ||
      !wantInt(name, *bound[0]) || (bound[1] && !wantString(name, *bound[1])))
    return false;
  std::string fill = bound[1] ? bound[1]->text() : name == "zfill" ? "0" : " ";
  if (countChars(fill) != 1)
    return fail("'" + name + "' pads with one character");
  int64_t length = countChars(text);
  int64_t missing = std::max<int64_t>(bound[0]->asInt(), length) - length;
  if (missing > kMaxTemplateWork || !charge(4 * missing))
    return fail("'" + name + "' to a width of " +
                std::to_string(bound[0]->asInt()) + " characters");
  int64_t left = name == "ljust" ? 0 : missing;
  // CPython's rounding of the halves.
  if (name == "center")
    left = missing / 2 + (missing & (length + missing) & 1);
  std::string before, after;
  for (int64_t i = 0; i < left; ++i)
    before += fill;
  for (int64_t i = left; i < missing; ++i)
    after += fill;
  if (name == "zfill" && !text.empty() && (text[0] == '-' || text[0] == '+'))
    return makeString(text[0] + before + text.substr(1), out);
  return makeString(before + text + after, out);
}
