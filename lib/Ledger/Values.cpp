//===- Values.cpp - Parts and errors that follow from types ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Values.h"

#include "mlir/IR/BuiltinTypes.h"
#include "octet/Support/Checked.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace octet;

std::string octet::nameElementType(Type type) {
  return llvm::TypeSwitch<Type, std::string>(type)
      .Case<Float8E4M3FNType>([](Type) { return "F8_E4M3"; })
      .Case<Float8E4M3FNUZType>([](Type) { return "F8_E4M3FNUZ"; })
      .Case<Float8E5M2Type>([](Type) { return "F8_E5M2"; })
      .Case<Float8E5M2FNUZType>([](Type) { return "F8_E5M2FNUZ"; })
      .Case<Float4E2M1FNType>([](Type) { return "F4_E2M1"; })
      .Case<Float8E8M0FNUType>([](Type) { return "UE8M0"; })
      .Case<BFloat16Type>([](Type) { return "BF16"; })
      .Case<FloatType>(
          [](FloatType type) { return "F" + std::to_string(type.getWidth()); })
      .Case<IntegerType>([](IntegerType type) {
        return (type.isUnsigned() ? "U" : "I") +
               std::to_string(type.getWidth());
      })
      .Default([](Type) { return "?"; });
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

/// Sizes of a hostile checkpoint saturate.
static int64_t countElements(ArrayRef<int64_t> shape) {
  return checkedProduct(shape).value_or(INT64_MAX);
}

static int64_t countBytes(Type elementType, int64_t elements) {
  std::optional<int64_t> bits =
      checkedMul(elements, elementType.getIntOrFloatBitWidth());
  return bits ? cdiv(*bits, 8) : INT64_MAX;
}

static std::vector<int64_t> dropRows(ArrayRef<int64_t> shape) {
  if (!shape.empty() && ShapedType::isDynamic(shape.front()))
    shape = shape.drop_front();
  return {shape.begin(), shape.end()};
}

LedgerPart octet::makePart(StringRef name, Type elementType,
                           ArrayRef<int64_t> shape) {
  LedgerPart part;
  part.name = name.str();
  part.dtype = nameElementType(elementType);
  part.shape = {shape.begin(), shape.end()};
  part.elements = countElements(shape);
  part.codeBytes = countBytes(elementType, part.elements);
  return part;
}

LedgerPart octet::makeGroupedPart(StringRef name, Type elementType,
                                  int64_t elements, int64_t group,
                                  Type scaleType) {
  auto type = q::TensorType::get(
      {1, elements}, elementType,
      q::GranularityAttr::get(elementType.getContext(),
                              q::GranularityKind::Block, 1, group),
      scaleType);
  LedgerPart part = makeTokenPart(type);
  part.name = name.str();
  part.shape = {elements};
  part.scales->shape = {part.scales->count};
  return part;
}

static std::string printGranularity(q::GranularityAttr granularity) {
  if (granularity.isBlock())
    return "block<" + std::to_string(granularity.getBlockN()) + "x" +
           std::to_string(granularity.getBlockK()) + ">";
  std::string name = q::stringifyGranularityKind(granularity.getKind()).str();
  if (granularity.isGroup())
    name += "<" + std::to_string(granularity.getBlockK()) + ">";
  return name;
}

/// Codes and scales of a quantised type; rows of a step count as one.
static LedgerPart makeQuantizedPart(q::TensorType type) {
  bool isStep = ShapedType::isDynamic(type.getShape().front());
  // Layouts for products round the rows of a step up, which is no row's own.
  if (isStep && !type.isPacked())
    type = type.withLayout(q::Layout::Plain);
  SmallVector<int64_t> shape(type.getShape());
  if (isStep)
    shape.front() = 1;
  auto one = type.withShape(shape);
  LedgerPart part =
      makePart("", type.getElementType(), dropRows(type.getShape()));
  LedgerScales scales;
  scales.granularity = printGranularity(type.getGranularity());
  if (type.getOffset() == q::Offset::Minimums)
    scales.granularity += " with minimums";
  else if (type.getOffset() != q::Offset::None)
    scales.granularity += " with zero points";
  scales.dtype = nameElementType(type.getScaleType());
  scales.powerOfTwo = isa<Float8E8M0FNUType>(type.getScaleType());
  scales.count = countElements(one.getScaleShape());
  scales.bytes = one.getBytes() - part.codeBytes;
  SmallVector<int64_t> scaleShape = type.getScaleShape();
  scales.shape = dropRows(scaleShape);
  // One scale of all rows is no row's own.
  if (isStep && type.getGlobal() != q::GlobalScale::None)
    scales.bytes -=
        q::getElementBytes(type.getGlobalTensorType().getElementType());
  if (isStep &&
      type.getGranularity().getKind() == q::GranularityKind::PerTensor) {
    scales.isStatic = true;
    scales.bytes = 0;
  }
  part.scales = std::move(scales);
  return part;
}

LedgerPart octet::makeTokenPart(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return makeQuantizedPart(quantized);
  auto plain = cast<RankedTensorType>(type);
  return makePart("", plain.getElementType(), dropRows(plain.getShape()));
}

LedgerPart octet::makeWeightPart(Type type, StringRef slot) {
  LedgerPart part = makeTokenPart(type);
  part.name = slot.str();
  return part;
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// An integer code is wrong by half a step of the scale, whose largest code is
/// that of the largest value.
static LedgerError describeIntegers(unsigned width) {
  LedgerError error;
  double largest = std::ldexp(1.0, int(width) - 1) - 1;
  error.ofLargest = true;
  error.relative = 0.5 / largest;
  error.rms = 1 / std::sqrt(12.0) / largest;
  return error;
}

std::optional<LedgerError> octet::describeRounding(Type elementType,
                                                   bool powerOfTwo) {
  LedgerError error;
  if (auto integer = dyn_cast<IntegerType>(elementType)) {
    error = describeIntegers(integer.getWidth());
    error.format = nameElementType(elementType);
    return error;
  }
  auto type = dyn_cast<FloatType>(elementType);
  if (!type || type.getWidth() > 16)
    return std::nullopt;
  const llvm::fltSemantics &format = type.getFloatSemantics();
  // Half a unit of the last place: 2^-4 with the three bits of E4M3. Between
  // two powers of two it is uniform, which makes 1/sqrt(6) of it on average of
  // values that are spread over some (N5).
  error.format = nameElementType(elementType);
  error.relative =
      std::ldexp(1.0, -int(llvm::APFloat::semanticsPrecision(format)));
  error.rms = error.relative / std::sqrt(6.0);
  if (type.getWidth() > 8)
    return error;
  double largest = llvm::APFloat::getLargest(format).convertToDouble();
  double normal =
      llvm::APFloat::getSmallestNormalized(format).convertToDouble();
  double smallest = llvm::APFloat::getSmallest(format).convertToDouble();
  double room = powerOfTwo ? 2 : 1;
  error.normalFrom = room * normal / largest;
  error.absolute = room * smallest / 2 / largest;
  return error;
}

std::optional<LedgerError> octet::describeRounding(q::TensorType type,
                                                   bool powerOfTwo) {
  return describeRounding(type.getElementType(),
                          powerOfTwo ||
                              isa<Float8E8M0FNUType>(type.getScaleType()));
}

double octet::boundSum(int64_t count) {
  return double(count) * std::ldexp(1.0, -24);
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

/// Elements along the latent or an indexer's key that share a scale in the
/// cache (P7, P9).
static constexpr int64_t kCacheGroup = 128;

std::vector<LedgerPart> octet::makeCacheParts(q::KvType type) {
  MLIRContext *context = type.getContext();
  Type element = type.getElementType(), f32 = Float32Type::get(context);
  int64_t width = type.getHeads() * type.getDim();
  switch (type.getLayout()) {
  case q::KvLayout::FP8DsMla:
    return {
        makeGroupedPart("latent", Float8E4M3FNType::get(context), width,
                        kCacheGroup, f32),
        makePart("rotated key", BFloat16Type::get(context), {type.getRope()})};
  case q::KvLayout::FP8Indexer:
    return {makeGroupedPart("key", Float8E4M3FNType::get(context), width,
                            kCacheGroup, f32)};
  default:
    break;
  }
  if (!type.isLatent())
    return {makePart("keys", element, {type.getHeads(), type.getDim()}),
            makePart("values", element, {type.getHeads(), type.getDim()})};
  std::vector<LedgerPart> parts = {
      makePart(type.getRope() > 0 ? "latent" : "key", element, {width})};
  if (type.getRope() > 0)
    parts.push_back(makePart("rotated key", element, {type.getRope()}));
  return parts;
}
