//===- Glm.cpp - GLM-4.5 to 4.7 -------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Glm4MoeForCausalLM: heads of keys and values of which the first half is
// rotated, optional q/k norms, dense layers first, a sigmoid router with a
// correction and a shared expert.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"

using namespace octet;

Result<DecoderConfig>
octet::readGlm4MoeDecoder(ConfigReader &config,
                          std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readGlm4Moe(config));
  OCTET_TRY_ASSIGN(DecoderConfig result, readDecoder(config, warnings));
  // The architecture's default, where neither place says it (C15).
  OCTET_TRY_ASSIGN(std::optional<ConfigReader> parameters,
                   config.findObject("rope_parameters"));
  if (!config.contains("partial_rotary_factor") &&
      !(parameters && parameters->contains("partial_rotary_factor")))
    result.rope.partial = 0.5;
  result.qkNorm = shape.attention->qkNorm;
  ExpertsConfig defaults;
  defaults.score = ExpertsConfig::Score::Sigmoid;
  defaults.normalize = true;
  OCTET_TRY_ASSIGN(result.experts,
                   readRouter(config, *shape.experts, defaults));
  return result;
}
