//===- RowEmitter.h - Printing one row kernel -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is computed by a sequence of *nests*, loops over chunks of kLanes
// elements (the last chunk of a row is shorter, W4). Reductions and
// quantisations cut the region into nests: what follows needs all of what came
// before. RowPlan.h says which values a nest leaves in the scratch row for
// later nests; all others are computed where they are needed:
//
//   sum of squares of x + y ──► one loop: loads x and y, adds, rounds, keeps
//   the
//                               sum in scratch and stores it, accumulates
//   quantise (x + y) * r * w ─► per group: a loop for the largest magnitude,
//   the
//                               scale, a loop for the codes
//
// `valueAt` gives the elements of a value at a position by walking up its
// definition. The order of every reduction depends on the width alone.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_ROWEMITTER_H
#define OCTET_HOSTCODE_ROWEMITTER_H

#include "RowPlan.h"
#include "RowPrinter.h"
#include "RowTypes.h"
#include "dialects/Quant/QuantOps.h"
#include <numeric>

namespace octet::host {

/// An element index, `base + add`, and what is known of its divisors.
struct Position {
  mlir::Value base; ///< i64; null: `add` is all
  int64_t add = 0;
  int64_t align = 0; ///< divides base; 0 for no base

  Position plus(int64_t offset) const { return {base, add + offset, align}; }
  /// Divides the index; 0 for index 0, which everything divides.
  int64_t alignment() const { return std::gcd(align, add); }
  /// The `lanes` elements from here do not cross a multiple of `unit`.
  bool staysInside(int64_t unit, int64_t lanes) const {
    return lanes <= std::gcd(alignment(), unit);
  }
};

using ChunkFn = llvm::function_ref<void(Position, int64_t lanes)>;

/// Prints one kernel; RowValues.cpp has the values, RowNests.cpp the loops.
class RowEmitter {
public:
  RowEmitter(mlir::ImplicitLocOpBuilder &b, kernel::RowwiseOp op,
             const RowPlan &plan)
      : b(b), t(b), op(op), plan(plan), frame(RowFrame::of(op)) {}

  void print(mlir::LLVM::LLVMFuncOp function);

private:
  /// Where rows of a yielded value go, for the current row.
  struct Destination {
    mlir::Value pointer;
    mlir::Type element;
  };
  /// The same of a quantised one.
  struct Codes {
    mlir::Value codes;  ///< pointer
    mlir::Value scales; ///< pointer; null for a cache, whose scale is known
  };

  // Frame and row (set up once a call and once a row).
  mlir::Value framePointer(int64_t slot);
  void openCall(mlir::Value argument);
  void openRow(mlir::Value row);
  void addDestination(mlir::Value yielded, mlir::Type type, mlir::Value pointer,
                      mlir::Value scales, mlir::Value row);

  // Loops.
  void forChunks(Position start, int64_t width, ChunkFn body);
  void forGroups(int64_t width, int64_t group,
                 llvm::function_ref<void(mlir::Value, Position, int64_t)> body);
  mlir::Value i64(int64_t value) { return t.constantIndex(value); }
  mlir::Value indexOf(Position p);

  // Values.
  mlir::Value valueAt(mlir::Value value, Position p, int64_t lanes);
  mlir::Value computeAt(mlir::Value value, Position p, int64_t lanes);
  mlir::Value argumentAt(mlir::BlockArgument argument, Position p,
                         int64_t lanes);
  mlir::Value ropeAt(kernel::RopeOp rope, Position p, int64_t lanes);
  mlir::Value ropeChunk(kernel::RopeOp rope, Position p, int64_t lanes);
  mlir::Value gather(mlir::Value value, Position p, int64_t lanes,
                     int64_t unit);
  mlir::Value elementwise(mlir::Operation *op, mlir::ValueRange operands,
                          int64_t lanes);
  mlir::Value scalarOf(mlir::Value value);

  // Nests.
  llvm::SmallVector<mlir::Value> prepare(mlir::Value root);
  void prepareOperand(mlir::Value value, bool identity,
                      llvm::SmallVector<mlir::Value> &kept);
  void keep(llvm::ArrayRef<mlir::Value> kept, Position p, int64_t lanes);
  void finish(llvm::ArrayRef<mlir::Value> kept);
  void storeChunk(mlir::Value value, mlir::Value elements, Position p);
  void writeWhole(mlir::Value value);
  void storeYielded(mlir::Value value);
  mlir::Value reduceRange(mlir::Value value, Position start, int64_t width,
                          bool isMax, bool magnitude,
                          llvm::ArrayRef<mlir::Value> kept);
  void printReduce(kernel::ReduceOp reduce);
  void printQuantize(q::QuantizeOp quantize);
  void printFp4(q::QuantizeOp quantize);
  void storeOnce(mlir::Value scale, mlir::Value pointer);
  void writeCodes(q::QuantizeOp quantize, mlir::Value scale, Position start,
                  int64_t width, llvm::ArrayRef<mlir::Value> kept);

  mlir::ImplicitLocOpBuilder &b;
  RowTypes t;
  kernel::RowwiseOp op;
  const RowPlan &plan;
  RowFrame frame;

  // Of the call.
  llvm::SmallVector<mlir::Value> pointers;
  mlir::Value scratch;
  // Of the row.
  llvm::SmallVector<mlir::Value>
      inputRows; ///< a pointer to the row, one an input
  mlir::Value row;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Destination>> destinations;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Codes>> codeDestinations;
  llvm::DenseMap<mlir::Value, mlir::Value> scalars;
  llvm::DenseSet<mlir::Value> written; ///< in scratch (if planned) and stored
                                       ///< where loops passed them
  llvm::DenseSet<mlir::Value> stored;  ///< at all their destinations
  // Of the chunk.
  llvm::DenseMap<std::tuple<mlir::Value, mlir::Value, int64_t, int64_t>,
                 mlir::Value>
      chunk;
};

} // namespace octet::host

#endif // OCTET_HOSTCODE_ROWEMITTER_H
