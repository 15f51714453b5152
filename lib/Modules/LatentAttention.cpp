//===- LatentAttention.cpp - DeepSeek-V2 to V3.2, Kimi-K2, GLM-5 --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Decoders with latent attention: q and kv through small ranks, dense layers
// first, shared experts, draft layers. DeepSeek-V3.2 and GLM-5 choose keys with
// an indexer, which not every layer of GLM-5.2 owns (P9).
//
//===----------------------------------------------------------------------===//

#include "DecoderShape.h"
#include <algorithm>

using namespace octet;

static Result<LatentAttention> readLatent(ConfigReader &config) {
  LatentAttention latent;
  OCTET_TRY_ASSIGN(latent.heads, config.getSize("num_attention_heads"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> qRank,
                   config.findSize("q_lora_rank"));
  latent.qRank = qRank.value_or(0);
  OCTET_TRY_ASSIGN(latent.kvRank, config.getSize("kv_lora_rank"));
  OCTET_TRY_ASSIGN(latent.nopeDim, config.getSize("qk_nope_head_dim"));
  OCTET_TRY_ASSIGN(latent.ropeDim, config.getSize("qk_rope_head_dim"));
  OCTET_TRY_ASSIGN(latent.valueDim, config.getSize("v_head_dim"));
  int64_t widest = std::max(latent.nopeDim + latent.ropeDim,
                            latent.nopeDim + latent.valueDim);
  OCTET_TRY_ASSIGN(int64_t width, multiply(config, "the width of all heads",
                                           latent.heads, widest));
  (void)width;
  OCTET_TRY_ASSIGN(bool bias, config.getFlag("attention_bias", false));
  latent.bias = bias ? Bias::Yes : Bias::No;
  return latent;
}

static Result<Experts> readExperts(ConfigReader &config,
                                   const DecoderShape &shape) {
  Experts experts;
  OCTET_TRY_ASSIGN(experts.count, config.getSize("n_routed_experts"));
  OCTET_TRY_ASSIGN(experts.width, config.getSize("moe_intermediate_size"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> shared,
                   findCount(config, "n_shared_experts"));
  OCTET_TRY_ASSIGN(experts.sharedWidth,
                   multiply(config, "the width of the shared experts",
                            shared.value_or(0), experts.width));
  OCTET_TRY_ASSIGN(std::optional<std::string> method,
                   config.findString("topk_method"));
  experts.correction = method.value_or("noaux_tc") == "noaux_tc";
  OCTET_TRY_ASSIGN(experts.sparse, readSparseLayers(config, shape));
  return experts;
}

Result<DecoderShape> octet::readDeepseek(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape,
                   readShape(config, /*needsIntermediate=*/true));
  OCTET_TRY_ASSIGN(shape.latent, readLatent(config));
  if (config.contains("n_routed_experts")) {
    OCTET_TRY_ASSIGN(shape.experts, readExperts(config, shape));
  }
  return shape;
}

//===----------------------------------------------------------------------===//
// The indexer (P9)
//===----------------------------------------------------------------------===//

/// `indexer_types`: "full" or "shared" for each layer.
static Status readIndexerTypes(ConfigReader &config,
                               const nlohmann::json &types, int64_t layers,
                               std::vector<bool> &owns) {
  if (!types.is_array() || int64_t(types.size()) != layers)
    return inputError(config.getSubject(),
                      "indexer_types is " +
                          (types.is_array()
                               ? "a list of " + std::to_string(types.size())
                               : describeJson(types)) +
                          "; expected a list of num_hidden_layers, which is " +
                          std::to_string(layers),
                      "P9");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const nlohmann::json &type = types[size_t(layer)];
    if (type != "full" && type != "shared")
      return inputError(config.getSubject(),
                        "indexer_types[" + std::to_string(layer) + "] is " +
                            describeJson(type) +
                            "; expected 'full' or "
                            "'shared'",
                        "P9");
    owns[size_t(layer)] = type == "full";
  }
  return Status::success();
}

/// `index_topk_pattern`: a letter a layer, `S` shares.
static Status readPattern(ConfigReader &config, const std::string &pattern,
                          int64_t layers, std::vector<bool> &owns) {
  if (int64_t(pattern.size()) != layers ||
      pattern.find_first_not_of("FS") != std::string::npos)
    return inputError(config.getSubject(),
                      config.describe("index_topk_pattern") +
                          "; expected a letter F or S for each of " +
                          std::to_string(layers) + " layers",
                      "P9");
  for (int64_t layer = 0; layer < layers; ++layer)
    owns[size_t(layer)] = pattern[size_t(layer)] != 'S';
  return Status::success();
}

static Result<Indexer> readIndexer(ConfigReader &config,
                                   const DecoderShape &shape) {
  Indexer indexer;
  OCTET_TRY_ASSIGN(indexer.heads, config.getSize("index_n_heads"));
  OCTET_TRY_ASSIGN(indexer.dim, config.getSize("index_head_dim"));
  OCTET_TRY_ASSIGN(int64_t width,
                   multiply(config, "the width of the indexer's heads",
                            indexer.heads, indexer.dim));
  (void)width;
  // Draft layers own theirs.
  indexer.owns.assign(size_t(shape.layers + shape.drafts), true);
  OCTET_TRY_ASSIGN(std::optional<int64_t> frequency,
                   config.findSize("index_topk_freq"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> offset,
                   findCount(config, "index_skip_topk_offset"));
  OCTET_TRY_ASSIGN(std::optional<std::string> pattern,
                   config.findString("index_topk_pattern"));
  if (const nlohmann::json *types = config.find("indexer_types"))
    OCTET_TRY(readIndexerTypes(config, *types, shape.layers, indexer.owns));
  else if (pattern)
    OCTET_TRY(readPattern(config, *pattern, shape.layers, indexer.owns));
  else
    for (int64_t layer = 0; layer < shape.layers; ++layer)
      indexer.owns[size_t(layer)] =
          std::max<int64_t>(layer - offset.value_or(0) + 1, 0) %
              frequency.value_or(1) ==
          0;
  // The first layer has nobody to share with.
  if (!indexer.owns[0])
    return inputError(config.getSubject(),
                      "layer 0 shares an indexer that no layer before it "
                      "owns; expected it to be full",
                      "P9");
  return indexer;
}

Result<DecoderShape> octet::readSparseDeepseek(ConfigReader &config) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDeepseek(config));
  if (shape.latent->qRank == 0)
    return inputError(config.getSubject(),
                      config.describe("q_lora_rank") +
                          "; the indexer reads the low-rank query, expected a "
                          "positive integer",
                      "P9");
  OCTET_TRY_ASSIGN(shape.indexer, readIndexer(config, shape));
  return shape;
}
