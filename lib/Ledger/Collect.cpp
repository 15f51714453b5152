//===- Collect.cpp - The ledger of a module -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Ledger/Collect.h"

#include "Loading.h"
#include "Operators.h"
#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "octet/Support/Checked.h"
#include "passes/ModulePaths.h"

using namespace mlir;
using namespace octet;

//===----------------------------------------------------------------------===//
// Facts
//===----------------------------------------------------------------------===//

/// A field of the quantisation config on one line: long lists are counted.
static std::string describeField(Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return text.str();
  if (auto list = dyn_cast<ArrayAttr>(value)) {
    if (llvm::any_of(list, [](Attribute each) {
          return !isa<IntegerAttr, FloatAttr>(each);
        }))
      return std::to_string(list.size()) +
             (list.size() == 1 ? " entry" : " entries");
    std::string text;
    for (Attribute each : list)
      text += (text.empty() ? "[" : ", ") + describeField(each);
    return text.empty() ? "[]" : text + "]";
  }
  if (auto number = dyn_cast<IntegerAttr>(value))
    return number.getType().isInteger(1)
               ? (number.getValue().isZero() ? "false" : "true")
               : std::to_string(number.getInt());
  if (isa<UnitAttr>(value))
    return "null";
  if (auto fields = dyn_cast<DictionaryAttr>(value))
    return std::to_string(fields.size()) + " fields";
  return print(value);
}

static void collectFacts(ModuleOp module, Ledger &ledger) {
  auto add = [&](StringRef name, std::string value) {
    if (!value.empty())
      ledger.facts.emplace_back(name.str(), std::move(value));
  };
  if (auto info = module->getAttrOfType<DictionaryAttr>("model.info"))
    for (StringRef name : {"architecture", "checkpoint"})
      if (auto text = info.getAs<StringAttr>(name))
        add(name, text.str());
  if (model::SettingsAttr settings = model::getSettings(module)) {
    add("target", settings.getTarget().str());
    if (settings.getNumerics() != settings.getTarget())
      add("numerics of", settings.getNumerics().str());
    add("activations", print(settings.getDtype()));
    add("ranks", "tp " + std::to_string(settings.getTp()) + ", ep " +
                     std::to_string(settings.getEp()) + ", dp " +
                     std::to_string(settings.getDp()));
    ledger.maxContext = settings.getMaxContext();
  }
  auto config = module->getAttrOfType<q::ConfigAttr>("q.config");
  add("quantisation", config ? config.getSource().str() : "none declared");
  if (config)
    for (NamedAttribute field : config.getFields())
      add(field.getName(), describeField(field.getValue()));
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

/// "latent attention with an indexer, experts" of a layer function.
static std::string describeLayer(func::FuncOp function) {
  std::string attention, mlp = "dense MLP";
  function.walk([&](Operation *op) {
    if (auto grouped = dyn_cast<model::AttentionOp>(op)) {
      attention = grouped.getKvHeads() < grouped.getQHeads()
                      ? "grouped-query attention"
                      : "multi-head attention";
      if (grouped.getWindow())
        attention += " with a window of " + std::to_string(grouped.getWindow());
    } else if (auto latent = dyn_cast<model::MlaAttentionOp>(op)) {
      attention = "latent attention";
      if (Value rows = latent.getSelected())
        attention += isa<BlockArgument>(rows) ? " with an earlier layer's rows"
                                              : " with an indexer";
    } else if (isa<model::ExpertsOp>(op)) {
      mlp = "experts";
    }
  });
  return attention.empty() ? mlp : attention + ", " + mlp;
}

namespace {
/// Cuts what a token passes into sections.
class Walker {
public:
  explicit Walker(Ledger &ledger) : ledger(ledger) {}

  Status walkRoot(func::FuncOp root) {
    // A draft layer is a root of its own (W14).
    bool isDraft = root.getSymName().starts_with("draft");
    std::string prefix = isDraft ? root.getSymName().str() + ": " : "";
    begin(isDraft ? "draft" : "embedding", prefix + "before the layers");
    hasLayers = false;
    OCTET_TRY(walkBlock(root.getBody().front()));
    // What comes last is the head, unless it is all there is.
    if (!hasLayers) {
      current.kind = "module";
      current.title = root.getSymName().str();
    } else {
      current.kind = isDraft ? "draft" : "head";
      current.title = prefix + "behind the layers";
    }
    end();
    return Status::success();
  }

private:
  void begin(std::string kind, std::string title) {
    current = {};
    current.kind = std::move(kind);
    current.title = std::move(title);
  }

  void end() {
    if (current.entries.empty())
      return;
    current.totals = sumEntries(current.entries);
    ledger.sections.push_back(std::move(current));
  }

  Status walkBlock(Block &block) {
    for (Operation &op : block) {
      if (auto loop = dyn_cast<scf::ForOp>(op)) {
        OCTET_TRY(walkBlock(*loop.getBody()));
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        OCTET_TRY(walkCall(call));
      } else {
        OCTET_TRY(addBoundaries(&op, current.entries));
      }
    }
    return Status::success();
  }

  Status walkCall(func::CallOp call) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    if (!callee || callee.empty())
      return Status::success();
    end();
    hasLayers = true;
    if (!seen.insert(callee).second) {
      begin("between", "between layers");
      return Status::success();
    }
    begin("layer", describeLayer(callee));
    if (callee.getNumArguments())
      for (const LayerRun &run : findLayers(callee.getArgument(0)))
        current.layers.emplace_back(run.begin, run.end - 1);
    OCTET_TRY(walkBlock(callee.getBody().front()));
    end();
    begin("between", "between layers");
    return Status::success();
  }

  Ledger &ledger;
  LedgerSection current;
  bool hasLayers = false; ///< the root called a layer
  llvm::DenseSet<func::FuncOp> seen;
};
} // namespace

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Adds `value` `count` times; sizes of a hostile checkpoint saturate.
static void addTimes(int64_t &sum, int64_t value, int64_t count) {
  std::optional<int64_t> product = checkedMul(value, count);
  sum =
      (product ? checkedAdd(sum, *product) : std::nullopt).value_or(INT64_MAX);
}

static void sumModel(Ledger &ledger) {
  for (const LedgerWeight &weight : ledger.weights) {
    const LedgerPart &part = weight.part;
    addTimes(ledger.weightBytes[part.dtype], part.codeBytes, weight.count);
    addTimes(ledger.totalWeightBytes, part.getBytes(), weight.count);
    if (!part.scales)
      continue;
    addTimes(ledger.weightBytes[part.scales->dtype], part.scales->bytes,
             weight.count);
    addTimes(ledger.weightScales, part.scales->count, weight.count);
    addTimes(ledger.weightScaleBytes, part.scales->bytes, weight.count);
  }
  for (const LedgerSection &section : ledger.sections) {
    int64_t layers = section.countLayers();
    addTimes(ledger.cacheBytes, section.totals.cacheBytes, layers);
    addTimes(ledger.roundings, section.totals.roundings, layers);
  }
}

Result<Ledger> octet::collectLedger(ModuleOp module) {
  Ledger ledger;
  collectFacts(module, ledger);
  Walker walker(ledger);
  bool isStep = false;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate() || function.empty() ||
        function.getSymName() == "load")
      continue;
    isStep = true;
    OCTET_TRY(walker.walkRoot(function));
  }
  if (!isStep)
    return internalError("octet ledger", "the module has no @step");
  ledger.weights = collectWeights(module);
  sumModel(ledger);
  return ledger;
}
