//===- QuantTypes.cpp - Types of q ----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

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
  return isFloat8(type) || type.isSignlessInteger(8) ||
         type.isSignlessInteger(4);
}

bool octet::q::isScaleType(Type type) {
  return isa<Float32Type, BFloat16Type, Float16Type, Float8E8M0FNUType>(type);
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

/// The one place that knows how many scales a type has (W1, W5b). Sides were
/// checked: the sum of the blocks of all shards is at most the sum of rows.
static SmallVector<int64_t> deriveScaleShape(ArrayRef<int64_t> shape,
                                             GranularityAttr granularity,
                                             ArrayRef<int64_t> shardRows) {
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
  return deriveScaleShape(getShape(), getGranularity(), getShardRows());
}

RankedTensorType q::TensorType::getScaleTensorType() const {
  return RankedTensorType::get(getScaleShape(), getScaleType());
}

RankedTensorType q::TensorType::getDataTensorType() const {
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
  // The verifier refused a type for which this overflows.
  return *countBytes(getShape(), getElementType(), getScaleShape(),
                     getScaleType(), getOffset());
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
             getScaleType(), getShards(), getOffset(), getLayout());
}
q::TensorType q::TensorType::withScaleType(Type scaleType) const {
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             scaleType, getShards(), getOffset(), getLayout());
}
q::TensorType
q::TensorType::withGranularity(GranularityAttr granularity) const {
  return get(getContext(), getShape(), getElementType(), granularity,
             getScaleType(), getShards(), getOffset(), getLayout());
}
q::TensorType q::TensorType::withShards(ArrayRef<int64_t> shards) const {
  // A matrix of one shard is an unfused one, and has one spelling.
  if (shards.size() == 1)
    shards = {};
  return get(getContext(), getShape(), getElementType(), getGranularity(),
             getScaleType(), shards, getOffset(), getLayout());
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
                          "them share a byte; expected layout = gguf [W1]";
  if (isGroup && layout == Layout::Plain)
    return emitError() << "group granularity without a layout, expected "
                          "layout = gguf [W1]";
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

LogicalResult
q::TensorType::verify(function_ref<InFlightDiagnostic()> emitError,
                      ArrayRef<int64_t> shape, Type elementType,
                      GranularityAttr granularity, Type scaleType,
                      ArrayRef<int64_t> shards, Offset offset, Layout layout) {
  if (shape.size() != 2 && shape.size() != 3)
    return emitError() << "rank is " << shape.size()
                       << ", expected 2 (rows, K) or 3 (experts, rows, K) "
                          "[W1]";
  if (!isStorageType(elementType))
    return emitError() << "storage type is " << elementType
                       << ", expected f8E4M3FN, f8E4M3FNUZ, f8E5M2, "
                          "f8E5M2FNUZ, i8 or i4 [N1]";
  if (!granularity)
    return emitError() << "a quantised tensor has a granularity [W1]";
  if (!isScaleType(scaleType))
    return emitError() << "scale type is " << scaleType
                       << ", expected f32, bf16, f16 or f8E8M0FNU [W1]";
  if (granularity.isBlock() && !isFloat8(elementType))
    return emitError() << "block granularity on " << elementType
                       << ", expected an FP8 storage type [W1]";
  if (failed(verifyGroups(emitError, elementType, granularity, offset, layout)))
    return failure();
  SmallVector<int64_t> dims(shape);
  for (auto [i, dim] : llvm::enumerate(shape)) {
    if (ShapedType::isDynamic(dim)) {
      if (i != 0)
        return emitError() << "dimension " << i
                           << " is dynamic, only the leading one may be";
      dims[i] = 1; // the rows of a step: checked by plan-buffers
    } else if (dim <= 0) {
      return emitError() << "dimension " << i << " is " << dim
                         << ", expected at least 1";
    }
  }
  if (failed(verifyShards(emitError, shape[shape.size() - 2], granularity,
                          shards)))
    return failure();
  SmallVector<int64_t> shardRows(shards);
  if (shards.empty())
    shardRows.push_back(dims[dims.size() - 2]);
  if (!countBytes(dims, elementType,
                  deriveScaleShape(dims, granularity, shardRows), scaleType,
                  offset))
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

/// The fields behind the scale type, each at most once and in order.
static ParseResult parseTail(AsmParser &parser,
                             SmallVectorImpl<int64_t> &shards, Offset &offset,
                             Layout &layout) {
  int last = 0;
  while (succeeded(parser.parseOptionalComma())) {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    int place = word == stringifyOffset(Offset::Minimums) ? 1
                : word == "shards"                        ? 2
                : word == "layout"                        ? 3
                                                          : 0;
    if (place <= last)
      return parser.emitError(loc)
             << (place ? "misplaced '" : "unknown '") << word
             << "', expected minimums, shards = [...], layout = gguf, in that "
                "order";
    last = place;
    if (place == 1) {
      offset = Offset::Minimums;
      continue;
    }
    if (parser.parseEqual() || (place == 2 && parseShards(parser, shards)))
      return failure();
    if (place != 3)
      continue;
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    if (word != stringifyLayout(Layout::Gguf))
      return parser.emitError(loc)
             << "unknown layout '" << word << "', expected gguf";
    layout = Layout::Gguf;
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
  SmallVector<int64_t> shards;
  Offset offset = Offset::None;
  Layout layout = Layout::Plain;
  if (parseTail(parser, shards, offset, layout) || parser.parseGreater())
    return {};
  return q::TensorType::getChecked(
      [&] { return parser.emitError(loc); }, parser.getContext(), shape,
      elementType, *granularity, scaleType, shards, offset, layout);
}

void q::TensorType::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printDimensionList(getShape());
  printer << 'x' << getElementType() << ", ";
  getGranularity().printBare(printer);
  printer << ", " << getScaleType();
  if (getOffset() != Offset::None)
    printer << ", " << stringifyOffset(getOffset());
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
                           quantized.getLayout());
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
