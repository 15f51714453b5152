//===- FuzzConfig.cpp - config.json to decisions --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: config.json, a zero byte, hf_quant_config.json (may be absent). It is
// read as the compiler does: the model's sizes and rope, the quantisation
// config by some methods and targets, and what follows for each module.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "lib/Import/Architecture.h"
#include "octet/Modules/Decide.h"
#include "octet/QuantMethods/QuantMethods.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <unistd.h>

using namespace octet;
using namespace octet::fuzz;

OCTET_FUZZ_MUTATES_JSON

static void readModel(const nlohmann::json &config) {
  ConfigReader reader(config, "config.json");
  Result<const Architecture *> architecture = findArchitecture(reader);
  if (!architecture)
    return requireGoodError(architecture.status());
  std::vector<std::string> warnings;
  Result<DecoderConfig> decoder = (*architecture)->read(reader, warnings);
  if (!decoder)
    return requireGoodError(decoder.status());
  reader.reportUnknown(warnings);
  for (const std::string &warning : warnings)
    requireGoodText(warning);
  // Attention of other kinds has no key heads.
  for (int64_t size :
       {decoder->vocab, decoder->hidden, decoder->layers, decoder->heads})
    require(size > 0 && size <= kMaxSize, "a size fits int32");
  for (int64_t size : {decoder->intermediate, decoder->kvHeads,
                       decoder->headDim, decoder->maxPositions})
    require(size >= 0 && size <= kMaxSize, "a size fits int32 or is absent");
  require(decoder->kvHeads == 0 || decoder->heads % decoder->kvHeads == 0,
          "query heads share key heads");
  require(int64_t(decoder->windows.size()) == decoder->layers,
          "a window for each layer");
  for (int64_t window : decoder->windows)
    require(window >= 0 && window <= kMaxSize, "a window is a size or none");
  require(std::isfinite(decoder->normEps) && decoder->normEps >= 0,
          "the norm's epsilon is a number");
  // Of larger heads there is only more of the same.
  if (decoder->headDim == 0 || decoder->headDim > 1 << 16)
    return;
  Result<RopeFrequencies> rope = computeRope(decoder->rope, decoder->headDim);
  if (!rope)
    return requireGoodError(rope.status());
  require(std::isfinite(rope->scale), "rope's scale is a number");
  require(!rope->inverse.empty() &&
              int64_t(rope->inverse.size()) * 2 <= decoder->headDim,
          "rope rotates values of the head");
  for (float frequency : rope->inverse)
    require(std::isfinite(frequency), "rope's frequencies are numbers");
}

/// A linear of each way to store one.
static std::vector<ModuleFacts> makeModules() {
  using enum StoredType;
  const std::string layer = "model.layers.0.";
  return {
      {layer + "self_attn.q_proj",
       "model.safetensors",
       {{"weight", {F8_E4M3, {256, 192}}}, {"weight_scale_inv", {F32, {2, 2}}}},
       "",
       false},
      {layer + "self_attn.o_proj",
       "model.safetensors",
       {{"weight", {F8_E4M3, {64, 96}}},
        {"weight_scale", {BF16, {64, 1}}},
        {"input_scale", {F32, {1}}}},
       "",
       false},
      {layer + "mlp.down_proj",
       "",
       {{"weight", {F8_E4M3, {64, 96}}},
        {"weight_scale", {F32, {}}},
        {"input_scale", {F32, {}}}},
       "",
       false},
      {layer + "mlp.gate_proj", "", {{"weight", {BF16, {64, 96}}}}, "", false},
      {layer + "mlp.up_proj",
       "",
       {{"weight", {F8_E5M2, {64, 96}}}, {"weight_scale", {F32, {1}}}},
       "",
       false},
      {"lm_head", "", {{"weight", {F16, {512, 64}}}}, "", true},
  };
}

static std::string fusedName(const std::string &module) {
  if (module.ends_with("q_proj"))
    return "model.layers.0.self_attn.qkv_proj";
  if (module.ends_with("gate_proj") || module.ends_with("up_proj"))
    return "model.layers.0.mlp.gate_up_proj";
  return "";
}

static void resolve(QuantConfig &config, ModuleFacts facts,
                    const Target &target) {
  const std::string fused = fusedName(facts.module);
  Result<std::string> declared =
      declareModule(config, facts.module, fused, /*fusedIsStored=*/false);
  if (!declared)
    return requireGoodError(declared.status());
  facts.declared = *declared;
  Result<ResolvedModule> resolved = resolveModule(&config, facts);
  if (!resolved)
    return requireGoodError(resolved.status());
  for (const ErrorInfo &note : resolved->notes)
    requireGoodError(note);
  const auto shape = facts.tensors.find("weight")->second.shape;
  if (resolved->quantized) {
    std::vector<std::string_view> names = getMethodNames(target.family);
    require(std::find(names.begin(), names.end(), resolved->method) !=
                names.end(),
            "a quantised module has a method that runs", resolved->method);
    for (int64_t side : getScaleShape(resolved->weight, shape[0], shape[1]))
      require(side > 0 && side <= std::max(shape[0], shape[1]),
              "a scale's sides are at most the weight's");
    require(resolved->whileLoading ||
                facts.tensors.contains(resolved->scaleName),
            "a stored module's scale is stored", resolved->scaleName);
  }
  for (bool activations : {true, false}) {
    ContractQuery query{.fused = !fused.empty(),
                        .quantizeActivation = activations};
    Result<Contract> contract =
        contractFor(*resolved, target, query, facts.module);
    if (!contract) {
      requireGoodError(contract.status());
      continue;
    }
    require(contract->quantized == resolved->quantized,
            "the contract is of a quantised module");
    require(activations || !contract->activation,
            "--activation-quant off quantises no activation");
  }
}

/// A folder of the two files alone.
static std::string writeFolder(const nlohmann::json &config,
                               const nlohmann::json &other) {
  writeInput("config.json", dumpJson(config));
  const std::string path = writeInput("hf_quant_config.json", dumpJson(other));
  if (other.is_null())
    ::unlink(path.c_str());
  return inputFolder();
}

/// All modules of the architecture, by config.json alone.
static void decideAll(const nlohmann::json &config, const nlohmann::json &other,
                      const Target &target) {
  DecideOptions options;
  options.target = options.numerics = target;
  options.collectErrors = true;
  options.textPart = true;
  Result<CheckpointDecisions> decisions =
      decideCheckpoint(config, other, /*table=*/nullptr, options);
  if (!decisions)
    return requireGoodError(decisions.status());
  for (const auto *list :
       {&decisions->errors, &decisions->warnings, &decisions->notes})
    for (const ErrorInfo &info : *list)
      requireGoodError(info);
  const ModuleList &list = decisions->list;
  require(list.layers > 0 && list.draftLayers >= 0, "a model has layers");
  for (const ModuleDecision &decision : decisions->modules) {
    require(decision.module < list.modules.size(),
            "a decision is of a module of the list");
    const ModuleEntry &module = decisions->getModule(decision);
    require(!module.path.empty() && module.n >= 0 && module.k >= 0 &&
                module.experts >= 0 && module.count() > 0,
            "a module has sizes", module.path);
    require(decision.failed || !decision.contract.quantized ||
                decision.method.quantized,
            "the contract is of a quantised module", module.path);
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view rest = toText(data, size);
  Result<nlohmann::json> config = parseJson(takePart(rest), "config.json");
  if (!config) {
    requireGoodError(config.status());
    return 0;
  }
  nlohmann::json other;
  if (Result<nlohmann::json> parsed = parseJson(rest, "hf_quant_config.json"))
    other = parsed.take();
  else
    requireGoodError(parsed.status());
  // openCheckpoint refuses both that are no objects.
  if (!config->is_object() || !(other.is_object() || other.is_null()))
    return 0;

  readModel(*config);
  Result<std::optional<FoundConfig>> found = findQuantConfig(*config, other);
  if (!found) {
    requireGoodError(found.status());
    return 0;
  }
  const FoundConfig *given = *found ? &**found : nullptr;
  static const std::array kTargets = {parseTarget("cpu", "--target").take(),
                                      parseTarget("sm_80", "--target").take(),
                                      parseTarget("sm_100", "--target").take()};
  static const std::vector<ModuleFacts> kModules = makeModules();
  // Of more layers there is only more of the same, for seconds.
  Result<ModuleList> list = listModules(*config, /*textPart=*/true);
  if (!list || list->modules.size() <= 2000) {
    for (const Target &target : kTargets)
      decideAll(*config, other, target);
    const std::string folder = writeFolder(*config, other);
    for (auto [target, ranks] : {std::pair("cpu", 1), std::pair("sm_90a", 4)}) {
      CheckOptions options = checkOptions(target, ranks);
      options.configOnly = options.padBlocks = true;
      check(folder, options);
    }
  }
  for (const char *method : {"", "fp8", "compressed-tensors", "w8a8_fp8"})
    for (const Target &target : kTargets) {
      Result<std::optional<QuantConfig>> read =
          readQuantConfig(given, method, target);
      if (!read) {
        requireGoodError(read.status());
        continue;
      }
      if (!*read)
        continue;
      QuantConfig &quantization = **read;
      for (const ErrorInfo &warning : quantization.warnings)
        requireGoodError(warning);
      for (const ModuleFacts &facts : kModules)
        resolve(quantization, facts, target);
      for (const std::string &entry : quantization.ignore.getUnused())
        requireGoodText(entry);
    }
  return 0;
}
