//===- QuantTypes.cpp - Types of q ----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PackedTypes.h"
#include "dialects/Quant/QuantDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "octet/Support/Checked.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;
using namespace octet::q;

#define GET_TYPEDEF_CLASSES
#include "dialects/Quant/QuantTypes.cpp.inc"

void QuantDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Quant/QuantTypes.cpp.inc"
      >();
}

bool octet::q::isScalarTensor(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType()) &&
         tensor.hasStaticShape() &&
         llvm::all_of(tensor.getShape(), [](int64_t d) { return d == 1; });
}

bool octet::q::isPlainFloat(Type type) {
  return isa<Float32Type, BFloat16Type, Float16Type>(type);
}

static bool isFloat8(Type type) {
  return isa<Float8E4M3FNType, Float8E4M3FNUZType, Float8E5M2Type,
             Float8E5M2FNUZType>(type);
}

bool octet::q::isStorageType(Type type) {
  return isFloat8(type) || isa<Float4E2M1FNType>(type) ||
         type.isSignlessInteger(8) || type.isSignlessInteger(4);
}

bool octet::q::isScaleType(Type type) {
  return isa<Float32Type, BFloat16Type, Float16Type, Float8E8M0FNUType,
             Float8E4M3FNType>(type);
}

Type octet::q::getStorage(Type tensor) {
  if (auto quantized = dyn_cast<q::TensorType>(tensor))
    return quantized.getElementType();
  return cast<RankedTensorType>(tensor).getElementType();
}

int64_t octet::q::getElementBytes(Type elementType) {
  assert(elementType.isIntOrFloat() && "no size");
  return cdiv(elementType.getIntOrFloatBitWidth(), 8);
}

//===----------------------------------------------------------------------===//
// q::TensorType
//===----------------------------------------------------------------------===//

namespace {
/// A type of GGUF that is multiplied as it is.
struct GgufFormat {
  StringRef name;
  unsigned bits;
  Offset offset;
};
} // namespace

/// Elements along K of one of its groups.
static constexpr int64_t kGgufGroup = 32;

static constexpr GgufFormat kGgufFormats[] = {
    {"Q8_0", 8, Offset::None},
    {"Q4_0", 4, Offset::None},
    {"Q4_1", 4, Offset::Minimums},
};

/// Rows of scales in column-major layouts come in whole loads of 16 bytes.
static constexpr int64_t kScaleAlign = 4;
/// Exponents of a word.
static constexpr int64_t kPerWord = 4;

/// Scales along rows: `[groups, rows]`, rows rounded up (column_major_scales,
/// ue8m0_packed). A block's exponent stands in the word of each of its rows.
static SmallVector<int64_t> deriveColumnMajor(ArrayRef<int64_t> shape,
                                              GranularityAttr granularity,
                                              Layout layout) {
  SmallVector<int64_t> scale(shape.drop_back(2));
  int64_t rows = shape[shape.size() - 2];
  int64_t groups =
      granularity.isBlock() ? cdiv(shape.back(), granularity.getBlockK()) : 1;
  if (layout == Layout::Ue8m0Packed)
    groups = cdiv(groups, kPerWord);
  if (!ShapedType::isDynamic(rows))
    rows = checkedMul(cdiv(rows, kScaleAlign), kScaleAlign).value_or(INT64_MAX);
  scale.append({groups, rows});
  return scale;
}

/// Groups first, as where words lie along K (packed_k, awq).
static SmallVector<int64_t> deriveTransposed(ArrayRef<int64_t> shape,
                                             GranularityAttr granularity) {
  int64_t groups =
      granularity.isGroup() ? cdiv(shape.back(), granularity.getBlockK()) : 1;
  return {groups, shape[shape.size() - 2]};
}

/// The one place that knows how many scales a type has (W1, W5b). Sides were
/// checked: the sum of the blocks of all shards is at most the sum of rows.
static SmallVector<int64_t> deriveScaleShape(ArrayRef<int64_t> shape,
                                             GranularityAttr granularity,
                                             ArrayRef<int64_t> shardRows,
                                             Layout layout) {
  if (layout == Layout::PackedK || layout == Layout::Awq)
    return deriveTransposed(shape, granularity);
  if (layout == Layout::ColumnMajorScales || layout == Layout::Ue8m0Packed)
    return deriveColumnMajor(shape, granularity, layout);
  SmallVector<int64_t> scale(shape.drop_back(2)); // experts (W5)
  int64_t n = shape[shape.size() - 2], k = shape.back();
  switch (granularity.getKind()) {
  case GranularityKind::PerTensor:
    scale.push_back(shardRows.size());
    return scale;
  case GranularityKind::PerChannel:
  case GranularityKind::PerToken:
    scale.append({n, 1});
    return scale;
  case GranularityKind::Group:
    scale.append({n, cdiv(k, granularity.getBlockK())});
    return scale;
  case GranularityKind::Block: {
    int64_t rows = 0;
    for (int64_t shard : shardRows)
      rows = ShapedType::isDynamic(shard)
                 ? shard
                 : rows + cdiv(shard, granularity.getBlockN());
    scale.append({rows, cdiv(k, granularity.getBlockK())});
    return scale;
  }
  }
  llvm_unreachable("all granularities are above");
}

SmallVector<int64_t> q::TensorType::getShardRows() const {
  if (getShards().empty())
    return {getN()};
  return SmallVector<int64_t>(getShards());
}

SmallVector<int64_t> q::TensorType::getScaleShape() const {
  return deriveScaleShape(getShape(), getGranularity(), getShardRows(),
                          getLayout());
}

/// The type of an element of the scale's tensor.
static Type getScaleElement(Type scaleType, Layout layout) {
  if (layout == Layout::Ue8m0Packed)
    return IntegerType::get(scaleType.getContext(), 32);
  return scaleType;
}

RankedTensorType q::TensorType::getScaleTensorType() const {
  return RankedTensorType::get(getScaleShape(),
                               getScaleElement(getScaleType(), getLayout()));
}

RankedTensorType q::TensorType::getDataTensorType() const {
  if (isPacked())
    return getPackedData(*this);
  return RankedTensorType::get(getShape(), getElementType());
}

/// Bytes of codes, scales and offsets of sides that were checked, or nothing.
static std::optional<int64_t> countBytes(ArrayRef<int64_t> shape,
                                         Type elementType,
                                         ArrayRef<int64_t> scaleShape,
                                         Type scaleType, Offset offset) {
  std::optional<int64_t> codes = checkedProduct(shape);
  std::optional<int64_t> bits =
      codes ? checkedMul(*codes, elementType.getIntOrFloatBitWidth())
            : std::nullopt;
  std::optional<int64_t> scales = checkedProduct(scaleShape);
  std::optional<int64_t> scaleBytes =
      scales ? checkedMul(*scales, getElementBytes(scaleType) *
                                       (offset == Offset::None ? 1 : 2))
             : std::nullopt;
  if (!bits || !scaleBytes)
    return std::nullopt;
  return checkedAdd(cdiv(*bits, 8), *scaleBytes);
}

int64_t q::TensorType::getBytes() const {
  assert(!llvm::any_of(getShape(), ShapedType::isDynamic) &&
         "bytes of a type without a size");
  if (isPacked() || isTiled())
    return countPackedBytes(*this);
  // The verifier refused a type for which this overflows.
  return *countBytes(getShape(), getElementType(), getScaleShape(),
                     getScaleElement(getScaleType(), getLayout()), getOffset());
}

StringRef q::TensorType::getGgufName() const {
  for (const GgufFormat &format : kGgufFormats)
    if (isGguf() && getElementType().isInteger(format.bits) &&
        getOffset() == format.offset)
      return format.name;
  return "";
}

q::TensorType q::TensorType::getGguf(MLIRContext *context, StringRef name,
                                     ArrayRef<int64_t> shape) {
  for (const GgufFormat &format : kGgufFormats)
    if (format.name == name)
      return get(
          context, shape, IntegerType::get(context, format.bits),
          GranularityAttr::get(context, GranularityKind::Group, 1, kGgufGroup),
          Float16Type::get(context), {}, format.offset, Layout::Gguf);
  return {};
}

q::TensorType q::TensorType::withShape(ArrayRef<int64_t> shape) const {
  return get(getContext(), shape, getElementType(), getGranularity(),
             getScaleType(), getShards(), getOffset(), getLayout(), getGlobal(),
             getActOrder());
}
q::TensorType q::TensorType::withScaleType(Type scaleType) const {
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             scaleType, getShards(), getOffset(), getLayout(), getGlobal(),
             getActOrder());
}
q::TensorType
q::TensorType::withGranularity(GranularityAttr granularity) const {
  return get(getContext(), getShape(), getElementType(), granularity,
             getScaleType(), getShards(), getOffset(), getLayout(), getGlobal(),
             getActOrder());
}
q::TensorType q::TensorType::withShards(ArrayRef<int64_t> shards) const {
  // A matrix of one shard is an unfused one, and has one spelling.
  if (shards.size() == 1)
    shards = {};
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             getScaleType(), shards, getOffset(), getLayout(), getGlobal(),
             getActOrder());
}

q::TensorType q::TensorType::withElementType(Type elementType) const {
  return get(getContext(), getShape(), elementType, getGranularity(),
             getScaleType(), getShards(), getOffset(), getLayout(), getGlobal(),
             getActOrder());
}
q::TensorType q::TensorType::withLayout(Layout layout) const {
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             getScaleType(), getShards(), getOffset(), layout, getGlobal(),
             getActOrder());
}

// N and its shards change together: neither fits the other alone.
q::TensorType q::TensorType::withShardRows(ArrayRef<int64_t> rows) const {
  SmallVector<int64_t> shape(getShape());
  shape[getRank() - 2] = llvm::sum_of(rows, int64_t(0));
  return get(getContext(), shape, getElementType(), getGranularity(),
             getScaleType(), rows.size() == 1 ? ArrayRef<int64_t>() : rows,
             getOffset(), getLayout(), getGlobal(), getActOrder());
}
q::TensorType q::TensorType::withColumns(int64_t k) const {
  SmallVector<int64_t> shape(getShape());
  shape.back() = k;
  return withShape(shape);
}

/// The shards are positive and add up to N (W5b).
static LogicalResult verifyShards(function_ref<InFlightDiagnostic()> emitError,
                                  int64_t n, GranularityAttr granularity,
                                  ArrayRef<int64_t> shards) {
  if (shards.empty())
    return success();
  if (granularity.getKind() == GranularityKind::PerToken)
    return emitError() << "per_token scales belong to an activation, which "
                          "has no shards [W5b]";
  if (shards.size() == 1)
    return emitError() << "shards has one entry, a matrix that is not fused "
                          "has none [W5b]";
  if (ShapedType::isDynamic(n))
    return emitError() << "a matrix with shards has a static number of rows "
                          "[W5b]";
  int64_t sum = 0;
  for (int64_t shard : shards) {
    if (shard <= 0)
      return emitError() << "shard of " << shard
                         << " rows, expected at least 1 [W5b]";
    std::optional<int64_t> next = checkedAdd(sum, shard);
    if (!next)
      return emitError() << "shards add up to more than an int64_t [W5b]";
    sum = *next;
  }
  if (sum != n)
    return emitError() << "shards add up to " << sum << ", the matrix has " << n
                       << " rows [W5b]";
  return success();
}

/// Integers in groups, and what may stand beside their scales.
static LogicalResult verifyGroups(function_ref<InFlightDiagnostic()> emitError,
                                  Type elementType, GranularityAttr granularity,
                                  Offset offset, Layout layout) {
  bool isGroup = granularity.isGroup();
  if (isGroup && isFloat8(elementType))
    return emitError() << "group granularity on " << elementType
                       << ", expected i8 or i4 codes; FP8 ones have block<1x"
                       << granularity.getBlockK() << "> [W1]";
  if (elementType.isInteger(4) && layout == Layout::Plain)
    return emitError() << "i4 codes without a layout, which says how two of "
                          "them share a byte; expected layout = gguf, packed, "
                          "packed_k, awq or tiled [W1]";
  if (isGroup && layout == Layout::Plain)
    return emitError() << "group granularity without a layout, expected "
                          "layout = gguf, packed, packed_k, awq or tiled [W1]";
  if (offset != Offset::None && !isGroup)
    return emitError() << stringifyOffset(offset)
                       << " belong to groups of integers, the granularity is "
                       << stringifyGranularityKind(granularity.getKind())
                       << " [W1]";
  return success();
}

/// Q8_0, Q4_0 or Q4_1, in whole groups.
static LogicalResult verifyGguf(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<int64_t> shape, Type elementType,
                                GranularityAttr granularity, Type scaleType,
                                Offset offset) {
  if (!granularity.isGroup() || granularity.getBlockK() != kGgufGroup ||
      !scaleType.isF16())
    return emitError() << "layout gguf has group<" << kGgufGroup
                       << "> with f16 scales, this is "
                       << stringifyGranularityKind(granularity.getKind()) << '<'
                       << granularity.getBlockN() << 'x'
                       << granularity.getBlockK() << "> with " << scaleType
                       << " [W1]";
  bool isKnown = llvm::any_of(kGgufFormats, [&](const GgufFormat &format) {
    return elementType.isInteger(format.bits) && offset == format.offset;
  });
  if (!isKnown)
    return emitError() << "layout gguf holds i8 codes, i4 codes or i4 codes "
                          "with minimums, not "
                       << elementType << " with " << stringifyOffset(offset)
                       << " [W1]";
  if (shape.back() % kGgufGroup)
    return emitError() << "K is " << shape.back()
                       << ", layout gguf has whole groups of " << kGgufGroup
                       << " [W1]";
  return success();
}

/// Powers of two are the scales of blocks of E4M3 (N4, N7).
static LogicalResult
verifyExponents(function_ref<InFlightDiagnostic()> emitError, Type elementType,
                GranularityAttr granularity, Type scaleType) {
  if (!isa<Float8E8M0FNUType>(scaleType))
    return success();
  if (!granularity.isBlock())
    return emitError() << "scale type is " << scaleType
                       << ", which is of blocks; the granularity is "
                       << stringifyGranularityKind(granularity.getKind())
                       << " [N4]";
  if (!isa<Float8E4M3FNType>(elementType))
    return emitError() << "scale type is " << scaleType
                       << ", which is of f8E4M3FN codes, not " << elementType
                       << " [N7]";
  return success();
}

/// What the layouts of targets hold (B1, B4).
static LogicalResult verifyLayout(function_ref<InFlightDiagnostic()> emitError,
                                  Type elementType, GranularityAttr granularity,
                                  Type scaleType, ArrayRef<int64_t> shards,
                                  Layout layout) {
  GranularityKind kind = granularity.getKind();
  auto say = [&] {
    return emitError() << "layout " << stringifyLayout(layout) << " ";
  };
  switch (layout) {
  case Layout::Plain:
  case Layout::Gguf:
  case Layout::Packed:
  case Layout::PackedK:
  case Layout::Awq:
  case Layout::Tiled:
    return success();
  case Layout::ColumnMajorScales:
    if (!shards.empty() ||
        !(kind == GranularityKind::PerToken ||
          (granularity.isBlock() && granularity.getBlockN() == 1)))
      return say() << "is of an activation, per_token or block<1xK>; this is "
                   << stringifyGranularityKind(kind)
                   << (shards.empty() ? "" : " with shards") << " [P3]";
    if (!scaleType.isF32())
      return say() << "has f32 scales, these are " << scaleType << " [P3]";
    return success();
  case Layout::Ue8m0Packed:
    if (!isa<Float8E8M0FNUType>(scaleType))
      return say() << "has four f8E8M0FNU scales in a word, these are "
                   << scaleType << " [N4]";
    return success();
  case Layout::WeightOnly:
    if (kind == GranularityKind::PerToken)
      return say() << "is of weights, the granularity is per_token [B4]";
    if (isFloat8(elementType) && !isa<Float8E4M3FNType>(elementType))
      return say() << "has f8E4M3FN or integer codes, these are " << elementType
                   << "; loading converts them first [N8]";
    return success();
  }
  llvm_unreachable("all layouts are above");
}

LogicalResult
q::TensorType::verify(function_ref<InFlightDiagnostic()> emitError,
                      ArrayRef<int64_t> shape, Type elementType,
                      GranularityAttr granularity, Type scaleType,
                      ArrayRef<int64_t> shards, Offset offset, Layout layout,
                      GlobalScale global, bool actOrder) {
  if (shape.size() != 2 && shape.size() != 3)
    return emitError() << "rank is " << shape.size()
                       << ", expected 2 (rows, K) or 3 (experts, rows, K) "
                          "[W1]";
  if (!isStorageType(elementType))
    return emitError() << "storage type is " << elementType
                       << ", expected f8E4M3FN, f8E4M3FNUZ, f8E5M2, "
                          "f8E5M2FNUZ, f4E2M1FN, i8 or i4 [N1]";
  if (!granularity)
    return emitError() << "a quantised tensor has a granularity [W1]";
  if (!isScaleType(scaleType))
    return emitError() << "scale type is " << scaleType
                       << ", expected f32, bf16, f16, f8E8M0FNU or f8E4M3FN "
                          "[W1]";
  const WordFormat words{elementType, granularity, scaleType, offset,
                         layout,      global,      actOrder};
  if (failed(verifyWords(emitError, words)))
    return failure();
  if (granularity.isBlock() && !isFloat8(elementType))
    return emitError() << "block granularity on " << elementType
                       << ", expected an FP8 storage type [W1]";
  if (!words.inWords() &&
      (failed(
           verifyGroups(emitError, elementType, granularity, offset, layout)) ||
       failed(
           verifyExponents(emitError, elementType, granularity, scaleType)) ||
       failed(verifyLayout(emitError, elementType, granularity, scaleType,
                           shards, layout))))
    return failure();
  SmallVector<int64_t> dims(shape);
  for (auto [i, dim] : llvm::enumerate(shape)) {
    if (ShapedType::isDynamic(dim)) {
      if (i != 0)
        return emitError() << "dimension " << i
                           << " is dynamic, only the leading one may be [W1]";
      dims[i] = 1; // the rows of a step: checked by plan-buffers
    } else if (dim <= 0) {
      return emitError() << "dimension " << i << " is " << dim
                         << ", expected at least 1 [W1]";
    }
  }
  if (failed(verifyShards(emitError, shape[shape.size() - 2], granularity,
                          shards)))
    return failure();
  SmallVector<int64_t> shardRows(shards);
  if (shards.empty())
    shardRows.push_back(dims[dims.size() - 2]);
  if (words.inWords())
    return verifyWordSides(emitError, words, dims, shardRows);
  if (!countBytes(dims, elementType,
                  deriveScaleShape(dims, granularity, shardRows, layout),
                  getScaleElement(scaleType, layout), offset))
    return emitError() << "codes and scales have more bytes than an int64_t "
                          "holds";
  if (layout == Layout::Gguf)
    return verifyGguf(emitError, shape, elementType, granularity, scaleType,
                      offset);
  return success();
}

/// `[` int, … `]` of shards.
static ParseResult parseShards(AsmParser &parser,
                               SmallVectorImpl<int64_t> &shards) {
  auto parseShard = [&] { return parser.parseInteger(shards.emplace_back()); };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseShard))
    return failure();
  if (shards.empty())
    return parser.emitError(loc) << "shards is empty, a matrix that is not "
                                    "fused has none [W5b]";
  return success();
}

/// The fields behind the scale type.
struct Tail {
  SmallVector<int64_t> shards;
  Offset offset = Offset::None;
  GlobalScale global = GlobalScale::None;
  bool actOrder = false;
  Layout layout = Layout::Plain;
};

/// A word of an enumeration behind `=`, not its first one.
template <typename Enum>
static ParseResult parseWord(AsmParser &parser, StringRef what,
                             std::optional<Enum> (*symbolize)(StringRef),
                             StringRef expected, Enum &value) {
  if (parser.parseEqual())
    return failure();
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::optional<Enum> named = symbolize(word);
  if (!named || *named == Enum())
    return parser.emitError(loc)
           << "unknown " << what << " '" << word << "', expected " << expected;
  value = *named;
  return success();
}

/// Each at most once and in order.
static ParseResult parseTail(AsmParser &parser, Tail &tail) {
  int last = 0;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<Offset> offset = symbolizeOffset(word);
    int place = offset && *offset != Offset::None ? 1
                : word == "global"                ? 2
                : word == "act_order"             ? 3
                : word == "shards"                ? 4
                : word == "layout"                ? 5
                                                  : 0;
    if (place <= last)
      return parser.emitError(loc)
             << (place ? "misplaced '" : "unknown '") << word
             << "', expected minimums, zero_points or zero_points_minus_one, "
                "global = NAME, act_order, shards = [...], layout = NAME, in "
                "that order";
    last = place;
    ParseResult parsed = success();
    if (place == 1)
      tail.offset = *offset;
    else if (place == 2)
      parsed = parseWord(parser, "global scale", symbolizeGlobalScale,
                         "multiplies or divides", tail.global);
    else if (place == 3)
      tail.actOrder = true;
    else if (place == 4)
      parsed = failure(parser.parseEqual() || parseShards(parser, tail.shards));
    else
      parsed = parseWord(parser, "layout", symbolizeLayout,
                         "gguf, column_major_scales, ue8m0_packed, "
                         "weight_only, packed, packed_k, awq or tiled",
                         tail.layout);
    if (parsed)
      return failure();
  }
  return success();
}

Type q::TensorType::parse(AsmParser &parser) {
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> shape;
  Type elementType;
  if (parser.parseDimensionList(shape, /*allowDynamic=*/true) ||
      parser.parseType(elementType) || parser.parseComma())
    return {};
  FailureOr<GranularityAttr> granularity = GranularityAttr::parseBare(parser);
  if (failed(granularity))
    return {};
  Type scaleType;
  if (parser.parseComma() || parser.parseType(scaleType))
    return {};
  Tail tail;
  if (parseTail(parser, tail) || parser.parseGreater())
    return {};
  return q::TensorType::getChecked(
      [&] { return parser.emitError(loc); }, parser.getContext(), shape,
      elementType, *granularity, scaleType, tail.shards, tail.offset,
      tail.layout, tail.global, tail.actOrder);
}

void q::TensorType::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printDimensionList(getShape());
  printer << 'x' << getElementType() << ", ";
  getGranularity().printBare(printer);
  printer << ", " << getScaleType();
  if (getOffset() != Offset::None)
    printer << ", " << stringifyOffset(getOffset());
  if (getGlobal() != GlobalScale::None)
    printer << ", global = " << stringifyGlobalScale(getGlobal());
  if (getActOrder())
    printer << ", act_order";
  if (!getShards().empty()) {
    printer << ", shards = [";
    llvm::interleaveComma(getShards(), printer);
    printer << ']';
  }
  if (getLayout() != Layout::Plain)
    printer << ", layout = " << stringifyLayout(getLayout());
  printer << '>';
}

//===----------------------------------------------------------------------===//
// KvType
//===----------------------------------------------------------------------===//

Type octet::q::withExperts(Type type, int64_t experts) {
  if (auto quantized = dyn_cast<TensorType>(type)) {
    SmallVector<int64_t> shape{experts};
    llvm::append_range(shape, quantized.getShape());
    return TensorType::get(type.getContext(), shape, quantized.getElementType(),
                           quantized.getGranularity(), quantized.getScaleType(),
                           quantized.getShards(), quantized.getOffset(),
                           quantized.getLayout(), quantized.getGlobal(),
                           quantized.getActOrder());
  }
  auto plain = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape{experts};
  llvm::append_range(shape, plain.getShape());
  return RankedTensorType::get(shape, plain.getElementType());
}

Type KvType::getElementType() const {
  MLIRContext *context = getContext();
  switch (getLayout()) {
  case KvLayout::F32:
    return Float32Type::get(context);
  case KvLayout::BF16:
    return BFloat16Type::get(context);
  case KvLayout::F16:
    return Float16Type::get(context);
  case KvLayout::FP8E4M3:
  case KvLayout::FP8DsMla:
  case KvLayout::FP8Indexer:
    return Float8E4M3FNType::get(context);
  }
  llvm_unreachable("all layouts are above");
}

int64_t KvType::getBytesPerToken() const {
  constexpr int64_t kGroup = 128, kScaleBytes = 4, kRopeBytes = 2;
  if (getLayout() == KvLayout::FP8DsMla || getLayout() == KvLayout::FP8Indexer)
    return getDim() + kScaleBytes * cdiv(getDim(), kGroup) +
           kRopeBytes * getRope();
  if (isLatent())
    return (getDim() + getRope()) * q::getElementBytes(getElementType());
  return 2 * getHeads() * getDim() * q::getElementBytes(getElementType());
}

LogicalResult KvType::verify(function_ref<InFlightDiagnostic()> emitError,
                             KvLayout layout, int64_t page, int64_t heads,
                             int64_t dim, int64_t rope) {
  auto positive = [&](StringRef name, int64_t value) -> LogicalResult {
    if (value <= 0)
      return emitError() << name << " is " << value
                         << ", expected at least 1 [P7]";
    return success();
  };
  if (failed(positive("page", page)) || failed(positive("heads", heads)) ||
      failed(positive("dim", dim)))
    return failure();
  if (rope < -1)
    return emitError() << "rope is " << rope << ", expected at least 0 [P7]";
  if (rope >= 0 && heads != 1)
    return emitError() << "heads is " << heads
                       << ", a vector a token has 1 [P7]";
  bool needsRope = layout == KvLayout::FP8DsMla;
  bool isIndexer = layout == KvLayout::FP8Indexer;
  if ((needsRope && rope < 1) || (isIndexer && rope != 0))
    return emitError() << "rope is " << rope << ", "
                       << stringifyKvLayout(layout) << " has "
                       << (needsRope ? "a rotated part [P7]" : "0 [P9]");
  if (rope >= 0 && !checkedAdd(dim, rope))
    return emitError() << "a token has more values than an int64_t counts [P7]";
  if (rope >= 0)
    dim += rope;
  // Keys and values of at most 4 bytes an element.
  int64_t sides[] = {page, heads, dim, 2 * 4};
  if (!checkedProduct(sides))
    return emitError() << "a page has more bytes than an int64_t holds [P7]";
  return success();
}
