//===- ModulePaths.cpp - Layers and module paths of operators -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ModulePaths.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace octet;

/// Nesting of calls that is followed; the pipeline makes one level.
static constexpr unsigned kMaxCallDepth = 8;

static std::optional<int64_t> getConstant(Value value) {
  IntegerAttr attr;
  if (!value || !matchPattern(value, m_Constant(&attr)))
    return std::nullopt;
  return attr.getInt();
}

static void collectLayers(Value layer, unsigned depth,
                          SmallVectorImpl<LayerRun> &runs) {
  if (std::optional<int64_t> number = getConstant(layer)) {
    runs.push_back({*number, *number + 1});
    return;
  }
  auto argument = dyn_cast<BlockArgument>(layer);
  if (!argument || depth == kMaxCallDepth)
    return;
  Operation *owner = argument.getOwner()->getParentOp();
  if (auto loop = dyn_cast<scf::ForOp>(owner)) {
    std::optional<int64_t> begin = getConstant(loop.getLowerBound());
    std::optional<int64_t> end = getConstant(loop.getUpperBound());
    std::optional<int64_t> step = getConstant(loop.getStep());
    bool isLayer = argument == loop.getInductionVar();
    if (isLayer && begin && end && step == 1 && *begin < *end)
      runs.push_back({*begin, *end});
    return;
  }
  auto function = dyn_cast<func::FuncOp>(owner);
  auto module = owner->getParentOfType<ModuleOp>();
  if (!function || !module)
    return;
  module.walk([&](func::CallOp call) {
    if (call.getCallee() == function.getSymName() &&
        argument.getArgNumber() < call.getNumOperands())
      collectLayers(call.getOperand(argument.getArgNumber()), depth + 1, runs);
  });
}

SmallVector<LayerRun> octet::findLayers(Value layer) {
  SmallVector<LayerRun> found, joined;
  if (!layer)
    return joined;
  collectLayers(layer, /*depth=*/0, found);
  llvm::sort(found, [](const LayerRun &a, const LayerRun &b) {
    return a.begin < b.begin;
  });
  for (const LayerRun &run : found) {
    if (!joined.empty() && run.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, run.end);
    else
      joined.push_back(run);
  }
  return joined;
}

std::string octet::nameModule(StringRef path, Value layer) {
  SmallVector<LayerRun> runs = findLayers(layer);
  size_t at = path.find("{l}");
  if (runs.empty() || at == StringRef::npos)
    return path.str();
  return (path.take_front(at) + Twine(runs.front().begin) +
          path.drop_front(at + 3))
      .str();
}

Value octet::findLayerOf(Operation *op) {
  if (auto attention = dyn_cast<model::AttentionOp>(op))
    return attention.getLayer();
  if (auto latent = dyn_cast<model::MlaAttentionOp>(op))
    return latent.getLayer();
  if (auto weight = dyn_cast<model::WeightOp>(op))
    return weight.getLayer();
  if (auto weight = dyn_cast<q::WeightOp>(op))
    return weight.getIndex();
  for (Value operand : op->getOperands())
    if (Operation *def = operand.getDefiningOp())
      if (isa<model::WeightOp, q::WeightOp>(def))
        if (Value layer = findLayerOf(def))
          return layer;
  // An operator without weights of its own (rope, swiglu): the function's.
  auto function = op->getParentOfType<func::FuncOp>();
  if (function && !function.empty() && function.getNumArguments() &&
      function.getArgument(0).getType().isIndex())
    return function.getArgument(0);
  return {};
}

std::string octet::nameModule(Operation *op) {
  if (auto weight = dyn_cast<model::WeightOp>(op))
    return nameModule(cast<StringAttr>(weight.getPaths()[0]).getValue(),
                      weight.getLayer());
  // A write to a cache is part of the attention that reads it.
  if (auto write = dyn_cast<q::KvWriteOp>(op))
    for (Operation *user : write.getCache().getUsers())
      if (isa<model::AttentionOp>(user))
        return nameModule(user);
  auto path = op->getAttrOfType<StringAttr>("module");
  if (!path)
    return op->getName().getStringRef().str();
  return nameModule(path.getValue(), findLayerOf(op));
}

void octet::noteOtherLayers(Diagnostic &diag, Value layer) {
  SmallVector<LayerRun> runs = findLayers(layer);
  if (runs.empty())
    return;
  ++runs.front().begin;
  SmallVector<std::string> names;
  for (const LayerRun &run : runs) {
    if (run.begin == run.end)
      continue;
    std::string name = std::to_string(run.begin);
    if (run.end - run.begin > 1)
      name += " to " + std::to_string(run.end - 1);
    names.push_back(std::move(name));
  }
  if (!names.empty())
    diag.attachNote() << "the same in layer"
                      << (names.size() == 1 &&
                                  !StringRef(names[0]).contains(' ')
                              ? " "
                              : "s ")
                      << joinNames(names);
}

StringRef octet::lastComponent(StringRef path) {
  return path.substr(path.rfind('.') + 1);
}

std::string octet::joinNames(ArrayRef<std::string> names) {
  std::string text;
  for (auto [i, name] : llvm::enumerate(names)) {
    if (i)
      text += i + 1 == names.size() ? " and " : ", ";
    text += name;
  }
  return text;
}

template <typename T>
static std::string printValue(T value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << value;
  return text;
}

std::string octet::print(Type type) { return printValue(type); }
std::string octet::print(Attribute attr) { return printValue(attr); }

void octet::emitMissed(Operation *op, StringRef flag, StringRef name,
                       const std::string &text) {
  remark::missed(op->getLoc(), remark::RemarkOpts::name(name).category(flag))
      << remark::add("{0}", text);
}
