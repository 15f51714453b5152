//===- TemplateOperators.cpp - Operators of chat templates ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Python's arithmetic, order and containment. Integers are 64 bits wide; what
// does not fit is an error, where Python would go on with a longer one.
//
//===----------------------------------------------------------------------===//

#include "TemplateInterpreter.h"
#include "TemplateUnicode.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <cmath>

using namespace octet;
using namespace octet::jinja;

bool Interpreter::wantString(std::string_view what, const Value &value) {
  if (value.isString())
    return true;
  if (value.isUndefined())
    return failUndefined(value);
  return fail("'" + std::string(what) + "' needs a string, not " +
              std::string(typeName(value)));
}

bool Interpreter::wantInt(std::string_view what, const Value &value) {
  if (value.isInt())
    return true;
  if (value.isUndefined())
    return failUndefined(value);
  return fail("'" + std::string(what) + "' needs an integer, not " +
              std::string(typeName(value)));
}

bool Interpreter::makeString(std::string text, Value &out) {
  if (!charge(int64_t(text.size())))
    return false;
  out = Value::string(std::move(text));
  return true;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

bool Interpreter::integerOp(std::string_view op, int64_t a, int64_t b,
                            Value &out) {
  int64_t r = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &r);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &r);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &r);
  } else if (op == "//" || op == "%") {
    if (b == 0)
      return fail("division by zero");
    if (b == -1) {
      overflow = op == "//" && __builtin_sub_overflow(int64_t(0), a, &r);
    } else {
      // Rounded down, and a rest with the sign of b.
      int64_t rest = a % b;
      bool down = rest != 0 && (rest < 0) != (b < 0);
      r = op == "%" ? rest + (down ? b : 0) : a / b - down;
    }
  } else if (op == "**") {
    if (b < 0)
      return floatOp(op, double(a), double(b), out);
    r = 1;
    for (int64_t base = a; b > 0 && !overflow; b >>= 1) {
      if (b & 1)
        overflow = __builtin_mul_overflow(r, base, &r);
      if (b > 1 && __builtin_mul_overflow(base, base, &base))
        overflow = true;
    }
  } else {
    return floatOp(op, double(a), double(b), out);
  }
  if (overflow)
    return fail("the result of '" + std::string(op) + "' does not fit 64 bits");
  out = Value::integer(r);
  return true;
}

bool Interpreter::floatOp(std::string_view op, double a, double b, Value &out) {
  double r = 0;
  if (op == "+") {
    r = a + b;
  } else if (op == "-") {
    r = a - b;
  } else if (op == "*") {
    r = a * b;
  } else if (op == "**") {
    if ((a == 0 && b < 0) || (a < 0 && b != std::floor(b)))
      return fail("'**' of a base below or at zero");
    r = std::pow(a, b);
    if (std::isinf(r) && !std::isinf(a) && !std::isinf(b))
      return fail("the result of '**' is too large");
  } else {
    if (b == 0)
      return fail("division by zero");
    double rest = std::fmod(a, b);
    if (op == "/") {
      r = a / b;
    } else if (op == "%") {
      r = rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
      if (r == 0)
        r = std::copysign(0.0, b);
    } else {
      if (rest != 0 && (rest < 0) != (b < 0))
        rest += b;
      double quotient = (a - rest) / b;
      r = std::floor(quotient);
      if (quotient - r > 0.5)
        r += 1;
    }
  }
  out = Value::number(r);
  return true;
}

bool Interpreter::repeat(const Value &sequence, int64_t times, Value &out) {
  times = std::max<int64_t>(times, 0);
  bool isString = sequence.isString();
  int64_t size =
      isString ? int64_t(sequence.text().size()) : 32 * lengthOf(sequence);
  int64_t total;
  if (__builtin_mul_overflow(size, times, &total))
    total = kMaxTemplateWork + 1;
  if (!charge(total))
    return false;
  if (size == 0)
    times = 0;
  if (isString) {
    std::string text;
    for (int64_t i = 0; i < times; ++i)
      text += sequence.text();
    out = Value::string(std::move(text));
    return true;
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < times; ++i)
    items.insert(items.end(), sequence.items().begin(), sequence.items().end());
  out = sequence.is(Kind::List) ? Value::list(std::move(items))
                                : Value::tuple(std::move(items));
  return true;
}

bool Interpreter::binary(std::string_view op, const Value &a, const Value &b,
                         Value &out) {
  if (a.isUndefined() || b.isUndefined())
    return failTypes(op, a, b);
  if (a.markup || b.markup)
    return fail("'" + std::string(op) +
                "' on a string marked by 'safe' is not supported");
  if (a.isInt() && b.isInt())
    return integerOp(op, a.asInt(), b.asInt(), out);
  if (a.isNumber() && b.isNumber())
    return floatOp(op, a.asFloat(), b.asFloat(), out);
  if (op == "+" && a.isString() && b.isString())
    return makeString(a.text() + b.text(), out);
  if (op == "+" && a.isSequence() && a.kind() == b.kind()) {
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    if (!charge(32 * int64_t(items.size())))
      return false;
    out = a.is(Kind::List) ? Value::list(std::move(items))
                           : Value::tuple(std::move(items));
    return true;
  }
  if (op == "*" && (a.isString() || a.isSequence()) && b.isInt())
    return repeat(a, b.asInt(), out);
  if (op == "*" && a.isInt() && (b.isString() || b.isSequence()))
    return repeat(b, a.asInt(), out);
  if (op == "%" && a.isString())
    return percentFormat(a.text(), b, out);
  return failTypes(op, a, b);
}

//===----------------------------------------------------------------------===//
// Equality and order
//===----------------------------------------------------------------------===//

bool Interpreter::sameItems(const std::vector<Value> &a,
                            const std::vector<Value> &b, bool &out) {
  out = a.size() == b.size();
  for (size_t i = 0; i < a.size() && out; ++i)
    if (!a[i].same(b[i]) && !equal(a[i], b[i], out))
      return false;
  return true;
}

bool Interpreter::equal(const Value &a, const Value &b, bool &out) {
  Level level(*this);
  if (!level.ok() || !charge(4))
    return false;
  out = false;
  if (a.isNumber() && b.isNumber()) {
    out = a.isInt() && b.isInt() ? a.asInt() == b.asInt()
                                 : a.asFloat() == b.asFloat();
    return true;
  }
  if (a.kind() != b.kind())
    return true;
  switch (a.kind()) {
  case Kind::Undefined:
    out = true;
    return true;
  case Kind::String:
    out = a.text() == b.text();
    return charge(int64_t(a.text().size() / 8));
  case Kind::List:
  case Kind::Tuple:
    return sameItems(a.items(), b.items(), out);
  case Kind::Dict:
    out = lengthOf(a) == lengthOf(b);
    for (const auto &[key, value] : a.dict().entries) {
      if (!out)
        break;
      const Value *other = b.dict().find(key);
      out = other != nullptr;
      if (other && !value.same(*other) && !equal(value, *other, out))
        return false;
    }
    return true;
  case Kind::Range: {
    const RangeObject &x = a.range(), &y = b.range();
    int64_t n = x.size();
    out = n == y.size() &&
          (n == 0 || (x.start == y.start && (n == 1 || x.step == y.step)));
    return true;
  }
  case Kind::View:
  case Kind::Method:
    return fail("'==' on values of type " + std::string(typeName(a)) +
                " is not supported");
  default:
    out = a.same(b);
    return true;
  }
}

bool Interpreter::less(const Value &a, const Value &b, bool &out) {
  Level level(*this);
  if (!level.ok() || !charge(4))
    return false;
  if (a.isNumber() && b.isNumber()) {
    out = a.isInt() && b.isInt() ? a.asInt() < b.asInt()
                                 : a.asFloat() < b.asFloat();
    return true;
  }
  if (a.isString() && b.isString()) {
    // UTF-8 sorts as its characters do.
    out = a.text() < b.text();
    return charge(int64_t(std::min(a.text().size(), b.text().size()) / 8));
  }
  if (!a.isSequence() || a.kind() != b.kind())
    return failTypes("<", a, b);
  const auto &x = a.items(), &y = b.items();
  for (size_t i = 0; i < x.size() && i < y.size(); ++i) {
    bool same;
    if (!equal(x[i], y[i], same))
      return false;
    if (!same)
      return less(x[i], y[i], out);
  }
  out = x.size() < y.size();
  return true;
}

bool Interpreter::compare(std::string_view op, const Value &a, const Value &b,
                          bool &out) {
  if (op == "in" || op == "not in") {
    if (!contains(b, a, out))
      return false;
    out ^= op == "not in";
    return true;
  }
  if (op == "==" || op == "!=") {
    if (!equal(a, b, out))
      return false;
    out ^= op == "!=";
    return true;
  }
  if (op == "<")
    return less(a, b, out);
  if (op == ">")
    return less(b, a, out);
  // NaN is neither below nor above.
  bool strict, same;
  if (!(op == "<=" ? less(a, b, strict) : less(b, a, strict)) ||
      !equal(a, b, same))
    return false;
  out = strict || same;
  return true;
}

bool Interpreter::contains(const Value &container, const Value &item,
                           bool &out) {
  out = false;
  switch (container.kind()) {
  case Kind::Undefined:
    return true;
  case Kind::String:
    if (!item.isString())
      return failTypes("in", item, container);
    out = findText(container.text(), item.text()) != std::string::npos;
    return charge(int64_t(container.text().size() / 8));
  case Kind::Dict: {
    std::string text;
    if (!keyText(item, text))
      return fail("a value of type " + std::string(typeName(item)) +
                  " cannot be the key of a dict");
    out = container.dict().find(item) != nullptr;
    return true;
  }
  case Kind::View:
    if (container.view().name == "keys")
      return contains(container.view().dict, item, out);
    break;
  case Kind::List:
  case Kind::Tuple:
    for (const Value &other : container.items()) {
      out = item.same(other);
      if (out)
        return true;
      if (!equal(item, other, out))
        return false;
      if (out)
        return true;
    }
    return true;
  case Kind::Generator: {
    GeneratorObject &generator = container.generator();
    while (generator.next < generator.items.size() && !out)
      if (!equal(item, generator.items[generator.next++], out))
        return false;
    return true;
  }
  default:
    break;
  }
  std::vector<Value> items;
  if (!elements(container, items))
    return false;
  for (size_t i = 0; i < items.size() && !out; ++i)
    if (!equal(item, items[i], out))
      return false;
  return true;
}

//===----------------------------------------------------------------------===//
// Elements and slices
//===----------------------------------------------------------------------===//

bool Interpreter::elements(const Value &value, std::vector<Value> &out) {
  int64_t length = lengthOf(value);
  if (!charge(32 * std::max<int64_t>(length, 0)))
    return false;
  switch (value.kind()) {
  case Kind::Undefined:
    return true;
  case Kind::String:
    for (size_t at = 0; at < value.text().size();) {
      size_t start = at;
      nextChar(value.text(), at);
      out.push_back(Value::string(value.text().substr(start, at - start)));
    }
    return charge(64 * length);
  case Kind::List:
  case Kind::Tuple:
    out = value.items();
    return true;
  case Kind::Dict:
    for (const auto &[key, item] : value.dict().entries)
      out.push_back(key);
    return true;
  case Kind::Range:
    for (int64_t i = 0; i < length; ++i)
      out.push_back(Value::integer(value.range().at(i)));
    return true;
  case Kind::View: {
    const ViewObject &view = value.view();
    if (view.name == "items" && !charge(128 * length))
      return false;
    for (const auto &[key, item] : view.dict.dict().entries)
      out.push_back(view.name == "keys"     ? key
                    : view.name == "values" ? item
                                            : Value::tuple({key, item}));
    return true;
  }
  case Kind::Generator: {
    GeneratorObject &generator = value.generator();
    out.assign(generator.items.begin() + long(generator.next),
               generator.items.end());
    generator.next = generator.items.size();
    return charge(32 * int64_t(out.size()));
  }
  case Kind::Loop:
    return fail("going over 'loop' itself is not supported");
  default:
    return fail("a value of type " + std::string(typeName(value)) +
                " cannot be iterated");
  }
}

bool Interpreter::slice(const Value &object, const Value &start,
                        const Value &stop, const Value &step, Value &out) {
  if (object.isUndefined())
    return failUndefined(object);
  if (!object.isString() && !object.isSequence() && !object.is(Kind::Range))
    return fail("a value of type " + std::string(typeName(object)) +
                " cannot be sliced");
  for (const Value *part : {&start, &stop, &step})
    if (!part->isNone() && !wantInt("slice", *part))
      return false;
  int64_t by = step.isNone() ? 1 : step.asInt();
  if (by == 0)
    return fail("a slice with the step 0");
  by = std::max(by, -INT64_MAX);
  int64_t size = lengthOf(object);
  // Python's slice.indices.
  int64_t lowest = by < 0 ? -1 : 0, highest = by < 0 ? size - 1 : size;
  auto place = [&](const Value &part, int64_t missing) {
    if (part.isNone())
      return missing;
    int64_t i = part.asInt();
    if (i < 0)
      return std::max(i + size, lowest);
    return std::min(i, highest);
  };
  int64_t from = place(start, by < 0 ? highest : lowest);
  int64_t to = place(stop, by < 0 ? lowest : highest);
  RangeObject indices;
  indices.start = from;
  indices.stop = to;
  indices.step = by;
  int64_t count = indices.size();
  if (object.is(Kind::Range)) {
    const RangeObject &range = object.range();
    int64_t wide;
    if (__builtin_mul_overflow(range.step, by, &wide))
      return fail("the step of a range does not fit 64 bits");
    out = Value::range(range.at(from), range.at(to), wide);
    return true;
  }
  if (object.isString()) {
    const std::string &text = object.text();
    if (!charge(size / 4))
      return false;
    std::vector<size_t> offsets = charOffsets(text);
    std::string part;
    if (by == 1) {
      if (count > 0)
        part = text.substr(offsets[size_t(from)],
                           offsets[size_t(to)] - offsets[size_t(from)]);
    } else {
      for (int64_t i = 0; i < count; ++i) {
        size_t at = size_t(indices.at(i));
        part.append(text, offsets[at], offsets[at + 1] - offsets[at]);
      }
    }
    return makeString(std::move(part), out);
  }
  if (!charge(32 * count))
    return false;
  std::vector<Value> items;
  for (int64_t i = 0; i < count; ++i)
    items.push_back(object.items()[size_t(indices.at(i))]);
  out = object.is(Kind::List) ? Value::list(std::move(items))
                              : Value::tuple(std::move(items));
  return true;
}
