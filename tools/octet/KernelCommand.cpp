//===- KernelCommand.cpp - octet kernel -----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "octet/KernelBench/KernelBench.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <memory>
#include <unistd.h>

namespace octet {

namespace {
struct KernelCommandOptions {
  KernelBenchOptions bench;
  std::string shapesFile;
  std::vector<std::string> shapes;
};
} // namespace

static Status kernel(const KernelCommandOptions &options) {
  KernelBenchOptions bench = options.bench;
  OCTET_TRY(checkNames(bench.target, "", ""));
  if (bench.target == "cpu")
    return usageError("--target cpu", "its kernels are not compiled by octet; "
                                      "a CUDA target, such as sm_90a");
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
  return writeKernelBench(bench);
}

void addKernelCommand(CLI::App &app, Action &action) {
  auto o = std::make_shared<KernelCommandOptions>();
  CLI::App *verb = app.add_subcommand(
      "kernel", "An executable that checks and times the kernels of one "
                "operator on a GPU machine");
  std::vector<std::string> names;
  std::string list = "Operators:\n";
  for (const KernelOperator &op : kernelOperators()) {
    names.push_back(op.name);
    list += "  " + std::string(op.name) +
            std::string(16 - std::string(op.name).size(), ' ') + op.summary +
            "\n";
  }
  verb->add_option("OPERATOR", o->bench.op, "Which one; they are below")
      ->check(CLI::IsMember(names))
      ->required();
  verb->add_option("-o,--output", o->bench.output, "The executable")
      ->type_name("FILE")
      ->check(notEmpty())
      ->required();
  o->bench.target = "sm_90a";
  verb->add_option("--target", o->bench.target,
                   "CUDA target; sm_100f and sm_120f are compiled and have "
                   "never been run")
      ->capture_default_str();
  verb->add_option("--shapes", o->shapesFile,
                   "Shapes, a line each: M N K; # starts a comment")
      ->type_name("FILE")
      ->check(notEmpty());
  verb->add_option("--shape", o->shapes, "One shape; may be repeated")
      ->type_name("M,N,K")
      ->allow_extra_args(false);
  verb->add_option("--dtype", o->bench.resultType,
                   "Of the result, and of dense operands: bf16 or f16")
      ->check(CLI::IsMember({"bf16", "f16"}))
      ->capture_default_str();
  verb->add_option("--dump-cuda", o->bench.dumpCuda,
                   "Write the source of each kernel")
      ->type_name("DIR")
      ->check(notEmpty());
  addWhole(verb, "--jobs", o->bench.jobs,
           "Kernels compiled at once; 0: one for each processor [0]", 0, 4096);
  verb->add_flag("--batch-invariant", o->bench.batchInvariant,
                 "No variant whose rows depend on how many there are (B5)");
  verb->footer(list + "The executable: EXE [--json] [--check-only]. It needs a "
                      "driver and nothing else.");
  verb->callback([o, &action] {
    o->bench.progress = ::isatty(STDERR_FILENO) == 1;
    action = [o] { return kernel(*o); };
  });
}

} // namespace octet
