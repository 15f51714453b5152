//===- ModelOps.cpp - Verifiers of model ----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Model/ModelVerify.h"
#include "dialects/Quant/QuantSlice.h"
#include "mlir/IR/OpImplementation.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using namespace octet;
using namespace octet::model;

#define GET_OP_CLASSES
#include "dialects/Model/ModelOps.cpp.inc"

//===----------------------------------------------------------------------===//
// What many operators ask for
//===----------------------------------------------------------------------===//

std::string octet::model::printFloat(float value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", value);
  return text;
}

LogicalResult octet::model::verifyRows(Operation *op, StringRef what,
                                       RankedTensorType type) {
  if (type.getRank() != 2 || ShapedType::isDynamic(type.getDimSize(1)) ||
      !q::isPlainFloat(type.getElementType()))
    return op->emitOpError() << what << " is " << type
                             << ", expected rows [rows, width] in f32, bf16 "
                                "or f16";
  return success();
}

LogicalResult octet::model::verifyIndices(Operation *op, StringRef what,
                                          RankedTensorType type) {
  if (type.getRank() != 1 || !type.getElementType().isInteger(32))
    return op->emitOpError()
           << what << " is " << type << ", expected one i32 a row";
  return success();
}

LogicalResult octet::model::verifySameRows(Operation *op, StringRef what,
                                           int64_t rows, StringRef other,
                                           int64_t otherRows) {
  if (rows == otherRows)
    return success();
  auto print = [](InFlightDiagnostic &diag, int64_t count) {
    if (ShapedType::isDynamic(count))
      diag << "?";
    else
      diag << count;
  };
  InFlightDiagnostic diag = op->emitOpError() << what << " has ";
  print(diag, rows);
  diag << " rows, " << other << " has ";
  print(diag, otherRows);
  return diag;
}

LogicalResult octet::model::verifySameType(Operation *op, Value input,
                                           Value result) {
  if (input.getType() != result.getType())
    return op->emitOpError() << "result is " << result.getType()
                             << ", expected " << input.getType();
  return success();
}

LogicalResult octet::model::verifyModule(Operation *op, StringRef module) {
  if (module.empty())
    return op->emitOpError() << "the module path is empty";
  return success();
}

LogicalResult octet::model::verifyPositive(Operation *op, StringRef what,
                                           int64_t value) {
  if (value <= 0)
    return op->emitOpError()
           << what << " is " << value << ", expected at least 1";
  return success();
}

LogicalResult octet::model::verifyWidth(Operation *op, StringRef what,
                                        RankedTensorType type, int64_t width,
                                        StringRef rule) {
  if (failed(verifyRows(op, what, type)))
    return failure();
  if (type.getDimSize(1) != width)
    return op->emitOpError() << what << " is " << type << ", expected rows of "
                             << width << " [" << rule << "]";
  return success();
}

LogicalResult octet::model::verifyScale(Operation *op, StringRef what,
                                        const APFloat &value) {
  float number = value.convertToFloat();
  if (!(number > 0) || !std::isfinite(number))
    return op->emitOpError() << what << " " << printFloat(number)
                             << " is not positive and finite";
  return success();
}

LogicalResult octet::model::verifyVector(Operation *op, StringRef what,
                                         Value value, int64_t width,
                                         StringRef rule) {
  RankedTensorType type = plainType(value);
  if (type.getRank() != 1 || type.getDimSize(0) != width ||
      !q::isPlainFloat(type.getElementType()))
    return op->emitOpError() << what << " is " << type << ", expected " << width
                             << " values in f32, bf16 or f16 [" << rule << "]";
  return success();
}

/// A weight is as its method stores it or as its contract wants it: the first
/// before materialize-weights, the second after it.
LogicalResult octet::model::verifyWeightContract(Operation *op, Type weight,
                                                 q::MethodAttr method,
                                                 q::ContractAttr contract) {
  auto type = dyn_cast<q::TensorType>(weight);
  if (!type) {
    if (contract && contract.isQuantized() && !method)
      return op->emitOpError()
             << "weight is " << weight << ", the contract's is quantised [B3]";
    return success();
  }
  bool asStored = method && method.isQuantized() &&
                  method.getWeight() == type.getGranularity() &&
                  method.getScale() == type.getScaleType();
  bool asWanted = contract && contract.accepts(type);
  if ((method || contract) && !asStored && !asWanted)
    return op->emitOpError() << "weight is " << type
                             << ", which neither the method nor the "
                                "contract describes [B3]";
  return success();
}

//===----------------------------------------------------------------------===//
// Where values come from
//===----------------------------------------------------------------------===//

LogicalResult FieldOp::verify() {
  RankedTensorType type = plainType(getResult());
  StringRef name = stringifyField(getField());
  if (getField() == Field::Input || getField() == Field::DraftHidden)
    return verifyRows(*this, name, type);
  return verifyIndices(*this, name, type);
}

/// What is stored as a plain tensor of its shape.
static RankedTensorType plainStored(Type type) {
  if (auto packed = dyn_cast_or_null<q::TensorType>(type))
    return packed.getDataTensorType();
  return dyn_cast_or_null<RankedTensorType>(type);
}

/// What one rank has of a stored tensor (W3): `stored` in that rank's sides.
static FailureOr<RankedTensorType> takeSlice(WeightOp op, size_t path,
                                             RankedTensorType stored,
                                             ArrayRef<int64_t> shape) {
  // All experts in one tensor.
  if (op.getFirstExpert() && !op.getExperts() && stored.getRank() > 1 &&
      !shape.empty())
    stored = cast<RankedTensorType>(
        q::withSideSize(stored, q::Side::Experts, shape[0]));
  if (!op.getSlices())
    return stored;
  auto slice = cast<q::SliceAttr>((*op.getSlices())[path]);
  std::string problem = q::describeSlice(
      op.getResult().getType(), q::getSideSize(stored, slice.getSide()), slice);
  if (!problem.empty())
    return op.emitOpError() << "is " << problem;
  return cast<RankedTensorType>(
      q::withSideSize(stored, slice.getSide(), slice.getSize()));
}

/// What is stored of a weight whose codes share words is the tensor of codes
/// that its type implies (C13). A rank's part is cut after it was loaded.
static LogicalResult verifyPackedStored(WeightOp op, q::TensorType type) {
  if (op.getSlices() || op.getFirstExpert() || op.getExperts())
    return success();
  for (auto [i, entry] :
       llvm::enumerate(op.getStored().getAsRange<q::StoredAttr>())) {
    RankedTensorType stored = entry.getTensor(op.getName());
    if (!stored)
      return success();
    RankedTensorType implied =
        type.withShardRows({type.getShardRows()[i]}).getDataTensorType();
    int64_t bits = implied.getElementTypeBitWidth();
    if (stored.getElementType().isInteger(bits) &&
        stored.getNumElements() == implied.getNumElements())
      continue;
    return op.emitOpError()
           << "result is " << type << ", "
           << quoteName(cast<StringAttr>(op.getPaths()[i]).getValue())
           << " stores " << stored << ", expected " << implied << " [C13]";
  }
  return success();
}

LogicalResult WeightOp::verify() {
  if (getPaths().empty())
    return emitOpError() << "has no module path";
  if (getPaths().size() != getStored().size())
    return emitOpError() << "has " << getPaths().size() << " paths and "
                         << getStored().size() << " stored entries [C8]";
  if (getName().empty())
    return emitOpError() << "the name of the tensor is empty";
  for (auto path : getPaths().getAsRange<StringAttr>()) {
    if (failed(q::verifyModulePath(*this, path, bool(getLayer()))))
      return failure();
    if (path.getValue().contains("{e}") != getExperts().has_value())
      return emitOpError() << "path " << quoteName(path.getValue())
                           << (getExperts() ? " has no {e} for the experts"
                                            : " has a {e} and no experts");
  }
  std::optional<int64_t> experts;
  if (getExperts()) {
    experts = int64_t(*getExperts());
    if (failed(verifyPositive(*this, "experts", *experts)))
      return failure();
  }

  if (getSlices() && getSlices()->size() != getPaths().size())
    return emitOpError() << "has " << getPaths().size() << " paths and "
                         << getSlices()->size() << " slices [W3]";
  if (std::optional<AffineMap> first = getFirstExpert();
      first && (first->getNumDims() != 1 || first->getNumSymbols() != 0 ||
                first->getNumResults() != 1))
    return emitOpError() << "first_expert is " << getFirstExpertAttr()
                         << ", expected one function of the rank [W3c]";

  auto quantized = dyn_cast<q::TensorType>(getResult().getType());
  ArrayRef<int64_t> shape =
      quantized ? quantized.getShape() : plainType(getResult()).getShape();
  if (llvm::any_of(shape, ShapedType::isDynamic))
    return emitOpError() << "result is " << getResult().getType()
                         << ", a weight has a static shape";
  if (experts) {
    if (shape.empty() || shape[0] != *experts)
      return emitOpError() << "result is " << getResult().getType()
                           << ", expected " << *experts << " experts [W5]";
    shape = shape.drop_front(); // of each of them
  }
  if (quantized && quantized.getShardRows().size() != getPaths().size())
    return emitOpError() << "result is " << quantized << " with "
                         << quantized.getShardRows().size()
                         << " shards, there are " << getPaths().size()
                         << " paths [W5b]";

  if (quantized && quantized.isPacked())
    return verifyPackedStored(*this, quantized);

  // What is stored under this name has the shape of its shard (C13).
  int64_t rows = 0;
  for (auto [i, entry] :
       llvm::enumerate(getStored().getAsRange<q::StoredAttr>())) {
    StringRef path = cast<StringAttr>(getPaths()[i]);
    Type type = entry.getTensorType(getName());
    // What holds its scales itself is read as it is stored.
    if (auto packed = dyn_cast_or_null<q::TensorType>(type);
        packed && (!quantized || packed != quantized.withShards({}).withShape(
                                               packed.getShape())))
      return emitOpError() << "result is " << getResult().getType() << ", "
                           << quoteName(path) << " stores " << packed
                           << " [C13]";
    RankedTensorType stored = plainStored(type);
    if (!stored)
      return success(); // another name, such as a packed weight's
    FailureOr<RankedTensorType> held = takeSlice(*this, i, stored, shape);
    if (failed(held))
      return failure();
    stored = *held;
    if (stored.getRank() != int64_t(shape.size()) || stored.getRank() == 0 ||
        stored.getShape().drop_front() != shape.drop_front() ||
        (!quantized &&
         stored.getElementType() != plainType(getResult()).getElementType()))
      return emitOpError() << "result is " << getResult().getType() << ", "
                           << quoteName(path) << " stores " << type << " [C13]";
    if (quantized && shape.size() == 2 &&
        quantized.getShardRows()[i] != stored.getDimSize(0))
      return emitOpError() << "shard " << i << " has "
                           << quantized.getShardRows()[i] << " rows, "
                           << quoteName(path) << " stores " << type << " [C13]";
    std::optional<int64_t> sum = checkedAdd(rows, stored.getDimSize(0));
    if (!sum)
      return emitOpError() << "the rows do not fit an int64_t";
    rows = *sum;
  }
  if (rows != shape[0])
    return emitOpError() << "result has " << shape[0]
                         << " rows, the checkpoint stores " << rows << " [C13]";
  return success();
}

LogicalResult RopeTableOp::verify() {
  RankedTensorType type = plainType(getResult());
  int64_t half = getInvFreq().size();
  if (half == 0)
    return emitOpError() << "has no inverse frequencies";
  if (type.getRank() != 2 || !type.hasStaticShape() ||
      !type.getElementType().isF32() || type.getDimSize(0) < 1 ||
      type.getDimSize(1) != 2 * half)
    return emitOpError() << "result is " << type << ", expected [positions, "
                         << 2 * half << "] in f32: " << half
                         << " cosines and sines a position [P6]";
  for (float frequency : getInvFreq())
    if (!(frequency > 0) || !std::isfinite(frequency))
      return emitOpError() << "inverse frequency " << printFloat(frequency)
                           << " is not positive and finite [C15]";
  float scale = getScale().convertToFloat();
  if (!(scale > 0) || !std::isfinite(scale))
    return emitOpError() << "scale " << printFloat(scale)
                         << " is not positive and finite [C15]";
  return success();
}

//===----------------------------------------------------------------------===//
// The decoder
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  RankedTensorType ids = plainType(getIds());
  RankedTensorType result = plainType(getResult());
  if (failed(verifyIndices(*this, "ids", ids)) ||
      failed(verifyRows(*this, "result", result)))
    return failure();
  Type table = getWeight().getType();
  auto packed = dyn_cast<q::TensorType>(table);
  bool isPacked = packed && packed.isGguf();
  RankedTensorType weight =
      isPacked ? packed.getDataTensorType() : dyn_cast<RankedTensorType>(table);
  if (!weight || weight.getRank() != 2 || !weight.hasStaticShape() ||
      !(isPacked || q::isPlainFloat(weight.getElementType())))
    return emitOpError() << "table is " << table
                         << ", expected a matrix in f32, bf16 or f16, or as a "
                            "GGUF file packs it: an embedding is never "
                            "quantised [P1]";
  if (failed(verifyPositive(*this, "parts", getParts())))
    return failure();
  if (weight.getDimSize(1) != result.getDimSize(1))
    return emitOpError() << "rows of the table have " << weight.getDimSize(1)
                         << " values, the result has " << result.getDimSize(1);
  return verifySameRows(*this, "result", result.getDimSize(0), "ids",
                        ids.getDimSize(0));
}

LogicalResult RmsNormOp::verify() {
  RankedTensorType input = plainType(getInput());
  RankedTensorType weight = plainType(getWeight());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyRows(*this, "input", input)) ||
      failed(verifySameType(*this, getInput(), getResult())) ||
      failed(verifyPositive(*this, "heads", getHeads())))
    return failure();
  int64_t width = input.getDimSize(1), heads = getHeads();
  if (width % heads != 0)
    return emitOpError() << "row of " << width
                         << " values does not divide into " << heads
                         << " heads";
  if (weight.getRank() != 1 || weight.getDimSize(0) != width / heads ||
      !q::isPlainFloat(weight.getElementType()))
    return emitOpError() << "weight is " << weight << ", expected "
                         << width / heads << " values in f32, bf16 or f16 [P5]";
  float eps = getEps().convertToFloat();
  if (!(eps >= 0) || !std::isfinite(eps))
    return emitOpError() << "eps " << printFloat(eps)
                         << " is not finite and at least 0";
  return success();
}

/// The two sides of a product, and the attributes that say how they are
/// quantised. `x` and `w` are plain or quantised.
static LogicalResult verifyProduct(Operation *op, Type x, Type w,
                                   Value inputScale, RankedTensorType result,
                                   q::MethodAttr method,
                                   q::ContractAttr contract) {
  auto qx = dyn_cast<q::TensorType>(x), qw = dyn_cast<q::TensorType>(w);
  if (!qx && failed(verifyRows(op, "input", cast<RankedTensorType>(x))))
    return failure();
  if (failed(verifyRows(op, "result", result)))
    return failure();
  ArrayRef<int64_t> xShape =
      qx ? qx.getShape() : cast<RankedTensorType>(x).getShape();
  ArrayRef<int64_t> wShape =
      qw ? qw.getShape() : cast<RankedTensorType>(w).getShape();
  if (xShape.size() != 2)
    return op->emitOpError() << "input is " << x << ", expected [rows, K]";
  // Codes that share a word have no sides until they have the type of their
  // method.
  if (auto plain = dyn_cast<RankedTensorType>(w);
      plain && !method && plain.getElementType().isInteger())
    return success();
  if (wShape.size() != 2 || llvm::any_of(wShape, ShapedType::isDynamic))
    return op->emitOpError()
           << "weight is " << w << ", expected a static matrix [N, K]";
  if (xShape[1] != wShape[1])
    return op->emitOpError() << "input has K = " << xShape[1]
                             << ", the weight has " << wShape[1] << " [P4]";
  if (result.getDimSize(1) != wShape[0])
    return op->emitOpError() << "result has N = " << result.getDimSize(1)
                             << ", the weight has " << wShape[0] << " [P4]";
  if (failed(verifySameRows(op, "input", xShape[0], "result",
                            result.getDimSize(0))))
    return failure();

  if (failed(verifyWeightContract(op, w, method, contract)))
    return failure();
  if (inputScale && !q::isScalarTensor(inputScale.getType()))
    return op->emitOpError() << "input_scale is " << inputScale.getType()
                             << ", expected one float [W9]";
  if (inputScale && contract && !contract.getIsStatic())
    return op->emitOpError()
           << "has an input_scale, the contract is " << contract << " [B4]";

  if (!qx)
    return success();
  if (!isa<Float8E4M3FNType, Float4E2M1FNType>(qx.getElementType()) &&
      !qx.getElementType().isInteger(8))
    return op->emitOpError() << "input is " << qx
                             << ", expected f8E4M3FN, f4E2M1FN or i8 codes "
                                "[N1]";
  if (!qw)
    return op->emitOpError() << "input is " << qx << ", the weight " << w
                             << " is not quantised [P4]";
  if (!contract || !contract.quantizesActivation())
    return op->emitOpError() << "input is " << qx
                             << ", the contract has no quantised activation "
                                "[B4]";
  if (contract.getActivation() != qx.getGranularity() ||
      contract.getActivationStorage() != qx.getElementType()) {
    InFlightDiagnostic diag = op->emitOpError()
                              << "input is " << qx << ", the contract is "
                              << contract << " [P3]";
    return diag;
  }
  return success();
}

LogicalResult LinearOp::verify() {
  RankedTensorType result = plainType(getResult());
  if (getPrecise() && isa<q::TensorType>(getWeight().getType()))
    return emitOpError() << "is precise, its weight is "
                         << getWeight().getType()
                         << "; it is never quantised [P9]";
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyProduct(*this, getInput().getType(), getWeight().getType(),
                           getInputScale(), result, getMethodAttr(),
                           getContractAttr())))
    return failure();
  if (Value bias = getBias())
    return verifyVector(*this, "bias", bias, result.getDimSize(1), "N6");
  return success();
}

LogicalResult SplitOp::verify() {
  RankedTensorType input = plainType(getInput());
  if (failed(verifyRows(*this, "input", input)))
    return failure();
  if (getResults().empty())
    return emitOpError() << "expected at least one result";
  int64_t width = 0;
  for (auto [i, value] : llvm::enumerate(getResults())) {
    RankedTensorType type = plainType(value);
    if (failed(verifyRows(*this, "result", type)) ||
        failed(verifySameRows(*this, "input", input.getDimSize(0), "result",
                              type.getDimSize(0))))
      return failure();
    if (type.getElementType() != input.getElementType())
      return emitOpError() << "result " << i << " is " << type
                           << ", the input is " << input;
    std::optional<int64_t> sum = checkedAdd(width, type.getDimSize(1));
    if (!sum)
      return emitOpError() << "the columns do not fit an int64_t";
    width = *sum;
  }
  if (width != input.getDimSize(1))
    return emitOpError() << "results have " << width
                         << " columns, the input has " << input.getDimSize(1)
                         << " [C8]";
  return success();
}

LogicalResult JoinOp::verify() {
  RankedTensorType result = plainType(getResult());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyRows(*this, "result", result)))
    return failure();
  if (getInputs().size() < 2)
    return emitOpError() << "joins " << getInputs().size()
                         << " inputs, expected at least 2";
  int64_t width = 0;
  for (auto [i, value] : llvm::enumerate(getInputs())) {
    RankedTensorType type = plainType(value);
    if (failed(verifyRows(*this, "input", type)) ||
        failed(verifySameRows(*this, "input", type.getDimSize(0), "result",
                              result.getDimSize(0))))
      return failure();
    if (type.getElementType() != result.getElementType())
      return emitOpError() << "input " << i << " is " << type
                           << ", the result is " << result;
    std::optional<int64_t> sum = checkedAdd(width, type.getDimSize(1));
    if (!sum)
      return emitOpError() << "the columns do not fit an int64_t";
    width = *sum;
  }
  if (width != result.getDimSize(1))
    return emitOpError() << "inputs have " << width
                         << " columns, the result has " << result.getDimSize(1)
                         << " [W14]";
  return success();
}

LogicalResult RopeOp::verify() {
  RankedTensorType input = plainType(getInput()), table = plainType(getTable());
  RankedTensorType positions = plainType(getPositions());
  int64_t headDim = getHeadDim();
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyRows(*this, "input", input)) ||
      failed(verifySameType(*this, getInput(), getResult())) ||
      failed(verifyIndices(*this, "positions", positions)) ||
      failed(verifySameRows(*this, "input", input.getDimSize(0), "positions",
                            positions.getDimSize(0))) ||
      failed(verifyPositive(*this, "head_dim", headDim)))
    return failure();
  if (input.getDimSize(1) % headDim != 0)
    return emitOpError() << "row of " << input.getDimSize(1)
                         << " values does not divide into heads of " << headDim;
  if (table.getRank() != 2 || !table.hasStaticShape() ||
      !table.getElementType().isF32())
    return emitOpError() << "table is " << table
                         << ", expected [positions, 2 * half] in f32 [P6]";
  int64_t offset = getOffset();
  if (offset < 0 || offset >= headDim)
    return emitOpError() << "offset is " << offset
                         << ", expected one of the head's " << headDim
                         << " values [P6]";
  if (table.getDimSize(1) < 2 || table.getDimSize(1) % 2 != 0 ||
      table.getDimSize(1) > headDim - offset)
    return emitOpError() << "table rotates " << table.getDimSize(1)
                         << " values of a head, expected an even number of at "
                            "most "
                         << headDim - offset << " [P6]";
  return success();
}

/// q and k, v are heads side by side.
static LogicalResult verifyHeads(AttentionOp op, StringRef what,
                                 RankedTensorType type, int64_t heads) {
  int64_t headDim = op.getHeadDim();
  if (failed(verifyRows(op, what, type)))
    return failure();
  std::optional<int64_t> width = checkedMul(heads, headDim);
  if (!width || type.getDimSize(1) != *width)
    return op.emitOpError() << what << " is " << type << ", expected " << heads
                            << " heads of " << headDim << " [P11]";
  return success();
}

LogicalResult AttentionOp::verify() {
  RankedTensorType query = plainType(getQ());
  int64_t qHeads = getQHeads(), kvHeads = getKvHeads();
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "q_heads", qHeads)) ||
      failed(verifyPositive(*this, "kv_heads", kvHeads)) ||
      failed(verifyPositive(*this, "head_dim", getHeadDim())) ||
      failed(verifyHeads(*this, "q", query, qHeads)) ||
      failed(verifySameType(*this, getQ(), getResult())))
    return failure();
  if (qHeads % kvHeads != 0)
    return emitOpError() << qHeads << " query heads do not share " << kvHeads
                         << " key heads evenly [W3b]";
  if (int64_t(getWindow()) < 0)
    return emitOpError() << "window is " << int64_t(getWindow())
                         << ", expected 0 (all keys) or more";
  float scale = getScale().convertToFloat();
  if (!(scale > 0) || !std::isfinite(scale))
    return emitOpError() << "scale " << printFloat(scale)
                         << " is not positive and finite";
  if (getSinks() &&
      failed(verifyVector(*this, "sinks", getSinks(), qHeads, "P11")))
    return failure();
  if (bool(getK()) != bool(getV()))
    return emitOpError() << "has only one of k and v";
  if (bool(getK()) == bool(getCache()))
    return emitOpError() << (getCache() ? "has k, v and a cache"
                                        : "has neither k, v nor a cache")
                         << ", expected one or the other [P7]";
  if (bool(getKScale()) != bool(getVScale()))
    return emitOpError() << "has one scale, expected those of k and v [P8]";
  for (Value value : {getKScale(), getVScale()})
    if (value && !q::isScalarTensor(value.getType()))
      return emitOpError() << "cache scale is " << value.getType()
                           << ", expected one float [P8]";
  if (Value k = getK()) {
    for (auto [name, value] :
         {std::pair<StringRef, Value>("k", k), {"v", getV()}})
      if (failed(verifyHeads(*this, name, plainType(value), kvHeads)) ||
          failed(verifySameRows(*this, "q", query.getDimSize(0), name,
                                plainType(value).getDimSize(0))))
        return failure();
    return success();
  }
  q::KvType cache = getCache().getType();
  if (cache.getHeads() != kvHeads || cache.getDim() != int64_t(getHeadDim()))
    return emitOpError() << "reads " << kvHeads << " heads of "
                         << int64_t(getHeadDim()) << ", the cache is " << cache
                         << " [P7]";
  if (bool(getKScale()) != (cache.getLayout() == q::KvLayout::FP8E4M3))
    return emitOpError() << "the cache is " << cache
                         << (getKScale() ? ", which has no scales [P7a]"
                                         : ", expected scales of k and v "
                                           "[P7a]");
  return success();
}

LogicalResult SelectRowsOp::verify() {
  RankedTensorType input = plainType(getInput());
  RankedTensorType rows = plainType(getRows());
  RankedTensorType result = plainType(getResult());
  if (failed(verifyRows(*this, "input", input)) ||
      failed(verifyRows(*this, "result", result)) ||
      failed(verifyIndices(*this, "rows", rows)) ||
      failed(verifySameRows(*this, "result", result.getDimSize(0), "rows",
                            rows.getDimSize(0))))
    return failure();
  if (input.getElementType() != result.getElementType() ||
      input.getDimSize(1) != result.getDimSize(1))
    return emitOpError() << "result is " << result
                         << ", its rows are not those of " << input;
  return success();
}

LogicalResult LmHeadOp::verify() {
  RankedTensorType result = plainType(getResult());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyProduct(*this, getInput().getType(), getWeight().getType(),
                           getInputScale(), result, getMethodAttr(),
                           getContractAttr())))
    return failure();
  if (!result.getElementType().isF32())
    return emitOpError() << "result is " << result << ", logits are f32 [P16]";
  return success();
}
