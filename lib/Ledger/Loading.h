//===- Loading.h - The weights of a load function ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_LEDGER_LOADING_H
#define OCTET_LIB_LEDGER_LOADING_H

#include "mlir/IR/BuiltinOps.h"
#include "octet/Ledger/Ledger.h"

namespace octet {

/// The slots of a module, in its order, with the steps that fill them. One that
/// several kinds of layers fill alike has the steps of the first.
std::vector<LedgerWeight> collectWeights(mlir::ModuleOp module);

} // namespace octet

#endif // OCTET_LIB_LEDGER_LOADING_H
