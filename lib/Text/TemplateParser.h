//===- TemplateParser.h - Syntax trees of chat templates ------ -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// One node type for expressions and one for statements: the evaluator switches
// on the kind. A tree is at most kMaxTreeDepth deep, so that no walk over it
// runs out of stack.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_TEMPLATEPARSER_H
#define OCTET_LIB_TEXT_TEMPLATEPARSER_H

#include "TemplateValue.h"
#include "octet/Support/Status.h"
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace octet::jinja {

inline constexpr int kMaxTreeDepth = 160;

enum class ExprKind : uint8_t {
  Constant, ///< value
  Name,     ///< text
  NsRef,    ///< text.attribute as a target of `set`
  GetAttr,  ///< kids[0].text
  GetItem,  ///< kids[0][kids[1]]
  Slice,    ///< kids[0][kids[1]:kids[2]:kids[3]], each of the three may be null
  Call,     ///< kids[0](arguments)
  Filter,   ///< kids[0]|text(arguments); null in a block
  Test,     ///< kids[0] is text(arguments)
  Not,
  And,
  Or,
  Condition, ///< kids[1] if kids[0] else kids[2], which may be null
  Compare,   ///< kids[0] ops[0] kids[1] ops[1] kids[2] …
  Concat,    ///< kids joined by ~
  Negate,
  Plus,
  Binary, ///< kids[0] text kids[1]
  List,
  Tuple,
  Dict, ///< kids: key, value, key, value, …
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
  ExprKind kind;
  int line;
  int depth = 1;
  std::string text;
  std::string attribute;
  Value value;
  std::vector<ExprPtr> kids;
  std::vector<std::string> ops;
  /// Arguments of a call, filter or test.
  std::vector<ExprPtr> arguments;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
  ExprPtr starArguments, starKeywords;
};

enum class StmtKind : uint8_t {
  Text,        ///< text
  Output,      ///< value
  If,          ///< branches, orElse
  For,         ///< target, value, test, body, orElse
  Set,         ///< target, value
  SetBlock,    ///< target, value (filters, may be null), body
  Macro,       ///< text, parameters, defaults, body
  CallBlock,   ///< parameters, defaults, value (the call), body
  FilterBlock, ///< value (filters), body
  With,        ///< targets, values, body
  Generation,  ///< body
  Break,
  Continue,
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

struct Stmt {
  StmtKind kind;
  int line;
  std::string text;
  ExprPtr target, value, test;
  std::vector<std::pair<ExprPtr, Body>> branches;
  std::vector<ExprPtr> targets, values;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults; ///< of the last parameters
  /// Which of `caller`, `kwargs` and `varargs` the body of a macro reads.
  std::vector<std::string> specials;
  Body body, orElse;

  bool uses(std::string_view special) const {
    for (const std::string &name : specials)
      if (name == special)
        return true;
    return false;
  }
};

Result<Body> parseTemplate(std::string_view text, const std::string &subject);

} // namespace octet::jinja

#endif // OCTET_LIB_TEXT_TEMPLATEPARSER_H
