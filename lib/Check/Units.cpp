//===- Units.cpp - Modules as the run time has them ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Units.h"

using namespace octet;

const ModuleDecision *CheckContext::find(const std::string &path) const {
  auto found = byPath.find(path);
  return found == byPath.end() ? nullptr : found->second;
}

const ModuleEntry *CheckContext::findModule(const std::string &path) const {
  const ModuleDecision *decision = find(path);
  return decision ? &decisions.getModule(*decision) : nullptr;
}

void CheckContext::buildIndex() {
  for (const ModuleDecision &decision : decisions.modules) {
    const ModuleEntry &module = decisions.getModule(decision);
    byPath[module.path] = &decision;
    if (module.kind == ModuleKind::Attention)
      for (const auto &[name, tensor] : decision.tensors)
        hasCacheScales |= isKvScaleName(name);
  }
}

static std::string_view lastComponent(std::string_view path) {
  size_t dot = path.rfind('.');
  return dot == path.npos ? path : path.substr(dot + 1);
}

/// "model.layers.1.mlp.experts" of "….experts.{e}.gate_proj".
static std::string getExpertsPath(const std::string &path) {
  constexpr std::string_view kExperts = ".experts.";
  size_t at = path.find(kExperts);
  return at == path.npos ? path : path.substr(0, at + kExperts.size() - 1);
}

std::vector<Unit> octet::makeUnits(const CheckpointDecisions &decisions) {
  std::vector<Unit> units;
  std::unordered_map<std::string, size_t> open; ///< fused modules by path
  for (const ModuleDecision &decision : decisions.modules) {
    const ModuleEntry &module = decisions.getModule(decision);
    std::string path = module.path;
    if (module.kind == ModuleKind::RoutedExpert)
      path = getExpertsPath(path);
    else if (!module.fused.empty() && !decision.keptApart)
      path = module.fused;
    auto [at, isNew] = open.try_emplace(path, units.size());
    if (isNew) {
      units.emplace_back();
      units.back().path = path;
      units.back().kind = module.kind;
      units.back().localExperts = module.experts;
    }
    Part part;
    part.decision = &decision;
    part.module = &module;
    part.name = lastComponent(module.path);
    part.n = part.paddedN = module.n;
    part.k = part.paddedK = module.k;
    units[at->second].parts.push_back(part);
  }
  return units;
}

Scheme octet::toScheme(const ResolvedModule &method) {
  Scheme scheme;
  scheme.weight = method.weight;
  scheme.activation = method.activation;
  scheme.format = method.format;
  scheme.input = method.input;
  return scheme;
}

std::string octet::nameDtype(std::string_view dtype) {
  return dtype == "f32" ? "F32" : dtype == "f16" ? "F16" : "BF16";
}

Packing octet::getPacking(const ModuleDecision &decision) {
  auto weight = decision.tensors.find("weight");
  return weight == decision.tensors.end() ? Packing::None
                                          : weight->second.packing;
}
