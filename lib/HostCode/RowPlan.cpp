//===- RowPlan.cpp - What a row function keeps ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowPlan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <set>

using namespace mlir;
using namespace octet;
using namespace octet::host;

/// A generated function's scratch lives on the stack of a pool's thread.
static constexpr int64_t kMaxScratchBytes = 4 << 20;

int64_t RowPlan::widthOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getNumElements();
}

bool RowPlan::isElementwise(Operation *op) {
  return isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
             arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
             arith::MaxNumFOp, arith::MinNumFOp, math::SqrtOp, math::RsqrtOp,
             math::AbsFOp, math::FmaOp, math::ExpOp, kernel::RoundOp>(op);
}

int64_t RowPlan::groupOf(q::QuantizeOp quantize) {
  q::GranularityAttr granularity = quantize.getType().getGranularity();
  return granularity.isBlock() || granularity.isGroup()
             ? granularity.getBlockK()
             : widthOf(quantize.getInput());
}

//===----------------------------------------------------------------------===//
// What can be printed
//===----------------------------------------------------------------------===//

static LogicalResult checkQuantize(kernel::RowwiseOp op,
                                   q::QuantizeOp quantize) {
  q::TensorType type = quantize.getType();
  bool isFp4 = isa<Float4E2M1FNType>(type.getElementType());
  if (isFp4 && type.getK() % RowPlan::groupOf(quantize) != 0)
    return op.emitError() << op.getLabel() << ": q.quantize to " << type
                          << "; row code packs whole groups of E2M1 [N7]";
  bool isCode = isa<Float8E4M3FNType>(type.getElementType()) ||
                type.getElementType().isSignlessInteger(8);
  if (!isFp4 && (!isCode || !type.getScaleType().isF32() ||
                 type.getLayout() != q::Layout::Plain))
    return op.emitError() << op.getLabel() << ": q.quantize to " << type
                          << "; row code rounds to f8E4M3FN or i8 with f32 "
                             "scales, row by row, or to f4E2M1FN [N1]";
  q::GranularityKind kind = type.getGranularity().getKind();
  if (!quantize.getScale() && kind == q::GranularityKind::PerTensor)
    return op.emitError() << op.getLabel()
                          << ": q.quantize to per_tensor without a scale; a "
                             "dynamic scale is per token or per group [P3, B5]";
  for (Operation *user : quantize->getUsers())
    if (!isa<kernel::YieldOp>(user))
      return op.emitError() << op.getLabel()
                            << ": codes are read in the region; they can only "
                               "be yielded";
  return success();
}

static LogicalResult checkBody(kernel::RowwiseOp op) {
  for (Operation &body : op.getBody().front()) {
    if (auto quantize = dyn_cast<q::QuantizeOp>(body)) {
      if (failed(checkQuantize(op, quantize)))
        return failure();
      continue;
    }
    if (auto constant = dyn_cast<arith::ConstantOp>(body)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (!dense || !dense.getElementType().isF32() || !dense.isSplat())
        return op.emitError() << op.getLabel()
                              << ": a constant of a row is one f32 value "
                                 "repeated";
      continue;
    }
    if (RowPlan::isElementwise(&body) ||
        isa<kernel::ReduceOp, kernel::BroadcastOp, kernel::TileOp,
            kernel::SliceOp, kernel::RopeOp, kernel::YieldOp>(body))
      continue;
    return op.emitError() << op.getLabel() << ": no code for '"
                          << body.getName() << "' in a row";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// What is kept
//===----------------------------------------------------------------------===//

namespace {
/// Collects which loops read which values. Loops are numbered in the order in
/// which they are printed.
class Readers {
public:
  explicit Readers(Block &block);

  bool isKept(Value value) const { return kept.contains(value); }

private:
  void read(Value value, const std::set<int> &loops, bool force);
  bool isCheap(Value value) const;

  DenseMap<Value, std::set<int>> loops;
  DenseSet<Value> forced, kept;
};
} // namespace

/// As cheap to compute again as to load: moved memory and constants.
bool Readers::isCheap(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op || isa<arith::ConstantOp>(op))
    return true;
  if (auto round = dyn_cast<kernel::RoundOp>(op))
    return kernel::isRoundedTo(round.getInput(), round.getType()) &&
           isCheap(round.getInput());
  if (auto broadcast = dyn_cast<kernel::BroadcastOp>(op))
    return RowPlan::widthOf(broadcast.getInput()) == 1 ||
           kept.contains(broadcast.getInput()) || isCheap(broadcast.getInput());
  if (isa<kernel::SliceOp, kernel::TileOp>(op))
    return kept.contains(op->getOperand(0)) || isCheap(op->getOperand(0));
  return false;
}

void Readers::read(Value value, const std::set<int> &by, bool force) {
  if (isa<q::TensorType>(value.getType()) || RowPlan::widthOf(value) == 1)
    return;
  loops[value].insert(by.begin(), by.end());
  if (force)
    forced.insert(value);
}

Readers::Readers(Block &block) {
  // Numbers: two for a quantisation, whose loops both read the input.
  DenseMap<Operation *, int> number;
  int next = 0;
  for (Operation &op : block) {
    number[&op] = next;
    next += 2;
  }
  // From the end: when a value is reached all its readers are known.
  for (Operation &op : llvm::reverse(block)) {
    int own = number[&op];
    if (auto yield = dyn_cast<kernel::YieldOp>(op)) {
      for (auto [i, value] : llvm::enumerate(yield.getValues()))
        read(value, {own + int(i)}, /*force=*/false);
      continue;
    }
    if (auto quantize = dyn_cast<q::QuantizeOp>(op)) {
      std::set<int> by = {own};
      if (!quantize.getScale())
        by.insert(own + 1);
      read(quantize.getInput(), by, /*force=*/false);
      continue;
    }
    if (isa<kernel::ReduceOp>(op)) {
      if (RowPlan::widthOf(op.getResult(0)) > 1)
        kept.insert(op.getResult(0));
      read(op.getOperand(0), {own}, /*force=*/false);
      continue;
    }
    if (op.getNumResults() != 1)
      continue;
    Value result = op.getResult(0);
    if (RowPlan::widthOf(result) == 1) {
      for (Value operand : op.getOperands())
        read(operand, {own}, /*force=*/true);
      continue;
    }
    std::set<int> by = loops[result];
    if (by.empty())
      continue; // dead
    // Cheapness of the operands is not known yet, but an op that only moves
    // its operand is kept only if that is not cheap, which `force` settles.
    bool moves = isa<kernel::BroadcastOp, kernel::TileOp, kernel::SliceOp>(op);
    if (!moves && !isCheap(result) &&
        (by.size() > 1 || forced.contains(result)))
      kept.insert(result), by = {*by.begin()};
    bool force =
        isa<kernel::RopeOp>(op) ||
        (moves && (forced.contains(result) || !isa<kernel::SliceOp>(op)));
    for (Value operand : op.getOperands())
      read(operand, by, force);
  }
}

FailureOr<RowPlan> RowPlan::make(kernel::RowwiseOp op) {
  if (failed(checkBody(op)))
    return failure();
  Block &block = op.getBody().front();
  Readers readers(block);
  RowPlan plan;
  // Block order, and each value at a multiple of a cache line.
  for (Operation &body : block)
    for (Value result : body.getResults())
      if (readers.isKept(result)) {
        plan.scratch[result] = plan.scratchElements;
        plan.scratchElements += (widthOf(result) + 15) / 16 * 16;
      }
  if (plan.scratchElements > kMaxScratchBytes / 4)
    return op.emitError() << op.getLabel() << ": a row needs "
                          << plan.scratchElements * 4
                          << " bytes of scratch, more than the "
                          << kMaxScratchBytes << " of a thread";
  return plan;
}
