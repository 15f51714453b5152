//===- PrintRowSource.h - CUDA text of row kernels, for lit -----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TOOLS_OCTETOPT_PRINTROWSOURCE_H
#define OCTET_TOOLS_OCTETOPT_PRINTROWSOURCE_H

namespace octet {

/// Registers `octet-print-row-source`.
void registerPrintRowSource();

} // namespace octet

#endif // OCTET_TOOLS_OCTETOPT_PRINTROWSOURCE_H
