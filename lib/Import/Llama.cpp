//===- Llama.cpp - Llama and Mistral --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// LlamaForCausalLM: q, k, v, o may have a bias (`attention_bias`), the MLP too
// (`mlp_bias`). MistralForCausalLM: no bias, and every layer may see only the
// last `sliding_window` keys.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"

using namespace octet;

Result<DecoderConfig> octet::readLlama(ConfigReader &config,
                                       std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  OCTET_TRY_ASSIGN(result.qkvBias, readBias(config, "attention_bias"));
  result.outputBias = result.qkvBias;
  OCTET_TRY_ASSIGN(result.mlpBias, readBias(config, "mlp_bias"));
  return result;
}

Result<DecoderConfig> octet::readMistral(ConfigReader &config,
                                         std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  result.qkvBias = result.outputBias = result.mlpBias = Bias::AsStored;
  OCTET_TRY_ASSIGN(int64_t window, readSlidingWindow(config));
  OCTET_TRY(readWindows(
      config, window, [](int64_t, int64_t) { return true; },
      /*firstSliding=*/0, result));
  return result;
}
