//===- LowerToHost.cpp - Native code that calls the runtime ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on plan-buffers: every operator of the step writes a place, functions
// pass only indices and the batch. After it the module holds the LLVM dialect
// alone and defines `octet_program` (runtime/abi.h). The parts are in
// lib/HostCode:
//
//   kernel.rowwise "rms_norm" tokens of %b ins(…) outs(…) {…}
//     ──► llvm.func @row.rms_norm.v3 and .v4, and a call of parallel_for
//   kernel.gemm "cpu.gemm" %x, %w into %p : … of %b tokens {…}
//     ──► a constant octet_gemm_desc, and a call of gemm
//   the same of a CUDA target, with the `launch` of emit-kernels
//     ──► a constant octet_launch, and a call of launch with device addresses
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelOps.h"
#include "dialects/Model/ModelOps.h"
#include "lib/HostCode/HostLowering.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "passes/CudaProblems.h"
#include "passes/Passes.h"

namespace octet {
#define GEN_PASS_DEF_LOWERTOHOST
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

struct LowerToHost : octet::impl::LowerToHostBase<LowerToHost> {
  void runOnOperation() override;

private:
  LogicalResult lowerToMixed(ModuleOp module);
  LogicalResult convertToLLVM(ModuleOp module);
};

} // namespace

/// load, step and the row functions, in several dialects.
LogicalResult LowerToHost::lowerToMixed(ModuleOp module) {
  auto arena = module->getAttrOfType<IntegerAttr>("kernel.arena_bytes");
  if (!arena)
    return module.emitError()
           << "the module has no kernel.arena_bytes; octet-plan-buffers "
              "writes it";
  host::HostModule host(module);
  host::DeviceCode device(host);
  FailureOr<std::vector<host::TensorRow>> tensors =
      host::lowerLoad(host, device);
  if (failed(tensors))
    return failure();
  FailureOr<std::string> info = host::makeInfo(module, *tensors);
  if (failed(info))
    return failure();
  FailureOr<int64_t> rowFunctions = host::lowerStep(host, device);
  if (failed(rowFunctions))
    return failure();
  numRowFunctions += *rowFunctions;
  if (failed(host::addProgram(host, device, *info, arena.getInt())))
    return failure();

  // What is left says things that no longer are.
  for (auto binary :
       llvm::make_early_inc_range(module.getOps<kernel::BinaryOp>()))
    binary.erase();
  for (auto slot : llvm::make_early_inc_range(module.getOps<q::SlotOp>()))
    slot.erase();
  SmallVector<StringAttr> stale;
  for (NamedAttribute attribute : module->getDiscardableAttrs())
    if (attribute.getName().strref().starts_with("model.") ||
        attribute.getName().strref().starts_with("kernel.") ||
        attribute.getName().strref().starts_with("q."))
      stale.push_back(attribute.getName());
  for (StringAttr name : stale)
    module->removeDiscardableAttr(name);
  return success();
}

LogicalResult LowerToHost::convertToLLVM(ModuleOp module) {
  MLIRContext *context = &getContext();
  {
    ConversionTarget target(*context);
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    target.addIllegalDialect<scf::SCFDialect>();
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      return failure();
  }
  LLVMTypeConverter converter(context);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  return applyFullConversion(module, target, std::move(patterns));
}

/// Ranks that would have to talk to each other (W3c).
static LogicalResult refuseRanks(ModuleOp module) {
  model::SettingsAttr settings = model::getSettings(module);
  if (!settings)
    return success();
  for (auto [flag, value] :
       {std::pair("tp", settings.getTp()), std::pair("ep", settings.getEp()),
        std::pair("dp", settings.getDp())})
    if (value != 1)
      return module.emitError()
             << "--" << flag << " " << value
             << ": programs of several ranks do not run yet; " << flag
             << "=1 does, and --compile-to plan-buffers goes as far as it can "
                "[W3c]";
  return success();
}

/// What no batch of the runtime holds yet (W14).
static LogicalResult refuseDrafts(ModuleOp module) {
  WalkResult walked = module.walk([](model::FieldOp op) {
    if (op.getField() != model::Field::DraftIds &&
        op.getField() != model::Field::DraftHidden)
      return WalkResult::advance();
    op.emitError() << "--mtp: the runtime has no "
                   << model::stringifyField(op.getField())
                   << " yet; --compile-to plan-buffers goes as far as it can "
                      "[W14]";
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

void LowerToHost::runOnOperation() {
  ModuleOp module = getOperation();
  model::SettingsAttr settings = model::getSettings(module);
  bool isCpu = !settings || settings.getTarget() == "cpu";
  if ((isCpu && failed(refuseRanks(module))) ||
      failed(refuseUnwritten(module)) || failed(refuseDrafts(module)))
    return signalPassFailure();
  if (failed(lowerToMixed(module)) || failed(convertToLLVM(module)))
    signalPassFailure();
}
