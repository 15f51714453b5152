//===- Text.cpp - A ledger for a terminal ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A boundary is a line with rule, operator, dtypes, bytes and error, and below
// it what it is about:
//
//   P3 N3     quantise      BF16[6144] -> F8_E4M3[6144] + F32[48]  6336 B  …
//             self_attn.q_b_proj: FP32, s = amax / 448; block<1x128>
//
//===----------------------------------------------------------------------===//

#include "Format.h"
#include "octet/Support/Escape.h"
#include <set>

using namespace octet;

static constexpr size_t kRules = 11, kOp = 18, kValues = 50, kBytes = 8;

/// `text` and spaces to `width` columns, at least two.
static std::string pad(std::string text, size_t width) {
  text.append(text.size() + 2 > width ? 2 : width - text.size(), ' ');
  return text;
}

static std::string indent(const std::string &text) {
  return std::string(kRules, ' ') + text + "\n";
}

static std::string formatWeight(const std::string &module,
                                const LedgerPart &part) {
  std::string text = nameWeight(module, part) + " " + formatPart(part);
  if (part.scales)
    return text + ", " + part.scales->granularity + ": " +
           std::to_string(part.codeBytes) + " + " +
           std::to_string(part.scales->bytes) + " B";
  return text + ": " + std::to_string(part.codeBytes) + " B";
}

static std::string formatEntry(const LedgerEntry &entry) {
  std::string values = formatParts(entry.in);
  if (!entry.out.empty())
    values += (values.empty() ? "-> " : " -> ") + formatParts(entry.out);
  std::string bytes = std::to_string(sumBytes(entry.out)) + " B";
  bytes.insert(0, bytes.size() < kBytes ? kBytes - bytes.size() : 0, ' ');
  std::string line = pad(joinRules(entry.rules), kRules) + pad(entry.op, kOp);
  // A long boundary has a line of its own.
  if (values.size() + 2 > kValues) {
    line += values + "\n";
    values = std::string(kRules + kOp, ' ');
    line += pad(values, kRules + kOp + kValues);
  } else {
    line += pad(values, kValues);
  }
  line += bytes;
  if (entry.error)
    line += "  " + formatError(*entry.error);
  std::string about = escapeName(shortenModule(entry.module));
  if (!entry.arithmetic.empty())
    about += (about.empty() ? "" : ": ") + entry.arithmetic;
  for (const LedgerPart &part : entry.out)
    if (part.scales)
      about += "; " + part.scales->granularity;
  line += "\n";
  if (!about.empty())
    line += indent(about);
  for (const LedgerPart &part : entry.weights)
    line += indent(formatWeight(entry.module, part));
  if (entry.sumBound > 0)
    line += indent("the sum: " + formatPercent(entry.sumBound) +
                   " of the sum of magnitudes");
  for (const std::string &note : entry.notes)
    line += indent(escapeName(note));
  return line;
}

static std::string formatByDtype(const std::map<std::string, int64_t> &bytes) {
  std::string text;
  for (const auto &[dtype, count] : bytes)
    text += (text.empty() ? "" : ", ") + dtype + " " + std::to_string(count);
  return text;
}

static std::string formatTotals(const LedgerSection &section) {
  const LedgerTotals &totals = section.totals;
  std::string text = "a token   " + std::to_string(totals.roundings) +
                     " roundings to 8 bits or less, " +
                     std::to_string(totals.switches) + " changes of dtype, " +
                     std::to_string(totals.writtenBytes) + " B written (" +
                     formatByDtype(totals.written) + ")";
  if (totals.cacheBytes)
    text += ", " + std::to_string(totals.cacheBytes) + " B cached";
  if (totals.movedBytes)
    text += ", " + std::to_string(totals.movedBytes) + " B to other ranks";
  text += "\nweights   " + std::to_string(totals.weightBytes) + " B";
  if (totals.weightScales)
    text += ", in them " + std::to_string(totals.weightScales) + " scales of " +
            std::to_string(totals.weightScaleBytes) + " B";
  return text + "\n";
}

static std::string formatWeights(const Ledger &ledger) {
  std::string text = "\nLoading\n";
  for (const LedgerWeight &weight : ledger.weights) {
    text += pad(std::to_string(weight.count) + " x", kRules) +
            escapeName(weight.slot) + "  " + formatPart(weight.part) + "  " +
            std::to_string(weight.part.getBytes()) + " B\n";
    for (const LedgerRewrite &step : weight.rewrites)
      text += indent(pad(joinRules(step.rules), 8) + step.what +
                     (step.error ? ": " + formatError(*step.error) : ""));
  }
  return text;
}

/// What the errors above leave out, once a format.
static std::string formatFormats(const Ledger &ledger) {
  std::set<std::string> lines;
  auto add = [&](const std::optional<LedgerError> &error) {
    if (error && !formatErrorDetail(*error).empty())
      lines.insert(pad(error->format, kRules) + formatErrorDetail(*error) +
                   "\n");
  };
  for (const LedgerSection &section : ledger.sections)
    for (const LedgerEntry &entry : section.entries)
      add(entry.error);
  for (const LedgerWeight &weight : ledger.weights)
    for (const LedgerRewrite &step : weight.rewrites)
      add(step.error);
  std::string text;
  for (const std::string &line : lines)
    text += line;
  return text.empty() ? "" : "\nErrors\n" + text;
}

std::string octet::formatLedgerText(const Ledger &ledger) {
  std::string text;
  for (const auto &[name, value] : ledger.facts)
    text += pad(escapeName(name), 28) + escapePath(value) + "\n";
  for (const LedgerSection &section : ledger.sections) {
    std::string layers = formatLayers(section);
    text += "\n" + (layers.empty() ? "" : layers + ": ") +
            escapePath(section.title) + "\n";
    for (const LedgerEntry &entry : section.entries)
      text += formatEntry(entry);
    text += formatTotals(section);
  }
  if (!ledger.weights.empty())
    text += formatWeights(ledger);
  text += formatFormats(ledger);
  text += "\nWhole model\n"
          "weights   " +
          std::to_string(ledger.totalWeightBytes) + " B (" +
          formatByDtype(ledger.weightBytes) + ")";
  if (ledger.weightScales)
    text += ", in them " + std::to_string(ledger.weightScales) + " scales of " +
            std::to_string(ledger.weightScaleBytes) + " B";
  text += "\ncache     " + std::to_string(ledger.cacheBytes) + " B a token, " +
          std::to_string(ledger.getCacheBytes()) + " B for " +
          std::to_string(ledger.maxContext) + " tokens\n";
  text += "a token   " + std::to_string(ledger.roundings) +
          " roundings to 8 bits or less\n";
  return text;
}
