//===- SlotStores.h - Every slot is filled once -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_SLOTSTORES_H
#define OCTET_PASSES_SLOTSTORES_H

#include "mlir/IR/BuiltinOps.h"

namespace octet {

/// The load function stores each instance of each slot that is used, and once
/// (W6). Instances whose layers cannot be told, and IR without a load function,
/// are passed over.
mlir::LogicalResult verifySlotStores(mlir::ModuleOp module);

} // namespace octet

#endif // OCTET_PASSES_SLOTSTORES_H
