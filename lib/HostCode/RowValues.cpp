//===- RowValues.cpp - The elements of a row's values ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;
using namespace octet::host;

Value RowEmitter::valueAt(Value value, Position p, int64_t lanes) {
  if (RowPlan::widthOf(value) == 1)
    return t.splat(scalarOf(value), lanes);
  auto key = std::make_tuple(value, p.base, p.add, lanes);
  auto found = chunk.find(key);
  if (found != chunk.end())
    return found->second;
  Value result;
  if (written.contains(value) && plan.scratchOf(value) >= 0)
    result = t.load(t.address(scratch, indexOf(p.plus(plan.scratchOf(value))),
                              b.getF32Type()),
                    b.getF32Type(), lanes);
  else
    result = computeAt(value, p, lanes);
  chunk[key] = result;
  return result;
}

Value RowEmitter::argumentAt(BlockArgument argument, Position p,
                             int64_t lanes) {
  Type type =
      kernel::getValueType(op.getInputs()[argument.getArgNumber()].getType());
  if (auto packed = dyn_cast<q::TensorType>(type)) {
    // Sixteen elements are half a block, or lie apart.
    if (lanes > 1 && (lanes != kLanes || !p.staysInside(kLanes, lanes)))
      return gather(argument, p, lanes, 1);
    Value row = inputRows[argument.getArgNumber()];
    return t.loadPacked(row, indexOf(p), packed, lanes);
  }
  Type element = q::getStorage(type);
  Value address =
      t.address(inputRows[argument.getArgNumber()], indexOf(p), element);
  return t.load(address, element, lanes);
}

Value RowEmitter::computeAt(Value value, Position p, int64_t lanes) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argumentAt(argument, p, lanes);
  Operation *definition = value.getDefiningOp();
  return TypeSwitch<Operation *, Value>(definition)
      .Case([&](arith::ConstantOp constant) {
        auto dense = cast<DenseElementsAttr>(constant.getValue());
        return t.constant(dense.getSplatValue<APFloat>().convertToFloat(),
                          lanes);
      })
      .Case([&](kernel::SliceOp slice) {
        return valueAt(slice.getInput(), p.plus(slice.getOffset()), lanes);
      })
      .Case([&](kernel::TileOp tile) {
        int64_t width = RowPlan::widthOf(tile.getInput());
        if (!p.staysInside(width, lanes))
          return gather(value, p, lanes, width);
        if (!p.base)
          return valueAt(tile.getInput(), {Value(), p.add % width, 0}, lanes);
        Value index = arith::RemUIOp::create(b, indexOf(p), i64(width));
        return valueAt(tile.getInput(),
                       {index, 0, std::gcd(p.alignment(), width)}, lanes);
      })
      .Case([&](kernel::BroadcastOp broadcast) {
        // One value for the whole row needs no index.
        if (!broadcast.getGroup())
          return t.splat(valueAt(broadcast.getInput(), {Value(), 0, 0}, 1),
                         lanes);
        int64_t group = *broadcast.getGroup();
        if (!p.staysInside(group, lanes))
          return gather(value, p, lanes, group);
        Position source{Value(), p.add / group, 0};
        if (p.base)
          source = {arith::DivUIOp::create(b, indexOf(p), i64(group)), 0, 1};
        return t.splat(valueAt(broadcast.getInput(), source, 1), lanes);
      })
      .Case([&](kernel::RopeOp rope) { return ropeAt(rope, p, lanes); })
      .Case([&](kernel::RoundOp round) {
        Value input = valueAt(round.getInput(), p, lanes);
        if (kernel::isRoundedTo(round.getInput(), round.getType()))
          return input;
        return t.round(input, round.getType());
      })
      .Default([&](Operation *other) {
        SmallVector<Value> operands;
        for (Value operand : other->getOperands())
          operands.push_back(valueAt(operand, p, lanes));
        return elementwise(other, operands, lanes);
      });
}

Value RowEmitter::elementwise(Operation *other, ValueRange operands,
                              int64_t lanes) {
  if (isa<math::ExpOp>(other))
    return t.exp(operands[0]);
  if (isa<math::RsqrtOp>(other))
    return arith::DivFOp::create(b, t.constant(1.0f, lanes),
                                 math::SqrtOp::create(b, operands[0]));
  // The same op on a vector; without its attributes, so that no fast-math flag
  // of an input file reaches the code.
  OperationState state(b.getLoc(), other->getName());
  state.addOperands(operands);
  state.addTypes(t.type(b.getF32Type(), lanes));
  return b.create(state)->getResult(0);
}

/// A chunk in pieces that do not cross a multiple of `unit`, where the whole is
/// not contiguous in what it reads.
Value RowEmitter::gather(Value value, Position p, int64_t lanes, int64_t unit) {
  int64_t piece = std::gcd(p.alignment(), unit);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < lanes; i += piece) {
    int64_t count = std::min(piece, lanes - i);
    Value part = valueAt(value, {p.base, p.add + i, p.base ? piece : 0}, count);
    if (count == 1)
      elements.push_back(part);
    for (int64_t j = 0; count > 1 && j < count; ++j)
      elements.push_back(vector::ExtractOp::create(b, part, j));
  }
  return vector::FromElementsOp::create(
      b, cast<VectorType>(t.type(b.getF32Type(), lanes)), elements);
}

Value RowEmitter::ropeAt(kernel::RopeOp rope, Position p, int64_t lanes) {
  int64_t half = RowPlan::widthOf(rope.getTable()) / 2;
  int64_t unit = std::gcd(half, static_cast<int64_t>(rope.getHeadDim()));
  unit = std::gcd(unit, static_cast<int64_t>(rope.getOffset()));
  bool contiguous = !rope.getInterleaved() && p.staysInside(unit, lanes);
  if (lanes == 1 || contiguous)
    return ropeChunk(rope, p, lanes);
  return gather(rope.getResult(), p, lanes, rope.getInterleaved() ? 1 : unit);
}

/// All lanes are first elements of pairs, all are second ones, or all are in
/// the rest of the head that is not rotated: y = x c + partner (-s or s).
Value RowEmitter::ropeChunk(kernel::RopeOp rope, Position p, int64_t lanes) {
  int64_t half = RowPlan::widthOf(rope.getTable()) / 2;
  int64_t headDim = rope.getHeadDim();
  auto select = [&](Value c, Value x, Value y) -> Value {
    return arith::SelectOp::create(b, c, x, y);
  };
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, x, y);
  };
  auto less = [&](Value x, int64_t bound) -> Value {
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, i64(bound));
  };
  Value index = indexOf(p);
  // What stands before the rotated part wraps to a large number.
  Value inHead = arith::RemUIOp::create(b, index, i64(headDim));
  if (int64_t offset = rope.getOffset())
    inHead = add(inHead, i64(-offset));
  Value isRotated = less(inHead, 2 * half);
  Value isFirst, toPartner, pair;
  if (rope.getInterleaved()) {
    Value odd = arith::RemUIOp::create(b, inHead, i64(2));
    isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, odd, i64(0));
    toPartner = select(isFirst, i64(1), i64(-1));
    pair = arith::DivUIOp::create(b, inHead, i64(2));
  } else {
    isFirst = less(inHead, half);
    toPartner = select(isFirst, i64(half), i64(-half));
    pair = select(isFirst, inHead, add(inHead, i64(-half)));
  }
  // Outside of the rotated part nothing may be read beyond the table.
  if (2 * half < headDim) {
    toPartner = select(isRotated, toPartner, i64(0));
    pair = select(isRotated, pair, i64(0));
  }
  int64_t align = std::gcd(p.alignment(), half);
  Value x = valueAt(rope.getInput(), p, lanes);
  Value partner =
      valueAt(rope.getInput(),
              {add(index, toPartner), 0, lanes == 1 ? 1 : align}, lanes);
  Position cosine{pair, 0, lanes == 1 ? 1 : align};
  Value c = valueAt(rope.getTable(), cosine, lanes);
  Value s = valueAt(rope.getTable(), cosine.plus(half), lanes);
  // a c - b s and a c + b (-s) are the same bits.
  s = select(isFirst, arith::NegFOp::create(b, s), s);
  Value y = arith::AddFOp::create(b, arith::MulFOp::create(b, x, c),
                                  arith::MulFOp::create(b, partner, s));
  return 2 * half < headDim ? select(isRotated, y, x) : y;
}

/// A value of one element, computed once a row.
Value RowEmitter::scalarOf(Value value) {
  auto found = scalars.find(value);
  if (found != scalars.end())
    return found->second;
  Value result;
  if (auto argument = dyn_cast<BlockArgument>(value))
    result = argumentAt(argument, {}, 1);
  else
    result =
        TypeSwitch<Operation *, Value>(value.getDefiningOp())
            .Case([&](arith::ConstantOp constant) {
              auto dense = cast<DenseElementsAttr>(constant.getValue());
              return t.constant(
                  (*dense.value_begin<APFloat>()).convertToFloat(), 1);
            })
            .Case([&](kernel::SliceOp slice) {
              Value input = slice.getInput();
              if (RowPlan::widthOf(input) == 1)
                return scalarOf(input);
              chunk.clear();
              Position at{Value(), int64_t(slice.getOffset()), 0};
              Value element = valueAt(input, at, 1);
              chunk.clear();
              return element;
            })
            .Case<kernel::TileOp, kernel::BroadcastOp>(
                [&](Operation *same) { return scalarOf(same->getOperand(0)); })
            .Case([&](kernel::RoundOp round) {
              return t.round(scalarOf(round.getInput()), round.getType());
            })
            .Default([&](Operation *other) {
              SmallVector<Value> operands;
              for (Value operand : other->getOperands())
                operands.push_back(scalarOf(operand));
              return elementwise(other, operands, 1);
            });
  scalars[value] = result;
  return result;
}
