//===- TemplateInterpreter.cpp - Statements of chat templates -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TemplateInterpreter.h"
#include "TemplateLexer.h"
#include "TemplateUnicode.h"
#include "octet/Support/Escape.h"
#include "octet/Text/ChatTemplate.h"

using namespace octet;
using namespace octet::jinja;

Status Interpreter::run(const Body &body, const ScopePtr &scope,
                        std::string &out) {
  Flow flow = runBody(body, scope, out);
  return flow == Flow::Fail ? std::move(error) : Status::success();
}

bool Interpreter::fail(std::string message) {
  if (error.ok())
    error = errorAt(subject, line, std::move(message));
  return false;
}

bool Interpreter::failTypes(std::string_view op, const Value &a,
                            const Value &b) {
  if (a.isUndefined())
    return failUndefined(a);
  if (b.isUndefined())
    return failUndefined(b);
  return fail("'" + std::string(op) + "' does not work on " +
              std::string(typeName(a)) + " and " + std::string(typeName(b)));
}

bool Interpreter::failUndefined(const Value &value) {
  return fail(value.undefinedMessage());
}

bool Interpreter::charge(int64_t cost) {
  if (__builtin_add_overflow(work, cost, &work) || work > maxWork) {
    work = maxWork + 1;
    return fail("the template does more work than is allowed (" +
                std::to_string(maxWork) + " units)");
  }
  return true;
}

bool Interpreter::print(const Value &value, std::string &out) {
  return appendStr(value, out) && checkSize(out);
}

bool Interpreter::checkSize(const std::string &out) {
  if (out.size() > kMaxRenderedBytes)
    return fail("the text grows over " + std::to_string(kMaxRenderedBytes) +
                " bytes");
  return true;
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

Interpreter::Flow Interpreter::runBody(const Body &body, const ScopePtr &scope,
                                       std::string &out) {
  Level level(*this);
  if (!level.ok())
    return Flow::Fail;
  for (const auto &stmt : body) {
    Flow flow = runStmt(*stmt, scope, out);
    if (flow != Flow::Next)
      return flow;
  }
  return Flow::Next;
}

Interpreter::Flow Interpreter::runStmt(const Stmt &stmt, const ScopePtr &scope,
                                       std::string &out) {
  line = stmt.line;
  if (!charge(16))
    return Flow::Fail;
  auto flow = [](bool ok) { return ok ? Flow::Next : Flow::Fail; };
  switch (stmt.kind) {
  case StmtKind::Text:
    if (!charge(int64_t(stmt.text.size())))
      return Flow::Fail;
    out += stmt.text;
    return flow(checkSize(out));
  case StmtKind::Output: {
    Value value;
    return flow(eval(*stmt.value, scope, value) && print(value, out));
  }
  case StmtKind::If:
    for (const auto &[condition, body] : stmt.branches) {
      Value value;
      if (!eval(*condition, scope, value))
        return Flow::Fail;
      if (truthy(value))
        return runBody(body, scope, out);
    }
    return runBody(stmt.orElse, scope, out);
  case StmtKind::For:
    return runFor(stmt, scope, out);
  case StmtKind::Set: {
    Value value;
    return flow(eval(*stmt.value, scope, value) &&
                assign(*stmt.target, value, scope));
  }
  case StmtKind::Macro:
    if (!charge(kKeptCost))
      return Flow::Fail;
    macros.push_back({&stmt, scope});
    scope->variables[stmt.text] = Value::of(&macros.back());
    return Flow::Next;
  case StmtKind::CallBlock:
    return runCallBlock(stmt, scope, out);
  case StmtKind::SetBlock:
  case StmtKind::FilterBlock:
  case StmtKind::With:
  case StmtKind::Generation:
    return runInner(stmt, scope, out);
  case StmtKind::Break:
    return Flow::Break;
  case StmtKind::Continue:
    return Flow::Continue;
  }
  return Flow::Next;
}

/// Statements whose body has a scope of its own.
Interpreter::Flow Interpreter::runInner(const Stmt &stmt, const ScopePtr &scope,
                                        std::string &out) {
  auto inner = std::make_shared<Scope>(scope);
  // The values of `with` see the scope outside.
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    Value value;
    if (!eval(*stmt.values[i], scope, value) ||
        !assign(*stmt.targets[i], value, inner))
      return Flow::Fail;
  }
  if (stmt.kind == StmtKind::With || stmt.kind == StmtKind::Generation)
    return runBody(stmt.body, inner, out);
  std::string text;
  Flow flow = runBody(stmt.body, inner, text);
  if (flow != Flow::Next)
    return flow;
  line = stmt.line;
  Value value;
  if (!makeString(std::move(text), value))
    return Flow::Fail;
  const ScopePtr &outer = stmt.kind == StmtKind::SetBlock ? inner : scope;
  if (stmt.value && !evalFilter(*stmt.value, outer, value, value))
    return Flow::Fail;
  bool ok = stmt.kind == StmtKind::SetBlock ? assign(*stmt.target, value, scope)
                                            : print(value, out);
  return ok ? Flow::Next : Flow::Fail;
}

Interpreter::Flow Interpreter::runCallBlock(const Stmt &stmt,
                                            const ScopePtr &scope,
                                            std::string &out) {
  const Expr &e = *stmt.value;
  if (!charge(kKeptCost))
    return Flow::Fail;
  macros.push_back({&stmt, scope});
  Value caller = Value::of(&macros.back()), callee, value;
  Arguments arguments;
  if (!eval(*e.kids[0], scope, callee) || !evalArguments(e, scope, arguments))
    return Flow::Fail;
  line = e.line;
  arguments.keywords.emplace_back("caller", caller);
  return call(callee, arguments, value) && print(value, out) ? Flow::Next
                                                             : Flow::Fail;
}

bool Interpreter::assign(const Expr &target, const Value &value,
                         const ScopePtr &scope) {
  line = target.line;
  switch (target.kind) {
  case ExprKind::Name:
    scope->variables[target.text] = value;
    return true;
  case ExprKind::NsRef: {
    Value object;
    if (!evalName(target, scope, object))
      return false;
    if (!object.is(Kind::Namespace))
      return fail("cannot assign to the attribute " +
                  quoteName(target.attribute) + " of " +
                  quoteName(target.text) + ", which is no namespace");
    Namespace &ns = object.ns();
    if (!ns.attributes.count(target.attribute))
      ns.order.push_back(target.attribute);
    ns.attributes[target.attribute] = value;
    return true;
  }
  default: {
    std::vector<Value> items;
    if (!elements(value, items))
      return false;
    if (items.size() != target.kids.size())
      return fail(std::to_string(items.size()) + " values for " +
                  std::to_string(target.kids.size()) + " names");
    for (size_t i = 0; i < items.size(); ++i)
      if (!assign(*target.kids[i], items[i], scope))
        return false;
    return true;
  }
  }
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

bool Interpreter::openSource(const Value &value, Source &source) {
  source.value = value;
  if (value.isSequence()) {
    source.items = &value.items();
  } else if (value.is(Kind::Generator)) {
    source.items = &value.generator().items;
  } else {
    if (!elements(value, source.own))
      return false;
    source.items = &source.own;
  }
  return true;
}

/// The next item that passes the test.
bool Interpreter::advance(Loop &loop, Value &item, bool &found) {
  Source &source = loop.source;
  size_t &next = source.value.is(Kind::Generator)
                     ? source.value.generator().next
                     : source.next;
  for (found = false; next < source.items->size() && !found;) {
    if (!charge(16))
      return false;
    item = (*source.items)[next++];
    if (!loop.stmt->test) {
      found = true;
      break;
    }
    auto scope = std::make_shared<Scope>(loop.outer);
    Value passes;
    if (!assign(*loop.stmt->target, item, scope) ||
        !eval(*loop.stmt->test, scope, passes))
      return false;
    found = truthy(passes);
  }
  return true;
}

bool Interpreter::peek(Loop &loop, bool &found) {
  if (!loop.hasAfter && !loop.ended) {
    bool more;
    if (!advance(loop, loop.after, more))
      return false;
    loop.hasAfter = more;
    loop.ended = !more;
  }
  found = loop.hasAfter;
  return true;
}

bool Interpreter::nextItem(Loop &loop, bool &found) {
  if (!peek(loop, found))
    return false;
  if (!found)
    return true;
  loop.hasAfter = false;
  ++loop.index0;
  loop.before = std::move(loop.current);
  loop.current = std::move(loop.after);
  return true;
}

/// `loop.length`: of what has no length, the items so far and those to come.
bool Interpreter::countLoop(Loop &loop) {
  if (loop.length >= 0)
    return true;
  if (!loop.stmt->test)
    loop.length = lengthOf(loop.source.value);
  if (loop.length >= 0)
    return true;
  std::vector<Value> rest;
  for (bool found = true; found;) {
    Value item;
    if (!advance(loop, item, found))
      return false;
    if (found)
      rest.push_back(std::move(item));
  }
  loop.length = int64_t(rest.size()) + loop.index0 + 1 + loop.hasAfter;
  // They have passed the test: go on with the list.
  loop.source.own = std::move(rest);
  loop.source.items = &loop.source.own;
  loop.source.next = 0;
  loop.source.value = Value::none();
  static const Stmt kNoTest{};
  loop.stmt = &kNoTest;
  return true;
}

Interpreter::Flow Interpreter::runFor(const Stmt &stmt, const ScopePtr &scope,
                                      std::string &out) {
  Value iterable;
  if (!eval(*stmt.value, scope, iterable))
    return Flow::Fail;
  line = stmt.line;
  if (!charge(kKeptCost))
    return Flow::Fail;
  Loop &loop = loops.emplace_back();
  loop.stmt = &stmt;
  loop.outer = scope;
  if (!openSource(iterable, loop.source))
    return Flow::Fail;
  // As jinja2 has it: `else` runs unless a turn got to its end.
  bool completed = false;
  while (true) {
    bool found;
    if (!nextItem(loop, found))
      return Flow::Fail;
    if (!found)
      break;
    auto turn = std::make_shared<Scope>(scope);
    turn->variables["loop"] = Value::of(&loop);
    if (!assign(*stmt.target, loop.current, turn))
      return Flow::Fail;
    Flow flow = runBody(stmt.body, turn, out);
    if (flow == Flow::Fail)
      return flow;
    if (flow == Flow::Break)
      break;
    completed |= flow == Flow::Next;
  }
  if (completed)
    return Flow::Next;
  return runBody(stmt.orElse, std::make_shared<Scope>(scope), out);
}
