//===- QuantMethods.h - The method registry ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What a checkpoint's quantisation config says, and what follows from it for
// one module: the method (what the stored codes mean, C1-C15) and the operand
// contract (what the kernel reads, B1-B4). No MLIR: `octet check`, the importer
// and resolve-quant-methods call the same functions, so that a rule has one
// wording.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTMETHODS_QUANTMETHODS_H
#define OCTET_QUANTMETHODS_QUANTMETHODS_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/QuantMethods/NameMatcher.h"
#include "octet/QuantMethods/Target.h"
#include "octet/QuantMethods/WeightFormat.h"
#include "octet/Support/Status.h"
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet {

//===----------------------------------------------------------------------===//
// Kinds, contract
//===----------------------------------------------------------------------===//

/// What a module is; it decides who answers for its weight (C11).
enum class ModuleKind {
  Linear,
  RoutedExpert, ///< a matrix of one expert, or of all in one tensor
  Router,
  Embedding,
  LmHead,
  Norm,
  Attention, ///< has no weight, and answers for the KV cache
  Other,     ///< never quantised: the indexer's head weights, a draft's eh_proj
};

/// In which order a kernel reads the scales of an activation (B1, P3).
enum class ScaleOrder {
  Rows,        ///< [M, groups]
  ColumnMajor, ///< F32 [groups, M], M rounded up to 4
  Words,       ///< four exponents a word, [cdiv(groups, 4), M] alike
};

/// Operand contract of one operator (section 4): what its kernel reads.
struct Contract {
  bool quantized = false;
  Granularity weight;
  std::optional<Granularity> activation; ///< none: weight-only
  bool isStatic = false;                 ///< the activation's scale is stored
  bool ue8m0 = false;     ///< activation scales are powers of two (N4, P3)
  WeightFormat format;    ///< of the weight as the kernel reads it
  ActivationFormat input; ///< only with an activation
  /// A weight-only kernel of the target has an order of its own, which loading
  /// brings the codes into (C10).
  bool repacked = false;
  ScaleOrder inputScales = ScaleOrder::Rows; ///< only with an activation
  bool operator==(const Contract &) const = default;
};

//===----------------------------------------------------------------------===//
// The config
//===----------------------------------------------------------------------===//

/// A JSON value of a file, fit for a message: a string as quoteName has it,
/// anything else as JSON, cut at 200 bytes.
std::string describeJson(const nlohmann::json &value);
/// The value of a JSON integer; nothing for any other value, `1.0` included,
/// and for one that does not fit.
std::optional<int64_t> toInteger(const nlohmann::json &value);

/// The JSON object that C1 found, and where it stood.
struct FoundConfig {
  nlohmann::json fields;
  std::string source; ///< "config.json: quantization_config", for messages
};

/// C1: `quantization_config`, `text_config.quantization_config`,
/// `compression_config`, then hf_quant_config.json. `null` counts as absent.
/// \returns nothing for an unquantised checkpoint; an input error if what
/// stands there is no object.
Result<std::optional<FoundConfig>>
findQuantConfig(const nlohmann::json &config,
                const nlohmann::json &hfQuantConfig);

/// One target group of a compressed-tensors config.
struct SchemeGroup {
  std::string name;
  Scheme scheme;
  bool allLinears = false; ///< the class name `Linear` is among the targets
  NameList paths;          ///< module paths
  NameList patterns;       ///< `re:` patterns
  bool skips = false;      ///< what matches is not quantised (`-:` of gptq)
};

/// A quantisation config as one method of the registry reads it.
struct QuantConfig {
  std::string method; ///< registry name of the semantics (C2, C3)
  std::string source; ///< where it stood; empty if only the user named it
  /// The checkpoint holds quantised codes (C4). Otherwise weights are quantised
  /// while loading (W10).
  bool serialized = true;
  /// The scheme of every linear that no list names; only without groups.
  std::optional<Scheme> scheme;
  std::vector<SchemeGroup> groups;
  NameList ignore;
  /// C12: `scheme` is for routed experts only.
  bool expertsOnly = false;
  /// The config quantises lm_head (P16).
  bool lmHead = false;
  bool ue8m0 = false; ///< scale_fmt: ue8m0 (P3)
  /// `groups` stand in the order of the file, of which the first that matches
  /// counts (gptq). Otherwise two that say different things are refused.
  bool ordered = false;
  /// What declares an FP8 KV cache (`kv_cache_scheme is 'static'`), or empty.
  std::string kvCache;
  /// Fields that could change results and are not understood (C15), and
  /// oddities that were settled.
  std::vector<ErrorInfo> warnings;
  /// What was chosen and could have been otherwise (C10).
  std::vector<ErrorInfo> remarks;

  const SchemeGroup *findGroup(std::string_view name) const;
  /// The lists of names, to mark and report (C7).
  std::vector<NameList *> getLists();
};

/// What a config is read for.
enum class Purpose {
  Compile,  ///< a format that no pass compiles yet is an error
  Describe, ///< all methods and formats that can be read
};

/// Reads a config by the method it names, or by the one the user named.
/// \param found        what C1 found; null: an unquantised checkpoint.
/// \param userMethod   `--quantization`, or empty (C3).
/// \param target       the family that the registry entry is for.
/// \returns nothing if the checkpoint is unquantised and the user named no
/// method; an input error with its rule: unknown method (C2), a method that is
/// not built for this target (C2), a method that cannot read this layout (C3),
/// a field of the wrong type or value (C4), C5.
Result<std::optional<QuantConfig>>
readQuantConfig(const FoundConfig *found, std::string_view userMethod,
                const Target &target, Purpose purpose = Purpose::Compile);

/// The method runs on the target: the compute capability of section 2 (C9).
/// \param mxfp8As  `--mxfp8-as`: what mxfp8 is run as where it is not native
///                 (B6), or empty.
Status checkMethodTarget(std::string_view method, const Target &target,
                         std::string_view option,
                         std::string_view mxfp8As = "");

/// Names of the methods that a config or the user may name, sorted.
std::vector<std::string_view> getMethodNames(TargetFamily family);

/// What the config says of one module (C7, C8): "" where its default applies,
/// "ignored: FIELD[i] 'ENTRY'", "group: NAME", or "no group" where groups exist
/// and none names it.
/// \param fused          the run-time module it is a shard of, or "".
/// \param fusedIsStored  that name is itself a module of the checkpoint, so the
///                       entry names that and not this shard.
Result<std::string> declareModule(QuantConfig &config, std::string_view module,
                                  std::string_view fused, bool fusedIsStored);

/// What the config alone says of a module of some kind (C7, C11, C12), before
/// any header is read.
struct Declaration {
  std::string declared;         ///< as declareModule
  std::optional<Scheme> scheme; ///< none: unquantised
};
/// \param fusedIsStored  as declareModule.
Result<Declaration> declareKind(QuantConfig &config, std::string_view module,
                                std::string_view fused, ModuleKind kind,
                                bool fusedIsStored = false);

/// What one shard of a fused module is. A shard that the checkpoint does not
/// have does not vote (C8).
struct ShardVote {
  std::string name; ///< "q_proj"
  bool quantized = false;
  std::string declared; ///< what declareModule said
};
/// Why shards of which some are quantised do not agree: "q_proj and k_proj are
/// quantised but v_proj is on the ignore list". Empty if they do.
std::string describeMixedShards(std::span<const ShardVote> shards);

//===----------------------------------------------------------------------===//
// One module
//===----------------------------------------------------------------------===//

/// A tensor as a header describes it.
struct StoredTensor {
  StoredType type;
  std::vector<int64_t> shape;
  /// Kept as the file packs it (GGUF), or None.
  Packing packing = Packing::None;
  int64_t headRows = 0; ///< as TensorInfo has it (W16)
  /// "F32 [3, 2]".
  std::string describe() const;
  bool operator==(const StoredTensor &) const = default;
};

/// Tensors of one module, by the last component of their names.
using StoredTensors = std::map<std::string, StoredTensor, std::less<>>;

/// What the checkpoint stores and declares for one linear.
struct ModuleFacts {
  std::string module; ///< its path, for messages
  std::string file;   ///< file that holds the weight, for notes; may be empty
  StoredTensors tensors;
  std::string declared; ///< what declareModule said
  bool isLmHead = false;
  /// Routed experts have methods of their own (C12).
  bool isExpert = false;
  /// Sides of the matrix, which packed tensors do not show; 0: those of
  /// `weight`. `experts` matrices stand in one tensor, 0 if it is one matrix.
  int64_t n = 0, k = 0, experts = 0;
};

/// How one module is quantised, as stored.
struct ResolvedModule {
  bool quantized = false;
  std::string method = "unquantized";
  Granularity weight;
  StoredType scaleType = StoredType::F32;
  std::string scaleName; ///< `weight_scale_inv` or `weight_scale`
  Activation activation = Activation::None;
  bool ue8m0 = false;
  WeightFormat format;
  ActivationFormat input;
  bool whileLoading = false;    ///< W10: stored plain, quantised while loading
  std::vector<ErrorInfo> notes; ///< C13: what was settled by the headers
};

/// Last components of tensor names that belong to a linear of a method built
/// here: consumed, or judged by resolveModule.
bool isKnownLinearTensor(std::string_view name);

/// Decides the method of one linear from config and headers, and refuses what
/// they contradict (C11, C13, W1, W2, W6).
/// \param config  null for an unquantised checkpoint without `--quantization`.
Result<ResolvedModule> resolveModule(const QuantConfig *config,
                                     const ModuleFacts &facts);

/// The shape of the scale of an [n, k] weight (W1).
std::vector<int64_t> getScaleShape(const Granularity &granularity, int64_t n,
                                   int64_t k);

/// One tensor that a module of some scheme has.
struct ExpectedTensor {
  /// Below the module, the usual spelling first (W2); a name that starts with
  /// `_` goes on the module's own.
  std::vector<std::string> names;
  std::vector<StoredType> types; ///< any of them, the usual first
  /// Any of them, the usual first (a scalar is [] or [1]).
  std::vector<std::vector<int64_t>> shapes;
  bool required = true;
  std::string what; ///< "64x1024 in groups of 32", for messages

  /// "F32 [144, 32] (18432x4096 in 128x128 blocks)".
  std::string describe() const;
};

/// The tensors that hold a weight [n, k] of a scheme, without bias (FORMATS).
/// \param method   registry name: spellings differ.
/// \param experts  matrices in one tensor, 0 for a single matrix.
std::vector<ExpectedTensor> expectTensors(std::string_view method,
                                          const Scheme &scheme, int64_t n,
                                          int64_t k, int64_t experts = 0);

/// What a split has to leave whole (W3): sides of the part of one rank are
/// multiples of these.
struct SplitAlignment {
  int64_t n = 1, k = 1; ///< blocks, groups and words, in elements
  /// Each rank reads the scales of all groups, also of those that it does not
  /// hold (act-order).
  bool needsAllScales = false;
  bool operator==(const SplitAlignment &) const = default;
};
SplitAlignment getSplitAlignment(const Scheme &scheme);

/// The kind of format as a word: "unquantized", "fp8-block", "fp8-tensor",
/// "fp8-channel", "int8-channel", "mxfp8", "mxfp4", "nvfp4", "awq-int4",
/// "gptq-int4", "int4-group".
std::string nameFormat(const ResolvedModule &module);
/// The activation of a contract: "none", "static-tensor", "dynamic-token",
/// "dynamic-token-group-128".
std::string nameActivation(const Contract &contract);

/// K of a weight, or of one rank's part of it, is a multiple of this where both
/// operands of a product are in FP4: bulk copies of two codes a byte (C11).
inline constexpr int64_t kFp4Columns = 32;

/// Which contract a method has on a target (B1-B4).
struct ContractQuery {
  bool fused = false;             ///< a module of more than one shard (B3)
  bool quantizeActivation = true; ///< not `--activation-quant off`
  bool requantMax = false;
  /// `--mxfp8-as`: "block", "weight-only", or empty (B6).
  std::string mxfp8As = {};
  /// `--scale-format keep`: no contract that asks for other scales than the
  /// stored ones (W11).
  bool keepScales = false;
  /// K of the weight that a kernel reads; 0: not known.
  int64_t k = 0;
  /// Whose kernels read the operands. The CPU's read rows, whichever target's
  /// numbers they follow.
  Target kernels = {};
};
/// A fused per-tensor matrix of FP8 has one scale there, the largest (B3, W8).
bool takesLargestScale(const Target &numerics);
/// \param numerics  the target whose contracts are followed.
/// \returns an input error where the target has no kernel (B6).
Result<Contract> contractFor(const ResolvedModule &method,
                             const Target &numerics, const ContractQuery &query,
                             std::string_view module);

//===----------------------------------------------------------------------===//
// KV cache
//===----------------------------------------------------------------------===//

/// `name`, relative to the attention module, is a scale of its KV cache under
/// any of the spellings of W2: `k_scale`, `kv_scale`, `k_proj.k_scale`,
/// `qkv_proj.v_scale`, `k_proj.output_scale`, and the same for v.
bool isKvScaleName(std::string_view name);

} // namespace octet

#endif // OCTET_QUANTMETHODS_QUANTMETHODS_H
