//===- Experts.cpp - Mixtral, Qwen3-MoE, GLM-4.5, gpt-oss ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Decoders with heads of keys and values, and routed experts. Mixtral: experts
// in every layer, under names of its own. Qwen3-MoE: layers by
// `decoder_sparse_step` and `mlp_only_layers`. GLM-4.5: dense layers first, a
// shared expert, a correction bias, draft layers. gpt-oss: all experts of a
// layer in one tensor, biases everywhere, a sink a head.
//
//===----------------------------------------------------------------------===//

#include "DecoderShape.h"

using namespace octet;

Result<DecoderShape> octet::readMixtral(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape,
                   readShape(config, /*needsIntermediate=*/true));
  shape.drafts = 0;
  OCTET_TRY_ASSIGN(shape.attention, readHeadAttention(config, shape.hidden));
  Experts experts;
  OCTET_TRY_ASSIGN(experts.count, config.getSize("num_local_experts"));
  experts.width = shape.intermediate;
  experts.block = "block_sparse_moe";
  experts.gate = "w1";
  experts.up = "w3";
  experts.down = "w2";
  experts.fused = "w13";
  experts.sparse.assign(size_t(shape.layers), true);
  shape.experts = std::move(experts);
  return shape;
}

/// `mlp_only_layers` are dense, the others sparse each `decoder_sparse_step`.
static Result<std::vector<bool>> readSteps(ConfigReader &config,
                                           int64_t layers) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> step,
                   config.findSize("decoder_sparse_step"));
  std::vector<bool> sparse;
  sparse.resize(size_t(layers));
  for (int64_t layer = 0; layer < layers; ++layer)
    sparse[size_t(layer)] = (layer + 1) % step.value_or(1) == 0;
  const nlohmann::json *dense = config.find("mlp_only_layers");
  if (!dense)
    return sparse;
  if (!dense->is_array())
    return config.error("mlp_only_layers", "is " + describeJson(*dense) +
                                               "; expected a list of layers");
  for (const nlohmann::json &element : *dense) {
    std::optional<int64_t> layer = toInteger(element);
    if (!layer || *layer < 0)
      return config.error("mlp_only_layers",
                          "has " + describeJson(element) +
                              "; expected numbers of layers");
    if (*layer < layers)
      sparse[size_t(*layer)] = false;
  }
  return sparse;
}

Result<DecoderShape> octet::readQwen3Moe(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape,
                   readShape(config, /*needsIntermediate=*/true));
  shape.drafts = 0;
  OCTET_TRY_ASSIGN(shape.attention, readHeadAttention(config, shape.hidden));
  OCTET_TRY_ASSIGN(Bias bias, readBiasFlag(config, "attention_bias"));
  shape.attention->qkvBias = shape.attention->outputBias = bias;
  shape.attention->qkNorm = true;
  Experts experts;
  OCTET_TRY_ASSIGN(experts.count, config.getSize("num_experts"));
  OCTET_TRY_ASSIGN(experts.width, config.getSize("moe_intermediate_size"));
  OCTET_TRY_ASSIGN(experts.sparse, readSteps(config, shape.layers));
  shape.experts = std::move(experts);
  return shape;
}

Result<DecoderShape> octet::readGlm4Moe(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape,
                   readShape(config, /*needsIntermediate=*/true));
  OCTET_TRY_ASSIGN(shape.attention, readHeadAttention(config, shape.hidden));
  // o_proj has none, whatever attention_bias says.
  OCTET_TRY_ASSIGN(shape.attention->qkvBias,
                   readBiasFlag(config, "attention_bias"));
  OCTET_TRY_ASSIGN(shape.attention->qkNorm,
                   config.getFlag("use_qk_norm", false));
  Experts experts;
  OCTET_TRY_ASSIGN(experts.count, config.getSize("n_routed_experts"));
  OCTET_TRY_ASSIGN(experts.width, config.getSize("moe_intermediate_size"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> shared,
                   findCount(config, "n_shared_experts"));
  OCTET_TRY_ASSIGN(experts.sharedWidth,
                   multiply(config, "the width of the shared experts",
                            shared.value_or(0), experts.width));
  experts.correction = true;
  OCTET_TRY_ASSIGN(experts.sparse, readSparseLayers(config, shape));
  shape.experts = std::move(experts);
  return shape;
}

Result<DecoderShape> octet::readGptOss(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape,
                   readShape(config, /*needsIntermediate=*/true));
  shape.drafts = 0;
  OCTET_TRY_ASSIGN(shape.attention, readHeadAttention(config, shape.hidden));
  OCTET_TRY_ASSIGN(bool bias, config.getFlag("attention_bias", true));
  shape.attention->qkvBias = shape.attention->outputBias =
      bias ? Bias::Yes : Bias::No;
  shape.attention->sinks = true;
  Experts experts;
  OCTET_TRY_ASSIGN(experts.count, config.getSize("num_local_experts"));
  experts.width = shape.intermediate;
  experts.packed = true;
  experts.router = "router";
  experts.sparse.assign(size_t(shape.layers), true);
  shape.experts = std::move(experts);
  return shape;
}
