//===- GptOss.cpp - gpt-oss -----------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// GptOssForCausalLM: a sink a head, every other layer sees the last
// `sliding_window` keys, the router softmaxes the chosen logits, and the
// experts' SwiGLU is clamped.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"

using namespace octet;

Result<DecoderConfig>
octet::readGptOssDecoder(ConfigReader &config,
                         std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readGptOss(config));
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  config.ignore({"experts_per_token", "initial_context_length"});
  OCTET_TRY_ASSIGN(std::optional<int64_t> window,
                   config.findSize("sliding_window"));
  OCTET_TRY(readWindows(
      config, window.value_or(0),
      [](int64_t layer, int64_t) { return layer % 2 == 0; },
      /*firstSliding=*/0, result));
  ExpertsConfig defaults;
  defaults.topK = 4;
  defaults.score = ExpertsConfig::Score::ChosenSoftmax;
  OCTET_TRY_ASSIGN(result.experts,
                   readRouter(config, *shape.experts, defaults));
  OCTET_TRY_ASSIGN(std::optional<double> limit,
                   config.findPositive("swiglu_limit"));
  result.experts->limit = float(limit.value_or(7.0));
  return result;
}
