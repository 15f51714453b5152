//===- Decide.h - Every module of a checkpoint decided ----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// From config.json and the tensor table to a method and a contract for each
// module: steps 1 to 4 and 6 of SPEC section 6. Without a table, what
// config.json alone can say. No weight byte is read.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_MODULES_DECIDE_H
#define OCTET_MODULES_DECIDE_H

#include "octet/Modules/ModuleList.h"

namespace octet {

struct DecideOptions {
  std::string quantization; ///< `--quantization`, or empty (C3)
  Target target, numerics;
  ContractQuery query;
  bool unfuseMixed = false; ///< `--unfuse-mixed` (C8)
  bool textPart = false;    ///< as listModules
  /// Draft layers that are built; the others are ignored (W14).
  int64_t drafts = INT64_MAX;
  /// Errors of modules go to CheckpointDecisions::errors, and the others are
  /// decided all the same.
  bool collectErrors = false;
};

/// What was decided for one entry of the list.
struct ModuleDecision {
  size_t module = 0; ///< index into `list.modules`
  std::string declared;
  /// As stored, or as config.json implies it where there is no table.
  ResolvedModule method;
  Contract contract;
  StoredTensors tensors; ///< of the first expert; empty without a table
  /// Its shards stay apart (--unfuse-mixed).
  bool keptApart = false;
  /// It has an error (DecideOptions::collectErrors); the rest says nothing.
  bool failed = false;
};

struct CheckpointDecisions {
  ModuleList list;
  std::optional<QuantConfig> config;
  /// Of all modules that the checkpoint has, in the order of the list. Norms,
  /// embeddings and the like are unquantised.
  std::vector<ModuleDecision> modules;
  std::vector<ErrorInfo> errors; ///< with DecideOptions::collectErrors
  bool endedEarly = false; ///< so many errors that not all were looked for
  /// C7, C15, W14: what was not understood, matched or used.
  std::vector<ErrorInfo> warnings;
  /// C10, C13, C14, W15: what was settled.
  std::vector<ErrorInfo> notes;

  const ModuleEntry &getModule(const ModuleDecision &decision) const {
    return list.modules[decision.module];
  }
  /// The decision of that path (`{e}` for an expert's number); null if none.
  const ModuleDecision *find(std::string_view path) const;
};

/// Decides each module.
/// \param table  null: config.json alone.
/// \returns the first error: unsupported architecture, C1-C5, C9, then by
/// module C8, C11-C13, N7, N8, W1, W2, W6, W13.
Result<CheckpointDecisions>
decideCheckpoint(const nlohmann::json &config,
                 const nlohmann::json &hfQuantConfig, const TensorTable *table,
                 const DecideOptions &options);

} // namespace octet

#endif // OCTET_MODULES_DECIDE_H
