//===- MaterializeWeights.cpp - The load function and its slots -----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on: every weight is a model.weight that lists the modules whose
// tensors it holds and what the checkpoint stores for each; linears have their
// contract; the layer number of a layer function comes from a loop with
// constant bounds.
//
// Holds after: there is no model.weight and no model.rope_table. The step reads
// slots (q.weight), whose types are the contracts'; `@load` fills each
// instance of each slot once, in the order of the step's first use:
//
//   stored codes, scales        q.load, q.check_scales (W6)
//   scales of another dtype     q.convert_scales
//   a plain weight, FP8 wanted  q.quantize (W10)
//   shards of a fused matrix    q.concat (C8, W5b)
//   one scale a shard           q.expand_scales (W7)
//   static activation scales    q.max of the shards' (W9)
//   scales of an FP8 KV cache   q.kv_scales (P8)
//   cosines and sines           model.rope_table
//
// A tied lm_head names the module of the embedding and so shares its slot
// (W15). Ragged blocks need nothing: shapes follow from the types (W4).
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "passes/KvLayout.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "passes/WeightPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace octet {
#define GEN_PASS_DEF_MATERIALIZEWEIGHTS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

constexpr llvm::StringLiteral kLoad = "load";

/// A slot to be declared. Kinds of layers whose tensors have the same type
/// share one; `key` tells apart what only has the same name.
struct Slot {
  std::string base;
  Type type;
  Attribute key;
  /// Instances are told apart by the layer number; not if all are of one layer
  /// (--extract), which is `onlyLayer`.
  bool indexed = false;
  std::optional<int64_t> onlyLayer;
  std::string symbol = {};
  int64_t count = 1;
};

/// What one operator of the step asks the load function to do: `emit` makes
/// the values of `slots`, one each, for the layer `index` (null: none).
struct LoadStep {
  Location loc;
  Value layer;
  SmallVector<unsigned, 2> slots;
  std::function<SmallVector<Value>(OpBuilder &, Value index)> emit;
};

/// `layers.self_attn.o_proj` of `model.layers.{l}.self_attn.o_proj`; a bias
/// and the like have their name behind it.
std::string nameSlot(StringRef path, StringRef tensor) {
  path.consume_front("model.");
  std::string name = path.str();
  if (size_t at = name.find("{l}."); at != std::string::npos)
    name.erase(at, 4);
  return tensor == "weight" ? name : name + "." + tensor.str();
}

/// The linear that reads a weight or bias, if a linear does.
model::LinearOp getLinear(model::WeightOp weight) {
  return weight->use_empty() ? model::LinearOp()
                             : dyn_cast<model::LinearOp>(*weight->user_begin());
}

struct MaterializeWeights
    : public octet::impl::MaterializeWeightsBase<MaterializeWeights> {
  void runOnOperation() override;

private:
  // Plan.
  unsigned addSlot(std::string base, Type type, Attribute key, Value layer);
  LogicalResult planWeightOp(model::WeightOp op);
  LogicalResult planInputScale(Operation *op, model::WeightOp weight,
                               q::ContractAttr contract);
  void planRopeTable(model::RopeTableOp op);
  LogicalResult planKvScales(model::AttentionOp op);
  LogicalResult plan();
  void nameSlots();

  // Rewrite.
  Value readSlot(OpBuilder &builder, Location loc, unsigned slot, Value layer);
  Value emitConstant(int64_t value);
  void emitStep(OpBuilder &builder, const LoadStep &step, Value index);
  void emitSteps(OpBuilder &builder, Location loc,
                 ArrayRef<const LoadStep *> all, Value layer);
  void emitRoot(OpBuilder &builder, func::FuncOp root);
  void emitCall(OpBuilder &builder, func::CallOp call);
  void emitSlots();
  void rewriteOps();

  SmallVector<Slot> slots;
  llvm::MapVector<Operation *, SmallVector<LoadStep, 2>> steps;
  llvm::StringSet<> emitted;
  llvm::DenseMap<int64_t, Value> constants;
  Block *loadEntry = nullptr;
};

//===----------------------------------------------------------------------===//
// Plan: which slots there are and how each is filled. Changes nothing.
//===----------------------------------------------------------------------===//

unsigned MaterializeWeights::addSlot(std::string base, Type type,
                                     Attribute key, Value layer) {
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

LogicalResult MaterializeWeights::planWeightOp(model::WeightOp op) {
  q::ContractAttr contract;
  Operation *reader = op;
  for (OpOperand &use : op.getResult().getUses()) {
    if (auto linear = dyn_cast<model::LinearOp>(use.getOwner()))
      if (use.getOperandNumber() == linear.getWeightMutable().getOperandNumber())
        contract = linear.getContractAttr(), reader = linear;
    if (auto head = dyn_cast<model::LmHeadOp>(use.getOwner()))
      contract = head.getContractAttr(), reader = head;
  }
  WeightPlan plan = planWeight(op, contract);
  if (!plan.problem.empty()) {
    InFlightDiagnostic diag = reader->emitError() << plan.problem;
    noteOtherLayers(*diag.getUnderlyingDiagnostic(), op.getLayer());
    return diag;
  }
  // A fused matrix has the name of its module, any other that of its tensor.
  model::LinearOp linear = getLinear(op);
  bool isFused = op.getPaths().size() > 1 && linear;
  StringRef path = isFused ? linear.getModule()
                           : cast<StringAttr>(op.getPaths()[0]).getValue();
  unsigned slot = addSlot(nameSlot(path, op.getName()), plan.type,
                          op.getPathsAttr(), op.getLayer());
  Location loc = op.getLoc();
  steps[op].push_back(
      {loc, op.getLayer(), {slot}, [plan, loc](OpBuilder &builder, Value index) {
         return SmallVector<Value>{emitWeight(builder, loc, plan, index)};
       }});
  if (reader != op)
    return planInputScale(reader, op, contract);
  return success();
}

LogicalResult MaterializeWeights::planInputScale(Operation *op,
                                                 model::WeightOp weight,
                                                 q::ContractAttr contract) {
  if (!contract || !contract.quantizesActivation() || !contract.getIsStatic())
    return success();
  auto linear = dyn_cast<model::LinearOp>(op);
  if (!linear)
    return op->emitError() << nameModule(op)
                           << ": has a static activation scale, which only the "
                              "linears of a layer may have; "
                              "--activation-quant off leaves activations as "
                              "they are [P16]";
  SmallVector<PartPlan> parts;
  for (auto [path, entry] : llvm::zip_equal(weight.getPaths(), weight.getStored())) {
    auto pathAttr = cast<StringAttr>(path);
    RankedTensorType type =
        cast<q::StoredAttr>(entry).getTensor("input_scale");
    std::string problem = describeInputScale(type, parts);
    if (!problem.empty()) {
      InFlightDiagnostic diag =
          op->emitError() << nameModule(pathAttr.getValue(), weight.getLayer())
                          << ": " << problem;
      noteOtherLayers(*diag.getUnderlyingDiagnostic(), weight.getLayer());
      return diag;
    }
    parts.push_back({pathAttr, StringAttr(), type});
  }
  Type type = RankedTensorType::get({}, Float32Type::get(&getContext()));
  unsigned slot = addSlot(nameSlot(linear.getModule(), "input_scale"), type,
                          weight.getPathsAttr(), weight.getLayer());
  Location loc = op->getLoc();
  steps[op].push_back(
      {loc, weight.getLayer(), {slot},
       [parts, loc](OpBuilder &builder, Value index) {
         return SmallVector<Value>{emitInputScale(builder, loc, parts, index)};
       }});
  return success();
}

void MaterializeWeights::planRopeTable(model::RopeTableOp op) {
  unsigned slot = addSlot("rope_table", op.getType(),
                          op->getAttrDictionary(), Value());
  steps[op].push_back(
      {op.getLoc(), Value(), {slot}, [op](OpBuilder &builder, Value) {
         Operation *copy = builder.clone(*op);
         return SmallVector<Value>{copy->getResult(0)};
       }});
}

LogicalResult MaterializeWeights::planKvScales(model::AttentionOp op) {
  if (op.getCache() || op.getKScale())
    return success();
  KvDecision decision = decideKvLayout(op);
  if (!decision.problem.empty())
    return op.emitError() << nameModule(op) << ": " << decision.problem;
  if (decision.layout != q::KvLayout::FP8E4M3)
    return success();
  std::string problem = describeKvScales(op.getKvAttr());
  if (!problem.empty())
    return op.emitError() << nameModule(op) << ": " << problem;
  Type type = RankedTensorType::get({}, Float32Type::get(&getContext()));
  auto add = [&](StringRef name) {
    return addSlot(nameSlot(op.getModule(), name), type, op.getModuleAttr(),
                   op.getLayer());
  };
  Location loc = op.getLoc();
  StringAttr path = op.getModuleAttr();
  q::StoredAttr stored = op.getKvAttr();
  // A path without {l} takes no index (--extract names its layer with one).
  bool layered = path.getValue().contains("{l}");
  steps[op].push_back(
      {loc, op.getLayer(), {add("k_scale"), add("v_scale")},
       [=](OpBuilder &builder, Value index) {
         return emitKvScales(builder, loc, path, stored,
                             layered ? index : Value());
       }});
  return success();
}

LogicalResult MaterializeWeights::plan() {
  bool failedAny = false;
  getOperation().walk([&](Operation *op) {
    if (auto weight = dyn_cast<model::WeightOp>(op)) {
      if (!weight.use_empty())
        failedAny |= failed(planWeightOp(weight));
    } else if (auto table = dyn_cast<model::RopeTableOp>(op)) {
      if (op->getParentOfType<func::FuncOp>().getSymName() != kLoad)
        planRopeTable(table);
    } else if (auto attention = dyn_cast<model::AttentionOp>(op)) {
      failedAny |= failed(planKvScales(attention));
    }
  });
  for (const auto &[op, list] : steps)
    for (const LoadStep &step : list)
      if (step.layer && findLayers(step.layer).empty()) {
        op->emitError() << nameModule(op)
                        << ": its layer number is neither a constant nor that "
                           "of a loop with constant bounds";
        return failure();
      }
  return failure(failedAny);
}

/// Names that several kinds of layers use for different types get the kind's
/// number.
void MaterializeWeights::nameSlots() {
  int64_t layers = 1;
  for (const auto &[op, list] : steps)
    for (const LoadStep &step : list)
      if (SmallVector<LayerRun> runs = findLayers(step.layer); !runs.empty())
        layers = std::max(layers, runs.back().end);
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
// Rewrite
//===----------------------------------------------------------------------===//

Value MaterializeWeights::readSlot(OpBuilder &builder, Location loc,
                                   unsigned slot, Value layer) {
  return q::WeightOp::create(builder, loc, slots[slot].type,
                             slots[slot].symbol,
                             slots[slot].indexed ? layer : Value());
}

Value MaterializeWeights::emitConstant(int64_t value) {
  Value &constant = constants[value];
  if (!constant) {
    OpBuilder builder = OpBuilder::atBlockBegin(loadEntry);
    constant = arith::ConstantIndexOp::create(
        builder, loadEntry->getParentOp()->getLoc(), value);
  }
  return constant;
}

void MaterializeWeights::emitStep(OpBuilder &builder, const LoadStep &step,
                                  Value index) {
  SmallVector<Value> values = step.emit(builder, index);
  for (auto [value, slot] : llvm::zip_equal(values, step.slots))
    q::StoreOp::create(builder, step.loc, value, slots[slot].symbol,
                       slots[slot].indexed ? index : Value());
}

/// Each step once for each layer of `layer`: in a loop, unless that is a
/// constant or null. What an earlier use has loaded already is left out.
void MaterializeWeights::emitSteps(OpBuilder &builder, Location loc,
                                   ArrayRef<const LoadStep *> all,
                                   Value layer) {
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
void MaterializeWeights::emitCall(OpBuilder &builder, func::CallOp call) {
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
void MaterializeWeights::emitRoot(OpBuilder &builder, func::FuncOp root) {
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

void MaterializeWeights::emitSlots() {
  ModuleOp module = getOperation();
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  for (const Slot &slot : slots)
    q::SlotOp::create(builder, module.getLoc(), slot.symbol, slot.count,
                      slot.type);
  numSlots += slots.size();
}

void MaterializeWeights::rewriteOps() {
  for (auto &[op, list] : steps) {
    OpBuilder builder(op);
    const LoadStep &step = list.front();
    auto read = [&](unsigned i) {
      return readSlot(builder, op->getLoc(), step.slots[i], step.layer);
    };
    if (auto linear = dyn_cast<model::LinearOp>(op)) {
      linear.getInputScaleMutable().assign(read(0));
    } else if (auto attention = dyn_cast<model::AttentionOp>(op)) {
      attention.getKScaleMutable().assign(read(0));
      attention.getVScaleMutable().assign(read(1));
    } else {
      op->getResult(0).replaceAllUsesWith(read(0));
    }
  }
  for (auto &[op, list] : steps)
    if (isa<model::WeightOp, model::RopeTableOp>(op))
      op->erase();
}

void MaterializeWeights::runOnOperation() {
  ModuleOp module = getOperation();
  slots.clear();
  steps.clear();
  emitted.clear();
  constants.clear();

  // A weight that is read twice may be wanted in two types: one reader each.
  module.walk([](model::WeightOp op) {
    for (OpOperand &use : llvm::make_early_inc_range(
             llvm::drop_begin(op.getResult().getUses()))) {
      OpBuilder builder(op);
      use.set(builder.clone(*op)->getResult(0));
    }
  });
  if (failed(plan()))
    return signalPassFailure();
  if (steps.empty())
    return markAllAnalysesPreserved();
  if (module.lookupSymbol(kLoad)) {
    module.emitError() << "there is a load function already, but weights are "
                          "still named by their modules";
    return signalPassFailure();
  }
  nameSlots();

  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto load = func::FuncOp::create(
      builder, module.getLoc(), kLoad,
      builder.getFunctionType(builder.getIndexType(), {}));
  loadEntry = load.addEntryBlock();
  builder.setInsertionPointToStart(loadEntry);
  func::ReturnOp::create(builder, module.getLoc());
  builder.setInsertionPoint(loadEntry->getTerminator());
  for (auto function : module.getOps<func::FuncOp>())
    if (function != load && !function.isPrivate())
      emitRoot(builder, function);
  load.walk([&](q::LoadOp) { ++numLoads; });
  emitSlots();
  rewriteOps();
}

} // namespace
