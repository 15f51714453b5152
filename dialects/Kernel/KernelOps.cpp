//===- KernelOps.cpp - Verifiers and folds of kernel ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `kernel.rowwise` is in KernelRowwise.cpp.
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/OpImplementation.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;
using namespace octet::kernel;

#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.cpp.inc"

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// The widths of a row operator's values are known.
static LogicalResult verifyStaticRows(Operation *op) {
  SmallVector<Type> types(op->getOperandTypes());
  llvm::append_range(types, op->getResultTypes());
  for (Type type : types) {
    auto row = cast<RankedTensorType>(type);
    if (!row.hasStaticShape() || row.getDimSize(0) < 1)
      return op->emitOpError() << "has a row of type " << row
                               << ", expected a static width of at least 1";
  }
  return success();
}

static int64_t getWidth(Value row) {
  return cast<RankedTensorType>(row.getType()).getDimSize(0);
}

/// `few` is one value a group of `many`.
static LogicalResult verifyGroups(Operation *op, StringRef what, int64_t few,
                                  int64_t many, IntegerAttr group) {
  if (group && group.getInt() < 1)
    return op->emitOpError()
           << "group is " << group.getInt() << ", expected at least 1";
  int64_t expected = group ? cdiv(many, group.getInt()) : 1;
  if (few == expected)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << what << " has " << few << " values, ";
  if (group)
    diag << many << " elements in groups of " << group.getInt() << " have "
         << expected << " [W4]";
  else
    diag << "a row without groups has 1";
  return diag;
}

LogicalResult ReduceOp::verify() {
  if (failed(verifyStaticRows(*this)))
    return failure();
  return verifyGroups(*this, "result", getWidth(getResult()),
                      getWidth(getInput()), getGroupAttr());
}

LogicalResult BroadcastOp::verify() {
  if (failed(verifyStaticRows(*this)))
    return failure();
  return verifyGroups(*this, "input", getWidth(getInput()),
                      getWidth(getResult()), getGroupAttr());
}

LogicalResult TileOp::verify() {
  if (failed(verifyStaticRows(*this)))
    return failure();
  if (getWidth(getResult()) % getWidth(getInput()) != 0)
    return emitOpError() << "result of " << getWidth(getResult())
                         << " elements is not a multiple of the input's "
                         << getWidth(getInput());
  return success();
}

LogicalResult SliceOp::verify() {
  if (failed(verifyStaticRows(*this)))
    return failure();
  int64_t offset = getOffset();
  std::optional<int64_t> end = checkedAdd(offset, getWidth(getResult()));
  if (offset < 0 || !end || *end > getWidth(getInput()))
    return emitOpError() << "takes " << getWidth(getResult()) << " elements at "
                         << offset << " of a row of " << getWidth(getInput());
  return success();
}

LogicalResult RoundOp::verify() {
  if (failed(verifyStaticRows(*this)))
    return failure();
  if (!isa<BFloat16Type, Float16Type>(getType()))
    return emitOpError() << "rounds to " << getType()
                         << ", expected bf16 or f16 [N9]";
  return success();
}

OpFoldResult RoundOp::fold(FoldAdaptor) {
  // What is exact in the type stays as it is.
  if (isRoundedTo(getInput(), getType()))
    return getInput();
  return {};
}

/// A table of cosines and sines fits into each head of a row.
static LogicalResult verifyRotation(Operation *op, int64_t width, int64_t table,
                                    int64_t headDim, int64_t offset) {
  if (headDim < 1 || width % headDim != 0)
    return op->emitOpError()
           << "row of " << width << " values does not divide into heads of "
           << headDim;
  if (offset < 0 || offset >= headDim)
    return op->emitOpError()
           << "offset is " << offset << ", expected one of the head's "
           << headDim << " values [P6]";
  if (table % 2 != 0 || table > headDim - offset)
    return op->emitOpError() << "table rotates " << table
                             << " values of a head, expected an even number of "
                                "at most "
                             << headDim - offset << " [P6]";
  return success();
}

LogicalResult RopeOp::verify() {
  if (failed(verifyStaticRows(*this)))
    return failure();
  if (getInput().getType() != getResult().getType())
    return emitOpError() << "result is " << getResult().getType()
                         << ", expected " << getInput().getType();
  return verifyRotation(*this, getWidth(getInput()), getWidth(getTable()),
                        getHeadDim(), getOffset());
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

/// The one destination of a kernel: a result or a buffer, rows of plain floats.
static FailureOr<RankedTensorType> getDestination(Operation *op, Value result,
                                                  Value out) {
  if (bool(result) == bool(out))
    return op->emitOpError() << (out ? "has a result and a destination"
                                     : "has neither a result nor a destination")
                             << ", expected one or the other";
  Type type = getValueType((out ? out : result).getType());
  auto plain = dyn_cast<RankedTensorType>(type);
  if (!plain || plain.getRank() != 2 ||
      !q::isPlainFloat(plain.getElementType()) ||
      ShapedType::isDynamic(plain.getDimSize(1)))
    return op->emitOpError() << "destination is " << type
                             << ", expected rows in f32, bf16 or f16";
  return plain;
}

/// Shape of a plain or quantised matrix, or nothing for another type.
static std::optional<ArrayRef<int64_t>> getMatrixShape(Type type) {
  ArrayRef<int64_t> shape;
  if (auto quantized = dyn_cast<q::TensorType>(type)) {
    shape = quantized.getShape();
  } else {
    auto plain = dyn_cast<RankedTensorType>(type);
    if (!plain || !q::isPlainFloat(plain.getElementType()))
      return std::nullopt;
    shape = plain.getShape();
  }
  if (shape.size() != 2 || ShapedType::isDynamic(shape[1]))
    return std::nullopt;
  return shape;
}

/// The activation's groups are the ones that the weight's scales go with.
static LogicalResult verifyOperandPair(GemmOp op, Type x, Type w) {
  auto qx = dyn_cast<q::TensorType>(x), qw = dyn_cast<q::TensorType>(w);
  if (!qx)
    return success();
  if (!qw)
    return op.emitOpError() << "input is " << x << ", the weight " << w
                            << " is not quantised [P4]";
  q::GranularityAttr gx = qx.getGranularity(), gw = qw.getGranularity();
  bool good = gx.isBlock() ? gw.isBlock() && gx.getBlockN() == 1 &&
                                 gx.getBlockK() == gw.getBlockK()
                           : !gw.isBlock() &&
                                 gx.getKind() != q::GranularityKind::PerChannel;
  if (!good)
    return op.emitOpError() << "input is " << qx << ", the weight is " << qw
                            << "; their scales do not go together [N6]";
  return success();
}

/// A kernel knows one layout of a cache, and bytes do not say which they have
/// (P7, P9).
static LogicalResult verifyReads(Operation *op, StringRef kernel,
                                 std::optional<StringRef> reads,
                                 q::KvType cache) {
  if (!reads)
    return success();
  std::optional<q::KvLayout> layout = q::symbolizeKvLayout(*reads);
  StringRef rule = layout == q::KvLayout::FP8Indexer ? "P9" : "P7";
  if (!layout)
    return op->emitOpError()
           << "reads '" << *reads << "', which is no layout of a cache [P7]";
  if (!cache)
    return op->emitOpError() << "reads a cache in " << *reads
                             << ", and has none [" << rule << "]";
  if (cache.getLayout() != *layout)
    return op->emitOpError()
           << kernel << " reads a cache in " << *reads << ", this one is "
           << cache << " [" << rule << "]";
  return success();
}

LogicalResult LaunchOp::verify() {
  if (getKernel().empty())
    return emitOpError() << "the kernel's name is empty";
  q::KvType cache;
  for (Value input : getInputs())
    if (auto type = dyn_cast<q::KvType>(input.getType()))
      cache = type;
  if (failed(verifyReads(*this, getKernel(), getReads(), cache)))
    return failure();
  // What reads rows by expert has them so (B7).
  if (getSource() == "model.experts" && !getInputs().empty()) {
    auto rows =
        dyn_cast<model::DispatchedType>(getValueType(getInputs()[0].getType()));
    if (rows && rows.getOrder() != model::Order::Expert)
      return emitOpError() << "input is " << rows << ", rows by "
                           << model::stringifyOrder(rows.getOrder())
                           << "; the grouped product reads rows by expert [B7]";
  }
  if (getResults().empty() == getOuts().empty())
    return emitOpError() << (getOuts().empty()
                                 ? "has neither results nor destinations"
                                 : "has results and destinations")
                         << ", expected one or the other";
  return success();
}

LogicalResult GemmOp::verify() {
  if (getKernel().empty())
    return emitOpError() << "the kernel's name is empty";
  FailureOr<RankedTensorType> y = getDestination(*this, getResult(), getOut());
  if (failed(y))
    return failure();
  Type x = getValueType(getInput().getType());
  Type w = getValueType(getWeight().getType());
  std::optional<ArrayRef<int64_t>> xShape = getMatrixShape(x);
  std::optional<ArrayRef<int64_t>> wShape = getMatrixShape(w);
  if (!xShape)
    return emitOpError() << "input is " << x << ", expected rows [rows, K]";
  if (!wShape || ShapedType::isDynamic((*wShape)[0]))
    return emitOpError() << "weight is " << w
                         << ", expected a static matrix [N, K]";
  if ((*xShape)[1] != (*wShape)[1])
    return emitOpError() << "input has K = " << (*xShape)[1]
                         << ", the weight has " << (*wShape)[1] << " [P4]";
  if (y->getDimSize(1) != (*wShape)[0])
    return emitOpError() << "destination has N = " << y->getDimSize(1)
                         << ", the weight has " << (*wShape)[0] << " [P4]";
  if (failed(verifyOperandPair(*this, x, w)))
    return failure();
  if (Value bias = getBias()) {
    auto type = dyn_cast<RankedTensorType>(getValueType(bias.getType()));
    if (!type || type.getRank() != 1 || type.getDimSize(0) != (*wShape)[0] ||
        !q::isPlainFloat(type.getElementType()))
      return emitOpError() << "bias is " << getValueType(bias.getType())
                           << ", expected " << (*wShape)[0]
                           << " values in f32, bf16 or f16 [N6]";
  }
  // The table covers every M: ranges ascend and the last has no end (B5).
  ArrayRef<int64_t> maxM = getMaxM();
  if (maxM.empty() || maxM.size() != getVariants().size())
    return emitOpError() << "has " << maxM.size() << " ranges of M and "
                         << getVariants().size()
                         << " variants, expected as many and at least one [B5]";
  if (maxM.back() != -1)
    return emitOpError() << "last range of M ends at " << maxM.back()
                         << ", expected -1 (no end) [B5]";
  int64_t last = 0;
  for (int64_t end : maxM.drop_back()) {
    if (end <= last)
      return emitOpError() << "range of M ends at " << end << " after " << last
                           << ", expected ascending ends [B5]";
    last = end;
  }
  return success();
}

LogicalResult kernel::AttentionOp::verify() {
  if (getKernel().empty())
    return emitOpError() << "the kernel's name is empty";
  FailureOr<RankedTensorType> y = getDestination(*this, getResult(), getOut());
  if (failed(y))
    return failure();
  int64_t qHeads = getQHeads(), kvHeads = getKvHeads(), dim = getHeadDim();
  if (qHeads < 1 || kvHeads < 1 || dim < 1 || qHeads % kvHeads != 0)
    return emitOpError() << "has " << qHeads << " query heads over " << kvHeads
                         << " key heads of " << dim
                         << ", expected a whole number of queries a key [W3b]";
  std::optional<int64_t> width = checkedMul(qHeads, dim);
  Type query = getValueType(getQ().getType());
  std::optional<ArrayRef<int64_t>> shape = getMatrixShape(query);
  if (!isa<RankedTensorType>(query) || !shape || !width ||
      (*shape)[1] != *width)
    return emitOpError() << "q is " << query << ", expected " << qHeads
                         << " heads of " << dim << " [P11]";
  if (y->getDimSize(1) != *width)
    return emitOpError() << "destination is " << *y << ", expected " << qHeads
                         << " heads of " << dim << " [P11]";
  q::KvType cache = getCache().getType();
  if (failed(verifyReads(*this, getKernel(), getReads(), cache)))
    return failure();
  if (cache.getHeads() != kvHeads || cache.getDim() != dim)
    return emitOpError() << "reads " << kvHeads << " heads of " << dim
                         << ", the cache is " << cache << " [P7]";
  if (bool(getKScale()) != bool(getVScale()))
    return emitOpError() << "has one scale, expected those of k and v [P8]";
  if (bool(getKScale()) != (cache.getLayout() == q::KvLayout::FP8E4M3))
    return emitOpError() << "the cache is " << cache
                         << (getKScale() ? ", which has no scales [P7a]"
                                         : ", expected scales of k and v "
                                           "[P7a]");
  for (Value value : {getKScale(), getVScale()})
    if (value && !q::isScalarTensor(value.getType()))
      return emitOpError() << "cache scale is " << value.getType()
                           << ", expected one float [P8]";
  if (int64_t(getWindow()) < 0)
    return emitOpError() << "window is " << int64_t(getWindow())
                         << ", expected 0 (all keys) or more";
  return success();
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

LogicalResult PlaceOp::verify() {
  if (int64_t(getOffset()) < 0)
    return emitOpError() << "offset is " << int64_t(getOffset())
                         << ", expected 0 or more";
  Type held = getResult().getType().getType();
  if (auto dispatched = dyn_cast<model::DispatchedType>(held))
    held = dispatched.getRows(); // codes travel with their scales (P13)
  bool quantized = isa<q::TensorType>(held);
  if (quantized != getScaleOffset().has_value())
    return emitOpError() << "holds " << getResult().getType().getType()
                         << (quantized ? ", expected a place of its scales"
                                       : ", which has no scales");
  if (quantized && int64_t(*getScaleOffset()) < 0)
    return emitOpError() << "offset of the scales is "
                         << int64_t(*getScaleOffset())
                         << ", expected 0 or more";
  return success();
}

LogicalResult kernel::OutputOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getResult().getType().getType());
  if (!type || type.getRank() != 2 || !type.getElementType().isF32())
    return emitOpError() << "is " << getResult().getType().getType()
                         << ", the batch's output is rows in f32 [P16]";
  return success();
}

//===----------------------------------------------------------------------===//
// Binaries
//===----------------------------------------------------------------------===//

LogicalResult BinaryOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getCubin().getShapedType());
  if (!isa<DenseResourceElementsAttr>(getCubin()) || !type ||
      type.getRank() != 1 || !type.getElementType().isInteger(8))
    return emitOpError() << "cubin is " << getCubin().getShapedType()
                         << ", expected a resource of i8 [bytes]";
  if (std::optional<ArrayRef<char>> bytes = getCubinBytes();
      bytes && int64_t(bytes->size()) != type.getDimSize(0))
    return emitOpError() << "cubin has " << bytes->size()
                         << " bytes, its type says " << type.getDimSize(0);
  return success();
}

std::optional<ArrayRef<char>> BinaryOp::getCubinBytes() {
  auto resource = dyn_cast<DenseResourceElementsAttr>(getCubin());
  AsmResourceBlob *blob =
      resource ? resource.getRawHandle().getBlob() : nullptr;
  if (!blob)
    return std::nullopt;
  return blob->getData();
}
