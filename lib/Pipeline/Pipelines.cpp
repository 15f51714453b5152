//===- Pipelines.cpp - The phases in order --------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Pipeline/Pipelines.h"

#include "mlir/Pass/PassRegistry.h"
#include "passes/Passes.h"

using namespace mlir;

namespace octet {

llvm::ArrayRef<Phase> getPhases() {
  static const Phase phases[] = {
      {"import", "Read config and headers into the model dialect", nullptr},
#define OCTET_PHASE(name, pass, summary)                                       \
  {name, summary,                                                              \
   []() -> std::unique_ptr<mlir::Pass> { return create##pass(); }},
#include "Phases.def"
  };
  return phases;
}

std::optional<unsigned> findPhase(llvm::StringRef name) {
  for (auto [i, phase] : llvm::enumerate(getPhases()))
    if (phase.name == name)
      return i;
  return std::nullopt;
}

void buildPhases(OpPassManager &manager, unsigned first, unsigned last,
                 const PhaseSettings &settings) {
  EmitKernelsOptions kernels;
  kernels.dumpCuda = settings.dumpCuda;
  kernels.nvrtc = settings.nvrtc;
  kernels.jobs = settings.jobs;
  kernels.progress = settings.progress;
  for (unsigned i = first; i <= last; ++i)
    if (getPhases()[i].name == "emit-kernels")
      manager.addPass(createEmitKernels(kernels));
    else if (getPhases()[i].create)
      manager.addPass(getPhases()[i].create());
}

namespace {
struct PhaseOptions : PassPipelineOptions<PhaseOptions> {
  Option<std::string> from{
      *this, "from",
      llvm::cl::desc("The phase after which the input was printed; the "
                     "pipeline starts with the next one"),
      llvm::cl::init("import")};
};
} // namespace

static void registerPipelineTo(llvm::StringRef name, llvm::StringRef last) {
  PassPipelineRegistration<PhaseOptions>(
      name, ("All phases from after `from` through " + last).str(),
      [last](OpPassManager &manager, const PhaseOptions &options) {
        std::optional<unsigned> from = findPhase(options.from);
        if (!from)
          llvm::report_fatal_error(
              llvm::Twine("option 'from': no phase is called '") +
                  options.from + "'",
              /*gen_crash_diag=*/false);
        buildPhases(manager, *from + 1, *findPhase(last));
      });
}

void registerPipelines() {
  registerPipelineTo("octet-to-kernels", "select-kernels");
  registerPipelineTo("octet-to-host", "lower-to-host");
}

} // namespace octet
