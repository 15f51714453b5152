//===- KernelCommand.h - The command line of kernel executables -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_BENCH_KERNELCOMMAND_H
#define OCTET_RUNTIME_BENCH_KERNELCOMMAND_H

#include <optional>

namespace octet::rt {

/// If the running file carries kernels (octet/CudaSource/BenchPlan.h): `EXE
/// [OPTIONS]`.
/// \returns the exit status, 1 also if a result is wrong; nothing for any other
/// file, which is left to runCommandLine.
std::optional<int> runOwnKernels(int argc, char **argv);

} // namespace octet::rt

#endif // OCTET_RUNTIME_BENCH_KERNELCOMMAND_H
