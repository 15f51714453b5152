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

/// What CLI11 cannot check by itself.
static Status checkOptions(const CompileOptions &options) {
  if (!options.compileTo.empty() && !findPhase(options.compileTo))
    return usageError("--compile-to", "no phase is called '" +
                                          options.compileTo +
                                          "'; the phases are:" + listPhases());
  bool text = options.emit == EmitKind::IR || options.emit == EmitKind::LLVM ||
              !options.compileTo.empty();
  if (!text && (options.output.empty() || options.output == "-"))
    return usageError("-o", "an output file is needed");
  return Status::success();
}

void addImportOptions(CLI::App *verb, ImportOptions &i) {
  const char *model = "Numbers";
  verb->add_option("--target", i.target,
                   "cpu, or native: the GPU found, else the CPU [native]")
      ->default_val("native")
      ->group(model);
  verb->add_option("--numerics", i.numerics,
                   "Follow this target's operand contracts [the target's]")
      ->check(notEmpty())
      ->group(model);
  verb->add_option("--dtype", i.dtype,
                   "Activation dtype: bf16, f16 or f32 [the config's]")
      ->check(CLI::IsMember({"bf16", "f16", "f32"}))
      ->group(model);
  verb->add_option("--activation-quant", i.activationQuant,
                   "auto, or off: quantised linears are weight-only [auto]")
      ->check(CLI::IsMember({"auto", "off"}))
      ->group(model);
  verb->add_option("--kv-cache", i.kvCache,
                   "Layout of the KV cache: auto (what the checkpoint "
                   "declares, else the activation dtype), bf16, f16, f32, "
                   "fp8_e4m3 or, for latent attention, fp8_ds_mla [auto]")
      ->check(CLI::IsMember(
          {"auto", "bf16", "f16", "f32", "fp8_e4m3", "fp8_ds_mla"}))
      ->group(model);
  verb->add_option("--quantization", i.quantization,
                   "Method to read the checkpoint with; fp8 quantises a BF16 "
                   "checkpoint while loading [the checkpoint's]")
      ->check(notEmpty())
      ->group(model);
  verb->add_flag("--unfuse-mixed", i.unfuseMixed,
                 "Keep q, k, v or gate, up apart where only some of them are "
                 "quantised, instead of refusing (C8)")
      ->group(model);
  verb->add_flag("--batch-invariant,!--no-batch-invariant", i.batchInvariant,
                 "Forbid kernels whose result for a row depends on other rows; "
                 "the CPU has no others [on]")
      ->group(model);
  verb->add_flag("--strict", i.strict, "Warnings of the import are errors")
      ->group(model);

  const char *limits = "Limits";
  verb->add_option("--max-context", i.maxContext,
                   "Tokens of one sequence [the config's limit, at most 8192]")
      ->check(isCount())
      ->group(limits);
  verb->add_option("--max-seqs", i.maxSeqs, "Sequences at once [8]")
      ->check(isCount())
      ->group(limits);
  verb->add_option("--max-step-tokens", i.maxStepTokens,
                   "Rows of one step: prompt chunks and decoded tokens [2048]")
      ->check(isCount())
      ->group(limits);
  verb->add_option("--tp", i.tp, "Tensor-parallel ranks [1]")
      ->check(isCount())
      ->group(limits);
  verb->add_option("--ep", i.ep, "Expert-parallel groups [1]")
      ->check(isCount())
      ->group(limits);
  verb->add_option("--dp", i.dp, "Data-parallel ranks [1]")
      ->check(isCount())
      ->group(limits);
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
                   "File to write; text goes to stdout without it");
  const std::map<std::string, EmitKind> kinds = {{"ir", EmitKind::IR},
                                                 {"llvm", EmitKind::LLVM},
                                                 {"obj", EmitKind::Object},
                                                 {"program", EmitKind::Program},
                                                 {"exe", EmitKind::Exe}};
  verb->add_option("--emit", o->emit,
                   "What to write: ir, llvm, obj, program (the payload, for "
                   "octet-run) or exe [exe]")
      ->transform(CLI::CheckedTransformer(kinds))
      ->type_name("KIND");

  ImportOptions &i = o->import;
  addImportOptions(verb, i);

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

  verb->callback([o, &action] {
    o->progress = isatty(STDERR_FILENO);
    action = [o]() -> Status {
      OCTET_TRY(checkOptions(*o));
      return compile(*o);
    };
  });
}

} // namespace octet
