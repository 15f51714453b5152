//===- CompileCommand.cpp - octet compile ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/Pipeline/Compile.h"
#include "octet/Pipeline/Pipelines.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "octet/QuantMethods/Target.h"
#include "octet/Support/Escape.h"
#include "llvm/ADT/STLExtras.h"
#include <memory>
#include <unistd.h>

namespace octet {

static std::string listPhases() {
  std::string text;
  for (const Phase &phase : getPhases())
    text += "\n  " + phase.name.str() +
            std::string(26 - phase.name.size(), ' ') + phase.summary.str();
  return text;
}

Status checkNames(const std::string &target, const std::string &numerics,
                  const std::string &quantization) {
  Target chosen;
  for (auto [name, option] :
       {std::pair(target, "--target"), std::pair(numerics, "--numerics")}) {
    if (name.empty() || name == "native")
      continue;
    if (llvm::StringRef(name).contains(','))
      return usageError(std::string(option) + " " + escapeName(name),
                        "one target at a time; octet compile takes several");
    Result<Target> parsed = parseTarget(name, option);
    if (!parsed) {
      ErrorInfo error = parsed.status().info();
      error.kind = ErrorKind::Usage;
      return error;
    }
    if (target == name)
      chosen = *parsed;
  }
  std::string method = llvm::StringRef(quantization).lower();
  std::vector<std::string_view> known = getMethodNames(chosen.family);
  if (method.empty() || method == "gguf" || llvm::is_contained(known, method))
    return Status::success();
  std::string names;
  for (std::string_view name : known)
    names += (names.empty() ? "" : ", ") + quoteName(name);
  Status unknown =
      usageError("--quantization " + escapeName(quantization),
                 "no method is called " + quoteName(method) +
                     "; valid for target " + chosen.name + " are " + names);
  ErrorInfo error = unknown.takeInfo();
  error.rule = "C2";
  return error;
}

/// What CLI11 cannot check by itself.
static Status checkOptions(const CompileOptions &options, bool emitGiven) {
  if (!options.compileTo.empty() && !findPhase(options.compileTo))
    return usageError("--compile-to", "no phase is called '" +
                                          options.compileTo +
                                          "'; the phases are:" + listPhases());
  if (!options.compileTo.empty() && emitGiven && options.emit != EmitKind::IR)
    return usageError("--emit", "what is written after --compile-to " +
                                    options.compileTo +
                                    " is its IR; one of the two, or --emit ir");
  const ImportOptions &import = options.import;
  OCTET_TRY_ASSIGN(std::vector<std::string> targets,
                   splitTargets(import.target));
  for (const std::string &target : targets)
    OCTET_TRY(checkNames(target, import.numerics, import.quantization));
  if (!options.phases.dumpCuda.empty() &&
      llvm::all_of(targets, [](const std::string &t) { return t == "cpu"; }))
    return usageError("--dump-cuda", "the target is cpu, whose code is no CUDA "
                                     "C++; --target sm_NN has kernels");
  if (targets.size() > 1 &&
      ((options.emit != EmitKind::Exe && options.emit != EmitKind::Program) ||
       !options.compileTo.empty()))
    return usageError("--target " + escapeName(import.target),
                      "text and objects are of one target; only --emit exe and "
                      "program hold several");
  bool text = options.emit == EmitKind::IR || options.emit == EmitKind::LLVM ||
              !options.compileTo.empty();
  if (!text && (options.output.empty() || options.output == "-"))
    return usageError("-o", "an output file is needed");
  return Status::success();
}

void addImportOptions(CLI::App *verb, ImportOptions &i) {
  const char *model = "Numbers";
  i.target = "native";
  verb->add_option("--target", i.target,
                   "cpu, sm_80, sm_86, sm_89, sm_90a, sm_100f or sm_120f (the "
                   "last two are compiled and not tested: no such device was "
                   "at hand), or native: the GPU of this machine, else cpu; "
                   "several, as in sm_89,sm_90a, give one executable that "
                   "takes what fits its device [native]")
      ->check(notEmpty())
      ->type_name("TARGET")
      ->group(model);
  verb->add_option("--numerics", i.numerics,
                   "Follow this target's operand contracts [the target's]")
      ->check(notEmpty())
      ->group(model);
  addWord(verb, "--dtype", i.dtype, {"bf16", "f16", "f32"},
          "Activation dtype: bf16, f16 or f32 [the config's]")
      ->group(model);
  addWord(verb, "--activation-quant", i.activationQuant, {"auto", "off"},
          "auto, or off: quantised linears are weight-only [auto]")
      ->group(model);
  addWord(verb, "--kv-cache", i.kvCache,
          {"auto", "bf16", "f16", "f32", "fp8_e4m3", "fp8_ds_mla"},
          "Layout of the KV cache: auto (what the checkpoint "
          "declares, else the activation dtype), bf16, f16, f32, "
          "fp8_e4m3 or, for latent attention, fp8_ds_mla [auto]")
      ->group(model);
  addWord(verb, "--index-cache", i.indexCache, {"fp8", "bf16"},
          "Layout of the indexer's cache: fp8 or bf16 [fp8]")
      ->group(model);
  verb->add_flag("--index-broadcast,!--no-index-broadcast", i.indexBroadcast,
                 "All ranks read the keys that rank 0's indexer chose [on]")
      ->group(model);
  addWord(verb, "--mla", i.mla, {"auto", "explicit", "absorbed"},
          "Form of latent attention: explicit (kv_b_proj is a linear), "
          "absorbed (it is split by heads), or auto: absorbed, or "
          "both with --no-batch-invariant [auto]")
      ->group(model);
  addWhole(verb, "--mtp", i.mtp, "Draft layers to build [0]", 0, 1 << 16)
      ->group(model);
  verb->add_option("--quantization", i.quantization,
                   "Method to read the checkpoint with; fp8 quantises a BF16 "
                   "checkpoint while loading [the checkpoint's]")
      ->check(notEmpty())
      ->group(model);
  verb->add_flag("--requant-max", i.requantMax,
                 "One scale for a fused matrix, the largest of its shards' "
                 "(W8); quantising while loading, one a tensor (W10)")
      ->group(model);
  addWord(verb, "--mxfp8-as", i.mxfp8As, {"block", "weight-only"},
          "What MXFP8 runs as where it is not native: block or "
          "weight-only (B6)")
      ->group(model);
  addWord(verb, "--scale-format", i.scaleFormat, {"auto", "keep"},
          "auto, or keep: no kernel whose scales are not the stored "
          "ones (W11) [auto]")
      ->group(model);
  verb->add_flag("--unfuse-mixed", i.unfuseMixed,
                 "Keep q, k, v or gate, up apart where only some of them are "
                 "quantised, instead of refusing (C8)")
      ->group(model);
  // Absent is a third state, which a flag of its own would not keep.
  verb->add_flag_function(
          "--batch-invariant,!--no-batch-invariant",
          [&i](int64_t count) { i.batchInvariant = count > 0; },
          "Forbid choices that make a row's result depend on other rows; "
          "without it --mla auto takes a form by the rows of a step [on for "
          "cpu, off for others]")
      ->group(model);
  verb->add_flag("--strict", i.strict, "Warnings of the import are errors")
      ->group(model);

  const char *limits = "Limits";
  addWhole(verb, "--max-context", i.maxContext,
           "Tokens of one sequence [the config's limit, at most 8192]", 1,
           kMostCount)
      ->group(limits);
  addWhole(verb, "--max-seqs", i.maxSeqs, "Sequences at once [8]", 1,
           kMostCount)
      ->group(limits);
  addWhole(verb, "--max-step-tokens", i.maxStepTokens,
           "Rows of one step: prompt chunks and decoded tokens [2048]", 1,
           kMostCount)
      ->group(limits);
  addWhole(verb, "--tp", i.tp, "Tensor-parallel ranks [1]", 1, kMostCount)
      ->group(limits);
  addWhole(verb, "--ep", i.ep, "Expert-parallel groups [1]", 1, kMostCount)
      ->group(limits);
  addWhole(verb, "--dp", i.dp, "Data-parallel ranks [1]", 1, kMostCount)
      ->group(limits);
  addWord(verb, "--split-blocks", i.splitBlocks, {"error", "pad"},
          "A split inside a block of scales: error, or pad [error]")
      ->group(limits);
}

void addKernelOptions(CLI::App *verb, PhaseSettings &settings) {
  const char *group = "Kernels of CUDA targets";
  verb->add_option("--dump-cuda", settings.dumpCuda,
                   "Write the source of each kernel to DIR/NAME.cu")
      ->check(notEmpty())
      ->type_name("DIR")
      ->group(group);
  addWhole(verb, "-j,--jobs", settings.jobs,
           "Threads that compile kernels [one a processor]", 1, 1024)
      ->group(group);
  verb->add_option("--nvrtc", settings.nvrtc,
                   "libnvrtc.so.13 [the loader's, a toolkit's, or what "
                   "tools/dev setup has installed]")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(group);
}

void addCompileCommand(CLI::App &app, Action &action) {
  auto o = std::make_shared<CompileOptions>();
  CLI::App *verb =
      app.add_subcommand("compile", "Compile a checkpoint to one executable");
  verb->add_option("CHECKPOINT", o->checkpoint,
                   "Folder with config.json and *.safetensors, or a GGUF file")
      ->check(notEmpty())
      ->required();
  verb->add_option("-o,--output", o->output,
                   "File to write; text goes to stdout without it")
      ->check(notEmpty())
      ->type_name("FILE");
  CLI::Option *emit =
      addEnum<EmitKind>(verb, "--emit", o->emit,
                        {{"ir", EmitKind::IR},
                         {"llvm", EmitKind::LLVM},
                         {"obj", EmitKind::Object},
                         {"program", EmitKind::Program},
                         {"exe", EmitKind::Exe}},
                        "What to write; program is the payload, for octet-run "
                        "[exe]");

  ImportOptions &i = o->import;
  addImportOptions(verb, i);
  addKernelOptions(verb, o->phases);

  const char *look = "Looking inside";
  verb->add_option("--extract", i.extract,
                   "Compile one module alone, such as "
                   "model.layers.0.self_attn.q_proj; run it with `EXE eval`")
      ->check(notEmpty())
      ->group(look);
  verb->add_option("--compile-to", o->compileTo,
                   "Stop after this phase and print its IR:" + listPhases())
      ->check(notEmpty())
      ->type_name("PHASE")
      ->group(look);
  verb->add_option("--dump-ir", o->dumpIR,
                   "Write the IR after each phase to DIR/NN-PHASE.mlir; "
                   "octet-opt reads each")
      ->check(notEmpty())
      ->type_name("DIR")
      ->group(look);
  verb->add_flag("--remarks", o->remarks,
                 "Say which kernels were chosen and which preference was not "
                 "followed")
      ->group(look);
  verb->footer("MLIR's own flags work too: --mlir-print-ir-after-all, "
               "--mlir-timing, --mlir-print-debuginfo, …");

  verb->callback([o, emit, &action] {
    o->progress = o->phases.progress = isatty(STDERR_FILENO);
    action = [o, emit]() -> Status {
      resolveNative(o->import.target);
      OCTET_TRY(checkOptions(*o, emit->count() > 0));
      return compile(*o);
    };
  });
}

} // namespace octet
