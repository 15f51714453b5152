//===- ShardRewrite.cpp - Programs of one rank ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights become slices, and what reads them computes with what a rank has; the
// types of everything between a column-parallel and a row-parallel layer follow
// in the order of the operators. Collectives join the results where a layer
// writes the residual stream, so nothing but the inside of a layer function
// changes.
//
// Where slices are padded (--split-blocks pad) a row is wider than the rank's
// own columns, with zeros there. SwiGLU keeps zeros, so gate and up hand them
// to down as they are; before anything else `model.own_columns` drops them.
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/ShardCuts.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include <numeric>

using namespace mlir;
using namespace octet;

namespace {

class Sharder {
public:
  explicit Sharder(const ShardChoices &options)
      : options(options), ranks(options.ranks), all(ranks.tp * ranks.dp) {}

  void run(func::FuncOp function);
  int64_t numSharded = 0;

private:
  void rewrite(Operation *op);
  void rewriteLinear(model::LinearOp op);
  void rewriteColumns(model::LinearOp op, ArrayRef<WeightCut> cuts);
  void rewriteRows(model::LinearOp op, const WeightCut &cut);
  void rewriteSplit(model::SplitOp op);
  void rewriteAttention(model::AttentionOp op);
  void rewriteLatent(model::MlaAttentionOp op);
  void rewriteExperts(model::ExpertsOp op);
  void rewriteExpertWeights(model::ExpertsOp op);
  void rewriteLmHead(model::LmHeadOp op);
  void rewriteEmbedding(model::EmbeddingOp op);

  void dropPadding(OpOperand &operand);
  void reduce(Value value, StringRef module);

  const ShardChoices &options;
  const RankConfig &ranks;
  const int64_t all; ///< ranks that there are
  int64_t kvHeads = 0;
  /// Columns of each shard of a fused linear's local result.
  DenseMap<Value, SmallVector<int64_t>> widths;
  DenseMap<Value, SmallVector<Padding>> shardPaddings;
  DenseMap<Value, Padding> paddings;
};

} // namespace

static void setWidth(Value value, int64_t width) {
  auto type = cast<RankedTensorType>(value.getType());
  value.setType(type.clone({type.getDimSize(0), width}));
}

static int64_t getWidth(Value value) {
  return cast<RankedTensorType>(value.getType()).getDimSize(1);
}

static model::WeightOp getWeightOp(Value value) {
  return value.getDefiningOp<model::WeightOp>();
}

/// Replaces all uses but one.
static void replaceBehind(Value value, Operation *user, Value with) {
  value.replaceAllUsesExcept(with, user);
}

/// The sum of the tensor-parallel ranks' rows, in the activation dtype (P15).
void Sharder::reduce(Value value, StringRef module) {
  if (ranks.tp == 1)
    return;
  OpBuilder builder(value.getContext());
  builder.setInsertionPointAfterValue(value);
  auto sum = model::AllReduceOp::create(
      builder, value.getLoc(), value.getType(), value, ranks.tp, module);
  replaceBehind(value, sum, sum);
}

/// What reads only a rank's own columns reads them.
void Sharder::dropPadding(OpOperand &operand) {
  Padding padding = paddings.lookup(operand.get());
  if (!padding)
    return;
  Operation *op = operand.getOwner();
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(operand.get().getType());
  auto module = op->getAttrOfType<StringAttr>("module");
  operand.set(model::OwnColumnsOp::create(
      builder, op->getLoc(), type.clone({type.getDimSize(0), padding.own}),
      operand.get(), padding.first, padding.block,
      module ? module.getValue() : op->getName().getStringRef()));
}

//===----------------------------------------------------------------------===//
// Linear layers
//===----------------------------------------------------------------------===//

void Sharder::rewriteColumns(model::LinearOp op, ArrayRef<WeightCut> cuts) {
  MLIRContext *context = op.getContext();
  SmallVector<q::SliceAttr> slices;
  SmallVector<int64_t> local;
  SmallVector<Padding> padded;
  for (const WeightCut &cut : cuts) {
    slices.push_back(makeSlice(context, cut.cut, all));
    local.push_back(slices.back().getSize());
    padded.push_back(getPadding(slices.back()));
  }
  setSlices(getWeightOp(op.getWeight()), slices);
  if (op.getBias())
    setSlices(getWeightOp(op.getBias()), slices);
  setWidth(op.getResult(), llvm::sum_of(local, int64_t(0)));
  if (padded.size() == 1 && padded[0])
    paddings[op.getResult()] = padded[0];
  widths[op.getResult()] = local;
  shardPaddings[op.getResult()] = padded;
}

/// Method and contract speak of the groups of the rank's weight, which
/// act_order makes of fewer columns.
static void followGroups(model::LinearOp op) {
  auto type = dyn_cast<q::TensorType>(op.getWeight().getType());
  if (!type || !type.getActOrder())
    return;
  q::GranularityAttr groups = type.getGranularity();
  if (q::MethodAttr method = op.getMethodAttr())
    op.setMethodAttr(q::MethodAttr::get(op.getContext(), method.getName(),
                                        groups, method.getScale(),
                                        method.getActivation()));
  if (q::ContractAttr contract = op.getContractAttr();
      contract && contract.isQuantized())
    op.setContractAttr(contract.withWeight(groups));
}

void Sharder::rewriteRows(model::LinearOp op, const WeightCut &cut) {
  MLIRContext *context = op.getContext();
  q::SliceAttr slice = makeSlice(context, cut.cut, all);
  setSlices(getWeightOp(op.getWeight()), {slice});
  followGroups(op);
  // Added once, by the first rank (N6).
  if (Value bias = op.getBias())
    setSlices(getWeightOp(bias),
              {makeOnce(context, q::Side::Rows,
                        *q::getSideSize(bias.getType(), q::Side::Rows),
                        cut.cut.share, all)});
  Padding wanted = getPadding(slice), given = paddings.lookup(op.getInput());
  if (given != wanted) {
    dropPadding(op.getInputMutable());
    if (wanted) {
      OpBuilder builder(op);
      auto type = cast<RankedTensorType>(op.getInput().getType());
      Value placed = model::PlaceColumnsOp::create(
          builder, op.getLoc(),
          type.clone({type.getDimSize(0), slice.getSize()}), op.getInput(),
          wanted.first, wanted.block, op.getModule());
      op.getInputMutable().assign(placed);
    }
  }
  reduce(op.getResult(), op.getModule());
}

void Sharder::rewriteLinear(model::LinearOp op) {
  SmallVector<WeightCut> cuts = getCuts(op, ranks.tp, kvHeads);
  if (cuts.empty() || ranks.tp == 1)
    return dropPadding(op.getInputMutable());
  ++numSharded;
  if (getSplitKind(op.getModule()) == SplitKind::Row)
    return rewriteRows(op, cuts[0]);
  dropPadding(op.getInputMutable());
  rewriteColumns(op, cuts);
}

void Sharder::rewriteSplit(model::SplitOp op) {
  auto found = widths.find(op.getInput());
  if (found == widths.end() || found->second.size() != op.getNumResults())
    return;
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    setWidth(result, found->second[i]);
    if (Padding padding = shardPaddings[op.getInput()][i])
      paddings[result] = padding;
  }
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

void Sharder::rewriteAttention(model::AttentionOp op) {
  int64_t heads = op.getQHeads() / ranks.tp;
  op.setQHeads(heads);
  op.setKvHeads(getLocalHeads(op.getKvHeads(), ranks.tp));
  if (Value sinks = op.getSinks())
    setSlices(getWeightOp(sinks),
              {makeSlice(op.getContext(),
                         {.side = q::Side::Rows,
                          .whole = heads * ranks.tp,
                          .step = 1,
                          .share = RankShare::ofTensors(ranks.tp, ranks.tp)},
                         all)});
  op.getResult().setType(cast<RankedTensorType>(op.getQ().getType()));
}

void Sharder::rewriteLatent(model::MlaAttentionOp op) {
  int64_t heads = op.getHeads() / ranks.tp;
  if (ranks.tp > 1) {
    q::SliceAttr slice =
        makeSlice(op.getContext(), getKvBCut(op, ranks.tp).cut, all);
    setSlices(getWeightOp(op.getKvB()[0]), {slice});
    if (getPadding(slice))
      op.setKvBRowsAttr(slice);
  }
  op.setHeads(heads);
  setWidth(op.getResult(), heads * int64_t(op.getValueDim()));
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

/// A rank's part does not end on an edge of a block.
static bool cutsBlock(const SideCut &cut) {
  return cut.share.parts > 1 && cut.whole / cut.share.parts % cut.step != 0;
}

void Sharder::rewriteExpertWeights(model::ExpertsOp op) {
  MLIRContext *context = op.getContext();
  ExpertCuts cuts = getCuts(op, ranks);
  int64_t local = op.getExperts() / ranks.ep;
  RankShare inGroup = RankShare::inGroup(ranks);
  // Gate, up and down are padded alike, so that zeros meet zeros.
  int64_t pairs = op.getInterleaved() ? 2 : 1;
  int64_t step = cuts.down.cut.step;
  bool pads = cutsBlock(cuts.down.cut);
  for (const auto &list : cuts.gateUp)
    for (const WeightCut &cut : list) {
      step = std::lcm(step, cut.cut.step / pairs);
      pads |= cutsBlock(cut.cut);
    }
  auto slice = [&](SideCut cut, int64_t rowsOfOne) {
    if (pads)
      cut.step = step * rowsOfOne;
    return makeSlice(context, cut, all);
  };
  auto takeExperts = [&](Value weight) {
    model::WeightOp made = getWeightOp(weight);
    if (ranks.ep == 1)
      return made;
    made.setFirstExpert(
        makeFirst(context, RankShare::ofGroups(ranks), local, all));
    if (made.getExperts())
      made.setExperts(local);
    made.getResult().setType(
        q::withSideSize(weight.getType(), q::Side::Experts, local));
    return made;
  };
  auto slicesOf = [&](ArrayRef<WeightCut> list) {
    SmallVector<q::SliceAttr> slices;
    for (const WeightCut &cut : list)
      slices.push_back(slice(cut.cut, pairs));
    return slices;
  };
  for (auto [weight, list] : llvm::zip_equal(op.getGateUp(), cuts.gateUp)) {
    model::WeightOp made = takeExperts(weight);
    if (inGroup.parts > 1)
      setSlices(made, slicesOf(list));
  }
  model::WeightOp down = takeExperts(op.getDown());
  if (inGroup.parts > 1)
    setSlices(down, {slice(cuts.down.cut, 1)});
  if (!op.getGateUpBias())
    return;
  // [E, 2 I] and [E, H].
  model::WeightOp bias = takeExperts(op.getGateUpBias());
  if (inGroup.parts > 1) {
    SideCut cut = cuts.gateUp[0][0].cut;
    cut.side = q::Side::Cols;
    setSlices(bias, {slice(cut, pairs)});
  }
  bias = takeExperts(op.getDownBias());
  if (inGroup.parts > 1)
    setSlices(bias, {makeOnce(context, q::Side::Cols,
                              *q::getSideSize(op.getDownBias().getType(),
                                              q::Side::Cols),
                              inGroup, all)});
}

void Sharder::rewriteExperts(model::ExpertsOp op) {
  rewriteExpertWeights(op);
  op.setEp(ranks.ep);
  if (ranks.dp == 1)
    return reduce(op.getResult(), op.getModule());
  // Tokens are those of a group, experts stand on all ranks (W3c).
  OpBuilder builder(op);
  for (OpOperand *operand :
       {&op.getInputMutable(), &op.getIdsMutable(), &op.getWeightsMutable()})
    operand->set(model::GatherTokensOp::create(
        builder, op.getLoc(), operand->get().getType(), operand->get(),
        ranks.dp, op.getModule()));
  builder.setInsertionPointAfter(op);
  auto sum = model::ScatterSumOp::create(
      builder, op.getLoc(), op.getResult().getType(), op.getResult(), all,
      ranks.dp, op.getModule());
  replaceBehind(op.getResult(), sum, sum);
}

//===----------------------------------------------------------------------===//
// The vocabulary
//===----------------------------------------------------------------------===//

void Sharder::rewriteLmHead(model::LmHeadOp op) {
  if (ranks.tp == 1)
    return;
  Value logits = op.getResult();
  Type whole = logits.getType();
  q::SliceAttr slice =
      makeVocabulary(op.getContext(), op.getWeight().getType(), ranks.tp, all);
  setSlices(getWeightOp(op.getWeight()), {slice});
  setWidth(logits, slice.getSize());
  OpBuilder builder(op.getContext());
  builder.setInsertionPointAfter(op);
  auto gathered = model::AllGatherOp::create(builder, op.getLoc(), whole,
                                             logits, ranks.tp, op.getModule());
  replaceBehind(logits, gathered, gathered.getResult());
}

void Sharder::rewriteEmbedding(model::EmbeddingOp op) {
  if (ranks.tp == 1)
    return;
  model::WeightOp table = getWeightOp(op.getWeight());
  setSlices(table, {makeVocabulary(op.getContext(), op.getWeight().getType(),
                                   ranks.tp, all)});
  op.setParts(ranks.tp);
  // Of all ranks but one the rows are zeros, so the sum is exact (P1).
  reduce(op.getResult(), cast<StringAttr>(table.getPaths()[0]).getValue());
}

//===----------------------------------------------------------------------===//
// All operators
//===----------------------------------------------------------------------===//

void Sharder::rewrite(Operation *op) {
  if (auto linear = dyn_cast<model::LinearOp>(op))
    return rewriteLinear(linear);
  if (auto split = dyn_cast<model::SplitOp>(op))
    return rewriteSplit(split);
  if (auto gated = dyn_cast<model::SwigluOp>(op)) {
    Padding gate = paddings.lookup(gated.getGate());
    if (gate && gate == paddings.lookup(gated.getUp())) {
      gated.getResult().setType(
          cast<RankedTensorType>(gated.getGate().getType()));
      paddings[gated.getResult()] = gate;
      return;
    }
  }
  for (OpOperand &operand : op->getOpOperands())
    dropPadding(operand);
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](model::RmsNormOp norm) {
        norm.setHeads(
            getWidth(norm.getInput()) /
            cast<RankedTensorType>(norm.getWeight().getType()).getDimSize(0));
        norm.getResult().setType(norm.getInput().getType());
      })
      .Case<model::RopeOp, model::SwigluOp>([](Operation *same) {
        same->getResult(0).setType(same->getOperand(0).getType());
      })
      .Case([&](model::AttentionOp attention) { rewriteAttention(attention); })
      .Case([&](model::MlaAttentionOp latent) { rewriteLatent(latent); })
      .Case([&](model::ExpertsOp experts) { rewriteExperts(experts); })
      .Case([&](model::LmHeadOp head) { rewriteLmHead(head); })
      .Case([&](model::EmbeddingOp table) { rewriteEmbedding(table); })
      .Case([&](model::IndexerOp indexer) {
        if (ranks.tp == 1 || !options.broadcastSelection)
          return;
        OpBuilder builder(indexer->getContext());
        builder.setInsertionPointAfter(indexer);
        Value rows = indexer.getRows();
        auto same = model::BroadcastOp::create(builder, indexer.getLoc(),
                                               rows.getType(), rows, ranks.tp,
                                               indexer.getModule());
        replaceBehind(rows, same, same.getResult());
      });
}

void Sharder::run(func::FuncOp function) {
  // One slice a reader: a tied table is a weight of its own for each of its.
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) {
    if (auto weight = dyn_cast<model::WeightOp>(op)) {
      if (!op->use_empty())
        for (OpOperand &use : llvm::make_early_inc_range(
                 llvm::drop_begin(weight.getResult().getUses()))) {
          OpBuilder builder(op);
          use.set(builder.clone(*op)->getResult(0));
        }
      return;
    }
    ops.push_back(op);
    if (auto attention = dyn_cast<model::AttentionOp>(op))
      kvHeads = attention.getKvHeads();
  });
  for (Operation *op : ops)
    rewrite(op);
}

int64_t octet::shardModule(ModuleOp module, const ShardChoices &options) {
  Sharder sharder(options);
  for (auto function : module.getOps<func::FuncOp>())
    sharder.run(function);
  return sharder.numSharded;
}
