//===- TemplateValue.cpp - Values of chat templates -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateValue.h"
#include "TemplateUnicode.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

using namespace octet;
using namespace octet::jinja;

//===----------------------------------------------------------------------===//
// Making values
//===----------------------------------------------------------------------===//

Value Value::string(std::string text) {
  auto object = std::make_shared<StringObject>();
  object->text = std::move(text);
  return Value(Kind::String, std::move(object));
}

Value Value::undefined(std::string message) {
  Value v = string(std::move(message));
  v.type = Kind::Undefined;
  return v;
}

static std::shared_ptr<SequenceObject> makeSequence(std::vector<Value> items) {
  auto object = std::make_shared<SequenceObject>();
  for (const Value &item : items)
    object->depth = std::max(object->depth, 1 + item.depth());
  object->items = std::move(items);
  return object;
}

Value Value::list(std::vector<Value> items) {
  return Value(Kind::List, makeSequence(std::move(items)));
}

Value Value::tuple(std::vector<Value> items) {
  return Value(Kind::Tuple, makeSequence(std::move(items)));
}

/// Up to here a search beats an index.
static constexpr size_t kSmallDict = 8;

Value Value::dict(std::vector<std::pair<Value, Value>> entries) {
  auto object = std::make_shared<DictObject>();
  std::map<std::string, size_t> index;
  for (auto &[key, value] : entries) {
    std::string text;
    if (!keyText(key, text))
      continue; // the interpreter refuses such keys before
    auto [at, isNew] = index.try_emplace(text, object->entries.size());
    object->depth =
        std::max({object->depth, 1 + key.depth(), 1 + value.depth()});
    // Python keeps the first key's place and the last value.
    if (isNew)
      object->entries.emplace_back(std::move(key), std::move(value));
    else
      object->entries[at->second].second = std::move(value);
  }
  if (object->entries.size() > kSmallDict)
    object->index = std::move(index);
  return Value(Kind::Dict, std::move(object));
}

Value Value::range(int64_t start, int64_t stop, int64_t step) {
  auto object = std::make_shared<RangeObject>();
  object->start = start;
  object->stop = stop;
  object->step = step;
  return Value(Kind::Range, std::move(object));
}

Value Value::generator(std::vector<Value> items) {
  auto object = std::make_shared<GeneratorObject>();
  for (const Value &item : items)
    object->depth = std::max(object->depth, 1 + item.depth());
  object->items = std::move(items);
  return Value(Kind::Generator, std::move(object));
}

Value Value::view(const Value &dict, std::string_view name) {
  auto object = std::make_shared<ViewObject>();
  object->dict = dict;
  object->name = name;
  object->depth = 1 + dict.depth();
  return Value(Kind::View, std::move(object));
}

Value Value::method(const Value &self, std::string_view name) {
  auto object = std::make_shared<MethodObject>();
  object->self = self;
  object->name = name;
  object->depth = 1 + self.depth();
  return Value(Kind::Method, std::move(object));
}

Value Value::function(std::string_view name) {
  Value v = string(std::string(name));
  v.type = Kind::Function;
  return v;
}

//===----------------------------------------------------------------------===//
// Looking into them
//===----------------------------------------------------------------------===//

const std::string &Value::text() const {
  return static_cast<const StringObject &>(*object).text;
}
std::string Value::undefinedMessage() const {
  return object ? text() : "a value is undefined";
}
const std::vector<Value> &Value::items() const {
  return static_cast<const SequenceObject &>(*object).items;
}
const DictObject &Value::dict() const {
  return static_cast<const DictObject &>(*object);
}
const RangeObject &Value::range() const {
  return static_cast<const RangeObject &>(*object);
}
const ViewObject &Value::view() const {
  return static_cast<const ViewObject &>(*object);
}
GeneratorObject &Value::generator() const {
  return static_cast<GeneratorObject &>(*object);
}
const MethodObject &Value::method() const {
  return static_cast<const MethodObject &>(*object);
}

bool Value::same(const Value &other) const {
  if (type != other.type)
    return false;
  switch (type) {
  case Kind::None:
    return true;
  case Kind::Bool:
  case Kind::Int:
    return i == other.i;
  case Kind::Namespace:
  case Kind::Macro:
  case Kind::Loop:
    return raw == other.raw;
  default:
    return object && object == other.object;
  }
}

int64_t RangeObject::size() const {
  // In 128 bits: the difference of two integers may not fit in 64.
  __int128 span = step > 0 ? __int128(stop) - start : __int128(start) - stop;
  __int128 width = step > 0 ? __int128(step) : -__int128(step);
  if (span <= 0)
    return 0;
  __int128 n = (span + width - 1) / width;
  return n > INT64_MAX ? INT64_MAX : int64_t(n);
}

const Value *DictObject::find(std::string_view key) const {
  if (index.empty()) {
    for (const auto &[k, v] : entries)
      if (k.isString() && k.text() == key)
        return &v;
    return nullptr;
  }
  auto at = index.find("s" + std::string(key));
  return at == index.end() ? nullptr : &entries[at->second].second;
}

const Value *DictObject::find(const Value &key) const {
  if (key.isString())
    return find(std::string_view(key.text()));
  std::string text, other;
  if (!keyText(key, text))
    return nullptr;
  if (!index.empty()) {
    auto at = index.find(text);
    return at == index.end() ? nullptr : &entries[at->second].second;
  }
  for (const auto &[k, v] : entries) {
    other.clear();
    if (keyText(k, other) && other == text)
      return &v;
  }
  return nullptr;
}

bool jinja::keyText(const Value &key, std::string &out) {
  switch (key.kind()) {
  case Kind::String:
    out += 's' + key.text();
    return true;
  case Kind::None:
    out += '0';
    return true;
  case Kind::Undefined:
    out += 'u';
    return true;
  case Kind::Bool:
  case Kind::Int:
    out += 'n' + std::to_string(key.asInt());
    return true;
  case Kind::Float: {
    double d = key.asFloat();
    if (d == std::floor(d) && std::fabs(d) < 0x1p62)
      out += 'n' + std::to_string(int64_t(d));
    else
      out += 'f' + floatText(d);
    return true;
  }
  case Kind::Tuple:
    out += '(';
    for (const Value &item : key.items()) {
      std::string part;
      if (!keyText(item, part))
        return false;
      out += std::to_string(part.size()) + ':' + part;
    }
    out += ')';
    return true;
  default:
    return false;
  }
}

bool jinja::truthy(const Value &value) {
  switch (value.kind()) {
  case Kind::Undefined:
  case Kind::None:
    return false;
  case Kind::Bool:
  case Kind::Int:
    return value.asInt() != 0;
  case Kind::Float:
    return value.asFloat() != 0;
  case Kind::String:
    return !value.text().empty();
  default:
    return lengthOf(value) != 0;
  }
}

int64_t jinja::lengthOf(const Value &value) {
  switch (value.kind()) {
  case Kind::Undefined:
    return 0;
  case Kind::String:
    return countChars(value.text());
  case Kind::List:
  case Kind::Tuple:
    return int64_t(value.items().size());
  case Kind::Dict:
    return int64_t(value.dict().entries.size());
  case Kind::Range:
    return value.range().size();
  case Kind::View:
    return lengthOf(value.view().dict);
  default:
    return -1;
  }
}

std::string_view jinja::typeName(const Value &value) {
  switch (value.kind()) {
  case Kind::Undefined:
    return "Undefined";
  case Kind::None:
    return "NoneType";
  case Kind::Bool:
    return "bool";
  case Kind::Int:
    return "int";
  case Kind::Float:
    return "float";
  case Kind::String:
    return "str";
  case Kind::List:
    return "list";
  case Kind::Tuple:
    return "tuple";
  case Kind::Dict:
    return "dict";
  case Kind::Range:
    return "range";
  case Kind::View:
    return value.view().name == "keys"     ? "dict_keys"
           : value.view().name == "values" ? "dict_values"
                                           : "dict_items";
  case Kind::Generator:
    return "generator";
  case Kind::Function:
    return "function";
  case Kind::Method:
    return "builtin_function_or_method";
  case Kind::Namespace:
    return "Namespace";
  case Kind::Macro:
    return "Macro";
  case Kind::Loop:
    return "LoopContext";
  }
  return "object";
}

bool jinja::hasAttribute(const Value &value, std::string_view name) {
  static constexpr std::string_view kStr[] = {
      "capitalize",   "casefold",     "center",    "count",     "encode",
      "endswith",     "expandtabs",   "find",      "format",    "format_map",
      "index",        "isalnum",      "isalpha",   "isascii",   "isdecimal",
      "isdigit",      "isidentifier", "islower",   "isnumeric", "isprintable",
      "isspace",      "istitle",      "isupper",   "join",      "ljust",
      "lower",        "lstrip",       "maketrans", "partition", "removeprefix",
      "removesuffix", "replace",      "rfind",     "rindex",    "rjust",
      "rpartition",   "rsplit",       "rstrip",    "split",     "splitlines",
      "startswith",   "strip",        "swapcase",  "title",     "translate",
      "upper",        "zfill"};
  static constexpr std::string_view kList[] = {
      "append", "clear", "copy",   "count",   "extend", "index",
      "insert", "pop",   "remove", "reverse", "sort"};
  static constexpr std::string_view kTuple[] = {"count", "index"};
  static constexpr std::string_view kDict[] = {
      "clear", "copy",    "fromkeys",   "get",    "items", "keys",
      "pop",   "popitem", "setdefault", "update", "values"};
  static constexpr std::string_view kInt[] = {
      "as_integer_ratio", "bit_count",  "bit_length", "conjugate",
      "denominator",      "from_bytes", "imag",       "is_integer",
      "numerator",        "real",       "to_bytes"};
  static constexpr std::string_view kFloat[] = {
      "as_integer_ratio", "conjugate", "fromhex", "hex", "imag",
      "is_integer",       "real"};
  static constexpr std::string_view kRange[] = {"count", "index", "start",
                                                "step", "stop"};
  static constexpr std::string_view kView[] = {"isdisjoint", "mapping"};
  static constexpr std::string_view kGenerator[] = {
      "close",        "gi_code", "gi_frame", "gi_running",
      "gi_yieldfrom", "send",    "throw"};
  std::span<const std::string_view> names;
  switch (value.kind()) {
  case Kind::String:
    names = kStr;
    break;
  case Kind::List:
    names = kList;
    break;
  case Kind::Tuple:
    names = kTuple;
    break;
  case Kind::Dict:
    names = kDict;
    break;
  case Kind::Bool:
  case Kind::Int:
    names = kInt;
    break;
  case Kind::Float:
    names = kFloat;
    break;
  case Kind::Range:
    names = kRange;
    break;
  case Kind::View:
    names = kView;
    break;
  case Kind::Generator:
    names = kGenerator;
    break;
  default:
    return name.starts_with("__");
  }
  return name.starts_with("__") ||
         std::find(names.begin(), names.end(), name) != names.end();
}

std::string jinja::floatText(double value) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                           std::chars_format::scientific)
                 .ptr;
  std::string_view text(buffer, size_t(end - buffer));
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  size_t e = text.find('e');
  int exponent = 0;
  std::string_view digits = text.substr(e + 1);
  bool negative = digits.front() == '-';
  digits.remove_prefix(1);
  std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
  if (negative)
    exponent = -exponent;
  std::string mantissa(1, text[0]);
  if (e > 2)
    mantissa += text.substr(2, e - 2);
  int n = int(mantissa.size());
  if (exponent < -4 || exponent >= 16) {
    out += mantissa[0];
    if (n > 1)
      out += "." + mantissa.substr(1);
    out += negative ? "e-" : "e+";
    std::string power = std::to_string(std::abs(exponent));
    return out + (power.size() < 2 ? "0" + power : power);
  }
  if (exponent < 0)
    return out + "0." + std::string(size_t(-exponent - 1), '0') + mantissa;
  if (n <= exponent + 1)
    return out + mantissa + std::string(size_t(exponent + 1 - n), '0') + ".0";
  return out + mantissa.substr(0, size_t(exponent + 1)) + "." +
         mantissa.substr(size_t(exponent + 1));
}
