//===- RowPrinter.h - kernel.rowwise to vector code -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The region of a `kernel.rowwise` is its only definition; this printer makes
// the CPU's code of it: a function `void fn(ptr arg, i64 begin, i64 end)`
// (octet_row_fn) over rows [begin, end), in arith, math, vector and scf on
// vectors of kLanes f32, with loads and stores of the LLVM dialect.
//
// `arg` points to an array of pointers, laid out by RowFrame.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_ROWPRINTER_H
#define OCTET_HOSTCODE_ROWPRINTER_H

#include "dialects/Kernel/KernelOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"

namespace octet::host {

/// Which pointer stands where in a row function's argument.
struct RowFrame {
  llvm::SmallVector<int64_t> inputs;  ///< one an input
  llvm::SmallVector<int64_t> indices; ///< i32, one an index operand
  llvm::SmallVector<int64_t> outs;    ///< one a destination: its codes
  /// Of a quantised destination, else -1. Of m rows that a kernel writes, the
  /// scale of row r and group g stands where the layout of its type says: at
  /// [r * groups + g]; in column_major_scales at [g * p + r], p being m rounded
  /// up to 4; in ue8m0_packed in byte g % 4 of the word [g / 4 * p + r] (B1,
  /// P3).
  llvm::SmallVector<int64_t> scales;
  int64_t cacheK = -1, cacheV = -1, slots = -1;
  int64_t size = 0; ///< in pointers

  static RowFrame of(kernel::RowwiseOp op);
};

/// Bytes that one row reads and writes: how much work it is.
int64_t countRowBytes(kernel::RowwiseOp op);

/// Prints `op` (after plan-buffers) as the private function `name` at the
/// builder's insertion point. What it cannot print is an error on the op, and
/// nothing is left behind.
mlir::FailureOr<mlir::LLVM::LLVMFuncOp>
printRowFunction(mlir::OpBuilder &builder, kernel::RowwiseOp op,
                 llvm::StringRef name);

} // namespace octet::host

#endif // OCTET_HOSTCODE_ROWPRINTER_H
