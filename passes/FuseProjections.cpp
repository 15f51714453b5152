//===- FuseProjections.cpp - Join projections of the same input -----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on: resolve-quant-methods has given each model.linear its method and
// contract, and shards name the fused module they belong to (`fused`).
//
// Holds after: the shards of a fused module that read one input are one
// model.linear over one model.weight that lists their paths in order, with
// their widths in its type (W5b), then a model.split. A fused per-tensor
// weight has one scale a shard, so its contract asks for one a channel (B3).
// Shards that may not be fused are as before.
//
//   %q = model.linear %x, %wq {fused = "a.qkv_proj", module = "a.q_proj", …}
//   %k = model.linear %x, %wk {fused = "a.qkv_proj", module = "a.k_proj", …}
//
//   %w = model.weight ["a.q_proj", "a.k_proj"] "weight" stored [#q.stored<…>,
//   #q.stored<…>]
//        : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32, shards = [256,
//        128]>
//   %y = model.linear %x, %w {module = "a.qkv_proj", …}
//   %q, %k = model.split %y
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"

namespace octet {
#define GEN_PASS_DEF_FUSEPROJECTIONS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

constexpr llvm::StringLiteral kFlag = "octet-fuse-projections";

using Shards = SmallVector<model::LinearOp, 4>;

enum class Fusion { Fuse, KeepApart, Refuse };

/// What happens to the shards of a fused module; `why` has the form of a
/// diagnostic without its subject.
struct FusionDecision {
  Fusion kind = Fusion::Fuse;
  std::string why;
};

/// Shards that do not agree are refused because of `rule`, or stay apart with
/// --unfuse-mixed (C8).
FusionDecision refuseUnless(bool unfuseMixed, std::string why, StringRef rule) {
  if (unfuseMixed)
    return {Fusion::KeepApart, why + "; --unfuse-mixed keeps them apart [C8]"};
  return {Fusion::Refuse, why + "; " + rule.str() + " [C8]"};
}

bool isQuantized(model::LinearOp op) {
  return op.getMethodAttr() && op.getMethodAttr().isQuantized();
}

model::WeightOp getWeightOp(Value value) {
  return value ? value.getDefiningOp<model::WeightOp>() : model::WeightOp();
}

/// What the checkpoint says of a shard's weight.
q::StoredAttr getStored(model::LinearOp op) {
  model::WeightOp weight = getWeightOp(op.getWeight());
  return weight && !weight.getStored().empty()
             ? cast<q::StoredAttr>(weight.getStored()[0])
             : q::StoredAttr();
}

bool isIgnored(model::LinearOp op) {
  q::StoredAttr stored = getStored(op);
  return stored && stored.isIgnored();
}

/// Why shards of which some are quantised do not agree (C8).
std::string describeMixed(const Shards &shards) {
  std::vector<ShardVote> votes;
  for (model::LinearOp op : shards) {
    q::StoredAttr stored = getStored(op);
    votes.push_back({lastComponent(op.getModule()).str(), isQuantized(op),
                     stored ? stored.getDeclared().str() : std::string()});
  }
  return describeMixedShards(votes);
}

/// Why two shards that are both quantised do not agree.
std::string describeMethods(model::LinearOp a, model::LinearOp b) {
  auto say = [](model::LinearOp op) {
    return (lastComponent(op.getModule()) + " is " + print(op.getMethodAttr()))
        .str();
  };
  return say(a) + " but " + say(b);
}

/// Whether the shards' data can stand in one matrix; empty if so.
std::string findStructuralDifference(const Shards &shards) {
  model::LinearOp first = shards.front();
  auto name = [](model::LinearOp op) {
    return lastComponent(op.getModule()).str();
  };
  auto elementType = [](Value value) { return q::getStorage(value.getType()); };
  auto scaleType = [](Value value) {
    auto type = dyn_cast<q::TensorType>(value.getType());
    return type ? type.getScaleType() : Type();
  };
  for (model::LinearOp op : shards) {
    model::WeightOp weight = getWeightOp(op.getWeight());
    model::WeightOp firstWeight = getWeightOp(first.getWeight());
    if (!weight || !firstWeight || (op.getBias() && !getWeightOp(op.getBias())))
      return name(op) + " has a weight that is not the checkpoint's";
    if (bool(op.getBias()) != bool(first.getBias()))
      return "only one of " + name(first) + " and " + name(op) + " has a bias";
    if (weight.getName() != firstWeight.getName())
      return name(first) + " and " + name(op) + " store different tensors";
    if (elementType(weight) != elementType(firstWeight) ||
        scaleType(weight) != scaleType(firstWeight) ||
        (op.getBias() &&
         elementType(op.getBias()) != elementType(first.getBias())))
      return name(first) + " and " + name(op) +
             " are stored in different dtypes";
    if (op.getResult().getType().getElementType() !=
        first.getResult().getType().getElementType())
      return name(first) + " and " + name(op) +
             " have results of different "
             "dtypes";
  }
  return "";
}

/// May these shards be one matrix? (C8, B3)
/// A GGUF file has a type for each tensor and no list of modules: shards of
/// different types are no mistake, and stay apart.
std::string findPackingDifference(const Shards &shards) {
  auto say = [](model::LinearOp op) {
    auto type = dyn_cast<q::TensorType>(op.getWeight().getType());
    std::string stored = type && type.isGguf()
                             ? type.getGgufName().str()
                             : print(q::getStorage(op.getWeight().getType()));
    return lastComponent(op.getModule()).str() + " is " + stored;
  };
  auto isPacked = [](model::LinearOp op) {
    auto type = dyn_cast<q::TensorType>(op.getWeight().getType());
    return type && type.isGguf();
  };
  if (llvm::none_of(shards, isPacked))
    return "";
  std::string first = say(shards.front());
  StringRef firstType = StringRef(first).rsplit(' ').second;
  for (model::LinearOp op : shards) {
    std::string text = say(op);
    if (StringRef(text).rsplit(' ').second != firstType)
      return first + " but " + text + " in the file";
  }
  return "";
}

FusionDecision decideFusion(const Shards &shards, bool unfuseMixed) {
  model::LinearOp first = shards.front();
  if (std::string difference = findPackingDifference(shards);
      !difference.empty())
    return {Fusion::KeepApart, difference + "; its shards are not fused [C8]"};
  size_t quantized = llvm::count_if(shards, isQuantized);
  if (quantized && quantized < shards.size())
    return refuseUnless(unfuseMixed, describeMixed(shards),
                        "a fused module is skipped whole or not at all");
  for (model::LinearOp op : shards)
    if (op.getMethodAttr() != first.getMethodAttr() ||
        op.getContractAttr() != first.getContractAttr())
      return refuseUnless(unfuseMixed, describeMethods(first, op),
                          "the shards of a fused module have one method");
  std::string difference = findStructuralDifference(shards);
  if (!difference.empty())
    return {Fusion::KeepApart, difference + "; its shards are not fused [C8]"};
  return {};
}

/// The contract of a fused weight: one scale a shard is one a channel (B3),
/// unless the target or the user wants one for all (W8).
q::ContractAttr fuseContract(q::ContractAttr contract, bool oneScale) {
  if (!contract || !contract.isQuantized() ||
      contract.getWeight().getKind() != q::GranularityKind::PerTensor)
    return contract;
  if (oneScale && isa_and_nonnull<Float8E4M3FNType>(contract.getStorage()))
    return contract;
  return contract.withWeight(q::GranularityAttr::get(
      contract.getContext(), q::GranularityKind::PerChannel));
}

/// Whether fused per-tensor FP8 takes one scale (B3).
bool wantsOneScale(model::SettingsAttr settings) {
  if (!settings)
    return false;
  Result<Target> numerics = parseTarget(settings.getNumerics(), "--numerics");
  return settings.getRequantMax() || (numerics && takesLargestScale(*numerics));
}

/// Experts come first (W5).
int64_t getRowDimension(RankedTensorType type) {
  return type.getRank() == 3 ? 1 : 0;
}

/// Rows of a weight or bias; of one expert's.
int64_t getRows(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return quantized.getN();
  auto plain = cast<RankedTensorType>(type);
  return plain.getDimSize(getRowDimension(plain));
}

/// The type of the shards' tensors one after the other.
Type fuseTypes(ArrayRef<Value> values) {
  SmallVector<int64_t> rows;
  for (Value value : values)
    rows.push_back(getRows(value.getType()));
  int64_t sum = llvm::sum_of(rows, int64_t(0));
  if (auto type = dyn_cast<q::TensorType>(values[0].getType()))
    return type.withShardRows(rows);
  auto type = cast<RankedTensorType>(values[0].getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[getRowDimension(type)] = sum;
  return type.clone(shape);
}

/// One model.weight of the shards' weights or biases.
Value fuseWeights(OpBuilder &builder, Location loc, ArrayRef<Value> values) {
  SmallVector<Attribute> paths, stored;
  for (Value value : values) {
    model::WeightOp op = getWeightOp(value);
    llvm::append_range(paths, op.getPaths());
    llvm::append_range(stored, op.getStored());
  }
  model::WeightOp first = getWeightOp(values[0]);
  return model::WeightOp::create(
      builder, loc, fuseTypes(values), builder.getArrayAttr(paths),
      first.getLayer(), first.getNameAttr(), builder.getArrayAttr(stored),
      first.getExpertsAttr());
}

/// Replaces shards that decideFusion allows.
void fuse(const Shards &shards, bool oneScale) {
  model::LinearOp first = shards.front();
  OpBuilder builder(first);
  SmallVector<Location> locs;
  SmallVector<Value> weights, biases;
  SmallVector<Type> types;
  int64_t n = 0;
  for (model::LinearOp op : shards) {
    locs.push_back(op.getLoc());
    weights.push_back(op.getWeight());
    if (op.getBias())
      biases.push_back(op.getBias());
    types.push_back(op.getResult().getType());
    n += getRows(op.getWeight().getType());
  }
  Location loc = builder.getFusedLoc(locs);
  Value weight = fuseWeights(builder, loc, weights);
  Value bias = biases.empty() ? Value() : fuseWeights(builder, loc, biases);
  RankedTensorType firstType = first.getResult().getType();
  auto linear = model::LinearOp::create(
      builder, loc,
      RankedTensorType::get({firstType.getDimSize(0), n},
                            firstType.getElementType()),
      first.getInput(), weight, bias, /*input_scale=*/Value(),
      first.getFusedAttr(), /*fused=*/StringAttr(), first.getMethodAttr(),
      fuseContract(first.getContractAttr(), oneScale),
      /*precise=*/UnitAttr());
  auto split = model::SplitOp::create(builder, loc, types, linear.getResult());
  for (auto [i, shard] : llvm::enumerate(shards)) {
    model::LinearOp op = shard;
    op.getResult().replaceAllUsesWith(split.getResult(i));
    op.erase();
  }
  for (Value value : llvm::concat<Value>(weights, biases))
    if (value.use_empty())
      value.getDefiningOp()->erase();
}

/// Gate and up of every expert in one matrix (W5). They have one method since
/// resolve-quant-methods; where they are not stored alike they stay apart.
bool fuseExperts(model::ExpertsOp op, bool oneScale) {
  if (op.getGateUp().size() != 2)
    return false;
  SmallVector<Value> parts(op.getGateUp());
  auto storage = [](Value value) {
    auto type = dyn_cast<q::TensorType>(value.getType());
    return std::pair(q::getStorage(value.getType()),
                     type ? type.getScaleType() : Type());
  };
  model::WeightOp gate = getWeightOp(parts[0]), up = getWeightOp(parts[1]);
  if (!gate || !up || gate == up || gate.getName() != up.getName() ||
      storage(gate) != storage(up))
    return false;
  OpBuilder builder(op);
  Location loc = builder.getFusedLoc({gate.getLoc(), up.getLoc()});
  Value fused = fuseWeights(builder, loc, parts);
  op.getGateUpMutable().assign(fused);
  if (op.getContractAttr())
    op.setContractAttr(fuseContract(op.getContractAttr(), oneScale));
  for (model::WeightOp part : {gate, up})
    if (part->use_empty())
      part.erase();
  return true;
}

/// The error for shards that do not agree; notes walk to the config's entries.
LogicalResult refuse(const Shards &shards, const FusionDecision &decision,
                     q::ConfigAttr config) {
  model::LinearOp first = shards.front();
  Value layer = findLayerOf(first);
  InFlightDiagnostic diag = first.emitError()
                            << nameModule(*first.getFused(), layer) << ": "
                            << decision.why;
  for (model::LinearOp op : shards) {
    if (!isIgnored(op))
      continue;
    auto [entry, text] =
        getStored(op).getDeclared().split(' ').second.split(' ');
    diag.attachNote(op.getLoc())
        << (config ? config.getSource() : "config.json") << "." << entry
        << " is " << text;
  }
  noteOtherLayers(*diag.getUnderlyingDiagnostic(), layer);
  return diag;
}

struct FuseProjections
    : public octet::impl::FuseProjectionsBase<FuseProjections> {
  using FuseProjectionsBase::FuseProjectionsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto settings =
        module->getAttrOfType<model::SettingsAttr>("model.settings");
    auto config = module->getAttrOfType<q::ConfigAttr>("q.config");
    bool apart = unfuseMixed || (settings && settings.getUnfuseMixed());
    bool oneScale = wantsOneScale(settings);

    // Decide on every group before the first is rewritten.
    using Key = std::tuple<Block *, Attribute, Value>;
    llvm::MapVector<Key, Shards> groups;
    module.walk([&](model::LinearOp op) {
      if (op.getFusedAttr())
        groups[{op->getBlock(), op.getFusedAttr(), op.getInput()}].push_back(
            op);
    });
    SmallVector<const Shards *> accepted;
    bool refused = false;
    for (const auto &[key, shards] : groups) {
      // A shard that the checkpoint does not have does not vote, and one by
      // itself has nothing to be fused with (--extract of one projection).
      if (shards.size() < 2)
        continue;
      FusionDecision decision = decideFusion(shards, apart);
      switch (decision.kind) {
      case Fusion::Fuse:
        accepted.push_back(&shards);
        break;
      case Fusion::KeepApart: {
        ++numKept;
        model::LinearOp first = shards.front();
        emitMissed(first, kFlag, "kept-apart",
                   nameModule(*first.getFused(), findLayerOf(first)) + ": " +
                       decision.why);
        break;
      }
      case Fusion::Refuse:
        refused = true;
        (void)refuse(shards, decision, config);
        break;
      }
    }
    if (refused)
      return signalPassFailure();
    for (const Shards *shards : accepted)
      fuse(*shards, oneScale);
    numFused += accepted.size();
    int64_t experts = 0;
    module.walk(
        [&](model::ExpertsOp op) { experts += fuseExperts(op, oneScale); });
    numFused += experts;
    if (accepted.empty() && experts == 0)
      markAllAnalysesPreserved();
  }
};

} // namespace
