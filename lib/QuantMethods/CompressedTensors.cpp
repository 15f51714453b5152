//===- CompressedTensors.cpp - The compressed-tensors family --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: compressed-tensors`: groups of modules with weights and
// activations each (FORMATS). `float-quantized` and `int-quantized` store an
// element a code, `pack-quantized` words of 4- or 8-bit integers,
// `nvfp4-pack-quantized` E2M1 below two scales; `mixed-precision` takes the
// format of each group.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"
#include <array>

using namespace octet;

namespace {

/// QuantizationArgs of weights or activations.
struct Args {
  int64_t bits = 8;
  std::string type = "int", strategy;
  bool symmetric = true, dynamic = false;
  bool local = false; ///< dynamic is "local": below a stored scale
  bool actOrder = false;
  std::optional<int64_t> group;
  std::optional<Granularity> block;

  bool is(std::string_view wantedType, int64_t wantedBits) const {
    return type == wantedType && bits == wantedBits;
  }
};

/// What a format stores, for the check of `num_bits` and `type`.
struct Format {
  std::string_view name, stores;
  bool (*fits)(const Args &weights);
};

constexpr std::array kFormats = {
    Format{"float-quantized", "'float' of 8 bits",
           [](const Args &args) { return args.is("float", 8); }},
    Format{"int-quantized", "'int' of 8 bits",
           [](const Args &args) { return args.is("int", 8); }},
    Format{"naive-quantized", "'float' or 'int' of 8 bits",
           [](const Args &args) { return args.bits == 8; }},
    Format{"pack-quantized", "'int' of 4 or 8 bits",
           [](const Args &args) {
             return args.is("int", 4) || args.is("int", 8);
           }},
    Format{"nvfp4-pack-quantized", "'float' of 4 bits",
           [](const Args &args) { return args.is("float", 4); }},
};

} // namespace

static Result<const Format *> findFormat(const Fields &fields,
                                         const std::string &name) {
  std::string known;
  for (const Format &format : kFormats) {
    if (format.name == name)
      return &format;
    known += "'" + std::string(format.name) + "', ";
  }
  return fields.error("format",
                      "is " + quoteName(name) + ", which is not read; " +
                          known + "'dense' and 'mixed-precision' are",
                      "C2");
}

static Result<Args> readArgs(Fields &fields) {
  Args args;
  OCTET_TRY_ASSIGN(std::optional<int64_t> bits, fields.getInteger("num_bits"));
  OCTET_TRY_ASSIGN(std::optional<std::string> type, fields.getString("type"));
  OCTET_TRY_ASSIGN(std::optional<bool> symmetric, fields.getBool("symmetric"));
  OCTET_TRY_ASSIGN(std::optional<std::string> strategy,
                   fields.getString("strategy"));
  OCTET_TRY_ASSIGN(args.group, fields.getInteger("group_size"));
  OCTET_TRY_ASSIGN(args.block, fields.getBlock("block_structure"));
  args.bits = bits.value_or(args.bits);
  args.type = type.value_or(args.type);
  args.symmetric = symmetric.value_or(true);
  args.strategy = strategy.value_or("");
  // True, false, or "local": groups below a stored scale.
  if (const nlohmann::json *dynamic = fields.find("dynamic")) {
    args.local = *dynamic == "local";
    if (!dynamic->is_boolean() && !args.local)
      return fields.error("dynamic", "is " + describeJson(*dynamic) +
                                         ", expected true, false or 'local'");
    args.dynamic = args.local || dynamic->get<bool>();
  }
  // `group`, also spelled true; `weight` and `static` keep the order of K.
  if (const nlohmann::json *order = fields.find("actorder"))
    args.actOrder = *order == "group" || *order == true;
  fields.ignore(
      {"observer", "observer_kwargs", "scale_dtype", "zp_dtype", "is_mse"});
  return args;
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static Status refuseStrategy(const Fields &fields, const std::string &strategy,
                             std::string_view what, std::string_view fits) {
  return fields.error("strategy",
                      "is " + quoteName(strategy) +
                          ", which is not built for " + std::string(what) +
                          "; " + std::string(fits),
                      "C2");
}

/// An element a code: one scale a tensor, a channel or a block.
static Result<Granularity> readPlainGranularity(const Fields &fields,
                                                const Args &args) {
  std::string strategy = args.strategy;
  if (strategy.empty())
    strategy = args.block ? "block" : args.group ? "group" : "tensor";
  bool isFloat = args.type == "float";
  if (strategy == "tensor")
    return Granularity::perTensor();
  if (strategy == "channel")
    return Granularity::perChannel();
  if (strategy == "block" && isFloat) {
    if (!args.block)
      return fields.error("block_structure",
                          "is absent, strategy 'block' needs [bn, bk]");
    return *args.block;
  }
  return refuseStrategy(fields, strategy,
                        isFloat ? "FP8 weights" : "INT8 weights",
                        isFloat ? "'tensor', 'channel' and 'block' are"
                                : "'tensor' and 'channel' are");
}

static Result<Scheme> readPlain(const Fields &fields, const Args &args) {
  Scheme scheme;
  OCTET_TRY_ASSIGN(scheme.weight, readPlainGranularity(fields, args));
  if (!args.symmetric)
    return fields.error("symmetric",
                        args.type == "float"
                            ? "is false; FP8 codes have no zero point, "
                              "expected true"
                            : "is false; zero points of INT8 weights are not "
                              "built, expected true");
  if (args.type == "int")
    scheme.format.code = CodeType::Int8;
  return scheme;
}

/// Words of 4- or 8-bit integers, code + 2^(bits-1), lowest bits first.
static Result<Scheme> readPacked(const Fields &fields, const Args &args) {
  Scheme scheme;
  std::string strategy = args.strategy;
  if (strategy.empty())
    strategy = args.group ? "group" : "channel";
  if (strategy == "channel" || (strategy == "group" && args.group == -1)) {
    scheme.weight = Granularity::perChannel();
  } else if (strategy == "group") {
    if (!args.group || *args.group < 1 || *args.group > (int64_t(1) << 30))
      return fields.error("group_size",
                          "is " +
                              (args.group ? std::to_string(*args.group)
                                          : std::string("absent")) +
                              ", strategy 'group' needs a positive integer");
    scheme.weight = Granularity::group(*args.group);
  } else {
    return refuseStrategy(fields, strategy, "packed weights",
                          "'channel' and 'group' are");
  }
  scheme.format.code = args.bits == 8 ? CodeType::Int8 : CodeType::Int4;
  scheme.format.layout = WeightLayout::WordRows;
  if (!args.symmetric)
    scheme.format.zeroPoints = ZeroPoints::Stored;
  scheme.format.actOrder = args.actOrder && scheme.weight.isGroup();
  return scheme;
}

static Result<Scheme> readNvfp4(const Fields &fields, const Args &args) {
  constexpr int64_t kGroup = 16;
  if (args.strategy != "tensor_group" && args.strategy != "group" &&
      !args.strategy.empty())
    return refuseStrategy(fields, args.strategy, "NVFP4 weights",
                          "'tensor_group' is");
  if (args.group.value_or(kGroup) != kGroup)
    return fields.error(
        "group_size",
        "is " + std::to_string(*args.group) + ", NVFP4 has groups of 16", "N7");
  return makeNvfp4Scheme(GlobalScale::Divides, /*quantizesInput=*/false, "");
}

static Result<Scheme> readWeights(Fields &fields, const Format &format) {
  OCTET_TRY_ASSIGN(Args args, readArgs(fields));
  if (!format.fits(args))
    return inputError(fields.getSource(),
                      "has type " + quoteName(args.type) + " of " +
                          std::to_string(args.bits) + " bits, format '" +
                          std::string(format.name) + "' stores " +
                          std::string(format.stores),
                      "C2");
  if (args.dynamic)
    return fields.error("dynamic", "is true; stored weights have stored "
                                   "scales, expected false");
  Result<Scheme> scheme =
      format.name == "pack-quantized"         ? readPacked(fields, args)
      : format.name == "nvfp4-pack-quantized" ? readNvfp4(fields, args)
                                              : readPlain(fields, args);
  if (scheme)
    scheme->source = fields.getSource();
  return scheme;
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

/// Static needs one stored scale; every dynamic scheme becomes one scale a
/// token, or a token and block along K (P3).
static Status readPlainActivations(const Fields &fields, const Args &args,
                                   Scheme &scheme) {
  const Granularity &weight = scheme.weight;
  std::string word = args.strategy;
  if (word.empty())
    word = args.group ? "group" : args.dynamic ? "token" : "tensor";
  scheme.activation = args.dynamic ? Activation::Dynamic : Activation::Static;
  if (!args.dynamic) {
    if (word != "tensor")
      return fields.error("strategy",
                          "is " + quoteName(word) +
                              " and dynamic is false; a static scale is one "
                              "per tensor");
    if (weight.isBlock())
      return fields.error("dynamic",
                          "is false and the weights are in blocks; one static "
                          "scale cannot describe per-block activations, "
                          "dynamic true can",
                          "C5");
    return Status::success();
  }
  if (word == "group") {
    if (!weight.isBlock() || args.group.value_or(0) != weight.blockK)
      return fields.error(
          "group_size",
          "is " + std::to_string(args.group.value_or(0)) + ", " +
              (weight.isBlock() ? "the weight's blocks have " +
                                      std::to_string(weight.blockK) +
                                      " along K; the two have to agree"
                                : "and the weight has no blocks along K; "
                                  "strategy 'token' fits"));
    return Status::success();
  }
  if (word != "token" && word != "tensor")
    return refuseStrategy(fields, word, "activations",
                          "'tensor', 'token' and 'group' are");
  return Status::success();
}

static Status readActivations(Fields &fields, const Format &format,
                              Scheme &scheme) {
  OCTET_TRY_ASSIGN(Args args, readArgs(fields));
  if (format.name == "pack-quantized")
    return inputError(fields.getSource(),
                      "is not null; 'pack-quantized' is weight-only on every "
                      "target, expected null",
                      "B4");
  if (!format.fits(args) ||
      (args.type == "float") != (scheme.format.code != CodeType::Int8))
    return inputError(fields.getSource(),
                      "has type " + quoteName(args.type) + " of " +
                          std::to_string(args.bits) +
                          " bits; products of weights and activations of two "
                          "types are not built, the weight's type fits",
                      "C2");
  if (!args.symmetric)
    return fields.error("symmetric",
                        args.type == "float"
                            ? "is false; FP8 codes have no zero point, "
                              "expected true"
                            : "is false; zero points of activations are not "
                              "built, expected true");
  if (format.name == "nvfp4-pack-quantized") {
    if (!args.local && !args.dynamic)
      return fields.error("dynamic",
                          "is false; group scales of NVFP4 activations are "
                          "dynamic below a stored scale, expected 'local'");
    std::string source = scheme.source;
    scheme = makeNvfp4Scheme(GlobalScale::Divides, /*quantizesInput=*/true,
                             std::move(source));
    return Status::success();
  }
  if (args.local)
    return fields.error("dynamic",
                        "is 'local', which belongs to NVFP4; "
                        "expected true or false",
                        "C2");
  scheme.input.code = scheme.format.code;
  return readPlainActivations(fields, args, scheme);
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

constexpr std::string_view kLinearClass = "Linear";

/// A target is the class name `Linear`, a `re:` pattern or a module path.
static Status readTargets(Fields &group, SchemeGroup &result) {
  OCTET_TRY_ASSIGN(NameList targets, group.getNames("targets"));
  // Some exporters leave the field out and mean every linear.
  if (targets.presence != NameList::Presence::Given)
    result.allLinears = true;
  for (NameEntry &entry : targets.entries) {
    if (entry.getText() == kLinearClass)
      result.allLinears = true;
    else if (entry.isRegex())
      result.patterns.entries.push_back(std::move(entry));
    else
      result.paths.entries.push_back(std::move(entry));
  }
  return Status::success();
}

static Result<std::optional<SchemeGroup>>
readGroup(const std::string &name, Fields &group, const std::string &format,
          std::vector<ErrorInfo> &warnings) {
  SchemeGroup result;
  result.name = name;
  OCTET_TRY(readTargets(group, result));
  OCTET_TRY_ASSIGN(std::optional<std::string> own, group.getString("format"));
  std::string word = own.value_or(format);
  if (word == "mixed-precision")
    return group.error("format", "is absent; format 'mixed-precision' needs "
                                 "one in each group");
  if (word == "dense")
    return std::optional<SchemeGroup>();
  OCTET_TRY_ASSIGN(const Format *kind, findFormat(group, word));
  OCTET_TRY_ASSIGN(std::optional<Fields> weights, group.getObject("weights"));
  if (!weights) // the group quantises something else, such as the KV cache
    return std::optional<SchemeGroup>();
  OCTET_TRY_ASSIGN(result.scheme, readWeights(*weights, *kind));
  weights->reportUnknown(warnings);
  OCTET_TRY_ASSIGN(std::optional<Fields> inputs,
                   group.getObject("input_activations"));
  result.scheme.activation = Activation::None;
  if (inputs) {
    OCTET_TRY(readActivations(*inputs, *kind, result.scheme));
    inputs->reportUnknown(warnings);
  }
  group.reportUnknown(warnings); // output_activations among them
  return std::optional(std::move(result));
}

/// Transforms and sparsity would change what the codes mean.
static Status checkTransforms(Fields &fields) {
  OCTET_TRY_ASSIGN(std::optional<Fields> sparsity,
                   fields.getObject("sparsity_config"));
  if (sparsity) {
    OCTET_TRY_ASSIGN(std::optional<std::string> format,
                     sparsity->getString("format"));
    if (format && *format != "dense")
      return sparsity->error("format",
                             "is " + quoteName(*format) +
                                 ", which is not built; 'dense' runs",
                             "C2");
  }
  const nlohmann::json *transform = fields.find("transform_config");
  if (transform && !transform->empty())
    return fields.error("transform_config",
                        "is not empty; transforms of weights or activations "
                        "are not built",
                        "C2");
  return Status::success();
}

Result<QuantConfig> octet::readCompressedTensors(const ReadRequest &request) {
  if (!request.found || request.foundMethod != "compressed-tensors")
    return cannotReadLayout(request, "it needs a config with config_groups");
  Fields fields(request.found->fields, request.found->source);
  QuantConfig config = startConfig(request);
  fields.ignore({"quant_method", "quantization_status",
                 "global_compression_ratio", "version"});
  OCTET_TRY(checkTransforms(fields));
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("ignore"));
  // As among the targets, the class stands for every linear.
  for (NameEntry &entry : config.ignore.entries)
    if (entry.getText() == kLinearClass)
      entry.addAlias(kLinearClass, "*");
  readKvCache(fields, config.kvCache);
  OCTET_TRY_ASSIGN(std::optional<std::string> format,
                   fields.getString("format"));
  OCTET_TRY_ASSIGN(std::optional<Fields> groups,
                   fields.getObject("config_groups"));
  if (!groups)
    return fields.error("config_groups", "is absent; expected an object of "
                                         "groups with targets and weights");
  for (const auto &[name, value] : groups->getJson().items()) {
    OCTET_TRY_ASSIGN(std::optional<Fields> group, groups->getObject(name));
    if (!group)
      return groups->error(escapeName(name), "is null, expected an object");
    OCTET_TRY_ASSIGN(std::optional<SchemeGroup> read,
                     readGroup(name, *group, format.value_or("float-quantized"),
                               config.warnings));
    if (read)
      config.groups.push_back(std::move(*read));
  }
  fields.reportUnknown(config.warnings);
  return config;
}
