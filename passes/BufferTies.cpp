//===- BufferTies.cpp - Names of one carried value ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/BufferTies.h"
#include "dialects/Quant/QuantOps.h"
#include "passes/RowDomain.h"

using namespace mlir;
using namespace octet;

/// The operation of `block` that is or holds `op`.
static Operation *inBlock(Block *block, Operation *op) {
  return block->findAncestorOpInBlock(*op);
}

/// `value` is read by something of `block` at or after `op`, other than `op`
/// itself if `except` is that use.
static bool isReadFrom(Value value, Operation *op, OpOperand *except) {
  for (OpOperand &use : value.getUses()) {
    if (&use == except)
      continue;
    Operation *user = inBlock(op->getBlock(), use.getOwner());
    if (user && !user->isBeforeInBlock(op))
      return true;
  }
  return false;
}

LogicalResult Ties::copyOperand(OpOperand &use) {
  Operation *user = use.getOwner();
  Value value = use.get();
  auto function = user->getParentOfType<func::FuncOp>();
  Value batch = findBatch(function);
  if (!batch || !isa<RankedTensorType>(value.getType()))
    return user->emitError()
           << "carries " << value.getType() << ", which cannot be copied";
  OpBuilder builder(user);
  use.set(makeRowCopy(builder, user->getLoc(), value, value.getType(), batch,
                      "copy"));
  return success();
}

LogicalResult Ties::tieLoop(scf::ForOp loop) {
  Block *body = loop.getBody();
  auto yield = cast<scf::YieldOp>(body->getTerminator());
  for (unsigned i = 0; i < loop.getNumResults(); ++i) {
    BlockArgument argument = loop.getRegionIterArg(i);
    if (!isActivation(argument))
      return loop.emitError()
             << "carries " << argument.getType() << ", expected an activation";
    OpOperand &init = loop.getInitsMutable()[i];
    if (!isActivation(init.get()) || isReadFrom(init.get(), loop, &init))
      if (failed(copyOperand(init)))
        return failure();
    OpOperand &next = yield.getResultsMutable()[i];
    Operation *maker = next.get().getDefiningOp();
    bool isFree = next.get() == argument;
    if (maker && maker->getBlock() == body) {
      // A call may take the old value and return the new one; its body is
      // checked in separateReturn.
      OpOperand *taken = nullptr;
      if (isa<func::CallOp>(maker))
        for (OpOperand &operand : maker->getOpOperands())
          if (operand.get() == argument)
            taken = &operand;
      isFree = !isReadFrom(argument, maker, taken);
    }
    for (unsigned j = 0; j < i; ++j) // one value cannot be in two places
      isFree &= next.get() != yield.getResults()[j];
    if (!isFree && failed(copyOperand(next)))
      return failure();
    tieTogether(init.get(), argument);
    tieTogether(argument, next.get());
    tieTogether(argument, loop.getResult(i));
  }
  return success();
}

LogicalResult Ties::tieCall(func::CallOp call) {
  auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal())
    return call.emitError()
           << "calls @" << call.getCallee() << ", which has no body";
  auto ret = cast<func::ReturnOp>(callee.getBody().front().getTerminator());
  for (auto [i, operand] : llvm::enumerate(call->getOpOperands())) {
    if (!isa<TensorType, q::TensorType>(operand.get().getType()))
      continue;
    // The callee may write its result over what it was given.
    if (!isActivation(operand.get()) ||
        isReadFrom(operand.get(), call, &operand))
      if (failed(copyOperand(operand)))
        return failure();
    tieTogether(operand.get(), callee.getArgument(i));
  }
  for (auto [result, returned] :
       llvm::zip(call.getResults(), ret.getOperands()))
    tieTogether(result, returned);
  return success();
}

/// A function's result is not made while an argument is still needed.
LogicalResult Ties::separateReturn(func::FuncOp function) {
  Operation *ret = function.getBody().front().getTerminator();
  for (OpOperand &operand : ret->getOpOperands()) {
    Operation *maker = operand.get().getDefiningOp();
    bool isFree = maker && maker->getBlock() == ret->getBlock() &&
                  !isa<scf::ForOp>(maker);
    for (BlockArgument argument : function.getArguments())
      // Only values of one type are ever in one place.
      if (isFree && isActivation(argument) &&
          argument.getType() == operand.get().getType())
        isFree = !isReadFrom(argument, maker, nullptr);
    for (unsigned j = 0; j < operand.getOperandNumber(); ++j)
      isFree &= operand.get() != ret->getOperand(j);
    if (!isFree && failed(copyOperand(operand)))
      return failure();
  }
  return success();
}

LogicalResult Ties::tie() {
  for (func::FuncOp function : module.getOps<func::FuncOp>())
    if (findBatch(function) && failed(separateReturn(function)))
      return failure();
  SmallVector<Operation *> carriers;
  module.walk([&](Operation *op) {
    auto function = op->getParentOfType<func::FuncOp>();
    if (isa<scf::ForOp, func::CallOp>(op) && function && findBatch(function))
      carriers.push_back(op);
  });
  for (Operation *op : carriers) {
    auto loop = dyn_cast<scf::ForOp>(op);
    if (failed(loop ? tieLoop(loop) : tieCall(cast<func::CallOp>(op))))
      return failure();
  }
  return success();
}
