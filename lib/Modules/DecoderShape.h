//===- DecoderShape.h - What families tell the list of modules --*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A family reads config.json into a DecoderShape; ModuleList.cpp makes the list
// from it. Adding a family is a reader and a line in Families.def.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_MODULES_DECODERSHAPE_H
#define OCTET_LIB_MODULES_DECODERSHAPE_H

#include "lib/Import/ConfigReader.h"
#include "octet/Modules/ModuleList.h"

namespace octet {

/// Attention with keys and values of heads.
struct HeadAttention {
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  bool qkNorm = false; ///< RMSNorm of each head of q and k
  bool sinks = false;  ///< a logit a head (gpt-oss)
  Bias qkvBias = Bias::No, outputBias = Bias::No;
};

/// Multi-head latent attention (MLA).
struct LatentAttention {
  int64_t heads = 0;
  int64_t qRank = 0; ///< q_lora_rank; 0: q_proj is one matrix
  int64_t kvRank = 0;
  int64_t nopeDim = 0, ropeDim = 0, valueDim = 0;
  Bias bias = Bias::No;
};

/// The indexer of sparse attention (P9).
struct Indexer {
  int64_t heads = 0, dim = 0;
  std::vector<bool> owns; ///< by layer, draft layers included
};

/// Routed experts.
struct Experts {
  int64_t count = 0, width = 0;
  int64_t sharedWidth = 0; ///< of the shared experts together; 0: none
  bool correction = false; ///< e_score_correction_bias (W13)
  bool packed = false;     ///< one tensor for all experts, with biases
  std::string_view block = "mlp", router = "gate";
  std::string_view gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::string_view fused = "gate_up_proj"; ///< of gate and up
  std::vector<bool> sparse;                ///< by layer, draft layers included
};

struct DecoderShape {
  int64_t vocab = 0, hidden = 0, intermediate = 0;
  int64_t layers = 0, drafts = 0;
  bool tied = false;
  Bias mlpBias = Bias::No;
  std::optional<HeadAttention> attention; ///< one of the two
  std::optional<LatentAttention> latent;
  std::optional<Indexer> indexer;
  std::optional<Experts> experts;
};

using ShapeReader = Result<DecoderShape> (*)(ConfigReader &config);

#define OCTET_FAMILY(NAME, READER)                                             \
  Result<DecoderShape> READER(ConfigReader &config);
#define OCTET_UNSUPPORTED(NAME, PART)
#include "Families.def"

//===----------------------------------------------------------------------===//
// For the families
//===----------------------------------------------------------------------===//

/// Vocabulary, hidden size, layers, draft layers and tying.
/// \param needsIntermediate  `intermediate_size` has to be there.
Result<DecoderShape> readShape(ConfigReader &config, bool needsIntermediate);
/// Heads, KV heads and their width.
Result<HeadAttention> readHeadAttention(ConfigReader &config, int64_t hidden);
/// A switch such as `attention_bias`; what is stored decides where it is
/// absent.
Result<Bias> readBiasFlag(ConfigReader &config, std::string_view key);
/// Layers from `first_k_dense_replace` on, each `moe_layer_freq`-th, or what
/// `mlp_layer_types` says; draft layers as the last rule.
Result<std::vector<bool>> readSparseLayers(ConfigReader &config,
                                           const DecoderShape &shape);
/// A method of routed experts that the user named, to quantise while loading,
/// finds some (C12).
Status checkExperts(const ModuleList &list,
                    const std::optional<QuantConfig> &config);
/// `--mtp` asks for no more draft layers than the model has (W14).
Status checkDrafts(const ModuleList &list, int64_t drafts);
/// An integer from 0 on, or nothing.
Result<std::optional<int64_t>> findCount(ConfigReader &config,
                                         std::string_view key);
/// A product of two sizes that int32 rows and columns hold.
Result<int64_t> multiply(ConfigReader &config, std::string_view what, int64_t a,
                         int64_t b);

} // namespace octet

#endif // OCTET_LIB_MODULES_DECODERSHAPE_H
