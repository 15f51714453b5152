//===- RowDomain.cpp - Which rows of the batch a value has ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/RowDomain.h"
#include "dialects/Quant/QuantOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;

kernel::Domain octet::getRowDomain(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return kernel::Domain::Tokens;
  return TypeSwitch<Operation *, kernel::Domain>(op)
      .Case<kernel::RowwiseOp, kernel::GemmOp>(
          [](auto kernel) { return kernel.getDomain(); })
      .Case([](model::SelectRowsOp) { return kernel::Domain::Outputs; })
      .Case([](model::FieldOp field) {
        return field.getField() == model::Field::OutputRows
                   ? kernel::Domain::Outputs
                   : kernel::Domain::Tokens;
      })
      .Case<model::RmsNormOp, model::LinearOp, model::SplitOp, model::RopeOp,
            model::AddOp, model::SwigluOp, model::LayerNormOp, model::LmHeadOp,
            q::QuantizeOp, q::DequantizeOp>(
          [](auto rows) { return getRowDomain(rows->getOperand(0)); })
      .Default(kernel::Domain::Tokens);
}

Value octet::findBatch(func::FuncOp function) {
  if (!function || function.isExternal())
    return {};
  for (BlockArgument argument : function.getArguments())
    if (isa<model::BatchType>(argument.getType()))
      return argument;
  return {};
}

bool octet::isActivation(Value value) {
  if (value.getDefiningOp<model::FieldOp>())
    return false;
  if (auto quantized = dyn_cast<q::TensorType>(value.getType()))
    return quantized.getRank() == 2 && ShapedType::isDynamic(quantized.getN());
  if (isa<model::DispatchedType>(value.getType()))
    return true;
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && tensor.getRank() == 2 && tensor.isDynamicDim(0);
}

Value octet::makeRowCopy(OpBuilder &builder, Location loc, Value value,
                         Type type, Value batch, StringRef label) {
  auto source = cast<RankedTensorType>(value.getType());
  auto result = cast<RankedTensorType>(type);
  Attribute row =
      kernel::AccessAttr::get(builder.getContext(), kernel::Access::Row);
  auto copy = kernel::RowwiseOp::create(
      builder, loc, TypeRange{result}, label, getRowDomain(value), batch,
      ValueRange{value}, builder.getArrayAttr({row}), ValueRange(),
      ValueRange(), Value(), Value(), builder.getArrayAttr({}));
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&copy.getBody());
  Value element = body->addArgument(
      RankedTensorType::get({source.getDimSize(1)}, builder.getF32Type()), loc);
  if (!result.getElementType().isF32() &&
      result.getElementType() != source.getElementType())
    element =
        kernel::RoundOp::create(builder, loc, element, result.getElementType());
  kernel::YieldOp::create(builder, loc, ValueRange{element});
  return copy.getResult(0);
}
