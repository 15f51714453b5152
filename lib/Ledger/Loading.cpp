//===- Loading.cpp - The weights of a load function -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Loading.h"

#include "Values.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;

/// What a value is made of, in the order of the function: operators of its
/// block that it depends on.
static void collectSources(Operation *op, llvm::SetVector<Operation *> &all) {
  if (!op || all.contains(op))
    return;
  for (Value operand : op->getOperands())
    if (isa<RankedTensorType, q::TensorType>(operand.getType()))
      collectSources(operand.getDefiningOp(), all);
  all.insert(op);
}

static std::string nameTensor(StringRef path, StringRef name) {
  // `_blocks` belongs to the path's last word (gpt-oss).
  return (path + (name.starts_with("_") ? "" : ".") + name).str();
}

static std::string nameTypes(Type from, Type to) {
  auto name = [](Type type) {
    auto codes = dyn_cast<q::TensorType>(type);
    std::string text = nameElementType(q::getStorage(type));
    if (!codes)
      return text;
    LedgerPart part = makeWeightPart(type, "");
    return text + " with " + part.scales->granularity + " " +
           part.scales->dtype + " scales";
  };
  return name(from) + " to " + name(to);
}

/// A step that changes no number.
static std::optional<LedgerRewrite> makeExact(StringRef rules,
                                              std::string what) {
  LedgerRewrite rewrite;
  for (StringRef rule : llvm::split(rules, ' '))
    rewrite.rules.push_back(rule.str());
  rewrite.what = std::move(what);
  return rewrite;
}

/// One that rounds to the codes of its result.
static std::optional<LedgerRewrite> makeRounding(StringRef rules,
                                                 std::string what, Type type,
                                                 bool powerOfTwo = false) {
  std::optional<LedgerRewrite> rewrite = makeExact(rules, std::move(what));
  auto codes = dyn_cast<q::TensorType>(type);
  rewrite->error = codes ? describeRounding(codes, powerOfTwo)
                         : describeRounding(q::getStorage(type));
  return rewrite;
}

static std::optional<LedgerRewrite> describeRequantize(q::RequantizeOp op) {
  q::TensorType from = op.getInput().getType(), to = op.getResult().getType();
  StringRef rule = q::RequantizeOp::findRule(from, to);
  std::string what = "rounded again: " + nameTypes(from, to);
  if (isa<Float8E4M3FNUZType>(from.getElementType()))
    what += "; only groups that hold +-240, others keep their bits";
  else if (rule == "W11")
    what += "; blocks whose scale is a power of two keep their codes";
  return makeRounding(rule, what, to);
}

/// One step, or nothing for an operator that changes nothing.
static std::optional<LedgerRewrite> describeStep(Operation *op) {
  using Step = std::optional<LedgerRewrite>;
  auto types = [](Operation *op) {
    return nameTypes(op->getOperand(0).getType(), op->getResult(0).getType());
  };
  return llvm::TypeSwitch<Operation *, Step>(op)
      .Case([&](q::LoadOp op) {
        return op.getHeadRows()
                   ? makeExact("W16", "rows of each head reordered")
                   : Step();
      })
      .Case([&](q::PackOp) { return Step(); }) // gives parts one name
      .Case([&](q::CheckScalesOp) { return makeExact("W6", "scales checked"); })
      .Case([&](q::ConvertScalesOp op) {
        return makeExact("W1", "scales widened: " + types(op));
      })
      .Case([&](q::ExpandScalesOp op) {
        return makeExact("W7", "one scale a shard to one a row: " + types(op));
      })
      .Case([&](q::MergeScalesOp op) {
        return makeExact("B6", "equal scales joined: " + types(op));
      })
      .Case([&](q::ShareGlobalOp op) {
        q::TensorType type = op.getInput().getType();
        auto step =
            makeExact("W9", "one scale above the groups of " +
                                std::to_string(type.getShards().size()) +
                                " shards; group scales below another "
                                "are rounded again");
        step->error = describeRounding(type.getScaleType());
        return step;
      })
      .Case([&](q::RepackOp op) {
        return makeExact("B4", "in the kernel's order");
      })
      .Case([&](q::SliceOp op) { return makeExact("W3", "this rank's part"); })
      .Case([&](q::SplitHeadsOp op) {
        return makeExact("W12", "halves of each head's rows");
      })
      .Case([&](q::DequantizeOp op) {
        return makeRounding("W12", "widened: " + types(op),
                            op.getResult().getType());
      })
      .Case([&](q::RequantizeOp op) { return describeRequantize(op); })
      .Case([&](q::QuantizeOp op) {
        return makeRounding("W10", "quantised: " + types(op),
                            op.getResult().getType(), op.getUe8m0());
      })
      .Case([&](q::ConcatOp op) {
        return makeExact("C8 W5b", std::to_string(op.getInputs().size()) +
                                       " matrices joined");
      })
      .Case([&](q::MaxOp op) {
        size_t count = op.getInputs().size();
        return count > 1
                   ? makeExact("W9", "largest of " + std::to_string(count))
                   : Step();
      })
      .Case([&](q::KvScalesOp) {
        return makeExact("P8", "scales of keys and values, 1.0 where none are "
                               "stored");
      })
      .Case([&](model::RopeTableOp) {
        return makeExact("P6 C15", "cosines and sines");
      })
      .Default([&](Operation *op) -> Step {
        return LedgerRewrite{{}, op->getName().getStringRef().str(), {}};
      });
}

/// Same rewrites of several shards are one.
static void addStep(LedgerWeight &weight, std::optional<LedgerRewrite> step) {
  if (!step)
    return;
  for (const LedgerRewrite &other : weight.rewrites)
    if (other.what == step->what && other.rules == step->rules)
      return;
  weight.rewrites.push_back(std::move(*step));
}

static void describeStore(q::StoreOp store, LedgerWeight &weight) {
  llvm::SetVector<Operation *> sources;
  collectSources(store.getValue().getDefiningOp(), sources);
  for (Operation *op : sources) {
    if (auto load = dyn_cast<q::LoadOp>(op)) {
      weight.tensors.push_back(nameTensor(load.getPath(), load.getWeight()));
      if (load.getScale())
        weight.tensors.push_back(nameTensor(load.getPath(), *load.getScale()));
    }
    addStep(weight, describeStep(op));
    for (Operation *user : op->getUsers())
      if (isa<q::CheckScalesOp>(user))
        addStep(weight, describeStep(user));
  }
}

std::vector<LedgerWeight> octet::collectWeights(ModuleOp module) {
  std::vector<LedgerWeight> weights;
  llvm::DenseMap<StringAttr, size_t> bySlot;
  for (auto slot : module.getOps<q::SlotOp>()) {
    bySlot[slot.getSymNameAttr()] = weights.size();
    LedgerWeight weight;
    weight.slot = slot.getSymName().str();
    weight.part = makeWeightPart(slot.getType(), slot.getSymName());
    weight.count = slot.countUsed();
    weights.push_back(std::move(weight));
  }
  llvm::DenseSet<StringAttr> seen;
  module.walk([&](q::StoreOp store) {
    StringAttr name = store.getSlotAttr().getAttr();
    auto found = bySlot.find(name);
    if (found != bySlot.end() && seen.insert(name).second)
      describeStore(store, weights[found->second]);
  });
  return weights;
}
