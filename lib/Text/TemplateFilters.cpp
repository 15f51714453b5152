//===- TemplateFilters.cpp - Filters and tests of chat templates ----------===//
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
#include <charconv>
#include <cmath>
#include <list>
#include <map>

using namespace octet;
using namespace octet::jinja;

/// Arguments by position or name, as a Python function with these parameters
/// takes them; what is not given stays empty.
bool Interpreter::bind(std::string_view what, Arguments &arguments,
                       std::initializer_list<std::string_view> names,
                       size_t required, Bound &out) {
  if (arguments.positional.size() > names.size())
    return fail(quoteName(what) + " takes at most " +
                std::to_string(names.size()) + " arguments, not " +
                std::to_string(arguments.positional.size()));
  out.assign(names.size(), std::nullopt);
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    out[i] = arguments.positional[i];
  for (const auto &[name, value] : arguments.keywords) {
    auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end())
      return fail(quoteName(what) + " takes no argument " + quoteName(name));
    auto &slot = out[size_t(at - names.begin())];
    if (slot)
      return fail(quoteName(what) + " takes the argument " + quoteName(name) +
                  " once");
    slot = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!out[i])
      return fail(quoteName(what) + " needs the argument " +
                  quoteName(names.begin()[i]));
  return true;
}

bool Interpreter::filter(const std::string &name, const Value &input,
                         Arguments &arguments, Value &out) {
  Level level(*this);
  if (!level.ok())
    return false;
  bool found = true;
  if (!textFilter(name, input, arguments, out, found))
    return false;
  if (!found && !numberFilter(name, input, arguments, out, found))
    return false;
  if (!found && !listFilter(name, input, arguments, out, found))
    return false;
  return found || fail("the filter " + quoteName(name) + " is not supported");
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// The filter `title`, unlike str.title, has its own idea of words.
static std::string titleWords(std::string_view text) {
  std::string out, word;
  auto flush = [&] {
    if (word.empty())
      return;
    size_t at = 0;
    nextChar(word, at);
    out += upper(std::string_view(word).substr(0, at)) +
           lower(std::string_view(word).substr(at));
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = nextChar(text, at);
    if (isSpace(c) || (c < 0x80 && std::string_view("-({[<").find(char(c)) !=
                                       std::string_view::npos)) {
      flush();
      out += text.substr(start, at - start);
    } else {
      word += text.substr(start, at - start);
    }
  }
  flush();
  return out;
}

bool Interpreter::textFilter(const std::string &name, const Value &input,
                             Arguments &arguments, Value &out, bool &found) {
  Bound bound;
  std::string text;
  if (name == "tojson")
    return toJson(input, arguments, out);
  if (name == "indent")
    return indentFilter(input, arguments, out);
  if (name == "join")
    return joinFilter(input, arguments, out);
  if (name == "trim") {
    return bind(name, arguments, {"chars"}, 0, bound) && str(input, text) &&
           stripText(name, text, /*left=*/true, /*right=*/true, bound[0], out);
  }
  if (name == "replace") {
    std::string from, to;
    if (!bind(name, arguments, {"old", "new", "count"}, 2, bound) ||
        !str(input, text) || !str(*bound[0], from) || !str(*bound[1], to))
      return false;
    int64_t count = -1;
    if (bound[2] && !bound[2]->isNone()) {
      if (!wantInt(name, *bound[2]))
        return false;
      count = bound[2]->asInt();
    }
    return replaceText(text, from, to, count, out);
  }
  if (name == "format") {
    if (!str(input, text))
      return false;
    if (arguments.keywords.empty())
      return percentFormat(text, Value::tuple(arguments.positional), out);
    std::vector<std::pair<Value, Value>> entries;
    for (const auto &[key, value] : arguments.keywords)
      entries.emplace_back(Value::string(key), value);
    if (!arguments.positional.empty())
      return fail("'format' takes values by position or by name");
    return percentFormat(text, Value::dict(std::move(entries)), out);
  }
  bool isCase = name == "upper" || name == "lower" || name == "title" ||
                name == "capitalize";
  if (isCase || name == "string" || name == "safe") {
    if (!bind(name, arguments, {}, 0, bound) || !str(input, text))
      return false;
    if (name == "upper")
      text = upper(text);
    else if (name == "lower")
      text = lower(text);
    else if (name == "title")
      text = titleWords(text);
    else if (name == "capitalize")
      text = capitalize(text);
    bool markup = name == "safe" || (name == "string" && input.markup);
    if (!makeString(std::move(text), out))
      return false;
    out.markup = markup;
    return true;
  }
  found = false;
  return true;
}

bool Interpreter::indentFilter(const Value &input, Arguments &arguments,
                               Value &out) {
  Bound bound;
  if (!bind("indent", arguments, {"width", "first", "blank"}, 0, bound) ||
      !wantString("indent", input))
    return false;
  std::string prefix(4, ' ');
  if (bound[0] && bound[0]->isString()) {
    prefix = bound[0]->text();
  } else if (bound[0]) {
    if (!wantInt("indent", *bound[0]))
      return false;
    int64_t width = std::max<int64_t>(bound[0]->asInt(), 0);
    if (!charge(width))
      return false;
    prefix = std::string(size_t(width), ' ');
  }
  bool first = bound[1] && truthy(*bound[1]);
  bool blank = bound[2] && truthy(*bound[2]);
  // A newline more makes an empty text one line, as in jinja2.
  std::string source = input.text() + "\n", text;
  auto lines = splitLines(source, /*keepEnds=*/false);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!charge(int64_t(prefix.size() + lines[i].size())))
      return false;
    if (i)
      text += '\n';
    if (i == 0 ? first : blank || !lines[i].empty())
      text += prefix;
    text += lines[i];
  }
  return makeString(std::move(text), out);
}

bool Interpreter::joinFilter(const Value &input, Arguments &arguments,
                             Value &out) {
  Bound bound;
  std::string separator;
  if (!bind("join", arguments, {"d", "attribute"}, 0, bound) ||
      (bound[0] && !str(*bound[0], separator)))
    return false;
  if (!bound[1] || bound[1]->isNone())
    return joinStrings(separator, input, /*convert=*/true, out);
  std::vector<Value> items;
  if (!elements(input, items))
    return false;
  for (Value &item : items)
    if (!attributeOf(item, *bound[1], Value::none(), item))
      return false;
  return joinStrings(separator, Value::list(std::move(items)),
                     /*convert=*/true, out);
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

/// A number of Python's int() or float(): white space around it, single
/// underscores between digits. False if it is none.
static bool cleanNumber(std::string_view text, std::string &out) {
  text = strip(text, true, true);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    auto alnum = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
             (c >= 'A' && c <= 'Z');
    };
    if (i == 0 || i + 1 == text.size() || !alnum(text[i - 1]) ||
        !alnum(text[i + 1]))
      return false;
  }
  return !out.empty();
}

static bool parseFloat(std::string_view text, double &out) {
  std::string number;
  if (!cleanNumber(text, number))
    return false;
  std::string_view rest = number;
  bool negative = rest.front() == '-';
  if (negative || rest.front() == '+')
    rest.remove_prefix(1);
  std::string low = lower(rest);
  if (low == "inf" || low == "infinity" || low == "nan") {
    out = low == "nan" ? NAN : INFINITY;
  } else {
    if (rest.empty() || !(rest[0] == '.' || (rest[0] >= '0' && rest[0] <= '9')))
      return false;
    auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), out);
    if (end != rest.data() + rest.size())
      return false;
    // Too large or too small for a double.
    if (error == std::errc::result_out_of_range)
      out =
          std::strtod(number.c_str() + (number.size() - rest.size()), nullptr);
  }
  out = negative ? -out : out;
  return true;
}

bool Interpreter::intFilter(const Value &input, Arguments &arguments,
                            Value &out) {
  Bound bound;
  if (!bind("int", arguments, {"default", "base"}, 0, bound))
    return false;
  Value fallback = bound[0] ? *bound[0] : Value::integer(0);
  if (bound[1] && !(bound[1]->isInt() && bound[1]->asInt() == 10))
    return fail("'int' with a base other than 10 is not supported");
  if (input.isUndefined())
    return failUndefined(input);
  if (input.isInt()) {
    out = Value::integer(input.asInt());
    return true;
  }
  double number = 0;
  if (input.isString()) {
    std::string digits;
    int64_t value = 0;
    if (cleanNumber(input.text(), digits)) {
      const char *first = digits.data() + (digits[0] == '+');
      const char *last = digits.data() + digits.size();
      auto [end, error] = std::from_chars(first, last, value);
      if (end == last && (first == digits.data() || *first != '-')) {
        if (error != std::errc())
          return fail("the integer " + escapeName(digits) +
                      " does not fit 64 bits");
        out = Value::integer(value);
        return true;
      }
    }
    if (!parseFloat(input.text(), number) || !std::isfinite(number)) {
      out = fallback;
      return true;
    }
  } else if (input.is(Kind::Float)) {
    number = input.asFloat();
    if (std::isinf(number))
      return fail("infinity has no integer");
    if (std::isnan(number)) {
      out = fallback;
      return true;
    }
  } else {
    out = fallback;
    return true;
  }
  if (!(std::fabs(number) < 0x1p63))
    return fail("the integer " + floatText(number) + " does not fit 64 bits");
  out = Value::integer(int64_t(number));
  return true;
}

bool Interpreter::numberFilter(const std::string &name, const Value &input,
                               Arguments &arguments, Value &out, bool &found) {
  found = true;
  Bound bound;
  if (name == "int")
    return intFilter(input, arguments, out);
  if (name == "float") {
    if (!bind(name, arguments, {"default"}, 0, bound))
      return false;
    if (input.isUndefined())
      return failUndefined(input);
    double number = 0;
    if (input.isNumber())
      out = Value::number(input.asFloat());
    else if (input.isString() && parseFloat(input.text(), number))
      out = Value::number(number);
    else
      out = bound[0] ? *bound[0] : Value::number(0);
    return true;
  }
  if (name == "abs") {
    if (!bind(name, arguments, {}, 0, bound))
      return false;
    if (!input.isNumber())
      return input.isUndefined() ? failUndefined(input)
                                 : fail("'abs' needs a number, not " +
                                        std::string(typeName(input)));
    if (input.is(Kind::Float)) {
      out = Value::number(std::fabs(input.asFloat()));
      return true;
    }
    int64_t i = input.asInt();
    return integerOp(i < 0 ? "-" : "+", 0, i, out);
  }
  if (name == "round") {
    if (!bind(name, arguments, {"precision", "method"}, 0, bound))
      return false;
    int64_t digits = 0;
    if (bound[0]) {
      if (!wantInt(name, *bound[0]))
        return false;
      digits = bound[0]->asInt();
    }
    std::string method = "common";
    if (bound[1] && !str(*bound[1], method))
      return false;
    if (!input.isNumber() || digits < 0 || digits > 300 ||
        (method != "common" && digits > 15))
      return fail("'round' needs a number and a precision from 0 to 300");
    if (method == "common") {
      if (input.isInt()) {
        out = Value::integer(input.asInt());
        return true;
      }
      // printf rounds the exact value half to even, as Python does.
      char text[700];
      snprintf(text, sizeof(text), "%.*f", int(digits), input.asFloat());
      out = Value::number(std::strtod(text, nullptr));
      return true;
    }
    if (method != "ceil" && method != "floor")
      return fail("'round' knows common, ceil and floor");
    double power = std::pow(10.0, double(digits));
    double scaled = input.asFloat() * power;
    out = Value::number(
        (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / power);
    return true;
  }
  found = false;
  return true;
}

//===----------------------------------------------------------------------===//
// Lists
//===----------------------------------------------------------------------===//

/// `a.b.0` looked up step by step; `fallback` (unless None) stands in for what
/// is undefined.
bool Interpreter::attributeOf(const Value &object, const Value &path,
                              const Value &fallback, Value &out) {
  Value current = object;
  auto step = [&](const Value &part) {
    Value next;
    if (!getItem(current, part, next))
      return false;
    current = next.isUndefined() && !fallback.isNone() ? fallback : next;
    return true;
  };
  if (path.isNone()) {
    out = object;
    return true;
  }
  if (!path.isString()) {
    if (!step(path))
      return false;
    out = current;
    return true;
  }
  std::string_view rest = path.text();
  while (true) {
    size_t dot = rest.find('.');
    std::string_view part = rest.substr(0, dot);
    int64_t index = 0;
    auto [end, error] =
        std::from_chars(part.data(), part.data() + part.size(), index);
    bool isIndex = !part.empty() && part[0] != '-' &&
                   end == part.data() + part.size() && error == std::errc();
    if (!charge(16) || !step(isIndex ? Value::integer(index)
                                     : Value::string(std::string(part))))
      return false;
    if (dot == rest.npos)
      break;
    rest.remove_prefix(dot + 1);
  }
  out = current;
  return true;
}

bool Interpreter::listFilter(const std::string &name, const Value &input,
                             Arguments &arguments, Value &out, bool &found) {
  found = true;
  Bound bound;
  std::vector<Value> items;
  if (name == "length" || name == "count") {
    if (!bind(name, arguments, {}, 0, bound))
      return false;
    int64_t length = lengthOf(input);
    if (input.is(Kind::Loop)) {
      if (!countLoop(input.loop()))
        return false;
      length = input.loop().length;
    }
    if (length < 0)
      return fail("a value of type " + std::string(typeName(input)) +
                  " has no length");
    out = Value::integer(length);
    return !input.isString() || charge(length / 16);
  }
  if (name == "default" || name == "d") {
    if (!bind(name, arguments, {"default_value", "boolean"}, 0, bound))
      return false;
    bool replaces = input.isUndefined() ||
                    (bound[1] && truthy(*bound[1]) && !truthy(input));
    out = !replaces ? input : bound[0] ? *bound[0] : Value::string("");
    return true;
  }
  if (name == "list") {
    if (!bind(name, arguments, {}, 0, bound) || !elements(input, items))
      return false;
    out = Value::list(std::move(items));
    return out.depth() <= kMaxTemplateValueDepth || failDepth();
  }
  if (name == "first" || name == "last") {
    if (!bind(name, arguments, {}, 0, bound))
      return false;
    if (input.is(Kind::Generator)) {
      GeneratorObject &generator = input.generator();
      if (name == "last")
        return fail("'last' of a generator; 'list' before it makes a list");
      out = generator.next < generator.items.size()
                ? generator.items[generator.next++]
                : Value::undefined("no first item, the sequence was empty");
      return true;
    }
    if (name == "last" && input.isUndefined())
      return fail("'last' of what is undefined");
    if (!elements(input, items))
      return false;
    if (items.empty())
      out = Value::undefined("no " + name + " item, the sequence was empty");
    else
      out = name == "first" ? items.front() : items.back();
    return true;
  }
  if (name == "items") {
    if (!bind(name, arguments, {}, 0, bound))
      return false;
    if (!input.isUndefined()) {
      if (!input.is(Kind::Dict))
        return fail("'items' needs a mapping, not " +
                    std::string(typeName(input)));
      if (!elements(Value::view(input, "items"), items))
        return false;
    }
    out = Value::generator(std::move(items));
    return true;
  }
  if (name == "reverse") {
    if (!bind(name, arguments, {}, 0, bound))
      return false;
    if (input.isString())
      return slice(input, Value::none(), Value::none(), Value::integer(-1),
                   out);
    if (!elements(input, items))
      return false;
    std::reverse(items.begin(), items.end());
    out = input.is(Kind::Generator) || input.isUndefined()
              ? Value::list(std::move(items))
              : Value::generator(std::move(items));
    return true;
  }
  if (name == "attr") {
    if (!bind(name, arguments, {"name"}, 1, bound) ||
        !wantString(name, *bound[0]))
      return false;
    if (!input.is(Kind::Dict) || hasAttribute(input, bound[0]->text()))
      return getAttribute(input, bound[0]->text(), out);
    out = Value::undefined("'dict object' has no attribute " +
                           quoteName(bound[0]->text()));
    return true;
  }
  if (name == "sum") {
    if (!bind(name, arguments, {"attribute", "start"}, 0, bound) ||
        !elements(input, items))
      return false;
    out = bound[1] ? *bound[1] : Value::integer(0);
    for (Value &item : items) {
      Value total;
      if (bound[0] && !attributeOf(item, *bound[0], Value::none(), item))
        return false;
      if (out.isString())
        return fail("'sum' of strings; 'join' does that");
      if (!binary("+", out, item, total))
        return false;
      out = total;
    }
    return true;
  }
  if (name == "map")
    return mapFilter(input, arguments, out);
  if (name == "select" || name == "reject")
    return selectFilter(input, arguments, name == "select", false, out);
  if (name == "selectattr" || name == "rejectattr")
    return selectFilter(input, arguments, name == "selectattr", true, out);
  if (name == "sort")
    return sortFilter(input, arguments, out);
  if (name == "dictsort")
    return dictSortFilter(input, arguments, out);
  if (name == "unique")
    return uniqueFilter(input, arguments, out);
  if (name == "min" || name == "max")
    return extremeFilter(name, input, arguments, out);
  found = false;
  return true;
}

bool Interpreter::mapFilter(const Value &input, Arguments &arguments,
                            Value &out) {
  std::vector<Value> items;
  if (!truthy(input)) {
    out = Value::generator({});
    return true;
  }
  Bound bound;
  if (!elements(input, items))
    return false;
  if (arguments.positional.empty()) {
    if (!bind("map", arguments, {"attribute", "default"}, 1, bound))
      return false;
    for (Value &item : items)
      if (!attributeOf(item, *bound[0], bound[1] ? *bound[1] : Value::none(),
                       item))
        return false;
  } else {
    if (!wantString("map", arguments.positional[0]))
      return false;
    std::string name = arguments.positional[0].text();
    arguments.positional.erase(arguments.positional.begin());
    for (Value &item : items) {
      Arguments copy = arguments;
      Value mapped;
      if (!charge(64) || !filter(name, item, copy, mapped))
        return false;
      item = std::move(mapped);
    }
  }
  out = Value::generator(std::move(items));
  return out.depth() <= kMaxTemplateValueDepth || failDepth();
}

bool Interpreter::selectFilter(const Value &input, Arguments &arguments,
                               bool wanted, bool byAttribute, Value &out) {
  std::vector<Value> items, selected;
  if (!truthy(input)) {
    out = Value::generator({});
    return true;
  }
  auto &args = arguments.positional;
  Value path = Value::none();
  if (byAttribute) {
    if (args.empty())
      return fail("the name of an attribute is missing");
    path = args[0];
    args.erase(args.begin());
  }
  std::string name;
  if (!args.empty()) {
    if (!wantString("select", args[0]))
      return false;
    name = args[0].text();
    args.erase(args.begin());
  }
  if (!elements(input, items))
    return false;
  for (const Value &item : items) {
    Value subject;
    bool passes;
    if (!charge(64) || !attributeOf(item, path, Value::none(), subject))
      return false;
    if (name.empty())
      passes = truthy(subject);
    else if (!test(name, subject, arguments, passes))
      return false;
    if (passes == wanted)
      selected.push_back(item);
  }
  out = Value::generator(std::move(selected));
  return true;
}

static Value ignoreCase(const Value &value) {
  return value.isString() ? Value::string(lower(value.text())) : value;
}

/// Stable, by keys; `reverse` keeps the order of equals as Python does.
bool Interpreter::sortBy(std::vector<Value> &items, std::vector<Value> keys,
                         bool reverse) {
  // A list sorts by merging, which any order is safe with, that of NaN too.
  std::list<size_t> order;
  for (size_t i = 0; i < items.size(); ++i)
    order.push_back(i);
  bool ok = charge(64 * int64_t(items.size()));
  order.sort([&](size_t a, size_t b) {
    bool below = false;
    if (ok)
      ok = reverse ? less(keys[b], keys[a], below)
                   : less(keys[a], keys[b], below);
    return ok && below;
  });
  if (!ok)
    return false;
  std::vector<Value> sorted;
  for (size_t i : order)
    sorted.push_back(std::move(items[i]));
  items = std::move(sorted);
  return true;
}

bool Interpreter::sortFilter(const Value &input, Arguments &arguments,
                             Value &out) {
  Bound bound;
  std::vector<Value> items, keys;
  if (!bind("sort", arguments, {"reverse", "case_sensitive", "attribute"}, 0,
            bound) ||
      !elements(input, items))
    return false;
  bool exact = bound[1] && truthy(*bound[1]);
  Value path = bound[2] ? *bound[2] : Value::none();
  // `a,b` sorts by several attributes.
  std::vector<Value> paths;
  if (path.isString()) {
    for (size_t begin = 0, end; begin <= path.text().size(); begin = end + 1) {
      end = std::min(path.text().find(',', begin), path.text().size());
      paths.push_back(Value::string(path.text().substr(begin, end - begin)));
    }
  } else {
    paths.push_back(path);
  }
  for (const Value &item : items) {
    std::vector<Value> key;
    for (const Value &part : paths) {
      Value value;
      if (!charge(32) || !attributeOf(item, part, Value::none(), value))
        return false;
      key.push_back(exact ? value : ignoreCase(value));
    }
    keys.push_back(Value::list(std::move(key)));
  }
  if (!sortBy(items, std::move(keys), bound[0] && truthy(*bound[0])))
    return false;
  out = Value::list(std::move(items));
  return out.depth() <= kMaxTemplateValueDepth || failDepth();
}

bool Interpreter::dictSortFilter(const Value &input, Arguments &arguments,
                                 Value &out) {
  Bound bound;
  if (!bind("dictsort", arguments, {"case_sensitive", "by", "reverse"}, 0,
            bound))
    return false;
  if (!input.is(Kind::Dict))
    return input.isUndefined() ? failUndefined(input)
                               : fail("'dictsort' needs a dict, not " +
                                      std::string(typeName(input)));
  std::string by = "key";
  if (bound[1] && !str(*bound[1], by))
    return false;
  if (by != "key" && by != "value")
    return fail("'dictsort' sorts by 'key' or 'value'");
  std::vector<Value> items, keys;
  if (!elements(Value::view(input, "items"), items))
    return false;
  for (const Value &item : items) {
    const Value &key = item.items()[by == "value"];
    keys.push_back(bound[0] && truthy(*bound[0]) ? key : ignoreCase(key));
  }
  if (!sortBy(items, std::move(keys), bound[2] && truthy(*bound[2])))
    return false;
  out = Value::list(std::move(items));
  return out.depth() <= kMaxTemplateValueDepth || failDepth();
}

bool Interpreter::uniqueFilter(const Value &input, Arguments &arguments,
                               Value &out) {
  Bound bound;
  std::vector<Value> items, kept;
  if (!bind("unique", arguments, {"case_sensitive", "attribute"}, 0, bound) ||
      !elements(input, items))
    return false;
  std::map<std::string, bool> seen;
  for (const Value &item : items) {
    Value key;
    std::string text;
    if (!attributeOf(item, bound[1] ? *bound[1] : Value::none(), Value::none(),
                     key))
      return false;
    if (!(bound[0] && truthy(*bound[0])))
      key = ignoreCase(key);
    if (!keyText(key, text))
      return fail("'unique' on values of type " + std::string(typeName(key)));
    if (!charge(64 + int64_t(text.size())))
      return false;
    if (seen.emplace(std::move(text), true).second)
      kept.push_back(item);
  }
  out = Value::generator(std::move(kept));
  return true;
}

bool Interpreter::extremeFilter(const std::string &name, const Value &input,
                                Arguments &arguments, Value &out) {
  Bound bound;
  std::vector<Value> items;
  if (!bind(name, arguments, {"case_sensitive", "attribute"}, 0, bound) ||
      !elements(input, items))
    return false;
  out = Value::undefined("no aggregated item, the sequence was empty");
  Value best;
  for (size_t i = 0; i < items.size(); ++i) {
    Value key;
    if (!attributeOf(items[i], bound[1] ? *bound[1] : Value::none(),
                     Value::none(), key))
      return false;
    if (!(bound[0] && truthy(*bound[0])))
      key = ignoreCase(key);
    bool better = i == 0;
    if (i &&
        !(name == "min" ? less(key, best, better) : less(best, key, better)))
      return false;
    if (better) {
      best = key;
      out = items[i];
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

bool Interpreter::test(const std::string &name, const Value &value,
                       Arguments &arguments, bool &out) {
  Bound bound;
  static constexpr std::pair<std::string_view, std::string_view> kOps[] = {
      {"==", "=="},      {"eq", "=="}, {"equalto", "=="}, {"!=", "!="},
      {"ne", "!="},      {">", ">"},   {"gt", ">"},       {"greaterthan", ">"},
      {">=", ">="},      {"ge", ">="}, {"<", "<"},        {"lt", "<"},
      {"lessthan", "<"}, {"<=", "<="}, {"le", "<="},      {"in", "in"}};
  for (auto [word, op] : kOps)
    if (name == word)
      return bind(name, arguments, {"other"}, 1, bound) &&
             compare(op, value, *bound[0], out);
  if (name == "sameas") {
    if (!bind(name, arguments, {"other"}, 1, bound))
      return false;
    out = value.same(*bound[0]);
    return true;
  }
  if (name == "divisibleby") {
    Value rest;
    if (!bind(name, arguments, {"num"}, 1, bound) ||
        !binary("%", value, *bound[0], rest))
      return false;
    out = rest.isNumber() && rest.asFloat() == 0;
    return true;
  }
  if (!bind(name, arguments, {}, 0, bound))
    return false;
  if (name == "defined" || name == "undefined") {
    out = value.isUndefined() == (name == "undefined");
  } else if (name == "none") {
    out = value.isNone();
  } else if (name == "string") {
    out = value.isString();
  } else if (name == "mapping") {
    out = value.is(Kind::Dict);
  } else if (name == "sequence") {
    out = value.isUndefined() || value.isString() || value.isSequence() ||
          value.is(Kind::Dict) || value.is(Kind::Range);
  } else if (name == "iterable") {
    out = lengthOf(value) >= 0 || value.is(Kind::Generator) ||
          value.is(Kind::Loop);
  } else if (name == "number") {
    out = value.isNumber();
  } else if (name == "integer") {
    out = value.is(Kind::Int);
  } else if (name == "float") {
    out = value.is(Kind::Float);
  } else if (name == "boolean") {
    out = value.is(Kind::Bool);
  } else if (name == "true" || name == "false") {
    out = value.is(Kind::Bool) && value.asInt() == (name == "true");
  } else if (name == "callable") {
    out = value.is(Kind::Function) || value.is(Kind::Method) ||
          value.is(Kind::Macro) || value.is(Kind::Loop);
  } else if (name == "odd" || name == "even") {
    Value rest;
    if (!binary("%", value, Value::integer(2), rest))
      return false;
    out = rest.isNumber() && rest.asFloat() == double(name == "odd");
  } else if (name == "lower" || name == "upper") {
    std::string text;
    bool cased = false;
    if (!str(value, text))
      return false;
    out = true;
    for (size_t at = 0; at < text.size();) {
      char32_t c = nextChar(text, at);
      if (!isCased(c))
        continue;
      cased = true;
      out &= name == "lower" ? isLower(c) : isUpper(c);
    }
    out &= cased;
  } else {
    return fail("the test " + quoteName(name) + " is not supported");
  }
  return true;
}
