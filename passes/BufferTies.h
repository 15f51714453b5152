//===- BufferTies.h - Names of one carried value ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_BUFFERTIES_H
#define OCTET_PASSES_BUFFERTIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/EquivalenceClasses.h"

namespace octet {

/// Ties the names that loops and calls give to one value, inserting copies
/// where two names of it would be alive together.
class Ties {
public:
  Ties(mlir::ModuleOp module) : module(module) {}

  mlir::LogicalResult tie();
  /// The name that stands for all, and whether a loop or call carries it.
  mlir::Value leaderOf(mlir::Value value) const {
    auto it = classes.findLeader(value.getAsOpaquePointer());
    return it == classes.member_end() ? value
                                      : mlir::Value::getFromOpaquePointer(*it);
  }
  bool isTied(mlir::Value value) const {
    return classes.findLeader(value.getAsOpaquePointer()) !=
           classes.member_end();
  }

private:
  void tieTogether(mlir::Value a, mlir::Value b) {
    classes.unionSets(a.getAsOpaquePointer(), b.getAsOpaquePointer());
  }
  mlir::LogicalResult tieLoop(mlir::scf::ForOp loop);
  mlir::LogicalResult tieCall(mlir::func::CallOp call);
  mlir::LogicalResult separateReturn(mlir::func::FuncOp function);
  mlir::LogicalResult copyOperand(mlir::OpOperand &use);

  mlir::ModuleOp module;
  llvm::EquivalenceClasses<void *> classes;
};

} // namespace octet

#endif // OCTET_PASSES_BUFFERTIES_H
