//===- Steps.cpp - Which step a rule belongs to, and what passed --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Steps.h"
#include "lib/Modules/RuleSteps.h"
#include <array>
#include <cstdio>

using namespace octet;

namespace {

constexpr std::array<std::string_view, kNumSteps> kTitles = {
    "method name",      "config fields", "target and dtype", "layers and lists",
    "shapes and split", "scales",        "kernel contracts", "numerics",
};

constexpr int kSplitStep = 5; ///< whose hint the report has

} // namespace

int octet::getStep(const ErrorInfo &error) { return getRuleStep(error.rule); }

void octet::nameSteps(CheckReport &report) {
  for (int i = 0; i < kNumSteps; ++i)
    report.steps[size_t(i)].title = kTitles[size_t(i)];
}

static std::string count(int64_t number, std::string_view noun) {
  return std::to_string(number) + " " + std::string(noun) +
         (number == 1 ? "" : "s");
}

/// "fp8, config.json: quantization_config".
static std::string describeMethod(const CheckContext &context) {
  const std::optional<QuantConfig> &config = context.decisions.config;
  if (!config && context.checkpoint && context.checkpoint->gguf)
    return "gguf: each tensor has its own type";
  if (!config)
    return "unquantised: no config declares a method";
  return config->method + (config->source.empty() ? ", as --quantization says"
                                                  : ", " + config->source);
}

static std::string describeFields(const CheckContext &context) {
  const ModuleList &list = context.decisions.list;
  std::string text = list.architecture + ", " + count(list.layers, "layer");
  const std::optional<QuantConfig> &config = context.decisions.config;
  if (config && config->scheme)
    text += ", " + describeScheme(*config->scheme);
  else if (config)
    text +=
        ", " + count(int64_t(config->groups.size()), "group") + " of modules";
  return text;
}

static std::string describeTarget(const CheckContext &context) {
  std::string text = context.target.name;
  if (context.numerics.name != context.target.name)
    text += " with the contracts of " + context.numerics.name;
  return text + ", activations " + context.dtype;
}

/// Matrices that a module of the checkpoint has: one, or those of all experts.
static int64_t countMatrices(const ModuleEntry &module) {
  return module.packed ? module.experts : module.count();
}

/// How many matrices are quantised, and how many are not.
static std::string describeDispatch(const CheckContext &context) {
  int64_t quantized = 0, plain = 0;
  for (const ModuleDecision &decision : context.decisions.modules) {
    const ModuleEntry &module = context.decisions.getModule(decision);
    if (module.k == 0)
      continue;
    bool isQuantized =
        decision.method.quantized || getPacking(decision) != Packing::None;
    (isQuantized ? quantized : plain) += countMatrices(module);
  }
  return std::to_string(quantized) + " matrices quantised, " +
         std::to_string(plain) + " not";
}

static std::string describeSplits(const CheckContext &context) {
  const RankConfig &ranks = context.options.ranks;
  std::string text = "tp=" + std::to_string(ranks.tp);
  if (ranks.ep > 1)
    text += ", ep=" + std::to_string(ranks.ep);
  if (ranks.dp > 1)
    text += ", dp=" + std::to_string(ranks.dp);
  return text + ": " + count(ranks.tp * ranks.dp, "rank");
}

static std::string describeScales(const CheckContext &context) {
  int64_t scales = 0;
  for (const ModuleDecision &decision : context.decisions.modules)
    if (decision.method.quantized && !decision.method.whileLoading)
      scales += countMatrices(context.decisions.getModule(decision));
  return scales ? count(scales, "matrix") == "1 matrix"
                      ? "1 matrix has its scales"
                      : std::to_string(scales) + " matrices have their scales"
                : "none are needed";
}

/// "255 products (fused shards and the experts of a layer are one): 252
/// fp8-block with dynamic-token-group-128; 3 unquantized". Step 4 counts what
/// is stored, an embedding too, this what is multiplied.
static std::string describeContracts(const CheckContext &context) {
  std::map<std::string, int64_t> kinds;
  for (const ModuleReport &module : context.report.modules) {
    if (module.computeDtype.empty())
      continue;
    std::string kind = module.method;
    if (module.method != "unquantized")
      kind += module.activation == "none" ? ", weights only"
                                          : " with " + module.activation;
    ++kinds[kind];
  }
  std::string text;
  int64_t products = 0;
  for (const auto &[kind, number] : kinds) {
    text += (text.empty() ? "" : "; ") + std::to_string(number) + " " + kind;
    products += number;
  }
  return count(products, "product") +
         " (fused shards and the experts of a layer are one): " + text;
}

/// The largest error of all.
static std::string describeNumerics(const CheckContext &context) {
  const NumericsReport &report = *context.report.numerics;
  std::string text = "no module is measured";
  const std::pair<std::string, double> *worst = nullptr;
  for (const auto &each : report.errors)
    if (!worst || each.second > worst->second)
      worst = &each;
  if (worst) {
    char number[32];
    std::snprintf(number, sizeof(number), "%.2g", worst->second);
    text = count(int64_t(report.errors.size()), "module") +
           ", largest relative error " + number + " in " + worst->first;
  }
  if (report.otherModules)
    text += "; " + count(report.otherModules, "module") +
            " of other formats not measured";
  return text;
}

void octet::summarize(CheckContext &context) {
  using Describe = std::string (*)(const CheckContext &);
  constexpr std::array<Describe, kNumSteps> kDescribe = {
      describeMethod, describeFields, describeTarget,    describeDispatch,
      describeSplits, describeScales, describeContracts, describeNumerics};
  int failed = kNumSteps + 1;
  for (const ErrorInfo &error : context.errors)
    failed = std::min(failed, getStep(error));
  int64_t violations = 0;
  for (ErrorInfo &error : context.errors)
    if (getStep(error) == failed) {
      ++violations;
      context.report.errors.push_back(std::move(error));
    }
  for (int number = 1; number <= kNumSteps; ++number) {
    CheckStep &step = context.report.steps[size_t(number - 1)];
    bool asked = number < kNumSteps ? number != 6 || !context.options.configOnly
                                    : context.report.numerics.has_value();
    if (number > failed)
      step.state = StepState::NotReached;
    else if (number == failed)
      step.state = StepState::Failed;
    else
      step.state = asked ? StepState::Passed : StepState::NotAsked;
    if (step.state == StepState::Passed && context.decided)
      step.summary = kDescribe[size_t(number - 1)](context);
    else if (step.state == StepState::Failed)
      step.summary = count(violations, "violation");
    else if (step.state == StepState::NotAsked)
      step.summary = number == kNumSteps ? "not asked for, --with-weights"
                                         : "not asked for, --config-only";
  }
  if (failed != kSplitStep)
    context.report.hint.clear();
  // Nothing is said of modules that could not be decided, nor of tensors that
  // those would have consumed.
  if (context.report.errors.empty())
    return;
  context.report.modules.clear();
  std::erase_if(context.report.warnings,
                [](const ErrorInfo &warning) { return warning.rule == "W14"; });
}
