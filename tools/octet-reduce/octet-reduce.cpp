//===- octet-reduce.cpp - A small IR that still fails ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's test-case reducer over Octet's dialects and passes:
//
//   octet-reduce big.mlir -reduction-tree='traversal-mode=0 test=./fails.sh'
//
// The script gets a file and ends with 1 if it still fails. MLIR 22.1's tree
// reduces whole functions; where it must keep one operator of a function and
// drop another it crashes (mlir-reduce does too), and a pass helps:
// -opt-reduction-pass='opt-pass=canonicalize test=./fails.sh'.
//
//===----------------------------------------------------------------------===//

#include "dialects/AllDialects.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "mlir/Transforms/Passes.h"
#ifdef OCTET_HAVE_PASSES
#include "passes/Passes.h"
#endif

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  octet::registerAllDialects(registry);
  mlir::registerTransformsPasses();
#ifdef OCTET_HAVE_PASSES
  octet::registerPasses();
#endif
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
