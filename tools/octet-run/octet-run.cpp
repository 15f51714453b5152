//===- octet-run.cpp - The runner -----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With a program or kernels appended, an executable; by itself, `octet-run
// PROGRAM …`.
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelCommand.h"
#include "runtime/cli/CommandLine.h"

int main(int argc, char **argv) {
  if (std::optional<int> status = octet::rt::runOwnKernels(argc, argv))
    return *status;
  return octet::rt::runCommandLine(argc, argv);
}
