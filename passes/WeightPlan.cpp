//===- WeightPlan.cpp - How one weight is loaded --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/WeightPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "passes/KvLayout.h"
#include "passes/ModulePaths.h"

using namespace mlir;
using namespace octet;

/// The stored scale of a weight, under either spelling (W2).
static StringRef findScale(q::StoredAttr stored) {
  for (StringRef name : {"weight_scale_inv", "weight_scale", "scale"})
    if (stored.getTensor(name))
      return name;
  return "";
}

/// One shard of a quantised weight: its type as stored, and its scale.
static std::string planQuantizedPart(StringRef subject, q::StoredAttr stored,
                                     q::TensorType type, PartPlan &part) {
  q::GranularityAttr granularity = type.getGranularity();
  StringRef name = findScale(stored);
  if (name.empty())
    return (subject + ": no '" +
            (granularity.isBlock() ? "weight_scale_inv" : "weight_scale") +
            "' for its " + print(type.getElementType()) + " weight; expected " +
            print(type.getScaleTensorType()) + " [W6]")
        .str();
  // A grid may be stored [a, 1, b, 1], a channel's scales [N]: the elements
  // and their order are the same (W2).
  RankedTensorType scale = stored.getTensor(name);
  bool isRenamed = isa<Float8E8M0FNUType>(type.getScaleType()) &&
                   scale.getElementType().isUnsignedInteger(8); // N7
  if (!scale.hasStaticShape() ||
      scale.getNumElements() != type.getScaleTensorType().getNumElements() ||
      (scale.getElementType() != type.getScaleType() && !isRenamed))
    return (subject + ": '" + name + "' is " + print(scale) + ", expected " +
            print(type.getScaleTensorType()) + " for " + print(type) + " [W1]")
        .str();
  part.scale = StringAttr::get(type.getContext(), name);
  if (isRenamed)
    part.scaleType = TypeAttr::get(scale.getElementType());
  if (scale.getShape() != type.getScaleTensorType().getShape())
    part.scaleShape =
        DenseI64ArrayAttr::get(type.getContext(), scale.getShape());
  part.type = type;
  return "";
}

/// N8: the codes of formats that no product reads.
static std::string planCodes(StringRef subject, q::ContractAttr contract,
                             q::TensorType &type, WeightPlan &plan) {
  Type wanted = contract.getStorage();
  if (!wanted || type.getElementType() == wanted)
    return "";
  if (!isa<Float8E4M3FNType>(wanted) ||
      !isa<Float8E5M2Type, Float8E5M2FNUZType, Float8E4M3FNUZType>(
          type.getElementType()))
    return (subject + ": stores " + print(type.getElementType()) +
            " codes, the contract's are " + print(wanted) +
            "; only FP8 formats become another [N8]")
        .str();
  plan.convertCodes = true;
  plan.convertScales = !type.getScaleType().isF32();
  type = type.withScaleType(Float32Type::get(type.getContext()))
             .withElementType(wanted);
  return "";
}

/// Scale dtypes: widening is exact, powers of two of other scales are not
/// (W11), and groups of MXFP8 become blocks where they may (B6).
static std::string planScales(StringRef subject, q::ContractAttr contract,
                              q::TensorType &type, WeightPlan &plan) {
  Type wanted = contract.getScale(), stored = type.getScaleType();
  q::GranularityAttr block = contract.getWeight();
  if (stored == wanted)
    return "";
  bool isExponents = isa<Float8E8M0FNUType>(stored);
  if (wanted.isF32() && isExponents && block.isBlock() &&
      block != type.getGranularity()) {
    plan.mergeScales = true;
    type = type.withScaleType(wanted).withGranularity(block);
    return "";
  }
  if (wanted.isF32()) {
    plan.convertScales = true;
    type = type.withScaleType(wanted);
    return "";
  }
  if (isa<Float8E8M0FNUType>(wanted) && type.getGranularity().isBlock()) {
    plan.convertScales = !stored.isF32();
    plan.makeExponents = true;
    type = type.withScaleType(wanted);
    return "";
  }
  return (subject + ": stores scales in " + print(stored) +
          ", the contract's are " + print(wanted) +
          "; only widening to f32 is exact [W11]")
      .str();
}

/// From codes as stored to the contract.
static std::string planRewrite(StringRef subject, q::ContractAttr contract,
                               WeightPlan &plan) {
  auto type = cast<q::TensorType>(plan.type);
  if (!contract || !contract.isQuantized())
    return (subject + ": stores " + print(type) +
            ", but what reads it takes no quantised weight [B3]")
        .str();
  std::string problem = planCodes(subject, contract, type, plan);
  if (problem.empty())
    problem = planScales(subject, contract, type, plan);
  if (!problem.empty())
    return problem;
  q::GranularityAttr wanted = contract.getWeight();
  if (type.getGranularity() != wanted) {
    if (type.getGranularity().getKind() != q::GranularityKind::PerTensor ||
        wanted.getKind() != q::GranularityKind::PerChannel)
      return (subject + ": stores " + print(type) + ", the contract is " +
              print(contract) +
              "; scales are only ever spread from one a tensor to one a "
              "channel [W7]")
          .str();
    plan.expandScales = true;
    type = type.withGranularity(wanted);
  } else if (wanted.getKind() == q::GranularityKind::PerTensor &&
             plan.parts.size() > 1) {
    if (!isa<Float8E4M3FNType>(type.getElementType()))
      return (subject + ": " + Twine(plan.parts.size()) + " shards of " +
              print(type.getElementType()) +
              " have a scale each, the contract has one; only FP8 is "
              "requantised [W8]")
          .str();
    plan.useLargestScale = true;
    type = type.withShards({});
  }
  plan.type = type;
  return "";
}

/// From a plain weight to the contract's codes (W10).
static std::string planQuantize(StringRef subject, q::ContractAttr contract,
                                WeightPlan &plan) {
  auto plain = cast<RankedTensorType>(plan.type);
  q::GranularityKind kind = contract.getWeight().getKind();
  bool onePerTensor = kind == q::GranularityKind::PerTensor;
  if (!contract.getScale().isF32() ||
      !isa_and_nonnull<Float8E4M3FNType>(contract.getStorage()) ||
      (kind != q::GranularityKind::PerChannel && !onePerTensor))
    return (subject + ": is stored as " + print(plain) +
            " and would be quantised to " + print(contract) +
            " while it loads; that is done per output channel, or per tensor "
            "with --requant-max [W10]")
        .str();
  SmallVector<int64_t> shards;
  if (plan.parts.size() > 1 && !onePerTensor)
    for (const PartPlan &part : plan.parts)
      shards.push_back(
          cast<RankedTensorType>(part.getLocalType()).getDimSize(0));
  MLIRContext *context = contract.getContext();
  plan.quantize = true;
  plan.useLargestScale = onePerTensor;
  plan.type = q::TensorType::get(context, plain.getShape(),
                                 Float8E4M3FNType::get(context),
                                 contract.getWeight(), contract.getScale(),
                                 shards, q::Offset::None, q::Layout::Plain);
  return "";
}

/// The type of one expert.
static Type dropExperts(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return quantized.withShape(quantized.getShape().drop_front());
  auto plain = cast<RankedTensorType>(type);
  return RankedTensorType::get(plain.getShape().drop_front(),
                               plain.getElementType());
}

Type PartPlan::getLocalType() const {
  Type local = type;
  for (q::SliceAttr slice : slices)
    local = q::withSideSize(local, slice.getSide(), slice.getSize());
  return local;
}

/// What one rank has of the tensor of a path.
static SmallVector<q::SliceAttr, 2> findSlices(model::WeightOp op,
                                               size_t path) {
  SmallVector<q::SliceAttr, 2> slices;
  Type type = op.getResult().getType();
  // Experts in one tensor; those of their own are loaded by number.
  if (op.getFirstExpert() && !op.getExperts())
    slices.push_back(q::SliceAttr::get(op.getContext(), q::Side::Experts,
                                       *q::getSideSize(type, q::Side::Experts),
                                       op.getFirstExpertAttr(), q::Fit::Exact,
                                       0, 0));
  if (op.getSlices())
    slices.push_back(cast<q::SliceAttr>((*op.getSlices())[path]));
  return slices;
}

/// A side of a matrix from the tensor of its codes; a side that is split has
/// whole words (W3).
static int64_t findWordSide(q::TensorType type, RankedTensorType codes,
                            q::Side side) {
  int64_t perWord = codes.getElementTypeBitWidth() /
                    type.getElementType().getIntOrFloatBitWidth();
  int64_t last = codes.getShape().back();
  int64_t first = codes.getDimSize(type.getRank() - 2);
  bool alongK = type.getLayout() == q::Layout::PackedK;
  switch (side) {
  case q::Side::Experts:
    return codes.getDimSize(0);
  case q::Side::Rows:
    if (alongK)
      return last;
    return type.getLayout() == q::Layout::Awq ? last * perWord : first;
  case q::Side::Cols:
    if (type.getLayout() == q::Layout::Awq)
      return first;
    // Blocks of experts have a dimension for their groups.
    return (alongK
                ? first
                : codes.getNumElements() /
                      codes.getShape().take_front(type.getRank() - 1).back() /
                      (type.getRank() == 3 ? codes.getDimSize(0) : 1)) *
           perWord;
  }
  llvm_unreachable("all sides are above");
}

/// One shard whose codes share words. Its sides are the rank's, unless slices
/// say what the file has.
static std::string planWords(StringRef subject, q::StoredAttr stored,
                             model::WeightOp op, const WeightPlan &plan,
                             PartPlan &part) {
  auto whole = cast<q::TensorType>(plan.type);
  q::TensorType type =
      whole.withShardRows({whole.getShardRows()[plan.parts.size()]});
  RankedTensorType codes = stored.getTensor(op.getName());
  for (q::SliceAttr slice : part.slices)
    if (codes)
      type = cast<q::TensorType>(q::withSideSize(
          type, slice.getSide(), findWordSide(type, codes, slice.getSide())));
  part.words.emplace();
  part.type = type;
  return findWordTensors(subject, stored, op.getNameAttr(), type, *part.words);
}

WeightPlan octet::planWeight(model::WeightOp op, q::ContractAttr contract) {
  WeightPlan plan;
  plan.name = op.getNameAttr();
  plan.type = op.getResult().getType();
  // Experts are loaded one by one (W5).
  if (op.getExperts())
    plan.type = dropExperts(plan.type);
  auto quantized = dyn_cast<q::TensorType>(plan.type);
  for (auto [path, entry] : llvm::zip_equal(op.getPaths(), op.getStored())) {
    auto pathAttr = cast<StringAttr>(path);
    auto stored = cast<q::StoredAttr>(entry);
    std::string subject = nameModule(pathAttr.getValue(), op.getLayer());
    RankedTensorType type = stored.getTensor(op.getName());
    PartPlan part{pathAttr, StringAttr(), stored.getTensorType(op.getName())};
    part.headRows = stored.getHeadRows();
    part.slices = findSlices(op, plan.parts.size());
    if (quantized && quantized.isPacked()) {
      plan.problem = planWords(subject, stored, op, plan, part);
      if (!plan.problem.empty())
        return plan;
      plan.parts.push_back(std::move(part));
      continue;
    }
    if (part.type && isa<q::TensorType>(part.type)) {
      plan.parts.push_back(part); // holds its scales; the op verified the type
      continue;
    }
    if (!type)
      plan.problem = subject + ": no '" + op.getName().str() +
                     "' in the checkpoint; expected " +
                     print(op.getResult().getType()) + " [C13]";
    else if (quantized)
      plan.problem = planQuantizedPart(
          subject, stored, quantized.withShards({}).withShape(type.getShape()),
          part);
    if (!plan.problem.empty())
      return plan;
    plan.parts.push_back(part);
  }

  auto fused = op->use_empty()
                   ? StringAttr()
                   : (*op->user_begin())->getAttrOfType<StringAttr>("module");
  StringRef path = plan.parts.size() > 1 && fused
                       ? fused.getValue()
                       : plan.parts[0].path.getValue();
  std::string subject = nameModule(path, op.getLayer());
  if (quantized && (quantized.isPacked() || quantized.isGguf())) {
    // An embedding reads rows as they are stored, and so do some kernels.
    plan.tile = contract && contract.getLayout() == q::Layout::Tiled;
    // A product of both operands in FP4 has one scale above the groups.
    plan.shareGlobal = contract && contract.quantizesActivation() &&
                       quantized.getGlobal() != q::GlobalScale::None &&
                       plan.parts.size() > 1;
    if (plan.shareGlobal)
      plan.type = quantized = quantized.withShards({});
    if (plan.tile)
      plan.type = quantized.getTiled();
    return plan;
  }
  if (quantized)
    plan.problem = planRewrite(subject, contract, plan);
  else if (contract && contract.isQuantized())
    plan.problem = planQuantize(subject, contract, plan);
  return plan;
}

std::string octet::describeInputScale(RankedTensorType type,
                                      ArrayRef<PartPlan> before) {
  if (!type)
    return "no 'input_scale', which a static activation scheme reads; "
           "expected one F32 [W2]";
  if (!q::isScalarTensor(type))
    return "'input_scale' is " + print(type) + ", expected one float [W2]";
  if (before.empty())
    return "";
  auto first = cast<RankedTensorType>(before[0].type);
  if (first.getElementType() != type.getElementType())
    return "'input_scale' is " + print(type) + ", that of '" +
           lastComponent(before[0].path).str() + "' " + print(Type(first)) +
           "; the shards of a fused module store one dtype [W2]";
  return "";
}

std::string octet::describeKvScales(q::StoredAttr stored) {
  KvScaleNames names = findKvScales(stored);
  if (!names.problem.empty())
    return names.problem;
  RankedTensorType first;
  for (StringRef name : {names.k, names.v}) {
    if (name.empty())
      continue;
    RankedTensorType type = stored.getTensor(name);
    if (!q::isScalarTensor(type))
      return ("'" + name + "' is " + print(type) +
              ", expected one float a layer [W2]")
          .str();
    if (first && first.getElementType() != type.getElementType())
      return ("'" + name + "' is " + print(type) + ", '" + names.k + "' " +
              print(Type(first)) + "; a cache's scales have one dtype [W2]")
          .str();
    first = type;
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

Value octet::getRankArgument(OpBuilder &builder) {
  Operation *parent = builder.getInsertionBlock()->getParentOp();
  auto load = dyn_cast<func::FuncOp>(parent);
  if (!load)
    load = parent->getParentOfType<func::FuncOp>();
  return load.getArgument(0);
}

/// What one rank has of a part: experts that stand in one tensor, or the part
/// of a side (W3, W4).
static Value emitSlices(OpBuilder &builder, Location loc, const PartPlan &part,
                        Value value, bool ofExperts) {
  for (q::SliceAttr slice : part.slices) {
    if ((slice.getSide() == q::Side::Experts) != ofExperts)
      continue;
    Type type =
        q::withSideSize(value.getType(), slice.getSide(), slice.getSize());
    // All of it, as where KV heads stand on each rank (W3b).
    if (type == value.getType() && slice.getFit() == q::Fit::Exact)
      continue;
    value = q::SliceOp::create(builder, loc, type, value,
                               getRankArgument(builder), slice);
  }
  return value;
}

/// A side is cut after the rewriting where scales are made that follow from
/// more values than a rank has of them: they are those of the whole tensor on
/// every rank (W10, N8). A block is on one rank, unless it is padded (W3).
static bool isCutLate(const WeightPlan &plan, const PartPlan &part) {
  if (plan.quantize)
    return true;
  if (!plan.convertCodes && !plan.makeExponents && !plan.mergeScales)
    return false;
  auto type = cast<q::TensorType>(part.type);
  return !type.getGranularity().isBlock() ||
         llvm::any_of(part.slices, [](q::SliceAttr slice) {
           return slice.getFit() == q::Fit::Padded;
         });
}

/// One part from the file to what can be joined.
/// Where one scale is made of all shards, a part is the whole one.
static Value emitPart(OpBuilder &builder, Location loc, const WeightPlan &plan,
                      const PartPlan &part, Value index, Value expert) {
  IntegerAttr headRows;
  if (part.headRows)
    headRows = builder.getI64IntegerAttr(part.headRows);
  Value value;
  if (part.words)
    value =
        emitWordTensors(builder, loc, *part.words, part.path, index, expert);
  else
    value = q::LoadOp::create(builder, loc, part.type, part.path, index,
                              plan.name, part.scale, part.scaleShape, headRows,
                              expert, part.scaleType);
  const bool cutsLate = isCutLate(plan, part);
  value = emitSlices(builder, loc, part, value, /*ofExperts=*/true);
  if (!cutsLate)
    value = emitSlices(builder, loc, part, value, /*ofExperts=*/false);
  auto wanted = dyn_cast<q::TensorType>(plan.type);
  auto type = dyn_cast<q::TensorType>(value.getType());
  if (type)
    q::CheckScalesOp::create(builder, loc, value);
  if (plan.shareGlobal)
    return value;
  if (plan.tile)
    return q::RepackOp::create(builder, loc, type.getTiled(), value);
  if (plan.convertScales) {
    type = type.withScaleType(builder.getF32Type());
    value = q::ConvertScalesOp::create(builder, loc, type, value);
  }
  if (plan.convertCodes) {
    type = type.withElementType(wanted.getElementType());
    value = q::RequantizeOp::create(builder, loc, type, value);
  }
  if (plan.makeExponents) {
    type = type.withScaleType(wanted.getScaleType());
    value = q::RequantizeOp::create(builder, loc, type, value);
  }
  if (plan.mergeScales) {
    type = type.withScaleType(wanted.getScaleType())
               .withGranularity(wanted.getGranularity());
    value = q::MergeScalesOp::create(builder, loc, type, value);
  }
  if (plan.quantize && plan.useLargestScale)
    return value;
  if (plan.quantize) {
    auto plain = cast<RankedTensorType>(part.type);
    value = q::QuantizeOp::create(builder, loc,
                                  wanted.withShardRows({plain.getDimSize(0)})
                                      .withColumns(plain.getDimSize(1)),
                                  value,
                                  /*scale=*/Value(), /*ue8m0=*/false);
  }
  return cutsLate ? emitSlices(builder, loc, part, value, /*ofExperts=*/false)
                  : value;
}

/// The parts one after the other (W5b); one is itself.
static Value emitConcat(OpBuilder &builder, Location loc,
                        ArrayRef<Value> values) {
  if (values.size() == 1)
    return values[0];
  SmallVector<int64_t> rows;
  for (Value value : values) {
    auto type = dyn_cast<q::TensorType>(value.getType());
    rows.push_back(type
                       ? type.getN()
                       : cast<RankedTensorType>(value.getType()).getDimSize(0));
  }
  Type type = values[0].getType();
  if (auto quantized = dyn_cast<q::TensorType>(type)) {
    type = quantized.withShardRows(rows);
  } else {
    auto plain = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape(plain.getShape());
    shape[0] = llvm::sum_of(rows, int64_t(0));
    type = plain.clone(shape);
  }
  return q::ConcatOp::create(builder, loc, type, values);
}

/// W10 with one scale for all shards. Where ranks have parts of them the scale
/// is still that of the whole matrix.
static Value emitQuantized(OpBuilder &builder, Location loc,
                           const WeightPlan &plan, ArrayRef<Value> parts) {
  auto local = cast<q::TensorType>(plan.type);
  Value whole = emitConcat(builder, loc, parts);
  auto type =
      local.withShape(cast<RankedTensorType>(whole.getType()).getShape());
  Value quantized = q::QuantizeOp::create(builder, loc, type, whole,
                                          /*scale=*/Value(), /*ue8m0=*/false);
  if (parts.size() == 1)
    return emitSlices(builder, loc, plan.parts[0], quantized,
                      /*ofExperts=*/false);
  if (type == local)
    return quantized;
  // Each shard is cut by itself, and rounded with that scale.
  SmallVector<Value> cut;
  for (auto [part, value] : llvm::zip_equal(plan.parts, parts))
    cut.push_back(emitSlices(builder, loc, part, value, /*ofExperts=*/false));
  auto unpacked = q::UnpackOp::create(builder, loc, type.getDataTensorType(),
                                      type.getScaleTensorType(), quantized);
  return q::QuantizeOp::create(builder, loc, local,
                               emitConcat(builder, loc, cut),
                               unpacked.getScale(), /*ue8m0=*/false);
}

Value octet::emitWeight(OpBuilder &builder, Location loc,
                        const WeightPlan &plan, Value index, Value expert) {
  SmallVector<Value> values;
  for (const PartPlan &part : plan.parts)
    values.push_back(emitPart(builder, loc, plan, part, index, expert));
  if (plan.useLargestScale && plan.quantize)
    return emitQuantized(builder, loc, plan, values);
  Value whole = emitConcat(builder, loc, values);
  if (plan.shareGlobal) {
    auto shards = cast<q::TensorType>(whole.getType());
    whole =
        q::ShareGlobalOp::create(builder, loc, shards.withShards({}), whole);
    if (plan.tile)
      whole = q::RepackOp::create(builder, loc, plan.type, whole);
    return whole;
  }
  if (plan.useLargestScale)
    return q::RequantizeOp::create(builder, loc, plan.type, whole);
  if (plan.expandScales)
    return q::ExpandScalesOp::create(builder, loc, plan.type, whole);
  return whole;
}

Value octet::emitInputScale(OpBuilder &builder, Location loc,
                            ArrayRef<PartPlan> parts, Value index,
                            Value expert) {
  SmallVector<Value> values;
  for (const PartPlan &part : parts) {
    Value value = q::LoadOp::create(
        builder, loc, part.type, part.path, index,
        part.scale ? part.scale : builder.getStringAttr("input_scale"),
        /*scale=*/StringAttr(),
        /*scale_shape=*/{}, /*head_rows=*/{}, expert, /*scale_type=*/{});
    if (part.scale) {
      auto type = cast<RankedTensorType>(part.type);
      Value one = arith::ConstantOp::create(
          builder, loc,
          DenseElementsAttr::get(
              type, builder.getFloatAttr(type.getElementType(), 1)));
      value = arith::DivFOp::create(builder, loc, one, value);
    }
    values.push_back(value);
  }
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return q::MaxOp::create(builder, loc, type, values);
}

SmallVector<Value> octet::emitKvScales(OpBuilder &builder, Location loc,
                                       StringAttr path, q::StoredAttr stored,
                                       Value index) {
  auto load = [&](StringRef name) -> Value {
    if (name.empty())
      return {};
    // `k_proj.k_scale` stands in a module below the attention (W2).
    auto [prefix, last] = name.rsplit('.');
    std::string module = path.getValue().str();
    if (last.empty())
      last = prefix;
    else
      module += "." + prefix.str();
    return q::LoadOp::create(builder, loc, stored.getTensor(name),
                             builder.getStringAttr(module), index,
                             builder.getStringAttr(last), StringAttr(),
                             /*scale_shape=*/{}, /*head_rows=*/{},
                             /*expert=*/Value(), /*scale_type=*/{});
  };
  KvScaleNames names = findKvScales(stored);
  Value k = load(names.k), v = load(names.v);
  auto type = RankedTensorType::get({}, builder.getF32Type());
  auto scales =
      q::KvScalesOp::create(builder, loc, type, type, path, index, k, v);
  return {scales.getKScale(), scales.getVScale()};
}
