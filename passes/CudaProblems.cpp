//===- CudaProblems.cpp - Problems of kernel operators --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/CudaProblems.h"
#include "lib/CudaSource/Sm90.h"
#include "lib/HostCode/HostModule.h"
#include "passes/KernelTable.h"
#include "passes/LoadFunction.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace octet;
using host::abiScaleMode;
using host::abiStorage;
using host::abiType;

static int32_t typeOf(Type operand) {
  return abiType(q::getStorage(kernel::getValueType(operand)));
}

cuda::GemmProblem octet::makeProblem(const Product &product, StringRef kernel,
                                     StringRef module, const Target &target) {
  cuda::GemmProblem problem;
  problem.kernel = kernel.str();
  problem.module = module.str();
  problem.n = *q::getSideSize(product.weight, q::Side::Rows);
  problem.k = *q::getSideSize(product.weight, q::Side::Cols);
  problem.shards = {problem.n};
  problem.xType = typeOf(product.input);
  problem.wType = abiStorage(product.weight);
  problem.yType = typeOf(product.result);
  if (product.bias)
    problem.biasType = typeOf(product.bias);
  if (q::TensorType w = product.qWeight) {
    if (!w.getShards().empty())
      problem.shards.assign(w.getShards().begin(), w.getShards().end());
    problem.wScaleMode = host::abiWeightScaleMode(w);
    if (!w.isGguf() && !w.isTiled() && !w.isPacked()) {
      problem.wScaleType = abiType(w.getScaleType());
      problem.blockN = w.getGranularity().getBlockN();
      problem.blockK = w.getGranularity().getBlockK();
    }
  }
  if (q::TensorType x = product.qInput) {
    problem.xScaleMode = abiScaleMode(x.getGranularity());
    problem.columnMajorScales = x.getLayout() == q::Layout::ColumnMajorScales;
  }
  problem.multiprocessors = countMultiprocessors(target.capability);
  return problem;
}

cuda::GemmProblem octet::makeProblem(kernel::GemmOp op, const Target &target) {
  Type input = op.getInput().getType(), weight = op.getWeight().getType();
  Product product{input,
                  weight,
                  op.getOut().getType(),
                  op.getBias() ? op.getBias().getType() : Type(),
                  dyn_cast<q::TensorType>(kernel::getValueType(input)),
                  dyn_cast<q::TensorType>(weight)};
  cuda::GemmProblem problem =
      makeProblem(product, op.getKernel(), op.getModule(), target);
  problem.maxM.assign(op.getMaxM().begin(), op.getMaxM().end());
  problem.variants.clear();
  for (StringAttr name : op.getVariants().getAsRange<StringAttr>())
    problem.variants.push_back(name.str());
  return problem;
}

/// Where the weight that an operator of the load function reads comes from.
static StringRef findPath(Operation *op) {
  while (op && !isa<q::LoadOp>(op))
    op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
  return op ? cast<q::LoadOp>(op).getPath() : StringRef("load");
}

std::optional<cuda::LoadRewrite> octet::findLoadRewrite(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  auto result = op->getNumResults() == 1
                    ? dyn_cast<q::TensorType>(op->getResult(0).getType())
                    : q::TensorType();
  if (!function || function.getSymName() != kLoadFunction || !result ||
      !isa<Float8E4M3FNType>(result.getElementType()) ||
      !result.getScaleType().isF32())
    return std::nullopt;
  cuda::LoadRewrite rewrite;
  rewrite.module = findPath(op).str();
  rewrite.k = result.getK();
  const q::GranularityKind kind = result.getGranularity().getKind();
  const bool isWhole = kind == q::GranularityKind::PerTensor;
  if (rewrite.k <= 0 || rewrite.k > INT32_MAX || result.getN() <= 1)
    return std::nullopt;
  if (auto quantize = dyn_cast<q::QuantizeOp>(op)) {
    auto input = dyn_cast<RankedTensorType>(quantize.getInput().getType());
    if (!input || input.getRank() != 2 || quantize.getScale() ||
        quantize.getUe8m0() || quantize.getBound() ||
        !(isWhole || kind == q::GranularityKind::PerChannel))
      return std::nullopt;
    rewrite.type = abiType(input.getElementType());
    rewrite.perRow = !isWhole;
    return rewrite;
  }
  if (!isa<q::RequantizeOp>(op) || !isWhole)
    return std::nullopt;
  auto input = dyn_cast<q::TensorType>(op->getOperand(0).getType());
  if (!input || input.getElementType() != result.getElementType() ||
      input.getGranularity().getKind() != kind ||
      !input.getScaleType().isF32() || input.getShards().size() < 2)
    return std::nullopt;
  rewrite.type = OCTET_E4M3;
  rewrite.shards.assign(input.getShards().begin(), input.getShards().end());
  return rewrite;
}

std::optional<VariantTable>
octet::chooseFamilyVariants(const cuda::GemmProblem &problem,
                            const Target &target) {
  Result<cuda::KernelLaunch> launch =
      cuda::findGemmFamily(problem.kernel)(problem, target);
  if (!launch)
    return std::nullopt;
  VariantTable table;
  for (const cuda::KernelVariant &variant : launch->variants) {
    table.maxM.push_back(variant.maxRows);
    // "mma.dense m16n32k64s8"
    table.names.push_back(
        StringRef(variant.kernels.front().label).rsplit(' ').second.str());
  }
  return table;
}

VariantTable octet::chooseSm90Variants(const cuda::GemmProblem &problem,
                                       bool batchInvariant) {
  VariantTable table;
  int splits = 1;
  for (const cuda::Sm90Variant &each :
       cuda::chooseSm90Tiles(problem, /*splitsK=*/true))
    splits = std::max(splits, each.tiles.splits);
  if (splits > 1 && batchInvariant)
    table.missed = llvm::formatv(
        "K is not split {0} ways for few rows: the order of a row's sum would "
        "depend on how many there are, which --batch-invariant forbids",
        splits);
  for (const cuda::Sm90Variant &each :
       cuda::chooseSm90Tiles(problem, !batchInvariant)) {
    table.maxM.push_back(each.maxM);
    table.names.push_back(cuda::nameSm90Tiles(problem, each.tiles));
  }
  return table;
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
  });
  if (kernels.empty())
    return success();
  InFlightDiagnostic diag = module.emitError() << "kernels that are not "
                                                  "written yet: ";
  llvm::interleaveComma(kernels, diag, [&](const auto &entry) {
    diag << entry.first << " (" << entry.second << ")";
  });
  return diag << "; --compile-to plan-buffers goes as far as it can [C9]";
}
