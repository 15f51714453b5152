//===- TemplateInterpreter.h - Runs a chat template ----------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Names are looked up in scopes as jinja2's compiler lays them out: a loop's
// body is a new scope for each turn, a macro, block or `with` has one, `if` has
// none. A macro sees the scope it was defined in.
//
// A function that may fail returns false and leaves the error in `error`. What
// a template can do is bounded by work (ChatOptions::maxWork), by the depth of
// calls and of values, and by the size of the output.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_TEMPLATEINTERPRETER_H
#define OCTET_LIB_TEXT_TEMPLATEINTERPRETER_H

#include "TemplateParser.h"
#include "TemplateValue.h"
#include "octet/Support/Status.h"
#include "octet/Text/ChatTemplate.h"
#include <ctime>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace octet::jinja {

struct Scope {
  explicit Scope(std::shared_ptr<Scope> parent) : parent(std::move(parent)) {}
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> variables;
};
using ScopePtr = std::shared_ptr<Scope>;

/// A macro, or the body of a `call` block.
struct Macro {
  const Stmt *stmt;
  ScopePtr scope; ///< where it was defined
};

/// What a `for` goes over: one turn at a time, since a test may look at what
/// the body did, and a generator is read no further than the loop gets.
struct Source {
  Value value;                               ///< keeps the items alive
  const std::vector<Value> *items = nullptr; ///< of `value` or `own`
  std::vector<Value> own;
  size_t next = 0;
};

/// The variable `loop`.
struct Loop {
  Source source;
  const Stmt *stmt = nullptr;
  ScopePtr outer;
  int64_t index0 = -1;
  int64_t length = -1; ///< -1: not counted yet
  bool hasAfter = false, ended = false;
  Value before, current, after;
  std::optional<std::vector<Value>> changed;
};

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;
};

class Interpreter {
public:
  Interpreter(std::string subject, std::optional<std::tm> now, int64_t maxWork)
      : subject(std::move(subject)), now(now), maxWork(maxWork) {}

  /// Appends what the template prints. The tree outlives the interpreter.
  Status run(const Body &body, const ScopePtr &scope, std::string &out);

private:
  enum class Flow : uint8_t { Next, Break, Continue, Fail };
  using Bound = std::vector<std::optional<Value>>;

  //===--- Errors and bounds ---===//
  bool fail(std::string message);
  /// What Python refuses: `OP: str and int`.
  bool failTypes(std::string_view op, const Value &a, const Value &b);
  bool failUndefined(const Value &value);
  bool failDepth();
  bool charge(int64_t work);
  /// Counts a level of recursion over trees, macros and values.
  struct Level;

  //===--- Statements (TemplateInterpreter.cpp) ---===//
  Flow runBody(const Body &body, const ScopePtr &scope, std::string &out);
  Flow runStmt(const Stmt &stmt, const ScopePtr &scope, std::string &out);
  Flow runFor(const Stmt &stmt, const ScopePtr &scope, std::string &out);
  Flow runInner(const Stmt &stmt, const ScopePtr &scope, std::string &out);
  Flow runCallBlock(const Stmt &stmt, const ScopePtr &scope, std::string &out);
  bool openSource(const Value &value, Source &source);
  bool advance(Loop &loop, Value &item, bool &found);
  bool nextItem(Loop &loop, bool &found);
  bool peek(Loop &loop, bool &found);
  bool countLoop(Loop &loop);
  bool assign(const Expr &target, const Value &value, const ScopePtr &scope);
  bool print(const Value &value, std::string &out);
  bool checkSize(const std::string &out);

  //===--- Expressions (TemplateExpressions.cpp) ---===//
  bool eval(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalKids(const Expr &e, const ScopePtr &scope, std::vector<Value> &out);
  bool evalName(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalSlice(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalCall(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalFilter(const Expr &e, const ScopePtr &scope, Value input,
                  Value &out);
  bool evalFilterOf(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalTest(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalCompare(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalConcat(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalBinary(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalUnary(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalDict(const Expr &e, const ScopePtr &scope, Value &out);
  bool evalArguments(const Expr &e, const ScopePtr &scope, Arguments &out);

  bool getAttribute(const Value &object, const std::string &name, Value &out);
  bool getItem(const Value &object, const Value &key, Value &out);
  bool loopAttribute(Loop &loop, std::string_view name, Value &out,
                     bool &found);
  bool call(const Value &callee, Arguments &arguments, Value &out);
  bool callMacro(const Macro &macro, Arguments &arguments, Value &out);
  bool callFunction(const std::string &name, Arguments &arguments, Value &out);
  bool callRange(Arguments &arguments, Value &out);
  bool callStrftime(Arguments &arguments, Value &out);
  bool makeMapping(std::string_view what, Arguments &arguments,
                   std::vector<std::pair<Value, Value>> &out);

  //===--- Operators (TemplateOperators.cpp) ---===//
  bool binary(std::string_view op, const Value &a, const Value &b, Value &out);
  bool integerOp(std::string_view op, int64_t a, int64_t b, Value &out);
  bool floatOp(std::string_view op, double a, double b, Value &out);
  bool repeat(const Value &sequence, int64_t times, Value &out);
  bool equal(const Value &a, const Value &b, bool &out);
  bool sameItems(const std::vector<Value> &a, const std::vector<Value> &b,
                 bool &out);
  /// a < b as Python orders them.
  bool less(const Value &a, const Value &b, bool &out);
  bool compare(std::string_view op, const Value &a, const Value &b, bool &out);
  bool contains(const Value &container, const Value &item, bool &out);
  bool slice(const Value &object, const Value &start, const Value &stop,
             const Value &step, Value &out);
  /// All elements of what can be iterated; a generator is used up.
  bool elements(const Value &value, std::vector<Value> &out);

  //===--- Text (TemplateText.cpp) ---===//
  bool appendStr(const Value &value, std::string &out);
  bool appendRepr(const Value &value, std::string &out);
  bool appendItems(const std::vector<Value> &items, std::string &out);
  bool str(const Value &value, std::string &out);
  /// `format % arguments`
  bool percentFormat(const std::string &format, const Value &arguments,
                     Value &out);
  bool formatOne(char conversion, const std::string &flags, int width,
                 int precision, const Value &value, std::string &out);
  bool braceFormat(const std::string &format, Arguments &arguments, Value &out);
  bool toJson(const Value &value, Arguments &arguments, Value &out);
  bool makeString(std::string text, Value &out);

  //===--- Filters, tests, methods ---===//
  bool bind(std::string_view what, Arguments &arguments,
            std::initializer_list<std::string_view> names, size_t required,
            Bound &out);
  bool filter(const std::string &name, const Value &input, Arguments &arguments,
              Value &out);
  bool textFilter(const std::string &name, const Value &input,
                  Arguments &arguments, Value &out, bool &found);
  bool numberFilter(const std::string &name, const Value &input,
                    Arguments &arguments, Value &out, bool &found);
  bool listFilter(const std::string &name, const Value &input,
                  Arguments &arguments, Value &out, bool &found);
  bool indentFilter(const Value &input, Arguments &arguments, Value &out);
  bool intFilter(const Value &input, Arguments &arguments, Value &out);
  bool mapFilter(const Value &input, Arguments &arguments, Value &out);
  bool selectFilter(const Value &input, Arguments &arguments, bool wanted,
                    bool byAttribute, Value &out);
  bool sortFilter(const Value &input, Arguments &arguments, Value &out);
  bool dictSortFilter(const Value &input, Arguments &arguments, Value &out);
  bool uniqueFilter(const Value &input, Arguments &arguments, Value &out);
  bool extremeFilter(const std::string &name, const Value &input,
                     Arguments &arguments, Value &out);
  bool joinFilter(const Value &input, Arguments &arguments, Value &out);
  bool attributeOf(const Value &object, const Value &path,
                   const Value &fallback, Value &out);
  bool sortBy(std::vector<Value> &items, std::vector<Value> keys, bool reverse);
  bool test(const std::string &name, const Value &value, Arguments &arguments,
            bool &out);
  bool callMethod(const Value &self, const std::string &name,
                  Arguments &arguments, Value &out);
  bool stringMethod(const std::string &text, const std::string &name,
                    Arguments &arguments, Value &out);
  bool splitMethod(const std::string &text, const std::string &name,
                   Arguments &arguments, Value &out);
  bool searchMethod(const std::string &text, const std::string &name,
                    Arguments &arguments, Value &out);
  bool padMethod(const std::string &text, const std::string &name,
                 Arguments &arguments, Value &out);
  bool affixMethod(const std::string &text, const std::string &name,
                   Arguments &arguments, Value &out);
  /// `chars` are those to take off; white space if absent or none.
  bool stripText(std::string_view what, const std::string &text, bool left,
                 bool right, const std::optional<Value> &chars, Value &out);
  bool joinStrings(const std::string &separator, const Value &items,
                   bool convert, Value &out);
  bool replaceText(const std::string &text, const std::string &from,
                   const std::string &to, int64_t count, Value &out);
  bool dictMethod(const Value &self, const std::string &name,
                  Arguments &arguments, Value &out);
  bool sequenceMethod(const Value &self, const std::string &name,
                      Arguments &arguments, Value &out);
  /// An argument that has to be a str or an int.
  bool wantString(std::string_view what, const Value &value);
  bool wantInt(std::string_view what, const Value &value);

  const std::string subject;
  const std::optional<std::tm> now;
  const int64_t maxWork; ///< at most kMaxTemplateWork
  Status error;
  int line = 1;
  int depth = 0;
  int64_t work = 0;
  // What may refer to each other in circles lives as long as the interpreter.
  static constexpr int64_t kKeptCost = 512; ///< at least the bytes of each
  std::deque<Macro> macros;
  std::deque<Namespace> namespaces;
  std::deque<Loop> loops;
};

struct Interpreter::Level {
  explicit Level(Interpreter &in) : in(in) { ++in.depth; }
  ~Level() { --in.depth; }
  bool ok() const {
    return in.depth <= kMaxDepth ||
           in.fail("calls and expressions nest deeper than " +
                   std::to_string(kMaxDepth) + " levels");
  }
  /// About 1 KiB of stack each, more with sanitizers.
  static constexpr int kMaxDepth = 800;
  Interpreter &in;
};

} // namespace octet::jinja

#endif // OCTET_LIB_TEXT_TEMPLATEINTERPRETER_H
