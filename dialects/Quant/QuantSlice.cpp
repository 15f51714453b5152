//===- QuantSlice.cpp - What one rank holds -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one place that knows where a weight may be cut (W3) and what type a cut
// leaves: shard, materialize-weights and the verifiers ask here.
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantSlice.h"
#include "dialects/Quant/QuantOps.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;
using namespace octet::q;

/// Codes of that width share words of 32 bits.
static int64_t getCodesPerWord(Type elementType) {
  unsigned bits = elementType.getIntOrFloatBitWidth();
  return bits < 32 ? 32 / int64_t(bits) : 1;
}

int64_t octet::q::getSliceStep(Type type, Side side) {
  auto quantized = dyn_cast<TensorType>(type);
  if (!quantized || side == Side::Experts)
    return 1;
  GranularityAttr granularity = quantized.getGranularity();
  int64_t step = 1;
  if (granularity.isBlock())
    step =
        side == Side::Rows ? granularity.getBlockN() : granularity.getBlockK();
  else if (granularity.isGroup() && side == Side::Cols &&
           !quantized.getActOrder())
    step = granularity.getBlockK();
  // Words, and zero points that share words along N.
  bool isInteger = isa<IntegerType>(quantized.getElementType());
  Layout layout = quantized.getLayout();
  bool alongN = layout == Layout::Awq || layout == Layout::PackedK ||
                (layout == Layout::Packed && isInteger &&
                 quantized.getOffset() != Offset::None);
  bool alongK = layout == Layout::Packed || layout == Layout::PackedK;
  if (side == Side::Rows ? alongN : alongK)
    step = std::lcm(
        step, isInteger ? getCodesPerWord(quantized.getElementType()) : 2);
  return step;
}

/// With act_order a column's group is what the tensor of indices says, so a
/// part of the columns has the scales of all groups: as many as before, of
/// proportionally fewer columns. Null if they do not come out whole.
static q::TensorType keepGroups(q::TensorType type, int64_t columns) {
  GranularityAttr granularity = type.getGranularity();
  std::optional<int64_t> all = checkedMul(granularity.getBlockK(), columns);
  if (!type.getActOrder() || !granularity.isGroup())
    return type;
  if (!all || *all % type.getK() != 0)
    return {};
  return type.withGranularity(
      GranularityAttr::get(type.getContext(), granularity.getKind(),
                           granularity.getBlockN(), *all / type.getK()));
}

static unsigned getDimension(int64_t rank, Side side) {
  switch (side) {
  case Side::Experts:
    return 0;
  case Side::Rows:
    // Of a bias, the only one.
    return rank == 1 ? 0 : rank - 2;
  case Side::Cols:
    return rank - 1;
  }
  llvm_unreachable("all sides are above");
}

std::optional<int64_t> octet::q::getSideSize(Type type, Side side) {
  auto quantized = dyn_cast<TensorType>(type);
  ArrayRef<int64_t> shape = quantized ? quantized.getShape()
                                      : cast<RankedTensorType>(type).getShape();
  int64_t rank = shape.size();
  int64_t needed = side == Side::Experts ? 2 : side == Side::Cols ? 2 : 1;
  if (rank < needed)
    return std::nullopt;
  return shape[getDimension(rank, side)];
}

Type octet::q::withSideSize(Type type, Side side, int64_t size) {
  auto resize = [&](ArrayRef<int64_t> shape) {
    SmallVector<int64_t> sides(shape);
    sides[getDimension(shape.size(), side)] = size;
    return sides;
  };
  if (auto quantized = dyn_cast<TensorType>(type)) {
    if (side == Side::Cols)
      if (q::TensorType grouped = keepGroups(quantized, size))
        quantized = grouped;
    return quantized.withShape(resize(quantized.getShape()));
  }
  auto plain = cast<RankedTensorType>(type);
  return plain.clone(resize(plain.getShape()));
}

//===----------------------------------------------------------------------===//
// Verifiers
//===----------------------------------------------------------------------===//

LogicalResult SliceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                Side side, int64_t size, AffineMapAttr first,
                                Fit fit, int64_t own, int64_t block) {
  if (size < 1)
    return emitError() << "a slice of " << size << " " << stringifySide(side)
                       << ", expected at least 1 [W3]";
  AffineMap map = first.getValue();
  if (map.getNumDims() != 1 || map.getNumSymbols() != 0 ||
      map.getNumResults() != 1)
    return emitError() << "a slice begins at " << first
                       << ", expected one function of the rank [W3]";
  if ((fit == Fit::Padded) != (own != 0) || own < 0 || own > size)
    return emitError() << "own is " << own << " in a slice of " << size
                       << ", expected the size of the own part where a slice "
                          "is padded, and only there [W3]";
  if (fit == Fit::Padded &&
      (block < 1 || size % block != 0 || cdiv(own, block) + 1 < size / block))
    return emitError() << "a padded slice of " << size << " for " << own
                       << " of its own, expected whole blocks of " << block
                       << " that it touches [W3]";
  if (fit != Fit::Exact && side == Side::Experts)
    return emitError() << "experts are not " << stringifyFit(fit) << " [W3c]";
  return success();
}

/// Where a slice begins on every rank, or nothing if ranks differ.
static std::optional<int64_t> getConstantBegin(SliceAttr slice) {
  auto constant =
      dyn_cast<AffineConstantExpr>(slice.getFirst().getValue().getResult(0));
  return constant ? std::optional(constant.getValue()) : std::nullopt;
}

std::string octet::q::describeSlice(Type type, SliceAttr slice) {
  return describeSlice(type, getSideSize(type, slice.getSide()), slice);
}

std::string octet::q::describeSlice(Type type, std::optional<int64_t> whole,
                                    SliceAttr slice) {
  std::string text;
  llvm::raw_string_ostream os(text);
  Side side = slice.getSide();
  StringRef what = stringifySide(side);
  int64_t size = slice.getSize(), step = getSliceStep(type, side);
  StringRef rule = side == Side::Experts ? "W3c" : "W3";
  if (!whole) {
    os << type << " has no " << what;
  } else if (slice.getFit() != Fit::Padded && size > *whole) {
    os << size << " " << what << " of " << type << ", which has " << *whole;
  } else if (slice.getFit() == Fit::Padded) {
    if (slice.getBlock() % step != 0)
      os << "a slice padded to blocks of " << slice.getBlock() << " " << what
         << ", the tensor has blocks of " << step;
  } else if (std::optional<int64_t> begin = getConstantBegin(slice);
             slice.getFit() == Fit::Exact && begin &&
             (*begin < 0 || *begin > *whole - size)) {
    os << size << " " << what << " from " << *begin << " of " << type
       << ", which has " << *whole;
  } else if (size != *whole) {
    int64_t divisor =
        slice.getFirst().getValue().getResult(0).getLargestKnownDivisor();
    if (size % step != 0)
      os << "a slice of " << size << " " << what
         << ", not a multiple of the block (" << step << ")";
    else if (divisor % step != 0)
      os << "a slice that begins at a multiple of " << divisor << " " << what
         << ", not of the block (" << step << ")";
  }
  auto quantized = dyn_cast<TensorType>(type);
  if (text.empty() && quantized && side == Side::Cols &&
      !keepGroups(quantized, size))
    os << size << " columns of " << type << ", which are no whole part of its "
       << "groups";
  if (!text.empty())
    os << " [" << rule << "]";
  return text;
}

LogicalResult SliceOp::verify() {
  Type input = getInput().getType();
  auto quantized = dyn_cast<TensorType>(input);
  if (quantized && !quantized.getShards().empty())
    return emitOpError() << "input is " << input
                         << ", each shard is cut by itself; slice them and "
                            "join them with q.concat [W5b]";
  std::string problem = describeSlice(input, getSlice());
  if (!problem.empty())
    return emitOpError() << "is " << problem;
  Type expected =
      withSideSize(input, getSlice().getSide(), getSlice().getSize());
  if (getResult().getType() != expected)
    return emitOpError() << "result is " << getResult().getType()
                         << ", the slice implies " << expected << " [W4]";
  return success();
}
