//===- LoadFunction.h - Slots and the function that fills them --*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What materialize-weights collects, one step for each operator that needs a
// weight, and the code that it becomes. A step does not know where it runs:
// the load function calls it once for each layer, in a loop over each run of
// layers, and leaves out what an earlier step has loaded.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_LOADFUNCTION_H
#define OCTET_PASSES_LOADFUNCTION_H

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace octet {

/// The symbol of the load function.
inline constexpr llvm::StringLiteral kLoadFunction = "load";

/// A slot to be declared. Kinds of layers whose tensors have the same type
/// share one; `key` tells apart what only has the same name.
struct Slot {
  std::string base;
  mlir::Type type;
  mlir::Attribute key;
  /// Instances are told apart by the layer number; not if all are of one layer
  /// (--extract), which is `onlyLayer`.
  bool indexed = false;
  std::optional<int64_t> onlyLayer;
  std::string symbol = {};
  int64_t count = 1;
  std::set<int64_t> used = {}; ///< indices, where `indexed`
};

/// What one operator of the step asks the load function to do: `emit` makes
/// the values of `slots`, one each, for the layer `index` (null: none).
struct LoadStep {
  mlir::Location loc;
  mlir::Value layer;
  llvm::SmallVector<unsigned, 2> slots;
  std::function<llvm::SmallVector<mlir::Value>(mlir::OpBuilder &,
                                               mlir::Value index)>
      emit;
  /// Where there are experts the slots have them first, and this makes the
  /// values of one, in a loop over `experts` of them (W5). Its `expert` is the
  /// checkpoint's number: `firstExpert` of the rank, if not null, is that of
  /// the slots' first (W3c).
  int64_t experts = 0;
  mlir::AffineMap firstExpert = {};
  std::function<llvm::SmallVector<mlir::Value>(
      mlir::OpBuilder &, mlir::Value index, mlir::Value expert)>
      emitExpert = {};
};

class LoadFunction {
public:
  using Steps =
      llvm::MapVector<mlir::Operation *, llvm::SmallVector<LoadStep, 2>>;

  /// The slot of that name, type and key, made if there is none. `layer` is the
  /// layer number that it is read with, or null.
  unsigned addSlot(std::string base, mlir::Type type, mlir::Attribute key,
                   mlir::Value layer);
  void addStep(mlir::Operation *op, LoadStep step);

  const Steps &getSteps() const { return steps; }
  size_t getNumSlots() const { return slots.size(); }
  llvm::StringRef getBase(unsigned slot) const { return slots[slot].base; }

  /// Refuses a step whose layers are unknown.
  mlir::LogicalResult verify() const;

  /// Names the slots, then declares them and makes the function at the start
  /// of the module.
  mlir::func::FuncOp emit(mlir::ModuleOp module);

  /// Reads a slot in the step; only after emit.
  mlir::Value readSlot(mlir::OpBuilder &builder, mlir::Location loc,
                       unsigned slot, mlir::Value layer) const;

private:
  void nameSlots();
  mlir::Value emitConstant(int64_t value);
  /// A function of the rank, as makeFirst (RankSlices.h) makes them.
  mlir::Value emitExpression(mlir::OpBuilder &builder, mlir::Location loc,
                             mlir::AffineExpr expression);
  void emitStep(mlir::OpBuilder &builder, const LoadStep &step,
                mlir::Value index);
  void emitSteps(mlir::OpBuilder &builder, mlir::Location loc,
                 llvm::ArrayRef<const LoadStep *> all, mlir::Value layer);
  void emitCall(mlir::OpBuilder &builder, mlir::func::CallOp call);
  void emitRoot(mlir::OpBuilder &builder, mlir::func::FuncOp root);

  llvm::SmallVector<Slot> slots;
  Steps steps;
  llvm::StringSet<> emitted; ///< symbol, and first layer of the run
  std::map<int64_t, mlir::Value> constants; ///< any number is a key
  mlir::Block *entry = nullptr;
};

} // namespace octet

#endif // OCTET_PASSES_LOADFUNCTION_H
