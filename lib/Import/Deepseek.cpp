//===- Deepseek.cpp - DeepSeek-V2 to V3.2 and GLM-5 -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Latent attention, whose 64 rotated dimensions pair neighbours; dense layers
// first, then experts with a sigmoid router (V3 on; Kimi-K2 is a V3) or a
// softmax (V2). DeepSeek-V3.2 and GLM-5 read the keys that an indexer chooses;
// it pairs halves in the first, neighbours in the second.
//
//===----------------------------------------------------------------------===//

#include "Architecture.h"
#include "octet/Support/Escape.h"
#include <cmath>

using namespace octet;

/// 1 / sqrt(width of a head), times the square of YaRN's magnitude if the
/// config scales all dimensions.
static float computeScale(const LatentAttention &latent,
                          const RopeParameters &rope) {
  double scale = 1 / std::sqrt(double(latent.nopeDim + latent.ropeDim));
  if (rope.type == RopeParameters::Type::Yarn && rope.mscaleAllDim &&
      rope.factor > 1) {
    double magnitude = 0.1 * *rope.mscaleAllDim * std::log(rope.factor) + 1;
    scale *= magnitude * magnitude;
  }
  return float(scale);
}

/// `scoring_func`, with the default of the architecture.
static Status readScore(ConfigReader &config, ExpertsConfig &experts) {
  OCTET_TRY_ASSIGN(std::optional<std::string> word,
                   config.findString("scoring_func"));
  if (!word)
    return Status::success();
  if (*word != "sigmoid" && *word != "softmax")
    return inputError(config.getSubject(),
                      config.describe("scoring_func") +
                          "; 'sigmoid' and 'softmax' are built",
                      "P12");
  experts.score = *word == "sigmoid" ? ExpertsConfig::Score::Sigmoid
                                     : ExpertsConfig::Score::Softmax;
  return Status::success();
}

/// `greedy` has no groups, the others do.
static Status readMethod(ConfigReader &config, ExpertsConfig &experts) {
  OCTET_TRY_ASSIGN(std::optional<std::string> method,
                   config.findString("topk_method"));
  if (!method || *method == "noaux_tc" || *method == "group_limited_greedy")
    return Status::success();
  if (*method != "greedy")
    return inputError(config.getSubject(),
                      config.describe("topk_method") +
                          "; 'noaux_tc', 'group_limited_greedy' and 'greedy' "
                          "are built",
                      "P12");
  experts.groups = experts.topGroups = 1;
  return Status::success();
}

static Result<DecoderConfig>
readLatentDecoder(ConfigReader &config, const DecoderShape &shape,
                  const ExpertsConfig &defaults,
                  std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderConfig result,
                   readDecoder(config, warnings, /*isLatent=*/true));
  config.ignore({"head_dim", "num_key_value_heads", "qk_head_dim"});
  result.latent = shape.latent;
  OCTET_TRY_ASSIGN(result.ropeInterleaved,
                   config.getFlag("rope_interleave", true));
  result.attentionScale = computeScale(*shape.latent, result.rope);
  if (shape.experts) {
    OCTET_TRY_ASSIGN(result.experts,
                     readRouter(config, *shape.experts, defaults));
    OCTET_TRY(readScore(config, *result.experts));
    OCTET_TRY(readMethod(config, *result.experts));
  }
  return result;
}

static Status readIndexer(ConfigReader &config, const Indexer &indexer,
                          bool interleaved, DecoderConfig &result) {
  config.ignore({"index_share_for_mtp_iteration"});
  IndexerConfig read;
  read.heads = indexer.heads;
  read.dim = indexer.dim;
  OCTET_TRY_ASSIGN(read.topK, config.getSize("index_topk"));
  OCTET_TRY_ASSIGN(read.interleaved,
                   config.getFlag("indexer_rope_interleave", interleaved));
  if (read.dim < result.latent->ropeDim)
    return inputError(config.getSubject(),
                      config.describe("index_head_dim") +
                          "; expected at least qk_rope_head_dim, which is " +
                          std::to_string(result.latent->ropeDim),
                      "P9");
  result.indexer = read;
  return Status::success();
}

Result<DecoderConfig>
octet::readDeepseekV2(ConfigReader &config,
                      std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDeepseek(config));
  return readLatentDecoder(config, shape, ExpertsConfig(), warnings);
}

/// The router's defaults from V3 on.
static ExpertsConfig getDefaults(int64_t groups, int64_t topGroups) {
  ExpertsConfig defaults;
  defaults.score = ExpertsConfig::Score::Sigmoid;
  defaults.groups = groups;
  defaults.topGroups = topGroups;
  defaults.normalize = true;
  return defaults;
}

Result<DecoderConfig>
octet::readDeepseekV3(ConfigReader &config,
                      std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readDeepseek(config));
  return readLatentDecoder(config, shape, getDefaults(8, 4), warnings);
}

Result<DecoderConfig>
octet::readDeepseekV32(ConfigReader &config,
                       std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readSparseDeepseek(config));
  OCTET_TRY_ASSIGN(
      DecoderConfig result,
      readLatentDecoder(config, shape, getDefaults(8, 4), warnings));
  OCTET_TRY(readIndexer(config, *shape.indexer, /*interleaved=*/false, result));
  return result;
}

Result<DecoderConfig> octet::readGlmMoeDsa(ConfigReader &config,
                                           std::vector<std::string> &warnings) {
  OCTET_TRY_ASSIGN(DecoderShape shape, readSparseDeepseek(config));
  OCTET_TRY_ASSIGN(
      DecoderConfig result,
      readLatentDecoder(config, shape, getDefaults(1, 1), warnings));
  OCTET_TRY(readIndexer(config, *shape.indexer, /*interleaved=*/true, result));
  return result;
}
