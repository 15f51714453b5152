//===- ModelRankOps.cpp - Verifiers of what ranks do with their rows ------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelVerify.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;
using namespace octet::model;

LogicalResult GatherTokensOp::verify() {
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "groups", getGroups())))
    return failure();
  auto quantized = dyn_cast<q::TensorType>(getInput().getType());
  ArrayRef<int64_t> shape =
      quantized ? quantized.getShape() : plainType(getInput()).getShape();
  if (shape.size() != 2 || !ShapedType::isDynamic(shape[0]))
    return emitOpError() << "input is " << getInput().getType()
                         << ", expected the rows of a step [W3c]";
  return success();
}

LogicalResult ScatterSumOp::verify() {
  RankedTensorType input = plainType(getInput());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "ranks", getRanks())) ||
      failed(verifyPositive(*this, "groups", getGroups())) ||
      failed(verifyRankSum(*this, input)))
    return failure();
  if (getRanks() % getGroups() != 0)
    return emitOpError() << int64_t(getRanks()) << " ranks are not "
                         << int64_t(getGroups()) << " equal groups [W3c]";
  return success();
}

LogicalResult octet::model::verifyRankSum(Operation *op,
                                          RankedTensorType type) {
  if (q::isPlainFloat(type.getElementType()))
    return verifyRows(op, "input", type);
  return op->emitOpError() << "adds " << type
                           << "; a sum over ranks is in f32, bf16 or f16, "
                              "never in FP8 [P15]";
}

/// A row between its own width and the whole blocks of a padded weight.
static LogicalResult verifyPadding(Operation *op, RankedTensorType narrow,
                                   RankedTensorType wide, AffineMap first,
                                   int64_t block) {
  if (failed(verifyRows(op, "input", plainType(op->getOperand(0)))) ||
      failed(verifyRows(op, "result", plainType(op->getResult(0)))) ||
      failed(verifyPositive(op, "block", block)) ||
      failed(verifySameRows(op, "input", narrow.getDimSize(0), "result",
                            wide.getDimSize(0))))
    return failure();
  if (first.getNumDims() != 1 || first.getNumSymbols() != 0 ||
      first.getNumResults() != 1)
    return op->emitOpError() << "begins at " << AffineMapAttr::get(first)
                             << ", expected one function of the rank [W3]";
  int64_t own = narrow.getDimSize(1), padded = wide.getDimSize(1);
  if (narrow.getElementType() != wide.getElementType() || padded < own ||
      padded - own >= 2 * block)
    return op->emitOpError() << "pads " << narrow << " to " << wide
                             << ", expected less than two blocks of " << block
                             << " more, in the same dtype [W3]";
  return success();
}

LogicalResult OwnColumnsOp::verify() {
  return failure(
      failed(verifyModule(*this, getModule())) ||
      failed(verifyPadding(*this, plainType(getResult()), plainType(getInput()),
                           getFirst(), getBlock())));
}

LogicalResult PlaceColumnsOp::verify() {
  return failure(
      failed(verifyModule(*this, getModule())) ||
      failed(verifyPadding(*this, plainType(getInput()), plainType(getResult()),
                           getFirst(), getBlock())));
}
