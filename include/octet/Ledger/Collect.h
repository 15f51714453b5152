//===- Collect.h - The ledger of a module -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LEDGER_COLLECT_H
#define OCTET_LEDGER_COLLECT_H

#include "mlir/IR/BuiltinOps.h"
#include "octet/Ledger/Ledger.h"
#include "octet/Support/Status.h"

namespace octet {

/// The phase whose IR a ledger is read from: all roundings are in it, and no
/// two operators are one yet (N9).
inline constexpr const char *kLedgerPhase = "verify-precision-policy";

/// Walks what a token passes, in the order of @step, and the load function.
/// Every figure follows from a type or attribute of the IR.
/// \returns an internal error for a module without @step, or a KV cache type
/// whose parts do not add up to its bytes.
Result<Ledger> collectLedger(mlir::ModuleOp module);

} // namespace octet

#endif // OCTET_LEDGER_COLLECT_H
