//===- RowwiseConversion.h - Operators as row kernels -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_ROWWISECONVERSION_H
#define OCTET_PASSES_ROWWISECONVERSION_H

#include "mlir/IR/Operation.h"

namespace octet {

/// Replaces an operator that works on single rows by a `kernel.rowwise` of its
/// own, whose region is its arithmetic (SPEC section 5).
/// \returns whether `op` was such an operator; failure after an error on it if
/// its kernel cannot be written.
mlir::FailureOr<bool> convertToRowwise(mlir::Operation *op);

} // namespace octet

#endif // OCTET_PASSES_ROWWISECONVERSION_H
