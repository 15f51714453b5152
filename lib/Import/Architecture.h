//===- Architecture.h - What a family tells the importer --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A family reads config.json into a DecoderConfig; the builder in Decoder.cpp
// makes the IR. Adding a family of decoders that differ in switches is adding a
// file with a reader and a line in Architectures.def.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_ARCHITECTURE_H
#define OCTET_LIB_IMPORT_ARCHITECTURE_H

#include "ConfigReader.h"
#include "Rope.h"
#include "lib/Modules/DecoderShape.h"
#include "octet/Modules/ModuleList.h"

namespace octet {

/// How experts are chosen and what they compute (P12, P14).
struct ExpertsConfig {
  enum class Score { Softmax, Sigmoid, ChosenSoftmax };
  Score score = Score::Softmax;
  int64_t count = 0, topK = 0, groups = 1, topGroups = 1;
  bool normalize = false;
  float scale = 1; ///< routed_scaling_factor
  /// Of the clamped SwiGLU, whose gate and up alternate by rows (gpt-oss).
  std::optional<float> limit;
};

/// How the indexer chooses keys (P9); its sizes, and which layers own one.
struct IndexerConfig {
  int64_t heads = 0, dim = 0, topK = 0;
  bool interleaved = false; ///< RoPE pairs neighbours
};

/// A decoder: attention and a gated MLP or experts, each behind an RMSNorm and
/// with a residual sum. What its modules are called and how large they are is
/// in the ModuleList.
struct DecoderConfig {
  int64_t vocab = 0, hidden = 0, intermediate = 0, layers = 0;
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  int64_t maxPositions = 0; ///< tokens that the config allows
  float normEps = 0;
  bool tied = false;   ///< tie_word_embeddings (W15)
  bool qkNorm = false; ///< RMSNorm of each head of q and k
  RopeParameters rope;
  float attentionScale = 0; ///< of the scores
  /// Latent attention; then `heads` counts, `kvHeads` and `headDim` do not.
  std::optional<LatentAttention> latent;
  bool ropeInterleaved = false; ///< RoPE pairs neighbours
  std::optional<IndexerConfig> indexer;
  std::optional<ExpertsConfig> experts;
  /// Keys that a layer's attention sees, 0 for all; one a layer.
  std::vector<int64_t> windows;
};

/// The values of a head that RoPE may rotate.
inline int64_t getRopeWidth(const DecoderConfig &config) {
  return config.latent ? config.latent->ropeDim : config.headDim;
}

/// Reads a config of one architecture. \param warnings  see readRope.
using ArchitectureReader = Result<DecoderConfig> (*)(
    ConfigReader &config, std::vector<std::string> &warnings);

struct Architecture {
  std::string_view name; ///< as in `architectures`
  ArchitectureReader read;
};

/// The architecture that config.json names. \returns an input error that lists
/// the known ones.
Result<const Architecture *> findArchitecture(ConfigReader &config);

#define OCTET_ARCHITECTURE(NAME, READER)                                       \
  Result<DecoderConfig> READER(ConfigReader &config,                           \
                               std::vector<std::string> &warnings);
#include "Architectures.def"

//===----------------------------------------------------------------------===//
// For the families
//===----------------------------------------------------------------------===//

/// The sizes, norm, rotary embedding and tying that all families share; checks
/// that heads divide, that `hidden_act` is silu, and that sizes do not
/// overflow.
/// \param isLatent  attention is latent: there are no KV heads.
Result<DecoderConfig> readDecoder(ConfigReader &config,
                                  std::vector<std::string> &warnings,
                                  bool isLatent = false);
/// What all routers read: `num_experts_per_tok` and, if they are there,
/// `n_group`, `topk_group`, `norm_topk_prob`, `routed_scaling_factor`. Checks
/// that so many experts can be chosen (P12).
Result<ExpertsConfig> readRouter(ConfigReader &config, const Experts &experts,
                                 ExpertsConfig defaults);
/// `sliding_window`: its width; 0 for `null`; where it is absent 4096, the
/// default of the architectures that have one.
Result<int64_t> readSlidingWindow(ConfigReader &config);
/// `layer_types`, if present, chooses between `window` and all keys.
/// \param window    0: no layer slides.
/// \param slides    what a layer does without layer_types.
Status readWindows(ConfigReader &config, int64_t window,
                   bool (*slides)(int64_t layer, int64_t firstSliding),
                   int64_t firstSliding, DecoderConfig &result);
/// Windows of the Qwen families: from layer `max_window_layers` on, if
/// `use_sliding_window` says so.
Status readLateWindows(ConfigReader &config, DecoderConfig &result);

} // namespace octet

#endif // OCTET_LIB_IMPORT_ARCHITECTURE_H
