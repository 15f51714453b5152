//===- SlotStores.cpp - Every slot is filled once -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/SlotStores.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/LoadFunction.h"
#include "passes/ModulePaths.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringMap.h"
#include <map>

using namespace mlir;
using namespace octet;

/// The instances that a store fills; empty if they cannot be told.
static SmallVector<LayerRun> findInstances(q::StoreOp store) {
  if (Value index = store.getIndex())
    return findLayers(index);
  return {{0, 1}};
}

/// `@NAME`, or `@NAME[3]` of several instances.
static std::string nameInstance(q::SlotOp slot, int64_t index) {
  std::string name = "@" + slot.getSymName().str();
  return int64_t(slot.getCount()) > 1 ? name + "[" + std::to_string(index) + "]"
                                      : name;
}

static LogicalResult verifySlot(q::SlotOp slot, ArrayRef<q::StoreOp> stores) {
  // By the first instance; equal ones in the order of the function.
  std::multimap<int64_t, std::pair<LayerRun, q::StoreOp>> filled;
  for (q::StoreOp store : stores) {
    SmallVector<LayerRun> runs = findInstances(store);
    if (runs.empty())
      return success();
    for (const LayerRun &run : runs)
      filled.insert({run.begin, {run, store}});
  }
  SmallVector<LayerRun> runs; // without gaps between them
  for (auto &[begin, each] : filled) {
    auto &[run, store] = each;
    if (runs.empty() || run.begin > runs.back().end) {
      runs.push_back(run);
    } else if (run.begin < runs.back().end) {
      return store.emitError() << nameInstance(slot, run.begin)
                               << " is stored twice; expected one q.store for "
                                  "each weight [W6]";
    } else {
      runs.back().end = run.end;
    }
  }
  auto isMissing = [&](int64_t index) -> LogicalResult {
    return slot.emitError()
           << nameInstance(slot, index) << " is filled by no q.store of @"
           << kLoadFunction << "; expected one for each weight [W6]";
  };
  const std::optional<ArrayRef<int64_t>> used = slot.getUsed();
  if (!used) {
    // All of them, however many a file may say there are.
    const int64_t first =
        runs.empty() || runs.front().begin > 0 ? 0 : runs.front().end;
    return first < int64_t(slot.getCount()) ? isMissing(first) : success();
  }
  const LayerRun *run = runs.begin();
  for (int64_t index : *used) {
    while (run != runs.end() && run->end <= index)
      ++run;
    if (run == runs.end() || index < run->begin)
      return isMissing(index);
  }
  return success();
}

LogicalResult octet::verifySlotStores(ModuleOp module) {
  auto load = module.lookupSymbol<func::FuncOp>(kLoadFunction);
  if (!load || load.isExternal())
    return success();
  llvm::StringMap<SmallVector<q::StoreOp>> stores;
  load.walk(
      [&](q::StoreOp store) { stores[store.getSlot()].push_back(store); });
  bool refused = false;
  for (auto slot : module.getOps<q::SlotOp>())
    refused |= failed(verifySlot(slot, stores[slot.getSymName()]));
  return failure(refused);
}
