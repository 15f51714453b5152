//===- PackedTypes.cpp - Weights whose codes share words ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedTypes.h"
#include "octet/Support/Checked.h"
#include "runtime/cpu/TileLayout.h"

using namespace mlir;
using namespace octet;
using namespace octet::q;

static constexpr int64_t kWordBits = 32;
/// Rows that bulk copies of a device move are a multiple of this (B2).
static constexpr int64_t kBulkBytes = 16;

static bool isFp4(Type type) { return isa<Float4E2M1FNType>(type); }

/// Codes in a word of 32 bits.
static int64_t getPerWord(Type elementType) {
  return kWordBits / elementType.getIntOrFloatBitWidth();
}

/// A diagnostic that begins with the layout.
static InFlightDiagnostic say(function_ref<InFlightDiagnostic()> emitError,
                              const WordFormat &format) {
  return emitError() << "layout " << stringifyLayout(format.layout) << " ";
}

//===----------------------------------------------------------------------===//
// What goes together
//===----------------------------------------------------------------------===//

/// What belongs to layouts of words only.
static LogicalResult verifyOthers(function_ref<InFlightDiagnostic()> emitError,
                                  const WordFormat &format) {
  auto refuse = [&](const Twine &what, StringRef rule) -> LogicalResult {
    return emitError() << what << ", expected layout = packed or tiled ["
                       << rule << "]";
  };
  if (isFp4(format.elementType))
    return refuse("f4E2M1FN codes without a layout, which says how two of them "
                  "share a byte",
                  "N7");
  if (isa<Float8E4M3FNType>(format.scaleType))
    return refuse("f8E4M3FN scales are those of NVFP4's f4E2M1FN codes", "N7");
  if (format.global != GlobalScale::None)
    return refuse("a global scale stands above those of NVFP4's groups", "N7");
  if (format.offset == Offset::ZeroPoints ||
      format.offset == Offset::ZeroPointsMinusOne)
    return refuse(stringifyOffset(format.offset) +
                      " belong to codes that share words",
                  "W1");
  if (format.actOrder)
    return refuse("act_order belongs to codes that share words", "W1");
  return success();
}

/// N7: MXFP4 or NVFP4 and nothing between.
static LogicalResult verifyFp4(function_ref<InFlightDiagnostic()> emitError,
                               const WordFormat &format) {
  if (format.layout != Layout::Packed && format.layout != Layout::Tiled)
    return say(emitError, format)
           << "holds integers, f4E2M1FN codes are packed or tiled [N7]";
  if (format.offset != Offset::None || format.actOrder)
    return emitError() << "f4E2M1FN codes have neither offsets nor act_order, "
                          "these have "
                       << (format.actOrder ? StringRef("act_order")
                                           : stringifyOffset(format.offset))
                       << " [N7]";
  bool isMx = format.granularity.isGroup() &&
              format.granularity.getBlockK() == 32 &&
              isa<Float8E8M0FNUType>(format.scaleType) &&
              format.global == GlobalScale::None;
  bool isNv = format.granularity.isGroup() &&
              format.granularity.getBlockK() == 16 &&
              isa<Float8E4M3FNType>(format.scaleType) &&
              format.global != GlobalScale::None;
  if (isMx || isNv)
    return success();
  InFlightDiagnostic diag = emitError();
  diag << "f4E2M1FN codes have group<32> and f8E8M0FNU scales (MXFP4) or "
          "group<16>, f8E4M3FN scales and a global one (NVFP4), these have "
       << stringifyGranularityKind(format.granularity.getKind());
  if (format.granularity.isGroup())
    diag << '<' << format.granularity.getBlockK() << '>';
  return diag << ", " << format.scaleType << " scales and "
              << (format.global == GlobalScale::None ? "no" : "a")
              << " global one [N7]";
}

/// Which offsets a layout has, for messages; empty if these fit.
static StringRef findOffsets(const WordFormat &format) {
  Offset offset = format.offset;
  bool areZeros =
      offset == Offset::ZeroPoints || offset == Offset::ZeroPointsMinusOne;
  switch (format.layout) {
  case Layout::Packed:
    return offset == Offset::None || offset == Offset::ZeroPoints
               ? ""
               : "zero_points or none";
  case Layout::PackedK:
    return areZeros ? "" : "zero_points or zero_points_minus_one";
  case Layout::Awq:
    return offset == Offset::ZeroPoints ? "" : "zero_points";
  default: // tiled
    if (offset == Offset::Minimums && format.elementType.isInteger(4) &&
        format.scaleType.isF16())
      return "";
    return offset == Offset::None || offset == Offset::ZeroPoints
               ? ""
               : "zero_points, none, or minimums of i4 with f16 scales";
  }
}

static LogicalResult
verifyIntegers(function_ref<InFlightDiagnostic()> emitError,
               const WordFormat &format) {
  Type codes = format.elementType;
  if (!codes.isInteger(4) &&
      (!codes.isInteger(8) || format.layout == Layout::Awq))
    return say(emitError, format)
           << "holds "
           << (format.layout == Layout::Awq       ? "i4"
               : format.layout == Layout::PackedK ? "i4 or i8"
                                                  : "i4, i8 or f4E2M1FN")
           << " codes, not " << codes << " [W1]";
  bool isTiled = format.layout == Layout::Tiled;
  if (!isPlainFloat(format.scaleType) || (isTiled && format.scaleType.isBF16()))
    return say(emitError, format)
           << "has " << (isTiled ? "f32 or f16" : "f32, bf16 or f16")
           << " scales for integers, these are " << format.scaleType << " [W1]";
  if (format.global != GlobalScale::None)
    return emitError() << "a global scale stands above those of NVFP4's "
                          "groups, these codes are "
                       << codes << " [N7]";
  if (StringRef expected = findOffsets(format); !expected.empty())
    return say(emitError, format) << "has " << expected << ", not "
                                  << stringifyOffset(format.offset) << " [W1]";
  if (format.actOrder &&
      (!format.granularity.isGroup() || format.layout == Layout::Awq))
    return emitError() << "act_order says which group a column is in; "
                       << (format.layout == Layout::Awq
                               ? "layout awq keeps them in order"
                               : "one scale a channel is one group")
                       << " [W1]";
  return success();
}

LogicalResult
octet::q::verifyWords(function_ref<InFlightDiagnostic()> emitError,
                      const WordFormat &format) {
  if (!format.inWords())
    return verifyOthers(emitError, format);
  GranularityKind kind = format.granularity.getKind();
  if (kind != GranularityKind::Group && kind != GranularityKind::PerChannel)
    return say(emitError, format)
           << "has a scale a group or a channel, this is "
           << stringifyGranularityKind(kind) << " [W1]";
  if (isFp4(format.elementType))
    return verifyFp4(emitError, format);
  if (format.layout == Layout::Tiled && format.global == GlobalScale::Divides)
    return say(emitError, format) << "has a global scale that multiplies [N7]";
  return verifyIntegers(emitError, format);
}

//===----------------------------------------------------------------------===//
// Sides and bytes
//===----------------------------------------------------------------------===//

LogicalResult
octet::q::verifyWordSides(function_ref<InFlightDiagnostic()> emitError,
                          const WordFormat &format, ArrayRef<int64_t> shape,
                          ArrayRef<int64_t> shardRows) {
  int64_t k = shape.back(), perWord = getPerWord(format.elementType);
  auto divides = [&](StringRef side, int64_t size, int64_t part,
                     StringRef what) -> LogicalResult {
    if (size % part == 0)
      return success();
    return say(emitError, format) << "needs whole " << what << " of " << part
                                  << ", " << side << " is " << size << " [W1]";
  };
  if (format.granularity.isGroup() &&
      (isFp4(format.elementType) || format.layout == Layout::Awq) &&
      failed(divides("K", k, format.granularity.getBlockK(), "groups")))
    return failure();
  if (format.layout == Layout::PackedK &&
      failed(divides("K", k, perWord, "words")))
    return failure();
  if (format.layout == Layout::PackedK || format.layout == Layout::Awq)
    for (int64_t rows : shardRows)
      if (failed(divides("N", rows, perWord, "words")))
        return failure();
  // A code with its share of a scale, an offset, an index and of what fills up
  // groups and tiles has at most 32 bytes.
  constexpr int64_t kMost = 32;
  std::optional<int64_t> rows =
      checkedAdd(shape[shape.size() - 2],
                 rt::TileLayout::kRows * int64_t(shardRows.size()));
  std::optional<int64_t> product =
      rows ? checkedMul(*rows, kMost) : std::nullopt;
  product = product ? checkedMul(*product, k) : std::nullopt;
  if (product && shape.size() == 3)
    product = checkedMul(*product, shape[0]);
  if (!product)
    return emitError() << "codes and scales have more bytes than an int64_t "
                          "holds";
  return success();
}

q::TensorType octet::q::getActivationType(ContractAttr contract,
                                          ArrayRef<int64_t> shape) {
  MLIRContext *context = contract.getContext();
  Type codes = contract.getActivationStorage();
  if (isFp4(codes))
    return q::TensorType::get(
        context, shape, codes, contract.getActivation(), contract.getScale(),
        {}, Offset::None, Layout::Packed,
        contract.getIsStatic() ? GlobalScale::Multiplies : GlobalScale::None,
        /*actOrder=*/false);
  Layout layout = contract.getActivationLayout();
  // Bulk copies do not move such rows: the generic kernel reads them, and their
  // scales row by row (B2).
  if (shape.back() % kBulkBytes != 0)
    layout = Layout::Plain;
  Type scale = Float32Type::get(context);
  if (layout == Layout::Ue8m0Packed)
    scale = Float8E8M0FNUType::get(context);
  return q::TensorType::get(context, shape, codes, contract.getActivation(),
                            scale, {}, Offset::None, layout);
}

RankedTensorType octet::q::getPackedData(q::TensorType type) {
  MLIRContext *context = type.getContext();
  int64_t n = type.getN(), k = type.getK();
  int64_t perWord = getPerWord(type.getElementType());
  SmallVector<int64_t> shape(type.getShape().drop_back(2));
  if (isFp4(type.getElementType())) {
    shape.append({n, cdiv(k, 2)});
    return RankedTensorType::get(
        shape, IntegerType::get(context, 8, IntegerType::Unsigned));
  }
  switch (type.getLayout()) {
  case Layout::PackedK:
    shape.append({cdiv(k, perWord), n});
    break;
  case Layout::Awq:
    shape.append({k, cdiv(n, perWord)});
    break;
  default:
    shape.append({n, cdiv(k, perWord)});
    break;
  }
  return RankedTensorType::get(shape, IntegerType::get(context, kWordBits));
}

RankedTensorType q::TensorType::getZeroTensorType() const {
  if (!isPacked() || getOffset() == Offset::None)
    return {};
  SmallVector<int64_t> shape = getScaleShape();
  int64_t &rows =
      getLayout() == Layout::Packed ? shape[shape.size() - 2] : shape.back();
  rows = cdiv(rows, getPerWord(getElementType()));
  return RankedTensorType::get(shape,
                               IntegerType::get(getContext(), kWordBits));
}

RankedTensorType q::TensorType::getOrderTensorType() const {
  if (!isPacked() || !getActOrder())
    return {};
  return RankedTensorType::get({getK()},
                               IntegerType::get(getContext(), kWordBits));
}

RankedTensorType q::TensorType::getGlobalTensorType() const {
  if (!isPacked() || getGlobal() == GlobalScale::None)
    return {};
  return RankedTensorType::get({}, Float32Type::get(getContext()));
}

static int64_t countTensor(RankedTensorType type) {
  return type
             ? type.getNumElements() * q::getElementBytes(type.getElementType())
             : 0;
}

/// Of one shard and expert.
static int64_t countTiles(q::TensorType type, int64_t rows) {
  rt::TileLayout layout;
  layout.cols = type.getK();
  layout.group = type.getGranularity().isGroup()
                     ? std::min(type.getGranularity().getBlockK(), type.getK())
                     : type.getK();
  layout.planes = type.getElementType().isInteger(8) ? 2 : 1;
  layout.scaleBytes = q::getElementBytes(type.getScaleType());
  layout.offsetBytes = type.getOffset() == Offset::Minimums     ? 2
                       : type.getOffset() == Offset::ZeroPoints ? 1
                                                                : 0;
  int64_t bytes = layout.bytes(rows);
  if (type.getActOrder())
    bytes += 4 * type.getK();
  return bytes + (type.getGlobal() == GlobalScale::None ? 0 : 4);
}

int64_t octet::q::countPackedBytes(q::TensorType type) {
  int64_t experts = type.getRank() == 3 ? type.getShape()[0] : 1;
  int64_t bytes = 0;
  for (int64_t rows : type.getShardRows()) {
    if (type.isTiled()) {
      bytes += experts * countTiles(type, rows);
      continue;
    }
    q::TensorType shard = type.withShardRows({rows});
    for (RankedTensorType tensor :
         {shard.getDataTensorType(), shard.getScaleTensorType(),
          shard.getZeroTensorType(), shard.getOrderTensorType(),
          shard.getGlobalTensorType()})
      bytes += countTensor(tensor);
  }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

q::TensorType q::TensorType::getTiled() const {
  if (!isPacked() && !(isGguf() && getElementType().isInteger(4)))
    return {};
  Offset offset = getOffset() == Offset::ZeroPointsMinusOne ? Offset::ZeroPoints
                                                            : getOffset();
  GlobalScale global = getGlobal() == GlobalScale::None
                           ? GlobalScale::None
                           : GlobalScale::Multiplies;
  Type scaleType = getScaleType().isBF16()
                       ? Type(Float32Type::get(getContext()))
                       : getScaleType();
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             scaleType, getShards(), offset, Layout::Tiled, global,
             getActOrder());
}

q::TensorType q::TensorType::withOffset(Offset offset) const {
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             getScaleType(), getShards(), offset, getLayout(), getGlobal(),
             getActOrder());
}
q::TensorType q::TensorType::withGlobal(GlobalScale global) const {
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             getScaleType(), getShards(), getOffset(), getLayout(), global,
             getActOrder());
}
