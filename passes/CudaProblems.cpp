//===- CudaProblems.cpp - Problems of kernel operators --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CudaProblems.h"
#include "lib/HostCode/HostModule.h"
#include "passes/KernelTable.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace octet;
using host::abiScaleMode;
using host::abiStorage;
using host::abiType;

static int32_t typeOf(Type operand) {
  return abiType(q::getStorage(kernel::getValueType(operand)));
}

cuda::GemmProblem octet::makeProblem(kernel::GemmOp op, const Target &target) {
  cuda::GemmProblem problem;
  problem.kernel = op.getKernel().str();
  problem.module = op.getModule().str();
  Type weight = op.getWeight().getType();
  problem.n = *q::getSideSize(weight, q::Side::Rows);
  problem.k = *q::getSideSize(weight, q::Side::Cols);
  problem.shards = {problem.n};
  problem.xType = typeOf(op.getInput().getType());
  problem.wType = abiStorage(weight);
  problem.yType = typeOf(op.getOut().getType());
  if (op.getBias())
    problem.biasType = typeOf(op.getBias().getType());
  if (auto w = dyn_cast<q::TensorType>(weight)) {
    if (!w.getShards().empty())
      problem.shards.assign(w.getShards().begin(), w.getShards().end());
    problem.wScaleMode = host::abiWeightScaleMode(w);
    if (!w.isGguf() && !w.isTiled() && !w.isPacked()) {
      problem.wScaleType = abiType(w.getScaleType());
      problem.blockN = w.getGranularity().getBlockN();
      problem.blockK = w.getGranularity().getBlockK();
    }
  }
  auto x =
      dyn_cast<q::TensorType>(kernel::getValueType(op.getInput().getType()));
  if (x) {
    problem.xScaleMode = abiScaleMode(x.getGranularity());
    problem.columnMajorScales = x.getLayout() == q::Layout::ColumnMajorScales;
  }
  problem.multiprocessors = countMultiprocessors(target.capability);
  problem.maxM.assign(op.getMaxM().begin(), op.getMaxM().end());
  problem.variants.clear();
  for (StringAttr name : op.getVariants().getAsRange<StringAttr>())
    problem.variants.push_back(name.str());
  return problem;
}

cuda::AttentionProblem octet::makeProblem(kernel::AttentionOp op,
                                          const Target &target,
                                          model::SettingsAttr settings) {
  cuda::AttentionProblem problem;
  problem.kernel = op.getKernel().str();
  problem.module = op.getModule().str();
  problem.qHeads = int64_t(op.getQHeads());
  problem.kvHeads = int64_t(op.getKvHeads());
  problem.headDim = int64_t(op.getHeadDim());
  problem.window = int64_t(op.getWindow());
  problem.scale = op.getScale().convertToFloat();
  problem.type = typeOf(op.getQ().getType());
  problem.kvType = abiType(op.getCache().getType().getElementType());
  problem.maxContext = settings.getMaxContext();
  problem.maxSeqs = settings.getMaxSeqs();
  problem.maxStepTokens = settings.getMaxStepTokens();
  problem.multiprocessors = countMultiprocessors(target.capability);
  return problem;
}

LogicalResult octet::refuseUnwritten(ModuleOp module) {
  model::SettingsAttr settings = model::getSettings(module);
  bool lacksRows =
      !OCTET_HAVE_ROW_SOURCE && settings && settings.getTarget() != "cpu";
  llvm::MapVector<StringRef, StringRef> kernels; // and a module of each
  module.walk([&](Operation *op) {
    auto add = [&](auto kernel) {
      if (kernel.getUnwritten())
        kernels.insert({kernel.getKernel(), kernel.getModule()});
    };
    if (auto launch = dyn_cast<kernel::LaunchOp>(op))
      add(launch);
    else if (auto gemm = dyn_cast<kernel::GemmOp>(op))
      add(gemm);
    else if (auto attention = dyn_cast<kernel::AttentionOp>(op))
      add(attention);
    else if (auto rows = dyn_cast<kernel::RowwiseOp>(op); rows && lacksRows)
      kernels.insert({"cuda.rowwise", rows.getLabel()});
  });
  if (kernels.empty())
    return success();
  InFlightDiagnostic diag = module.emitError() << "kernels that are not "
                                                  "written yet: ";
  llvm::interleaveComma(kernels, diag, [&](const auto &entry) {
    diag << entry.first << " (" << entry.second << ")";
  });
  return diag << "; --compile-to plan-buffers goes as far as it can [C11]";
}
