//===- Splits.cpp - Step 5: what each rank has of a module --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Heads are split or replicated (W3b), columns and rows in whole blocks, groups
// and words (W3), experts over their groups (W3c). A vocabulary that tp does
// not divide leaves the last rank short (W3b).
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Support/Checked.h"
#include <algorithm>
#include <numeric>
#include <set>

using namespace octet;

namespace {

/// Splits the units of one model.
class Splitter {
public:
  explicit Splitter(CheckContext &context)
      : context(context), ranks(context.options.ranks) {}

  void run();

private:
  void checkHeads(const Unit &unit);
  bool hasBadHeads(const Unit &unit) const;
  SplitDimension getDimension(const Part &part) const;
  void splitLinear(Unit &unit);
  void splitExperts(Unit &unit);
  void splitMatrices(const std::string &subject, std::vector<Part *> parts,
                     bool areExperts);
  void addError(const std::string &subject, const std::string &text);

  CheckContext &context;
  const RankConfig ranks;
  std::set<std::string, std::less<>> badAttentions;
  SplitModel model; ///< for the degrees that work for all of it
  PaddingNotes paddings;
  bool refused = false;
};

} // namespace

/// `text` ends with its rule in brackets, as the functions of ShardRules have
/// it.
static ErrorInfo splitRule(const std::string &subject,
                           const std::string &text) {
  ErrorInfo info;
  info.subject = subject;
  size_t bracket = text.rfind(" [");
  info.rule = text.substr(bracket + 2, text.size() - bracket - 3);
  info.message = text.substr(0, bracket);
  return info;
}

void Splitter::addError(const std::string &subject, const std::string &text) {
  context.addError(splitRule(subject, text));
  refused = true;
}

/// W3b for one attention module.
void Splitter::checkHeads(const Unit &unit) {
  const ModuleEntry *output = context.findModule(unit.path + ".o_proj");
  const int64_t kvHeads = unit.first().module->heads;
  if (!output || kvHeads <= 0)
    return;
  std::pair counts(output->heads, kvHeads);
  if (std::ranges::find(model.heads, counts) == model.heads.end())
    model.heads.push_back(counts);
  std::string problem = describeHeads(output->heads, kvHeads, ranks.tp);
  if (problem.empty())
    return;
  badAttentions.insert(unit.path);
  addError(unit.path, problem);
}

/// The module belongs to an attention whose heads do not split, which is said
/// once.
bool Splitter::hasBadHeads(const Unit &unit) const {
  if (unit.first().module->heads == 0)
    return false;
  return badAttentions.contains(unit.path.substr(0, unit.path.rfind('.')));
}

/// The dimension of a part that the ranks divide.
SplitDimension Splitter::getDimension(const Part &part) const {
  const ModuleDecision &decision = *part.decision;
  SplitAlignment alignment;
  if (decision.method.quantized && !decision.method.whileLoading)
    alignment = getSplitAlignment(toScheme(decision.method));
  // Blocks of a GGUF file lie along K.
  if (Packing packing = getPacking(decision); packing != Packing::None)
    alignment.k = packedBlockElements(packing);
  if (decision.contract.activation &&
      decision.contract.input.code == CodeType::E2M1)
    alignment.k = std::lcm(alignment.k, kFp4Columns);
  bool isBlock =
      decision.method.weight.isBlock() && !decision.method.weight.isGroup();
  if (part.isRowSplit())
    return {.name = "input",
            .size = part.module->k,
            .block = alignment.k,
            .blockName = isBlock                            ? "bk"
                         : decision.method.weight.isGroup() ? "group"
                                                            : "word"};
  bool isKv = part.name == "k_proj" || part.name == "v_proj";
  return {.name = "output",
          .size = part.module->n,
          .block = alignment.n,
          .blockName = isBlock ? "bn" : "word",
          .heads = isKv ? part.module->heads : 0};
}

static bool isOutOfOrder(const Part &part) {
  const ResolvedModule &method = part.decision->method;
  return method.quantized && method.format.actOrder && method.weight.isGroup();
}

/// W3 of rows out of order: each rank has a part of each group.
static std::string describeOrder(const std::vector<Part *> &parts,
                                 int64_t degree) {
  for (const Part *part : parts) {
    const ResolvedModule &method = part->decision->method;
    if (!isOutOfOrder(*part) || !part->isRowSplit() ||
        method.weight.blockK % degree == 0)
      continue;
    return "its groups of " + std::to_string(method.weight.blockK) +
           " columns in act_order are not the same for each of tp=" +
           std::to_string(degree) +
           " ranks; a tp that divides them would work [W3]";
  }
  return "";
}

/// W3 for matrices that are split together, and their sides on one rank.
void Splitter::splitMatrices(const std::string &subject,
                             std::vector<Part *> parts, bool areExperts) {
  std::vector<SplitDimension> dimensions;
  for (const Part *part : parts) {
    SplitDimension dimension = getDimension(*part);
    // Gate and up alternate by rows: a rank has pairs of them.
    if (part->module->packed && !part->isRowSplit())
      dimension.block *= 2;
    dimensions.push_back(dimension);
  }
  auto &all = areExperts ? model.experts : model.linears;
  all.insert(all.end(), dimensions.begin(), dimensions.end());

  // Rows out of order: each rank has a part of each group.
  for (const Part *part : parts)
    if (part->isRowSplit() && isOutOfOrder(*part))
      all.push_back({.name = "input",
                     .size = part->decision->method.weight.blockK,
                     .block = 1,
                     .blockName = "group"});

  const int64_t degree = areExperts ? ranks.getExpertDegree() : ranks.tp;
  std::vector<SplitDimension> checked = dimensions;
  if (context.options.padBlocks)
    for (SplitDimension &dimension : checked)
      dimension.block = 1;
  std::string problem =
      areExperts ? describeExpertSplit(checked, ranks, model.numExperts)
                 : describeSplit(checked, ranks.tp);
  if (problem.empty())
    problem = describeOrder(parts, degree);
  if (!problem.empty()) {
    addError(subject, problem);
    return;
  }
  std::set<std::string> said; // once where the shards are alike
  for (size_t i = 0; i < parts.size(); ++i) {
    bool rows = parts[i]->isRowSplit();
    int64_t size = dimensions[i].size / countParts(dimensions[i], degree);
    (rows ? parts[i]->k : parts[i]->n) = size;
    int64_t padded = padSplit(dimensions[i], degree);
    (rows ? parts[i]->paddedK : parts[i]->paddedN) = padded;
    std::string text = describePadding(dimensions[i], degree);
    if (!text.empty() && said.insert(text).second)
      paddings.add(subject, text);
  }
}

void Splitter::splitLinear(Unit &unit) {
  std::vector<Part *> parts;
  for (Part &part : unit.parts) {
    if (part.module->split == Split::Vocabulary)
      part.n = part.paddedN = cdiv(part.module->n, ranks.tp);
    if (part.module->split == Split::Columns ||
        part.module->split == Split::Rows)
      parts.push_back(&part);
  }
  if (!parts.empty() && !hasBadHeads(unit))
    splitMatrices(unit.path, std::move(parts), /*areExperts=*/false);
}

void Splitter::splitExperts(Unit &unit) {
  model.numExperts = unit.first().module->experts;
  if (std::string problem = describeGroups(model.numExperts, ranks);
      !problem.empty()) {
    addError(unit.path, problem);
    return;
  }
  unit.localExperts = model.numExperts / ranks.ep;
  for (bool rows : {false, true}) {
    std::vector<Part *> parts;
    for (Part &part : unit.parts)
      if (part.isRowSplit() == rows)
        parts.push_back(&part);
    if (parts.empty())
      continue;
    std::string name(parts.front()->name);
    if (parts.size() > 1) {
      const std::string &fused = parts.front()->module->fused;
      name = fused.substr(fused.rfind('.') + 1);
    }
    splitMatrices(unit.path + "." + name, std::move(parts),
                  /*areExperts=*/true);
  }
}

void Splitter::run() {
  if (std::string problem = describeRanks(ranks); !problem.empty()) {
    // "--ep 3: does not …"
    size_t colon = problem.find(": ");
    addError(problem.substr(0, colon), problem.substr(colon + 2));
    return;
  }
  for (const Unit &unit : context.units)
    if (unit.kind == ModuleKind::Attention)
      checkHeads(unit);
  for (Unit &unit : context.units)
    if (unit.isExperts())
      splitExperts(unit);
    else
      splitLinear(unit);
  for (const PaddingNotes::Note &note : paddings.notes)
    context.report.notes.push_back(splitRule(note.subject, note.getText()));
  if (refused)
    context.report.hint = describeWholeModel(model, ranks);
}

void octet::splitUnits(CheckContext &context) { Splitter(context).run(); }
