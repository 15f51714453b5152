//===- TemplateParser.cpp - Syntax trees of chat templates ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Recursive descent in the order of jinja2's own parser, whose grammar has a
// few surprises: `not a in b` is `not (a in b)`, `-x|abs` is `(-x)|abs`, `~`
// binds tighter than `+`, `a if b` needs no else, `x is test y` takes one
// argument without brackets.
//
//===----------------------------------------------------------------------===//

#include "TemplateParser.h"
#include "TemplateLexer.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <initializer_list>
#include <utility>

using namespace octet;
using namespace octet::jinja;

namespace {

class Parser {
public:
  Parser(std::vector<Token> tokens, const std::string &subject)
      : tokens(std::move(tokens)), subject(subject) {}

  Result<Body> run() {
    Body body;
    OCTET_TRY(parseBody({}, body));
    return body;
  }

private:
  using Names = std::initializer_list<std::string_view>;

  //===--- Tokens ---===//
  const Token &now() const { return tokens[index]; }
  const Token &ahead() const {
    return tokens[std::min(index + 1, tokens.size() - 1)];
  }
  void next() {
    if (index + 1 < tokens.size())
      ++index;
  }
  bool isName(std::string_view name) const {
    return now().kind == TokenKind::Name && now().text == name;
  }
  bool isOp(std::string_view op) const {
    return now().kind == TokenKind::Operator && now().text == op;
  }
  bool takeName(std::string_view name) {
    bool found = isName(name);
    if (found)
      next();
    return found;
  }
  bool takeOp(std::string_view op) {
    bool found = isOp(op);
    if (found)
      next();
    return found;
  }
  bool isOneOf(Names names) const {
    return now().kind == TokenKind::Name &&
           std::find(names.begin(), names.end(), now().text) != names.end();
  }

  Status fail(std::string message, int line = 0) const {
    return errorAt(subject, line ? line : now().line, std::move(message));
  }
  std::string describe() const {
    switch (now().kind) {
    case TokenKind::Name:
    case TokenKind::Operator:
    case TokenKind::Integer:
    case TokenKind::Float:
      return quoteName(now().text);
    case TokenKind::String:
      return "the string " + quoteName(now().text);
    case TokenKind::BlockEnd:
      return "'%}'";
    case TokenKind::VariableEnd:
      return "'}}'";
    case TokenKind::End:
      return "the end of the template";
    default:
      return "text";
    }
  }
  Status expectOp(std::string_view op) {
    if (takeOp(op))
      return Status::success();
    return fail("expected '" + std::string(op) + "', found " + describe());
  }
  Status expectName(std::string &name) {
    if (now().kind != TokenKind::Name)
      return fail("expected a name, found " + describe());
    name = now().text;
    next();
    return Status::success();
  }

  //===--- Nodes ---===//
  ExprPtr make(ExprKind kind, int line) const {
    auto e = std::make_unique<Expr>();
    e->kind = kind;
    e->line = line;
    return e;
  }
  ExprPtr constant(Value value, int line) const {
    ExprPtr e = make(ExprKind::Constant, line);
    e->value = std::move(value);
    return e;
  }
  /// Bounds the depth of what loops build (a.b.b.b …), of which the parser
  /// itself does not recurse.
  Status finish(ExprPtr &e) const {
    int depth = 0;
    auto see = [&](const ExprPtr &kid) {
      if (kid)
        depth = std::max(depth, kid->depth);
    };
    for (const ExprPtr &kid : e->kids)
      see(kid);
    for (const ExprPtr &kid : e->arguments)
      see(kid);
    for (const auto &[name, kid] : e->keywords)
      see(kid);
    see(e->starArguments);
    see(e->starKeywords);
    e->depth = depth + 1;
    if (e->depth > kMaxTreeDepth)
      return tooDeep(e->line);
    return Status::success();
  }
  Status tooDeep(int line) const {
    return fail("the template nests deeper than " +
                    std::to_string(kMaxTreeDepth) + " levels",
                line);
  }
  /// Counts a level of the parser's own recursion.
  struct Level {
    explicit Level(int &depth) : depth(depth) { ++depth; }
    ~Level() { --depth; }
    int &depth;
  };

  //===--- Statements ---===//
  Status parseBody(Names ends, Body &body);
  Status parseStatement(Body &body);
  Status parseFor(Stmt &stmt);
  Status parseIf(Stmt &stmt);
  Status parseSet(Stmt &stmt);
  Status parseWith(Stmt &stmt);
  Status parseSignature(Stmt &stmt);
  /// `%}`, then statements up to one of `ends`, whose name is the token now.
  Status parseBlock(Names ends, Body &body);
  /// The same with `%}` behind the end.
  Status parseWhole(std::string_view end, Body &body);
  /// In a function's body a loop outside is out of reach of `break`.
  Status parseFunction(std::string_view end, Stmt &stmt);

  //===--- Expressions ---===//
  Status parseTarget(ExprPtr &out, bool namespaces);
  Status parseTuple(ExprPtr &out, bool condition, bool brackets = false);
  Status parseExpression(ExprPtr &out, bool condition = true);
  Status parseCondition(ExprPtr &out);
  Status parseOr(ExprPtr &out);
  Status parseAnd(ExprPtr &out);
  Status parseNot(ExprPtr &out);
  Status parseCompare(ExprPtr &out);
  Status parseSum(ExprPtr &out);
  Status parseConcat(ExprPtr &out);
  Status parseProduct(ExprPtr &out);
  Status parsePower(ExprPtr &out);
  Status parseUnary(ExprPtr &out, bool filters = true);
  Status parsePrimary(ExprPtr &out);
  Status parsePostfix(ExprPtr &out);
  Status parseSubscript(ExprPtr &out);
  Status parseArguments(Expr &call);
  Status parseFilter(ExprPtr &out);
  Status parseTest(ExprPtr &out);
  Status parseListOrDict(ExprPtr &out);
  bool isTupleEnd() const {
    return now().kind == TokenKind::VariableEnd ||
           now().kind == TokenKind::BlockEnd || isOp(")");
  }

  std::vector<Token> tokens;
  const std::string subject;
  size_t index = 0;
  int depth = 0;
  int loops = 0; ///< that `break` may leave
  bool tupleEndsAtIn = false;
  std::vector<std::string> specials; ///< read so far in this function
};

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

Status Parser::parseBody(Names ends, Body &body) {
  Level level(depth);
  if (depth > kMaxTreeDepth)
    return tooDeep(now().line);
  while (true) {
    switch (now().kind) {
    case TokenKind::End: {
      if (ends.size() == 0)
        return Status::success();
      return fail("the template ends without '{% " +
                  std::string(*(ends.end() - 1)) + " %}'");
    }
    case TokenKind::Data: {
      auto stmt = std::make_unique<Stmt>();
      stmt->kind = StmtKind::Text;
      stmt->line = now().line;
      stmt->text = now().text;
      body.push_back(std::move(stmt));
      next();
      break;
    }
    case TokenKind::VariableBegin: {
      auto stmt = std::make_unique<Stmt>();
      stmt->kind = StmtKind::Output;
      next();
      stmt->line = now().line;
      OCTET_TRY(parseTuple(stmt->value, /*condition=*/true));
      if (now().kind != TokenKind::VariableEnd)
        return fail("expected '}}', found " + describe());
      next();
      body.push_back(std::move(stmt));
      break;
    }
    case TokenKind::BlockBegin:
      next();
      if (isOneOf(ends))
        return Status::success();
      OCTET_TRY(parseStatement(body));
      if (now().kind != TokenKind::BlockEnd)
        return fail("expected '%}', found " + describe());
      next();
      break;
    default:
      return fail("unexpected " + describe());
    }
  }
}

Status Parser::parseBlock(Names ends, Body &body) {
  takeOp(":");
  if (now().kind != TokenKind::BlockEnd)
    return fail("expected '%}', found " + describe());
  next();
  return parseBody(ends, body);
}

Status Parser::parseWhole(std::string_view end, Body &body) {
  OCTET_TRY(parseBlock({end}, body));
  next();
  return Status::success();
}

Status Parser::parseFunction(std::string_view end, Stmt &stmt) {
  int outside = std::exchange(loops, 0);
  std::vector<std::string> before = std::exchange(specials, {});
  OCTET_TRY(parseWhole(end, stmt.body));
  loops = outside;
  stmt.specials = specials;
  specials.insert(specials.end(), before.begin(), before.end());
  return Status::success();
}

Status Parser::parseStatement(Body &body) {
  if (now().kind != TokenKind::Name)
    return fail("expected the name of a statement, found " + describe());
  auto stmt = std::make_unique<Stmt>();
  stmt->line = now().line;
  std::string name = now().text;
  next();
  if (name == "for") {
    stmt->kind = StmtKind::For;
    OCTET_TRY(parseFor(*stmt));
  } else if (name == "if") {
    stmt->kind = StmtKind::If;
    OCTET_TRY(parseIf(*stmt));
  } else if (name == "set") {
    OCTET_TRY(parseSet(*stmt));
  } else if (name == "with") {
    stmt->kind = StmtKind::With;
    OCTET_TRY(parseWith(*stmt));
  } else if (name == "macro") {
    stmt->kind = StmtKind::Macro;
    OCTET_TRY(expectName(stmt->text));
    OCTET_TRY(parseSignature(*stmt));
    OCTET_TRY(parseFunction("endmacro", *stmt));
  } else if (name == "call") {
    stmt->kind = StmtKind::CallBlock;
    if (isOp("("))
      OCTET_TRY(parseSignature(*stmt));
    OCTET_TRY(parseExpression(stmt->value));
    if (stmt->value->kind != ExprKind::Call)
      return fail("'call' needs the call of a macro", stmt->line);
    OCTET_TRY(parseFunction("endcall", *stmt));
  } else if (name == "filter") {
    stmt->kind = StmtKind::FilterBlock;
    OCTET_TRY(parseFilter(stmt->value));
    while (takeOp("|"))
      OCTET_TRY(parseFilter(stmt->value));
    OCTET_TRY(parseWhole("endfilter", stmt->body));
  } else if (name == "generation") {
    stmt->kind = StmtKind::Generation;
    OCTET_TRY(parseFunction("endgeneration", *stmt));
  } else if (name == "print") {
    stmt->kind = StmtKind::Output;
    OCTET_TRY(parseExpression(stmt->value));
    if (isOp(","))
      return fail("'print' of several values is not supported");
  } else if (name == "break" || name == "continue") {
    stmt->kind = name == "break" ? StmtKind::Break : StmtKind::Continue;
    if (!loops)
      return fail("'" + name + "' outside of a loop", stmt->line);
  } else {
    bool isEnd = name.starts_with("end") || name == "else" || name == "elif";
    return fail(isEnd
                    ? "'{% " + escapeName(name) + " %}' ends nothing here"
                    : "the statement " + quoteName(name) + " is not supported",
                stmt->line);
  }
  body.push_back(std::move(stmt));
  return Status::success();
}

Status Parser::parseFor(Stmt &stmt) {
  tupleEndsAtIn = true;
  OCTET_TRY(parseTarget(stmt.target, /*namespaces=*/false));
  tupleEndsAtIn = false;
  if (!takeName("in"))
    return fail("expected 'in', found " + describe());
  OCTET_TRY(parseTuple(stmt.value, /*condition=*/false));
  if (takeName("if"))
    OCTET_TRY(parseExpression(stmt.test));
  if (isName("recursive"))
    return fail("a 'recursive' loop is not supported");
  ++loops;
  OCTET_TRY(parseBlock({"else", "endfor"}, stmt.body));
  --loops;
  bool hasElse = isName("else");
  next();
  if (hasElse)
    OCTET_TRY(parseWhole("endfor", stmt.orElse));
  return Status::success();
}

Status Parser::parseIf(Stmt &stmt) {
  while (true) {
    auto &[test, body] = stmt.branches.emplace_back();
    OCTET_TRY(parseTuple(test, /*condition=*/false));
    OCTET_TRY(parseBlock({"elif", "else", "endif"}, body));
    std::string end = now().text;
    next();
    if (end == "elif")
      continue;
    if (end == "else")
      OCTET_TRY(parseWhole("endif", stmt.orElse));
    return Status::success();
  }
}

Status Parser::parseSet(Stmt &stmt) {
  OCTET_TRY(parseTarget(stmt.target, /*namespaces=*/true));
  if (takeOp("=")) {
    stmt.kind = StmtKind::Set;
    return parseTuple(stmt.value, /*condition=*/true);
  }
  stmt.kind = StmtKind::SetBlock;
  while (takeOp("|"))
    OCTET_TRY(parseFilter(stmt.value));
  return parseWhole("endset", stmt.body);
}

Status Parser::parseWith(Stmt &stmt) {
  while (now().kind != TokenKind::BlockEnd) {
    if (!stmt.targets.empty())
      OCTET_TRY(expectOp(","));
    OCTET_TRY(parseTarget(stmt.targets.emplace_back(), /*namespaces=*/false));
    OCTET_TRY(expectOp("="));
    OCTET_TRY(parseExpression(stmt.values.emplace_back()));
  }
  return parseWhole("endwith", stmt.body);
}

Status Parser::parseSignature(Stmt &stmt) {
  OCTET_TRY(expectOp("("));
  while (!isOp(")")) {
    if (!stmt.parameters.empty())
      OCTET_TRY(expectOp(","));
    std::string name;
    OCTET_TRY(expectName(name));
    if (std::find(stmt.parameters.begin(), stmt.parameters.end(), name) !=
        stmt.parameters.end())
      return fail("the parameter " + quoteName(name) + " is there twice");
    stmt.parameters.push_back(name);
    if (takeOp("="))
      OCTET_TRY(parseExpression(stmt.defaults.emplace_back()));
    else if (!stmt.defaults.empty())
      return fail("the parameter " + quoteName(name) +
                  " has no default but one before it has");
  }
  return expectOp(")");
}

//===----------------------------------------------------------------------===//
// Targets and tuples
//===----------------------------------------------------------------------===//

Status Parser::parseTarget(ExprPtr &out, bool namespaces) {
  int line = now().line;
  std::vector<ExprPtr> parts;
  bool isTuple = false;
  while (true) {
    if (isTuple &&
        (isTupleEnd() || isOp("=") || (tupleEndsAtIn && isName("in"))))
      break;
    ExprPtr part;
    if (isOp("(")) {
      Level level(depth);
      if (depth > kMaxTreeDepth)
        return tooDeep(line);
      next();
      bool endsAtIn = std::exchange(tupleEndsAtIn, false);
      OCTET_TRY(parseTarget(part, namespaces));
      tupleEndsAtIn = endsAtIn;
      OCTET_TRY(expectOp(")"));
    } else {
      part = make(ExprKind::Name, now().line);
      OCTET_TRY(expectName(part->text));
      for (std::string_view word :
           {"true", "false", "none", "True", "False", "None"})
        if (part->text == word)
          return fail("cannot assign to '" + part->text + "'", part->line);
      if (namespaces && takeOp(".")) {
        part->kind = ExprKind::NsRef;
        OCTET_TRY(expectName(part->attribute));
      } else if (part->text == "loop") {
        return fail("cannot assign to 'loop'", part->line);
      }
    }
    parts.push_back(std::move(part));
    // `with a = 1, b = 2` has commas of its own.
    if (!isOp(",") ||
        (ahead().kind == TokenKind::Operator && ahead().text == "="))
      break;
    isTuple = true;
    next();
  }
  if (!isTuple) {
    out = std::move(parts[0]);
    return Status::success();
  }
  out = make(ExprKind::Tuple, line);
  out->kids = std::move(parts);
  return finish(out);
}

Status Parser::parseTuple(ExprPtr &out, bool condition, bool brackets) {
  int line = now().line;
  std::vector<ExprPtr> items;
  bool isTuple = false;
  while (true) {
    if (!items.empty())
      OCTET_TRY(expectOp(","));
    if (isTupleEnd() || isName("recursive"))
      break;
    OCTET_TRY(parseExpression(items.emplace_back(), condition));
    if (!isOp(","))
      break;
    isTuple = true;
  }
  if (!isTuple) {
    if (!items.empty()) {
      out = std::move(items[0]);
      return Status::success();
    }
    if (!brackets)
      return fail("expected an expression, found " + describe());
  }
  out = make(ExprKind::Tuple, line);
  out->kids = std::move(items);
  return finish(out);
}

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Status Parser::parseExpression(ExprPtr &out, bool condition) {
  Level level(depth);
  if (depth > kMaxTreeDepth)
    return tooDeep(now().line);
  return condition ? parseCondition(out) : parseOr(out);
}

Status Parser::parseCondition(ExprPtr &out) {
  int line = now().line;
  OCTET_TRY(parseOr(out));
  while (takeName("if")) {
    ExprPtr e = make(ExprKind::Condition, line);
    e->kids.resize(3);
    e->kids[1] = std::move(out);
    OCTET_TRY(parseOr(e->kids[0]));
    if (takeName("else")) {
      Level level(depth);
      if (depth > kMaxTreeDepth)
        return tooDeep(line);
      OCTET_TRY(parseCondition(e->kids[2]));
    }
    OCTET_TRY(finish(e));
    out = std::move(e);
    line = now().line;
  }
  return Status::success();
}

Status Parser::parseOr(ExprPtr &out) {
  OCTET_TRY(parseAnd(out));
  while (takeName("or")) {
    ExprPtr e = make(ExprKind::Or, now().line);
    e->kids.resize(2);
    e->kids[0] = std::move(out);
    OCTET_TRY(parseAnd(e->kids[1]));
    OCTET_TRY(finish(e));
    out = std::move(e);
  }
  return Status::success();
}

Status Parser::parseAnd(ExprPtr &out) {
  OCTET_TRY(parseNot(out));
  while (takeName("and")) {
    ExprPtr e = make(ExprKind::And, now().line);
    e->kids.resize(2);
    e->kids[0] = std::move(out);
    OCTET_TRY(parseNot(e->kids[1]));
    OCTET_TRY(finish(e));
    out = std::move(e);
  }
  return Status::success();
}

Status Parser::parseNot(ExprPtr &out) {
  if (!isName("not"))
    return parseCompare(out);
  Level level(depth);
  if (depth > kMaxTreeDepth)
    return tooDeep(now().line);
  out = make(ExprKind::Not, now().line);
  next();
  OCTET_TRY(parseNot(out->kids.emplace_back()));
  return finish(out);
}

Status Parser::parseCompare(ExprPtr &out) {
  OCTET_TRY(parseSum(out));
  ExprPtr e;
  while (true) {
    std::string op;
    if (now().kind == TokenKind::Operator &&
        (isOp("==") || isOp("!=") || isOp("<") || isOp("<=") || isOp(">") ||
         isOp(">="))) {
      op = now().text;
      next();
    } else if (takeName("in")) {
      op = "in";
    } else if (isName("not") && ahead().kind == TokenKind::Name &&
               ahead().text == "in") {
      next();
      next();
      op = "not in";
    } else {
      break;
    }
    if (!e) {
      e = make(ExprKind::Compare, now().line);
      e->kids.push_back(std::move(out));
    }
    e->ops.push_back(op);
    OCTET_TRY(parseSum(e->kids.emplace_back()));
  }
  if (!e)
    return Status::success();
  out = std::move(e);
  return finish(out);
}

Status Parser::parseSum(ExprPtr &out) {
  OCTET_TRY(parseConcat(out));
  while (isOp("+") || isOp("-")) {
    ExprPtr e = make(ExprKind::Binary, now().line);
    e->text = now().text;
    next();
    e->kids.resize(2);
    e->kids[0] = std::move(out);
    OCTET_TRY(parseConcat(e->kids[1]));
    OCTET_TRY(finish(e));
    out = std::move(e);
  }
  return Status::success();
}

Status Parser::parseConcat(ExprPtr &out) {
  int line = now().line;
  OCTET_TRY(parseProduct(out));
  if (!isOp("~"))
    return Status::success();
  ExprPtr e = make(ExprKind::Concat, line);
  e->kids.push_back(std::move(out));
  while (takeOp("~"))
    OCTET_TRY(parseProduct(e->kids.emplace_back()));
  out = std::move(e);
  return finish(out);
}

Status Parser::parseProduct(ExprPtr &out) {
  OCTET_TRY(parsePower(out));
  while (isOp("*") || isOp("/") || isOp("//") || isOp("%")) {
    ExprPtr e = make(ExprKind::Binary, now().line);
    e->text = now().text;
    next();
    e->kids.resize(2);
    e->kids[0] = std::move(out);
    OCTET_TRY(parsePower(e->kids[1]));
    OCTET_TRY(finish(e));
    out = std::move(e);
  }
  return Status::success();
}

Status Parser::parsePower(ExprPtr &out) {
  OCTET_TRY(parseUnary(out));
  while (isOp("**")) {
    ExprPtr e = make(ExprKind::Binary, now().line);
    e->text = now().text;
    next();
    e->kids.resize(2);
    e->kids[0] = std::move(out);
    OCTET_TRY(parseUnary(e->kids[1]));
    OCTET_TRY(finish(e));
    out = std::move(e);
  }
  return Status::success();
}

Status Parser::parseUnary(ExprPtr &out, bool filters) {
  Level level(depth);
  if (depth > kMaxTreeDepth)
    return tooDeep(now().line);
  if (isOp("-") || isOp("+")) {
    out = make(isOp("-") ? ExprKind::Negate : ExprKind::Plus, now().line);
    next();
    OCTET_TRY(parseUnary(out->kids.emplace_back(), /*filters=*/false));
    OCTET_TRY(finish(out));
  } else {
    OCTET_TRY(parsePrimary(out));
  }
  OCTET_TRY(parsePostfix(out));
  while (filters) {
    if (takeOp("|"))
      OCTET_TRY(parseFilter(out));
    else if (isName("is"))
      OCTET_TRY(parseTest(out));
    else if (isOp("("))
      OCTET_TRY(parsePostfix(out));
    else
      break;
  }
  return Status::success();
}

Status Parser::parsePrimary(ExprPtr &out) {
  Token token = now();
  switch (token.kind) {
  case TokenKind::Name:
    next();
    if (token.text == "true" || token.text == "True")
      out = constant(Value::boolean(true), token.line);
    else if (token.text == "false" || token.text == "False")
      out = constant(Value::boolean(false), token.line);
    else if (token.text == "none" || token.text == "None")
      out = constant(Value::none(), token.line);
    else {
      out = make(ExprKind::Name, token.line);
      out->text = token.text;
      for (std::string_view special : {"caller", "kwargs", "varargs"})
        if (token.text == special && specials.size() < 64)
          specials.push_back(token.text);
    }
    return Status::success();
  case TokenKind::String: {
    std::string text;
    for (; now().kind == TokenKind::String; next())
      text += now().text;
    out = constant(Value::string(std::move(text)), token.line);
    return Status::success();
  }
  case TokenKind::Integer:
    next();
    out = constant(Value::integer(token.integer), token.line);
    return Status::success();
  case TokenKind::Float:
    next();
    out = constant(Value::number(token.number), token.line);
    return Status::success();
  case TokenKind::Operator:
    if (takeOp("(")) {
      OCTET_TRY(parseTuple(out, /*condition=*/true, /*brackets=*/true));
      return expectOp(")");
    }
    if (isOp("[") || isOp("{"))
      return parseListOrDict(out);
    break;
  default:
    break;
  }
  return fail("expected an expression, found " + describe());
}

Status Parser::parseListOrDict(ExprPtr &out) {
  bool isList = isOp("[");
  const char *end = isList ? "]" : "}";
  out = make(isList ? ExprKind::List : ExprKind::Dict, now().line);
  next();
  while (!isOp(end)) {
    if (!out->kids.empty())
      OCTET_TRY(expectOp(","));
    if (isOp(end))
      break;
    OCTET_TRY(parseExpression(out->kids.emplace_back()));
    if (isList)
      continue;
    OCTET_TRY(expectOp(":"));
    OCTET_TRY(parseExpression(out->kids.emplace_back()));
  }
  OCTET_TRY(expectOp(end));
  return finish(out);
}

Status Parser::parsePostfix(ExprPtr &out) {
  while (true) {
    if (isOp(".") || isOp("[")) {
      OCTET_TRY(parseSubscript(out));
    } else if (isOp("(")) {
      ExprPtr e = make(ExprKind::Call, now().line);
      e->kids.push_back(std::move(out));
      OCTET_TRY(parseArguments(*e));
      OCTET_TRY(finish(e));
      out = std::move(e);
    } else {
      return Status::success();
    }
  }
}

Status Parser::parseSubscript(ExprPtr &out) {
  int line = now().line;
  ExprPtr e = make(ExprKind::GetItem, line);
  e->kids.push_back(std::move(out));
  if (takeOp(".")) {
    if (now().kind == TokenKind::Name) {
      e->kind = ExprKind::GetAttr;
      e->text = now().text;
    } else if (now().kind == TokenKind::Integer) {
      e->kids.push_back(constant(Value::integer(now().integer), line));
    } else {
      return fail("expected a name or number behind '.', found " + describe());
    }
    next();
  } else {
    next();
    ExprPtr index;
    if (!isOp(":"))
      OCTET_TRY(parseExpression(index));
    if (isOp(":")) {
      e->kind = ExprKind::Slice;
      e->kids.resize(4);
      e->kids[1] = std::move(index);
      for (int part = 2; part <= 3 && takeOp(":"); ++part)
        if (!isOp(":") && !isOp("]"))
          OCTET_TRY(parseExpression(e->kids[size_t(part)]));
    } else {
      e->kids.push_back(std::move(index));
    }
    if (isOp(","))
      return fail("an index of several parts is not supported");
    OCTET_TRY(expectOp("]"));
  }
  OCTET_TRY(finish(e));
  out = std::move(e);
  return Status::success();
}

Status Parser::parseArguments(Expr &call) {
  int line = now().line;
  OCTET_TRY(expectOp("("));
  bool first = true;
  while (!isOp(")")) {
    if (!first)
      OCTET_TRY(expectOp(","));
    if (isOp(")"))
      break;
    first = false;
    if (takeOp("**")) {
      if (call.starKeywords)
        return fail("a call takes one '**'", line);
      OCTET_TRY(parseExpression(call.starKeywords));
    } else if (takeOp("*")) {
      if (call.starArguments || call.starKeywords)
        return fail("a call takes one '*', before '**'", line);
      OCTET_TRY(parseExpression(call.starArguments));
    } else if (now().kind == TokenKind::Name &&
               ahead().kind == TokenKind::Operator && ahead().text == "=") {
      if (call.starKeywords)
        return fail("a named argument behind '**'", line);
      auto &[name, value] = call.keywords.emplace_back();
      name = now().text;
      for (size_t i = 0; i + 1 < call.keywords.size(); ++i)
        if (call.keywords[i].first == name)
          return fail("the argument " + quoteName(name) + " is there twice");
      next();
      next();
      OCTET_TRY(parseExpression(value));
    } else {
      if (call.starArguments || call.starKeywords || !call.keywords.empty())
        return fail("a positional argument behind a named one", line);
      OCTET_TRY(parseExpression(call.arguments.emplace_back()));
    }
  }
  return expectOp(")");
}

Status Parser::parseFilter(ExprPtr &out) {
  ExprPtr e = make(ExprKind::Filter, now().line);
  e->kids.push_back(std::move(out));
  OCTET_TRY(expectName(e->text));
  if (isOp("."))
    return fail("the filter " + quoteName(e->text + ".") + " is not supported");
  if (isOp("("))
    OCTET_TRY(parseArguments(*e));
  OCTET_TRY(finish(e));
  out = std::move(e);
  return Status::success();
}

Status Parser::parseTest(ExprPtr &out) {
  ExprPtr e = make(ExprKind::Test, now().line);
  next();
  bool negated = takeName("not");
  e->kids.push_back(std::move(out));
  OCTET_TRY(expectName(e->text));
  if (isOp(".")) {
    return fail("the test " + quoteName(e->text + ".") + " is not supported");
  }
  TokenKind kind = now().kind;
  if (isOp("(")) {
    OCTET_TRY(parseArguments(*e));
  } else if ((kind == TokenKind::Name && !isOneOf({"else", "or", "and"})) ||
             kind == TokenKind::String || kind == TokenKind::Integer ||
             kind == TokenKind::Float || isOp("[") || isOp("{")) {
    if (isName("is"))
      return fail("a test of a test with 'is'");
    ExprPtr argument;
    OCTET_TRY(parsePrimary(argument));
    OCTET_TRY(parsePostfix(argument));
    e->arguments.push_back(std::move(argument));
  }
  OCTET_TRY(finish(e));
  if (negated) {
    ExprPtr n = make(ExprKind::Not, e->line);
    n->kids.push_back(std::move(e));
    OCTET_TRY(finish(n));
    e = std::move(n);
  }
  out = std::move(e);
  return Status::success();
}

} // namespace

Result<Body> jinja::parseTemplate(std::string_view text,
                                  const std::string &subject) {
  OCTET_TRY_ASSIGN(std::vector<Token> tokens, tokenize(text, subject));
  return Parser(std::move(tokens), subject).run();
}
