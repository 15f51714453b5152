//===- AllDialects.h - Every dialect that Octet's IR uses -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_ALLDIALECTS_H
#define OCTET_DIALECTS_ALLDIALECTS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace octet {

/// Registers q, model and kernel, MLIR's dialects that appear before, between
/// and after the phases, and their translation to LLVM IR. The driver and all
/// tools use this one list, so that what one writes the others read.
void registerAllDialects(mlir::DialectRegistry &registry);

} // namespace octet

#endif // OCTET_DIALECTS_ALLDIALECTS_H
