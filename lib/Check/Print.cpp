//===- Print.cpp - A report as JSON and as text -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Check/Check.h"
#include "octet/Checkpoint/Checkpoint.h"
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unordered_map>

using namespace octet;

using Json = nlohmann::ordered_json;

/// Most instances of one mistake that are printed (STYLE 7).
static constexpr size_t kShown = 10;

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

/// \param prefix  "" or "w13_", of the keys.
static void addMatrix(Json &json, const MatrixReport &matrix,
                      const std::string &prefix = "") {
  json[prefix + "weight_dtype"] = matrix.weightDtype;
  json[prefix + "weight_shape"] = matrix.weightShape;
  if (!matrix.scaleDtype.empty()) {
    json[prefix + "scale_dtype"] = matrix.scaleDtype;
    json[prefix + "scale_shape"] = matrix.scaleShape;
  }
  if (matrix.zerosShape)
    json[prefix + "zeros_shape"] = *matrix.zerosShape;
  if (matrix.paddedShape)
    json[prefix + "padded_shape"] = *matrix.paddedShape;
}

static Json toJson(const KvReport &kv) {
  Json json = {{"dtype", kv.dtype},
               {"layout", kv.layout},
               {"bytes_per_token", kv.bytesPerToken}};
  if (kv.indexBytesPerToken)
    json["index_bytes_per_token"] = kv.indexBytesPerToken;
  if (kv.kScale && kv.vScale) {
    json["k_scale"] = *kv.kScale;
    json["v_scale"] = *kv.vScale;
    json["source"] = kv.source;
  }
  return json;
}

static Json toJson(const ModuleReport &module) {
  if (module.kv)
    return {{"kv_cache", toJson(*module.kv)}};
  if (!module.storageDtype.empty())
    return {{"storage_dtype", module.storageDtype},
            {"shape", module.matrix.weightShape}};
  Json json = {{"method", module.method}};
  if (module.w13 || module.w2) {
    json["num_local_experts"] = module.localExperts;
    const MatrixReport &any = module.w13 ? *module.w13 : *module.w2;
    json["weight_dtype"] = any.weightDtype;
    if (!any.scaleDtype.empty())
      json["scale_dtype"] = any.scaleDtype;
    if (module.w13)
      addMatrix(json, *module.w13, "w13_");
    if (module.w2)
      addMatrix(json, *module.w2, "w2_");
  } else {
    addMatrix(json, module.matrix);
  }
  if (!module.scaleFormat.empty())
    json["scale_format"] = module.scaleFormat;
  if (module.groupSize)
    json["group_size"] = module.groupSize;
  json["activation"] = module.activation;
  if (!module.computeDtype.empty())
    json["compute_dtype"] = module.computeDtype;
  json["parallel"] = module.parallel;
  if (module.absorbed)
    json["absorbed"] = {{"w_kc_shape", module.absorbed->first},
                        {"w_vc_shape", module.absorbed->second}};
  if (!module.tiedTo.empty())
    json["tied_to"] = module.tiedTo;
  for (const auto &[name, matrix] : module.shards)
    addMatrix(json["shards"][name], matrix);
  return json;
}

static Json toJson(const MemoryReport &memory) {
  Json json = {{"weights", memory.weights},
               {"weight_bytes", memory.weightBytes},
               {"kv_bytes_per_token", memory.kvBytesPerToken},
               {"max_context", memory.maxContext},
               {"max_seqs", memory.maxSeqs},
               {"max_step_tokens", memory.maxStepTokens},
               {"kv_bytes", memory.kvBytes},
               {"workspace_bytes", memory.workspaceBytes},
               {"is_estimate", memory.isEstimate},
               {"load_bytes", memory.loadBytes},
               {"total_bytes", memory.getTotal()}};
  if (memory.deviceBytes) {
    json["device_bytes"] = *memory.deviceBytes;
    json["fitting_tokens"] = memory.fittingTokens;
  }
  return json;
}

/// `SUBJECT: text [RULE]`.
static std::string formatLine(const ErrorInfo &info) {
  return info.subject + ": " + info.message +
         (info.rule.empty() ? "" : " [" + info.rule + "]");
}

static Json toLines(const std::vector<ErrorInfo> &infos) {
  Json lines = Json::array();
  for (const ErrorInfo &info : infos)
    lines.push_back(formatLine(info));
  return lines;
}

static std::string_view nameState(StepState state) {
  switch (state) {
  case StepState::Passed:
    return "passed";
  case StepState::Failed:
    return "failed";
  case StepState::NotReached:
    return "not reached";
  case StepState::NotAsked:
    return "not asked for";
  }
  return "";
}

std::string octet::formatCheckJson(const CheckReport &report) {
  Json json = {{"outcome", report.accepted() ? "accept" : "reject"}};
  for (const CheckStep &step : report.steps) {
    Json each = {{"title", step.title}, {"state", nameState(step.state)}};
    if (!step.summary.empty())
      each["summary"] = step.summary;
    json["steps"].push_back(std::move(each));
  }
  // An object in order looks each key up from its start; paths are unique, and
  // there may be 100,000.
  std::unordered_map<std::string_view, double> relativeErrors;
  if (report.numerics)
    for (const auto &[module, error] : report.numerics->errors)
      relativeErrors.emplace(module, error);
  Json::object_t layers;
  layers.reserve(report.modules.size());
  for (const ModuleReport &module : report.modules) {
    Json each = toJson(module);
    auto error = relativeErrors.find(module.path);
    if (error != relativeErrors.end())
      each["relative_error"] = error->second;
    layers.push_back({module.path, std::move(each)});
  }
  json["layers"] = std::move(layers);
  json["warnings"] = toLines(report.warnings);
  json["notes"] = toLines(report.notes);
  json["errors"] = toLines(report.errors);
  if (!report.hint.empty())
    json["hint"] = report.hint;
  if (report.memory)
    json["memory"] = toJson(*report.memory);
  // Names of files may have any bytes.
  return json.dump(1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// "7.2 GB (7,168 …)": a short and the exact number.
static std::string formatBytes(int64_t bytes) {
  constexpr std::array kUnits = {"B", "kB", "MB", "GB", "TB"};
  double value = double(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < kUnits.size(); ++unit)
    value /= 1000;
  char text[64];
  if (unit == 0)
    return std::to_string(bytes) + " B";
  std::snprintf(text, sizeof(text), "%.2f %s", value, kUnits[unit]);
  return std::string(text) + " (" + std::to_string(bytes) + " bytes)";
}

static std::string formatMemory(const MemoryReport &memory) {
  std::string text = "\nmemory of a rank\n";
  auto add = [&](std::string name, const std::string &value) {
    name.resize(21, ' ');
    text += "  " + name + value + "\n";
  };
  const char *how = memory.isEstimate ? ", estimated" : "";
  add("weights", formatBytes(memory.weightBytes) + how);
  for (const auto &[dtype, bytes] : memory.weights)
    add("  " + dtype, formatBytes(bytes));
  add("KV cache", formatBytes(memory.kvBytes));
  add("  a token", std::to_string(memory.kvBytesPerToken) + " B, " +
                       std::to_string(memory.maxSeqs) + " sequences of " +
                       std::to_string(memory.maxContext) + " tokens");
  add("workspace", formatBytes(memory.workspaceBytes) + how);
  add("together", formatBytes(memory.getTotal()));
  add("while loading", memory.loadBytes ? formatBytes(memory.loadBytes) +
                                              ", for " + memory.loadModule
                                        : std::string("nothing more"));
  if (memory.deviceBytes) {
    add("device", formatBytes(*memory.deviceBytes));
    add("  room for", std::to_string(memory.fittingTokens) +
                          " tokens of KV cache, all sequences together");
  }
  return text;
}

std::string octet::formatCheckText(const CheckReport &report, bool colour) {
  std::string text;
  // Nothing was reached where the checkpoint cannot be read.
  if (report.steps.front().state == StepState::NotReached)
    return text;
  for (size_t i = 0; i < report.steps.size(); ++i) {
    const CheckStep &step = report.steps[i];
    std::string title(step.title), word = "-";
    title.resize(24, ' ');
    std::string_view code;
    if (step.state == StepState::Passed) {
      word = "ok";
      code = "\x1b[32m";
    } else if (step.state == StepState::Failed) {
      word = "failed";
      code = "\x1b[31m";
    }
    word.resize(8, ' ');
    if (colour && !code.empty())
      word = std::string(code) + word + "\x1b[0m";
    std::string line = std::to_string(i + 1) + "  " + title + word;
    line += step.summary.empty() && step.state != StepState::Passed
                ? std::string(nameState(step.state))
                : step.summary;
    text += line + "\n";
  }
  if (report.memory)
    text += formatMemory(*report.memory);
  return text;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// What instances of one mistake share: the text without numbers and quoted
/// names.
static std::string getKind(const ErrorInfo &info) {
  std::string kind = info.rule + " ";
  bool quoted = false;
  for (char c : info.message) {
    if (c == '\'')
      quoted = !quoted;
    if (!quoted && !(c >= '0' && c <= '9'))
      kind += c;
  }
  return kind;
}

/// The number after `layers.` in a module's path; -1 without one.
static int64_t findLayer(std::string_view path) {
  constexpr std::string_view kLayers = "layers.";
  size_t at = path.find(kLayers);
  if (at == path.npos)
    return -1;
  std::string_view digits = path.substr(at + kLayers.size());
  int64_t layer = -1;
  auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  bool isWhole = end == digits.data() + digits.size() || *end == '.';
  return error == std::errc() && isWhole ? layer : -1;
}

/// The line with `{l}` for its own layer, which is what layers share.
static std::string generalize(const ErrorInfo &info, int64_t layer) {
  std::string line = formatLine(info);
  const std::string own = "layers." + std::to_string(layer) + ".";
  for (size_t at = 0; (at = line.find(own, at)) != line.npos;)
    line.replace(at, own.size(), "layers.{l}.");
  return line;
}

/// "the same in layers 1 to 3 and 5", of ascending numbers.
static std::string describeLayers(const std::vector<int64_t> &layers) {
  std::vector<std::string> runs;
  for (size_t i = 0, end; i < layers.size(); i = end) {
    for (end = i + 1;
         end < layers.size() && layers[end] - layers[i] == int64_t(end - i);)
      ++end;
    runs.push_back(std::to_string(layers[i]));
    if (end - i > 1)
      runs.back() += " to " + std::to_string(layers[end - 1]);
  }
  std::string text =
      std::string("the same in layer") + (layers.size() > 1 ? "s " : " ");
  for (size_t i = 0; i < runs.size(); ++i)
    text += (i == 0 ? "" : i + 1 == runs.size() ? " and " : ", ") + runs[i];
  return text;
}

namespace {
/// A message, and the further layers that it is true of.
struct Instance {
  const ErrorInfo *info;
  std::vector<int64_t> layers;
};
} // namespace

/// One of each message that only layers tell apart, in the order of the first.
static std::vector<Instance> mergeLayers(const std::vector<ErrorInfo> &infos) {
  std::vector<Instance> instances;
  std::unordered_map<std::string, size_t> seen;
  for (const ErrorInfo &info : infos) {
    const int64_t layer = findLayer(info.subject);
    auto [found, isNew] =
        layer < 0 ? std::pair(seen.end(), true)
                  : seen.try_emplace(generalize(info, layer), instances.size());
    if (isNew)
      instances.push_back({&info, {}});
    else
      instances[found->second].layers.push_back(layer);
  }
  for (Instance &instance : instances) {
    std::vector<int64_t> &layers = instance.layers;
    std::ranges::sort(layers);
    layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
    std::erase(layers, findLayer(instance.info->subject));
  }
  return instances;
}

/// One of each kind, in the order of the first, with notes for its others.
static std::vector<ErrorInfo> groupKinds(const std::vector<ErrorInfo> &infos) {
  std::vector<ErrorInfo> groups;
  std::vector<std::pair<std::string, size_t>> kinds; ///< and how many further
  std::vector<std::vector<std::string>> own;         ///< notes of the first
  for (const auto &[each, layers] : mergeLayers(infos)) {
    const ErrorInfo &info = *each;
    const std::string others = layers.empty() ? "" : describeLayers(layers);
    std::string kind = getKind(info);
    size_t at = 0;
    while (at < kinds.size() && kinds[at].first != kind)
      ++at;
    if (at == kinds.size()) {
      kinds.emplace_back(std::move(kind), 0);
      groups.push_back(info);
      own.push_back(std::move(groups.back().notes));
      groups.back().notes.clear();
      if (!others.empty())
        groups.back().notes.push_back(others);
      continue;
    }
    if (kinds[at].second++ < kShown)
      groups[at].notes.push_back(info.subject + ": " + info.message +
                                 (others.empty() ? "" : "; " + others));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    std::vector<std::string> &notes = groups[i].notes;
    if (kinds[i].second > kShown)
      notes.push_back("and " + std::to_string(kinds[i].second - kShown) +
                      " more");
    // Notes of instances are alike: those of the first.
    notes.insert(notes.end(), own[i].begin(), own[i].end());
  }
  return groups;
}

std::string octet::formatCheckMessages(const CheckReport &report) {
  std::string text;
  for (const ErrorInfo &error : groupKinds(report.errors))
    text += error.format();
  if (!report.hint.empty())
    text += "note:  " + report.hint + "\n";
  auto addAll = [&](std::string_view label,
                    const std::vector<ErrorInfo> &infos) {
    for (const ErrorInfo &info : groupKinds(infos)) {
      text += std::string(label) + ": " + formatLine(info) + "\n";
      for (const std::string &note : info.notes)
        text += "note:  " + note + "\n";
    }
  };
  addAll("warning", report.warnings);
  addAll("note", report.notes);
  return text;
}
