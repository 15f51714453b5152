//===- RowwiseConversion.cpp - Operators as row kernels -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One function per operator; each writes its arithmetic, in FP32, as a region.
// What the operator rounds goes through kernel.round (N9).
//
//===----------------------------------------------------------------------===//

#include "passes/RowwiseConversion.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/RowDomain.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;
using kernel::Access;
using kernel::RowwiseOp;

namespace {

/// A row kernel in the making: operands, then the region's values.
class RowKernel {
public:
  RowKernel(Operation *op, StringRef label, kernel::Domain domain)
      : op(op), label(label), domain(domain), b(op), loc(op->getLoc()) {
    b.createBlock(&region);
  }

  /// An operand, and \returns its row in the region.
  Value read(Value operand, Access access, Value index = {});
  void module(std::optional<StringRef> path) {
    if (path)
      modules.push_back(b.getStringAttr(*path));
  }

  // Arithmetic of the region, which is written from front to back.
  Value add(Value x, Value y) { return arith::AddFOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, loc, x, y); }
  Value neg(Value x) { return arith::NegFOp::create(b, loc, x); }
  Value exp(Value x) { return math::ExpOp::create(b, loc, x); }
  Value sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
  /// `value` in every element of a row of `width`.
  Value constant(float value, int64_t width);
  Value slice(Value x, int64_t offset, int64_t width) {
    return kernel::SliceOp::create(b, loc, row(width), x, offset);
  }
  Value tile(Value x, int64_t width) {
    return widthOf(x) == width ? x
                               : kernel::TileOp::create(b, loc, row(width), x);
  }
  /// Sums of the `parts` equal parts of a row.
  Value sum(Value x, int64_t parts);
  /// The inverse direction.
  Value broadcast(Value x, int64_t width);
  Value rope(Value x, Value table, model::RopeOp op) {
    return kernel::RopeOp::create(b, loc, x.getType(), x, table,
                                  op.getHeadDim(), op.getInterleaved(),
                                  op.getOffset());
  }
  Value quantize(Value x, Value scale, bool ue8m0, Type type,
                 FloatAttr bound = {});
  /// `x` as a row of elements of `type`: rounded unless it is exact already.
  Value round(Value x, Type type);

  static int64_t widthOf(Value x) {
    return cast<RankedTensorType>(x.getType()).getDimSize(0);
  }

  /// Puts the kernel in the operator's place. `values` are the rows of its
  /// results, then of the cache.
  void finish(ArrayRef<Value> values, Value cache = {}, Value slots = {});

private:
  bool isExact(Value x, Type element) const;
  RankedTensorType row(int64_t width) {
    return RankedTensorType::get({width}, b.getF32Type());
  }

  Operation *op;
  StringRef label;
  kernel::Domain domain;
  Region region;
  OpBuilder b; ///< in the region
  Location loc;
  SmallVector<Value> inputs, indices;
  SmallVector<Attribute> access, modules;
};

} // namespace

Value RowKernel::read(Value operand, Access how, Value index) {
  inputs.push_back(operand);
  access.push_back(kernel::AccessAttr::get(op->getContext(), how));
  if (how == Access::Indexed)
    indices.push_back(index);
  int64_t width = 1;
  if (auto packed = dyn_cast<q::TensorType>(operand.getType()))
    width = packed.getK();
  else if (auto type = cast<RankedTensorType>(operand.getType());
           type.getRank() > 0)
    width = type.getShape().back();
  return region.addArgument(row(width), loc);
}

Value RowKernel::constant(float value, int64_t width) {
  return arith::ConstantOp::create(b, loc,
                                   DenseElementsAttr::get(row(width), value));
}

Value RowKernel::sum(Value x, int64_t parts) {
  IntegerAttr group;
  if (parts > 1)
    group = b.getI64IntegerAttr(widthOf(x) / parts);
  return kernel::ReduceOp::create(
      b, loc, row(parts),
      kernel::ReductionAttr::get(op->getContext(), kernel::Reduction::Add), x,
      group);
}

Value RowKernel::broadcast(Value x, int64_t width) {
  IntegerAttr group;
  if (widthOf(x) > 1)
    group = b.getI64IntegerAttr(width / widthOf(x));
  return kernel::BroadcastOp::create(b, loc, row(width), x, group);
}

Value RowKernel::quantize(Value x, Value scale, bool ue8m0, Type type,
                          FloatAttr bound) {
  auto quantized = cast<q::TensorType>(type);
  return q::QuantizeOp::create(b, loc,
                               quantized.withShape({1, quantized.getK()}), x,
                               scale, ue8m0, bound);
}

/// Not isRoundedTo: the region has no kernel around it yet.
bool RowKernel::isExact(Value x, Type element) const {
  while (auto slice = x.getDefiningOp<kernel::SliceOp>())
    x = slice.getInput();
  auto argument = dyn_cast<BlockArgument>(x);
  auto type = argument ? dyn_cast<RankedTensorType>(
                             inputs[argument.getArgNumber()].getType())
                       : RankedTensorType();
  return type && type.getElementType() == element;
}

Value RowKernel::round(Value x, Type type) {
  Type element = cast<RankedTensorType>(type).getElementType();
  if (element.isF32() || isExact(x, element))
    return x;
  return kernel::RoundOp::create(b, loc, x, element);
}

void RowKernel::finish(ArrayRef<Value> values, Value cache, Value slots) {
  kernel::YieldOp::create(b, loc, values);
  b.setInsertionPoint(op);
  Value batch = findBatch(op->getParentOfType<func::FuncOp>());
  auto made =
      RowwiseOp::create(b, loc, op->getResultTypes(), label, domain, batch,
                        inputs, b.getArrayAttr(access), indices, ValueRange(),
                        cache, slots, b.getArrayAttr(modules));
  made.getBody().takeBody(region);
  op->replaceAllUsesWith(made);
  op->erase();
}

//===----------------------------------------------------------------------===//
// The operators
//===----------------------------------------------------------------------===//

static int64_t rowWidth(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}

/// y[t] = w[ids[t]] (P1)
static void convert(model::EmbeddingOp op) {
  RowKernel k(op, "embedding", kernel::Domain::Tokens);
  Value x = k.read(op.getWeight(), Access::Indexed, op.getIds());
  k.finish({k.round(x, op.getType())});
}

/// y = x * (1 / sqrt(sum(x^2) / K + eps)) * w, in each head (P2, P5)
static void convert(model::RmsNormOp op) {
  RowKernel k(op, "rms_norm", getRowDomain(op.getInput()));
  k.module(op.getModule());
  Value x = k.read(op.getInput(), Access::Row);
  Value w = k.read(op.getWeight(), Access::Uniform);
  int64_t width = rowWidth(op.getInput());
  int64_t heads = op.getHeads();
  Value mean =
      k.div(k.sum(k.mul(x, x), heads), k.constant(float(width / heads), heads));
  Value root =
      k.sqrt(k.add(mean, k.constant(op.getEps().convertToFloat(), heads)));
  Value factor = k.div(k.constant(1.0f, heads), root);
  Value y = k.mul(k.mul(x, k.broadcast(factor, width)), k.tile(w, width));
  k.finish({k.round(y, op.getType())});
}

/// y = (x - mean) / sqrt(mean((x - mean)^2) + eps) * w + bias (P5)
static void convert(model::LayerNormOp op) {
  RowKernel k(op, "layer_norm", getRowDomain(op.getInput()));
  k.module(op.getModule());
  Value x = k.read(op.getInput(), Access::Row);
  Value w = k.read(op.getWeight(), Access::Uniform);
  Value bias = k.read(op.getBias(), Access::Uniform);
  int64_t width = rowWidth(op.getInput());
  Value count = k.constant(float(width), 1);
  Value mean = k.div(k.sum(x, 1), count);
  Value centred = k.add(x, k.neg(k.broadcast(mean, width)));
  Value variance = k.div(k.sum(k.mul(centred, centred), 1), count);
  Value root =
      k.sqrt(k.add(variance, k.constant(op.getEps().convertToFloat(), 1)));
  Value normed = k.div(centred, k.broadcast(root, width));
  k.finish({k.round(k.add(k.mul(normed, w), bias), op.getType())});
}

/// y = a + b (P2)
static void convert(model::AddOp op) {
  RowKernel k(op, "add", getRowDomain(op.getLhs()));
  Value x = k.read(op.getLhs(), Access::Row);
  Value y = k.read(op.getRhs(), Access::Row);
  k.finish({k.round(k.add(x, y), op.getType())});
}

/// y = gate / (1 + exp(-gate)) * up (N9)
static void convert(model::SwigluOp op) {
  RowKernel k(op, "swiglu", getRowDomain(op.getGate()));
  Value gate = k.read(op.getGate(), Access::Row);
  Value up = k.read(op.getUp(), Access::Row);
  Value one = k.constant(1.0f, rowWidth(op.getGate()));
  Value silu = k.div(gate, k.add(one, k.exp(k.neg(gate))));
  k.finish({k.round(k.mul(silu, up), op.getType())});
}

/// P6
static void convert(model::RopeOp op) {
  RowKernel k(op, "rope", getRowDomain(op.getInput()));
  k.module(op.getModule());
  Value x = k.read(op.getInput(), Access::Row);
  Value table = k.read(op.getTable(), Access::Indexed, op.getPositions());
  k.finish({k.round(k.rope(x, table, op), op.getType())});
}

static void convert(model::SplitOp op) {
  RowKernel k(op, "split", getRowDomain(op.getInput()));
  Value x = k.read(op.getInput(), Access::Row);
  SmallVector<Value> parts;
  int64_t offset = 0;
  for (Value result : op.getResults()) {
    int64_t width = rowWidth(result);
    parts.push_back(k.round(k.slice(x, offset, width), result.getType()));
    offset += width;
  }
  k.finish(parts);
}

/// y[i] = x[rows[i]]
static void convert(model::SelectRowsOp op) {
  RowKernel k(op, "select_rows", kernel::Domain::Outputs);
  Value x = k.read(op.getInput(), Access::Indexed, op.getRows());
  k.finish({k.round(x, op.getType())});
}

/// N2, N3, N4 (P3)
static FailureOr<bool> convert(q::QuantizeOp op) {
  auto type = op.getType();
  if (!op.getScale() &&
      type.getGranularity().getKind() == q::GranularityKind::PerTensor)
    return op.emitError()
           << "one dynamic scale for all tokens would make a row depend on "
              "the others; expected per_token, block<1xK> or a static scale "
              "[P3, B5]";
  RowKernel k(op, "quantize", getRowDomain(op.getInput()));
  Value x = k.read(op.getInput(), Access::Row);
  Value scale =
      op.getScale() ? k.read(op.getScale(), Access::Uniform) : Value();
  k.finish({k.quantize(x, scale, op.getUe8m0(), type, op.getBoundAttr())});
  return true;
}

/// P7a
static void convert(q::KvWriteOp op) {
  RowKernel k(op, "kv_write", kernel::Domain::Tokens);
  Value key = k.read(op.getK(), Access::Row);
  Value value = k.read(op.getV(), Access::Row);
  q::KvType cache = op.getCache().getType();
  int64_t shape[] = {ShapedType::kDynamic, cache.getHeads() * cache.getDim()};
  if (cache.getLayout() != q::KvLayout::FP8E4M3) {
    Type type = RankedTensorType::get(shape, cache.getElementType());
    key = k.round(key, type);
    value = k.round(value, type);
  } else {
    MLIRContext *context = op.getContext();
    Type type = q::TensorType::get(
        shape, cache.getElementType(),
        q::GranularityAttr::get(context, q::GranularityKind::PerTensor),
        Float32Type::get(context));
    Value keyScale = k.read(op.getKScale(), Access::Uniform);
    Value valueScale = k.read(op.getVScale(), Access::Uniform);
    key = k.quantize(key, keyScale, /*ue8m0=*/false, type);
    value = k.quantize(value, valueScale, /*ue8m0=*/false, type);
  }
  k.finish({key, value}, op.getCache(), op.getSlots());
}

/// The F32 rows of an extracted module, rounded to the activation dtype.
static FailureOr<bool> convert(model::FieldOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  if (op.getField() != model::Field::Input || type.getElementType().isF32())
    return false;
  OpBuilder b(op);
  auto rows = model::FieldOp::create(
      b, op.getLoc(), RankedTensorType::get(type.getShape(), b.getF32Type()),
      op.getField(), op.getBatch());
  RowKernel k(op, "input", kernel::Domain::Tokens);
  Value x = k.read(rows, Access::Row);
  k.finish({k.round(x, type)});
  return true;
}

/// What a step returns is F32.
static void convert(model::OutputOp op) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  OpBuilder b(op);
  Type f32 = RankedTensorType::get(type.getShape(), b.getF32Type());
  if (type == f32)
    return;
  op.getInputMutable().set(
      makeRowCopy(b, op.getLoc(), op.getInput(), f32, op.getBatch(), "output"));
}

FailureOr<bool> octet::convertToRowwise(Operation *op) {
  return TypeSwitch<Operation *, FailureOr<bool>>(op)
      .Case<model::EmbeddingOp, model::RmsNormOp, model::AddOp, model::SwigluOp,
            model::LayerNormOp, model::RopeOp, model::SplitOp,
            model::SelectRowsOp, q::KvWriteOp>(
          [](auto row) { return convert(row), true; })
      .Case<q::QuantizeOp, model::FieldOp>(
          [](auto row) { return convert(row); })
      .Case([](model::OutputOp output) { return convert(output), false; })
      .Case([](q::DequantizeOp dequantize) -> FailureOr<bool> {
        return dequantize.emitError()
               << "dequantising an activation has no row kernel; products "
                  "read codes [N6]";
      })
      .Default([](Operation *) { return false; });
}
