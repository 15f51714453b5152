//===- PrintRowSource.cpp - CUDA text of row kernels, for lit -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `-octet-print-row-source=target=sm_90a` prints the `.cu` of each
// `kernel.rowwise` to stdout, after a line that says how it is launched. With
// `dir=DIR` it writes files DIR/ENTRY.cu instead.
//
//===----------------------------------------------------------------------===//

#include "PrintRowSource.h"
#include "lib/CudaSource/RowSource.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace octet;

namespace {
struct PrintRowSource : PassWrapper<PrintRowSource, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrintRowSource)

  PrintRowSource() = default;
  PrintRowSource(const PrintRowSource &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "octet-print-row-source"; }
  StringRef getDescription() const final {
    return "Print the CUDA C++ of row kernels";
  }

  void runOnOperation() override {
    Result<Target> target = parseTarget(targetName, "target");
    if (!target) {
      getOperation()->emitError() << "unknown target " << targetName;
      return signalPassFailure();
    }
    getOperation()->walk([&](kernel::RowwiseOp op) {
      FailureOr<cuda::KernelLaunch> launch =
          cuda::printRowwiseLaunch(op, *target);
      if (failed(launch))
        return signalPassFailure();
      for (const cuda::KernelVariant &variant : launch->variants)
        print(*launch, variant);
    });
  }

  void print(const cuda::KernelLaunch &launch,
             const cuda::KernelVariant &variant) {
    const cuda::KernelInstance &kernel = variant.kernels[0];
    auto describe = [&](llvm::raw_ostream &os) {
      os << "// launch: up to " << variant.maxRows << " rows, "
         << kernel.threads << " threads, grid x " << kernel.grid[0].perRows
         << " rows, y " << kernel.grid[1].fixed << ", " << kernel.sharedBytes
         << " bytes, " << kernel.params.size() << " params"
         << (kernel.overlaps ? ", overlaps" : "") << "; " << launch.bytes
         << " + " << launch.rowBytes << " bytes a row\n";
    };
    if (dir.empty()) {
      describe(llvm::outs());
      llvm::outs() << kernel.source << "\n";
      return;
    }
    std::error_code error;
    SmallString<256> path(dir);
    llvm::sys::path::append(path, kernel.entry + ".cu");
    llvm::raw_fd_ostream file(path, error);
    if (error) {
      getOperation()->emitError() << path << ": " << error.message();
      return signalPassFailure();
    }
    describe(file);
    file << kernel.source;
  }

  Option<std::string> targetName{*this, "target", llvm::cl::init("sm_90a")};
  Option<std::string> dir{*this, "dir"};
};
} // namespace

void octet::registerPrintRowSource() { PassRegistration<PrintRowSource>(); }
