//===- RankSlices.cpp - Which part is a rank's ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/RankSlices.h"
#include "mlir/IR/Builders.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;

AffineMap octet::makeFirst(MLIRContext *context, const RankShare &share,
                           int64_t stride, int64_t all) {
  AffineExpr rank = getAffineDimExpr(0, context);
  if (share.parts == 1)
    return AffineMap::get(1, 0, getAffineConstantExpr(0, context));
  if (share.ranks < all)
    rank = rank % share.ranks;
  if (share.every > 1)
    rank = rank.floorDiv(share.every);
  return AffineMap::get(1, 0, rank * stride);
}

q::SliceAttr octet::makeSlice(MLIRContext *context, const SideCut &cut,
                              int64_t all) {
  int64_t own = cut.whole / cut.share.parts;
  auto first = AffineMapAttr::get(makeFirst(context, cut.share, own, all));
  if (cut.share.parts == 1 || own % cut.step == 0)
    return q::SliceAttr::get(context, cut.side, own, first, q::Fit::Exact, 0,
                             0);
  int64_t padded = padSplit(
      {.name = "", .size = cut.whole, .block = cut.step, .blockName = ""},
      cut.share.parts);
  return q::SliceAttr::get(context, cut.side, padded, first, q::Fit::Padded,
                           own, cut.step);
}

Padding octet::getPadding(q::SliceAttr slice) {
  if (slice.getFit() != q::Fit::Padded)
    return {};
  return {slice.getFirst().getValue(), slice.getOwn(), slice.getBlock()};
}

q::SliceAttr octet::makeOnce(MLIRContext *context, q::Side side, int64_t size,
                             const RankShare &share, int64_t all) {
  auto first = AffineMapAttr::get(makeFirst(context, share, size, all));
  return q::SliceAttr::get(context, side, size, first,
                           share.parts == 1 ? q::Fit::Exact : q::Fit::Short, 0,
                           0);
}

q::SliceAttr octet::makeVocabulary(MLIRContext *context, Type table, int64_t tp,
                                   int64_t all) {
  int64_t whole = *q::getSideSize(table, q::Side::Rows);
  int64_t size =
      alignTo(cdiv(whole, tp), q::getSliceStep(table, q::Side::Rows));
  auto first = AffineMapAttr::get(
      makeFirst(context, RankShare::ofTensors(tp, tp), size, all));
  bool isShort = checkedMul(size, tp) != whole;
  return q::SliceAttr::get(context, q::Side::Rows, size, first,
                           isShort ? q::Fit::Short : q::Fit::Exact, 0, 0);
}

void octet::setSlices(model::WeightOp op, ArrayRef<q::SliceAttr> slices) {
  Type type = op.getResult().getType();
  q::Side side = slices[0].getSide();
  int64_t sum = 0;
  SmallVector<int64_t> sizes;
  for (q::SliceAttr slice : slices) {
    sizes.push_back(slice.getSize());
    sum += slice.getSize();
  }
  auto quantized = dyn_cast<q::TensorType>(type);
  if (side != q::Side::Rows)
    type = q::withSideSize(type, side, sizes[0]);
  else if (quantized)
    type = quantized.withShardRows(sizes);
  else
    type = q::withSideSize(type, side, sum);
  op.getResult().setType(type);
  SmallVector<Attribute> attrs(slices.begin(), slices.end());
  op.setSlicesAttr(ArrayAttr::get(op.getContext(), attrs));
}
