//===- LoadFunction.cpp - Slots and the function that fills them ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LoadFunction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Matchers.h"
#include "passes/ModulePaths.h"

using namespace mlir;
using namespace octet;

//===----------------------------------------------------------------------===//
// What there is to load
//===----------------------------------------------------------------------===//

unsigned LoadFunction::addSlot(std::string base, Type type, Attribute key,
                               Value layer) {
  SmallVector<LayerRun> runs = findLayers(layer);
  std::optional<int64_t> only;
  if (runs.size() == 1 && runs[0].end - runs[0].begin == 1 &&
      matchPattern(layer, m_Constant()))
    only = runs[0].begin;
  for (auto [i, slot] : llvm::enumerate(slots)) {
    if (slot.base != base || slot.type != type || slot.key != key)
      continue;
    slot.indexed |= bool(layer) && slot.onlyLayer != only;
    return i;
  }
  slots.push_back({.base = std::move(base),
                   .type = type,
                   .key = key,
                   .indexed = layer && !only,
                   .onlyLayer = only});
  return slots.size() - 1;
}

void LoadFunction::addStep(Operation *op, LoadStep step) {
  steps[op].push_back(std::move(step));
}

LogicalResult LoadFunction::verify() const {
  for (const auto &[op, list] : steps)
    for (const LoadStep &step : list)
      if (step.layer && findLayers(step.layer).empty())
        return op->emitError()
               << nameModule(op)
               << ": its layer number is neither a constant nor that of a "
                  "loop with constant bounds";
  return success();
}

/// Names that several kinds of layers use for different types get the kind's
/// number.
void LoadFunction::nameSlots() {
  int64_t layers = 1;
  for (const auto &[op, list] : steps)
    for (const LoadStep &step : list)
      if (SmallVector<LayerRun> runs = findLayers(step.layer); !runs.empty())
        layers = std::max(layers, runs.back().end);
  for (const auto &[op, list] : steps)
    for (const LoadStep &step : list)
      for (const LayerRun &run : findLayers(step.layer))
        for (unsigned slot : step.slots)
          for (int64_t layer = run.begin; layer < run.end; ++layer)
            slots[slot].used.insert(layer);
  llvm::StringMap<unsigned> uses, next;
  for (const Slot &slot : slots)
    ++uses[slot.base];
  for (Slot &slot : slots) {
    slot.symbol = slot.base;
    if (uses[slot.base] > 1)
      slot.symbol += ".kind" + std::to_string(next[slot.base]++);
    slot.count = slot.indexed ? layers : 1;
  }
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

Value LoadFunction::readSlot(OpBuilder &builder, Location loc, unsigned slot,
                             Value layer) const {
  return q::WeightOp::create(builder, loc, slots[slot].type, slots[slot].symbol,
                             slots[slot].indexed ? layer : Value());
}

Value LoadFunction::emitConstant(int64_t value) {
  Value &constant = constants[value];
  if (!constant) {
    OpBuilder builder = OpBuilder::atBlockBegin(entry);
    constant = arith::ConstantIndexOp::create(
        builder, entry->getParentOp()->getLoc(), value);
  }
  return constant;
}

Value LoadFunction::emitExpression(OpBuilder &builder, Location loc,
                                   AffineExpr expression) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expression))
    return emitConstant(constant.getValue());
  if (isa<AffineDimExpr>(expression))
    return entry->getArgument(0);
  auto binary = cast<AffineBinaryOpExpr>(expression);
  Value lhs = emitExpression(builder, loc, binary.getLHS());
  Value rhs = emitExpression(builder, loc, binary.getRHS());
  switch (expression.getKind()) {
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::Mod:
    return arith::RemUIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::FloorDiv:
    return arith::DivUIOp::create(builder, loc, lhs, rhs);
  case AffineExprKind::CeilDiv:
    return arith::CeilDivUIOp::create(builder, loc, lhs, rhs);
  default:
    return arith::AddIOp::create(builder, loc, lhs, rhs);
  }
}

void LoadFunction::emitStep(OpBuilder &builder, const LoadStep &step,
                            Value index) {
  auto store = [&](OpBuilder &at, ArrayRef<Value> values, Value expert) {
    for (auto [value, slot] : llvm::zip_equal(values, step.slots))
      q::StoreOp::create(at, step.loc, value, slots[slot].symbol,
                         slots[slot].indexed ? index : Value(), expert);
  };
  if (step.experts == 0)
    return store(builder, step.emit(builder, index), Value());
  Value first;
  if (step.firstExpert)
    first = emitExpression(builder, step.loc, step.firstExpert.getResult(0));
  auto loop = scf::ForOp::create(builder, step.loc, emitConstant(0),
                                 emitConstant(step.experts), emitConstant(1));
  OpBuilder body = OpBuilder::atBlockTerminator(loop.getBody());
  Value expert = loop.getInductionVar(), number = expert;
  if (first)
    number = arith::AddIOp::create(body, step.loc, first, expert);
  store(body, step.emitExpert(body, index, number), expert);
}

/// Each step once for each layer of `layer`: in a loop, unless that is a
/// constant or null. What an earlier use has loaded already is left out.
void LoadFunction::emitSteps(OpBuilder &builder, Location loc,
                             ArrayRef<const LoadStep *> all, Value layer) {
  auto selectNew = [&](const std::string &suffix) {
    SmallVector<const LoadStep *> wanted;
    for (const LoadStep *step : all)
      if (emitted.insert(slots[step->slots[0]].symbol + suffix).second)
        wanted.push_back(step);
    return wanted;
  };
  if (!layer) {
    for (const LoadStep *step : selectNew(""))
      emitStep(builder, *step, Value());
    return;
  }
  bool isConstant = matchPattern(layer, m_Constant());
  for (const LayerRun &run : findLayers(layer)) {
    SmallVector<const LoadStep *> wanted =
        selectNew("[" + std::to_string(run.begin) + "]");
    if (wanted.empty())
      continue;
    Value begin = emitConstant(run.begin);
    if (isConstant) {
      for (const LoadStep *step : wanted)
        emitStep(builder, *step, begin);
      continue;
    }
    auto loop = scf::ForOp::create(builder, loc, begin, emitConstant(run.end),
                                   emitConstant(1));
    OpBuilder body = OpBuilder::atBlockTerminator(loop.getBody());
    for (const LoadStep *step : wanted)
      emitStep(body, *step, loop.getInductionVar());
  }
}

/// The loads of a layer function: one loop for all that its layer number says.
void LoadFunction::emitCall(OpBuilder &builder, func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  if (!callee)
    return;
  llvm::MapVector<Value, SmallVector<const LoadStep *>> byLayer;
  callee.walk([&](Operation *op) {
    auto found = steps.find(op);
    if (found == steps.end())
      return;
    for (const LoadStep &step : found->second) {
      auto argument = dyn_cast_or_null<BlockArgument>(step.layer);
      byLayer[argument ? call.getOperand(argument.getArgNumber()) : step.layer]
          .push_back(&step);
    }
  });
  for (const auto &[layer, list] : byLayer)
    emitSteps(builder, call.getLoc(), list, layer);
}

/// The loads of the step function and of what it calls, in its order.
void LoadFunction::emitRoot(OpBuilder &builder, func::FuncOp root) {
  root.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      return emitCall(builder, call);
    auto found = steps.find(op);
    if (found == steps.end())
      return;
    for (const LoadStep &step : found->second)
      emitSteps(builder, step.loc, &step, step.layer);
  });
}

func::FuncOp LoadFunction::emit(ModuleOp module) {
  nameSlots();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  for (const Slot &slot : slots) {
    DenseI64ArrayAttr used;
    if (slot.indexed && int64_t(slot.used.size()) < slot.count)
      used =
          builder.getDenseI64ArrayAttr(llvm::to_vector_of<int64_t>(slot.used));
    q::SlotOp::create(builder, module.getLoc(), slot.symbol, slot.count, used,
                      slot.type);
  }
  auto load =
      func::FuncOp::create(builder, module.getLoc(), kLoadFunction,
                           builder.getFunctionType(builder.getIndexType(), {}));
  entry = load.addEntryBlock();
  builder.setInsertionPointToStart(entry);
  builder.setInsertionPoint(func::ReturnOp::create(builder, module.getLoc()));
  for (auto function : module.getOps<func::FuncOp>())
    if (function != load && !function.isPrivate())
      emitRoot(builder, function);
  return load;
}
