//===- Check.h - octet check ------------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The eight steps of SPEC section 6: can this checkpoint be compiled for a
// target and a number of ranks, and what is decided about each module? Reads
// config.json, headers and scales that are scalars (C13); the bytes of weights
// for step 8 only. No LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CHECK_CHECK_H
#define OCTET_CHECK_CHECK_H

#include "octet/Sharding/ShardRules.h"
#include "octet/Support/Status.h"
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace octet {

/// Bytes of a compiled program on one rank, as its `info` says.
struct ProgramMemory {
  std::map<std::string, int64_t> weights; ///< by dtype, scales included
  int64_t weightBytes = 0;
  int64_t workspaceBytes = 0;  ///< of a step's values
  int64_t kvBytesPerToken = 0; ///< all layers
};

/// The choices of `octet check`; those of `octet compile` have its names and
/// defaults.
struct CheckOptions {
  std::string target = "native", numerics, dtype, quantization;
  std::string activationQuant = "auto"; ///< `auto` or `off`
  /// `auto`, `bf16`, `f16`, `f32`, `fp8_e4m3` or `fp8_ds_mla` (P7).
  std::string kvCache = "auto";
  std::string indexCache = "fp8"; ///< `fp8` or `bf16` (P9)
  std::string mla = "auto";       ///< `auto`, `explicit` or `absorbed` (W12)
  std::string mxfp8As;            ///< `block`, `weight-only`, or empty (B6)
  RankConfig ranks;
  int64_t mtp = 0; ///< draft layers that are built (W14)
  bool unfuseMixed = false, requantMax = false, keepScales = false;
  bool padBlocks = false; ///< `--split-blocks pad` (W3)
  bool configOnly = false, strict = false;
  bool memory = false;
  /// Compiles as far as bytes are known, for `memory`; null, as where there is
  /// config.json alone: bytes are estimated.
  std::function<Result<ProgramMemory>()> measureProgram;
  bool withWeights = false; ///< step 8: reads scales and some rows
  /// Bytes of one device; memory that does not fit is an error.
  std::optional<int64_t> deviceMemory;
  std::optional<int64_t> maxContext, maxSeqs, maxStepTokens;
};

/// Bytes of a device's memory: a number, or a known device such as `h200`.
/// \returns a usage error for any other word.
Result<int64_t> parseDeviceMemory(std::string_view text);

inline constexpr int kNumSteps = 8;

enum class StepState { Passed, Failed, NotReached, NotAsked };

/// One of the steps.
struct CheckStep {
  std::string_view title; ///< "method name"
  StepState state = StepState::NotReached;
  std::string summary; ///< what was found, or how many violations
};

using Shape = std::vector<int64_t>;

/// The parts of one matrix, or of a fused one, that a rank holds.
struct MatrixReport {
  std::string weightDtype, scaleDtype; ///< as stored; no scale: empty
  Shape weightShape, scaleShape;
  std::optional<Shape> zerosShape;   ///< AWQ, GPTQ
  std::optional<Shape> paddedShape;  ///< of the weight, --split-blocks pad
  std::optional<std::string> method; ///< of a shard, where they differ
};

/// The KV cache of one attention module.
struct KvReport {
  std::string layout; ///< `bf16`, `fp8_e4m3`, `fp8_ds_mla`, …
  std::string dtype;  ///< `BF16`, `F8_E4M3`
  std::optional<double> kScale, vScale;
  std::string source;             ///< `checkpoint` or `default`, of the scales
  int64_t bytesPerToken = 0;      ///< on one rank
  int64_t indexBytesPerToken = 0; ///< of the indexer's cache (P9)
};

/// What was decided for one module as the run time has it.
struct ModuleReport {
  std::string path;
  std::string method = "unquantized";
  std::string activation = "none", computeDtype, scaleFormat;
  std::string parallel; ///< `replicated`, `column`, `row`, `vocabulary`
  int64_t groupSize = 0;
  MatrixReport matrix;
  std::vector<std::pair<std::string, MatrixReport>> shards;
  /// Routed experts: `matrix` is empty.
  int64_t localExperts = 0;
  std::optional<MatrixReport> w13, w2;
  /// The halves of kv_b_proj: [heads, nope, rank] and [heads, v, rank] (W12).
  std::optional<std::pair<Shape, Shape>> absorbed;
  std::optional<KvReport> kv;
  std::string storageDtype; ///< of a tensor that is no weight
  std::string tiedTo;       ///< the module whose weight it shares (W15)
};

/// `--memory`, bytes on one rank; the largest rank where they differ.
struct MemoryReport {
  std::map<std::string, int64_t> weights; ///< by dtype, scales included
  int64_t weightBytes = 0;
  int64_t kvBytesPerToken = 0; ///< all layers, indexer caches included
  int64_t maxContext = 0, maxSeqs = 0, maxStepTokens = 0;
  int64_t kvBytes = 0;        ///< for max_context x max_seqs
  int64_t workspaceBytes = 0; ///< of a step's values
  bool isEstimate = false;    ///< weights and workspace are, see Memory.cpp
  int64_t loadBytes = 0;      ///< largest temporary while loading
  std::string loadModule;     ///< that needs it
  std::optional<int64_t> deviceBytes;
  int64_t fittingTokens = 0; ///< of KV cache that fit, with deviceBytes
  /// Weights, cache and workspace; saturates.
  int64_t getTotal() const;
};

/// `--with-weights`: what quantised products differ from those of dequantised
/// operands.
struct NumericsReport {
  /// Module and its largest difference over the largest result.
  std::vector<std::pair<std::string, double>> errors;
  int64_t otherModules = 0; ///< of formats that are not measured
};

struct CheckReport {
  std::array<CheckStep, kNumSteps> steps;
  std::vector<ErrorInfo> errors; ///< of the step that failed, all of them
  std::string hint; ///< behind the errors: what would work for the whole model
  std::vector<ErrorInfo> warnings, notes;
  std::vector<ModuleReport> modules;
  std::optional<MemoryReport> memory;
  std::optional<NumericsReport> numerics;

  bool accepted() const { return errors.empty(); }
};

/// Walks the steps, up to the first that fails. All errors are in the report,
/// also those of a checkpoint that cannot be read.
CheckReport checkCheckpoint(const std::string &path,
                            const CheckOptions &options);

/// One JSON object: `outcome`, `steps`, `layers`, `warnings`, `notes`,
/// `errors`, `memory`; ended by a newline.
std::string formatCheckJson(const CheckReport &report);

/// The steps, a line each, then the memory, for people.
/// \param colour  escape sequences of a terminal.
std::string formatCheckText(const CheckReport &report, bool colour);

/// Errors, warnings and notes as they go to stderr. Those of one kind are one,
/// with a note for each of the next ten and how many more there are.
std::string formatCheckMessages(const CheckReport &report);

} // namespace octet

#endif // OCTET_CHECK_CHECK_H
