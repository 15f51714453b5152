//===- Import.h - Checkpoint to the model dialect ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_IMPORT_IMPORT_H
#define OCTET_IMPORT_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include <optional>
#include <string>
#include <vector>

namespace octet {

/// The choices of the command line that the IR records as `model.settings`.
/// What is absent is decided by the importer from the config (DESIGN,
/// "Defaults").
struct ImportOptions {
  std::string target = "cpu"; ///< `native`, `cpu` or `sm_NN`, as given (C9)
  std::string numerics;       ///< whose contracts; empty: the target's
  std::string dtype;          ///< `bf16`, `f16`, `f32`; empty: the config's
  std::string quantization;   ///< a method named by the user (C3), or empty
  std::string activationQuant = "auto"; ///< `auto` or `off`
  /// `auto`, `bf16`, `f16`, `f32`, `fp8_e4m3`, `fp8_ds_mla`
  std::string kvCache = "auto";
  std::string extract; ///< a module path, or empty for the model
  int64_t tp = 1, ep = 1, dp = 1;
  std::optional<int64_t> maxContext;    ///< in tokens
  std::optional<int64_t> maxSeqs;       ///< sequences at once
  std::optional<int64_t> maxStepTokens; ///< rows of one step
  bool unfuseMixed = false;
  bool requantMax = false;          ///< one scale for a fused matrix (W8, W10)
  std::string mxfp8As;              ///< `block`, `weight-only` or empty (B6)
  std::string scaleFormat = "auto"; ///< `auto`, `keep` (W11)
  /// Absent: on for the CPU, off for others (B5).
  std::optional<bool> batchInvariant;
  std::string mla = "auto";       ///< `auto`, `explicit`, `absorbed` (W12)
  std::string indexCache = "fp8"; ///< `fp8`, `bf16` (P9)
  int64_t mtp = 0;                ///< draft layers that are built (W14)
  bool indexBroadcast = true;     ///< rank 0 chooses for all (P10)
  /// `error`, `pad`: a split inside a block of scales (W3)
  std::string splitBlocks = "error";
  bool strict = false; ///< a reported oddity is an error
};

/// A remark to the user that is no error.
struct ImportNotes {
  std::vector<std::string> warnings; ///< `SUBJECT: text [RULE]`
  std::vector<std::string> notes;    ///< defaults that bit, ignored tensors
};

/// Builds the module of one checkpoint: @step, a function for each kind of
/// layer, and the module attributes `model.settings`, `model.info`, `q.config`.
/// Reads nothing but `checkpoint`.
/// \returns an input error for an unknown architecture, a config that
/// contradicts itself or the headers, or a method that cannot run (SPEC 2).
Result<mlir::OwningOpRef<mlir::ModuleOp>>
importCheckpoint(const Checkpoint &checkpoint, const ImportOptions &options,
                 mlir::MLIRContext &context, ImportNotes &notes);

} // namespace octet

#endif // OCTET_IMPORT_IMPORT_H
