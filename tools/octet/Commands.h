//===- Commands.h - The verbs of octet --------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TOOLS_OCTET_COMMANDS_H
#define OCTET_TOOLS_OCTET_COMMANDS_H

#include "octet/Support/Status.h"
#include <CLI/CLI.hpp>
#include <functional>

namespace octet {

struct ImportOptions;

/// Set by the verb that the command line chose; main runs it.
using Action = std::function<Status()>;

/// What is given has to be something: '' is no name of anything.
CLI::Validator notEmpty();
/// A whole number of at least 1.
CLI::Validator isCount();
/// A finite number above 0.
CLI::Validator isPositive();

/// The options that decide what an import records: numbers, limits, ranks.
/// `octet compile` and `octet ledger` have them in common.
void addImportOptions(CLI::App *verb, ImportOptions &options);

/// Adds `octet check` to `app`.
void addCheckCommand(CLI::App &app, Action &action);
/// Adds `octet compile` to `app`.
void addCompileCommand(CLI::App &app, Action &action);
/// Adds `octet explain` to `app`.
void addExplainCommand(CLI::App &app, Action &action);
/// Adds `octet info` to `app`.
void addInfoCommand(CLI::App &app, Action &action);
/// Adds `octet ledger` to `app`.
void addLedgerCommand(CLI::App &app, Action &action);
/// Adds `octet quantize` to `app`.
void addQuantizeCommand(CLI::App &app, Action &action);

} // namespace octet

#endif // OCTET_TOOLS_OCTET_COMMANDS_H
