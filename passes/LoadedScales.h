//===- LoadedScales.h - Scales that loading makes ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_LOADEDSCALES_H
#define OCTET_PASSES_LOADEDSCALES_H

#include "mlir/IR/BuiltinOps.h"

namespace octet {

/// Scales that the load function makes (W10, W11, N8) follow from all values
/// that they describe in the checkpoint, so that they are the same on every
/// rank: what one rank holds may be cut only where no scale is (W3).
mlir::LogicalResult verifyLoadedScales(mlir::ModuleOp module);

} // namespace octet

#endif // OCTET_PASSES_LOADEDSCALES_H
