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
          RankedTensorType::get({heads, value, rank}, element)};
}

SmallVector<Value> octet::emitAbsorbed(OpBuilder &builder, Location loc,
                                       const AbsorbedTypes &types,
                                       Value weight) {
  if (isa<q::TensorType>(weight.getType()))
    weight = q::DequantizeOp::create(builder, loc, types.matrix, weight);
  auto halves =
      q::SplitHeadsOp::create(builder, loc, types.keys, types.values, weight);
  return {halves.getFirst(), halves.getSecond()};
}

void octet::useMatrices(model::MlaAttentionOp op, ArrayRef<Value> matrices) {
  op.getKvBMutable().assign(matrices);
  if (matrices.size() == 2 && op.getContractAttr())
    op.setContractAttr(q::ContractAttr::get(
        op.getContext(), q::GranularityAttr(), Type(), q::GranularityAttr(),
        /*isStatic=*/false, /*ue8m0=*/false));
}
