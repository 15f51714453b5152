//===- octet-opt.cpp - Every pass and dialect, for lit --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads IR, runs passes or a named pipeline, writes IR. It accepts each file of
// `octet compile --dump-ir` and has all of MLIR's flags.
//
//===----------------------------------------------------------------------===//

#include "PrintRowSource.h"
#include "dialects/AllDialects.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/Passes.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#ifdef OCTET_HAVE_PASSES
#include "passes/Passes.h"
#endif
#ifdef OCTET_HAVE_PIPELINES
#include "octet/Pipeline/Pipelines.h"
#endif

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  octet::registerAllDialects(registry);

  mlir::registerTransformsPasses();
  mlir::registerConversionPasses();
  mlir::registerSCFPasses();
  mlir::arith::registerArithPasses();
  mlir::memref::registerMemRefPasses();
  mlir::LLVM::registerLLVMPasses();
  octet::registerPrintRowSource();
#ifdef OCTET_HAVE_PASSES
  octet::registerPasses();
#endif
#ifdef OCTET_HAVE_PIPELINES
  octet::registerPipelines();
#endif
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Octet's optimizer driver\n", registry));
}
