//===- Units.h - Modules as the run time has them ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The steps work on units: a module, the shards of a fused module, or the
// experts of a layer, with the sides that one rank has of them.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CHECK_UNITS_H
#define OCTET_LIB_CHECK_UNITS_H

#include "octet/Check/Check.h"
#include "octet/Modules/Decide.h"
#include "octet/Support/File.h"
#include <functional>
#include <unordered_map>

namespace octet {

/// A module of the checkpoint and its part on one rank.
struct Part {
  const ModuleDecision *decision = nullptr;
  const ModuleEntry *module = nullptr;
  std::string_view name;            ///< last component of its path
  int64_t n = 0, k = 0;             ///< of the weight on one rank, in elements
  int64_t paddedN = 0, paddedK = 0; ///< `--split-blocks pad`, else as n and k

  bool isRowSplit() const { return module->split == Split::Rows; }
};

/// A module of the run time.
struct Unit {
  std::string path;
  ModuleKind kind = ModuleKind::Linear;
  std::vector<Part> parts;
  int64_t localExperts = 0; ///< of routed experts, on one rank

  bool isExperts() const { return kind == ModuleKind::RoutedExpert; }
  const Part &first() const { return parts.front(); }
};

/// Reads scalars of a checkpoint, whose files it keeps open.
class ScalarReader {
public:
  explicit ScalarReader(const Checkpoint &checkpoint)
      : checkpoint(checkpoint) {}

  /// One float, as [] or [1].
  static bool isScalar(const TensorInfo &tensor);
  /// A finite scalar as float32.
  /// \param module  the subject of an error.
  /// \returns W1 for another shape or dtype, W6 for NaN and infinity.
  Result<double> read(const TensorInfo &tensor, std::string_view module);

private:
  const Checkpoint &checkpoint;
  std::map<int32_t, InputFile> files; ///< by index in the table
};

/// What the steps share.
struct CheckContext {
  CheckContext(const CheckOptions &options, CheckReport &report)
      : options(options), report(report) {}

  const CheckOptions &options;
  CheckReport &report;
  Target target, numerics;
  std::string dtype = "bf16"; ///< of activations: `bf16`, `f16`, `f32`
  bool decided = false;       ///< there are decisions
  CheckpointDecisions decisions;
  std::vector<Unit> units;
  const Checkpoint *checkpoint = nullptr; ///< null: config.json alone
  std::optional<ScalarReader> scalars;    ///< with a checkpoint

  /// The decision of a module; null if there is none.
  const ModuleDecision *find(const std::string &path) const;
  const ModuleEntry *findModule(const std::string &path) const;
  void buildIndex();
  /// `--kv-cache auto` is FP8: config.json declares it (C4), or a layer has
  /// scales of its cache, which speak for all layers (P7b).
  bool declaresFp8Cache() const;
  /// Adds an error of the step that its rule belongs to.
  void addError(ErrorInfo error) { errors.push_back(std::move(error)); }
  std::vector<ErrorInfo> errors;
  std::unordered_map<std::string_view, const ModuleDecision *> byPath;
  bool hasCacheScales = false; ///< of any layer; from buildIndex on
};

/// Groups the decisions; sides are those of the whole matrix.
std::vector<Unit> makeUnits(const CheckpointDecisions &decisions);

/// The scheme that a stored module has, for expectTensors.
Scheme toScheme(const ResolvedModule &method);

/// How a GGUF file packs a module's weight; None for anything else.
Packing getPacking(const ModuleDecision &decision);

/// "BF16" for `bf16`.
std::string nameDtype(std::string_view dtype);

// Step 5: the sides on one rank (W3, W3b, W3c).
void splitUnits(CheckContext &context);
// Step 6: the values of scales that are scalars.
void checkScalars(CheckContext &context);
// What is reported of each module, KV caches (P7, P8) included.
void describeUnits(CheckContext &context);
Result<KvReport> describeKv(CheckContext &context, const Unit &attention);
// Step 8: --with-weights.
void measureNumerics(CheckContext &context);
/// \param config  config.json, for the limits that it has.
void measureMemory(CheckContext &context, const nlohmann::json &config);

} // namespace octet

#endif // OCTET_LIB_CHECK_UNITS_H
