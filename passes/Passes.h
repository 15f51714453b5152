//===- Passes.h - The passes of Octet ---------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes.td says what each pass does; a pass is made by its generated
// `createX()` or `createX(XOptions)`.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_PASSES_H
#define OCTET_PASSES_PASSES_H

#include "mlir/Pass/Pass.h"

namespace octet {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

/// Registers every pass, for octet-opt.
void registerPasses();

} // namespace octet

#endif // OCTET_PASSES_PASSES_H
