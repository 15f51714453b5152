//===- Diagnostics.cpp - Errors of passes as a user reads them ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Diagnostics/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Remarks.h"
#include "octet/Support/ConfigSubject.h"
#include "octet/Support/Escape.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace octet;

//===----------------------------------------------------------------------===//
// Subjects
//===----------------------------------------------------------------------===//

std::string octet::getModulePath(Location loc) {
  std::string path;
  loc->walk([&](Location inner) {
    auto name = dyn_cast<NameLoc>(inner);
    if (!name)
      return WalkResult::advance();
    path = escapePath(name.getName().getValue());
    return WalkResult::interrupt();
  });
  return path;
}

/// `FILE:LINE:COLUMN` of a location without a module path, or nothing.
static std::string getFilePosition(Location loc) {
  auto file = loc->findInstanceOf<FileLineColLoc>();
  if (!file)
    return "";
  return escapePath(file.getFilename().getValue()) + ':' +
         std::to_string(file.getLine()) + ':' +
         std::to_string(file.getColumn());
}

/// The text says what it is about: `--target sm_80: …`, `a.b.q_proj: …`, but
/// not `'q.load' op result is …: …`.
static bool hasSubject(StringRef text) {
  size_t colon = text.find(": ");
  if (colon == StringRef::npos || colon == 0)
    return false;
  StringRef subject = text.take_front(colon);
  return subject.starts_with("--") ||
         subject.find_first_of(" \t\n'") == StringRef::npos;
}

static std::string addSubject(StringRef text, Location loc) {
  if (hasSubject(text))
    return text.str();
  std::string subject = getModulePath(loc);
  if (subject.empty())
    subject = getFilePosition(loc);
  return subject.empty() ? text.str() : subject + ": " + text.str();
}

//===----------------------------------------------------------------------===//
// Status to diagnostic
//===----------------------------------------------------------------------===//

LogicalResult octet::emitStatus(Location loc, const Status &status) {
  if (status.ok())
    return success();
  const ErrorInfo &info = status.info();
  InFlightDiagnostic diag = emitError(loc);
  if (!info.subject.empty())
    diag << info.subject << ": ";
  diag << info.message;
  if (!info.rule.empty())
    diag << " [" << info.rule << "]";
  for (const std::string &note : info.notes)
    diag.attachNote() << note;
  return diag;
}

LogicalResult octet::emitStatus(Operation *op, const Status &status) {
  return emitStatus(op->getLoc(), status);
}

//===----------------------------------------------------------------------===//
// Diagnostic to text
//===----------------------------------------------------------------------===//

static StringRef getSeverityName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Remark:
    return "remark";
  case DiagnosticSeverity::Note:
    return "note";
  }
  llvm_unreachable("all severities are above");
}

/// The `[RULE]` at the end of a text, or nothing.
static StringRef getRule(StringRef text) {
  size_t open = text.rfind('[');
  if (!text.ends_with("]") || open == StringRef::npos)
    return "";
  StringRef rule = text.drop_front(open);
  return llvm::isUpper(rule[1]) ? rule : ""; // not `[1, 2]`
}

/// Subject and message of a text that addSubject made.
static std::pair<StringRef, StringRef> splitSubject(StringRef text) {
  if (!hasSubject(text))
    return {"", text};
  return text.split(": ");
}

/// What the instances of one mistake have in common: the text without its
/// subject, numbers and quoted names.
static std::string getKind(StringRef text) {
  std::string kind;
  bool quoted = false;
  for (char c : splitSubject(text).second) {
    // The apostrophe of "layer's" opens nothing.
    if (c == '\'' && (quoted || kind.empty() || !llvm::isAlnum(kind.back())))
      quoted = !quoted;
    else if (quoted)
      continue;
    if (!llvm::isDigit(c))
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  }
  return kind;
}

DiagnosticPrinter::DiagnosticPrinter(MLIRContext *context, raw_ostream &os,
                                     std::string checkpoint)
    : ScopedDiagnosticHandler(context), context(context), os(os),
      checkpoint(std::move(checkpoint)),
      printedOps(context->shouldPrintOpOnDiagnostic()) {
  // A user has no use for the text of an operator, which may be the program.
  context->printOpOnDiagnostic(false);
  setHandler([this](Diagnostic &diagnostic) {
    print(diagnostic);
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() {
  finish();
  context->printOpOnDiagnostic(printedOps);
}

void DiagnosticPrinter::print(Diagnostic &diagnostic) {
  StringRef severity = getSeverityName(diagnostic.getSeverity());
  std::string text = placeConfig(
      addSubject(diagnostic.str(), diagnostic.getLocation()), checkpoint);
  StringRef rule = getRule(text);
  std::string lines = (severity + ": " + text + "\n").str();
  // Two blanks, so that the notes' text lines up with the error's.
  for (Diagnostic &note : diagnostic.getNotes())
    lines += "note:  " + note.str() + "\n";

  if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    ++numErrors;
    std::string kind = rule.empty() ? "" : getKind(text) + rule.str();
    auto group = llvm::find_if(groups, [&](const Group &each) {
      return !kind.empty() && each.kind == kind;
    });
    if (group == groups.end())
      groups.push_back({kind, splitSubject(text).second.str(), lines, 0});
    else
      addInstance(*group, text);
    return;
  }
  if (!printed.insert(lines).second)
    return;
  if (diagnostic.getSeverity() == DiagnosticSeverity::Warning &&
      !rule.empty() && ++warnings[rule.str()] > kMaxOfOneRule)
    return;
  os << lines;
  os.flush();
}

void DiagnosticPrinter::addInstance(Group &group, StringRef text) {
  if (++group.further > kMaxOfOneRule)
    return;
  auto [subject, message] = splitSubject(text);
  group.lines += "note:  ";
  if (message == group.message)
    group.lines += (subject + ": the same").str();
  else
    group.lines += text;
  group.lines += '\n';
}

void DiagnosticPrinter::finish() {
  for (const auto &[rule, count] : warnings)
    if (count > kMaxOfOneRule)
      os << "warning: and " << count - kMaxOfOneRule << " more " << rule
         << '\n';
  for (const Group &group : groups) {
    os << group.lines;
    if (group.further > kMaxOfOneRule)
      os << "note:  and " << group.further - kMaxOfOneRule << " more\n";
  }
  os.flush();
  warnings.clear();
  groups.clear();
}

//===----------------------------------------------------------------------===//
// Remarks
//===----------------------------------------------------------------------===//

namespace {
class RemarkPrinter : public remark::detail::MLIRRemarkStreamerBase {
public:
  explicit RemarkPrinter(raw_ostream &os) : os(os) {}

  void streamOptimizationRemark(const remark::detail::Remark &remark) override {
    std::string text;
    // What was streamed as text is one sentence in pieces; the rest is named.
    for (const remark::detail::Remark::Arg &arg : remark.getArgs())
      text += arg.key == "Remark" ? arg.val : ", " + arg.key + " " + arg.val;
    os << "remark: " << addSubject(text, remark.getLocation()) << '\n';
    os.flush();
  }

private:
  raw_ostream &os;
};
} // namespace

LogicalResult octet::printRemarks(MLIRContext &context, raw_ostream &os) {
  return remark::enableOptimizationRemarks(
      context, std::make_unique<RemarkPrinter>(os),
      std::make_unique<remark::RemarkEmittingPolicyAll>(),
      // `all` only widens kinds that are named.
      remark::RemarkCategories{{}, ".*", ".*", ".*", ".*"},
      /*printAsEmitRemarks=*/false);
}
