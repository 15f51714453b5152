//===- QuantOps.cpp - Verifiers of q --------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/OpImplementation.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"

using namespace mlir;
using namespace octet;
using namespace octet::q;

#define GET_OP_CLASSES
#include "dialects/Quant/QuantOps.cpp.inc"

/// Parts of a tensor's type, as a set.
enum TypePart : unsigned {
  kNothing = 0,
  kShape = 1,
  kStorage = 2,
  kGranularity = 4,
  kScale = 8,
  kShards = 16,
  kOffset = 32,
  kLayout = 64,
};

/// Where two types differ. A type with one part replaced may be none, so
/// verifiers do not make it to compare.
static unsigned findDifferences(q::TensorType a, q::TensorType b) {
  return (a.getShape() != b.getShape() ? kShape : kNothing) |
         (a.getElementType() != b.getElementType() ? kStorage : kNothing) |
         (a.getGranularity() != b.getGranularity() ? kGranularity : kNothing) |
         (a.getScaleType() != b.getScaleType() ? kScale : kNothing) |
         (a.getShards() != b.getShards() ? kShards : kNothing) |
         (a.getOffset() != b.getOffset() || a.getGlobal() != b.getGlobal() ||
                  a.getActOrder() != b.getActOrder()
              ? kOffset
              : kNothing) |
         (a.getLayout() != b.getLayout() ? kLayout : kNothing);
}

/// A row `[K]` stands for `[1, K]` inside a row kernel.
static SmallVector<int64_t> asMatrix(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  if (shape.size() == 1)
    shape.insert(shape.begin(), 1);
  return shape;
}

/// The plain side of a quantize or dequantize has the quantised side's shape
/// and a float type that is not a code.
static LogicalResult verifyPlainSide(Operation *op, StringRef what,
                                     RankedTensorType plain,
                                     q::TensorType quantized) {
  if (!isPlainFloat(plain.getElementType()))
    return op->emitOpError() << what << " is " << plain
                             << ", expected f32, bf16 or f16 elements [P3]";
  if (asMatrix(plain) != SmallVector<int64_t>(quantized.getShape()))
    return op->emitOpError()
           << what << " is " << plain << ", its shape is not that of "
           << quantized << " [P3]";
  return success();
}

/// The plain parts of a quantised tensor have the types that it implies.
static LogicalResult verifyParts(Operation *op, q::TensorType type,
                                 RankedTensorType data,
                                 RankedTensorType scale) {
  if (type.isGguf() || type.isTiled())
    return op->emitOpError() << type << " holds codes and scales in one tensor "
                             << "and has no parts [W1]";
  if (data != type.getDataTensorType())
    return op->emitOpError() << "data is " << data << ", the type implies "
                             << type.getDataTensorType() << " [W1]";
  if (scale != type.getScaleTensorType())
    return op->emitOpError() << "scale is " << scale << ", the type implies "
                             << type.getScaleTensorType() << " [W1]";
  return success();
}

//===----------------------------------------------------------------------===//
// Where values are rounded
//===----------------------------------------------------------------------===//

/// NVFP4: each group has a scale below the stored one of the input (N7).
static LogicalResult verifyNvfp4(QuantizeOp op, q::TensorType type) {
  if (type.getGlobal() != GlobalScale::Multiplies || type.isTiled())
    return op.emitOpError()
           << "result is " << type
           << ", an activation in f4E2M1FN is group<16>, f8E4M3FN, global = "
              "multiplies, layout = packed [N7]";
  if (!op.getScale())
    return op.emitOpError() << "has no scale, the groups of " << type
                            << " stand below a stored one [N7]";
  auto scale = cast<RankedTensorType>(op.getScale().getType());
  if (!scale.getElementType().isF32())
    return op.emitOpError() << "scale is " << scale
                            << ", the one above NVFP4's groups is f32 [N7]";
  if (op.getUe8m0() || op.getBoundAttr() || !type.getShards().empty())
    return op.emitOpError()
           << "ue8m0, bound and shards do not belong to " << type << " [N7]";
  return success();
}

/// MXFP4: each group has a power of two (N4, N7).
static LogicalResult verifyMxfp4(QuantizeOp op, q::TensorType type) {
  if (type.isTiled() || op.getScale() || op.getBoundAttr() || !op.getUe8m0() ||
      !type.getShards().empty())
    return op.emitOpError() << "result is " << type
                            << ", an activation in MXFP4 is group<32>, "
                               "f8E8M0FNU, layout = packed, with ue8m0 and no "
                               "stored scale [N7]";
  return success();
}

LogicalResult QuantizeOp::verify() {
  q::TensorType type = getResult().getType();
  if (failed(verifyPlainSide(
          *this, "input", cast<RankedTensorType>(getInput().getType()), type)))
    return failure();
  if (isa<Float4E2M1FNType>(type.getElementType()))
    return isa<Float8E8M0FNUType>(type.getScaleType())
               ? verifyMxfp4(*this, type)
               : verifyNvfp4(*this, type);
  if (!isa<Float8E4M3FNType>(type.getElementType()) &&
      !type.getElementType().isInteger(8))
    return emitOpError() << "rounds to " << type.getElementType()
                         << ", only f8E4M3FN, f4E2M1FN and i8 are used in "
                            "compute [N1]";
  Type scaleType = type.getScaleType();
  if (Value scale = getScale()) {
    if (type.getGranularity().getKind() != GranularityKind::PerTensor)
      return emitOpError() << "a static scale describes a per_tensor result, "
                              "not "
                           << type << " [P3]";
    if (!type.getShards().empty())
      return emitOpError() << "one static scale cannot describe "
                           << type.getShards().size() << " shards [W1]";
    if (getUe8m0())
      return emitOpError() << "a static scale is taken as it is, ue8m0 is for "
                              "dynamic ones [N4]";
    Type given = cast<RankedTensorType>(scale.getType()).getElementType();
    if (given != scaleType)
      return emitOpError() << "scale is " << scale.getType()
                           << ", the result type implies " << scaleType
                           << " [W1]";
  } else if (type.getGranularity().getKind() == GranularityKind::PerTensor &&
             ShapedType::isDynamic(type.getShape().front())) {
    // A weight that is quantised while it loads has a static shape (W10).
    return emitOpError() << "result is " << type
                         << ", one scale of a whole step would make rows "
                            "depend on each other; expected a static scale or "
                            "per_token [B5]";
  }
  if (FloatAttr bound = getBoundAttr()) {
    if (getScale() ||
        type.getGranularity().getKind() != GranularityKind::PerToken)
      return emitOpError()
             << "bound is of dynamic per_token scales, the result "
                "is "
             << type << " [P3]";
    if (!(bound.getValueAsDouble() > 0) || bound.getValue().isInfinity())
      return emitOpError() << "bound is " << bound.getValueAsDouble()
                           << ", expected a positive number [P3]";
  }
  if (type.getElementType().isInteger(8) && getUe8m0())
    return emitOpError() << "i8 codes have f32 scales, ue8m0 is for FP8 [N7]";
  if (!isa<Float32Type, Float8E8M0FNUType>(scaleType))
    return emitOpError() << "scales of the result are " << scaleType
                         << ", expected f32 or f8E8M0FNU [P3]";
  if (isa<Float8E8M0FNUType>(scaleType) && !getUe8m0())
    return emitOpError() << "f8E8M0FNU scales are powers of two, expected "
                            "ue8m0 [N4]";
  return success();
}

LogicalResult DequantizeOp::verify() {
  return verifyPlainSide(*this, "result",
                         cast<RankedTensorType>(getResult().getType()),
                         getInput().getType());
}

/// A stored tensor has the elements that the type implies: the same number in
/// the same order, bytes under any of their names (N7), scalars as [] or [1],
/// the blocks of experts as a dimension of their own.
static bool isStoredAs(RankedTensorType stored, RankedTensorType implied) {
  auto isByte = [](Type type) {
    return type.isInteger(8) || isa<Float8E8M0FNUType>(type);
  };
  bool sameType =
      stored.getElementType() == implied.getElementType() ||
      (isByte(stored.getElementType()) && isByte(implied.getElementType()));
  bool sameShape =
      stored.getRank() == implied.getRank()
          ? stored.getShape() == implied.getShape()
          : stored.hasStaticShape() &&
                stored.getNumElements() == implied.getNumElements();
  return sameType && sameShape;
}

/// The tensors of codes that share words.
static LogicalResult verifyWordParts(PackOp op, q::TensorType type) {
  struct Part {
    StringRef name;
    Value value;
    RankedTensorType implied;
    StringRef rule;
  };
  for (const Part &part :
       {Part{"data", op.getData(), type.getDataTensorType(), "W1"},
        Part{"scale", op.getScale(), type.getScaleTensorType(), "W1"},
        Part{"zeros", op.getZeros(), type.getZeroTensorType(), "W1"},
        Part{"global", op.getGlobal(), type.getGlobalTensorType(), "N7"},
        Part{"order", op.getOrder(), type.getOrderTensorType(), "W1"}}) {
    if (!part.value && !part.implied)
      continue;
    if (!part.value)
      return op.emitOpError() << "has no " << part.name << ", the type implies "
                              << part.implied << " [" << part.rule << "]";
    Type stored = part.value.getType();
    if (!part.implied)
      return op.emitOpError() << part.name << " is " << stored << ", " << type
                              << " has none [" << part.rule << "]";
    if (!isStoredAs(cast<RankedTensorType>(stored), part.implied))
      return op.emitOpError()
             << part.name << " is " << stored << ", the type implies "
             << part.implied << " [" << part.rule << "]";
  }
  return success();
}

LogicalResult PackOp::verify() {
  q::TensorType type = getResult().getType();
  if (type.isPacked())
    return verifyWordParts(*this, type);
  if (getZeros() || getGlobal() || getOrder())
    return emitOpError() << "zeros, global and order belong to codes that "
                            "share words, the result is "
                         << type << " [W1]";
  return verifyParts(*this, type, cast<RankedTensorType>(getData().getType()),
                     cast<RankedTensorType>(getScale().getType()));
}

LogicalResult UnpackOp::verify() {
  if (getInput().getType().isPacked())
    return emitOpError() << getInput().getType()
                         << " has more than codes and scales; q.repack takes "
                            "it as a whole [W1]";
  return verifyParts(*this, getInput().getType(),
                     cast<RankedTensorType>(getData().getType()),
                     cast<RankedTensorType>(getScale().getType()));
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

static bool isStaticType(Type type) {
  if (auto tensor = dyn_cast<q::TensorType>(type))
    return !llvm::any_of(tensor.getShape(), ShapedType::isDynamic);
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape();
}

int64_t SlotOp::countUsed() {
  return getUsed() ? getUsed()->size() : int64_t(getCount());
}

LogicalResult SlotOp::verify() {
  if (int64_t(getCount()) < 1)
    return emitOpError() << "has " << int64_t(getCount())
                         << " instances, expected at least 1";
  int64_t next = 0;
  for (int64_t index : getUsed().value_or(ArrayRef<int64_t>())) {
    if (index < next || index >= int64_t(getCount()))
      return emitOpError() << "uses index " << index
                           << ", expected ascending ones from 0 to "
                           << int64_t(getCount()) - 1;
    next = index + 1;
  }
  if (!isa<q::TensorType, RankedTensorType>(getType()))
    return emitOpError() << "type is " << getType()
                         << ", expected a quantised or plain tensor";
  if (!isStaticType(getType()))
    return emitOpError() << "type is " << getType()
                         << ", a weight has a static shape";
  return success();
}

/// The slot exists, has the value's type, and an index tells its instances
/// apart.
static LogicalResult verifySlotUse(Operation *op, FlatSymbolRefAttr name,
                                   Type type, Value index,
                                   SymbolTableCollection &tables) {
  auto slot = tables.lookupNearestSymbolFrom<SlotOp>(op, name);
  if (!slot)
    return op->emitOpError() << "there is no q.slot " << name << " [W6]";
  if (slot.getType() != type) {
    InFlightDiagnostic diag = op->emitOpError()
                              << "value is " << type << ", slot " << name
                              << " holds " << slot.getType() << " [W1]";
    diag.attachNote(slot.getLoc()) << "the slot is here";
    return diag;
  }
  if (slot.getCount() > 1 && !index)
    return op->emitOpError()
           << "slot " << name << " has " << int64_t(slot.getCount())
           << " instances, expected an index [W6]";
  IntegerAttr constant;
  if (index && matchPattern(index, m_Constant(&constant)) &&
      (constant.getInt() < 0 || constant.getInt() >= int64_t(slot.getCount())))
    return op->emitOpError()
           << "index " << constant.getInt() << " is not one of the "
           << int64_t(slot.getCount()) << " instances of slot " << name
           << " [W6]";
  return success();
}

LogicalResult WeightOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifySlotUse(*this, getSlotAttr(), getResult().getType(), getIndex(),
                       tables);
}

LogicalResult StoreOp::verifySymbolUses(SymbolTableCollection &tables) {
  Type type = getValue().getType();
  if (!getExpert())
    return verifySlotUse(*this, getSlotAttr(), type, getIndex(), tables);
  // The slot has one more dimension, as many as there are experts.
  auto slot = tables.lookupNearestSymbolFrom<SlotOp>(*this, getSlotAttr());
  int64_t experts = 0;
  if (slot) {
    Type whole = slot.getType();
    if (auto quantized = dyn_cast<TensorType>(whole))
      experts = quantized.getShape()[0];
    else if (auto plain = dyn_cast<RankedTensorType>(whole);
             plain && plain.getRank() > 0)
      experts = plain.getDimSize(0);
  }
  auto quantized = dyn_cast<TensorType>(type);
  if (quantized && quantized.getRank() != 2)
    return emitOpError() << "stores " << type
                         << " as one expert's, expected a matrix [W5]";
  // Without a slot there is nothing to compare with, and an error.
  return verifySlotUse(*this, getSlotAttr(),
                       experts > 0 ? withExperts(type, experts) : type,
                       getIndex(), tables);
}

//===----------------------------------------------------------------------===//
// The load function
//===----------------------------------------------------------------------===//

LogicalResult octet::q::verifyModulePath(Operation *op, StringRef path,
                                         bool hasIndex) {
  if (path.empty())
    return op->emitOpError() << "the module path is empty";
  if (path.contains("{l}") != hasIndex)
    return op->emitOpError() << "path " << quoteName(path)
                             << (hasIndex ? " has no {l} for the index"
                                          : " has a {l} and no index");
  return success();
}

LogicalResult LoadOp::verify() {
  if (failed(verifyModulePath(*this, getPath(), bool(getIndex()))))
    return failure();
  if (getPath().contains("{e}") != bool(getExpert()))
    return emitOpError() << "path " << quoteName(getPath())
                         << (getExpert() ? " has no {e} for the expert"
                                         : " has a {e} and no expert");
  Type type = getResult().getType();
  if (!isStaticType(type))
    return emitOpError() << "result is " << type
                         << ", a stored tensor has a static shape";
  auto quantized = dyn_cast<q::TensorType>(type);
  bool hasScale = quantized && !quantized.isGguf();
  if (hasScale != getScale().has_value())
    return emitOpError() << "result is " << type
                         << (hasScale ? ", expected the name of its scale [W2]"
                             : quantized
                                 ? ", which holds its scales itself [W2]"
                                 : ", which has no scale [W2]");
  if (std::optional<uint64_t> rows = getHeadRows()) {
    ArrayRef<int64_t> shape = quantized
                                  ? quantized.getShape()
                                  : cast<RankedTensorType>(type).getShape();
    if (int64_t(*rows) < 2 || *rows % 2 || shape.empty() || shape.size() > 2 ||
        shape[0] % int64_t(*rows))
      return emitOpError() << "result is " << type
                           << ", which is not made of heads of "
                           << int64_t(*rows) << " rows [W16]";
  }
  if (std::optional<Type> stored = getScaleType()) {
    // The bits of exponents, under the name that most files have for them.
    if (!hasScale || !isa<Float8E8M0FNUType>(quantized.getScaleType()) ||
        !stored->isUnsignedInteger(8))
      return emitOpError() << "scale_type is " << *stored << ", the result "
                           << type
                           << "; only f8E8M0FNU scales are stored as ui8 [N7]";
  }
  if (std::optional<ArrayRef<int64_t>> shape = getScaleShape()) {
    std::optional<int64_t> stored = checkedProduct(*shape);
    int64_t implied =
        quantized ? quantized.getScaleTensorType().getNumElements() : 0;
    if (stored != implied)
      return emitOpError() << "scale_shape is [" << *shape << "], the type "
                           << "implies " << implied << " scales [W1]";
  }
  if (quantized && !quantized.getShards().empty())
    return emitOpError() << "result is " << type
                         << ", one stored tensor has no shards; load each and "
                            "join them with q.concat [C8]";
  if (!quantized) {
    Type element = cast<RankedTensorType>(type).getElementType();
    // The scales of NVFP4 are E4M3 as well (N7).
    if (isStorageType(element) && isa<FloatType>(element) &&
        !getWeight().contains("scale"))
      return emitOpError() << "result is " << type
                           << ", FP8 codes mean nothing without a scale [C13]";
  }
  return success();
}

LogicalResult ConvertScalesOp::verify() {
  q::TensorType from = getInput().getType(), to = getResult().getType();
  if (findDifferences(from, to) & ~kScale)
    return emitOpError() << "turns " << from << " into " << to
                         << ", only the scale type may change [N2]";
  if (from.getScaleType() != to.getScaleType() &&
      !isa<Float32Type>(to.getScaleType()))
    return emitOpError() << "turns " << from.getScaleType() << " scales into "
                         << to.getScaleType()
                         << ", only widening to f32 is exact [N2]";
  return success();
}

LogicalResult ExpandScalesOp::verify() {
  q::TensorType from = getInput().getType(), to = getResult().getType();
  auto isKind = [](q::TensorType type, GranularityKind kind) {
    return type.getGranularity().getKind() == kind;
  };
  if (!isKind(from, GranularityKind::PerTensor) ||
      !isKind(to, GranularityKind::PerChannel))
    return emitOpError() << "turns " << from << " into " << to
                         << ", expected per_tensor into per_channel [W7]";
  if (findDifferences(from, to) & ~kGranularity)
    return emitOpError() << "turns " << from << " into " << to
                         << ", only the granularity may change [W7]";
  return success();
}

/// FP8 formats that no product reads (N8).
static bool isForeignFloat8(Type type) {
  return isa<Float8E5M2Type, Float8E5M2FNUZType, Float8E4M3FNUZType>(type);
}

StringRef RequantizeOp::findRule(q::TensorType from, q::TensorType to) {
  Type source = from.getElementType(), result = to.getElementType();
  bool isSource = isa<Float8E4M3FNType>(source);
  bool isResult = isa<Float8E4M3FNType>(result);
  unsigned differences = findDifferences(from, to);
  if (from.getLayout() != Layout::Plain || !from.getScaleType().isF32())
    return "";
  if (differences == kStorage &&
      ((isForeignFloat8(source) && isResult) ||
       (isSource && isa<Float8E4M3FNUZType>(result))))
    return "N8";
  if (!isSource || !isResult)
    return "";
  if (differences == kShards && to.getShards().empty() &&
      from.getGranularity().getKind() == GranularityKind::PerTensor)
    return "W8";
  if (differences == kScale && from.getGranularity().isBlock() &&
      isa<Float8E8M0FNUType>(to.getScaleType()))
    return "W11";
  return "";
}

LogicalResult RequantizeOp::verify() {
  q::TensorType from = getInput().getType(), to = getResult().getType();
  if (findRule(from, to).empty())
    return emitOpError()
           << "turns " << from << " into " << to
           << "; expected another FP8 format with f32 scales [N8], one scale "
              "for the shards of a per_tensor matrix [W8], or f8E8M0FNU for "
              "the f32 scales of blocks [W11]";
  return success();
}

LogicalResult MergeScalesOp::verify() {
  q::TensorType from = getInput().getType(), to = getResult().getType();
  constexpr int64_t kGroup = 32;
  GranularityAttr group = from.getGranularity(), block = to.getGranularity();
  if (!group.isBlock() || group.getBlockN() != 1 ||
      group.getBlockK() != kGroup ||
      !isa<Float8E8M0FNUType>(from.getScaleType()))
    return emitOpError() << "input is " << from
                         << ", expected block<1x32> with f8E8M0FNU scales [B6]";
  if (!block.isBlock() || block.getBlockK() % kGroup ||
      !to.getScaleType().isF32() ||
      findDifferences(from, to) != (kGranularity | kScale))
    return emitOpError() << "turns " << from << " into " << to
                         << ", expected blocks of whole groups of 32 with f32 "
                            "scales [B6]";
  return success();
}

LogicalResult ShareGlobalOp::verify() {
  q::TensorType from = getInput().getType(), to = getResult().getType();
  if (!from.isPacked() || from.getGlobal() == GlobalScale::None)
    return emitOpError() << from
                         << " has no scale above those of its groups [W9]";
  if (from.getShards().empty())
    return emitOpError() << from
                         << " is one matrix, which has one scale above its "
                            "groups already [W9]";
  if (findDifferences(from, to) != kShards || !to.getShards().empty())
    return emitOpError() << "turns " << from << " into " << to
                         << ", expected the same without shards [W9]";
  return success();
}

LogicalResult RepackOp::verify() {
  q::TensorType from = getInput().getType(), to = getResult().getType();
  if (to.isTiled()) {
    if (q::TensorType tiled = from.getTiled(); tiled != to) {
      InFlightDiagnostic diag = emitOpError()
                                << "turns " << from << " into " << to;
      if (tiled)
        return diag << ", expected " << tiled << " [B4]";
      return diag << ", expected codes that share words [B4]";
    }
    return success();
  }
  if (from.getLayout() != Layout::Plain || to.getLayout() == Layout::Plain ||
      to.isGguf() || to.isPacked() ||
      to.getLayout() == Layout::ColumnMajorScales)
    return emitOpError() << "turns " << from << " into " << to
                         << ", expected a plain weight into the layout of a "
                            "kernel [B4]";
  if (findDifferences(from, to) != kLayout)
    return emitOpError() << "turns " << from << " into " << to
                         << ", only the layout may change [B4]";
  return success();
}

/// The shards of quantised matrices one after the other (W5b).
static LogicalResult verifyQuantizedConcat(ConcatOp op, q::TensorType result) {
  SmallVector<int64_t> shards;
  int64_t n = 0;
  for (auto [i, value] : llvm::enumerate(op.getInputs())) {
    auto type = dyn_cast<q::TensorType>(value.getType());
    if (!type)
      return op.emitOpError()
             << "input " << i << " is " << value.getType() << ", the result "
             << result << " is quantised [C8]";
    if (type.getGranularity().getKind() == GranularityKind::PerToken)
      return op.emitOpError() << "input " << i << " is " << type
                              << ", an activation is no shard [W5b]";
    if (type.getK() != result.getK())
      return op.emitOpError()
             << "input " << i << " has K = " << type.getK()
             << ", the result has " << result.getK() << " [C8]";
    if (type.getElementType() != result.getElementType() ||
        type.getGranularity() != result.getGranularity() ||
        type.getScaleType() != result.getScaleType() ||
        type.getOffset() != result.getOffset() ||
        type.getLayout() != result.getLayout() ||
        type.getShape().drop_back(2) != result.getShape().drop_back(2))
      return op.emitOpError()
             << "input " << i << " is " << type << ", the result is " << result
             << "; they may differ only in their rows [C8]";
    for (int64_t rows : type.getShardRows()) {
      if (ShapedType::isDynamic(rows))
        return op.emitOpError() << "input " << i << " is " << type
                                << ", a shard has a static number of rows "
                                   "[W5b]";
      std::optional<int64_t> sum = checkedAdd(n, rows);
      if (!sum)
        return op.emitOpError() << "the rows do not fit an int64_t";
      n = *sum;
      shards.push_back(rows);
    }
  }
  if (shards != result.getShardRows()) {
    InFlightDiagnostic diag = op.emitOpError() << "shards of the result are [";
    llvm::interleaveComma(result.getShardRows(), diag);
    diag << "], the inputs have [";
    llvm::interleaveComma(shards, diag);
    diag << "] rows [W5b]";
    return diag;
  }
  return success();
}

/// Plain matrices `[N, K]`, or vectors `[N]` such as biases.
static LogicalResult verifyPlainConcat(ConcatOp op, RankedTensorType result) {
  if (result.getRank() < 1 || result.getRank() > 2 || !result.hasStaticShape())
    return op.emitOpError()
           << "result is " << result << ", expected a static vector or matrix";
  int64_t n = 0;
  for (auto [i, value] : llvm::enumerate(op.getInputs())) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type)
      return op.emitOpError()
             << "input " << i << " is " << value.getType() << ", the result "
             << result << " is not quantised [C8]";
    if (type.getElementType() != result.getElementType() ||
        type.getRank() != result.getRank() || !type.hasStaticShape())
      return op.emitOpError()
             << "input " << i << " is " << type << ", the result is " << result
             << "; they may differ only in their rows [C8]";
    if (type.getShape().drop_front() != result.getShape().drop_front())
      return op.emitOpError()
             << "input " << i << " has K = " << type.getDimSize(1)
             << ", the result has " << result.getDimSize(1) << " [C8]";
    std::optional<int64_t> sum = checkedAdd(n, type.getDimSize(0));
    if (!sum)
      return op.emitOpError() << "the rows do not fit an int64_t";
    n = *sum;
  }
  if (n != result.getDimSize(0))
    return op.emitOpError() << "inputs have " << n << " rows, the result has "
                            << result.getDimSize(0) << " [C8]";
  return success();
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "expected at least one input";
  if (auto quantized = dyn_cast<q::TensorType>(getResult().getType()))
    return verifyQuantizedConcat(*this, quantized);
  return verifyPlainConcat(*this,
                           cast<RankedTensorType>(getResult().getType()));
}

/// Scalars that a kernel reads are F32.
LogicalResult SplitHeadsOp::verify() {
  auto typeOf = [](Value value) {
    return cast<RankedTensorType>(value.getType());
  };
  RankedTensorType input = typeOf(getInput());
  RankedTensorType first = typeOf(getFirst()), second = typeOf(getSecond());
  for (auto [name, type, rank] : {std::tuple("input", input, 2),
                                  {"first", first, 3},
                                  {"second", second, 3}})
    if (type.getRank() != rank || !type.hasStaticShape() ||
        !isPlainFloat(type.getElementType()) ||
        type.getElementType() != input.getElementType())
      return emitOpError() << name << " is " << type << ", expected "
                           << (rank == 2 ? "a matrix" : "heads x rows x K")
                           << " in f32, bf16 or f16: codes are dequantised "
                              "before they are split [W12]";
  int64_t heads = first.getDimSize(0), k = input.getDimSize(1);
  std::optional<int64_t> each =
      checkedAdd(first.getDimSize(1), second.getDimSize(1));
  std::optional<int64_t> rows = each ? checkedMul(heads, *each) : std::nullopt;
  if (second.getDimSize(0) != heads || first.getDimSize(2) != k ||
      second.getDimSize(2) != k || rows != input.getDimSize(0))
    return emitOpError() << "input is " << input << ", its heads are not those "
                         << "of " << first << " and " << second << " [W12]";
  return success();
}

static LogicalResult verifyF32Scalar(Operation *op, StringRef what,
                                     Value value) {
  if (!cast<RankedTensorType>(value.getType()).getElementType().isF32())
    return op->emitOpError()
           << what << " is " << value.getType() << ", expected an f32 scalar";
  return success();
}

LogicalResult MaxOp::verify() {
  if (getInputs().empty())
    return emitOpError() << "expected at least one input";
  return verifyF32Scalar(*this, "result", getResult());
}

LogicalResult KvScalesOp::verify() {
  if (failed(verifyModulePath(*this, getPath(), bool(getIndex()))) ||
      failed(verifyF32Scalar(*this, "key scale", getKScale())))
    return failure();
  return verifyF32Scalar(*this, "value scale", getVScale());
}

//===----------------------------------------------------------------------===//
// KV cache
//===----------------------------------------------------------------------===//

LogicalResult KvWriteOp::verify() {
  KvType cache = getCache().getType();
  auto k = cast<RankedTensorType>(getK().getType());
  auto v = cast<RankedTensorType>(getV().getType());
  auto slots = cast<RankedTensorType>(getSlots().getType());
  int64_t width = cache.getHeads() * cache.getDim();
  for (auto [name, type] : {std::pair("k", k), std::pair("v", v)})
    if (type.getRank() != 2 || type.getDimSize(1) != width ||
        !isPlainFloat(type.getElementType()))
      return emitOpError() << name << " is " << type << ", the cache " << cache
                           << " takes " << width
                           << " values a row in f32, bf16 or f16 [P7a]";
  if (slots.getRank() != 1 || !slots.getElementType().isInteger(32))
    return emitOpError() << "slots is " << slots
                         << ", expected one i32 a row of k";
  if (k.getDimSize(0) != v.getDimSize(0) ||
      k.getDimSize(0) != slots.getDimSize(0))
    return emitOpError() << "k, v and slots have different numbers of rows: "
                         << k << ", " << v << ", " << slots;
  bool scaled = bool(getKScale());
  if (scaled != (cache.getLayout() == KvLayout::FP8E4M3))
    return emitOpError() << "the cache is " << cache
                         << (scaled ? ", which has no scales [P7a]"
                                    : ", expected scales of k and v [P7a]");
  // An unquantised cache holds the activation dtype or what the flag asked for:
  // narrowing rounds once, so any pair is meaningful.
  if (bool(getKScale()) != bool(getVScale()))
    return emitOpError() << "has one scale, expected those of k and v [P8]";
  return success();
}
