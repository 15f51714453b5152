//===- Shard.cpp - Split linear layers over the ranks ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on: projections are fused, so that a module's shards are in its type;
// experts, heads and layers are those of the whole model.
//
// Holds after: the step is that of one rank. Each model.weight that the ranks
// divide has its part of what is stored as a function of the rank (`slices`,
// `first_expert`), what computes with it has that part's sides, and collectives
// join the results:
//
//   %y = model.linear %x, %w {module = "a.o_proj"} : …, tensor<256x384xbf16>
//
//   %w = model.weight ["a.o_proj"] "weight" … {slices = [#q.slice<cols 192 at
//          affine_map<(d0) -> (d0 * 192)>>]} : tensor<256x192xbf16>
//   %p = model.linear %x, %w {module = "a.o_proj"} : …, tensor<256x192xbf16>
//   %y = model.all_reduce %p {ranks = 2, module = "a.o_proj"} : …
//
// A split that would cut a block, or heads and experts that do not divide, are
// refused here and in `octet check` by the same functions (W3, W3b, W3c). One
// rank holds everything: the IR passes through unchanged. Where weights are cut
// is in ShardCuts, the rewriting in ShardRewrite.
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "octet/Support/Checked.h"
#include "passes/ModulePaths.h"
#include "passes/Passes.h"
#include "passes/ShardCuts.h"
#include "llvm/ADT/DenseSet.h"

namespace octet {
#define GEN_PASS_DEF_SHARD
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {

/// A violation, and the operator that it is of.
struct Problem {
  Operation *op;
  std::string text;
  std::string below = {}; ///< the matrix of an expert: ".down_proj"
};

/// W3, W3b and W3c for everything that the ranks would split. Changes nothing.
class SplitChecker {
public:
  SplitChecker(const RankConfig &ranks, bool pad) : ranks(ranks), pad(pad) {}

  void check(ModuleOp module);
  LogicalResult report(ModuleOp module);
  int64_t numChecked = 0;

private:
  void add(Operation *op, std::string text, std::string below = "") {
    if (!text.empty())
      problems.push_back({op, std::move(text), std::move(below)});
  }
  void checkHeads(Operation *op, int64_t heads, int64_t kvHeads);
  bool hasBadHeads(model::LinearOp op) const;
  void checkLinear(model::LinearOp op);
  void checkLatent(model::MlaAttentionOp op);
  void checkExperts(model::ExpertsOp op);
  void checkWeight(Operation *op, Value weight);
  void checkMatrix(Operation *op, Value weight);
  void notePadding(Operation *op, ArrayRef<WeightCut> cuts,
                   StringRef below = "");
  std::vector<SplitDimension> collect(ArrayRef<WeightCut> cuts,
                                      std::vector<SplitDimension> &whole);

  const RankConfig ranks;
  const bool pad;
  int64_t kvHeads = 0;
  SplitModel model; ///< for what works for all of it
  std::vector<Problem> problems;
  llvm::DenseSet<StringAttr> badAttentions;
  PaddingNotes paddings;
  std::vector<Operation *> padded; ///< that of each note
};

} // namespace

void SplitChecker::checkHeads(Operation *op, int64_t heads, int64_t kvHeads) {
  model.heads.push_back({heads, kvHeads});
  std::string problem = describeHeads(heads, kvHeads, ranks.tp);
  if (!problem.empty())
    badAttentions.insert(op->getAttrOfType<StringAttr>("module"));
  add(op, std::move(problem));
}

/// A projection of heads that do not split, which is said once.
bool SplitChecker::hasBadHeads(model::LinearOp op) const {
  StringRef name = op.getModule();
  return badAttentions.contains(
      StringAttr::get(op.getContext(), name.take_front(name.rfind('.'))));
}

/// The dimensions to check; `whole` keeps what they are without padding.
std::vector<SplitDimension>
SplitChecker::collect(ArrayRef<WeightCut> cuts,
                      std::vector<SplitDimension> &whole) {
  std::vector<SplitDimension> dimensions;
  for (const WeightCut &cut : cuts) {
    whole.push_back(cut.dimension);
    dimensions.push_back(cut.dimension);
    if (pad)
      dimensions.back().block = 1;
  }
  return dimensions;
}

/// Each rank loads the whole blocks that it touches, and says so (W3), once
/// where the shards of a matrix are alike.
/// \param below  the matrix of an expert, or that inside an attention.
void SplitChecker::notePadding(Operation *op, ArrayRef<WeightCut> cuts,
                               StringRef below) {
  if (!pad)
    return;
  SmallVector<std::string> said;
  int64_t count = 0;
  for (LayerRun run : findLayers(findLayerOf(op)))
    count += run.end - run.begin;
  for (const WeightCut &cut : cuts) {
    std::string text = describePadding(cut.dimension, cut.cut.share.parts);
    if (text.empty() || llvm::is_contained(said, text))
      continue;
    if (paddings.add(nameModule(op) + below.str(), text,
                     std::max<int64_t>(count, 1)))
      padded.push_back(op);
    said.push_back(std::move(text));
  }
}

/// What is sliced is a whole tensor of the checkpoint.
void SplitChecker::checkWeight(Operation *op, Value weight) {
  if (!weight)
    return;
  auto source = weight.getDefiningOp<model::WeightOp>();
  if (!source)
    return add(op, "its weight is no model.weight, of which a rank could have "
                   "a part [W3]");
  if (source.getSlices() || source.getFirstExpert())
    add(op, "its weight is a part of one rank already; ranks are split once "
            "[W3]");
}

/// As checkWeight, of a matrix.
void SplitChecker::checkMatrix(Operation *op, Value weight) {
  if (!hasSides(weight))
    return add(op, "stores codes whose sides are not known, so they cannot be "
                   "split; tp=1 works [W3]");
  checkWeight(op, weight);
}

void SplitChecker::checkLinear(model::LinearOp op) {
  ++numChecked;
  if (ranks.tp == 1 || hasBadHeads(op) ||
      getSplitKind(op.getModule()) == SplitKind::Replicated)
    return;
  if (!hasSides(op.getWeight()))
    return checkMatrix(op, op.getWeight());
  SmallVector<WeightCut> cuts = getCuts(op, ranks.tp, kvHeads);
  std::string problem = describeSplit(collect(cuts, model.linears), ranks.tp);
  auto type = dyn_cast<q::TensorType>(op.getWeight().getType());
  // Each rank has a part of each group.
  const bool cutsGroups = type && type.getActOrder() &&
                          type.getGranularity().isGroup() &&
                          cuts[0].cut.side == q::Side::Cols;
  if (cutsGroups)
    model.linears.push_back({.name = "input",
                             .size = type.getGranularity().getBlockK(),
                             .block = 1,
                             .blockName = "group"});
  if (problem.empty() && cutsGroups &&
      type.getGranularity().getBlockK() % ranks.tp != 0)
    problem = "its groups of " +
              std::to_string(type.getGranularity().getBlockK()) +
              " columns in act_order are not the same for each of tp=" +
              std::to_string(ranks.tp) +
              " ranks; a tp that divides them would "
              "work [W3]";
  if (!problem.empty())
    return add(op, std::move(problem));
  checkWeight(op, op.getWeight());
  checkWeight(op, op.getBias());
  notePadding(op, cuts);
}

void SplitChecker::checkLatent(model::MlaAttentionOp op) {
  size_t before = problems.size();
  checkHeads(op, op.getHeads(), op.getHeads());
  if (ranks.tp == 1)
    return;
  if (op.getKvB().size() != 1)
    return add(op, "has the halves of kv_b_proj already; ranks are split "
                   "before weights are loaded [W12]");
  if (!hasSides(op.getKvB()[0]))
    return checkMatrix(op, op.getKvB()[0]);
  WeightCut cut = getKvBCut(op, ranks.tp);
  std::string problem = describeSplit(collect(cut, model.linears), ranks.tp);
  if (problems.size() > before)
    return;
  if (!problem.empty())
    return add(op, std::move(problem), ".kv_b_proj");
  checkWeight(op, op.getKvB()[0]);
  notePadding(op, cut, ".kv_b_proj");
}

void SplitChecker::checkExperts(model::ExpertsOp op) {
  ++numChecked;
  model.numExperts = op.getExperts();
  std::string problem = describeGroups(op.getExperts(), ranks);
  if (!problem.empty())
    return add(op, std::move(problem));
  ExpertCuts cuts = getCuts(op, ranks);
  if (!cuts.known)
    return add(op, "stores codes whose sides are not known, so they cannot be "
                   "split; tp=1 works [W3]");
  SmallVector<WeightCut> gateUp;
  for (const auto &list : cuts.gateUp)
    llvm::append_range(gateUp, list);
  size_t before = problems.size();
  const std::pair<ArrayRef<WeightCut>, const char *> matrices[] = {
      {gateUp, ".gate_up_proj"}, {cuts.down, ".down_proj"}};
  for (auto [list, name] : matrices)
    add(op,
        describeExpertSplit(collect(list, model.experts), ranks,
                            op.getExperts()),
        name);
  if (problems.size() > before)
    return;
  for (Value weight : op.getGateUp())
    checkWeight(op, weight);
  checkWeight(op, op.getDown());
  checkWeight(op, op.getGateUpBias());
  checkWeight(op, op.getDownBias());
  for (auto [list, name] : matrices)
    notePadding(op, list, name);
}

void SplitChecker::check(ModuleOp module) {
  module.walk([&](model::AttentionOp op) {
    kvHeads = op.getKvHeads();
    checkHeads(op, op.getQHeads(), op.getKvHeads());
    checkWeight(op, op.getSinks());
  });
  module.walk([&](model::MlaAttentionOp op) { checkLatent(op); });
  module.walk([&](Operation *op) {
    if (auto linear = dyn_cast<model::LinearOp>(op))
      checkLinear(linear);
    else if (auto experts = dyn_cast<model::ExpertsOp>(op))
      checkExperts(experts);
    else if (auto head = dyn_cast<model::LmHeadOp>(op))
      checkMatrix(op, head.getWeight());
    else if (auto table = dyn_cast<model::EmbeddingOp>(op))
      checkWeight(op, table.getWeight());
  });
}

/// Every violation; the last says what would work for the whole model (W3).
LogicalResult SplitChecker::report(ModuleOp module) {
  for (const Problem &problem : problems) {
    InFlightDiagnostic diag = problem.op->emitError()
                              << nameModule(problem.op) << problem.below << ": "
                              << problem.text;
    noteOtherLayers(*diag.getUnderlyingDiagnostic(), findLayerOf(problem.op));
    if (&problem == &problems.back())
      diag.attachNote(module.getLoc()) << describeWholeModel(model, ranks);
  }
  if (problems.empty())
    for (auto [op, note] : llvm::zip_equal(padded, paddings.notes))
      op->emitWarning() << note.subject << ": " << note.getText();
  return success(problems.empty());
}

namespace {
struct Shard : public octet::impl::ShardBase<Shard> {
  using ShardBase::ShardBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    model::SettingsAttr settings = model::getSettings(module);
    auto choose = [&](int64_t option, int64_t setting) {
      return option ? option : settings ? setting : 1;
    };
    RankConfig ranks{.tp = choose(tp, settings ? settings.getTp() : 1),
                     .ep = choose(ep, settings ? settings.getEp() : 1),
                     .dp = choose(dp, settings ? settings.getDp() : 1)};
    // As many as model.settings may say, so that products fit.
    std::string problem;
    for (auto [flag, value] :
         {std::pair("tp", ranks.tp), std::pair("ep", ranks.ep),
          std::pair("dp", ranks.dp)})
      if (value > INT32_MAX)
        problem = std::string("--") + flag + " " + std::to_string(value) +
                  ": expected at most 2147483647 [W3c]";
    if (problem.empty())
      problem = describeRanks(ranks);
    if (!problem.empty()) {
      module.emitError() << problem;
      return signalPassFailure();
    }
    if (ranks.tp == 1 && ranks.dp == 1)
      return markAllAnalysesPreserved();
    if (failed(checkWhole(module)))
      return signalPassFailure();
    SplitChecker checker(
        ranks, pad || (settings && settings.getSplitBlocks() == "pad"));
    checker.check(module);
    numChecked += checker.numChecked;
    if (failed(checker.report(module)))
      return signalPassFailure();
    numSharded +=
        shardModule(module, {.ranks = ranks,
                             .broadcastSelection =
                                 !settings || settings.getIndexBroadcast()});
  }

private:
  /// A module by itself has no neighbours that would join its parts.
  LogicalResult checkWhole(ModuleOp module) {
    auto info = module->getAttrOfType<DictionaryAttr>("model.info");
    auto kind = info ? info.getAs<StringAttr>("kind") : StringAttr();
    if (!kind || kind.getValue() != "module")
      return success();
    return module.emitError()
           << "--extract: one module is compiled for one rank; tp=1 and dp=1 "
              "would work [W3c]";
  }
};
} // namespace
