//===- WeightPlan.cpp - How one weight is loaded --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/WeightPlan.h"
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
  if (!scale.hasStaticShape() ||
      scale.getNumElements() != type.getScaleTensorType().getNumElements() ||
      scale.getElementType() != type.getScaleType())
    return (subject + ": '" + name + "' is " + print(scale) + ", expected " +
            print(type.getScaleTensorType()) + " for " + print(type) + " [W1]")
        .str();
  part.scale = StringAttr::get(type.getContext(), name);
  if (scale != type.getScaleTensorType())
    part.scaleShape =
        DenseI64ArrayAttr::get(type.getContext(), scale.getShape());
  part.type = type;
  return "";
}

/// From codes as stored to the contract: convert, then expand.
static std::string planRewrite(StringRef subject, q::ContractAttr contract,
                               WeightPlan &plan) {
  auto type = cast<q::TensorType>(plan.type);
  if (!contract || !contract.isQuantized())
    return (subject + ": stores " + print(type) +
            ", but what reads it takes no quantised weight [B3]")
        .str();
  if (type.getScaleType() != contract.getScale()) {
    if (!contract.getScale().isF32())
      return (subject + ": stores scales in " + print(type.getScaleType()) +
              ", the contract's are " + print(contract.getScale()) +
              "; only widening to f32 is exact [W11]")
          .str();
    plan.convertScales = true;
    type = type.withScaleType(contract.getScale());
  }
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
    return (subject + ": " + Twine(plan.parts.size()) +
            " shards have a scale each, the contract has one; one scale for "
            "all needs the weights requantised, which this version does not "
            "do [W8]")
        .str();
  }
  plan.type = type;
  return "";
}

/// From a plain weight to the contract's codes (W10).
static std::string planQuantize(StringRef subject, q::ContractAttr contract,
                                WeightPlan &plan) {
  auto plain = cast<RankedTensorType>(plan.type);
  q::GranularityKind kind = contract.getWeight().getKind();
  bool onePerTensor =
      kind == q::GranularityKind::PerTensor && plan.parts.size() == 1;
  if (kind != q::GranularityKind::PerChannel && !onePerTensor)
    return (subject + ": is stored as " + print(plain) +
            " and would be quantised to " + print(contract) +
            " while it loads; that is done per output channel [W10]")
        .str();
  SmallVector<int64_t> shards;
  if (plan.parts.size() > 1)
    for (const PartPlan &part : plan.parts)
      shards.push_back(cast<RankedTensorType>(part.type).getDimSize(0));
  MLIRContext *context = contract.getContext();
  plan.quantize = true;
  plan.type = q::TensorType::get(context, plain.getShape(),
                                 Float8E4M3FNType::get(context),
                                 contract.getWeight(), contract.getScale(),
                                 shards, q::Offset::None, q::Layout::Plain);
  return "";
}

/// The type of one expert.
static Type dropExperts(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return q::TensorType::get(
        type.getContext(), quantized.getShape().drop_front(),
        quantized.getElementType(), quantized.getGranularity(),
        quantized.getScaleType(), quantized.getShards(), quantized.getOffset(),
        quantized.getLayout());
  auto plain = cast<RankedTensorType>(type);
  return RankedTensorType::get(plain.getShape().drop_front(),
                               plain.getElementType());
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
  if (quantized && quantized.isGguf())
    return plan; // read by kernels as it is stored
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

Value octet::emitWeight(OpBuilder &builder, Location loc,
                        const WeightPlan &plan, Value index, Value expert) {
  SmallVector<Value> values;
  for (const PartPlan &part : plan.parts) {
    IntegerAttr headRows;
    if (part.headRows)
      headRows = builder.getI64IntegerAttr(part.headRows);
    Value value =
        q::LoadOp::create(builder, loc, part.type, part.path, index, plan.name,
                          part.scale, part.scaleShape, headRows, expert);
    if (isa<q::TensorType>(part.type))
      q::CheckScalesOp::create(builder, loc, value);
    if (plan.convertScales) {
      auto type = cast<q::TensorType>(part.type);
      value = q::ConvertScalesOp::create(
          builder, loc,
          type.withScaleType(cast<q::TensorType>(plan.type).getScaleType()),
          value);
    }
    if (plan.quantize) {
      auto type = cast<q::TensorType>(plan.type);
      value = q::QuantizeOp::create(
          builder, loc,
          type.withShards({}).withShape(
              cast<RankedTensorType>(part.type).getShape()),
          value, /*scale=*/Value(), /*ue8m0=*/false);
    }
    values.push_back(value);
  }
  Value whole = values[0];
  if (values.size() > 1) {
    Type type = plan.type;
    if (plan.expandScales) {
      auto quantized = cast<q::TensorType>(type);
      type = quantized.withGranularity(q::GranularityAttr::get(
          builder.getContext(), q::GranularityKind::PerTensor));
    }
    whole = q::ConcatOp::create(builder, loc, type, values);
  }
  if (plan.expandScales)
    whole = q::ExpandScalesOp::create(builder, loc, plan.type, whole);
  return whole;
}

Value octet::emitInputScale(OpBuilder &builder, Location loc,
                            ArrayRef<PartPlan> parts, Value index,
                            Value expert) {
  SmallVector<Value> values;
  for (const PartPlan &part : parts)
    values.push_back(
        q::LoadOp::create(builder, loc, part.type, part.path, index,
                          builder.getStringAttr("input_scale"),
                          /*scale=*/StringAttr(),
                          /*scale_shape=*/{}, /*head_rows=*/{}, expert));
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
                             /*expert=*/Value());
  };
  KvScaleNames names = findKvScales(stored);
  Value k = load(names.k), v = load(names.v);
  auto type = RankedTensorType::get({}, builder.getF32Type());
  auto scales =
      q::KvScalesOp::create(builder, loc, type, type, path, index, k, v);
  return {scales.getKScale(), scales.getVScale()};
}
