//===- CommandLine.h - The command line of every executable -----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// stdout is data, stderr progress (on a terminal) and errors. Exit status as in
// SPEC section 6.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CLI_COMMANDLINE_H
#define OCTET_RUNTIME_CLI_COMMANDLINE_H

namespace octet::rt {

/// `EXE VERB …` if the running file carries a program, else
/// `octet-run PROGRAM VERB …`.
/// \returns the exit status.
int runCommandLine(int argc, char **argv);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CLI_COMMANDLINE_H
