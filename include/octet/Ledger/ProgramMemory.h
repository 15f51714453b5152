//===- ProgramMemory.h - Bytes of a compiled program ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LEDGER_PROGRAMMEMORY_H
#define OCTET_LEDGER_PROGRAMMEMORY_H

#include "mlir/IR/BuiltinOps.h"
#include "octet/Check/Check.h"

namespace octet {

/// The phase after which all bytes are known.
inline constexpr const char *kMemoryPhase = "plan-buffers";

/// What plan-buffers wrote into the module, which is what the executable's
/// `info` says, with the weights divided by dtype from the types of the slots.
/// \returns an internal error for a module without these facts, or if the parts
/// are not the whole.
Result<ProgramMemory> measureProgram(mlir::ModuleOp module);

} // namespace octet

#endif // OCTET_LEDGER_PROGRAMMEMORY_H
