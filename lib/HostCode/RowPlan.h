//===- RowPlan.h - What a row function keeps --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decides, before anything is printed, whether a region can be printed and
// which of its values are kept in the scratch row because more than one loop
// reads them. The rest is computed where it is read.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_ROWPLAN_H
#define OCTET_HOSTCODE_ROWPLAN_H

#include "dialects/Kernel/KernelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "llvm/ADT/DenseMap.h"

namespace octet::host {

struct RowPlan {
  /// First element of each kept value in the scratch row.
  llvm::DenseMap<mlir::Value, int64_t> scratch;
  int64_t scratchElements = 0; ///< f32 elements of the scratch row

  /// \returns failure after an error on the op if the region holds something
  /// that has no code, or its scratch row would not fit on a thread's stack.
  static mlir::FailureOr<RowPlan> make(kernel::RowwiseOp op);

  /// Offset of a kept value, else -1.
  int64_t scratchOf(mlir::Value value) const {
    auto found = scratch.find(value);
    return found == scratch.end() ? -1 : found->second;
  }

  /// Elements of an f32 row.
  static int64_t widthOf(mlir::Value value);
  /// Element i of the result is a function of element i of the operands.
  static bool isElementwise(mlir::Operation *op);
  /// Elements that share a scale of a dynamic quantisation.
  static int64_t groupOf(q::QuantizeOp quantize);
};

} // namespace octet::host

#endif // OCTET_HOSTCODE_ROWPLAN_H
