//===- Registry.cpp - The method registry ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// One table, keyed by method and target family (C2).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"
#include "octet/Support/MethodNames.h"
#include <algorithm>
#include <array>

using namespace octet;

namespace {

struct MethodEntry {
  std::string_view name;
  TargetFamily family;
  /// Smallest compute capability times ten; 0 on the CPU, which runs every
  /// method (C9).
  int minCapability;
  MethodReader read; ///< null: no config has this name
};

constexpr TargetFamily kCpu = TargetFamily::Cpu, kCuda = TargetFamily::Cuda;

/// Sorted by name, then family. 80 is the least that any kernel runs on.
constexpr std::array kMethods = {
    MethodEntry{"auto-round", kCpu, 0, readAutoRound},
    MethodEntry{"auto-round", kCuda, 80, readAutoRound},
    MethodEntry{"awq", kCpu, 0, readAwq},
    MethodEntry{"awq", kCuda, 80, readAwq},
    MethodEntry{"awq_marlin", kCpu, 0, readAwq},
    MethodEntry{"awq_marlin", kCuda, 80, readAwq},
    MethodEntry{"compressed-tensors", kCpu, 0, readCompressedTensors},
    MethodEntry{"compressed-tensors", kCuda, 80, readCompressedTensors},
    MethodEntry{"fbgemm_fp8", kCpu, 0, readFbgemmFp8},
    MethodEntry{"fbgemm_fp8", kCuda, 80, readFbgemmFp8},
    MethodEntry{"fp8", kCpu, 0, readFp8},
    MethodEntry{"fp8", kCuda, 80, readFp8},
    MethodEntry{"gguf", kCpu, 0, readGguf},
    MethodEntry{"gguf", kCuda, 80, readGguf},
    MethodEntry{"gptq", kCpu, 0, readGptq},
    MethodEntry{"gptq", kCuda, 80, readGptq},
    MethodEntry{"gptq_marlin", kCpu, 0, readGptq},
    MethodEntry{"gptq_marlin", kCuda, 80, readGptq},
    MethodEntry{"modelopt", kCpu, 0, readModelOpt},
    MethodEntry{"modelopt", kCuda, 80, readModelOpt},
    MethodEntry{"modelopt_fp4", kCpu, 0, readModelOpt},
    MethodEntry{"modelopt_fp4", kCuda, 80, readModelOpt},
    MethodEntry{"mxfp4", kCpu, 0, readMxfp4},
    MethodEntry{"mxfp4", kCuda, 80, readMxfp4},
    MethodEntry{"mxfp8", kCpu, 0, readMxfp8},
    MethodEntry{"mxfp8", kCuda, 100, readMxfp8},
    MethodEntry{"quark", kCpu, 0, readQuark},
    MethodEntry{"quark", kCuda, 80, readQuark},
    MethodEntry{"unquantized", kCpu, 0, nullptr},
    MethodEntry{"unquantized", kCuda, 80, nullptr},
    MethodEntry{"w8a8_fp8", kCpu, 0, readW8A8Fp8},
    MethodEntry{"w8a8_fp8", kCuda, 89, readW8A8Fp8},
    MethodEntry{"w8a8_int8", kCpu, 0, readW8A8Int8},
    MethodEntry{"w8a8_int8", kCuda, 80, readW8A8Int8},
};

/// Each name of C2 has an entry of each family with a reader, and there are no
/// others.
constexpr bool hasEveryName() {
  for (TargetFamily family : {kCpu, kCuda}) {
    size_t count = 0;
    for (const MethodEntry &entry : kMethods)
      if (entry.family == family && entry.read) {
        if (count >= kMethodNames.size() || kMethodNames[count] != entry.name)
          return false;
        ++count;
      }
    if (count != kMethodNames.size())
      return false;
  }
  return true;
}
static_assert(hasEveryName(), "the registry and kMethodNames differ (C2)");

} // namespace

static const MethodEntry *findMethod(std::string_view name,
                                     TargetFamily family) {
  for (const MethodEntry &entry : kMethods)
    if (entry.name == name && entry.family == family)
      return &entry;
  return nullptr;
}

std::vector<std::string_view> octet::getMethodNames(TargetFamily family) {
  std::vector<std::string_view> names;
  for (const MethodEntry &entry : kMethods)
    if (entry.family == family && entry.read)
      names.push_back(entry.name);
  return names;
}

//===----------------------------------------------------------------------===//
// Finding the config (C1, C14)
//===----------------------------------------------------------------------===//

/// The object at `object[key]`; null if absent or JSON null.
static Result<const nlohmann::json *> findObject(const nlohmann::json &object,
                                                 std::string_view key,
                                                 const std::string &source) {
  auto found = object.find(key);
  if (found == object.end() || found->is_null())
    return static_cast<const nlohmann::json *>(nullptr);
  if (!found->is_object())
    return inputError(
        source, "is " + describeJson(*found) + ", expected an object", "C1");
  return &*found;
}

Result<std::optional<FoundConfig>>
octet::findQuantConfig(const nlohmann::json &config,
                       const nlohmann::json &hfQuantConfig) {
  std::string source = "config.json: quantization_config";
  OCTET_TRY_ASSIGN(const nlohmann::json *found,
                   findObject(config, "quantization_config", source));
  if (!found) {
    OCTET_TRY_ASSIGN(
        const nlohmann::json *text,
        findObject(config, "text_config", "config.json: text_config"));
    source = "config.json: text_config.quantization_config";
    if (text) {
      OCTET_TRY_ASSIGN(found, findObject(*text, "quantization_config", source));
    }
  }
  if (!found) {
    source = "config.json: compression_config";
    OCTET_TRY_ASSIGN(found, findObject(config, "compression_config", source));
  }
  if (!found && hfQuantConfig.is_object()) {
    source = "hf_quant_config.json: quantization";
    OCTET_TRY_ASSIGN(found, findObject(hfQuantConfig, "quantization", source));
  }
  if (!found)
    return std::optional<FoundConfig>();
  return std::optional(FoundConfig{*found, source});
}

/// The registry name that a config names; names are compared whole, ignoring
/// case (C14).
static Result<std::string> getDeclaredMethod(const FoundConfig &found) {
  Fields fields(found.fields, found.source);
  OCTET_TRY_ASSIGN(std::optional<std::string> method,
                   fields.getString("quant_method"));
  OCTET_TRY_ASSIGN(std::optional<std::string> algorithm,
                   fields.getString("quant_algo"));
  std::string name = toLower(method.value_or(""));
  if (!method && algorithm)
    name = "modelopt";
  // The older place of a compressed-tensors config has no method field.
  if (!method && !algorithm && found.fields.contains("config_groups"))
    name = "compressed-tensors";
  if (name == "intel/auto-round") // of older exports
    name = "auto-round";
  // Only the cache is quantised where ModelOpt says null.
  if (!method && !algorithm && found.fields.contains("quant_algo"))
    name = "modelopt";
  if (name == "modelopt" && algorithm) {
    std::string word = toLower(*algorithm);
    if (word == "nvfp4" || word == "w4a16_nvfp4")
      return std::string("modelopt_fp4");
    if (word == "mxfp8")
      return std::string("mxfp8");
  }
  if (name.empty())
    return inputError(found.source,
                      "has neither quant_method nor quant_algo; expected the "
                      "name of a method",
                      "C2");
  return name;
}

//===----------------------------------------------------------------------===//
// Reading it (C2, C3)
//===----------------------------------------------------------------------===//

Status octet::cannotReadLayout(const ReadRequest &request, std::string why) {
  return inputError("--quantization " + std::string(request.name),
                    "cannot read this checkpoint's layout, which is " +
                        (request.found ? "'" + escapeName(request.foundMethod) +
                                             "' (" + request.found->source + ")"
                                       : std::string("unquantised")) +
                        "; " + why,
                    "C3");
}

static Result<const MethodEntry *> getMethod(const std::string &name,
                                             const std::string &subject,
                                             const Target &target) {
  const MethodEntry *entry = findMethod(name, target.family);
  if (entry && entry->read)
    return entry;
  return inputError(subject,
                    "no method is called " + quoteName(name) +
                        "; valid for target " + target.name + " are " +
                        joinQuoted(getMethodNames(target.family)),
                    "C2");
}

/// What the passes compile: codes that share words, and those of 8 bits with a
/// scale a tensor, a channel or a block.
static bool isBuilt(const Scheme &scheme) {
  const WeightFormat &format = scheme.format;
  if (format.layout != WeightLayout::Rows)
    return true;
  if (format.code == CodeType::Int8)
    return format.scale == ScaleFormat::Float && !scheme.weight.isBlock();
  return format.code == CodeType::E4M3;
}

/// A format of a method that the passes do not compile is one error.
static Status checkCompiles(const QuantConfig &config) {
  auto check = [](const Scheme &scheme) -> Status {
    if (isBuilt(scheme))
      return Status::success();
    return inputError(scheme.source,
                      "is " + describeScheme(scheme) +
                          ", which is not built yet; FP8, MXFP8 and INT8 run",
                      "C2");
  };
  if (config.scheme)
    OCTET_TRY(check(*config.scheme));
  for (const SchemeGroup &group : config.groups)
    OCTET_TRY(check(group.scheme));
  return Status::success();
}

Result<std::optional<QuantConfig>>
octet::readQuantConfig(const FoundConfig *found, std::string_view userMethod,
                       const Target &target, Purpose purpose) {
  std::string declared;
  if (found) {
    OCTET_TRY_ASSIGN(declared, getDeclaredMethod(*found));
  }
  std::string name = userMethod.empty() ? declared : toLower(userMethod);
  if (name.empty())
    return std::optional<QuantConfig>();

  std::string subject = userMethod.empty()
                            ? found->source + ".quant_method"
                            : "--quantization " + escapeName(userMethod);
  OCTET_TRY_ASSIGN(const MethodEntry *entry, getMethod(name, subject, target));
  // What the checkpoint says has to be a known method even if it is overridden,
  // or nobody could tell whether the layout can be read.
  if (found && declared != name && !findMethod(declared, target.family)) {
    OCTET_TRY_ASSIGN(
        entry, getMethod(declared, found->source + ".quant_method", target));
  }
  OCTET_TRY_ASSIGN(
      QuantConfig config,
      entry->read({name, found, declared, !userMethod.empty(), target}));
  if (purpose == Purpose::Compile)
    OCTET_TRY(checkCompiles(config));
  return std::optional(std::move(config));
}

std::vector<NameList *> QuantConfig::getLists() {
  std::vector<NameList *> lists = {&ignore};
  for (SchemeGroup &group : groups) {
    lists.push_back(&group.paths);
    lists.push_back(&group.patterns);
  }
  return lists;
}

const SchemeGroup *QuantConfig::findGroup(std::string_view name) const {
  for (const SchemeGroup &group : groups)
    if (group.name == name)
      return &group;
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Targets (C9)
//===----------------------------------------------------------------------===//

/// "'fp8' and 'gptq' run there, FP8 with weights widened to BF16", or that
/// nothing does.
static std::string describeRuns(const Target &target) {
  std::vector<std::string_view> names;
  for (const MethodEntry &entry : kMethods)
    if (entry.family == target.family && entry.read &&
        target.capability >= entry.minCapability)
      names.push_back(entry.name);
  if (names.empty())
    return "no method runs there";
  return joinQuoted(names) +
         (names.size() == 1 ? " runs there" : " run there") +
         (target.lacksFp8Products() ? ", FP8 with weights widened to BF16"
                                    : "");
}

Status octet::checkMethodTarget(std::string_view method, const Target &target,
                                std::string_view option,
                                std::string_view mxfp8As) {
  const MethodEntry *entry = findMethod(method, target.family);
  constexpr int kLeast = 80; // what block and weight-only FP8 run on
  bool isMxfp8 = method == "mxfp8" && target.capability >= kLeast;
  if (isMxfp8 && !mxfp8As.empty())
    return Status::success();
  if (isMxfp8 && entry && target.capability < entry->minCapability)
    return inputError(std::string(option) + " " + target.name,
                      "method 'mxfp8' needs compute capability 10.0 or higher, "
                      "or the CPU; " +
                          target.name + " is " + target.capabilityText() +
                          "; --mxfp8-as block or --mxfp8-as weight-only runs "
                          "it there",
                      "B6");
  if (!entry)
    return internalError(std::string(method), "method without registry entry");
  if (target.capability >= entry->minCapability)
    return Status::success();
  Target least;
  least.family = TargetFamily::Cuda;
  least.capability = entry->minCapability;
  std::string what = method == "unquantized"
                         ? std::string("an unquantised model")
                         : "method '" + std::string(method) + "'";
  return inputError(std::string(option) + " " + target.name,
                    what + " needs compute capability " +
                        least.capabilityText() + " or higher, " + target.name +
                        " is " + target.capabilityText() + "; " +
                        describeRuns(target) + ", and " + what +
                        " runs on cpu and from sm_" +
                        std::to_string(least.capability) + " on",
                    "C9");
}
