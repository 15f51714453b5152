//===- Operators.h - Operators of octet kernel as programs ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_KERNELBENCH_OPERATORS_H
#define OCTET_KERNELBENCH_OPERATORS_H

#include "octet/KernelBench/KernelBench.h"

namespace octet {

/// The module that import would make of a checkpoint with one linear layer
/// `linear` of this shape (M is the most rows of a step), as text. Empty for an
/// operator that is not in kernelOperators().
std::string printOperator(const KernelBenchOptions &options,
                          const GemmShape &shape);

} // namespace octet

#endif // OCTET_KERNELBENCH_OPERATORS_H
