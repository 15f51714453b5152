//===- InsertQuantization.cpp - Where values are rounded ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on: linears have contracts, and those with a static activation scale
// an `input_scale`; attentions of an FP8 cache have both of its scales
// (materialize-weights).
//
// Holds after: a linear whose contract quantises its activation reads a
// q.quantize of exactly that granularity (P3); linears that read one value
// alike share it. An attention reads a `!q.kv` that a q.kv_write before it has
// written (P7a), in the layout of P7b. Nothing else is rounded.
//
//   %y = model.linear %x, %w input_scale(%s : tensor<f32>) {contract =
//   #q.contract<… activation = per_tensor static>, …} %a = model.attention %q,
//   %k : …, v %v : … of %b[%l] {…}
//
//   %qx = q.quantize %x, %s : tensor<?x256xbf16>, tensor<f32> ->
//   !q.tensor<?x256xf8E4M3FN, per_tensor, f32> %y = model.linear %qx, %w {…} %c
//   = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 64> q.kv_write
//   %k, %v, %c at %slots : … %a = model.attention %q cache(%c : …) of %b[%l]
//   {…}
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/PackedTypes.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/KvLayout.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "llvm/ADT/DenseMap.h"

namespace octet {
#define GEN_PASS_DEF_INSERTQUANTIZATION
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

constexpr llvm::StringLiteral kFlag = "octet-insert-quantization";

/// How a linear's activation is rounded (P3); no granularity: not at all.
struct Rounding {
  q::GranularityAttr granularity;
  bool isStatic = false;
  bool ue8m0 = false;
  FloatAttr bound; ///< of a dynamic scale, or null
};

/// The checkpoint's `scale_fmt: ue8m0` holds on every target (P3, C4).
bool declaresUe8m0(q::ConfigAttr config) {
  auto format =
      config ? config.getFields().getAs<StringAttr>("scale_fmt") : StringAttr();
  return format && format.getValue().equals_insensitive("ue8m0");
}

Rounding decideRounding(q::ContractAttr contract, bool checkpointUe8m0) {
  if (!contract || !contract.quantizesActivation())
    return {};
  Rounding rounding;
  rounding.granularity = contract.getActivation();
  rounding.bound = contract.getBound();
  rounding.isStatic = contract.getIsStatic();
  // Powers of two are for scales that are computed, group by group.
  rounding.ue8m0 = !rounding.isStatic &&
                   (contract.getUe8m0() ||
                    (checkpointUe8m0 && rounding.granularity.isBlock()));
  return rounding;
}

/// What two linears of a block have in common if they share a rounding: value,
/// static scale, ue8m0, bound, and what it makes.
using RoundingKey = std::tuple<Block *, Value, Value, int, Attribute, Type>;

struct InsertQuantization
    : public octet::impl::InsertQuantizationBase<InsertQuantization> {
  using InsertQuantizationBase::InsertQuantizationBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    rounded.clear();
    checkpointUe8m0 =
        declaresUe8m0(module->getAttrOfType<q::ConfigAttr>("q.config"));

    SmallVector<Operation *> products;
    SmallVector<std::pair<model::AttentionOp, KvDecision>> attentions;
    SmallVector<std::pair<model::MlaAttentionOp, KvDecision>> latents;
    SmallVector<model::IndexerOp> indexers;
    SmallVector<model::ExpertsOp> experts;
    bool refused = false;
    module.walk([&](Operation *op) {
      if (isa<model::LinearOp, model::LmHeadOp>(op)) {
        refused |= failed(checkProduct(op));
        products.push_back(op);
      } else if (isa<model::ExpertsOp>(op)) {
        // Dispatched as codes (P13); static scales are each expert's, and its
        // kernel rounds.
        auto each = cast<model::ExpertsOp>(op);
        // Rows that stand by expert stay what they are.
        if (isa<model::DispatchedType>(each.getInput().getType()))
          return;
        if (!decideRounding(getContract(op), checkpointUe8m0).isStatic)
          products.push_back(op);
        experts.push_back(each);
      } else if (auto latent = dyn_cast<model::MlaAttentionOp>(op)) {
        if (latent.getCache())
          return;
        latents.emplace_back(latent, decideKvLayout(op, kvCache));
        refused |= failed(checkCache(op, latents.back().second,
                                     bool(latent.getCacheScale())));
      } else if (auto indexer = dyn_cast<model::IndexerOp>(op)) {
        if (!indexer.getCache())
          indexers.push_back(indexer);
      } else if (auto attention = dyn_cast<model::AttentionOp>(op)) {
        if (attention.getCache())
          return; // has its cache already
        attentions.emplace_back(attention, decideKvLayout(attention, kvCache));
        refused |= failed(checkCache(op, attentions.back().second,
                                     bool(attention.getKScale())));
      }
    });
    if (refused)
      return signalPassFailure();

    for (Operation *op : products)
      roundInput(op);
    for (model::ExpertsOp op : experts)
      dispatchRows(op);
    bool said = false;
    // One flag, one remark: the first attention stands for all.
    auto remark = [&](Operation *op, const KvDecision &decision) {
      if (!decision.remark.empty() && !std::exchange(said, true))
        emitMissed(op, kFlag, "kv-layout",
                   nameModule(op) + ": " + decision.remark);
    };
    for (auto &[op, decision] : attentions) {
      remark(op, decision);
      useCache(op, decision.layout);
    }
    for (auto &[op, decision] : latents) {
      remark(op, decision);
      useLatentCache(op, decision.layout);
    }
    for (model::IndexerOp op : indexers)
      op.getCacheMutable().assign(
          makeCache(op, decideIndexLayout(op), 1, op.getHeadDim(), 0));
  }

private:
  static q::ContractAttr getContract(Operation *op) {
    return op->getAttrOfType<q::ContractAttr>("contract");
  }

  /// The value a product reads may be rounded already (a pass that runs twice).
  static bool isRounded(Operation *op) {
    return isa<q::TensorType>(op->getOperand(0).getType());
  }

  /// The static scale of a product's input, if it has one.
  static MutableOperandRange getInputScale(Operation *op) {
    if (auto linear = dyn_cast<model::LinearOp>(op))
      return linear.getInputScaleMutable();
    return cast<model::LmHeadOp>(op).getInputScaleMutable();
  }

  LogicalResult checkProduct(Operation *op) {
    Rounding rounding = decideRounding(getContract(op), checkpointUe8m0);
    if (!rounding.isStatic || isRounded(op) || !getInputScale(op).empty())
      return success();
    return op->emitError() << nameModule(op)
                           << ": its contract has a static activation scale, "
                              "but it has no input_scale; materialize-weights "
                              "gives it one [P3]";
  }

  LogicalResult checkCache(Operation *op, const KvDecision &decision,
                           bool hasScales) {
    if (!decision.problem.empty())
      return op->emitError() << nameModule(op) << ": " << decision.problem;
    if (decision.layout == q::KvLayout::FP8E4M3 && !hasScales)
      return op->emitError()
             << nameModule(op)
             << ": its cache is fp8_e4m3, but it has no scales of keys and "
                "values; materialize-weights gives it some [P8]";
    return success();
  }

  void roundInput(Operation *op) {
    Rounding rounding = decideRounding(getContract(op), checkpointUe8m0);
    if (!rounding.granularity || isRounded(op))
      return;
    // Codes move to the ranks, not what they are made of (P13).
    OpOperand *place = &op->getOpOperand(0);
    auto gather = place->get().getDefiningOp<model::GatherTokensOp>();
    if (gather)
      place = &gather.getInputMutable();
    Value input = place->get();
    Value scale = rounding.isStatic ? getInputScale(op)[0].get() : Value();
    q::ContractAttr contract = getContract(op);
    // A row's scales move with it (P13).
    if (gather)
      contract = contract.withActivationLayout(q::Layout::Plain);
    q::TensorType result = q::getActivationType(
        contract, cast<RankedTensorType>(input.getType()).getShape());
    Value &value = rounded[RoundingKey(op->getBlock(), input, scale,
                                       rounding.ue8m0, rounding.bound, result)];
    if (value) {
      ++numShared;
    } else {
      OpBuilder builder(place->getOwner());
      value = q::QuantizeOp::create(builder, op->getLoc(), result, input, scale,
                                    rounding.ue8m0, rounding.bound);
      ++numQuantize;
    }
    place->set(value);
    if (gather)
      gather.getResult().setType(value.getType());
    // The scale travels with the codes from here on.
    if (rounding.isStatic)
      getInputScale(op).clear();
  }

  /// The rows of experts are moved to them, as codes where the experts read
  /// codes (P13), and stand by expert (B7).
  void dispatchRows(model::ExpertsOp op) {
    OpBuilder builder(op);
    int64_t choices =
        cast<RankedTensorType>(op.getIds().getType()).getDimSize(1);
    auto type = model::DispatchedType::get(
        &getContext(), op.getInput().getType(), choices, model::Order::Expert);
    Value rows = model::DispatchOp::create(
        builder, op.getLoc(), type, op.getInput(), op.getIds(), op.getExperts(),
        op.getEp(), op.getModule());
    op.getInputMutable().assign(rows);
  }

  /// The cache of one layer, in front of the operator that has it.
  Value makeCache(Operation *op, q::KvLayout layout, int64_t heads, int64_t dim,
                  int64_t rope) {
    OpBuilder builder(op);
    Value layer;
    for (Value operand : op->getOperands())
      if (isa<IndexType>(operand.getType()))
        layer = operand;
    auto type =
        q::KvType::get(&getContext(), layout, kKvPage, heads, dim, rope);
    return q::KvCacheOp::create(builder, op->getLoc(), type, layer);
  }

  /// Latents are written by the attention itself, a vector a token (P7).
  void useLatentCache(model::MlaAttentionOp op, q::KvLayout layout) {
    if (layout != q::KvLayout::FP8E4M3)
      op.getCacheScaleMutable().clear();
    op.getCacheMutable().assign(
        makeCache(op, layout, 1, op.getRank(), op.getRopeDim()));
  }

  /// Writes the step's keys and values to the cache and reads them from there.
  void useCache(model::AttentionOp op, q::KvLayout layout) {
    OpBuilder builder(op);
    Location loc = op.getLoc();
    auto type = q::KvType::get(&getContext(), layout, kKvPage, op.getKvHeads(),
                               op.getHeadDim());
    Value cache = q::KvCacheOp::create(builder, loc, type, op.getLayer());
    auto slotsType = RankedTensorType::get(
        {cast<RankedTensorType>(op.getK().getType()).getDimSize(0)},
        builder.getI32Type());
    Value slots = model::FieldOp::create(builder, loc, slotsType,
                                         model::Field::Slots, op.getBatch());
    // Scales that are loaded for a cache that a test's option makes plain.
    if (layout != q::KvLayout::FP8E4M3) {
      op.getKScaleMutable().clear();
      op.getVScaleMutable().clear();
    }
    q::KvWriteOp::create(builder, loc, op.getK(), op.getV(), cache, slots,
                         op.getKScale(), op.getVScale());
    op.getKMutable().clear();
    op.getVMutable().clear();
    op.getCacheMutable().assign(cache);
  }

  llvm::DenseMap<RoundingKey, Value> rounded;
  bool checkpointUe8m0 = false;
};

} // namespace
