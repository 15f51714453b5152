//===- DecoderShape.cpp - What families share ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DecoderShape.h"
#include "octet/Support/Checked.h"

using namespace octet;

/// Layers beyond this are no model; the bound keeps a lying config from asking
/// for memory.
static constexpr int64_t kMaxLayers = 1 << 14;

Result<std::optional<int64_t>> octet::findCount(ConfigReader &config,
                                                std::string_view key) {
  const nlohmann::json *value = config.find(key);
  if (!value)
    return std::optional<int64_t>();
  std::optional<int64_t> count = toInteger(*value);
  if (!count || *count < 0 || *count > kMaxSize)
    return inputError(config.getSubject(),
                      config.describe(key) +
                          "; expected an integer from 0 to " +
                          std::to_string(kMaxSize),
                      "C15");
  return count;
}

Result<int64_t> octet::multiply(ConfigReader &config, std::string_view what,
                                int64_t a, int64_t b) {
  std::optional<int64_t> product = checkedMul(a, b);
  if (!product || *product > kMaxSize)
    return inputError(config.getSubject(),
                      std::string(what) + " is " + std::to_string(a) + " x " +
                          std::to_string(b) + "; expected at most " +
                          std::to_string(kMaxSize),
                      "C15");
  return *product;
}

Result<DecoderShape> octet::readShape(ConfigReader &config,
                                      bool needsIntermediate) {
  DecoderShape shape;
  OCTET_TRY_ASSIGN(shape.vocab, config.getSize("vocab_size"));
  OCTET_TRY_ASSIGN(shape.hidden, config.getSize("hidden_size"));
  OCTET_TRY_ASSIGN(shape.layers, config.getSize("num_hidden_layers"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> drafts,
                   findCount(config, "num_nextn_predict_layers"));
  shape.drafts = drafts.value_or(0);
  for (auto [key, count] :
       {std::pair("num_hidden_layers", shape.layers),
        std::pair("num_nextn_predict_layers", shape.drafts)})
    if (count > kMaxLayers)
      return inputError(config.getSubject(),
                        config.describe(key) + "; expected at most " +
                            std::to_string(kMaxLayers),
                        "C15");
  OCTET_TRY_ASSIGN(std::optional<int64_t> intermediate,
                   config.findSize("intermediate_size"));
  if (needsIntermediate && !intermediate) {
    OCTET_TRY_ASSIGN(intermediate, config.getSize("intermediate_size"));
  }
  shape.intermediate = intermediate.value_or(0);
  OCTET_TRY_ASSIGN(shape.tied, config.getFlag("tie_word_embeddings", false));
  return shape;
}

Result<HeadAttention> octet::readHeadAttention(ConfigReader &config,
                                               int64_t hidden) {
  HeadAttention attention;
  OCTET_TRY_ASSIGN(attention.heads, config.getSize("num_attention_heads"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> kvHeads,
                   config.findSize("num_key_value_heads"));
  attention.kvHeads = kvHeads.value_or(attention.heads);
  OCTET_TRY_ASSIGN(std::optional<int64_t> headDim, config.findSize("head_dim"));
  if (!headDim && hidden % attention.heads != 0)
    return inputError(config.getSubject(),
                      "has no head_dim, and hidden_size " +
                          std::to_string(hidden) +
                          " is not a multiple of num_attention_heads " +
                          std::to_string(attention.heads),
                      "C15");
  attention.headDim = headDim.value_or(hidden / attention.heads);
  OCTET_TRY_ASSIGN(int64_t width, multiply(config, "the width of all heads",
                                           attention.heads, attention.headDim));
  OCTET_TRY_ASSIGN(width, multiply(config, "the width of all KV heads",
                                   attention.kvHeads, attention.headDim));
  (void)width;
  return attention;
}

Result<Bias> octet::readBiasFlag(ConfigReader &config, std::string_view key) {
  if (!config.contains(key))
    return Bias::AsStored;
  OCTET_TRY_ASSIGN(bool flag, config.getFlag(key, false));
  return flag ? Bias::Yes : Bias::No;
}

/// "dense" or "sparse" for each layer.
static Status readLayerTypes(ConfigReader &config, const nlohmann::json &types,
                             int64_t layers, std::vector<bool> &sparse) {
  if (!types.is_array() || int64_t(types.size()) != layers)
    return inputError(config.getSubject(),
                      "mlp_layer_types is " +
                          (types.is_array()
                               ? "a list of " + std::to_string(types.size())
                               : describeJson(types)) +
                          "; expected a list of num_hidden_layers, which is " +
                          std::to_string(layers),
                      "C15");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const nlohmann::json &type = types[size_t(layer)];
    if (type != "dense" && type != "sparse")
      return inputError(config.getSubject(),
                        "mlp_layer_types[" + std::to_string(layer) + "] is " +
                            describeJson(type) +
                            "; expected 'dense' or 'sparse'",
                        "C15");
    sparse[size_t(layer)] = type == "sparse";
  }
  return Status::success();
}

Result<std::vector<bool>> octet::readSparseLayers(ConfigReader &config,
                                                  const DecoderShape &shape) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> first,
                   findCount(config, "first_k_dense_replace"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> frequency,
                   config.findSize("moe_layer_freq"));
  std::vector<bool> sparse(size_t(shape.layers + shape.drafts));
  for (int64_t layer = 0; layer < int64_t(sparse.size()); ++layer)
    sparse[size_t(layer)] =
        layer >= first.value_or(0) && layer % frequency.value_or(1) == 0;
  if (const nlohmann::json *types = config.find("mlp_layer_types"))
    OCTET_TRY(readLayerTypes(config, *types, shape.layers, sparse));
  return sparse;
}
