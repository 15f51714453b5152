//===- RowDomain.h - Which rows of the batch a value has --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_ROWDOMAIN_H
#define OCTET_PASSES_ROWDOMAIN_H

#include "dialects/Kernel/KernelOps.h"
#include "dialects/Model/ModelOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace octet {

/// The rows of an activation: the outputs from `model.select_rows` on, the
/// step's tokens everywhere else. Functions and loops carry tokens.
kernel::Domain getRowDomain(mlir::Value value);

/// The batch that a function works on, or null.
mlir::Value findBatch(mlir::func::FuncOp function);

/// Rows of one value a token or output: `tensor<?xKx…>` or `!q.tensor<?xK…>`
/// that is not a field of the batch.
bool isActivation(mlir::Value value);

/// A row kernel that copies `value`, a plain tensor, before the builder's
/// insertion point.
mlir::Value makeRowCopy(mlir::OpBuilder &builder, mlir::Location loc,
                        mlir::Value value, mlir::Type type, mlir::Value batch,
                        llvm::StringRef label);

} // namespace octet

#endif // OCTET_PASSES_ROWDOMAIN_H
