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
//   halves of kv_b_proj         q.dequantize, q.split_heads (W12)
//   cosines and sines           model.rope_table
//
// A tied lm_head names the module of the embedding and so shares its slot
// (W15). Ragged blocks need nothing: shapes follow from the types (W4).
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/KvLayout.h"
#include "passes/LoadFunction.h"
#include "passes/MlaForm.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "passes/WeightPlan.h"

namespace octet {
#define GEN_PASS_DEF_MATERIALIZEWEIGHTS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

/// `layers.self_attn.o_proj` of `model.layers.{l}.self_attn.o_proj`, and
/// `layers.mlp.experts.down_proj` of
/// `model.layers.{l}.mlp.experts.{e}.down_proj`; a bias and the like have their
/// name behind it.
std::string nameSlot(StringRef path, StringRef tensor) {
  path.consume_front("model.");
  std::string name = path.str();
  for (StringRef place : {"{l}.", "{e}."})
    if (size_t at = name.find(place); at != std::string::npos)
      name.erase(at, place.size());
  // Methods have other names for codes. Those of packed experts stand behind
  // the module's name, as in `gate_up_proj_blocks`.
  tensor.consume_front("_");
  bool isWeight = tensor == "weight" || tensor == "qweight" ||
                  tensor == "weight_packed" || tensor == "blocks";
  return isWeight ? name : name + "." + tensor.str();
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
  LogicalResult planWeightOp(model::WeightOp op);
  LogicalResult planInputScale(Operation *op, model::WeightOp weight,
                               q::ContractAttr contract);
  void planRopeTable(model::RopeTableOp op);
  LogicalResult planAbsorbed(model::WeightOp op,
                             model::MlaAttentionOp attention,
                             const WeightPlan &plan);
  LogicalResult planKvScales(Operation *op, Value layer);
  LogicalResult plan();
  void rewriteOps();

  LoadFunction load;
};

//===----------------------------------------------------------------------===//
// Plan: which slots there are and how each is filled. Changes nothing.
//===----------------------------------------------------------------------===//

LogicalResult MaterializeWeights::planWeightOp(model::WeightOp op) {
  q::ContractAttr contract;
  Operation *reader = op;
  for (OpOperand &use : op.getResult().getUses()) {
    if (auto linear = dyn_cast<model::LinearOp>(use.getOwner()))
      if (use.getOperandNumber() ==
          linear.getWeightMutable().getOperandNumber())
        contract = linear.getContractAttr(), reader = linear;
    if (auto head = dyn_cast<model::LmHeadOp>(use.getOwner()))
      contract = head.getContractAttr(), reader = head;
    if (auto experts = dyn_cast<model::ExpertsOp>(use.getOwner());
        experts && op.getExperts())
      contract = experts.getContractAttr(), reader = experts;
    if (auto attention = dyn_cast<model::MlaAttentionOp>(use.getOwner()))
      contract = attention.getContractAttr(), reader = attention;
  }
  WeightPlan plan = planWeight(op, contract);
  if (!plan.problem.empty()) {
    InFlightDiagnostic diag = reader->emitError() << plan.problem;
    noteOtherLayers(*diag.getUnderlyingDiagnostic(), op.getLayer());
    return diag;
  }
  if (auto attention = dyn_cast<model::MlaAttentionOp>(reader);
      attention && getMlaForm(attention) != MlaForm::Explicit)
    return planAbsorbed(op, attention, plan);
  // A fused matrix has the name of its module, any other that of its tensor.
  model::LinearOp linear = getLinear(op);
  bool isFused = op.getPaths().size() > 1;
  std::string path = isFused && linear
                         ? linear.getModule().str()
                         : cast<StringAttr>(op.getPaths()[0]).str();
  if (isFused && isa<model::ExpertsOp>(reader))
    path = (StringRef(path).rsplit('.').first + ".gate_up_proj").str();
  int64_t experts = op.getExperts() ? int64_t(*op.getExperts()) : 0;
  Type type = experts ? q::withExperts(plan.type, experts) : plan.type;
  unsigned slot = load.addSlot(nameSlot(path, op.getName()), type,
                               op.getPathsAttr(), op.getLayer());
  Location loc = op.getLoc();
  if (experts) {
    LoadStep step{loc, op.getLayer(), {slot}, {}};
    step.experts = experts;
    step.firstExpert = op.getFirstExpert().value_or(AffineMap());
    step.emitExpert = [plan, loc](OpBuilder &builder, Value index,
                                  Value expert) {
      return SmallVector<Value>{emitWeight(builder, loc, plan, index, expert)};
    };
    load.addStep(op, std::move(step));
    return reader == op ? success() : planInputScale(reader, op, contract);
  }
  load.addStep(op, {loc,
                    op.getLayer(),
                    {slot},
                    [plan, loc](OpBuilder &builder, Value index) {
                      return SmallVector<Value>{
                          emitWeight(builder, loc, plan, index)};
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
  SmallVector<PartPlan> parts;
  for (auto [path, entry] :
       llvm::zip_equal(weight.getPaths(), weight.getStored())) {
    auto pathAttr = cast<StringAttr>(path);
    auto stored = cast<q::StoredAttr>(entry);
    RankedTensorType type = stored.getTensor("input_scale");
    StringAttr divisor;
    if (RankedTensorType other =
            type ? RankedTensorType() : stored.getTensor(kInputDivisor)) {
      type = other;
      divisor = StringAttr::get(&getContext(), kInputDivisor);
    }
    std::string problem = describeInputScale(type, parts);
    if (!problem.empty()) {
      InFlightDiagnostic diag =
          op->emitError() << nameModule(pathAttr.getValue(), weight.getLayer())
                          << ": " << problem;
      noteOtherLayers(*diag.getUnderlyingDiagnostic(), weight.getLayer());
      return diag;
    }
    parts.push_back({pathAttr, divisor, type});
  }
  Type type = RankedTensorType::get({}, Float32Type::get(&getContext()));
  auto module = op->getAttrOfType<StringAttr>("module").getValue();
  Location loc = op->getLoc();
  if (auto experts = dyn_cast<model::ExpertsOp>(op)) {
    // One a matrix of each expert, never over experts (W9).
    bool isDown = weight.getResult() == experts.getDown();
    int64_t count = *weight.getExperts();
    LoadStep step{loc,
                  weight.getLayer(),
                  {load.addSlot(nameSlot(module, isDown ? "down_input_scale"
                                                        : "input_scale"),
                                q::withExperts(type, count),
                                weight.getPathsAttr(), weight.getLayer())},
                  {}};
    step.experts = count;
    step.firstExpert = weight.getFirstExpert().value_or(AffineMap());
    step.emitExpert = [parts, loc](OpBuilder &builder, Value index,
                                   Value expert) {
      return SmallVector<Value>{
          emitInputScale(builder, loc, parts, index, expert)};
    };
    // Gate and up come before down.
    load.addStep(op, std::move(step));
    return success();
  }
  unsigned slot = load.addSlot(nameSlot(module, "input_scale"), type,
                               weight.getPathsAttr(), weight.getLayer());
  load.addStep(op, {loc,
                    weight.getLayer(),
                    {slot},
                    [parts, loc](OpBuilder &builder, Value index) {
                      return SmallVector<Value>{
                          emitInputScale(builder, loc, parts, index)};
                    }});
  return success();
}

/// kv_b_proj becomes w_kc and w_vc; where both forms are wanted it stays, too
/// (W12).
LogicalResult MaterializeWeights::planAbsorbed(model::WeightOp op,
                                               model::MlaAttentionOp attention,
                                               const WeightPlan &plan) {
  StringRef path = cast<StringAttr>(op.getPaths()[0]);
  auto add = [&](StringRef name, Type type) {
    return load.addSlot(nameSlot(path, name), type, op.getPathsAttr(),
                        op.getLayer());
  };
  bool keepsWhole = getMlaForm(attention) == MlaForm::Both;
  SmallVector<unsigned, 2> slots;
  if (keepsWhole)
    slots.push_back(add("weight", plan.type));
  AbsorbedTypes types = getAbsorbedTypes(attention, plan.type);
  slots.push_back(add("w_kc", types.keys));
  slots.push_back(add("w_vc", types.values));
  Location loc = op.getLoc();
  load.addStep(
      op, {loc, op.getLayer(), slots,
           [plan, loc, types, keepsWhole](OpBuilder &builder, Value index) {
             Value whole = emitWeight(builder, loc, plan, index);
             SmallVector<Value> values = emitAbsorbed(
                 builder, loc, types, whole, getRankArgument(builder));
             if (keepsWhole)
               values.insert(values.begin(), whole);
             return values;
           }});
  if (keepsWhole)
    return planInputScale(attention, op, attention.getContractAttr());
  return success();
}

void MaterializeWeights::planRopeTable(model::RopeTableOp op) {
  unsigned slot = load.addSlot("rope_table", op.getType(),
                               op->getAttrDictionary(), Value());
  load.addStep(op,
               {op.getLoc(), Value(), {slot}, [op](OpBuilder &builder, Value) {
                  Operation *copy = builder.clone(*op);
                  return SmallVector<Value>{copy->getResult(0)};
                }});
}

/// The cache of an attention, and the scales of one, exist already.
static bool hasKvDecision(Operation *op) {
  if (auto attention = dyn_cast<model::AttentionOp>(op))
    return attention.getCache() || attention.getKScale();
  auto latent = cast<model::MlaAttentionOp>(op);
  return latent.getCache() || latent.getCacheScale();
}

LogicalResult MaterializeWeights::planKvScales(Operation *op, Value layer) {
  if (hasKvDecision(op))
    return success();
  KvDecision decision = decideKvLayout(op);
  if (!decision.problem.empty())
    return op->emitError() << nameModule(op) << ": " << decision.problem;
  if (decision.layout != q::KvLayout::FP8E4M3)
    return success();
  q::StoredAttr stored = getStoredKv(op);
  std::string problem = describeKvScales(stored);
  if (!problem.empty())
    return op->emitError() << nameModule(op) << ": " << problem;
  Type type = RankedTensorType::get({}, Float32Type::get(&getContext()));
  Location loc = op->getLoc();
  auto path = op->getAttrOfType<StringAttr>("module");
  auto add = [&](StringRef name) {
    return load.addSlot(nameSlot(path, name), type, path, layer);
  };
  // A latent is key and value at once, and has one scale (P7).
  bool isLatent = isa<model::MlaAttentionOp>(op);
  SmallVector<unsigned, 2> slots = {add("k_scale")};
  if (!isLatent)
    slots.push_back(add("v_scale"));
  // A path without {l} takes no index (--extract names its layer with one).
  bool layered = path.getValue().contains("{l}");
  load.addStep(op, {loc, layer, slots, [=](OpBuilder &builder, Value index) {
                      SmallVector<Value> scales =
                          emitKvScales(builder, loc, path, stored,
                                       layered ? index : Value());
                      if (isLatent)
                        scales.pop_back();
                      return scales;
                    }});
  return success();
}

LogicalResult MaterializeWeights::plan() {
  bool failedAny = false;
  getOperation().walk([&](Operation *op) {
    if (auto weight = dyn_cast<model::WeightOp>(op)) {
      failedAny |= failed(planWeightOp(weight));
    } else if (auto table = dyn_cast<model::RopeTableOp>(op)) {
      if (op->getParentOfType<func::FuncOp>().getSymName() != kLoadFunction)
        planRopeTable(table);
    } else if (auto attention = dyn_cast<model::AttentionOp>(op)) {
      failedAny |= failed(planKvScales(op, attention.getLayer()));
    } else if (auto latent = dyn_cast<model::MlaAttentionOp>(op)) {
      failedAny |= failed(planKvScales(op, latent.getLayer()));
    }
  });
  if (failedAny)
    return failure();
  return load.verify();
}

//===----------------------------------------------------------------------===//
// Rewrite
//===----------------------------------------------------------------------===//

void MaterializeWeights::rewriteOps() {
  for (const auto &[op, list] : load.getSteps()) {
    OpBuilder builder(op);
    const LoadStep &step = list.front();
    auto read = [&](unsigned i) {
      return load.readSlot(builder, op->getLoc(), step.slots[i], step.layer);
    };
    if (auto linear = dyn_cast<model::LinearOp>(op)) {
      linear.getInputScaleMutable().assign(read(0));
    } else if (auto head = dyn_cast<model::LmHeadOp>(op)) {
      head.getInputScaleMutable().assign(read(0));
    } else if (auto latent = dyn_cast<model::MlaAttentionOp>(op)) {
      for (const LoadStep &each : list) {
        Value scale =
            load.readSlot(builder, op->getLoc(), each.slots[0], each.layer);
        bool isCache = load.getBase(each.slots[0]).ends_with(".k_scale");
        (isCache ? latent.getCacheScaleMutable()
                 : latent.getInputScaleMutable())
            .assign(scale);
      }
    } else if (auto experts = dyn_cast<model::ExpertsOp>(op)) {
      for (const LoadStep &each : list) {
        Value scale =
            load.readSlot(builder, op->getLoc(), each.slots[0], each.layer);
        bool isDown = load.getBase(each.slots[0]).ends_with("down_input_scale");
        (isDown ? experts.getDownInputScaleMutable()
                : experts.getInputScaleMutable())
            .assign(scale);
      }
    } else if (auto attention = dyn_cast<model::AttentionOp>(op)) {
      attention.getKScaleMutable().assign(read(0));
      attention.getVScaleMutable().assign(read(1));
    } else if (step.slots.size() > 1) {
      SmallVector<Value> matrices;
      for (unsigned i = 0; i < step.slots.size(); ++i)
        matrices.push_back(read(i));
      useMatrices(cast<model::MlaAttentionOp>(*op->user_begin()), matrices);
    } else {
      op->getResult(0).replaceAllUsesWith(read(0));
    }
  }
  for (const auto &[op, list] : load.getSteps())
    if (isa<model::WeightOp, model::RopeTableOp>(op))
      op->erase();
}

void MaterializeWeights::runOnOperation() {
  ModuleOp module = getOperation();
  load = LoadFunction();

  // A weight that nobody reads is not loaded, and one that is read twice may be
  // wanted in two types: one reader each.
  module.walk([](model::WeightOp op) {
    if (op->use_empty())
      return op->erase();
    for (OpOperand &use : llvm::make_early_inc_range(
             llvm::drop_begin(op.getResult().getUses()))) {
      OpBuilder builder(op);
      use.set(builder.clone(*op)->getResult(0));
    }
  });
  if (failed(plan()))
    return signalPassFailure();
  if (load.getSteps().empty())
    return markAllAnalysesPreserved();
  if (module.lookupSymbol(kLoadFunction)) {
    module.emitError() << "there is a load function already, but weights are "
                          "still named by their modules";
    return signalPassFailure();
  }
  load.emit(module).walk([&](q::LoadOp) { ++numLoads; });
  numSlots += load.getNumSlots();
  rewriteOps();
}

} // namespace
