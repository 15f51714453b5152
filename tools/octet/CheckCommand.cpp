//===- CheckCommand.cpp - octet check -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/Check/Check.h"
#include "octet/Ledger/ProgramMemory.h"
#include "octet/Pipeline/Compile.h"
#include "octet/QuantMethods/Target.h"
#include "octet/Support/Output.h"
#include <iostream>
#include <memory>
#include <unistd.h>

namespace octet {

namespace {
struct CheckArguments {
  CheckOptions options;
  std::string path, splitBlocks = "error", scaleFormat = "auto", deviceMemory;
  bool json = false;
};
} // namespace

/// The program that octet compile would make of the same options.
static CompileOptions toCompileOptions(const std::string &path,
                                       const CheckOptions &options) {
  CompileOptions compile;
  compile.checkpoint = path;
  compile.compileTo = kMemoryPhase;
  compile.quiet = true;
  ImportOptions &import = compile.import;
  import.target = options.target;
  import.numerics = options.numerics;
  import.dtype = options.dtype;
  import.quantization = options.quantization;
  import.activationQuant = options.activationQuant;
  import.kvCache = options.kvCache;
  import.indexCache = options.indexCache;
  import.mla = options.mla;
  import.mxfp8As = options.mxfp8As;
  import.mtp = options.mtp;
  import.tp = options.ranks.tp;
  import.ep = options.ranks.ep;
  import.dp = options.ranks.dp;
  import.unfuseMixed = options.unfuseMixed;
  import.requantMax = options.requantMax;
  import.scaleFormat = options.keepScales ? "keep" : "auto";
  import.splitBlocks = options.padBlocks ? "pad" : "error";
  import.maxContext = options.maxContext;
  import.maxSeqs = options.maxSeqs;
  import.maxStepTokens = options.maxStepTokens;
  return compile;
}

static Result<ProgramMemory> compileForMemory(const std::string &path,
                                              const CheckOptions &options) {
  std::optional<ProgramMemory> memory;
  OCTET_TRY(runPhases(toCompileOptions(path, options),
                      [&](mlir::ModuleOp module, const Checkpoint &) {
                        OCTET_TRY_ASSIGN(memory, measureProgram(module));
                        return Status::success();
                      }));
  return *memory;
}

static Status check(CheckArguments arguments) {
  CheckOptions &options = arguments.options;
  options.padBlocks = arguments.splitBlocks == "pad";
  options.keepScales = arguments.scaleFormat == "keep";
  if (!arguments.deviceMemory.empty()) {
    options.memory = true;
    OCTET_TRY_ASSIGN(options.deviceMemory,
                     parseDeviceMemory(arguments.deviceMemory));
  }
  OCTET_TRY(checkNames(options.target, options.numerics, options.quantization));
  options.measureProgram = [&] {
    return compileForMemory(arguments.path, options);
  };
  CheckReport report = checkCheckpoint(arguments.path, options);
  // Contracts have capabilities, kernels have targets (C9).
  Result<Target> target = parseTarget(options.target, "--target");
  if (report.accepted() && target && !target->isCpu())
    if (Status known = checkKernelTarget(*target); !known.ok())
      report.errors.push_back(known.takeInfo());
  Status printed =
      print(arguments.json ? formatCheckJson(report)
                           : formatCheckText(report, ::isatty(STDOUT_FILENO)));
  std::cerr << formatCheckMessages(report);
  OCTET_TRY(std::move(printed));
  if (report.accepted())
    return Status::success();
  // What was wrong is printed; the kind decides the exit status.
  ErrorInfo error;
  error.kind = report.errors.front().kind;
  return error;
}

/// The options of octet compile that a check needs, under its names.
static void addModelOptions(CLI::App *verb, CheckOptions &o) {
  verb->add_option("--target", o.target,
                   "cpu, sm_NN, or native: the GPU of this machine, else cpu "
                   "[native]")
      ->check(notEmpty());
  verb->add_option("--numerics", o.numerics,
                   "Follow this target's operand contracts [the target's]")
      ->check(notEmpty());
  addWord(verb, "--dtype", o.dtype, {"bf16", "f16", "f32"},
          "Activation dtype: bf16, f16 or f32 [the config's]");
  verb->add_option("--quantization", o.quantization,
                   "Method to read the checkpoint with [the checkpoint's]")
      ->check(notEmpty());
  addWord(verb, "--activation-quant", o.activationQuant, {"auto", "off"},
          "auto, or off: quantised linears are weight-only [auto]");
  addWord(verb, "--kv-cache", o.kvCache,
          {"auto", "bf16", "f16", "f32", "fp8_e4m3", "fp8_ds_mla"},
          "Layout of the KV cache: auto (what the checkpoint "
          "declares), bf16, f16, f32, fp8_e4m3 or fp8_ds_mla [auto]");
  addWord(verb, "--index-cache", o.indexCache, {"fp8", "bf16"},
          "Layout of the indexer's cache: fp8 or bf16 [fp8]");
  addWord(verb, "--mla", o.mla, {"auto", "explicit", "absorbed"},
          "Form of latent attention: auto (both), explicit or "
          "absorbed [auto]");
  addWord(verb, "--mxfp8-as", o.mxfp8As, {"block", "weight-only"},
          "What MXFP8 runs as where it is not native: block or "
          "weight-only");
  addWhole(verb, "--mtp", o.mtp, "Draft layers to build [0]", 0, 1 << 16);
  verb->add_flag("--unfuse-mixed", o.unfuseMixed,
                 "Keep shards apart of which only some are quantised");
  verb->add_flag("--requant-max", o.requantMax,
                 "One scale for a fused matrix: the largest of its shards'");
}

void addCheckCommand(CLI::App &app, Action &action) {
  auto a = std::make_shared<CheckArguments>();
  CheckOptions &o = a->options;
  CLI::App *verb = app.add_subcommand(
      "check", "Whether a checkpoint can be compiled, and what is decided "
               "about each module: eight steps, up to the first that fails");
  verb->add_option("CHECKPOINT", a->path,
                   "Folder with config.json and *.safetensors, or a GGUF file")
      ->check(notEmpty())
      ->required();
  verb->add_flag("--config-only", o.configOnly,
                 "Only what config.json can say; no safetensors file is read");
  verb->add_flag("--json", a->json, "For programs: one object per module");
  verb->add_flag("--with-weights", o.withWeights,
                 "Also step 8: read scales and some rows, and multiply them "
                 "both ways");
  verb->add_flag("--strict", o.strict, "A warning is an error");
  addModelOptions(verb, o);

  const char *ranks = "Ranks";
  for (auto [flag, field, what] :
       {std::tuple("--tp", &o.ranks.tp, "Tensor-parallel degree [1]"),
        std::tuple("--ep", &o.ranks.ep,
                   "Groups that the experts are divided into [1]"),
        std::tuple("--dp", &o.ranks.dp, "Data-parallel degree [1]")})
    addWhole(verb, flag, *field, what, 1, 1 << 16)->group(ranks);
  addWord(verb, "--split-blocks", a->splitBlocks, {"error", "pad"},
          "A split inside a block of scales: error, or pad [error]")
      ->group(ranks);
  addWord(verb, "--scale-format", a->scaleFormat, {"auto", "keep"},
          "auto, or keep: no kernel that needs scales of another "
          "format [auto]");

  const char *memory = "Memory";
  verb->add_flag("--memory", o.memory, "Bytes that a rank needs")
      ->group(memory);
  verb->add_option("--device-memory", a->deviceMemory,
                   "Bytes of a device, or its name, such as h200; what does "
                   "not fit is an error. Implies --memory")
      ->check(notEmpty())
      ->group(memory);
  for (auto [flag, field, what] :
       {std::tuple("--max-context", &o.maxContext,
                   "Tokens of one sequence [8192 at most]"),
        std::tuple("--max-seqs", &o.maxSeqs, "Sequences at once [8]"),
        std::tuple("--max-step-tokens", &o.maxStepTokens,
                   "Tokens of one step [2048]")})
    addWhole(verb, flag, *field, what, 1, 1 << 24)->group(memory);
  verb->callback([a, &action] {
    action = [a] {
      resolveNative(a->options.target);
      return check(*a);
    };
  });
}

} // namespace octet
