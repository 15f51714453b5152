//===- MlaForm.cpp - Explicit and absorbed latent attention
//--------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/MlaForm.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace octet;

MlaForm octet::getMlaForm(model::MlaAttentionOp op) {
  model::SettingsAttr settings = model::getSettings(op);
  StringRef mla = settings ? settings.getMla() : StringRef("auto");
  if (mla == "explicit")
    return MlaForm::Explicit;
  if (mla == "absorbed" || !settings || settings.getBatchInvariant())
    return MlaForm::Absorbed;
  return MlaForm::Both;
}

AbsorbedTypes octet::getAbsorbedTypes(model::MlaAttentionOp op, Type weight) {
  auto plain = dyn_cast<RankedTensorType>(weight);
  Type element =
      (plain ? plain : cast<RankedTensorType>(op.getResult().getType()))
          .getElementType();
  int64_t heads = op.getHeads(), rank = op.getRank();
  int64_t nope = op.getNopeDim(), value = op.getValueDim();
  // The operator has verified that the rows fit an int64_t.
  return {RankedTensorType::get({heads * (nope + value), rank}, element),
          RankedTensorType::get({heads, nope, rank}, element),
          RankedTensorType::get({heads, value, rank}, element),
          op.getKvBRowsAttr()};
}

SmallVector<Value> octet::emitAbsorbed(OpBuilder &builder, Location loc,
                                       const AbsorbedTypes &types, Value weight,
                                       Value rank) {
  RankedTensorType matrix = types.matrix;
  if (q::SliceAttr rows = types.rows)
    matrix = matrix.clone({rows.getSize(), matrix.getDimSize(1)});
  if (isa<q::TensorType>(weight.getType()))
    weight = q::DequantizeOp::create(builder, loc, matrix, weight);
  if (q::SliceAttr rows = types.rows) {
    AffineMap first = rows.getFirst().getValue();
    auto own =
        q::SliceAttr::get(builder.getContext(), q::Side::Rows, rows.getOwn(),
                          AffineMapAttr::get(AffineMap::get(
                              1, 0, first.getResult(0) % rows.getBlock())),
                          q::Fit::Exact, 0, 0);
    weight = q::SliceOp::create(builder, loc, types.matrix, weight, rank, own);
  }
  auto halves =
      q::SplitHeadsOp::create(builder, loc, types.keys, types.values, weight);
  return {halves.getFirst(), halves.getSecond()};
}

void octet::useMatrices(model::MlaAttentionOp op, ArrayRef<Value> matrices) {
  op.getKvBMutable().assign(matrices);
  if (matrices.size() == 2)
    op.removeKvBRowsAttr();
  if (matrices.size() == 2 && op.getContractAttr())
    op.setContractAttr(q::ContractAttr::get(
        op.getContext(), q::GranularityAttr(), Type(), q::GranularityAttr(),
        /*isStatic=*/false, /*ue8m0=*/false));
}
