//===- KernelCommand.cpp - The command line of kernel executables ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelCommand.h"
#include "octet/CommandLine/CommandLine.h"
#include "octet/Support/Output.h"
#include "runtime/bench/KernelRun.h"
#include "runtime/bench/TileTable.h"
#include "runtime/core/Payload.h"
#include "runtime/cuda/Driver.h"
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;

namespace {
enum class Form { Text, Json, Table };
} // namespace

static std::string format(const KernelReport &report, Form form) {
  switch (form) {
  case Form::Text:
    return report.text();
  case Form::Json:
    return report.json().dump(2) + "\n";
  case Form::Table:
    return makeTileTable(report).dump(2) + "\n";
  }
  return "";
}

/// The signal that told a run to end with what it has; 0: none.
static volatile std::sig_atomic_t stopSignal = 0;

/// A second interrupt ends the program as ever; not a second SIGTERM, which
/// timeout(1) sends at once to the whole process group.
static void noteSignal(int signal) {
  stopSignal = signal;
  if (signal == SIGINT)
    std::signal(signal, SIG_DFL);
}

static Status runAndPrint(const Payload &payload, KernelRunOptions options,
                          Form form, bool &passed) {
  options.subject = payload.path();
  auto text = payload.section(kKernelsSection);
  auto images = payload.section(cuda::kBenchImagesSection);
  if (!text || !images)
    return inputError(payload.path(), "the payload has no kernels");
  OCTET_TRY_ASSIGN(
      cuda::BenchPlan plan,
      cuda::readBenchPlan(
          std::string_view(reinterpret_cast<const char *>(text->data()),
                           text->size()),
          payload.path()));
  const bool isTerminal = ::isatty(STDERR_FILENO) == 1;
  if (isTerminal)
    options.progress = [](size_t i, size_t count) {
      std::fprintf(stderr, "\r%zu of %zu shapes ", i + 1, count);
    };
  options.stops = [] { return stopSignal != 0; };
  std::signal(SIGTERM, noteSignal);
  std::signal(SIGINT, noteSignal);
  Result<KernelReport> report = runKernels(plan, *images, options);
  if (isTerminal)
    std::fputs("\r\033[K", stderr);
  if (!report.ok())
    return report.takeStatus();
  passed = report->countFailed() == 0;
  return print(format(*report, form));
}

/// `EXE [OPTIONS]`. \returns the exit status.
static int runKernelCommand(const Payload &payload, int argc, char **argv) {
  KernelRunOptions options;
  bool json = false, table = false, chosenOnly = false;
  CLI::App app{"Checks and times kernels on this machine's GPU: each result "
               "against sums in double precision, then the median of launches "
               "in a CUDA graph over rotated operands.",
               "EXE"};
  app.add_flag("--json", json, "For programs");
  app.add_flag("--table", table,
               "The table that the compiler reads, of an executable of octet "
               "tune")
      ->excludes("--json");
  app.add_flag("--check-only", options.checkOnly, "Check, time nothing");
  app.add_flag("--chosen-only", chosenOnly,
               "Of several candidates only what the compiler chooses");
  std::vector<std::string> arguments(argv + 1, argv + argc);
  Result<Parsed> parsed = parseCommandLine(app, arguments);
  Status status = parsed.ok() ? Status::success() : parsed.takeStatus();
  if (status.ok() && *parsed == Parsed::Done)
    return 0;
  bool passed = false;
  if (status.ok()) {
    options.candidates = !chosenOnly;
    options.driver = cu::kDriverLibrary;
    status = runAndPrint(payload, options,
                         table  ? Form::Table
                         : json ? Form::Json
                                : Form::Text,
                         passed);
  }
  if (status.ok())
    return stopSignal ? 128 + stopSignal : passed ? 0 : 1;
  std::fputs(status.info().format().c_str(), stderr);
  return status.info().exitCode();
}

std::optional<int> octet::rt::runOwnKernels(int argc, char **argv) {
  // A file that is damaged is told of by who runs programs.
  Result<std::optional<Payload>> looked = Payload::findOwn(Verify::Table);
  if (!looked.ok() || !*looked || !(*looked)->section(kKernelsSection))
    return std::nullopt;
  Result<std::optional<Payload>> own = Payload::findOwn();
  if (own.ok())
    return runKernelCommand(**own, argc, argv);
  std::fputs(own.status().info().format().c_str(), stderr);
  return own.status().info().exitCode();
}
