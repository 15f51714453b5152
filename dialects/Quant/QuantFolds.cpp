//===- QuantFolds.cpp - Folds of q ----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Folds that remove an operator which changes nothing. None of them changes a
// number: dequantize(quantize(x)) is not x.
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantOps.h"

using namespace mlir;
using namespace octet::q;

/// unpack(pack(data, scale)) is (data, scale).
LogicalResult UnpackOp::fold(FoldAdaptor,
                             SmallVectorImpl<OpFoldResult> &results) {
  auto pack = getInput().getDefiningOp<PackOp>();
  if (!pack)
    return failure();
  results.push_back(pack.getData());
  results.push_back(pack.getScale());
  return success();
}

/// pack(unpack(w)) is w, if the type is the same: a scale grid of equal shape
/// may mean another granularity.
OpFoldResult PackOp::fold(FoldAdaptor) {
  auto unpack = getData().getDefiningOp<UnpackOp>();
  if (!unpack || getData() != unpack.getData() ||
      getScale() != unpack.getScale() || getZeros() || getGlobal() ||
      getOrder() || unpack.getInput().getType() != getType())
    return {};
  return unpack.getInput();
}

/// Scales that keep their type are not converted.
OpFoldResult ConvertScalesOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  return {};
}

/// One matrix by itself is not fused.
OpFoldResult ConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1 && getInputs()[0].getType() == getType())
    return getInputs()[0];
  return {};
}

/// The largest of one value.
OpFoldResult MaxOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1 && getInputs()[0].getType() == getType())
    return getInputs()[0];
  return {};
}
