//===- Architecture.h - What an architecture family tells the importer *- C++
//-*-===//
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
#include "octet/Modules/ModuleList.h"

namespace octet {

/// A decoder of the Llama shape: attention and a gated MLP, each behind an
/// RMSNorm and with a residual sum.
struct DecoderConfig {
  int64_t vocab = 0, hidden = 0, intermediate = 0, layers = 0;
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  int64_t maxPositions = 0; ///< tokens that the config allows
  float normEps = 0;
  bool tied = false;   ///< tie_word_embeddings (W15)
  bool qkNorm = false; ///< RMSNorm of each head of q and k
  Bias qkvBias = Bias::No, outputBias = Bias::No, mlpBias = Bias::No;
  RopeParameters rope;
  /// Keys that a layer's attention sees, 0 for all; one a layer.
  std::vector<int64_t> windows;
};

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
Result<DecoderConfig> readDecoder(ConfigReader &config,
                                  std::vector<std::string> &warnings);
/// A switch such as `attention_bias`; what is stored decides where it is
/// absent.
Result<Bias> readBias(ConfigReader &config, std::string_view key);
/// `sliding_window`: its width; 0 for `null`; where it is absent 4096, the
/// default of the architectures that have one.
Result<int64_t> readSlidingWindow(ConfigReader &config);
/// `layer_types`, if present, chooses between `window` and all keys.
/// \param window    0: no layer slides.
/// \param slides    what a layer does without layer_types.
Status readWindows(ConfigReader &config, int64_t window,
                   bool (*slides)(int64_t layer, int64_t firstSliding),
                   int64_t firstSliding, DecoderConfig &result);

} // namespace octet

#endif // OCTET_LIB_IMPORT_ARCHITECTURE_H
