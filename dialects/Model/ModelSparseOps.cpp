//===- ModelSparseOps.cpp - Verifiers of experts and latent attention -----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelVerify.h"
#include "octet/Support/Checked.h"
#include <cmath>

using namespace mlir;
using namespace octet;
using namespace octet::model;

/// `[rows, count]` of i32 or f32, one entry a choice.
static LogicalResult verifyChoices(Operation *op, StringRef what, Value value,
                                   int64_t count, bool isInteger) {
  RankedTensorType type = plainType(value);
  Type element = type.getElementType();
  if (type.getRank() != 2 || type.getDimSize(1) != count ||
      !(isInteger ? element.isInteger(32) : element.isF32()))
    return op->emitOpError()
           << what << " is " << type << ", expected [rows, " << count << "] in "
           << (isInteger ? "i32" : "f32") << " [P12]";
  return success();
}

/// A plain or quantised matrix, or one for each expert; nothing for codes that
/// only a method can read.
static std::optional<SmallVector<int64_t>> getMatrixShape(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return llvm::to_vector(quantized.getShape());
  auto plain = cast<RankedTensorType>(type);
  if (!q::isPlainFloat(plain.getElementType()) &&
      !isa<Float8E4M3FNType>(plain.getElementType()))
    return std::nullopt;
  return llvm::to_vector(plain.getShape());
}

/// A weight of exactly these sides.
static LogicalResult verifyMatrix(Operation *op, StringRef what, Type type,
                                  ArrayRef<int64_t> sides, StringRef rule) {
  std::optional<SmallVector<int64_t>> shape = getMatrixShape(type);
  if (!shape || ArrayRef<int64_t>(*shape) == sides)
    return success();
  InFlightDiagnostic diag = op->emitOpError()
                            << what << " is " << type << ", expected ";
  llvm::interleave(
      sides, [&](int64_t side) { diag << side; }, [&] { diag << " x "; });
  return diag << " [" << rule << "]";
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

LogicalResult MoeRouterOp::verify() {
  RankedTensorType input = plainType(getInput());
  RankedTensorType weight = plainType(getWeight());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyRows(*this, "input", input)))
    return failure();
  if (weight.getRank() != 2 || !weight.hasStaticShape() ||
      !q::isPlainFloat(weight.getElementType()))
    return emitOpError() << "weight is " << weight
                         << ", expected a matrix in f32, bf16 or f16: a router "
                            "is never quantised [W13]";
  if (weight.getDimSize(1) != input.getDimSize(1))
    return emitOpError() << "input has K = " << input.getDimSize(1)
                         << ", the weight has " << weight.getDimSize(1)
                         << " [P12]";
  int64_t experts = weight.getDimSize(0), topK = getTopK();
  for (auto [name, value] :
       {std::pair("bias", getBias()), {"correction", getCorrection()}})
    if (value && failed(verifyVector(*this, name, value, experts, "P12")))
      return failure();
  int64_t groups = getGroups(), topGroups = getTopGroups();
  if (failed(verifyPositive(*this, "top_k", topK)) ||
      failed(verifyPositive(*this, "groups", groups)) ||
      failed(verifyPositive(*this, "top_groups", topGroups)) ||
      failed(verifyScale(*this, "scale", getScale())))
    return failure();
  if (experts % groups != 0 || topGroups > groups)
    return emitOpError() << topGroups << " of " << groups << " groups of "
                         << experts << " experts cannot be chosen [P12]";
  if (topK > experts / groups * topGroups)
    return emitOpError() << "chooses " << topK << " experts of "
                         << experts / groups * topGroups << " [P12]";
  if (getCorrection() && getScore() == Score::ChosenSoftmax)
    return emitOpError() << "has a correction, which scores of chosen_softmax "
                            "do not have [P12]";
  if (failed(verifyChoices(*this, "ids", getIds(), topK, true)) ||
      failed(verifyChoices(*this, "weights", getWeights(), topK, false)))
    return failure();
  return verifySameRows(*this, "input", input.getDimSize(0), "ids",
                        plainType(getIds()).getDimSize(0));
}

LogicalResult DispatchOp::verify() {
  DispatchedType result = getResult().getType();
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "experts", getExperts())) ||
      failed(verifyPositive(*this, "ep", getEp())))
    return failure();
  if (getExperts() % getEp() != 0)
    return emitOpError() << int64_t(getExperts())
                         << " experts over ep=" << int64_t(getEp())
                         << " groups of ranks are no whole number each [W3c]";
  if (result.getRows() != getInput().getType())
    return emitOpError() << "moves " << getInput().getType()
                         << ", the result's rows are " << result.getRows()
                         << "; nothing is rounded on the way [P13]";
  return verifyChoices(*this, "ids", getIds(), result.getChoices(), true);
}

/// The rows that experts read, dispatched or not; null after an error.
static Type getExpertRows(ExpertsOp op, int64_t choices) {
  auto dispatched = dyn_cast<DispatchedType>(op.getInput().getType());
  if (!dispatched)
    return op.getInput().getType();
  if (dispatched.getOrder() != Order::Expert) {
    op.emitOpError() << "input is " << dispatched << ", rows by "
                     << stringifyOrder(dispatched.getOrder())
                     << "; the grouped product reads rows by expert [B7]";
    return {};
  }
  if (dispatched.getChoices() != choices) {
    op.emitOpError() << "input is " << dispatched << ", the ids choose "
                     << choices << " experts a token [B7]";
    return {};
  }
  return dispatched.getRows();
}

LogicalResult ExpertsOp::verify() {
  RankedTensorType result = plainType(getResult());
  RankedTensorType ids = plainType(getIds());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyRows(*this, "result", result)) ||
      failed(verifyPositive(*this, "experts", getExperts())) ||
      failed(verifyPositive(*this, "ep", getEp())))
    return failure();
  if (ids.getRank() != 2)
    return verifyChoices(*this, "ids", getIds(), 1, true);
  Type rowsType = getExpertRows(*this, ids.getDimSize(1));
  if (!rowsType)
    return failure();
  auto quantized = dyn_cast<q::TensorType>(rowsType);
  ArrayRef<int64_t> input = quantized
                                ? quantized.getShape()
                                : cast<RankedTensorType>(rowsType).getShape();
  if (!quantized &&
      failed(verifyRows(*this, "input", cast<RankedTensorType>(rowsType))))
    return failure();
  if (input.size() != 2 || input[1] != result.getDimSize(1))
    return emitOpError() << "input is " << getInput().getType()
                         << ", its rows are not as wide as the result's "
                         << result;
  if (failed(verifyChoices(*this, "ids", getIds(), ids.getDimSize(1), true)) ||
      failed(verifyChoices(*this, "weights", getWeights(), ids.getDimSize(1),
                           false)) ||
      failed(
          verifySameRows(*this, "input", input[0], "ids", ids.getDimSize(0))))
    return failure();
  if (getExperts() % getEp() != 0)
    return emitOpError() << int64_t(getExperts())
                         << " experts over ep=" << int64_t(getEp())
                         << " groups of ranks are no whole number each [W3c]";

  int64_t local = getExperts() / getEp(), hidden = result.getDimSize(1);
  size_t parts = getGateUp().size();
  if (parts != 1 && parts != 2)
    return emitOpError() << "has " << parts
                         << " matrices in gate_up, expected gate and up or "
                            "both in one [W5]";
  if (getInterleaved() && parts == 2)
    return emitOpError() << "is interleaved, but gate and up are two matrices";
  if (auto shape = getMatrixShape(getDown().getType())) {
    if (shape->size() != 3 ||
        failed(verifyMatrix(*this, "down", getDown().getType(),
                            {local, hidden, shape->back()}, "W5")))
      return shape->size() != 3 ? emitOpError()
                                      << "down is " << getDown().getType()
                                      << ", expected experts x "
                                         "hidden x width [W5]"
                                : failure();
    std::optional<int64_t> rows =
        parts == 1 ? checkedMul(shape->back(), 2) : shape->back();
    if (!rows)
      return emitOpError() << "the rows do not fit an int64_t";
    for (Value weight : getGateUp())
      if (failed(verifyMatrix(*this, "gate_up", weight.getType(),
                              {local, *rows, hidden}, "W5")))
        return failure();
  }
  for (Value weight : llvm::concat<Value>(llvm::to_vector(getGateUp()),
                                          SmallVector<Value>{getDown()}))
    if (failed(verifyWeightContract(*this, weight.getType(), getMethodAttr(),
                                    getContractAttr())))
      return failure();
  if (bool(getGateUpBias()) != bool(getDownBias()))
    return emitOpError() << "has one bias, expected those of gate_up and down";
  if (bool(getInputScale()) != bool(getDownInputScale()))
    return emitOpError()
           << "has one input_scale, expected those of gate_up and down [W9]";
  if ((getGating() == Gating::ClampedSwiglu) != getLimit().has_value())
    return emitOpError() << (getLimit() ? "has a limit, which swiglu has not"
                                        : "has no limit for clamped_swiglu");
  return success();
}

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

/// kv_b before it is split: the rows of all heads, or of a rank's in whole
/// blocks (W3).
static LogicalResult verifyWholeKvB(MlaAttentionOp op) {
  Type type = op.getKvB()[0].getType();
  std::optional<int64_t> rows =
      checkedMul(op.getHeads(), int64_t(op.getNopeDim() + op.getValueDim()));
  if (!rows)
    return op.emitOpError() << "the rows of kv_b do not fit an int64_t";
  if (q::SliceAttr slice = op.getKvBRowsAttr()) {
    if (slice.getSide() != q::Side::Rows || slice.getFit() != q::Fit::Padded ||
        slice.getOwn() != *rows)
      return op.emitOpError() << "holds kv_b in " << slice
                              << ", expected a padded slice of rows with "
                              << *rows << " of its own [W3]";
    rows = slice.getSize();
  }
  if (failed(verifyMatrix(op, "kv_b", type, {*rows, int64_t(op.getRank())},
                          op.getKvBRows() ? "W3" : "W12")))
    return failure();
  return verifyWeightContract(op, type, op.getMethodAttr(),
                              op.getContractAttr());
}

/// The explicit matrix, the two that W12 makes of it, or all three.
static LogicalResult verifyKvB(MlaAttentionOp op) {
  int64_t heads = op.getHeads(), rank = op.getRank();
  size_t matrices = op.getKvB().size();
  if (matrices < 1 || matrices > 3)
    return op.emitOpError() << "has " << matrices
                            << " matrices in kv_b, expected one, w_kc and "
                               "w_vc, or all three [W12]";
  // In both forms the whole matrix stands first.
  if (matrices != 2 && failed(verifyWholeKvB(op)))
    return failure();
  if (matrices == 1)
    return success();
  if (matrices == 2 && op.getKvBRows())
    return op.emitOpError()
           << "holds kv_b in " << op.getKvBRowsAttr()
           << ", but reads only w_kc and w_vc, which are never padded [W12]";
  ValueRange halves = op.getKvB().take_back(2);
  for (auto [name, half, dim] :
       {std::tuple("w_kc", halves[0], int64_t(op.getNopeDim())),
        {"w_vc", halves[1], int64_t(op.getValueDim())}}) {
    auto plain = dyn_cast<RankedTensorType>(half.getType());
    if (!plain || !q::isPlainFloat(plain.getElementType()))
      return op.emitOpError() << name << " is " << half.getType()
                              << ", expected f32, bf16 or f16: kv_b is "
                                 "dequantised before it is split [W12]";
    if (failed(
            verifyMatrix(op, name, half.getType(), {heads, dim, rank}, "W12")))
      return failure();
  }
  return success();
}

/// The scale of an FP8 cache, exactly if there is one (P7, P8).
static LogicalResult verifyCacheScale(MlaAttentionOp op) {
  Value scale = op.getCacheScale();
  if (scale && !q::isScalarTensor(scale.getType()))
    return op.emitOpError() << "cache scale is " << scale.getType()
                            << ", expected one float [P8]";
  if (!op.getCache())
    return success();
  q::KvType cache = op.getCache().getType();
  if (bool(scale) != (cache.getLayout() == q::KvLayout::FP8E4M3))
    return op.emitOpError() << "the cache is " << cache
                            << (scale ? ", which has no scale of its own [P7]"
                                      : ", expected its scale [P7]");
  return success();
}

LogicalResult MlaAttentionOp::verify() {
  int64_t heads = getHeads();
  constexpr int64_t kMost = int64_t(1) << 31;
  for (auto [name, value] : {std::pair<StringRef, int64_t>("heads", heads),
                             {"nope_dim", getNopeDim()},
                             {"rope_dim", getRopeDim()},
                             {"value_dim", getValueDim()},
                             {"rank", getRank()}})
    if (value < 1 || value >= kMost)
      return emitOpError() << name << " is " << value
                           << ", expected at least 1 and less than 2^31";
  RankedTensorType query = plainType(getQ());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyScale(*this, "scale", getScale())) ||
      failed(verifyWidth(*this, "q", query,
                         heads * int64_t(getNopeDim() + getRopeDim()),
                         "P11")) ||
      failed(verifyWidth(*this, "result", plainType(getResult()),
                         heads * int64_t(getValueDim()), "P11")) ||
      failed(verifyKvB(*this)))
    return failure();
  if (bool(getLatent()) != bool(getKRope()))
    return emitOpError() << "has only one of latent and k_rope";
  if (!getLatent())
    return emitOpError() << "has no latent [P7]";
  if (failed(verifyCacheScale(*this)))
    return failure();
  if (getCache()) {
    q::KvType cache = getCache().getType();
    if (cache.getRope() != int64_t(getRopeDim()) ||
        cache.getDim() != int64_t(getRank()))
      return emitOpError() << "writes " << int64_t(getRank()) << " + "
                           << int64_t(getRopeDim()) << " values a token, the "
                           << "cache is " << cache << " [P7]";
  }
  if (getSelected()) {
    RankedTensorType rows = plainType(getSelected());
    if (rows.getRank() != 2 || !rows.getElementType().isInteger(32))
      return emitOpError() << "selected is " << rows
                           << ", expected [rows, top_k] in i32 [P9]";
  }
  return failure(failed(verifyWidth(*this, "latent", plainType(getLatent()),
                                    getRank(), "P11")) ||
                 failed(verifyWidth(*this, "k_rope", plainType(getKRope()),
                                    getRopeDim(), "P11")));
}

LogicalResult LayerNormOp::verify() {
  RankedTensorType input = plainType(getInput());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyRows(*this, "input", input)) ||
      failed(verifySameType(*this, getInput(), getResult())) ||
      failed(verifyVector(*this, "weight", getWeight(), input.getDimSize(1),
                          "P5")) ||
      failed(verifyVector(*this, "bias", getBias(), input.getDimSize(1), "P5")))
    return failure();
  float eps = getEps().convertToFloat();
  if (!(eps >= 0) || !std::isfinite(eps))
    return emitOpError() << "eps " << printFloat(eps)
                         << " is not finite and at least 0";
  return success();
}

LogicalResult IndexerOp::verify() {
  int64_t heads = getHeads(), dim = getHeadDim(), topK = getTopK();
  std::optional<int64_t> width = checkedMul(heads, dim);
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "heads", heads)) ||
      failed(verifyPositive(*this, "head_dim", dim)) ||
      failed(verifyPositive(*this, "top_k", topK)) ||
      failed(verifyScale(*this, "scale", getScale())))
    return failure();
  if (!width)
    return emitOpError() << "the width of all heads does not fit an int64_t";
  if (failed(verifyWidth(*this, "q", plainType(getQ()), *width, "P9")) ||
      failed(
          verifyWidth(*this, "weights", plainType(getWeights()), heads, "P9")))
    return failure();
  if (failed(verifyWidth(*this, "k", plainType(getK()), dim, "P9")))
    return failure();
  if (getCache() && (getCache().getType().getRope() != 0 ||
                     getCache().getType().getDim() != dim))
    return emitOpError() << "writes keys of " << dim << ", the cache is "
                         << getCache().getType() << " [P9]";
  RankedTensorType rows = plainType(getRows());
  if (rows.getRank() != 2 || rows.getDimSize(1) != topK ||
      !rows.getElementType().isInteger(32))
    return emitOpError() << "rows is " << rows << ", expected [rows, " << topK
                         << "] in i32 [P9]";
  return verifySameRows(*this, "q", plainType(getQ()).getDimSize(0), "rows",
                        rows.getDimSize(0));
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

LogicalResult AllReduceOp::verify() {
  return failure(failed(verifyModule(*this, getModule())) ||
                 failed(verifyPositive(*this, "ranks", getRanks())) ||
                 failed(verifyRankSum(*this, plainType(getInput()))));
}

LogicalResult BroadcastOp::verify() {
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "ranks", getRanks())))
    return failure();
  RankedTensorType type = plainType(getInput());
  if (type.getRank() != 2 || !type.getElementType().isInteger(32))
    return emitOpError() << "input is " << type
                         << ", expected the choice of an indexer, [rows, "
                            "top_k] in i32 [P10]";
  return success();
}

LogicalResult AllGatherOp::verify() {
  RankedTensorType input = plainType(getInput());
  RankedTensorType result = plainType(getResult());
  if (failed(verifyModule(*this, getModule())) ||
      failed(verifyPositive(*this, "ranks", getRanks())) ||
      failed(verifyRows(*this, "input", input)) ||
      failed(verifyRows(*this, "result", result)))
    return failure();
  std::optional<int64_t> most = checkedMul(input.getDimSize(1), getRanks());
  if (!most || result.getDimSize(1) > *most ||
      input.getElementType() != result.getElementType())
    return emitOpError() << "result is " << result << ", "
                         << int64_t(getRanks()) << " ranks have rows of "
                         << input << " [P16]";
  return verifySameRows(*this, "input", input.getDimSize(0), "result",
                        result.getDimSize(0));
}
