//===- Module.cpp - The method of one module ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Resolve.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <array>

using namespace octet;

std::string StoredTensor::describe() const {
  std::string text(storedTypeName(type));
  text += " [";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

bool octet::isKnownLinearTensor(std::string_view name) {
  return name == "weight" || name == "bias" || name == "weight_scale" ||
         name == "weight_scale_inv" || name == "input_scale";
}

bool octet::isKvScaleName(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {"k_scale",
                                                      "v_scale",
                                                      "kv_scale",
                                                      "k_proj.k_scale",
                                                      "v_proj.v_scale",
                                                      "qkv_proj.k_scale",
                                                      "qkv_proj.v_scale",
                                                      "k_proj.output_scale",
                                                      "v_proj.output_scale"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

//===----------------------------------------------------------------------===//
// What the config says
//===----------------------------------------------------------------------===//

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
  for (SchemeGroup &group : config.groups) {
    OCTET_TRY_ASSIGN(const NameEntry *entry,
                     group.patterns.match(module, fused));
    if (entry)
      return "group: " + group.name;
  }
  for (const SchemeGroup &group : config.groups)
    if (group.allLinears)
      return "group: " + group.name;
  return std::string("no group");
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

/// The scheme that the config gives this module, or the error that it gives
/// none.
static Result<Scheme> findScheme(const QuantConfig *config,
                                 ResolvedModule &result,
                                 const ModuleFacts &facts) {
  if (!config)
    return inputError(facts.module,
                      "weight is F8_E4M3 but the checkpoint declares no "
                      "quantisation method; a quantization_config, or "
                      "'--quantization fp8'",
                      "C13");
  if (!config->serialized) // only the user named the method
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
    if (!hasWeightScale(facts))
      return inputError(facts.module,
                        "weight is F8_E4M3 without a scale, and " +
                            facts.declared.substr(sizeof("ignored: ") - 1) +
                            " says it is not quantised; a BF16 weight, or "
                            "'weight_scale'",
                        "C13");
    result.notes.push_back(
        makeNote(facts, "is stored in F8_E4M3 with scales and used so, though "
                        "the config lists it: " +
                            facts.declared.substr(sizeof("ignored: ") - 1)));
  }
  if (config->scheme)
    return *config->scheme;
  // The groups that apply to every linear describe a listed one too.
  for (const SchemeGroup &group : config->groups)
    if (listed && group.allLinears)
      return group.scheme;
  return inputError(facts.module,
                    "weight is F8_E4M3 and no target of config_groups names "
                    "it; a group with target 'Linear', its path or a pattern",
                    "C11");
}

Result<ResolvedModule> octet::resolveModule(const QuantConfig *config,
                                            const ModuleFacts &facts) {
  auto found = facts.tensors.find("weight");
  if (found == facts.tensors.end())
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
  if (isPlainType(weight.type))
    return resolvePlain(config, facts, weight);
  switch (weight.type) {
  case StoredType::F8_E4M3:
    break;
  case StoredType::F8_E5M2:
  case StoredType::F8_E4M3FNUZ:
  case StoredType::F8_E5M2FNUZ:
    return inputError(facts.module,
                      "weight is " + weight.describe() +
                          ", whose conversion is not built yet; F8_E4M3 runs",
                      "N8");
  default:
    return inputError(
        facts.module,
        "weight is " + weight.describe() + ", method '" +
            (config ? config->method : "unquantized") + "' stores " +
            (config ? "F8_E4M3, BF16, F16 or F32" : "BF16, F16 or F32"),
        "C13");
  }
  ResolvedModule notes;
  OCTET_TRY_ASSIGN(Scheme scheme, findScheme(config, notes, facts));
  OCTET_TRY_ASSIGN(ResolvedModule result,
                   resolveFloat8(config->method, scheme, facts));
  result.ue8m0 = config->ue8m0;
  result.notes = std::move(notes.notes);
  return result;
}
