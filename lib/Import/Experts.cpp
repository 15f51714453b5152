//===- Experts.cpp - What routers read ------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"
#include <cmath>

using namespace octet;

/// A factor that float32 holds.
static Status readScale(ConfigReader &config, float &scale) {
  OCTET_TRY_ASSIGN(std::optional<double> factor,
                   config.findPositive("routed_scaling_factor"));
  if (!factor)
    return Status::success();
  scale = float(*factor);
  if (!std::isfinite(scale) || scale <= 0)
    return inputError(config.getSubject(),
                      config.describe("routed_scaling_factor") +
                          "; expected a number that float32 can hold",
                      "C15");
  return Status::success();
}

Result<ExpertsConfig> octet::readRouter(ConfigReader &config,
                                        const Experts &experts,
                                        ExpertsConfig defaults) {
  // What only training reads.
  config.ignore({"aux_loss_alpha", "ep_size", "output_router_logits",
                 "router_aux_loss_coef", "router_jitter_noise", "seq_aux",
                 "norm_topk_prob", "moe_router_dtype"});
  ExpertsConfig result = defaults;
  result.count = experts.count;
  OCTET_TRY_ASSIGN(std::optional<int64_t> topK,
                   config.findSize("num_experts_per_tok"));
  if (!topK && defaults.topK == 0) {
    OCTET_TRY_ASSIGN(topK, config.getSize("num_experts_per_tok"));
  }
  result.topK = topK.value_or(defaults.topK);
  OCTET_TRY_ASSIGN(std::optional<int64_t> groups, config.findSize("n_group"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> topGroups,
                   config.findSize("topk_group"));
  result.groups = groups.value_or(defaults.groups);
  result.topGroups = topGroups.value_or(defaults.topGroups);
  if (result.topGroups == result.groups) // all of them are one
    result.groups = result.topGroups = 1;
  OCTET_TRY_ASSIGN(result.normalize,
                   config.getFlag("norm_topk_prob", defaults.normalize));
  OCTET_TRY(readScale(config, result.scale));
  if (result.count % result.groups != 0 || result.topGroups > result.groups)
    return inputError(config.getSubject(),
                      config.describe("n_group") + " and " +
                          config.describe("topk_group") +
                          "; expected groups that divide the " +
                          std::to_string(result.count) +
                          " experts, and no more chosen than there are",
                      "P12");
  int64_t most = result.count / result.groups * result.topGroups;
  if (result.topK > most)
    return inputError(config.getSubject(),
                      config.describe("num_experts_per_tok") +
                          "; expected at most " + std::to_string(most) +
                          ", the experts of the groups chosen",
                      "P12");
  return result;
}
