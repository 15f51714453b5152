//===- ModelOpt.cpp - The modelopt family -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// ModelOpt writes hf_quant_config.json (`quantization`: quant_algo,
// kv_cache_quant_algo, exclude_modules) or the same in config.json
// (`quant_method: modelopt`, ignore, config_groups). Names are globs (C7). The
// algorithm chooses the registry name: NVFP4 is `modelopt_fp4`, MXFP8 `mxfp8`
// (C14).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"
#include <array>

using namespace octet;

namespace {

struct Algorithm {
  std::string_view name; ///< in lower case
  Scheme (*make)(std::string source);
};

/// Sorted. Weight scales of the block forms are [N/128, 1, K/128, 1] or a grid
/// (W2). FP8_PB_WO was exported weight-only, but engines quantise activations.
constexpr std::array kAlgorithms = {
    Algorithm{"fp8",
              [](std::string source) {
                return makeFloat8Scheme(Granularity::perTensor(),
                                        Activation::Static, std::move(source));
              }},
    Algorithm{"fp8_pb_real",
              [](std::string source) {
                return makeFloat8Scheme(Granularity::block(128, 128),
                                        Activation::Dynamic, std::move(source));
              }},
    Algorithm{"fp8_pb_wo",
              [](std::string source) {
                return makeFloat8Scheme(Granularity::block(128, 128),
                                        Activation::Dynamic, std::move(source));
              }},
    Algorithm{"fp8_per_channel_per_token",
              [](std::string source) {
                return makeFloat8Scheme(Granularity::perChannel(),
                                        Activation::Dynamic, std::move(source));
              }},
    Algorithm{"mxfp8", makeMxfp8Scheme},
    Algorithm{"nvfp4",
              [](std::string source) {
                return makeNvfp4Scheme(GlobalScale::Multiplies,
                                       /*quantizesInput=*/true,
                                       std::move(source));
              }},
    Algorithm{"w4a16_nvfp4",
              [](std::string source) {
                return makeNvfp4Scheme(GlobalScale::Multiplies,
                                       /*quantizesInput=*/false,
                                       std::move(source));
              }},
};

} // namespace

/// The scheme of `quant_algo`, checked against the group size beside it.
static Result<Scheme> readAlgorithm(Fields &fields, const std::string &word) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> group,
                   fields.getInteger("group_size"));
  std::string name = toLower(word), known;
  for (const Algorithm &algorithm : kAlgorithms) {
    known += "'" + std::string(algorithm.name) + "', ";
    if (algorithm.name != name)
      continue;
    Scheme scheme = algorithm.make(fields.getSource());
    if (group && scheme.weight.isGroup() && *group != scheme.weight.blockK)
      return fields.error("group_size",
                          "is " + std::to_string(*group) + ", " +
                              quoteName(word) + " has groups of " +
                              std::to_string(scheme.weight.blockK),
                          "N7");
    return scheme;
  }
  if (name == "w4a16_awq" || name == "w4a8_awq")
    return fields.error("quant_algo",
                        "is " + quoteName(word) +
                            ", which is not built; the others of ModelOpt are "
                            "read",
                        "C2");
  return fields.error("quant_algo",
                      "is " + quoteName(word) + "; expected one of " + known +
                          "'mixed_precision', in any letter case",
                      "C14");
}

/// `config_groups` repeats what the algorithm says; bits that contradict it
/// would mean another layout.
static Status checkGroups(Fields &fields, const Scheme &scheme) {
  OCTET_TRY_ASSIGN(std::optional<Fields> groups,
                   fields.getObject("config_groups"));
  if (!groups)
    return Status::success();
  for (const auto &[name, value] : groups->getJson().items()) {
    OCTET_TRY_ASSIGN(std::optional<Fields> group, groups->getObject(name));
    if (!group)
      continue;
    OCTET_TRY_ASSIGN(std::optional<Fields> weights,
                     group->getObject("weights"));
    if (!weights)
      continue;
    OCTET_TRY_ASSIGN(std::optional<int64_t> bits,
                     weights->getInteger("num_bits"));
    if (bits && *bits != getBits(scheme.format.code))
      return weights->error(
          "num_bits", "is " + std::to_string(*bits) + " and quant_algo means " +
                          std::to_string(getBits(scheme.format.code)) +
                          " bits; one of the two");
  }
  return Status::success();
}

/// MIXED_PRECISION: an algorithm for each module; the others are unquantised.
static Status readLayers(Fields &fields, QuantConfig &config) {
  OCTET_TRY_ASSIGN(std::optional<Fields> layers,
                   fields.getObject("quantized_layers"));
  if (!layers)
    return fields.error("quantized_layers",
                        "is absent; 'mixed_precision' needs an object with an "
                        "algorithm for each module");
  for (const auto &[name, value] : layers->getJson().items()) {
    OCTET_TRY_ASSIGN(std::optional<Fields> layer, layers->getObject(name));
    if (!layer)
      continue;
    OCTET_TRY_ASSIGN(std::optional<std::string> word,
                     layer->getString("quant_algo"));
    if (!word)
      return layer->error("quant_algo", "is absent, expected an algorithm");
    OCTET_TRY_ASSIGN(Scheme scheme, readAlgorithm(*layer, *word));
    scheme.source = layers->getSource();
    std::string groupName = toLower(*word);
    SchemeGroup *group = nullptr;
    for (SchemeGroup &each : config.groups)
      if (each.name == groupName)
        group = &each;
    if (!group) {
      group = &config.groups.emplace_back();
      group->name = groupName;
      group->scheme = std::move(scheme);
    }
    OCTET_TRY(group->paths.add(name, fields.getSource(), "quantized_layers",
                               NameSyntax::Globs));
  }
  return Status::success();
}

Result<QuantConfig> octet::readModelOpt(const ReadRequest &request) {
  if (!request.found || request.foundMethod != request.name)
    return cannotReadLayout(
        request, request.name == "modelopt"
                     ? "it reads ModelOpt checkpoints with FP8 weights"
                     : "it reads ModelOpt checkpoints with NVFP4 weights");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  fields.ignore({"quant_method", "producer", "version", "has_zero_point",
                 "pre_quant_scale", "quantization_status"});
  OCTET_TRY_ASSIGN(config.ignore,
                   fields.getNames("exclude_modules", NameSyntax::Globs));
  OCTET_TRY_ASSIGN(NameList ignore,
                   fields.getNames("ignore", NameSyntax::Globs));
  config.ignore.append(std::move(ignore));
  readKvCache(fields, config.kvCache);
  OCTET_TRY_ASSIGN(std::optional<std::string> word,
                   fields.getString("quant_algo"));
  if (word && toLower(*word) == "mixed_precision") {
    OCTET_TRY(readLayers(fields, config));
    fields.ignore({"config_groups", "group_size"});
  } else if (word) {
    OCTET_TRY_ASSIGN(config.scheme, readAlgorithm(fields, *word));
    OCTET_TRY(checkGroups(fields, *config.scheme));
    fields.ignore({"quantized_layers"});
  } else if (!config.kvCache.empty() ||
             fields.getJson().contains("quant_algo")) {
    fields.ignore({"group_size"}); // only the cache is quantised
  } else {
    return fields.error("quant_algo", "is absent, expected an algorithm");
  }
  fields.reportUnknown(config.warnings);
  return config;
}
