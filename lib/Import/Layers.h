//===- Layers.h - What each layer of a checkpoint stores --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The facts of every layer, read from the headers, and the kinds of layers: all
// layers whose facts are equal share one function.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_LAYERS_H
#define OCTET_LIB_IMPORT_LAYERS_H

#include "Architecture.h"
#include "Inventory.h"

namespace octet {

/// One linear: its tensors by last name component, and the config's word on it.
struct LinearFacts {
  std::string module; ///< below its layer, `self_attn.q_proj`; or whole
  std::string fused;  ///< likewise; empty if it is no shard
  int64_t n = 0, k = 0;
  StoredTensors tensors;
  std::optional<StoredTensor> bias;
  std::string declared;
  std::string file;
};

struct LayerFacts {
  std::optional<StoredTensor> inputNorm, postNorm, qNorm, kNorm;
  LinearFacts q, k, v, o, gate, up, down;
  StoredTensors kvScales; ///< below self_attn, in the file's spelling (W2)
  int64_t window = 0;
  std::string file; ///< of the input norm

  /// Equal for layers that can share a function. What the config says counts
  /// by kind (ignored, a group), not by the entry that said it.
  std::string getKey() const;
};

/// `count` layers from `first` on have the facts `kind`.
struct KindRun {
  int64_t first, count;
  size_t kind;
};

struct ModelFacts {
  std::vector<LayerFacts> kinds; ///< of the first layer of each kind
  std::vector<KindRun> runs;     ///< in the order of the layers
  std::optional<StoredTensor> embedding, norm;
  std::string embeddingFile, normFile;
  LinearFacts lmHead; ///< module `lm_head`, or `model.embed_tokens` if tied
};

/// Reads the facts of one module of the checkpoint and checks shapes against
/// the config (C13). `quant` may be null. Problems go to the inventory.
Result<ModelFacts> readModelFacts(const DecoderConfig &config,
                                  QuantConfig *quant, Inventory &inventory);

/// The facts of one layer alone, for --extract.
Result<LayerFacts> readLayerFacts(const DecoderConfig &config, int64_t layer,
                                  QuantConfig *quant, Inventory &inventory);
/// The facts of lm_head alone, for --extract.
Result<LinearFacts> readLmHeadFacts(const DecoderConfig &config,
                                    QuantConfig *quant, Inventory &inventory);

} // namespace octet

#endif // OCTET_LIB_IMPORT_LAYERS_H
