//===- Compile.h - A checkpoint to an executable ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PIPELINE_COMPILE_H
#define OCTET_PIPELINE_COMPILE_H

#include "octet/Import/Import.h"
#include "octet/Pipeline/Pipelines.h"
#include "octet/Support/Status.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>
#include <vector>

namespace octet {

/// What `octet compile` writes.
enum class EmitKind {
  IR,      ///< MLIR after the last phase that ran, as text
  LLVM,    ///< LLVM IR of the program, optimised, as text
  Object,  ///< the program's relocatable object
  Program, ///< the payload alone, for `octet-run PROGRAM …`
  Exe,     ///< the executable
};

/// The command line of `octet compile`, checked.
struct CompileOptions {
  std::string checkpoint; ///< folder, as the user gave it
  std::string output;     ///< file; "-" or empty: stdout (text kinds only)
  ImportOptions import;
  EmitKind emit = EmitKind::Exe;
  std::string compileTo; ///< name of the last phase; empty: all
  std::string dumpIR;    ///< folder for NN-PHASE.mlir files; empty: none
  PhaseSettings phases;  ///< of emit-kernels
  bool remarks = false;  ///< print what was chosen and what was not
  bool progress = false; ///< one line a phase on stderr
  bool notes = true;     ///< print the importer's notes; warnings always are
  bool quiet = false;    ///< print nothing but the error that is returned
  /// The program traces what each linear reads (octet-trace-inputs).
  bool traceInputs = false;
};

/// What is done with a module after its last phase.
using ModuleUser =
    llvm::function_ref<Status(mlir::ModuleOp, const Checkpoint &)>;

/// Runs the phases up to `options.compileTo` and hands the module to `use`;
/// writes no file but those of `options.dumpIR`. The module lives as long as
/// the call. \returns as compile does, or what `use` returns.
Status runPhases(const CompileOptions &options, ModuleUser use);

/// The targets of `--target`: "sm_89,sm_90a" gives two, by their canonical
/// names; a single one is left as it is, for the importer knows `native` too.
/// \returns a usage error for a name that is none, or that comes twice.
Result<std::vector<std::string>> splitTargets(const std::string &text);

/// Runs the phases, for each target anew, and writes the output, a temporary
/// first and then a rename. Diagnostics of passes go to stderr as they come.
/// \returns the error; ErrorInfo::message is empty if it was printed already.
Status compile(const CompileOptions &options);

} // namespace octet

#endif // OCTET_PIPELINE_COMPILE_H
