//===- Sums.cpp - Sums over the entries of a ledger -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Ledger/Ledger.h"

#include "octet/Support/Checked.h"
#include <set>

using namespace octet;

int64_t Ledger::getCacheBytes() const {
  return checkedMul(cacheBytes, maxContext).value_or(INT64_MAX);
}

int64_t LedgerSection::countLayers() const {
  int64_t count = layers.empty() ? 1 : 0;
  for (auto [first, last] : layers)
    count += last - first + 1;
  return count;
}

/// To a format of 8 bits or less: BF16 and F16 are wrong by 2^-8 at most.
static bool isNarrow(const LedgerError &error) {
  return error.ofLargest || error.relative > 0x1p-7;
}

LedgerTotals octet::sumEntries(const std::vector<LedgerEntry> &entries) {
  LedgerTotals totals;
  std::set<std::string> slots;
  for (const LedgerEntry &entry : entries) {
    if (entry.error && isNarrow(*entry.error))
      ++totals.roundings;
    if (!entry.in.empty() && !entry.out.empty() &&
        entry.in.front().dtype != entry.out.front().dtype)
      ++totals.switches;
    for (const LedgerPart &part : entry.out) {
      totals.written[part.dtype] += part.codeBytes;
      if (part.scales && part.scales->bytes)
        totals.written[part.scales->dtype] += part.scales->bytes;
      totals.writtenBytes += part.getBytes();
      if (entry.isCache)
        totals.cacheBytes += part.getBytes();
      if (entry.isMoved)
        totals.movedBytes += part.getBytes();
    }
    for (const LedgerPart &part : entry.weights) {
      // A table that several operators read is one.
      if (!part.name.empty() && !slots.insert(part.name).second)
        continue;
      totals.weightBytes += part.getBytes();
      if (!part.scales)
        continue;
      totals.weightScales += part.scales->count;
      totals.weightScaleBytes += part.scales->bytes;
    }
  }
  return totals;
}

void octet::keepReadWeights(Ledger &ledger) {
  std::set<std::string> slots;
  for (const LedgerSection &section : ledger.sections)
    for (const LedgerEntry &entry : section.entries)
      for (const LedgerPart &part : entry.weights)
        slots.insert(part.name);
  std::erase_if(ledger.weights, [&](const LedgerWeight &weight) {
    // A static scale is named behind the matrix whose input it is of.
    size_t end = weight.slot.rfind(".input_scale");
    return !slots.contains(weight.slot) &&
           (end == std::string::npos ||
            !slots.contains(weight.slot.substr(0, end)));
  });
}
