//===- KernelRowwise.cpp - kernel.rowwise ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/OpImplementation.h"
#include "octet/Support/Checked.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;
using namespace octet;
using namespace octet::kernel;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// `NAME(%a, %b : type, type)`, or nothing.
static ParseResult
parseGroup(OpAsmParser &parser, StringRef name,
           SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
           SmallVectorImpl<Type> &types) {
  if (failed(parser.parseOptionalKeyword(name)))
    return success();
  return failure(parser.parseLParen() || parser.parseOperandList(operands) ||
                 parser.parseColonTypeList(types) || parser.parseRParen());
}

static void printGroup(OpAsmPrinter &printer, StringRef name,
                       OperandRange operands) {
  if (operands.empty())
    return;
  printer << ' ' << name << '(' << operands << " : " << operands.getTypes()
          << ')';
}

/// `[row, uniform]`
static ParseResult parseAccess(OpAsmParser &parser, ArrayAttr &result) {
  SmallVector<Attribute> access;
  auto parseOne = [&]() -> ParseResult {
    SMLoc loc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<Access> kind = symbolizeAccess(word);
    if (!kind)
      return parser.emitError(loc) << "unknown access '" << word
                                   << "', expected row, uniform or indexed";
    access.push_back(AccessAttr::get(parser.getContext(), *kind));
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  result = parser.getBuilder().getArrayAttr(access);
  return success();
}

ParseResult RowwiseOp::parse(OpAsmParser &parser, OperationState &state) {
  Builder &builder = parser.getBuilder();
  Properties &props = state.getOrAddProperties<Properties>();
  SMLoc loc = parser.getCurrentLocation();
  OpAsmParser::UnresolvedOperand batch;
  FailureOr<Domain> domain = failure();
  if (parser.parseAttribute(props.label, builder.getType<NoneType>()) ||
      failed(domain = FieldParser<Domain>::parse(parser)) ||
      parser.parseKeyword("of") || parser.parseOperand(batch))
    return failure();
  props.domain = DomainAttr::get(parser.getContext(), *domain);

  SmallVector<OpAsmParser::UnresolvedOperand> inputs, indices, outs, cache;
  SmallVector<Type> inputTypes, indexTypes, outTypes, cacheTypes;
  props.access = builder.getArrayAttr({});
  if (parseGroup(parser, "ins", inputs, inputTypes))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("access")) &&
      parseAccess(parser, props.access))
    return failure();
  if (parseGroup(parser, "indices", indices, indexTypes) ||
      parseGroup(parser, "outs", outs, outTypes))
    return failure();
  SMLoc cacheLoc = parser.getCurrentLocation();
  if (parseGroup(parser, "cache", cache, cacheTypes))
    return failure();
  if (!cache.empty() && (cache.size() != 2 || cacheTypes.size() != 2))
    return parser.emitError(cacheLoc)
           << "expected cache(%cache, %slots : !q.kv<…>, tensor<?xi32>)";
  if (succeeded(parser.parseOptionalKeyword("modules")) &&
      parser.parseAttribute(props.modules, builder.getType<NoneType>()))
    return failure();

  Region *body = state.addRegion();
  if (parser.parseRegion(*body) ||
      parser.parseOptionalAttrDict(state.attributes) ||
      parser.parseOptionalArrowTypeList(state.types))
    return failure();
  ensureTerminator(*body, builder, state.location);

  auto batchType = builder.getType<model::BatchType>();
  if (parser.resolveOperand(batch, batchType, state.operands) ||
      parser.resolveOperands(inputs, inputTypes, loc, state.operands) ||
      parser.resolveOperands(indices, indexTypes, loc, state.operands) ||
      parser.resolveOperands(outs, outTypes, loc, state.operands) ||
      parser.resolveOperands(cache, cacheTypes, loc, state.operands))
    return failure();
  int32_t sizes[] = {1,
                     int32_t(inputs.size()),
                     int32_t(indices.size()),
                     int32_t(outs.size()),
                     cache.empty() ? 0 : 1,
                     cache.empty() ? 0 : 1};
  llvm::copy(sizes, props.operandSegmentSizes.begin());
  return success();
}

void RowwiseOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getLabelAttr() << ' ' << stringifyDomain(getDomain())
          << " of " << getBatch();
  printGroup(printer, "ins", getInputs());
  if (!getAccess().empty()) {
    printer << " access [";
    llvm::interleaveComma(getAccess().getAsRange<AccessAttr>(), printer,
                          [&](AccessAttr access) {
                            printer << stringifyAccess(access.getValue());
                          });
    printer << ']';
  }
  printGroup(printer, "indices", getIndices());
  printGroup(printer, "outs", getOuts());
  if (getCache() && getSlots())
    printer << " cache(" << getCache() << ", " << getSlots() << " : "
            << getCache().getType() << ", " << getSlots().getType() << ')';
  if (!getModules().empty())
    printer << " modules " << getModulesAttr();
  printer << ' ';
  printer.printRegion(getBody());
  printer.printOptionalAttrDict((*this)->getAttrs(),
                                {"label", "domain", "access", "modules",
                                 getOperandSegmentSizesAttrName().getValue()});
  printer.printOptionalArrowTypeList(getResultTypes());
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The type of the block argument for an operand read that way, or nothing if
/// it cannot be read so.
static std::optional<RankedTensorType> getArgumentType(Type operand,
                                                       Access access) {
  auto row = [&](int64_t width) {
    return RankedTensorType::get({width},
                                 Float32Type::get(operand.getContext()));
  };
  // Loads widen what a GGUF file packs, too.
  auto packed = dyn_cast<q::TensorType>(getValueType(operand));
  if (packed && packed.isGguf() && packed.getRank() == 2 &&
      access == Access::Indexed)
    return row(packed.getK());
  auto type = dyn_cast<RankedTensorType>(getValueType(operand));
  if (!type || !q::isPlainFloat(type.getElementType()))
    return std::nullopt;
  if (access == Access::Uniform) {
    if (!type.hasStaticShape() || type.getRank() > 1)
      return std::nullopt;
    return row(type.getRank() == 0 ? 1 : type.getDimSize(0));
  }
  if (type.getRank() != 2 || ShapedType::isDynamic(type.getDimSize(1)))
    return std::nullopt;
  return row(type.getDimSize(1));
}

static bool isRowIndices(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(getValueType(type));
  return tensor && tensor.getRank() == 1 &&
         tensor.getElementType().isInteger(32);
}

LogicalResult RowwiseOp::verify() {
  if (getAccess().size() != getInputs().size())
    return emitOpError() << "has " << getInputs().size() << " inputs and "
                         << getAccess().size() << " ways to read them";
  size_t indexed = 0;
  for (auto [i, value, attr] :
       llvm::enumerate(getInputs(), getAccess().getAsRange<AccessAttr>())) {
    indexed += attr.getValue() == Access::Indexed;
    if (!getArgumentType(value.getType(), attr.getValue()))
      return emitOpError() << "input " << i << " is " << value.getType()
                           << ", read as " << stringifyAccess(attr.getValue())
                           << "; expected "
                           << (attr.getValue() == Access::Uniform
                                   ? "a static vector"
                                   : "rows [rows, K]")
                           << " in f32, bf16 or f16";
  }
  if (indexed != getIndices().size())
    return emitOpError() << "has " << indexed << " indexed inputs and "
                         << getIndices().size() << " indices";
  for (auto [i, value] : llvm::enumerate(getIndices()))
    if (!isRowIndices(value.getType()))
      return emitOpError() << "index " << i << " is " << value.getType()
                           << ", expected one i32 a row";
  if (!getOuts().empty() && getNumResults() != 0)
    return emitOpError() << "has results and destinations, expected one or "
                            "the other";
  if (bool(getCache()) != bool(getSlots()))
    return emitOpError() << "a cache and the slots of its rows come together "
                            "[P7a]";
  if (getSlots() && !isRowIndices(getSlots().getType()))
    return emitOpError() << "slots is " << getSlots().getType()
                         << ", expected one i32 a row [P7a]";
  if (getOuts().empty() && getNumResults() == 0 && !getCache())
    return emitOpError() << "writes nothing";
  return success();
}

//===----------------------------------------------------------------------===//
// The region
//===----------------------------------------------------------------------===//

bool octet::kernel::isRoundedTo(Value value, Type elementType) {
  // A verifier asks before dominance is known: a value may use itself.
  SmallPtrSet<Operation *, 8> seen;
  while (true) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      auto rowwise =
          dyn_cast_if_present<RowwiseOp>(argument.getOwner()->getParentOp());
      if (!rowwise || argument.getArgNumber() >= rowwise.getInputs().size())
        return false;
      auto type = dyn_cast<RankedTensorType>(
          getValueType(rowwise.getInputs()[argument.getArgNumber()].getType()));
      return type && type.getElementType() == elementType;
    }
    Operation *op = value.getDefiningOp();
    if (!seen.insert(op).second)
      return false;
    if (auto round = dyn_cast<RoundOp>(op))
      return round.getType() == elementType;
    if (!isa<SliceOp, TileOp, BroadcastOp>(op))
      return false;
    value = op->getOperand(0); // moves values, changes none
  }
}

/// Only element-wise f32 arithmetic, row operators and q.quantize, and nothing
/// that rounds but the last and kernel.round (N9).
static LogicalResult verifyBodyOp(RowwiseOp rowwise, Operation &op) {
  bool known = isa<ReduceOp, BroadcastOp, TileOp, SliceOp, RoundOp, RopeOp,
                   YieldOp, q::QuantizeOp>(op);
  Dialect *dialect = op.getDialect();
  if (!known &&
      !(dialect && isa<arith::ArithDialect, math::MathDialect>(dialect)))
    return rowwise.emitOpError()
           << "holds '" << op.getName()
           << "', expected arith, math, row operators of kernel or "
              "q.quantize [N9]";
  for (Type type : op.getResultTypes())
    if (auto shaped = dyn_cast<RankedTensorType>(type);
        shaped && isa<FloatType>(shaped.getElementType()) &&
        !shaped.getElementType().isF32())
      return rowwise.emitOpError()
             << "holds '" << op.getName() << "' with a result " << type
             << "; values of a row are f32, kernel.round rounds them [N9]";
  return success();
}

/// A yielded value and where it goes: `what`, rows of type `destination`.
static LogicalResult verifyYielded(RowwiseOp op, const Twine &what, Value value,
                                   Type destination) {
  MLIRContext *context = op.getContext();
  if (auto quantized = dyn_cast<q::TensorType>(destination)) {
    // An activation: weights have shards, offsets and orders of their own.
    bool isRows = quantized.getRank() == 2 && quantized.getShards().empty() &&
                  quantized.getOffset() == q::Offset::None &&
                  !quantized.getActOrder() &&
                  ShapedType::isDynamic(quantized.getShape()[0]);
    Type expected =
        isRows ? quantized.withShape({1, quantized.getK()}) : Type();
    if (value.getType() != expected)
      return op.emitOpError() << "yields " << value.getType() << " to " << what
                              << " " << destination << " [P3]";
    return success();
  }
  auto plain = dyn_cast<RankedTensorType>(destination);
  if (!plain || plain.getRank() != 2 ||
      ShapedType::isDynamic(plain.getDimSize(1)) ||
      !q::isPlainFloat(plain.getElementType()))
    return op.emitOpError() << what << " is " << destination
                            << ", expected rows in f32, bf16 or f16, or "
                               "quantised rows";
  if (value.getType() !=
      RankedTensorType::get({plain.getDimSize(1)}, Float32Type::get(context)))
    return op.emitOpError() << "yields " << value.getType() << " to " << what
                            << " " << destination;
  if (!plain.getElementType().isF32() &&
      !isRoundedTo(value, plain.getElementType()))
    return op.emitOpError()
           << "yields a row that was not rounded to " << what << " "
           << destination << ", expected kernel.round to "
           << plain.getElementType() << " [N9]";
  return success();
}

LogicalResult RowwiseOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getNumArguments() != getInputs().size())
    return emitOpError() << "has " << getInputs().size() << " inputs, its "
                         << "region has " << block.getNumArguments()
                         << " arguments";
  for (auto [i, value, attr] :
       llvm::enumerate(getInputs(), getAccess().getAsRange<AccessAttr>())) {
    RankedTensorType expected =
        *getArgumentType(value.getType(), attr.getValue());
    if (block.getArgument(i).getType() != expected)
      return emitOpError() << "argument " << i << " is "
                           << block.getArgument(i).getType() << ", its operand "
                           << value.getType() << " implies " << expected;
  }
  for (Operation &op : block)
    if (failed(verifyBodyOp(*this, op)))
      return failure();

  OperandRange yielded = cast<YieldOp>(block.getTerminator()).getValues();
  SmallVector<Type> destinations;
  for (Type type : getOuts().empty() ? TypeRange(getResultTypes())
                                     : TypeRange(getOuts().getTypes()))
    destinations.push_back(getValueType(type));
  size_t expected = destinations.size() + (getCache() ? 2 : 0);
  if (yielded.size() != expected)
    return emitOpError() << "yields " << yielded.size() << " values, has "
                         << expected << " destinations";
  for (auto [i, type] : llvm::enumerate(destinations))
    if (failed(
            verifyYielded(*this, "destination " + Twine(i), yielded[i], type)))
      return failure();
  if (!getCache())
    return success();

  // Rows of the cache in its own element type; FP8 with one scale (P7a).
  q::KvType cache = getCache().getType();
  int64_t shape[] = {ShapedType::kDynamic, cache.getHeads() * cache.getDim()};
  Type row = RankedTensorType::get(shape, cache.getElementType());
  if (cache.getLayout() == q::KvLayout::FP8E4M3)
    row = q::TensorType::get(
        shape, cache.getElementType(),
        q::GranularityAttr::get(getContext(), q::GranularityKind::PerTensor),
        Float32Type::get(getContext()));
  if (failed(
          verifyYielded(*this, "the cache's keys", yielded[expected - 2], row)))
    return failure();
  return verifyYielded(*this, "the cache's values", yielded[expected - 1], row);
}
