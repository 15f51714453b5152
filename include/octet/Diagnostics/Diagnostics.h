//===- Diagnostics.h - Errors of passes as a user reads them ----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Imported operators carry a fused location of module path (a NameLoc) and
// file. MLIR's printer shows the file only; the `octet` driver shows the path:
//
//   error: model.layers.0.mlp.down_proj: no 'weight_scale_inv' … [W6]
//   note:  model.safetensors: has …
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIAGNOSTICS_DIAGNOSTICS_H
#define OCTET_DIAGNOSTICS_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "octet/Support/Status.h"
#include <map>
#include <set>
#include <string>
#include <vector>

namespace octet {

/// The module path that a location names: the first NameLoc of it, escaped.
/// Empty if it names none.
std::string getModulePath(mlir::Location loc);

/// Emits an error of code without IR as a diagnostic, notes included. Its text
/// has the status's own subject; without one the location's path is shown.
/// \returns failure, or success if there is no error.
mlir::LogicalResult emitStatus(mlir::Location loc, const Status &status);
mlir::LogicalResult emitStatus(mlir::Operation *op, const Status &status);

/// Prints the diagnostics of a context in the form of STYLE section 7 while it
/// lives. A text whose part before the first `: ` is one word or an option has
/// its subject; any other gets the module path of its location.
///
/// Errors of one rule that differ in subject, numbers and quoted names only are
/// one error, with a note for each of the next ten and how many more there
/// were; so they wait for the end. Of warnings of one rule the first ten are
/// printed. A text is printed once, however often it is emitted.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  /// \param checkpoint  its folder or file, for subjects such as `config.json`
  ///                    (placeConfig).
  DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &os,
                    std::string checkpoint = "");
  ~DiagnosticPrinter();

  /// Prints what was held back. The destructor does it too.
  void finish();

  /// Errors so far, printed or held back.
  unsigned getNumErrors() const { return numErrors; }

  /// How many of one kind are printed.
  static constexpr unsigned kMaxOfOneRule = 10;

private:
  /// Errors of one kind.
  struct Group {
    std::string kind;    ///< empty: has no rule, and stands alone
    std::string message; ///< of the first, without its subject
    std::string lines;
    unsigned further = 0; ///< instances after the first
  };

  void print(mlir::Diagnostic &diagnostic);
  static void addInstance(Group &group, llvm::StringRef text);

  mlir::MLIRContext *context;
  llvm::raw_ostream &os;
  const std::string checkpoint;
  bool printedOps;
  unsigned numErrors = 0;
  /// Warnings by rule: `[W6]` to how many there were.
  std::map<std::string, unsigned> warnings;
  std::set<std::string> printed; ///< warnings and remarks
  std::vector<Group> groups;     ///< errors, in the order of their first
};

/// Lets the context's passes emit remarks, all kinds, and prints each as
/// `remark: MODULE: text [RULE]`.
mlir::LogicalResult printRemarks(mlir::MLIRContext &context,
                                 llvm::raw_ostream &os);

} // namespace octet

#endif // OCTET_DIAGNOSTICS_DIAGNOSTICS_H
