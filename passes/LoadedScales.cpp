//===- LoadedScales.cpp - Scales that loading makes -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LoadedScales.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/LoadFunction.h"
#include "passes/ModulePaths.h"

using namespace mlir;
using namespace octet;

/// A slice leaves values of a scale's group to other ranks.
static bool cutsScale(q::SliceAttr slice, q::GranularityAttr granularity) {
  switch (granularity.getKind()) {
  case q::GranularityKind::PerTensor:
    return slice.getSide() != q::Side::Experts;
  case q::GranularityKind::PerChannel:
  case q::GranularityKind::PerToken:
    return slice.getSide() == q::Side::Cols;
  case q::GranularityKind::Block:
  case q::GranularityKind::Group:
    return slice.getFit() == q::Fit::Padded;
  }
  llvm_unreachable("all kinds are above");
}

/// The slice behind a value that cuts its scales, through what keeps columns
/// and rows as they are.
static q::SliceOp findCut(Value value, q::GranularityAttr granularity) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {};
  if (auto slice = dyn_cast<q::SliceOp>(op);
      slice && cutsScale(slice.getSlice(), granularity))
    return slice;
  if (!isa<q::SliceOp, q::ConcatOp, q::ConvertScalesOp, q::RequantizeOp,
           q::DequantizeOp>(op))
    return {};
  for (Value operand : op->getOperands())
    if (q::SliceOp cut = findCut(operand, granularity))
      return cut;
  return {};
}

/// The weight that a slice is of.
static std::string nameLoaded(q::SliceOp slice) {
  Value value = slice.getInput();
  while (Operation *op = value.getDefiningOp()) {
    if (auto load = dyn_cast<q::LoadOp>(op))
      return nameModule(load.getPath(), load.getIndex());
    if (op->getNumOperands() == 0)
      break;
    value = op->getOperand(0);
  }
  return "a weight";
}

/// The rule by which an operator makes scales of the values that it reads;
/// empty if it makes none.
static StringRef findScaleRule(Operation *op) {
  if (auto quantize = dyn_cast<q::QuantizeOp>(op))
    return quantize.getScale() ? "" : "W10";
  if (auto requantize = dyn_cast<q::RequantizeOp>(op)) {
    StringRef rule = q::RequantizeOp::findRule(requantize.getInput().getType(),
                                               requantize.getType());
    return rule == "W8" ? "" : rule; // of scales that are stored
  }
  return "";
}

LogicalResult octet::verifyLoadedScales(ModuleOp module) {
  auto load = module.lookupSymbol<func::FuncOp>(kLoadFunction);
  if (!load || load.isExternal())
    return success();
  bool refused = false;
  load.walk([&](Operation *op) {
    StringRef rule = findScaleRule(op);
    if (rule.empty())
      return;
    auto type = cast<q::TensorType>(op->getResult(0).getType());
    q::SliceOp cut = findCut(op->getOperand(0), type.getGranularity());
    if (!cut)
      return;
    op->emitError() << nameLoaded(cut) << ": scales of " << type
                    << " are made of " << cut.getType()
                    << ", one rank's part of what they describe; expected them "
                       "of the whole tensor, which is cut after it ["
                    << rule << "]";
    refused = true;
  });
  return failure(refused);
}
