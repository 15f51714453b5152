//===- RowTypes.cpp - Vectors of a generated row function -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowTypes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "octet/Numerics/Fp4.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include <bit>
#include <cmath>

using namespace mlir;
using namespace octet;
using namespace octet::host;

using Pred = arith::CmpIPredicate;

Type RowTypes::type(Type element, int64_t lanes) const {
  return lanes == 1 ? element : Type(VectorType::get({lanes}, element));
}

int64_t RowTypes::lanesOf(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getNumElements() : 1;
}

Value RowTypes::constant(float value, int64_t lanes) {
  TypedAttr scalar = b.getF32FloatAttr(value);
  if (lanes == 1)
    return arith::ConstantOp::create(b, scalar);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(type(b.getF32Type(), lanes)),
                                value));
}

Value RowTypes::constantBits(uint32_t value, int64_t lanes) {
  auto scalar = b.getI32IntegerAttr(static_cast<int32_t>(value));
  if (lanes == 1)
    return arith::ConstantOp::create(b, scalar);
  return arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(type(b.getI32Type(), lanes)),
                                Attribute(scalar)));
}

Value RowTypes::constantIndex(int64_t value) {
  return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
}

Value RowTypes::splat(Value scalar, int64_t lanes) {
  if (lanes == 1)
    return scalar;
  return vector::BroadcastOp::create(b, type(scalar.getType(), lanes), scalar);
}

Value RowTypes::bitsOf(Value floats) {
  return arith::BitcastOp::create(b, type(b.getI32Type(), lanesOf(floats)),
                                  floats);
}

Value RowTypes::floatsOf(Value bits) {
  return arith::BitcastOp::create(b, type(b.getF32Type(), lanesOf(bits)), bits);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Elements in memory: codes are bytes to LLVM.
static Type memoryElement(OpBuilder &b, Type element) {
  if (element.getIntOrFloatBitWidth() == 8)
    return b.getI8Type();
  return element.isBF16() ? Type(b.getI16Type()) : element;
}

static unsigned bytesOf(Type element) {
  return element.getIntOrFloatBitWidth() / 8;
}

Value RowTypes::address(Value base, Value index, Type element) {
  return LLVM::GEPOp::create(b, base.getType(), memoryElement(b, element), base,
                             ValueRange{index});
}

Value RowTypes::load(Value pointer, Type element, int64_t lanes) {
  // Weights often lie in a checkpoint's mapping, aligned to their element only.
  Value raw = LLVM::LoadOp::create(b, type(memoryElement(b, element), lanes),
                                   pointer, bytesOf(element));
  if (element.isF32())
    return raw;
  if (element.isF16())
    return arith::ExtFOp::create(b, type(b.getF32Type(), lanes), raw);
  if (element.isBF16()) {
    Value wide = arith::ExtUIOp::create(b, type(b.getI32Type(), lanes), raw);
    return floatsOf(arith::ShLIOp::create(b, wide, constantBits(16, lanes)));
  }
  return decodeE4M3(raw);
}

Value RowTypes::loadPacked(Value row, Value index, q::TensorType packed,
                           int64_t lanes) {
  const int64_t group = packed.getGranularity().getBlockK();
  const int64_t fields = packed.getOffset() == q::Offset::None ? 1 : 2;
  const int64_t bytes = packed.withShape({1, group}).getBytes();
  Type i8 = b.getI8Type(), i32 = type(b.getI32Type(), lanes);
  Value block = arith::DivUIOp::create(b, index, constantIndex(group));
  Value within = arith::RemUIOp::create(b, index, constantIndex(group));
  Value start =
      address(row, arith::MulIOp::create(b, block, constantIndex(bytes)), i8);
  auto at = [&](Value offset) { return address(start, offset, i8); };
  auto field = [&](int64_t i) {
    Value half =
        LLVM::LoadOp::create(b, b.getF16Type(), at(constantIndex(2 * i)), 1);
    return splat(arith::ExtFOp::create(b, b.getF32Type(), half), lanes);
  };
  auto codesAt = [&](Value first) {
    Value place = arith::AddIOp::create(b, first, constantIndex(2 * fields));
    return LLVM::LoadOp::create(b, type(i8, lanes), at(place), 1);
  };
  Value code;
  if (packed.getElementType().isInteger(8)) {
    code = arith::ExtSIOp::create(b, i32, codesAt(within));
  } else {
    // Low nibbles are the first half of a block, high ones the second.
    Value half = constantIndex(group / 2);
    Value isHigh = arith::CmpIOp::create(b, Pred::uge, within, half);
    Value shift = splat(arith::SelectOp::create(b, isHigh, constantBits(4, 1),
                                                constantBits(0, 1)),
                        lanes);
    Value wide = arith::ExtUIOp::create(
        b, i32, codesAt(arith::RemUIOp::create(b, within, half)));
    code = arith::AndIOp::create(b, arith::ShRUIOp::create(b, wide, shift),
                                 constantBits(15, lanes));
    if (fields == 1) // Q4_0 stores q + 8
      code = arith::SubIOp::create(b, code, constantBits(8, lanes));
  }
  Value value = arith::MulFOp::create(
      b, arith::SIToFPOp::create(b, type(b.getF32Type(), lanes), code),
      field(0)); // exact
  return fields == 1 ? value : arith::AddFOp::create(b, value, field(1));
}

void RowTypes::store(Value floats, Value pointer, Type element) {
  int64_t lanes = lanesOf(floats);
  Value raw = floats;
  if (element.isF16()) {
    raw = arith::TruncFOp::create(b, type(element, lanes), floats);
  } else if (element.isBF16()) {
    Value high =
        arith::ShRUIOp::create(b, bitsOf(floats), constantBits(16, lanes));
    raw = arith::TruncIOp::create(b, type(b.getI16Type(), lanes), high);
  }
  LLVM::StoreOp::create(b, raw, pointer, bytesOf(element));
}

void RowTypes::storeCodes(Value codes, Value pointer) {
  LLVM::StoreOp::create(b, codes, pointer, 1);
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

Value RowTypes::decodeE4M3(Value codes) {
  int64_t lanes = lanesOf(codes);
  auto bits = [&](uint32_t value) { return constantBits(value, lanes); };
  Value wide = arith::ExtUIOp::create(b, type(b.getI32Type(), lanes), codes);
  Value magnitude = arith::AndIOp::create(b, wide, bits(0x7F));
  Value sign = arith::ShLIOp::create(
      b, arith::AndIOp::create(b, wide, bits(0x80)), bits(24));
  // A normal code's exponent is rebased; a subnormal one counts steps of 2^-9.
  Value normal = arith::AddIOp::create(
      b, arith::ShLIOp::create(b, magnitude, bits(20)), bits(120u << 23));
  Value steps =
      arith::SIToFPOp::create(b, type(b.getF32Type(), lanes), magnitude);
  Value subnormal =
      bitsOf(arith::MulFOp::create(b, steps, constant(0x1p-9f, lanes)));
  Value isNormal = arith::CmpIOp::create(b, Pred::uge, magnitude, bits(0x08));
  Value isNan = arith::CmpIOp::create(b, Pred::eq, magnitude, bits(0x7F));
  Value value = arith::SelectOp::create(b, isNormal, normal, subnormal);
  value = arith::SelectOp::create(b, isNan, bits(0x7FC00000u), value);
  return floatsOf(arith::OrIOp::create(b, value, sign));
}

Value RowTypes::round(Value floats, Type element) {
  int64_t lanes = lanesOf(floats);
  if (element.isF16()) { // one instruction of F16C, which every level has
    Value narrow = arith::TruncFOp::create(b, type(element, lanes), floats);
    return arith::ExtFOp::create(b, type(b.getF32Type(), lanes), narrow);
  }
  if (!element.isBF16())
    return floats;
  auto constants = [&](uint32_t value) { return constantBits(value, lanes); };
  Value bits = bitsOf(floats);
  Value odd = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, bits, constants(16)), constants(1));
  Value rounded = arith::AddIOp::create(
      b, bits, arith::AddIOp::create(b, odd, constants(0x7FFF)));
  // A NaN would round into an infinity; it is made quiet instead.
  Value magnitude = arith::AndIOp::create(b, bits, constants(0x7FFFFFFFu));
  Value isNan =
      arith::CmpIOp::create(b, Pred::ugt, magnitude, constants(0x7F800000u));
  Value quiet = arith::OrIOp::create(b, bits, constants(0x00400000u));
  Value value = arith::SelectOp::create(b, isNan, quiet, rounded);
  return floatsOf(arith::AndIOp::create(b, value, constants(0xFFFF0000u)));
}

Value RowTypes::encodeE4M3(Value floats) {
  int64_t lanes = lanesOf(floats);
  auto constants = [&](uint32_t value) { return constantBits(value, lanes); };
  auto add = [&](Value x, Value y) -> Value {
    return arith::AddIOp::create(b, x, y);
  };
  auto shiftRight = [&](Value x, Value y) -> Value {
    return arith::ShRUIOp::create(b, x, y);
  };
  auto bitAnd = [&](Value x, uint32_t mask) -> Value {
    return arith::AndIOp::create(b, x, constants(mask));
  };
  Value bits = bitsOf(floats);
  Value magnitude = bitAnd(bits, 0x7FFFFFFFu);
  Value exponent = shiftRight(magnitude, constants(23));

  // From 2^-6 on the code is the upper bits with the exponent rebased from 127
  // to 7; half of the last place minus one, plus the last bit, rounds to even.
  Value rebased = add(magnitude, constants(0u - (120u << 23)));
  Value lowest = bitAnd(shiftRight(rebased, constants(20)), 1);
  Value normal =
      shiftRight(add(rebased, add(lowest, constants(0x7FFFF))), constants(20));

  // Below, the mantissa with its leading one is aligned to steps of 2^-9. A
  // shift of 31 stands for all larger ones: the result is 0 from 26 on.
  Value full = arith::OrIOp::create(b, bitAnd(magnitude, 0x7FFFFFu),
                                    constants(0x800000u));
  Value shift = arith::MinUIOp::create(
      b, arith::SubIOp::create(b, constants(141), exponent), constants(31));
  // `exponent` is at most 120 where this branch counts; elsewhere the shift is
  // some number below 32 and the value is not selected.
  Value one = constants(1);
  Value half =
      arith::ShLIOp::create(b, one, arith::SubIOp::create(b, shift, one));
  Value last = bitAnd(shiftRight(full, shift), 1);
  Value subnormal = shiftRight(
      add(full, add(arith::SubIOp::create(b, half, one), last)), shift);

  Value isNormal =
      arith::CmpIOp::create(b, Pred::uge, exponent, constants(121));
  Value code = arith::SelectOp::create(b, isNormal, normal, subnormal);
  Value isLarge = arith::CmpIOp::create(
      b, Pred::uge, magnitude, constants(std::bit_cast<uint32_t>(kE4M3Max)));
  code = arith::SelectOp::create(b, isLarge, constants(0x7E), code);
  Value isNan =
      arith::CmpIOp::create(b, Pred::ugt, magnitude, constants(0x7F800000u));
  code = arith::SelectOp::create(b, isNan, constants(0x7F), code);
  code = arith::OrIOp::create(b, code,
                              bitAnd(shiftRight(bits, constants(24)), 0x80));
  return arith::TruncIOp::create(b, type(b.getI8Type(), lanes), code);
}

Value RowTypes::encodeE2M1(Value floats) {
  // One step at the middle of each pair of neighbours; of a tie the even code.
  static constexpr float kMiddles[] = {0.25f, 0.75f, 1.25f, 1.75f,
                                       2.5f,  3.5f,  5.0f};
  int64_t lanes = lanesOf(floats);
  Type i32 = type(b.getI32Type(), lanes);
  Value magnitude = floatsOf(arith::AndIOp::create(
      b, bitsOf(floats), constantBits(0x7FFFFFFFu, lanes)));
  Value code = constantBits(0, lanes);
  for (auto [i, middle] : llvm::enumerate(kMiddles)) {
    auto pred =
        i % 2 == 0 ? arith::CmpFPredicate::OGT : arith::CmpFPredicate::OGE;
    Value above =
        arith::CmpFOp::create(b, pred, magnitude, constant(middle, lanes));
    code =
        arith::AddIOp::create(b, code, arith::ExtUIOp::create(b, i32, above));
  }
  Value sign = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, bitsOf(floats), constantBits(28, lanes)),
      constantBits(8, lanes));
  Value isNan =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, floats, floats);
  sign = arith::SelectOp::create(b, isNan, constantBits(0, lanes), sign);
  return arith::TruncIOp::create(b, type(b.getI8Type(), lanes),
                                 arith::OrIOp::create(b, code, sign));
}

Value RowTypes::packNibbles(Value codes) {
  assert(lanesOf(codes) == kLanes && "a whole vector");
  SmallVector<int64_t> even, odd;
  for (int64_t i = 0; i < kLanes; i += 2) {
    even.push_back(i);
    odd.push_back(i + 1);
  }
  Type bytes = type(b.getI8Type(), kLanes / 2);
  Value four = arith::ConstantOp::create(
      b, DenseElementsAttr::get(cast<ShapedType>(bytes),
                                Attribute(b.getI8IntegerAttr(4))));
  Value low = vector::ShuffleOp::create(b, codes, codes, even);
  Value high = vector::ShuffleOp::create(b, codes, codes, odd);
  return arith::OrIOp::create(b, low, arith::ShLIOp::create(b, high, four));
}

std::pair<Value, Value> RowTypes::dynamicScaleE2M1(Value amax) {
  Value floored = arith::MaxNumFOp::create(b, amax, constant(kMinAmax, 1));
  Value least = arith::DivFOp::create(b, floored, constant(kE2M1Max, 1));
  Value exponent = arith::ShRUIOp::create(
      b, arith::AddIOp::create(b, bitsOf(least), constantBits(0x7FFFFFu, 1)),
      constantBits(23, 1));
  Value scale =
      floatsOf(arith::ShLIOp::create(b, exponent, constantBits(23, 1)));
  return {arith::TruncIOp::create(b, b.getI8Type(), exponent), scale};
}

Value RowTypes::encodeInt8(Value floats) {
  int64_t lanes = lanesOf(floats);
  Value bounded = arith::MinNumFOp::create(
      b, arith::MaxNumFOp::create(b, floats, constant(-kInt8Max, lanes)),
      constant(kInt8Max, lanes));
  Value isNan =
      arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, floats, floats);
  bounded = arith::SelectOp::create(b, isNan, constant(0.0f, lanes), bounded);
  Value whole = arith::FPToSIOp::create(b, type(b.getI32Type(), lanes),
                                        math::RoundEvenOp::create(b, bounded));
  return arith::TruncIOp::create(b, type(b.getI8Type(), lanes), whole);
}

Value RowTypes::dynamicScaleInt8(Value amax) {
  int64_t lanes = lanesOf(amax);
  Value floored = arith::MaxNumFOp::create(b, amax, constant(kMinAmax, lanes));
  return arith::DivFOp::create(b, floored, constant(kInt8Max, lanes));
}

Value RowTypes::dynamicScale(Value amax, bool ue8m0,
                             std::optional<APFloat> bound) {
  int64_t lanes = lanesOf(amax);
  Value floored = arith::MaxNumFOp::create(b, amax, constant(kMinAmax, lanes));
  if (bound)
    floored = arith::MinNumFOp::create(
        b, floored, constant(bound->convertToFloat(), lanes));
  Value scale = arith::DivFOp::create(b, floored, constant(kE4M3Max, lanes));
  if (!ue8m0)
    return scale;
  // The exponent field, plus one if anything is left in the mantissa (N4). The
  // floor keeps the value normal; an exponent of all ones is a NaN.
  Value up =
      arith::AddIOp::create(b, bitsOf(scale), constantBits(0x7FFFFFu, lanes));
  Value power = arith::AndIOp::create(b, up, constantBits(0x7F800000u, lanes));
  Value isNan = arith::CmpIOp::create(b, Pred::eq, power,
                                      constantBits(0x7F800000u, lanes));
  return floatsOf(arith::SelectOp::create(
      b, isNan, constantBits(0x7FC00000u, lanes), power));
}

//===----------------------------------------------------------------------===//
// exp
//===----------------------------------------------------------------------===//

Value RowTypes::exp(Value x) {
  // e^x = 2^n e^r, n = round(x / ln 2), |r| <= ln 2 / 2 with ln 2 in two parts
  // (Cody and Waite), and a Taylor polynomial of degree 7: its remainder is
  // below r^8 / 8! < 5.2e-9 e^r, a tenth of a unit.
  int64_t lanes = lanesOf(x);
  Type i32 = type(b.getI32Type(), lanes);
  auto c = [&](float value) { return constant(value, lanes); };
  auto fma = [&](Value p, Value q, Value r) -> Value {
    return math::FmaOp::create(b, p, q, r);
  };
  // Beyond these bounds the result is infinity or 0 in any case; inside them
  // the two halves of n are exponents of normal numbers.
  Value bounded = arith::MinNumFOp::create(
      b, arith::MaxNumFOp::create(b, x, c(-110.0f)), c(100.0f));
  Value n = math::RoundEvenOp::create(
      b, arith::MulFOp::create(b, bounded, c(0x1.715476p+0f)));
  Value r = fma(n, c(-0x1.62e400p-1f), bounded);
  r = fma(n, c(-0x1.7f7d1cp-20f), r);
  Value p = c(1.0f / 5040);
  for (float coefficient :
       {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f})
    p = fma(p, r, c(coefficient));
  // 2^n in two factors, so that subnormal results round once and large ones
  // overflow to infinity.
  Value whole = arith::FPToSIOp::create(b, i32, n);
  Value first = arith::ShRSIOp::create(b, whole, constantBits(1, lanes));
  Value second = arith::SubIOp::create(b, whole, first);
  auto power = [&](Value exponent) {
    return floatsOf(arith::ShLIOp::create(
        b, arith::AddIOp::create(b, exponent, constantBits(127, lanes)),
        constantBits(23, lanes)));
  };
  Value y = arith::MulFOp::create(b, p, power(first));
  y = arith::MulFOp::create(b, y, power(second));
  Value isNan = arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, x, x);
  return arith::SelectOp::create(b, isNan, x, y);
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value RowTypes::combine(Value a, Value c, bool isMax) {
  if (isMax)
    return arith::MaxNumFOp::create(b, a, c);
  return arith::AddFOp::create(b, a, c);
}

Value RowTypes::reduceLanes(Value vector, bool isMax) {
  for (int64_t half = lanesOf(vector) / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < half; ++i) {
      low.push_back(i);
      high.push_back(half + i);
    }
    vector = combine(vector::ShuffleOp::create(b, vector, vector, low),
                     vector::ShuffleOp::create(b, vector, vector, high), isMax);
  }
  return vector::ExtractOp::create(b, vector, ArrayRef<int64_t>{0});
}

Value RowTypes::padTail(Value tail, bool isMax) {
  // x + -0.0 is x for every x, also for -0.0.
  float neutral = isMax ? -INFINITY : -0.0f;
  int64_t lanes = lanesOf(tail);
  if (lanes == kLanes)
    return tail;
  if (lanes == 1) {
    Value all = constant(neutral, kLanes);
    return vector::InsertOp::create(b, tail, all, ArrayRef<int64_t>{0});
  }
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < kLanes; ++i)
    order.push_back(std::min(i, lanes));
  return vector::ShuffleOp::create(b, tail, constant(neutral, lanes), order);
}
