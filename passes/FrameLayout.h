//===- FrameLayout.h - Places by lifetime -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_FRAMELAYOUT_H
#define OCTET_PASSES_FRAMELAYOUT_H

#include "passes/BufferTies.h"
#include "llvm/ADT/DenseSet.h"
#include <optional>

namespace octet {

struct Size {
  int64_t bytes = 0;        ///< of all, a multiple of kAlignment
  int64_t scaleOffset = -1; ///< of the scales from the start; -1 for none
};

/// Bytes of `rows` rows; nothing if they do not fit an int64_t.
std::optional<Size> measure(mlir::Type type, int64_t rows);

/// The error for an activation that `measure` refuses.
mlir::LogicalResult reportSize(mlir::Operation *op, mlir::Type type,
                               int64_t rows);

/// One value of a function that shares the frame by lifetime.
struct Lifetime {
  mlir::Value value;
  int64_t first, last; ///< operations in pre-order, both included
  Size size;
  int64_t offset = -1;
};

/// Where a callee may start: what each call keeps alive below it.
using FrameBases = llvm::DenseMap<mlir::Operation *, int64_t>;

class FrameLayout {
public:
  FrameLayout(mlir::func::FuncOp function, const Ties &ties,
              const llvm::DenseSet<mlir::Value> &elsewhere, int64_t rows)
      : function(function), ties(ties), elsewhere(elsewhere), rows(rows) {}

  /// Places the values from `base` on, and raises the bases of callees.
  mlir::FailureOr<int64_t> layOut(int64_t base, FrameBases &bases);
  llvm::ArrayRef<Lifetime> getLifetimes() const { return lifetimes; }

private:
  mlir::LogicalResult collect();

  mlir::func::FuncOp function;
  const Ties &ties;
  const llvm::DenseSet<mlir::Value> &elsewhere;
  int64_t rows;
  llvm::SmallVector<Lifetime> lifetimes;
  llvm::DenseMap<mlir::Operation *, int64_t> order;
  llvm::SmallVector<mlir::func::CallOp> calls;
};

} // namespace octet

#endif // OCTET_PASSES_FRAMELAYOUT_H
