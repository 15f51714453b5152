//===- Llama.cpp - Llama, Mistral and Mixtral -----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// LlamaForCausalLM: q, k, v, o may have a bias (`attention_bias`), the MLP too
// (`mlp_bias`). MistralForCausalLM: every layer may see only the last
// `sliding_window` keys. MixtralForCausalLM: experts in every layer, softmax
// over all of them, the chosen ones' weights normalised.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"

using namespace octet;

Result<DecoderConfig> octet::readLlama(ConfigReader &config,
                                       std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readLlamaShape(config));
  (void)shape;
  return readDecoder(config, warnings);
}

Result<DecoderConfig> octet::readMistral(ConfigReader &config,
                                         std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  OCTET_TRY_ASSIGN(int64_t window, readSlidingWindow(config));
  OCTET_TRY(readWindows(
      config, window, [](int64_t, int64_t) { return true; },
      /*firstSliding=*/0, result));
  return result;
}

Result<DecoderConfig>
octet::readMixtralDecoder(ConfigReader &config,
                          std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readMixtral(config));
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  ExpertsConfig defaults;
  defaults.topK = 2;
  defaults.normalize = true;
  OCTET_TRY_ASSIGN(result.experts,
                   readRouter(config, *shape.experts, defaults));
  OCTET_TRY_ASSIGN(std::optional<int64_t> window,
                   config.findSize("sliding_window"));
  OCTET_TRY(readWindows(
      config, window.value_or(0), [](int64_t, int64_t) { return true; },
      /*firstSliding=*/0, result));
  return result;
}
