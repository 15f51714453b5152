//===- Qwen.cpp - Qwen2, Qwen3 and Qwen3-MoE ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Qwen2ForCausalLM: q, k and v always have a bias, o never. Qwen3ForCausalLM:
// `attention_bias` as in Llama, and an RMSNorm over each head of q and k. In
// both, layers from `max_window_layers` on see the last `sliding_window` keys
// if `use_sliding_window` says so. Qwen3MoeForCausalLM: Qwen3 with experts,
// softmax over all of them.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"
#include "octet/QuantMethods/QuantMethods.h"

using namespace octet;

Status octet::readLateWindows(ConfigReader &config, DecoderConfig &result) {
  OCTET_TRY_ASSIGN(bool use, config.getFlag("use_sliding_window", false));
  OCTET_TRY_ASSIGN(int64_t window, readSlidingWindow(config));
  int64_t firstSliding = 28; // the default of both architectures
  if (const nlohmann::json *value = config.find("max_window_layers")) {
    std::optional<int64_t> layer = toInteger(*value);
    if (!layer || *layer < 0 || *layer > kMaxSize)
      return inputError(config.getSubject(),
                        config.describe("max_window_layers") +
                            "; expected an integer from 0 to " +
                            std::to_string(kMaxSize),
                        "C15");
    firstSliding = *layer;
  }
  return readWindows(
      config, use ? window : 0,
      [](int64_t layer, int64_t start) { return layer >= start; }, firstSliding,
      result);
}

Result<DecoderConfig> octet::readQwen2(ConfigReader &config,
                                       std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  OCTET_TRY(readLateWindows(config, result));
  return result;
}

Result<DecoderConfig> octet::readQwen3(ConfigReader &config,
                                       std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readQwen3Shape(config));
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  result.qkNorm = shape.attention->qkNorm;
  OCTET_TRY(readLateWindows(config, result));
  return result;
}

Result<DecoderConfig>
octet::readQwen3MoeDecoder(ConfigReader &config,
                           std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readQwen3Moe(config));
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  result.qkNorm = true;
  OCTET_TRY_ASSIGN(result.experts,
                   readRouter(config, *shape.experts, ExpertsConfig()));
  OCTET_TRY(readLateWindows(config, result));
  return result;
}
