//===- ShardCuts.cpp - Where the ranks cut each weight --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ShardCuts.h"
#include "dialects/Quant/QuantOps.h"
#include "octet/QuantMethods/QuantMethods.h"
#include "passes/ModulePaths.h"
#include "llvm/ADT/StringSwitch.h"
#include <numeric>

using namespace mlir;
using namespace octet;

SplitKind octet::getSplitKind(StringRef module) {
  return llvm::StringSwitch<SplitKind>(lastComponent(module))
      .Cases({"o_proj", "down_proj"}, SplitKind::Row)
      .Cases({"qkv_proj", "q_proj", "k_proj", "v_proj", "q_b_proj"},
             SplitKind::Column)
      .Cases({"gate_up_proj", "gate_proj", "up_proj"}, SplitKind::Column)
      .Default(SplitKind::Replicated);
}

static bool isKvShard(StringRef module, size_t shard) {
  StringRef name = lastComponent(module);
  return name == "k_proj" || name == "v_proj" ||
         (name == "qkv_proj" && shard > 0);
}

/// What W3 calls that which a cut leaves whole.
static const char *nameStep(Type type, q::Side side) {
  auto quantized = dyn_cast<q::TensorType>(type);
  if (!quantized)
    return "word";
  if (quantized.getGranularity().isBlock())
    return side == q::Side::Rows ? "bn" : "bk";
  return quantized.getGranularity().isGroup() && side == q::Side::Cols ? "group"
                                                                       : "word";
}

/// What is left whole: blocks as stored, and those that loading makes of them
/// for the contract (B6).
static int64_t getStep(Operation *op, Type type, q::Side side) {
  int64_t step = q::getSliceStep(type, side);
  auto contract = op->getAttrOfType<q::ContractAttr>("contract");
  q::GranularityAttr weight =
      contract ? contract.getWeight() : q::GranularityAttr();
  if (contract && contract.quantizesActivation() && side == q::Side::Cols &&
      isa<Float4E2M1FNType>(contract.getActivationStorage()))
    step = std::lcm(step, kFp4Columns);
  if (!weight || !weight.isBlock() || !isa<q::TensorType>(type))
    return step;
  return std::lcm(step, side == q::Side::Rows ? weight.getBlockN()
                                              : weight.getBlockK());
}

static WeightCut makeCut(Type type, q::Side side, int64_t whole,
                         const RankShare &share, int64_t step) {
  return {.cut = {.side = side, .whole = whole, .step = step, .share = share},
          .dimension = {.name = side == q::Side::Cols ? "input" : "output",
                        .size = whole,
                        .block = step,
                        .blockName = nameStep(type, side)}};
}

/// Rows of each shard of a weight, fused or not.
static SmallVector<int64_t> getShardRows(Value weight) {
  if (auto quantized = dyn_cast<q::TensorType>(weight.getType()))
    return quantized.getShardRows();
  auto op = weight.getDefiningOp<model::WeightOp>();
  int64_t rows = *q::getSideSize(weight.getType(), q::Side::Rows);
  if (!op || op.getPaths().size() == 1)
    return {rows};
  SmallVector<int64_t> shards;
  for (auto stored : op.getStored().getAsRange<q::StoredAttr>()) {
    RankedTensorType type = stored.getTensor(op.getName());
    if (!type)
      return {rows};
    shards.push_back(*q::getSideSize(type, q::Side::Rows));
  }
  return shards;
}

SmallVector<WeightCut> octet::getCuts(model::LinearOp op, int64_t tp,
                                      int64_t kvHeads) {
  Type type = op.getWeight().getType();
  SmallVector<WeightCut> cuts;
  if (!hasSides(op.getWeight()))
    return cuts;
  switch (getSplitKind(op.getModule())) {
  case SplitKind::Replicated:
    break;
  case SplitKind::Row:
    cuts.push_back(makeCut(
        type, q::Side::Cols, *q::getSideSize(type, q::Side::Cols),
        RankShare::ofTensors(tp, tp), getStep(op, type, q::Side::Cols)));
    break;
  case SplitKind::Column:
    for (auto [i, rows] : llvm::enumerate(getShardRows(op.getWeight()))) {
      WeightCut cut = makeCut(type, q::Side::Rows, rows, {},
                              getStep(op, type, q::Side::Rows));
      cut.dimension.heads = isKvShard(op.getModule(), i) ? kvHeads : 0;
      // 0 parts: refused by the checks.
      int64_t parts = countParts(cut.dimension, tp);
      cut.cut.share = RankShare::ofTensors(parts ? parts : tp, tp);
      cuts.push_back(cut);
    }
    break;
  }
  return cuts;
}

WeightCut octet::getKvBCut(model::MlaAttentionOp op, int64_t tp) {
  Type type = op.getKvB()[0].getType();
  return makeCut(type, q::Side::Rows, *q::getSideSize(type, q::Side::Rows),
                 RankShare::ofTensors(tp, tp),
                 getStep(op, type, q::Side::Rows));
}

bool octet::hasSides(Value weight) {
  return q::getSideSize(weight.getType(), q::Side::Cols) &&
         (isa<q::TensorType>(weight.getType()) ||
          q::isPlainFloat(q::getStorage(weight.getType())));
}

ExpertCuts octet::getCuts(model::ExpertsOp op, const RankConfig &ranks) {
  ExpertCuts cuts;
  cuts.known = hasSides(op.getDown()) && llvm::all_of(op.getGateUp(), hasSides);
  if (!cuts.known)
    return cuts;
  RankShare share = RankShare::inGroup(ranks);
  for (Value weight : op.getGateUp()) {
    Type type = weight.getType();
    int64_t step = getStep(op, type, q::Side::Rows);
    // Gate and up alternate by rows: a rank has pairs of them.
    if (op.getInterleaved())
      step *= 2;
    auto &list = cuts.gateUp.emplace_back();
    SmallVector<int64_t> rows = getShardRows(weight);
    // Both in one tensor of the checkpoint, one after the other.
    for (int64_t size : rows)
      list.push_back(makeCut(type, q::Side::Rows, size, share, step));
  }
  Type down = op.getDown().getType();
  cuts.down = makeCut(down, q::Side::Cols, *q::getSideSize(down, q::Side::Cols),
                      share, getStep(op, down, q::Side::Cols));
  return cuts;
}
