//===- Shard.cpp - Split linear layers over the ranks ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on: projections are fused, so that a module's shards are in its type.
//
// Holds after: each rank's program computes with slices it holds. One rank
// holds everything, so the IR passes through unchanged:
//
//   %y = model.linear %x, %w {module = "a.o_proj"} : …      before and after
//
// More ranks are refused in one place (`checkRanks`) that the split itself
// will replace; the arithmetic of a split (W3, W3b) is in ShardRules.h, and is
// checked first, so that a split that can never work is said to be one.
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "octet/Sharding/ShardRules.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"

namespace octet {
#define GEN_PASS_DEF_SHARD
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

/// How a linear is split over tensor-parallel ranks.
enum class SplitKind { Column, Row, Replicated };

/// Megatron's way: what reads the residual stream is split by outputs, what
/// writes it by inputs, so that a layer joins its results twice.
SplitKind getSplitKind(StringRef module) {
  StringRef name = lastComponent(module);
  if (name == "o_proj" || name == "down_proj")
    return SplitKind::Row;
  if (name == "qkv_proj" || name == "q_proj" || name == "q_b_proj" ||
      name == "k_proj" || name == "v_proj" || name == "gate_up_proj" ||
      name == "gate_proj" || name == "up_proj")
    return SplitKind::Column;
  return SplitKind::Replicated;
}

bool isKvShard(StringRef module, size_t shard) {
  StringRef name = lastComponent(module);
  return name == "k_proj" || name == "v_proj" ||
         (name == "qkv_proj" && shard > 0);
}

/// The error of a split that cannot be; nothing if it can.
std::string checkSplit(model::LinearOp op, int64_t tp, int64_t kvHeads) {
  auto type = dyn_cast<q::TensorType>(op.getWeight().getType());
  auto plain = dyn_cast<RankedTensorType>(op.getWeight().getType());
  bool isBlock = type && type.getGranularity().isBlock();
  int64_t bn = isBlock ? type.getGranularity().getBlockN() : 1;
  int64_t bk = isBlock ? type.getGranularity().getBlockK() : 1;
  std::vector<SplitDimension> dimensions;
  switch (getSplitKind(op.getModule())) {
  case SplitKind::Replicated:
    return "";
  case SplitKind::Row:
    dimensions.push_back({.name = "input",
                          .size = type ? type.getK() : plain.getDimSize(1),
                          .block = bk,
                          .blockName = "bk"});
    break;
  case SplitKind::Column: {
    SmallVector<int64_t> rows =
        type ? type.getShardRows() : SmallVector<int64_t>{plain.getDimSize(0)};
    for (auto [i, size] : llvm::enumerate(rows))
      dimensions.push_back(
          {.name = "output",
           .size = size,
           .block = bn,
           .blockName = "bn",
           .heads = isKvShard(op.getModule(), i) ? kvHeads : 0});
    break;
  }
  }
  return describeSplit(dimensions, tp);
}

/// A matrix of one expert or of kv_b, as far as splitting it needs it.
SplitDimension getSplit(Value weight, bool isInput) {
  auto type = dyn_cast<q::TensorType>(weight.getType());
  bool isBlock = type && type.getGranularity().isBlock();
  ArrayRef<int64_t> shape =
      type ? type.getShape()
           : cast<RankedTensorType>(weight.getType()).getShape();
  return {.name = isInput ? "input" : "output",
          .size = isInput ? shape.back() : shape[shape.size() - 2],
          .block = !isBlock  ? 1
                   : isInput ? type.getGranularity().getBlockK()
                             : type.getGranularity().getBlockN(),
          .blockName = isInput ? "bk" : "bn"};
}

/// The error of experts that cannot be divided into `ep` groups of ranks and
/// split `ways` ways in each (W3c).
std::string checkExperts(model::ExpertsOp op, int64_t ep, int64_t ways) {
  int64_t experts = op.getExperts();
  if (experts % ep != 0) {
    std::string text = std::to_string(experts) +
                       " experts over ep=" + std::to_string(ep) +
                       " are not a whole number a group; "
                       "ep=";
    std::string works;
    for (int64_t degree = 1; degree <= experts && degree <= kMaxListedDegree;
         ++degree)
      if (experts % degree == 0)
        works += (works.empty() ? "" : ", ") + std::to_string(degree);
    return text + works + " would work [W3c]";
  }
  // Codes that share a byte have no sides to split before they have a type.
  if (!isa<q::TensorType>(op.getDown().getType()) &&
      !q::isPlainFloat(q::getStorage(op.getDown().getType())))
    return "";
  std::vector<SplitDimension> dimensions;
  for (Value weight : op.getGateUp()) {
    auto type = dyn_cast<q::TensorType>(weight.getType());
    SplitDimension whole = getSplit(weight, /*isInput=*/false);
    // Gate and up are split each on its own (W5).
    SmallVector<int64_t> shards =
        type ? type.getShardRows() : SmallVector<int64_t>{whole.size};
    if (!type && op.getGateUp().size() == 1)
      shards = {whole.size / 2, whole.size / 2};
    for (int64_t size : shards) {
      dimensions.push_back(whole);
      dimensions.back().size = size;
    }
  }
  dimensions.push_back(getSplit(op.getDown(), /*isInput=*/true));
  return describeSplit(dimensions, ways);
}

struct Shard : public octet::impl::ShardBase<Shard> {
  using ShardBase::ShardBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    model::SettingsAttr settings = model::getSettings(module);
    RankConfig ranks{
        .tp = tp         ? int64_t(tp)
              : settings ? settings.getTp()
                         : 1,
        .ep = ep         ? int64_t(ep)
              : settings ? settings.getEp()
                         : 1,
        .dp = dp         ? int64_t(dp)
              : settings ? settings.getDp()
                         : 1,
    };
    std::string problem = describeRanks(ranks);
    if (!problem.empty()) {
      module.emitError() << problem;
      return signalPassFailure();
    }
    if (failed(checkSplits(module, ranks)) || failed(checkRanks(module, ranks)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// One violation of an operator; an empty one is none.
  LogicalResult refuse(Operation *op, const std::string &problem) {
    if (problem.empty())
      return success();
    InFlightDiagnostic diag = op->emitError()
                              << nameModule(op) << ": " << problem;
    noteOtherLayers(*diag.getUnderlyingDiagnostic(), findLayerOf(op));
    return diag;
  }

  /// W3b, W3 and W3c for everything that the ranks would split.
  LogicalResult checkSplits(ModuleOp module, const RankConfig &ranks) {
    int64_t tp = ranks.tp, ways = ranks.getExpertDegree();
    if (tp == 1 && ranks.ep == 1 && ranks.dp == 1)
      return success();
    bool refused = false;
    int64_t kvHeads = 0;
    module.walk([&](model::AttentionOp op) {
      kvHeads = op.getKvHeads();
      refused |= failed(
          refuse(op, describeHeads(op.getQHeads(), op.getKvHeads(), tp)));
    });
    module.walk([&](model::MlaAttentionOp op) {
      int64_t heads = op.getHeads();
      std::string problem = describeHeads(heads, heads, tp);
      if (problem.empty() && op.getKvB().size() == 1)
        problem = describeSplit({getSplit(op.getKvB()[0], false)}, tp);
      refused |= failed(refuse(op, problem));
    });
    module.walk([&](model::ExpertsOp op) {
      ++numChecked;
      refused |= failed(refuse(op, checkExperts(op, ranks.ep, ways)));
    });
    module.walk([&](model::LinearOp op) {
      ++numChecked;
      refused |= failed(refuse(op, checkSplit(op, tp, kvHeads)));
    });
    return failure(refused);
  }

  /// What this version splits over. TODO: falls with the split over ranks
  /// (tensor, expert and data parallel programs).
  LogicalResult checkRanks(ModuleOp module, const RankConfig &ranks) {
    for (auto [flag, value] :
         {std::pair("tp", ranks.tp), std::pair("ep", ranks.ep),
          std::pair("dp", ranks.dp)})
      if (value != 1)
        return module.emitError()
               << "--" << flag << " " << value
               << ": programs of several ranks are not made yet; " << flag
               << "=1 works [W3c]";
    return success();
  }
};

} // namespace
