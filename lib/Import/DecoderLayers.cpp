//===- DecoderLayers.cpp - What all layers are made of --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderBuilder.h"
#include "octet/QuantAttrs/QuantAttrs.h"

using namespace mlir;
using namespace octet;

Location DecoderBuilder::at(StringRef path, StringRef file) {
  Location name = NameLoc::get(text(path));
  if (file.empty())
    return name;
  return FusedLoc::get(context(),
                       {name, FileLineColLoc::get(text(file), 0, 0)});
}

Value DecoderBuilder::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}

Value DecoderBuilder::field(model::Field which, Type type) {
  return model::FieldOp::create(builder, loc, type, which, batch);
}

Value DecoderBuilder::weight(StringRef path, StringRef name,
                             const StoredTensors &stored, StringRef declared,
                             StringRef file, int64_t experts) {
  Attribute facts = toAttr(stored, declared, context());
  Type type = toTensorType(stored.find(name.str())->second, context());
  IntegerAttr count;
  if (experts > 0) {
    auto one = cast<RankedTensorType>(type);
    SmallVector<int64_t> shape{experts};
    llvm::append_range(shape, one.getShape());
    type = RankedTensorType::get(shape, one.getElementType());
    count = integer(experts);
  }
  bool layered = path.contains("{l}");
  return model::WeightOp::create(builder, at(path, file), type,
                                 builder.getArrayAttr({text(path)}),
                                 layered ? layer : Value(), text(name),
                                 builder.getArrayAttr({facts}), count);
}

Value DecoderBuilder::parameter(const StoredModule &facts, StringRef name) {
  StoredTensors tensors = {
      {name.str(), facts.tensors.find(name.str())->second}};
  return weight(inLayer(facts.module), name, tensors, "", facts.file);
}

Value DecoderBuilder::norm(Value input, StringRef path,
                           const StoredTensor &stored, int64_t heads,
                           StringRef file, float eps) {
  Value gain = weight(path, "weight", {{"weight", stored}}, "", file);
  return model::RmsNormOp::create(builder, at(path, file), input.getType(),
                                  input, gain, real(eps), integer(heads),
                                  text(path));
}

Value DecoderBuilder::norm(Value input, const StoredModule &facts, float eps,
                           int64_t heads) {
  return norm(input, inLayer(facts.module),
              facts.tensors.find("weight")->second, heads, facts.file, eps);
}

Value DecoderBuilder::linear(Value input, const StoredModule &facts, bool fused,
                             Type element, bool precise) {
  std::string path = inLayer(facts.module);
  Value matrix =
      weight(path, facts.getCodes(), facts.tensors, facts.declared, facts.file);
  Value bias;
  if (facts.bias)
    bias = weight(path, "bias", {{"bias", *facts.bias}}, "", facts.file);
  StringAttr fusedName;
  if (fused && !facts.fused.empty())
    fusedName = text(inLayer(facts.fused));
  return model::LinearOp::create(
      builder, at(path, facts.file), rows(facts.n, element), input, matrix,
      bias, /*input_scale=*/Value(), text(path), fusedName,
      /*method=*/q::MethodAttr(), /*contract=*/q::ContractAttr(),
      precise ? builder.getUnitAttr() : UnitAttr());
}

Value DecoderBuilder::ropeTable(Location here) {
  int64_t rotated = 2 * int64_t(options.rope.inverse.size());
  return model::RopeTableOp::create(
      builder, here,
      RankedTensorType::get({options.maxContext, rotated},
                            builder.getF32Type()),
      builder.getDenseF32ArrayAttr(options.rope.inverse),
      real(options.rope.scale));
}

Value DecoderBuilder::rope(Value input, Value table, Value positions,
                           int64_t headDim, int64_t offset, bool interleaved,
                           StringRef path, Location here) {
  return model::RopeOp::create(builder, here, input.getType(), input, table,
                               positions, integer(headDim),
                               interleaved ? builder.getUnitAttr() : UnitAttr(),
                               text(path), integer(offset));
}

Value DecoderBuilder::attention(Value input, const LayerFacts &facts) {
  std::string path = inLayer("self_attn");
  const StoredModule &query = facts.get("self_attn.q_proj");
  Location here = at(path, query.file);
  Value q = linear(input, query);
  Value k = linear(input, facts.get("self_attn.k_proj"));
  Value v = linear(input, facts.get("self_attn.v_proj"));
  if (config.qkNorm) {
    q = norm(q, facts.get("self_attn.q_norm"), config.normEps, config.heads);
    k = norm(k, facts.get("self_attn.k_norm"), config.normEps, config.kvHeads);
  }
  Value positions = field(model::Field::Positions, indices());
  Value table = ropeTable(here);
  q = rope(q, table, positions, config.headDim, 0, config.ropeInterleaved, path,
           here);
  k = rope(k, table, positions, config.headDim, 0, config.ropeInterleaved, path,
           here);
  const StoredModule &module = facts.get("self_attn");
  Value sinks;
  if (module.tensors.contains("sinks"))
    sinks = parameter(module, "sinks");
  q::StoredAttr scales;
  if (!facts.kvScales.empty())
    scales = toAttr(facts.kvScales, "", context());
  Value mixed = model::AttentionOp::create(
      builder, here, q.getType(), q, k, v, /*cache=*/Value(), batch, layer,
      /*k_scale=*/Value(), /*v_scale=*/Value(), sinks, integer(config.heads),
      integer(config.kvHeads), integer(config.headDim),
      real(config.attentionScale), integer(facts.window), text(path), scales);
  return linear(mixed, facts.get("self_attn.o_proj"));
}

Value DecoderBuilder::mlp(Value input, const LayerFacts &facts,
                          StringRef name) {
  auto part = [&](StringRef last) -> const StoredModule & {
    return facts.get((name + "." + last).str());
  };
  Value gate = linear(input, part("gate_proj"));
  Value up = linear(input, part("up_proj"));
  Value product = model::SwigluOp::create(
      builder, at(inLayer(name), part("gate_proj").file), gate.getType(), gate,
      up);
  return linear(product, part("down_proj"));
}

Value DecoderBuilder::lmHead(Value input, const StoredModule &facts) {
  Value matrix = weight(facts.module, facts.getCodes(), facts.tensors,
                        facts.declared, facts.file);
  return model::LmHeadOp::create(
      builder, at("lm_head", facts.file),
      rows(config.vocab, builder.getF32Type()), input, matrix,
      /*input_scale=*/Value(), text("lm_head"), /*method=*/q::MethodAttr(),
      /*contract=*/q::ContractAttr());
}
