//===- Pipelines.h - The phases in order ------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PIPELINE_PIPELINES_H
#define OCTET_PIPELINE_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include <optional>
#include <string>

namespace octet {

/// What phases are told that is not in the IR.
struct PhaseSettings {
  std::string dumpCuda;  ///< folder for the kernels' sources; empty: none
  std::string nvrtc;     ///< libnvrtc; empty: where it is found
  unsigned jobs = 0;     ///< threads that compile kernels; 0: one a processor
  bool progress = false; ///< how many kernels are compiled, on stderr
};

/// One line of Phases.def.
struct Phase {
  llvm::StringRef name;    ///< as in --compile-to and in the dump's file name
  llvm::StringRef summary; ///< one sentence for --help
  /// Makes the phase's pass; null for `import`, which is no pass.
  std::unique_ptr<mlir::Pass> (*create)();
};

/// All phases that exist, in order; the first is `import`.
llvm::ArrayRef<Phase> getPhases();

/// The index of the phase of that name.
std::optional<unsigned> findPhase(llvm::StringRef name);

/// Adds the passes of the phases `first` .. `last`, both included.
void buildPhases(mlir::OpPassManager &manager, unsigned first, unsigned last,
                 const PhaseSettings &settings = {});

/// Registers `octet-to-kernels` and `octet-to-host` for octet-opt. Each takes
/// `from=PHASE`, so that it continues any file of --dump-ir.
void registerPipelines();

} // namespace octet

#endif // OCTET_PIPELINE_PIPELINES_H
