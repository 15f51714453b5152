//===- ModuleList.h - The modules of an architecture ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Which modules a config.json implies: their paths as checkpoints name them,
// kinds (C11), sides, biases, fused run-time modules (C8) and splits (W3). With
// the scheme of a module (lib/QuantMethods) this gives every tensor of a
// checkpoint, from config.json alone. No weight, no header, no LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_MODULES_MODULELIST_H
#define OCTET_MODULES_MODULELIST_H

#include "octet/QuantMethods/QuantMethods.h"

namespace octet {

/// Whether linears have a bias: what the config says, or what is stored where
/// it says nothing.
enum class Bias { No, Yes, AsStored };

/// What tensor-parallel ranks do with a module (W3, W3b).
enum class Split {
  Replicated,
  Columns,    ///< the output: rows of the weight
  Rows,       ///< the input: columns of the weight
  Vocabulary, ///< the output; the last rank may be short
};

/// A tensor of a module that is no weight, scale or bias of a matrix.
struct PlainTensor {
  std::string name; ///< below the module, as ExpectedTensor
  std::vector<int64_t> shape;
  bool isFloat32 = false; ///< F32 whatever the model's dtype (W13)
};

/// One module, or the same module of all experts of a layer.
struct ModuleEntry {
  /// "model.layers.3.mlp.experts.{e}.gate_proj": `{e}` is 0 .. experts - 1.
  std::string path;
  ModuleKind kind = ModuleKind::Linear;
  /// The run-time module that it is a shard of; empty if it is none (C8).
  std::string fused = {};
  /// Weight [n, k]; of a norm [n] with k 0; n is 0 where there is no weight.
  int64_t n = 0, k = 0;
  /// Experts that the path stands for; 0: it is one module.
  int64_t experts = 0;
  /// All experts stand in one tensor, and the path has no `{e}`.
  bool packed = false;
  Split split = Split::Replicated;
  /// Heads that the columns (rows, of o_proj) consist of; 0 if of none (W3b).
  int64_t heads = 0;
  Bias bias = Bias::No;
  /// Of a draft layer (W14).
  bool isDraft = false;
  /// A checkpoint may leave it out: a copy of the embedding or of the head.
  bool isOptional = false;
  std::vector<PlainTensor> others = {};

  /// Modules of a checkpoint that it stands for.
  int64_t count() const { return experts > 0 && !packed ? experts : 1; }
  /// The path with an expert's number.
  std::string getPath(int64_t expert) const;
};

struct ModuleList {
  std::string architecture; ///< as in `architectures`
  std::string prefix;       ///< before `model.`: "language_model." of a wrapper
  int64_t layers = 0;       ///< num_hidden_layers
  int64_t draftLayers = 0;  ///< behind them (W14)
  bool tied = false;        ///< lm_head is the embedding (W15)
  std::vector<ModuleEntry> modules; ///< in the order of the layers
  /// Names that configs of this architecture have for others (C7).
  std::vector<NameAlias> aliases;
};

/// The modules of a config.
/// \param textPart  a model with a vision part is listed without it; otherwise
///                  it is refused.
/// \returns an input error that names the part of an architecture which is not
/// supported, or a field of the wrong type or value (C15).
Result<ModuleList> listModules(const nlohmann::json &config,
                               bool textPart = false);

/// A tensor of a checkpoint as the config implies it.
struct ImpliedTensor {
  std::string path;        ///< of the module, with `{e}`
  ExpectedTensor expected; ///< its names are below the path
  int64_t experts = 0;     ///< as ModuleEntry::experts, 0 if packed
  bool isOptional = false;

  /// The whole name: a name that starts with `_` goes on the path itself.
  std::string getName(const std::string &name, int64_t expert) const;
};

/// The tensors of one module.
/// \param method  registry name, for the spelling of scales (W2).
/// \param scheme  none: unquantised.
std::vector<ImpliedTensor> implyTensors(const ModuleEntry &module,
                                        std::string_view method,
                                        const std::optional<Scheme> &scheme);

} // namespace octet

#endif // OCTET_MODULES_MODULELIST_H
