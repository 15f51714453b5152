//===- Commands.h - The verbs of octet --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TOOLS_OCTET_COMMANDS_H
#define OCTET_TOOLS_OCTET_COMMANDS_H

#include "octet/CommandLine/CommandLine.h"
#include "octet/Support/Status.h"
#include <functional>

namespace octet {

struct ImportOptions;
struct PhaseSettings;

/// Set by the verb that the command line chose; main runs it.
using Action = std::function<Status()>;

/// Of options whose bound is what the model can do.
inline constexpr uint64_t kMostCount = INT64_MAX;

/// Whether these are names of targets and of a method; what is none is wrong
/// usage, as with any other option (C2, C9). Empty ones and `native` are good.
Status checkNames(const std::string &target, const std::string &numerics,
                  const std::string &quantization);

/// Puts the machine's target in the place of `native`: that of its GPU, else
/// `cpu`. Where there is a GPU, stderr says which.
void resolveNative(std::string &target);

/// The options that decide what an import records: numbers, limits, ranks.
/// `octet compile` and `octet ledger` have them in common.
void addImportOptions(CLI::App *verb, ImportOptions &options);

/// The options of the kernels' compilation.
void addKernelOptions(CLI::App *verb, PhaseSettings &settings);

/// Adds `octet cache` to `app`.
void addCacheCommand(CLI::App &app, Action &action);
/// Adds `octet check` to `app`.
void addCheckCommand(CLI::App &app, Action &action);
/// Adds `octet compile` to `app`.
void addCompileCommand(CLI::App &app, Action &action);
/// Adds `octet explain` to `app`.
void addExplainCommand(CLI::App &app, Action &action);
/// Adds `octet info` to `app`.
void addInfoCommand(CLI::App &app, Action &action);
/// Adds `octet kernel` to `app`.
void addKernelCommand(CLI::App &app, Action &action);
/// Adds `octet tune` to `app`.
void addTuneCommand(CLI::App &app, Action &action);
/// Adds `octet ledger` to `app`.
void addLedgerCommand(CLI::App &app, Action &action);
/// Adds `octet quantize` to `app`.
void addQuantizeCommand(CLI::App &app, Action &action);

} // namespace octet

#endif // OCTET_TOOLS_OCTET_COMMANDS_H
