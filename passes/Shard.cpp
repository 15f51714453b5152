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
  if (name == "qkv_proj" || name == "q_proj" || name == "k_proj" ||
      name == "v_proj" || name == "gate_up_proj" || name == "gate_proj" ||
      name == "up_proj")
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
    if (failed(checkSplits(module, ranks.tp)) ||
        failed(checkRanks(module, ranks)))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

private:
  /// W3b and W3 for everything that `tp` ranks would split.
  LogicalResult checkSplits(ModuleOp module, int64_t tp) {
    if (tp == 1)
      return success();
    bool refused = false;
    int64_t kvHeads = 0;
    module.walk([&](model::AttentionOp op) {
      kvHeads = op.getKvHeads();
      std::string problem = describeHeads(op.getQHeads(), op.getKvHeads(), tp);
      if (problem.empty())
        return;
      refused = true;
      InFlightDiagnostic diag = op.emitError()
                                << nameModule(op) << ": " << problem;
      noteOtherLayers(*diag.getUnderlyingDiagnostic(), findLayerOf(op));
    });
    module.walk([&](model::LinearOp op) {
      ++numChecked;
      std::string problem = checkSplit(op, tp, kvHeads);
      if (problem.empty())
        return;
      refused = true;
      InFlightDiagnostic diag = op.emitError()
                                << nameModule(op) << ": " << problem;
      noteOtherLayers(*diag.getUnderlyingDiagnostic(), findLayerOf(op));
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
