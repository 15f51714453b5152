//===- FrameLayout.cpp - Places by lifetime -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/FrameLayout.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "octet/Support/Checked.h"
#include "passes/RowDomain.h"

using namespace mlir;
using namespace octet;

/// Buffers start at a cache line.
static constexpr int64_t kAlignment = 64;

std::optional<Size> octet::measure(Type type, int64_t rows) {
  auto product = [](std::initializer_list<int64_t> sides) {
    return checkedProduct(std::span(sides.begin(), sides.size()));
  };
  auto align = [](std::optional<int64_t> bytes) {
    if (bytes && *bytes > INT64_MAX - kAlignment)
      bytes.reset();
    return bytes ? std::optional(alignTo(*bytes, kAlignment)) : bytes;
  };
  if (auto dispatched = dyn_cast<model::DispatchedType>(type)) {
    std::optional<int64_t> all = checkedMul(rows, dispatched.getChoices());
    return all ? measure(dispatched.getRows(), *all) : std::nullopt;
  }
  if (auto tensor = dyn_cast<RankedTensorType>(type)) {
    auto bytes = align(product({rows, tensor.getDimSize(1),
                                q::getElementBytes(tensor.getElementType())}));
    return bytes ? std::optional(Size{*bytes, -1}) : std::nullopt;
  }
  auto quantized = cast<q::TensorType>(type);
  // How many codes share a byte, and how many scales there are, follows from
  // the type (N7, W1).
  RankedTensorType data = quantized.getDataTensorType();
  auto codes = align(product({rows, data.getShape().back(),
                              q::getElementBytes(data.getElementType())}));
  if (!codes)
    return std::nullopt;
  // The scale above those of groups stands before them, at the end of a line
  // that leaves them aligned (N7).
  if (quantized.getGlobalTensorType())
    codes = checkedAdd(*codes, kAlignment);
  if (!codes)
    return std::nullopt;
  RankedTensorType scale =
      quantized.withShape({rows, quantized.getK()}).getScaleTensorType();
  std::optional<int64_t> count = checkedProduct(scale.getShape());
  auto scales = align(
      count ? product({*count, q::getElementBytes(scale.getElementType())})
            : count);
  auto bytes = codes && scales ? checkedAdd(*codes, *scales) : std::nullopt;
  return bytes ? std::optional(Size{*bytes, *codes}) : std::nullopt;
}

LogicalResult octet::reportSize(Operation *op, Type type, int64_t rows) {
  return op->emitError() << "an activation " << type << " of " << rows
                         << " rows has more bytes than an int64_t holds; a "
                            "smaller --max-step-tokens would fit";
}

/// Data-parallel groups whose rows a value has: those of all between gathering
/// tokens and scattering their sums (W3c).
static int64_t countGroups(Value value) {
  auto launch = value.getDefiningOp<kernel::LaunchOp>();
  if (!launch || launch.getInputs().empty())
    return 1;
  StringRef source = launch.getSource();
  if (source == model::GatherTokensOp::getOperationName())
    if (auto groups = launch.getParams().getAs<IntegerAttr>("groups"))
      return std::max<int64_t>(groups.getInt(), 1);
  if (source == model::DispatchOp::getOperationName() ||
      source == model::ExpertsOp::getOperationName())
    return countGroups(launch.getInputs()[0]);
  return 1;
}

LogicalResult FrameLayout::collect() {
  // Pre-order; the end of a loop counts, so that what is read in it lives until
  // its last round.
  DenseMap<Operation *, int64_t> end;
  int64_t next = 0;
  function->walk([&](Operation *op, const WalkStage &stage) {
    if (stage.isBeforeAllRegions())
      order[op] = next++;
    if (stage.isAfterAllRegions())
      end[op] = next++;
  });
  WalkResult walked = function.walk([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      calls.push_back(call);
    for (Value result : op->getResults()) {
      if (!isActivation(result) || ties.isTied(result) ||
          elsewhere.contains(result))
        continue;
      std::optional<int64_t> all = checkedMul(rows, countGroups(result));
      std::optional<Size> size =
          all ? measure(result.getType(), *all) : std::nullopt;
      if (!size) {
        (void)reportSize(op, result.getType(), all.value_or(rows));
        return WalkResult::interrupt();
      }
      Lifetime life{result, order[op], order[op], *size};
      for (Operation *user : result.getUsers()) {
        Operation *outer = op->getBlock()->findAncestorOpInBlock(*user);
        life.last =
            std::max(life.last, outer == user ? order[user] : end[outer]);
      }
      lifetimes.push_back(life);
    }
    return WalkResult::advance();
  });
  llvm::sort(lifetimes, [](const Lifetime &a, const Lifetime &b) {
    auto key = [](const Lifetime &life) {
      return std::pair(life.first,
                       cast<OpResult>(life.value).getResultNumber());
    };
    return key(a) < key(b);
  });
  return success(!walked.wasInterrupted());
}

FailureOr<int64_t> FrameLayout::layOut(int64_t base, FrameBases &bases) {
  if (failed(collect()))
    return failure();
  int64_t top = base;
  for (auto [i, life] : llvm::enumerate(lifetimes)) {
    // First fit among what is alive at the same time.
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (const Lifetime &other : ArrayRef(lifetimes).take_front(i))
      if (other.first <= life.last && life.first <= other.last)
        taken.push_back({other.offset, other.offset + other.size.bytes});
    llvm::sort(taken);
    int64_t offset = base;
    for (auto [begin, end] : taken) {
      if (life.size.bytes <= begin - offset)
        break;
      offset = std::max(offset, end);
    }
    std::optional<int64_t> end = checkedAdd(offset, life.size.bytes);
    if (!end)
      return reportSize(life.value.getDefiningOp(), life.value.getType(), rows);
    life.offset = offset;
    top = std::max(top, *end);
  }
  for (func::CallOp call : calls) {
    int64_t &callee =
        bases[SymbolTable::lookupNearestSymbolFrom(call, call.getCalleeAttr())];
    callee = std::max(callee, base);
    for (const Lifetime &life : lifetimes)
      if (life.first <= order[call] && order[call] <= life.last)
        callee = std::max(callee, life.offset + life.size.bytes);
  }
  return top;
}
