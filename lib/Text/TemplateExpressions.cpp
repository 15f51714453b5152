//===- TemplateExpressions.cpp - Expressions of chat templates ------------===//
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
#include <utility>

using namespace octet;
using namespace octet::jinja;

bool Interpreter::eval(const Expr &e, const ScopePtr &scope, Value &out) {
  Level level(*this);
  line = e.line;
  if (!level.ok() || !charge(16))
    return false;
  switch (e.kind) {
  case ExprKind::Constant:
    out = e.value;
    return true;
  case ExprKind::Name:
  case ExprKind::NsRef:
    return evalName(e, scope, out);
  case ExprKind::GetAttr: {
    Value object;
    return eval(*e.kids[0], scope, object) && (line = e.line) &&
           getAttribute(object, e.text, out);
  }
  case ExprKind::GetItem: {
    Value object, key;
    return eval(*e.kids[0], scope, object) && eval(*e.kids[1], scope, key) &&
           (line = e.line) && getItem(object, key, out);
  }
  case ExprKind::Slice:
    return evalSlice(e, scope, out);
  case ExprKind::Call:
    return evalCall(e, scope, out);
  case ExprKind::Filter:
    return evalFilterOf(e, scope, out);
  case ExprKind::Test:
    return evalTest(e, scope, out);
  case ExprKind::Not: {
    Value value;
    if (!eval(*e.kids[0], scope, value))
      return false;
    out = Value::boolean(!truthy(value));
    return true;
  }
  case ExprKind::And:
  case ExprKind::Or:
    if (!eval(*e.kids[0], scope, out))
      return false;
    if (truthy(out) == (e.kind == ExprKind::Or))
      return true;
    return eval(*e.kids[1], scope, out);
  case ExprKind::Condition: {
    Value condition;
    if (!eval(*e.kids[0], scope, condition))
      return false;
    if (truthy(condition))
      return eval(*e.kids[1], scope, out);
    if (e.kids[2])
      return eval(*e.kids[2], scope, out);
    out = Value::undefined("the inline 'if' is false and has no 'else'");
    return true;
  }
  case ExprKind::Compare:
    return evalCompare(e, scope, out);
  case ExprKind::Concat:
    return evalConcat(e, scope, out);
  case ExprKind::Negate:
  case ExprKind::Plus:
    return evalUnary(e, scope, out);
  case ExprKind::Binary:
    return evalBinary(e, scope, out);
  case ExprKind::List:
  case ExprKind::Tuple: {
    std::vector<Value> items;
    if (!evalKids(e, scope, items))
      return false;
    out = e.kind == ExprKind::List ? Value::list(std::move(items))
                                   : Value::tuple(std::move(items));
    return out.depth() <= kMaxTemplateValueDepth || failDepth();
  }
  case ExprKind::Dict:
    return evalDict(e, scope, out);
  }
  return fail("internal error: an unknown expression");
}

bool Interpreter::failDepth() {
  return fail("a value nests deeper than " +
              std::to_string(kMaxTemplateValueDepth) + " levels");
}

bool Interpreter::evalKids(const Expr &e, const ScopePtr &scope,
                           std::vector<Value> &out) {
  if (!charge(32 * int64_t(e.kids.size())))
    return false;
  out.reserve(e.kids.size());
  for (const ExprPtr &kid : e.kids)
    if (!eval(*kid, scope, out.emplace_back()))
      return false;
  line = e.line;
  return true;
}

bool Interpreter::evalName(const Expr &e, const ScopePtr &scope, Value &out) {
  for (const Scope *s = scope.get(); s; s = s->parent.get()) {
    auto at = s->variables.find(e.text);
    if (at != s->variables.end()) {
      out = at->second;
      return true;
    }
  }
  static constexpr std::string_view kFunctions[] = {
      "range",           "dict",         "namespace",
      "raise_exception", "strftime_now", "lipsum",
      "cycler",          "joiner",       "self"};
  if (std::find(std::begin(kFunctions), std::end(kFunctions), e.text) !=
      std::end(kFunctions))
    out = Value::function(e.text);
  else
    out = Value::undefined(quoteName(e.text) + " is undefined");
  return true;
}

bool Interpreter::evalSlice(const Expr &e, const ScopePtr &scope, Value &out) {
  Value object, parts[3];
  if (!eval(*e.kids[0], scope, object))
    return false;
  for (size_t i = 0; i < 3; ++i) {
    parts[i] = Value::none();
    if (e.kids[i + 1] && !eval(*e.kids[i + 1], scope, parts[i]))
      return false;
  }
  line = e.line;
  return slice(object, parts[0], parts[1], parts[2], out);
}

bool Interpreter::evalArguments(const Expr &e, const ScopePtr &scope,
                                Arguments &out) {
  for (const ExprPtr &argument : e.arguments)
    if (!eval(*argument, scope, out.positional.emplace_back()))
      return false;
  for (const auto &[name, argument] : e.keywords) {
    out.keywords.emplace_back(name, Value());
    if (!eval(*argument, scope, out.keywords.back().second))
      return false;
  }
  if (e.starArguments) {
    Value value;
    std::vector<Value> items;
    if (!eval(*e.starArguments, scope, value) || !elements(value, items))
      return false;
    out.positional.insert(out.positional.end(), items.begin(), items.end());
  }
  if (e.starKeywords) {
    Value value;
    if (!eval(*e.starKeywords, scope, value))
      return false;
    if (!value.is(Kind::Dict))
      return fail("'**' needs a dict, not " + std::string(typeName(value)));
    if (!charge(64 * lengthOf(value)))
      return false;
    for (const auto &[key, item] : value.dict().entries) {
      if (!key.isString())
        return fail("'**' needs a dict whose keys are strings");
      for (const auto &[name, other] : out.keywords)
        if (!charge(1) || name == key.text())
          return fail("the argument " + quoteName(key.text()) +
                      " is there twice");
      out.keywords.emplace_back(key.text(), item);
    }
  }
  line = e.line;
  return true;
}

bool Interpreter::evalCall(const Expr &e, const ScopePtr &scope, Value &out) {
  Value callee;
  Arguments arguments;
  if (!eval(*e.kids[0], scope, callee) || !evalArguments(e, scope, arguments))
    return false;
  line = e.line;
  return call(callee, arguments, out);
}

bool Interpreter::evalFilterOf(const Expr &e, const ScopePtr &scope,
                               Value &out) {
  Value input;
  Arguments arguments;
  if (!eval(*e.kids[0], scope, input) || !evalArguments(e, scope, arguments))
    return false;
  line = e.line;
  return filter(e.text, input, arguments, out);
}

/// The filters of a block, innermost first.
bool Interpreter::evalFilter(const Expr &e, const ScopePtr &scope, Value input,
                             Value &out) {
  Level level(*this);
  if (!level.ok())
    return false;
  if (e.kids[0] && !evalFilter(*e.kids[0], scope, input, input))
    return false;
  Arguments arguments;
  if (!evalArguments(e, scope, arguments))
    return false;
  line = e.line;
  return filter(e.text, input, arguments, out);
}

bool Interpreter::evalTest(const Expr &e, const ScopePtr &scope, Value &out) {
  Value value;
  Arguments arguments;
  bool result = false;
  if (!eval(*e.kids[0], scope, value) || !evalArguments(e, scope, arguments))
    return false;
  line = e.line;
  if (!test(e.text, value, arguments, result))
    return false;
  out = Value::boolean(result);
  return true;
}

/// `a < b < c` is `a < b and b < c`, with b evaluated once.
bool Interpreter::evalCompare(const Expr &e, const ScopePtr &scope,
                              Value &out) {
  Value left, right;
  if (!eval(*e.kids[0], scope, left))
    return false;
  bool holds = true;
  for (size_t i = 0; i < e.ops.size() && holds; ++i) {
    if (!eval(*e.kids[i + 1], scope, right))
      return false;
    line = e.line;
    if (!compare(e.ops[i], left, right, holds))
      return false;
    left = std::move(right);
    right = Value();
  }
  out = Value::boolean(holds);
  return true;
}

bool Interpreter::evalConcat(const Expr &e, const ScopePtr &scope, Value &out) {
  std::string text;
  // All values first: str() of a generator or loop is what it is at the end.
  std::vector<Value> parts;
  if (!evalKids(e, scope, parts))
    return false;
  for (const Value &part : parts)
    if (!appendStr(part, text))
      return false;
  return makeString(std::move(text), out);
}

bool Interpreter::evalBinary(const Expr &e, const ScopePtr &scope, Value &out) {
  Value a, b;
  if (!eval(*e.kids[0], scope, a) || !eval(*e.kids[1], scope, b))
    return false;
  line = e.line;
  return binary(e.text, a, b, out);
}

bool Interpreter::evalUnary(const Expr &e, const ScopePtr &scope, Value &out) {
  Value value;
  if (!eval(*e.kids[0], scope, value))
    return false;
  line = e.line;
  if (value.isUndefined())
    return failUndefined(value);
  if (!value.isNumber())
    return fail("a sign before a value of type " +
                std::string(typeName(value)));
  if (value.is(Kind::Float)) {
    out = Value::number(e.kind == ExprKind::Negate ? -value.asFloat()
                                                   : value.asFloat());
    return true;
  }
  return integerOp(e.kind == ExprKind::Negate ? "-" : "+", 0, value.asInt(),
                   out);
}

bool Interpreter::evalDict(const Expr &e, const ScopePtr &scope, Value &out) {
  std::vector<Value> parts;
  if (!evalKids(e, scope, parts))
    return false;
  std::vector<std::pair<Value, Value>> entries;
  for (size_t i = 0; i + 1 < parts.size(); i += 2) {
    std::string text;
    if (!keyText(parts[i], text))
      return fail("a value of type " + std::string(typeName(parts[i])) +
                  " cannot be the key of a dict");
    entries.emplace_back(std::move(parts[i]), std::move(parts[i + 1]));
  }
  out = Value::dict(std::move(entries));
  return out.depth() <= kMaxTemplateValueDepth || failDepth();
}

//===----------------------------------------------------------------------===//
// Attributes and items
//===----------------------------------------------------------------------===//

/// `object.name`: Python's attribute, then the item of that name.
bool Interpreter::getAttribute(const Value &object, const std::string &name,
                               Value &out) {
  if (object.isUndefined())
    return failUndefined(object);
  if (name.starts_with("__"))
    return fail("the attribute " + quoteName(name) + " is not supported");
  switch (object.kind()) {
  case Kind::Namespace: {
    const auto &attributes = object.ns().attributes;
    if (auto at = attributes.find(name); at != attributes.end()) {
      out = at->second;
      return true;
    }
    break;
  }
  case Kind::Loop: {
    bool found;
    if (!loopAttribute(object.loop(), name, out, found))
      return false;
    if (found)
      return true;
    break;
  }
  case Kind::Macro:
    if (name != "name")
      return fail("the attribute " + quoteName(name) +
                  " of a macro is not supported");
    out = Value::string(object.macro().stmt->text);
    return true;
  default:
    if (hasAttribute(object, name)) {
      if (object.isNumber() || object.is(Kind::Range) ||
          object.is(Kind::View) || object.is(Kind::Generator))
        return fail("the attribute " + quoteName(name) + " of " +
                    std::string(typeName(object)) + " is not supported");
      out = Value::method(object, name);
      return true;
    }
    if (object.is(Kind::Dict))
      if (const Value *item = object.dict().find(std::string_view(name))) {
        out = *item;
        return true;
      }
  }
  std::string type =
      object.isNone() ? "None" : std::string(typeName(object)) + " object";
  out = Value::undefined("'" + type + "' has no attribute " + quoteName(name));
  return true;
}

/// `object[key]`: the item, then for a string Python's attribute.
bool Interpreter::getItem(const Value &object, const Value &key, Value &out) {
  if (object.isUndefined())
    return failUndefined(object);
  switch (object.kind()) {
  case Kind::Dict:
    if (const Value *item = object.dict().find(key)) {
      out = *item;
      return true;
    }
    break;
  case Kind::List:
  case Kind::Tuple:
  case Kind::Range:
  case Kind::String: {
    if (!key.isInt())
      break;
    int64_t size = lengthOf(object), i = key.asInt();
    if (object.isString() && !charge(size / 16))
      return false;
    i += i < 0 ? size : 0;
    if (i < 0 || i >= size)
      break;
    if (object.isSequence()) {
      out = object.items()[size_t(i)];
    } else if (object.is(Kind::Range)) {
      out = Value::integer(object.range().at(i));
    } else {
      size_t at = 0;
      for (; i > 0; --i)
        nextChar(object.text(), at);
      size_t start = at;
      nextChar(object.text(), at);
      out = Value::string(object.text().substr(start, at - start));
    }
    return true;
  }
  default:
    break;
  }
  if (!key.isString()) {
    std::string text;
    if (!appendRepr(key, text))
      return false;
    std::string type =
        object.isNone() ? "None" : std::string(typeName(object)) + " object";
    out = Value::undefined(type + " has no element " + escapeName(text));
    return true;
  }
  return getAttribute(object, key.text(), out);
}

bool Interpreter::loopAttribute(Loop &loop, std::string_view name, Value &out,
                                bool &found) {
  found = true;
  bool more;
  if (name == "index0") {
    out = Value::integer(loop.index0);
  } else if (name == "index") {
    out = Value::integer(loop.index0 + 1);
  } else if (name == "first") {
    out = Value::boolean(loop.index0 == 0);
  } else if (name == "last") {
    if (!peek(loop, more))
      return false;
    out = Value::boolean(!more);
  } else if (name == "nextitem") {
    if (!peek(loop, more))
      return false;
    out = more ? loop.after : Value::undefined("there is no next item");
  } else if (name == "previtem") {
    out = loop.index0 > 0 ? loop.before
                          : Value::undefined("there is no previous item");
  } else if (name == "length" || name == "revindex" || name == "revindex0") {
    if (!countLoop(loop))
      return false;
    int64_t done = name == "length"     ? 0
                   : name == "revindex" ? loop.index0
                                        : loop.index0 + 1;
    out = Value::integer(loop.length - done);
  } else if (name == "depth" || name == "depth0") {
    out = Value::integer(name == "depth");
  } else if (name == "cycle" || name == "changed") {
    out = Value::method(Value::of(&loop), name);
  } else {
    found = false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

bool Interpreter::call(const Value &callee, Arguments &arguments, Value &out) {
  Level level(*this);
  if (!level.ok())
    return false;
  switch (callee.kind()) {
  case Kind::Undefined:
    return failUndefined(callee);
  case Kind::Macro:
    return callMacro(callee.macro(), arguments, out);
  case Kind::Function:
    return callFunction(callee.text(), arguments, out);
  case Kind::Method:
    return callMethod(callee.method().self, callee.method().name, arguments,
                      out);
  case Kind::Loop:
    return fail("a call of 'loop' needs a recursive loop, which is not "
                "supported");
  default:
    return fail("a value of type " + std::string(typeName(callee)) +
                " cannot be called");
  }
}

/// Binds the arguments as jinja2's runtime does: positional ones, then by name,
/// then defaults; `varargs`, `kwargs` and `caller` take what is left.
bool Interpreter::callMacro(const Macro &macro, Arguments &arguments,
                            Value &out) {
  const Stmt &stmt = *macro.stmt;
  std::string name = stmt.kind == StmtKind::Macro ? stmt.text : "caller";
  auto scope = std::make_shared<Scope>(macro.scope);
  auto &keywords = arguments.keywords;
  size_t count = stmt.parameters.size(), given = arguments.positional.size();
  std::vector<const Expr *> missing(count, nullptr);
  int where = line;
  for (size_t i = 0; i < count; ++i) {
    const std::string &parameter = stmt.parameters[i];
    auto at = std::find_if(keywords.begin(), keywords.end(),
                           [&](auto &k) { return k.first == parameter; });
    if (i < given) {
      scope->variables[parameter] = arguments.positional[i];
    } else if (at != keywords.end()) {
      scope->variables[parameter] = at->second;
      keywords.erase(at);
    } else {
      size_t first = count - stmt.defaults.size();
      scope->variables[parameter] = Value::undefined(
          "parameter " + quoteName(parameter) + " was not provided");
      if (i >= first)
        missing[i] = stmt.defaults[i - first].get();
    }
  }
  // A default sees the parameters before it.
  for (size_t i = 0; i < count; ++i)
    if (missing[i]) {
      Value value;
      if (!eval(*missing[i], scope, value))
        return false;
      scope->variables[stmt.parameters[i]] = value;
    }
  line = where;
  auto has = [&](std::string_view parameter) {
    return scope->variables.find(parameter) != scope->variables.end();
  };
  if (stmt.uses("caller") && !has("caller")) {
    auto at = std::find_if(keywords.begin(), keywords.end(),
                           [](auto &k) { return k.first == "caller"; });
    scope->variables["caller"] = at != keywords.end()
                                     ? at->second
                                     : Value::undefined("No caller defined");
    if (at != keywords.end())
      keywords.erase(at);
  }
  if (stmt.uses("kwargs") && !has("kwargs")) {
    std::vector<std::pair<Value, Value>> entries;
    for (auto &[key, value] : keywords)
      entries.emplace_back(Value::string(key), value);
    scope->variables["kwargs"] = Value::dict(std::move(entries));
  } else if (!keywords.empty()) {
    return fail("the macro " + quoteName(name) + " takes no argument " +
                quoteName(keywords.front().first));
  }
  if (stmt.uses("varargs") && !has("varargs")) {
    std::vector<Value> rest;
    if (given > count)
      rest.assign(arguments.positional.begin() + long(count),
                  arguments.positional.end());
    scope->variables["varargs"] = Value::tuple(std::move(rest));
  } else if (given > count) {
    return fail("the macro " + quoteName(name) + " takes " +
                std::to_string(count) + " arguments, not " +
                std::to_string(given));
  }
  std::string text;
  if (runBody(stmt.body, scope, text) == Flow::Fail)
    return false;
  line = where;
  return makeString(std::move(text), out);
}

bool Interpreter::callFunction(const std::string &name, Arguments &arguments,
                               Value &out) {
  if (name == "range")
    return callRange(arguments, out);
  if (name == "strftime_now")
    return callStrftime(arguments, out);
  if (name == "raise_exception") {
    Bound bound;
    std::string text;
    if (!bind(name, arguments, {"message"}, 1, bound) || !str(*bound[0], text))
      return false;
    // A sentence, which may quote: its quotes stay.
    constexpr size_t kMaxMessage = 500;
    size_t end = 0;
    while (end < text.size() && end < kMaxMessage)
      nextChar(text, end);
    return fail("the template refuses the conversation: " +
                escapePath(text.substr(0, end)) +
                (end < text.size() ? "…" : ""));
  }
  if (name != "dict" && name != "namespace")
    return fail("the function " + quoteName(name) + " is not supported");
  std::vector<std::pair<Value, Value>> entries;
  if (!makeMapping(name, arguments, entries))
    return false;
  if (name == "dict") {
    out = Value::dict(std::move(entries));
    return out.depth() <= kMaxTemplateValueDepth || failDepth();
  }
  if (!charge(kKeptCost))
    return false;
  Namespace &ns = namespaces.emplace_back();
  for (auto &[key, value] : entries) {
    if (!key.isString())
      return fail("the names of a namespace are strings");
    if (!ns.attributes.count(key.text()))
      ns.order.push_back(key.text());
    ns.attributes[key.text()] = value;
  }
  out = Value::of(&ns);
  return true;
}

/// What `dict` takes: a mapping or pairs, then named values.
bool Interpreter::makeMapping(std::string_view what, Arguments &arguments,
                              std::vector<std::pair<Value, Value>> &out) {
  if (arguments.positional.size() > 1)
    return fail("'" + std::string(what) + "' takes one argument without name");
  if (!arguments.positional.empty()) {
    const Value &from = arguments.positional[0];
    std::vector<Value> items;
    if (from.is(Kind::Dict)) {
      if (!charge(64 * lengthOf(from)))
        return false;
      out = from.dict().entries;
    } else if (!elements(from, items)) {
      return false;
    }
    for (const Value &item : items) {
      std::vector<Value> pair;
      std::string text;
      if (!elements(item, pair))
        return false;
      if (pair.size() != 2 || !keyText(pair[0], text))
        return fail("'" + std::string(what) +
                    "' needs pairs of a key and a value");
      out.emplace_back(pair[0], pair[1]);
    }
  }
  for (auto &[name, value] : arguments.keywords)
    out.emplace_back(Value::string(name), value);
  return true;
}

bool Interpreter::callRange(Arguments &arguments, Value &out) {
  const auto &args = arguments.positional;
  if (args.empty() || args.size() > 3 || !arguments.keywords.empty())
    return fail("'range' takes 1 to 3 integers");
  for (const Value &value : args)
    if (!wantInt("range", value))
      return false;
  int64_t start = args.size() > 1 ? args[0].asInt() : 0;
  int64_t stop = args[args.size() > 1].asInt();
  int64_t step = args.size() > 2 ? args[2].asInt() : 1;
  if (step == 0 || step == INT64_MIN)
    return fail("'range' with the step " + std::to_string(step));
  out = Value::range(start, stop, step);
  // The bound of jinja2's sandbox.
  constexpr int64_t kMaxRange = 100000;
  if (lengthOf(out) > kMaxRange)
    return fail("a range of " + std::to_string(lengthOf(out)) +
                " values; the sandbox allows " + std::to_string(kMaxRange));
  return true;
}

bool Interpreter::callStrftime(Arguments &arguments, Value &out) {
  Bound bound;
  if (!bind("strftime_now", arguments, {"format"}, 1, bound) ||
      !wantString("strftime_now", *bound[0]))
    return false;
  const std::string &format = bound[0]->text();
  std::tm when{};
  if (now) {
    when = *now;
  } else {
    std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &when);
  }
  // strftime says 0 for "does not fit" and for an empty text alike: a
  // character more tells them apart.
  char buffer[1024];
  if (format.find('\0') != format.npos || format.size() > 256)
    return fail("'strftime_now' with a format of more than 256 characters");
  size_t n =
      std::strftime(buffer, sizeof(buffer), (format + ".").c_str(), &when);
  if (n == 0)
    return fail("'strftime_now': the date is too long");
  return makeString(std::string(buffer, n - 1), out);
}
