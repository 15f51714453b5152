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

/// One module: its tensors by last name component, and the config's word on
/// it. For `{e}` in its path, every expert has these.
struct StoredModule {
  std::string module; ///< below its layer, `self_attn.q_proj`; or whole
  std::string fused;  ///< likewise; empty if it is no shard
  ModuleKind kind = ModuleKind::Linear;
  int64_t n = 0, k = 0;
  int64_t experts = 0; ///< as ModuleEntry::experts
  bool packed = false; ///< all experts stand in one tensor
  StoredTensors tensors;
  std::optional<StoredTensor> bias;
  std::string declared;
  std::string file;

  /// The tensor that holds the weight's codes: `weight`, or another name of
  /// the method.
  std::string_view getCodes() const;
};

struct LayerFacts {
  std::vector<StoredModule> modules; ///< in the list's order
  StoredTensors kvScales; ///< below self_attn, in the file's spelling (W2)
  int64_t window = 0;
  std::string file; ///< of the input norm

  /// The module of that name below the layer, or null.
  const StoredModule *find(std::string_view name) const;
  /// The same, of one that the architecture has.
  const StoredModule &get(std::string_view name) const;
  /// The router of the layer's experts, or null in a dense layer.
  const StoredModule *findRouter() const;
  /// Gate, up and down; or gate_up and down of packed experts.
  std::vector<const StoredModule *> getExperts() const;

  /// Equal for layers that can share a function. What the config says counts
  /// by kind (ignored, a group), not by the entry that said it.
  std::string getKey() const;
};

/// `count` layers from `first` on have the facts `kind`.
struct KindRun {
  int64_t first, count;
  size_t kind;
};

/// A draft layer (W14): a decoder layer, and what joins it to the model.
struct DraftFacts {
  int64_t layer = 0;  ///< num_hidden_layers, or a later number
  size_t kind = 0;    ///< of its decoder layer, in ModelFacts::kinds
  LayerFacts modules; ///< enorm, hnorm, eh_proj, shared_head.norm, and copies
                      ///< of embedding and head where they are stored
};

struct ModelFacts {
  std::vector<LayerFacts> kinds; ///< of the first layer of each kind
  std::vector<DraftFacts> drafts;
  std::vector<KindRun> runs; ///< in the order of the layers
  std::optional<StoredTensor> embedding, norm;
  std::string embeddingFile, normFile;
  StoredModule lmHead; ///< module `lm_head`, or `model.embed_tokens` if tied
};

/// The entries of one layer, in their order.
std::span<const ModuleEntry> findLayer(const ModuleList &list, int64_t layer);

/// Reads what the headers store of each module of the list and checks shapes
/// against it (C13). `quant` may be null. Problems go to the inventory.
/// \param drafts  draft layers that are built (W14).
/// \returns an error if the model or the checkpoint has not so many, too.
Result<ModelFacts> readModelFacts(const DecoderConfig &config,
                                  const ModuleList &list, QuantConfig *quant,
                                  Inventory &inventory, int64_t drafts);

/// The facts of one layer alone, for --extract.
Result<LayerFacts> readLayerFacts(const DecoderConfig &config,
                                  const ModuleList &list, int64_t layer,
                                  QuantConfig *quant, Inventory &inventory);
/// The facts of lm_head alone, for --extract.
Result<StoredModule> readLmHeadFacts(const DecoderConfig &config,
                                     QuantConfig *quant, Inventory &inventory);

} // namespace octet

#endif // OCTET_LIB_IMPORT_LAYERS_H
