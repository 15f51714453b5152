//===- DecoderSparse.cpp - Latent attention and experts -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderBuilder.h"
#include "octet/QuantAttrs/QuantAttrs.h"
#include <cmath>

using namespace mlir;
using namespace octet;

/// Of the norms inside latent attention, whatever rms_norm_eps says.
static constexpr float kLatentEps = 1e-6f;

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

/// The keys that this layer reads (P9).
Value DecoderBuilder::indexer(Value input, Value lowQuery,
                              const LayerFacts &facts, Value table,
                              Value positions) {
  const IndexerConfig &indexer = *config.indexer;
  std::string path = inLayer("self_attn.indexer");
  const StoredModule &keyNorm = facts.get("self_attn.indexer.k_norm");
  Location here = at(path, keyNorm.file);
  Value q = linear(lowQuery, facts.get("self_attn.indexer.wq_b"));
  Value k = linear(input, facts.get("self_attn.indexer.wk"));
  std::string normPath = inLayer(keyNorm.module);
  k = model::LayerNormOp::create(builder, at(normPath, keyNorm.file),
                                 k.getType(), k, parameter(keyNorm, "weight"),
                                 parameter(keyNorm, "bias"), real(kLatentEps),
                                 text(normPath));
  q = rope(q, table, positions, indexer.dim, 0, indexer.interleaved, path,
           here);
  k = rope(k, table, positions, indexer.dim, 0, indexer.interleaved, path,
           here);
  Value weights =
      linear(input, facts.get("self_attn.indexer.weights_proj"),
             /*fused=*/true, builder.getF32Type(), /*precise=*/true);
  double scale =
      1 / std::sqrt(double(indexer.dim)) / std::sqrt(double(indexer.heads));
  return model::IndexerOp::create(
      builder, here, rows(indexer.topK, builder.getI32Type()), q, k,
      /*cache=*/Value(), weights, batch, layer, integer(indexer.heads),
      integer(indexer.dim), integer(indexer.topK), real(float(scale)),
      text(path));
}

Value DecoderBuilder::latentAttention(Value input, const LayerFacts &facts,
                                      Value &selected) {
  const LatentAttention &latent = *config.latent;
  std::string path = inLayer("self_attn");
  const StoredModule &down = facts.get("self_attn.kv_a_proj_with_mqa");
  Location here = at(path, down.file);
  Value lowQuery, q;
  if (latent.qRank > 0) {
    lowQuery = norm(linear(input, facts.get("self_attn.q_a_proj")),
                    facts.get("self_attn.q_a_layernorm"), kLatentEps);
    q = linear(lowQuery, facts.get("self_attn.q_b_proj"));
  } else {
    q = linear(input, facts.get("self_attn.q_proj"));
  }
  auto parts = model::SplitOp::create(
      builder, here, TypeRange{rows(latent.kvRank), rows(latent.ropeDim)},
      linear(input, down));
  Value compressed = norm(parts.getResult(0),
                          facts.get("self_attn.kv_a_layernorm"), kLatentEps);
  Value positions = field(model::Field::Positions, indices());
  Value table = ropeTable(here);
  Value key = rope(parts.getResult(1), table, positions, latent.ropeDim, 0,
                   config.ropeInterleaved, path, here);
  q = rope(q, table, positions, latent.nopeDim + latent.ropeDim, latent.nopeDim,
           config.ropeInterleaved, path, here);
  if (facts.find("self_attn.indexer.wk"))
    selected = indexer(input, lowQuery, facts, table, positions);

  const StoredModule &up = facts.get("self_attn.kv_b_proj");
  Value matrix = weight(inLayer(up.module), up.getCodes(), up.tensors,
                        up.declared, up.file);
  q::StoredAttr scales;
  if (!facts.kvScales.empty())
    scales = toAttr(facts.kvScales, "", context());
  Value mixed = model::MlaAttentionOp::create(
      builder, here, rows(latent.heads * latent.valueDim), q, compressed, key,
      /*cache=*/Value(), /*cache_scale=*/Value(), ValueRange{matrix},
      /*input_scale=*/Value(), config.indexer ? selected : Value(), batch,
      layer, integer(latent.heads), integer(latent.nopeDim),
      integer(latent.ropeDim), integer(latent.valueDim), integer(latent.kvRank),
      real(config.attentionScale), text(path), /*method=*/q::MethodAttr(),
      /*contract=*/q::ContractAttr(), scales, /*kv_b_rows=*/q::SliceAttr());
  return linear(mixed, facts.get("self_attn.o_proj"));
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

static model::Score toScore(ExpertsConfig::Score score) {
  switch (score) {
  case ExpertsConfig::Score::Softmax:
    return model::Score::Softmax;
  case ExpertsConfig::Score::Sigmoid:
    return model::Score::Sigmoid;
  case ExpertsConfig::Score::ChosenSoftmax:
    return model::Score::ChosenSoftmax;
  }
  llvm_unreachable("all scores are above");
}

Value DecoderBuilder::routed(Value input, const LayerFacts &facts) {
  const ExpertsConfig &experts = *config.experts;
  const StoredModule &router = *facts.findRouter();
  std::string path = inLayer(router.module);
  auto optional = [&](StringRef name) {
    return router.tensors.contains(name.str()) ? parameter(router, name)
                                               : Value();
  };
  Value gate = parameter(router, "weight");
  Value bias = optional("bias");
  Value correction = optional("e_score_correction_bias");
  auto choice = model::MoeRouterOp::create(
      builder, at(path, router.file), rows(experts.topK, builder.getI32Type()),
      rows(experts.topK, builder.getF32Type()), input, gate, bias, correction,
      model::ScoreAttr::get(context(), toScore(experts.score)),
      integer(experts.topK), integer(experts.groups),
      integer(experts.topGroups),
      experts.normalize ? builder.getUnitAttr() : UnitAttr(),
      real(experts.scale), text(path));

  std::vector<const StoredModule *> matrices = facts.getExperts();
  SmallVector<Value> weights;
  for (const StoredModule *matrix : matrices)
    weights.push_back(weight(inLayer(matrix->module), matrix->getCodes(),
                             matrix->tensors, matrix->declared, matrix->file,
                             matrix->packed ? 0 : matrix->experts));
  Value gateUpBias, downBias;
  if (matrices.front()->packed) {
    gateUpBias = parameter(*matrices.front(), "_bias");
    downBias = parameter(*matrices.back(), "_bias");
  }
  StringRef name = matrices.front()->module; // "mlp.experts.{e}.gate_proj"
  path = inLayer(name.take_front(name.find(".experts")).str() + ".experts");
  bool clamped = experts.limit.has_value();
  return model::ExpertsOp::create(
      builder, at(path, matrices.front()->file), input.getType(), input,
      choice.getIds(), choice.getWeights(),
      ValueRange(ArrayRef(weights).drop_back()), weights.back(), gateUpBias,
      downBias, /*input_scale=*/Value(), /*down_input_scale=*/Value(),
      integer(experts.count), /*ep=*/integer(1),
      model::GatingAttr::get(context(), clamped ? model::Gating::ClampedSwiglu
                                                : model::Gating::Swiglu),
      clamped ? real(*experts.limit) : FloatAttr(),
      clamped ? builder.getUnitAttr() : UnitAttr(), text(path),
      /*method=*/q::MethodAttr(), /*contract=*/q::ContractAttr());
}

Value DecoderBuilder::experts(Value input, const LayerFacts &facts) {
  Value sum = routed(input, facts);
  StringRef router = facts.findRouter()->module;
  std::string shared = (router.rsplit('.').first + ".shared_experts").str();
  if (!facts.find(shared + ".gate_proj"))
    return sum;
  Value other = mlp(input, facts, shared);
  return model::AddOp::create(builder, loc, sum.getType(), sum, other);
}
