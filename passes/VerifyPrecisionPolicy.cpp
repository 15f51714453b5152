//===- VerifyPrecisionPolicy.cpp - The precision ledger as a check --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on: insert-quantization has written every rounding as an operator.
//
// Holds after: the same IR. Values are rounded to FP8 only where section 5 of
// the specification says so: the input of a quantised linear and an FP8 KV
// cache. Embedding, norms, RoPE, residual sums, attention's operands and the
// trace never read a value that came through FP8; lm_head is quantised only if
// the checkpoint stores it so. What decides (router, indexer) is in high
// precision and the same on all ranks; rows move to experts as their product
// reads them. What is sampled from and compared with a draft is FP32 (P17,
// P18). Each weight is loaded, and once (W6); scales that loading makes are
// those of whole tensors on every rank (W10, N8).
//
//   %h1 = model.add %h, %o : tensor<?x256xbf16>          where %o is
//   %o = q.dequantize %c : … -> tensor<?x256xbf16>       is an error [P2]
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/LoadedScales.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "passes/SlotStores.h"

namespace octet {
#define GEN_PASS_DEF_VERIFYPRECISIONPOLICY
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

/// An operator whose operands stay in the activation dtype, and why.
struct PolicyRule {
  StringRef op;
  StringRef what; ///< the operator in a sentence
  StringRef rule;
};

constexpr PolicyRule kPolicy[] = {
    {"model.embedding", "the embedding is never quantised", "P1"},
    {"model.add", "a residual sum is in the activation dtype", "P2"},
    {"model.rms_norm", "a norm and its weight are never quantised", "P5"},
    {"model.rope", "rotary embedding is in the activation dtype", "P6"},
    {"model.attention", "attention reads q in the activation dtype", "P11"},
    {"model.swiglu", "a gated activation is in the activation dtype", "P2"},
    {"model.split", "the parts of a row stay in its dtype", "P4"},
    {"model.join", "rows that are joined stay in their dtype", "P2"},
    {"model.select_rows", "rows for the logits stay in their dtype", "P16"},
    {"model.layer_norm", "a norm and its weight are never quantised", "P5"},
    {"model.moe_router", "a router decides in high precision", "P12"},
    {"model.indexer", "what chooses keys is rounded by its cache alone", "P9"},
    {"model.mla_attention", "attention reads q in the activation dtype", "P11"},
    {"model.all_reduce", "a sum over ranks is never in FP8", "P15"},
    {"model.scatter_sum", "a sum over ranks is never in FP8", "P15"},
    {"model.own_columns", "columns stay in their dtype", "P4"},
    {"model.place_columns", "columns stay in their dtype", "P4"},
    {"model.all_gather", "logits are gathered as they are", "P16"},
    {"model.trace", "what is traced is in the activation dtype", "P2"},
    {"model.output", "the result is never quantised", "P16"},
};

const PolicyRule *findRule(Operation *op) {
  StringRef name = op->getName().getStringRef();
  for (const PolicyRule &rule : kPolicy)
    if (rule.op == name)
      return &rule;
  return nullptr;
}

bool isFp8(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return isa<q::TensorType>(type) ||
         (tensor && q::isStorageType(tensor.getElementType()) &&
          isa<FloatType>(tensor.getElementType()));
}

/// How an operand came through FP8, or empty: by its type, by a dequantize, or
/// because the slot it reads is filled from codes.
std::string describeFp8(Value value, ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (isFp8(value.getType())) {
    os << "is " << value.getType();
  } else if (auto dequantize = value.getDefiningOp<q::DequantizeOp>()) {
    os << "was rounded to " << dequantize.getInput().getType();
  } else if (auto weight = value.getDefiningOp<q::WeightOp>()) {
    module.walk([&](q::StoreOp store) {
      auto from = store.getValue().getDefiningOp<q::DequantizeOp>();
      if (store.getSlot() != weight.getSlot() || !from || !text.empty())
        return;
      os << "is loaded from " << from.getInput().getType();
    });
  }
  return text;
}

/// Whether a slot's weight is quantised by us while it loads (W10), and so is
/// not the checkpoint's own decision.
bool isQuantizedOnLoad(q::WeightOp weight, ModuleOp module) {
  bool found = false;
  module.walk([&](q::StoreOp store) {
    found |= store.getSlot() == weight.getSlot() &&
             store.getValue().getDefiningOp<q::QuantizeOp>();
  });
  return found;
}

/// One violation: `what` follows the subject.
LogicalResult refuse(Operation *op, const Twine &what) {
  InFlightDiagnostic diag = op->emitError() << nameModule(op) << ": " << what;
  noteOtherLayers(*diag.getUnderlyingDiagnostic(), findLayerOf(op));
  return diag;
}

LogicalResult checkOperands(Operation *op, const PolicyRule &rule,
                            ModuleOp module) {
  for (OpOperand &operand : op->getOpOperands()) {
    // The checkpoint itself packs the table (section 5).
    auto packed = dyn_cast<q::TensorType>(operand.get().getType());
    if (isa<model::EmbeddingOp>(op) && packed && packed.isGguf())
      continue;
    // kv_b_proj is a linear's weight inside its attention (W12).
    if (auto attention = dyn_cast<model::MlaAttentionOp>(op);
        attention && llvm::is_contained(attention.getKvB(), operand.get()))
      continue;
    std::string how = describeFp8(operand.get(), module);
    if (!how.empty())
      return refuse(op, "operand " + Twine(operand.getOperandNumber()) + " " +
                            how + "; " + rule.what + " [" + rule.rule + "]");
  }
  return success();
}

/// A product reads exactly what its contract says (P3, P4, B3).
LogicalResult checkProduct(Operation *op, ModuleOp module) {
  auto contract = op->getAttrOfType<q::ContractAttr>("contract");
  Value input = op->getOperand(0), weight = op->getOperand(1);
  auto codes = dyn_cast<q::TensorType>(input.getType());
  bool wantsCodes = contract && contract.quantizesActivation();
  if (wantsCodes && !codes)
    return refuse(op, "reads " + print(input.getType()) + ", its contract is " +
                          print(contract) +
                          "; the activation has to be quantised before it "
                          "[P3]");
  if (std::string how = describeFp8(input, module); !codes && !how.empty())
    return refuse(op, "its input " + how + ", which no contract asks for [P3]");
  auto quantized = dyn_cast<q::TensorType>(weight.getType());
  if (contract && contract.isQuantized() &&
      (!quantized || !contract.accepts(quantized)))
    return refuse(op, "its weight is " + print(weight.getType()) +
                          ", its contract is " + print(contract) + " [B3]");
  if (quantized && (!contract || !contract.isQuantized()))
    return refuse(op, "its weight is " + print(weight.getType()) +
                          ", but it has no contract for one [B3]");
  if (auto linear = dyn_cast<model::LinearOp>(op); linear && linear.getBias()) {
    std::string how = describeFp8(linear.getBias(), module);
    if (!how.empty())
      return refuse(op, "its bias " + how + "; a bias is added in FP32 [N6]");
  }
  return success();
}

/// The logits are in the activation dtype, unless the checkpoint itself stores
/// a quantised lm_head (P16).
LogicalResult checkLmHead(model::LmHeadOp op, ModuleOp module) {
  if (!isa<q::TensorType>(op.getWeight().getType()))
    return success();
  auto weight = op.getWeight().getDefiningOp<q::WeightOp>();
  bool isStored = op.getMethodAttr() && op.getMethodAttr().isQuantized();
  if (isStored && !(weight && isQuantizedOnLoad(weight, module)))
    return success();
  return refuse(op, "its weight is " + print(op.getWeight().getType()) +
                        ", which the checkpoint does not store; lm_head is "
                        "quantised only if the checkpoint says so [P16]");
}

/// Rows move to experts, and stand there, as the grouped product reads them
/// (P13, B7); its result is in the activation dtype (P14).
LogicalResult checkExperts(model::ExpertsOp op, ModuleOp module) {
  auto dispatched = dyn_cast<model::DispatchedType>(op.getInput().getType());
  if (!dispatched)
    return refuse(op, "operand 0 is in token order, the grouped product reads "
                      "rows sorted by expert; insert-quantization dispatches "
                      "them [B7]");
  q::ContractAttr contract = op.getContractAttr();
  auto codes = dyn_cast<q::TensorType>(dispatched.getRows());
  // Static scales are each expert's, so its kernel rounds (W9).
  bool movesCodes =
      contract && contract.quantizesActivation() && !contract.getIsStatic();
  q::GranularityAttr wanted =
      movesCodes ? contract.getActivation() : q::GranularityAttr();
  if ((codes ? codes.getGranularity() : q::GranularityAttr()) != wanted)
    return refuse(op, "its rows arrive as " + print(dispatched.getRows()) +
                          ", its contract is " +
                          (contract ? print(contract) : "none") +
                          "; rows move as the product reads them [P13]");
  for (Value weight : llvm::concat<Value>(llvm::to_vector(op.getGateUp()),
                                          SmallVector<Value>{op.getDown()})) {
    auto quantized = dyn_cast<q::TensorType>(weight.getType());
    if (quantized && (!contract || !contract.isQuantized()))
      return refuse(op, "its weight is " + print(quantized) +
                            ", but it has no contract for one [B3]");
  }
  model::SettingsAttr settings = model::getSettings(module);
  Type element =
      cast<RankedTensorType>(op.getResult().getType()).getElementType();
  if (settings && element != settings.getDtype())
    return refuse(op, "its result is in " + print(element) +
                          ", the activation dtype is " +
                          print(settings.getDtype()) + " [P14]");
  for (auto [name, value] : {std::pair("routing weights", op.getWeights()),
                             {"gate_up bias", op.getGateUpBias()},
                             {"down bias", op.getDownBias()}}) {
    std::string how = value ? describeFp8(value, module) : "";
    if (!how.empty())
      return refuse(op, Twine("its ") + name + " " + how +
                            "; only rows and matrices of experts are "
                            "quantised [P14]");
  }
  return success();
}

/// What chooses keys: head weights and the norm of keys are not quantised
/// (P9), and all ranks read the choice of one (P10).
LogicalResult checkIndexer(model::IndexerOp op, ModuleOp module) {
  if (!op.getCache())
    return refuse(op, "has no cache, so how its keys are rounded is not "
                      "decided [P9]");
  auto linear = op.getWeights().getDefiningOp<model::LinearOp>();
  std::string how =
      linear ? describeFp8(linear.getWeight(), module) : std::string();
  if (!how.empty())
    return refuse(linear, "its weight " + how +
                              "; the head weights of an indexer are never "
                              "quantised [P9]");
  Value keys = op.getK();
  while (auto rope = keys.getDefiningOp<model::RopeOp>())
    keys = rope.getInput();
  if (auto norm = keys.getDefiningOp<model::LayerNormOp>())
    for (Value value : {norm.getWeight(), norm.getBias()})
      if (how = describeFp8(value, module); !how.empty())
        return refuse(norm, "its weight " + how +
                                "; the norm of an indexer's keys is never "
                                "quantised [P9]");
  model::SettingsAttr settings = model::getSettings(module);
  if (!settings || settings.getTp() == 1 || !settings.getIndexBroadcast())
    return success();
  for (Operation *user : op.getRows().getUsers())
    if (!isa<model::BroadcastOp>(user))
      return refuse(op, "with tp=" + Twine(settings.getTp()) +
                            " each rank reads the keys that it chose itself; "
                            "rank 0's choice is broadcast, or "
                            "--no-index-broadcast [P10]");
  return success();
}

/// Codes go to quantised products only; a value that is rounded and read
/// otherwise loses precision that no rule allows.
LogicalResult checkQuantize(q::QuantizeOp op) {
  for (OpOperand &use : op.getResult().getUses()) {
    Operation *user = use.getOwner();
    if (isa<model::LinearOp, model::LmHeadOp, model::ExpertsOp,
            model::DispatchOp, model::GatherTokensOp>(user) &&
        use.getOperandNumber() == 0)
      continue;
    if (isa<q::DequantizeOp, q::UnpackOp>(user))
      continue; // checked where its result is read
    return refuse(user, "operand " + Twine(use.getOperandNumber()) + " is " +
                            print(op.getResult().getType()) +
                            "; only the input of a quantised linear is "
                            "rounded [P3]");
  }
  return success();
}

/// An attention reads the cache's type; keys and values were not rounded
/// before they were written (P7a).
LogicalResult checkKvWrite(q::KvWriteOp op, ModuleOp module) {
  for (Value value : {op.getK(), op.getV()}) {
    std::string how = describeFp8(value, module);
    if (!how.empty())
      return refuse(op, (value == op.getK() ? "k " : "v ") + how +
                            "; keys and values are rounded once, in the "
                            "cache's layout [P7a]");
  }
  return success();
}

/// Whoever samples divides, cuts and adds in FP32 (P17), and accepts a drafted
/// token by a ratio of two FP32 probabilities (P18): both begin with logits
/// that were not rounded.
LogicalResult checkOutput(model::OutputOp op, ModuleOp module) {
  auto info = module->getAttrOfType<DictionaryAttr>("model.info");
  auto kind = info ? info.getAs<StringAttr>("kind") : StringAttr();
  auto type = cast<RankedTensorType>(op.getInput().getType());
  if (!kind || kind.getValue() != "model" || type.getElementType().isF32())
    return success();
  StringRef function = op->getParentOfType<func::FuncOp>().getSymName();
  bool isDraft = function.starts_with("draft");
  return refuse(op, "@" + Twine(function) + " returns logits in " +
                        print(type.getElementType()) + "; " +
                        (isDraft ? "a draft is accepted by a ratio of FP32 "
                                   "probabilities, expected f32 [P18]"
                                 : "a token is sampled in FP32, expected f32 "
                                   "[P17]"));
}

struct VerifyPrecisionPolicy
    : public octet::impl::VerifyPrecisionPolicyBase<VerifyPrecisionPolicy> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    bool refused = failed(verifySlotStores(module));
    refused |= failed(verifyLoadedScales(module));
    module.walk([&](Operation *op) {
      auto function = op->getParentOfType<func::FuncOp>();
      // Weights are rewritten while they load, by W7 to W12, not by section 5.
      if (!function || function.getSymName() == "load")
        return;
      LogicalResult result = success();
      if (const PolicyRule *rule = findRule(op))
        result = checkAttentionOr(op, *rule, module);
      else if (isa<model::LinearOp>(op))
        result = checkProduct(op, module);
      else if (auto head = dyn_cast<model::LmHeadOp>(op))
        result = success(succeeded(checkLmHead(head, module)) &&
                         succeeded(checkProduct(op, module)));
      else if (auto quantize = dyn_cast<q::QuantizeOp>(op))
        result = checkQuantize(quantize);
      else if (auto write = dyn_cast<q::KvWriteOp>(op))
        result = checkKvWrite(write, module);
      else if (auto experts = dyn_cast<model::ExpertsOp>(op))
        result = checkExperts(experts, module);
      else
        return;
      if (auto output = dyn_cast<model::OutputOp>(op))
        result = success(succeeded(result) &&
                         succeeded(checkOutput(output, module)));
      if (auto indexer = dyn_cast<model::IndexerOp>(op))
        result = success(succeeded(result) &&
                         succeeded(checkIndexer(indexer, module)));
      ++numChecked;
      refused |= failed(result);
    });
    if (refused)
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  /// An attention that still has keys and values has not been given its cache,
  /// so nobody has decided how they are rounded.
  LogicalResult checkAttentionOr(Operation *op, const PolicyRule &rule,
                                 ModuleOp module) {
    if (auto attention = dyn_cast<model::AttentionOp>(op))
      if (!attention.getCache())
        return refuse(op, "reads keys and values without a cache, so their "
                          "layout is not decided [P7b]");
    if (auto latent = dyn_cast<model::MlaAttentionOp>(op))
      if (!latent.getCache())
        return refuse(op, "reads latents without a cache, so their layout is "
                          "not decided [P7b]");
    return checkOperands(op, rule, module);
  }
};

} // namespace
