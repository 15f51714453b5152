//===- Json.cpp - A ledger for programs -----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Ledger/Ledger.h"

#include <nlohmann/json.hpp>

using namespace octet;
using Json = nlohmann::ordered_json;

static Json toJson(const LedgerScales &scales) {
  return {{"granularity", scales.granularity},
          {"dtype", scales.dtype},
          {"shape", scales.shape},
          {"count", scales.count},
          {"bytes", scales.bytes},
          {"power_of_two", scales.powerOfTwo},
          {"static", scales.isStatic}};
}

static Json toJson(const LedgerPart &part) {
  Json json;
  if (!part.name.empty())
    json["name"] = part.name;
  json["dtype"] = part.dtype;
  json["shape"] = part.shape;
  json["elements"] = part.elements;
  json["code_bytes"] = part.codeBytes;
  if (part.scales)
    json["scales"] = toJson(*part.scales);
  json["bytes"] = part.getBytes();
  return json;
}

static Json toJson(const std::vector<LedgerPart> &parts) {
  Json json = Json::array();
  for (const LedgerPart &part : parts)
    json.push_back(toJson(part));
  return json;
}

static Json toJson(const LedgerError &error) {
  Json json = {{"format", error.format},
               {"of", error.ofLargest ? "largest" : "value"},
               {"at_most", error.relative},
               {"rms", error.rms}};
  if (error.normalFrom > 0) {
    json["normal_from"] = error.normalFrom;
    json["absolute"] = error.absolute;
  }
  return json;
}

static Json toJson(const LedgerEntry &entry) {
  Json json = {{"rules", entry.rules},           {"op", entry.op},
               {"module", entry.module},         {"in", toJson(entry.in)},
               {"arithmetic", entry.arithmetic}, {"out", toJson(entry.out)}};
  int64_t bytes = 0;
  for (const LedgerPart &part : entry.out)
    bytes += part.getBytes();
  json["bytes"] = bytes;
  if (!entry.weights.empty())
    json["weights"] = toJson(entry.weights);
  if (entry.error)
    json["error"] = toJson(*entry.error);
  if (entry.sumBound > 0)
    json["sum_bound"] = entry.sumBound;
  if (entry.isCache)
    json["cache"] = true;
  if (entry.isMoved)
    json["moved"] = true;
  if (!entry.notes.empty())
    json["notes"] = entry.notes;
  return json;
}

static Json toJson(const LedgerTotals &totals) {
  return {{"roundings", totals.roundings},
          {"dtype_changes", totals.switches},
          {"written", totals.written},
          {"written_bytes", totals.writtenBytes},
          {"cache_bytes", totals.cacheBytes},
          {"moved_bytes", totals.movedBytes},
          {"weight_bytes", totals.weightBytes},
          {"weight_scales", totals.weightScales},
          {"weight_scale_bytes", totals.weightScaleBytes}};
}

static Json toJson(const LedgerSection &section) {
  Json json = {{"kind", section.kind}, {"title", section.title}};
  if (!section.layers.empty()) {
    json["layers"] = section.layers;
    json["layer_count"] = section.countLayers();
  }
  json["boundaries"] = Json::array();
  for (const LedgerEntry &entry : section.entries)
    json["boundaries"].push_back(toJson(entry));
  json["totals"] = toJson(section.totals);
  return json;
}

static Json toJson(const LedgerWeight &weight) {
  Json json = {{"slot", weight.slot},
               {"tensors", weight.tensors},
               {"count", weight.count},
               {"weight", toJson(weight.part)},
               {"rewrites", Json::array()}};
  for (const LedgerRewrite &step : weight.rewrites) {
    Json one = {{"rules", step.rules}, {"what", step.what}};
    if (step.error)
      one["error"] = toJson(*step.error);
    json["rewrites"].push_back(std::move(one));
  }
  return json;
}

std::string octet::formatLedgerJson(const Ledger &ledger) {
  Json json;
  json["facts"] = Json::object();
  for (const auto &[name, value] : ledger.facts)
    json["facts"][name] = value;
  json["sections"] = Json::array();
  for (const LedgerSection &section : ledger.sections)
    json["sections"].push_back(toJson(section));
  json["weights"] = Json::array();
  for (const LedgerWeight &weight : ledger.weights)
    json["weights"].push_back(toJson(weight));
  json["totals"] = {{"weights", ledger.weightBytes},
                    {"weight_bytes", ledger.totalWeightBytes},
                    {"weight_scales", ledger.weightScales},
                    {"weight_scale_bytes", ledger.weightScaleBytes},
                    {"cache_bytes_per_token", ledger.cacheBytes},
                    {"max_context", ledger.maxContext},
                    {"cache_bytes", ledger.getCacheBytes()},
                    {"roundings_per_token", ledger.roundings}};
  // Names of a checkpoint need not be UTF-8.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}
