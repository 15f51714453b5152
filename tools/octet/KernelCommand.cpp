//===- KernelCommand.cpp - octet kernel, octet tune -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/KernelBench/KernelBench.h"
#include "octet/Pipeline/Pipelines.h"
#include "octet/QuantMethods/Target.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <memory>
#include <unistd.h>

namespace octet {

namespace {
struct KernelCommandOptions {
  KernelBenchOptions bench;
  PhaseSettings phases; ///< of the kernels' compilation
  std::string shapesFile;
  std::vector<std::string> shapes;
  bool everyM = false; ///< of tune
};
} // namespace

/// Numbers of rows from decoding to prefill.
static constexpr int64_t kTunedRows[] = {
    1, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192};

static Status kernel(const KernelCommandOptions &options) {
  KernelBenchOptions bench = options.bench;
  bench.dumpCuda = options.phases.dumpCuda;
  bench.nvrtc = options.phases.nvrtc;
  bench.jobs = options.phases.jobs;
  if (bench.target.find(',') != std::string::npos)
    return usageError("--target " + escapeName(bench.target),
                      "an executable of one operator is for one target");
  OCTET_TRY(checkNames(bench.target, "", ""));
  if (bench.target == "cpu" || bench.target == "native")
    return usageError("--target " + bench.target,
                      "its kernels are not compiled by octet; a CUDA target, "
                      "such as sm_90a");
  OCTET_TRY_ASSIGN(Target target, parseTarget(bench.target, "--target"));
  bench.target = target.name; // sm_90 is sm_90a from here on
  if (!options.shapesFile.empty()) {
    OCTET_TRY(checkNotInput("-o", bench.output, {&options.shapesFile, 1}));
    OCTET_TRY_ASSIGN(bench.shapes, readShapes(options.shapesFile));
  }
  for (const std::string &text : options.shapes) {
    OCTET_TRY_ASSIGN(GemmShape shape, parseShape(text));
    bench.shapes.push_back(shape);
  }
  if (bench.shapes.empty())
    return usageError("--shapes", "no shape given; a file, or --shape M,N,K");
  if (options.everyM) {
    std::vector<GemmShape> all;
    for (const GemmShape &shape : bench.shapes)
      for (int64_t m : kTunedRows)
        all.push_back({m, shape.n, shape.k});
    bench.shapes = std::move(all);
  }
  return writeKernelBench(bench);
}

/// The options that `kernel` and `tune` have in common.
static void addBenchOptions(CLI::App *verb, KernelCommandOptions &o) {
  verb->add_option("-o,--output", o.bench.output, "The executable")
      ->type_name("FILE")
      ->check(notEmpty())
      ->required();
  o.bench.target = "sm_90a";
  verb->add_option("--target", o.bench.target,
                   "CUDA target; sm_100f and sm_120f are compiled and have "
                   "never been run")
      ->capture_default_str();
  verb->add_option("--shapes", o.shapesFile,
                   "Shapes, a line each: M N K; # starts a comment")
      ->type_name("FILE")
      ->check(notEmpty());
  verb->add_option("--shape", o.shapes, "One shape; may be repeated")
      ->type_name("M,N,K")
      ->allow_extra_args(false);
  verb->add_option("--dtype", o.bench.resultType,
                   "Of the result, and of dense operands: bf16 or f16")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  addKernelOptions(verb, o.phases);
  verb->add_flag("--batch-invariant", o.bench.batchInvariant,
                 "No variant whose rows depend on how many there are (B5)");
}

/// The argument OPERATOR. \returns the list of them for --help.
static std::string addOperator(CLI::App *verb, KernelCommandOptions &o) {
  std::vector<std::string> names;
  std::string list = "Operators:\n";
  constexpr size_t kColumn = 16;
  for (const KernelOperator &op : kernelOperators()) {
    const std::string name = op.name;
    names.push_back(name);
    list += "  " + name + std::string(kColumn - name.size(), ' ') + op.summary +
            "\n";
  }
  verb->add_option("OPERATOR", o.bench.op, "Which one; they are below")
      ->check(CLI::IsMember(names))
      ->required();
  return list;
}

static void addVerb(CLI::App *verb, std::shared_ptr<KernelCommandOptions> o,
                    const char *footer, Action &action) {
  verb->footer(addOperator(verb, *o) + footer);
  addBenchOptions(verb, *o);
  verb->callback([o, &action] {
    o->bench.progress = ::isatty(STDERR_FILENO) == 1;
    action = [o] { return kernel(*o); };
  });
}

void addKernelCommand(CLI::App &app, Action &action) {
  CLI::App *verb = app.add_subcommand(
      "kernel", "An executable that checks and times the kernels of one "
                "operator on a GPU machine");
  addVerb(verb, std::make_shared<KernelCommandOptions>(),
          "The executable: EXE [--json] [--check-only]. It needs a driver and "
          "nothing else.",
          action);
}

void addTuneCommand(CLI::App &app, Action &action) {
  CLI::App *verb = app.add_subcommand(
      "tune", "An executable that finds the fastest variants of a product on a "
              "GPU machine");
  auto o = std::make_shared<KernelCommandOptions>();
  o->bench.candidates = 12;
  addWhole(
      verb, "--candidates", o->bench.candidates,
      "Variants that are compared for each shape, those that a model takes "
      "for the fastest [12]",
      1, 4096);
  verb->add_flag("--every-m", o->everyM,
                 "Each N and K at every M of the table (1 to 8192), whatever M "
                 "is given");
  addVerb(
      verb, o,
      "The executable: EXE --table prints the table for "
      "lib/CudaSource/tables, which select-kernels reads in the next build; "
      "EXE --json all times.",
      action);
}

} // namespace octet
