//===- Module.cpp - The method of one module ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "Resolve.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <array>

using namespace octet;

std::string StoredTensor::describe() const {
  std::string text(packing == Packing::None ? storedTypeName(type)
                                            : packingName(packing));
  text += " [";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool octet::isKnownLinearTensor(std::string_view name) {
  // `input_scale` belongs to static activations only: expectTensors has it.
  return name == "weight" || name == "bias" || name == "weight_scale" ||
         name == "weight_scale_inv";
}

//===----------------------------------------------------------------------===//
// What the config says
//===----------------------------------------------------------------------===//

/// What the first pattern that matches says; empty without one. Those behind it
/// count as matched too. Without an order entries that say different things of
/// one module are refused rather than guessed at (C7).
static Result<std::string> declareByPattern(QuantConfig &config,
                                            std::string_view module,
                                            std::string_view fused) {
  const SchemeGroup *first = nullptr;
  std::string declared, text;
  const bool isRules =
      config.method == "gptq" || config.method == "gptq_marlin";
  for (SchemeGroup &group : config.groups) {
    OCTET_TRY_ASSIGN(const NameEntry *entry,
                     group.patterns.match(module, fused));
    if (!entry)
      continue;
    if (!first) {
      first = &group;
      text = entry->getText();
      declared = group.skips ? "ignored: " + entry->describe()
                             : "group: " + group.name;
      continue;
    }
    if (!isRules)
      break;
    if (config.ordered || (first->skips == group.skips &&
                           first->scheme.weight == group.scheme.weight &&
                           first->scheme.format == group.scheme.format))
      continue;
    return inputError(std::string(module),
                      "matches " + quoteName(text) + " and " +
                          quoteName(entry->getText()) +
                          ", which say different things; the order of the "
                          "entries of dynamic is not known, expected one that "
                          "matches",
                      "C7");
  }
  return declared;
}

Result<std::string> octet::declareModule(QuantConfig &config,
                                         std::string_view module,
                                         std::string_view fused,
                                         bool fusedIsStored) {
  if (fusedIsStored)
    fused = "";
  OCTET_TRY_ASSIGN(const NameEntry *ignored,
                   config.ignore.match(module, fused));
  if (ignored)
    return "ignored: " + ignored->describe();
  if (config.groups.empty())
    return std::string();
  // The most specific target wins: path, then pattern, then class (FORMATS).
  for (SchemeGroup &group : config.groups) {
    OCTET_TRY_ASSIGN(const NameEntry *entry, group.paths.match(module, fused));
    if (entry)
      return "group: " + group.name;
  }
  OCTET_TRY_ASSIGN(std::string declared,
                   declareByPattern(config, module, fused));
  if (!declared.empty())
    return declared;
  for (const SchemeGroup &group : config.groups)
    if (group.allLinears)
      return "group: " + group.name;
  // Groups beside a scheme are exceptions to it.
  return std::string(config.scheme ? "" : "no group");
}

Result<Declaration> octet::declareKind(QuantConfig &config,
                                       std::string_view module,
                                       std::string_view fused, ModuleKind kind,
                                       bool fusedIsStored) {
  Declaration result;
  OCTET_TRY_ASSIGN(result.declared,
                   declareModule(config, module, fused, fusedIsStored));
  bool asks = kind == ModuleKind::Linear || kind == ModuleKind::RoutedExpert ||
              kind == ModuleKind::LmHead;
  if (!asks || result.declared.starts_with("ignored"))
    return result; // C11: anything else is unquantised
  constexpr std::string_view kGroup = "group: ";
  if (result.declared.starts_with(kGroup)) {
    std::string_view name =
        std::string_view(result.declared).substr(kGroup.size());
    if (const SchemeGroup *group = config.findGroup(name))
      result.scheme = group->scheme;
    return result;
  }
  if (!config.scheme || result.declared == "no group")
    return result;
  if (config.expertsOnly && kind != ModuleKind::RoutedExpert)
    return result; // C12
  if (kind == ModuleKind::LmHead && !config.lmHead)
    return result; // P16
  result.scheme = config.scheme;
  return result;
}

//===----------------------------------------------------------------------===//
// What follows for the module
//===----------------------------------------------------------------------===//

static bool hasWeightScale(const ModuleFacts &facts) {
  return facts.tensors.contains("weight_scale") ||
         facts.tensors.contains("weight_scale_inv");
}

static ErrorInfo makeNote(const ModuleFacts &facts, std::string message) {
  ErrorInfo note;
  note.subject = facts.module;
  note.message = std::move(message);
  note.rule = "C13";
  return note;
}

/// A weight in a plain dtype: unquantised, or quantised while loading (W10).
static Result<ResolvedModule> resolvePlain(const QuantConfig *config,
                                           const ModuleFacts &facts,
                                           const StoredTensor &weight) {
  if (hasWeightScale(facts)) {
    std::string_view name = facts.tensors.contains("weight_scale")
                                ? "weight_scale"
                                : "weight_scale_inv";
    return inputError(
        facts.module,
        "has '" + std::string(name) + "' " +
            facts.tensors.find(name)->second.describe() +
            " but its weight is " + weight.describe() +
            "; a scale belongs to a quantised weight, such as F8_E4M3",
        "C13");
  }
  ResolvedModule result = resolveUnquantized();
  bool listed = facts.declared.starts_with("ignored");
  if (!config || listed || facts.isLmHead)
    return result;
  if (config->expertsOnly && !facts.isExpert)
    return result; // C12
  if (!config->serialized) {
    result.quantized = true;
    result.whileLoading = true;
    result.method = config->method;
    result.weight = Granularity::perChannel();
    result.activation =
        config->scheme ? config->scheme->activation : Activation::Dynamic;
    if (result.activation == Activation::Static &&
        !facts.tensors.contains("input_scale"))
      return inputError(facts.module,
                        "no 'input_scale', which activation_scheme 'static' "
                        "reads, for its " +
                            std::string(storedTypeName(weight.type)) +
                            " weight that is quantised while loading; "
                            "activation_scheme 'dynamic' needs none",
                        "W10");
    return result;
  }
  bool quantizesLinears = config->scheme || !config->groups.empty();
  if (quantizesLinears && facts.declared != "no group")
    result.notes.push_back(makeNote(
        facts, "is stored in " + std::string(storedTypeName(weight.type)) +
                   " without scales and stays unquantised, though no "
                   "list names it"));
  return result;
}

/// The dtype of the codes, under any name that a method has for them.
static StoredType getStoredType(const ModuleFacts &facts) {
  for (std::string_view name :
       {"weight", "weight_packed", "qweight", "_blocks"})
    if (auto found = facts.tensors.find(name); found != facts.tensors.end())
      return found->second.type;
  return facts.tensors.empty() ? StoredType::BF16
                               : facts.tensors.begin()->second.type;
}

/// An FP8 format of checkpoints; all but E4M3FN are converted on load (N8).
static bool isFloat8(StoredType type) {
  return type == StoredType::F8_E4M3 || type == StoredType::F8_E5M2 ||
         type == StoredType::F8_E4M3FNUZ || type == StoredType::F8_E5M2FNUZ;
}

/// The scheme that the config gives this module, or the error that it gives
/// none.
static Result<Scheme> findScheme(const QuantConfig *config,
                                 ResolvedModule &result,
                                 const ModuleFacts &facts) {
  const StoredType stored = getStoredType(facts);
  std::string type(storedTypeName(stored));
  bool isFp8 = isFloat8(stored);
  if (!config)
    return inputError(facts.module,
                      "weight is " + type +
                          " but the checkpoint declares no "
                          "quantisation method; a quantization_config" +
                          (isFp8 ? ", or '--quantization fp8'" : ""),
                      "C13");
  if (!config->serialized && isFp8) // only the user named the method
    return Scheme{Granularity::perTensor(), /*anyGranularity=*/true,
                  Activation::Dynamic};
  constexpr std::string_view kGroup = "group: ";
  if (facts.declared.starts_with(kGroup)) {
    std::string_view name =
        std::string_view(facts.declared).substr(kGroup.size());
    if (const SchemeGroup *group = config->findGroup(name))
      return group->scheme;
  }
  bool listed = facts.declared.starts_with("ignored");
  if (listed) {
    if (isFp8 && !hasWeightScale(facts))
      return inputError(facts.module,
                        "weight is " + type + " without a scale, and " +
                            facts.declared.substr(sizeof("ignored: ") - 1) +
                            " says it is not quantised; a BF16 weight, or "
                            "'weight_scale'",
                        "C13");
    result.notes.push_back(
        makeNote(facts, "is stored in " + type +
                            " with scales and used so, though "
                            "the config lists it: " +
                            facts.declared.substr(sizeof("ignored: ") - 1)));
  }
  if (config->scheme && (facts.isExpert || !config->expertsOnly))
    return *config->scheme;
  if (config->expertsOnly)
    return inputError(facts.module,
                      "weight is " + type + "; method '" + config->method +
                          "' quantises routed experts only, expected BF16, F16 "
                          "or F32",
                      "C12");
  // The groups that apply to every linear describe a listed one too.
  for (const SchemeGroup &group : config->groups)
    if (listed && group.allLinears)
      return group.scheme;
  return inputError(facts.module,
                    "weight is " + type +
                        " and no target of config_groups names "
                        "it; a group with target 'Linear', its path or a "
                        "pattern",
                    "C11");
}

bool octet::isPackedExpert(const QuantConfig *config, const ModuleFacts &facts,
                           const StoredTensor &weight) {
  return config && config->method == "fp8" && facts.isExpert && facts.k > 0 &&
         (weight.type == StoredType::U8 || weight.type == StoredType::I8) &&
         weight.shape == std::vector<int64_t>{facts.n, (facts.k + 1) / 2};
}

static Result<ResolvedModule> resolvePackedExpert(const ModuleFacts &facts) {
  Scheme scheme = makeMxfp4Scheme(WeightLayout::NibbleRows, "");
  OCTET_TRY_ASSIGN(ResolvedModule result,
                   resolveFormat("mxfp4", scheme, facts));
  ErrorInfo note = makeNote(facts, "is stored in FP4, two codes a byte, and "
                                   "follows the contract of 'mxfp4'");
  note.rule = "C14";
  result.notes.push_back(std::move(note));
  return result;
}

/// Anything but an FP8 format is no dtype of the method.
static Status checkFloat8Weight(const QuantConfig *config,
                                const ModuleFacts &facts,
                                const StoredTensor &weight) {
  if (isFloat8(weight.type))
    return Status::success();
  return inputError(
      facts.module,
      "weight is " + weight.describe() + ", method '" +
          (config ? config->method : "unquantized") + "' stores " +
          (config ? "F8_E4M3, BF16, F16 or F32" : "BF16, F16 or F32"),
      "C13");
}

/// Some scheme of the config has another format than FP8 with float scales.
static bool hasOtherFormats(const QuantConfig &config) {
  bool other = config.scheme && !config.scheme->isPlainFloat8();
  for (const SchemeGroup &group : config.groups)
    other |= !group.scheme.isPlainFloat8();
  return other;
}

Result<ResolvedModule> octet::resolveModule(const QuantConfig *config,
                                            const ModuleFacts &facts) {
  auto found = facts.tensors.find("weight");
  bool hasWeight = found != facts.tensors.end();
  if (hasWeight && isPlainType(found->second.type)) {
    if (found->second.shape.size() != 2)
      return inputError(facts.module,
                        "weight is " + found->second.describe() +
                            "; a linear has two dimensions [N, K]",
                        "C13");
    return resolvePlain(config, facts, found->second);
  }
  ResolvedModule notes;
  if (config && hasOtherFormats(*config)) {
    OCTET_TRY_ASSIGN(Scheme scheme, findScheme(config, notes, facts));
    if (!scheme.isPlainFloat8()) {
      OCTET_TRY_ASSIGN(ResolvedModule result,
                       resolveFormat(config->method, scheme, facts));
      result.notes = std::move(notes.notes);
      return result;
    }
  }
  if (!hasWeight)
    return inputError(facts.module,
                      "has no tensor 'weight'; no method built here has an "
                      "answer for it",
                      "C11");
  const StoredTensor &weight = found->second;
  if (weight.shape.size() != 2)
    return inputError(facts.module,
                      "weight is " + weight.describe() +
                          "; a linear has two dimensions [N, K]",
                      "C13");
  if (isPackedExpert(config, facts, weight))
    return resolvePackedExpert(facts);
  OCTET_TRY(checkFloat8Weight(config, facts, weight));
  notes.notes.clear();
  OCTET_TRY_ASSIGN(Scheme scheme, findScheme(config, notes, facts));
  OCTET_TRY_ASSIGN(ResolvedModule result,
                   resolveFloat8(config->method, scheme, facts));
  result.ue8m0 = config->ue8m0;
  result.notes = std::move(notes.notes);
  if (weight.type != StoredType::F8_E4M3) {
    ErrorInfo note = makeNote(
        facts, "is stored in " + std::string(storedTypeName(weight.type)) +
                   " and becomes F8_E4M3 while loading");
    note.rule = "N8";
    result.notes.push_back(std::move(note));
  }
  return result;
}
