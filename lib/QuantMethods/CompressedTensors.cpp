//===- CompressedTensors.cpp - The compressed-tensors family --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: compressed-tensors` with `float-quantized` groups: FP8 weights
// per tensor, channel or block; activations static per tensor, dynamic, or not
// quantised at all (weight-only). FORMATS has the fields.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

/// Formats that mean codes of 8 bits as they are; the fields say which.
static bool isPlainFormat(std::string_view format) {
  return format == "float-quantized" || format == "naive-quantized";
}

static Status checkFormat(const Fields &fields, const std::string &format) {
  if (isPlainFormat(format))
    return Status::success();
  return fields.error("format",
                      "is " + quoteName(format) +
                          ", which is not built yet; 'float-quantized', "
                          "'naive-quantized' and 'dense' run",
                      "C2");
}

/// Fields of quantisation arguments that do not change what stored codes mean.
static void ignoreObservers(Fields &args) {
  args.ignore({"observer", "observer_kwargs", "actorder", "scale_dtype",
               "zp_dtype", "is_mse"});
}

/// `num_bits` 8 and `type` float, symmetric.
static Status checkFloat8(Fields &args) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> bits, args.getInteger("num_bits"));
  OCTET_TRY_ASSIGN(std::optional<std::string> type, args.getString("type"));
  if (bits.value_or(8) != 8 || type.value_or("int") != "float")
    return inputError(args.getSource(),
                      "has type " + quoteName(type.value_or("int")) + " of " +
                          std::to_string(bits.value_or(8)) +
                          " bits, which is not built yet; 'float' of 8 bits "
                          "runs",
                      "C2");
  OCTET_TRY_ASSIGN(std::optional<bool> symmetric, args.getBool("symmetric"));
  if (!symmetric.value_or(true))
    return args.error("symmetric",
                      "is false; FP8 codes have no zero point, expected true");
  return Status::success();
}

static Result<Granularity> readWeights(Fields &weights) {
  OCTET_TRY(checkFloat8(weights));
  ignoreObservers(weights);
  OCTET_TRY_ASSIGN(std::optional<bool> dynamic, weights.getBool("dynamic"));
  if (dynamic.value_or(false))
    return weights.error("dynamic", "is true; stored weights have stored "
                                    "scales, expected false");
  OCTET_TRY_ASSIGN(std::optional<int64_t> groupSize,
                   weights.getInteger("group_size"));
  OCTET_TRY_ASSIGN(std::optional<Granularity> block,
                   weights.getBlock("block_structure"));
  OCTET_TRY_ASSIGN(std::optional<std::string> strategy,
                   weights.getString("strategy"));
  if (!strategy)
    strategy = block ? "block" : groupSize ? "group" : "tensor";
  if (*strategy == "tensor")
    return Granularity::perTensor();
  if (*strategy == "channel")
    return Granularity::perChannel();
  if (*strategy == "block") {
    if (!block)
      return weights.error("block_structure",
                           "is absent, strategy 'block' needs [bn, bk]");
    return *block;
  }
  return weights.error("strategy",
                       "is " + quoteName(*strategy) +
                           ", which is not built yet for FP8 weights; "
                           "'tensor', 'channel' and 'block' run",
                       "C2");
}

/// Static needs one stored scale; every dynamic scheme becomes one scale a
/// token, or a token and block along K (P3).
static Result<Activation> readActivations(Fields &inputs,
                                          const Granularity &weight) {
  OCTET_TRY(checkFloat8(inputs));
  ignoreObservers(inputs);
  inputs.ignore({"block_structure"});
  const nlohmann::json *dynamic = inputs.find("dynamic");
  if (dynamic && !dynamic->is_boolean())
    return inputs.error("dynamic",
                        "is " + describeJson(*dynamic) +
                            ", which is not built yet; true and false run",
                        "C2");
  bool isDynamic = dynamic && dynamic->get<bool>();
  OCTET_TRY_ASSIGN(std::optional<std::string> strategy,
                   inputs.getString("strategy"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> groupSize,
                   inputs.getInteger("group_size"));
  std::string word = strategy.value_or(groupSize   ? "group"
                                       : isDynamic ? "token"
                                                   : "tensor");
  if (!isDynamic) {
    if (word != "tensor")
      return inputs.error("strategy",
                          "is " + quoteName(word) +
                              " and dynamic is false; a static scale is one "
                              "per tensor");
    if (weight.isBlock())
      return inputs.error("dynamic",
                          "is false and the weights are in blocks; one static "
                          "scale cannot describe per-block activations, "
                          "dynamic true can",
                          "C5");
    return Activation::Static;
  }
  if (word == "group") {
    if (!weight.isBlock() || groupSize.value_or(0) != weight.blockK)
      return inputs.error("group_size",
                          "is " + std::to_string(groupSize.value_or(0)) + ", " +
                              (weight.isBlock()
                                   ? "the weight's blocks have " +
                                         std::to_string(weight.blockK) +
                                         " along K; the two have to agree"
                                   : "and the weight has no blocks along K; "
                                     "strategy 'token' fits"));
    return Activation::Dynamic;
  }
  if (word != "token" && word != "tensor")
    return inputs.error("strategy",
                        "is " + quoteName(word) +
                            ", which is not built yet; 'tensor', 'token' and "
                            "'group' run",
                        "C2");
  return Activation::Dynamic;
}

/// A target is the class name `Linear`, a `re:` pattern or a module path.
static Status readTargets(Fields &group, SchemeGroup &result) {
  OCTET_TRY_ASSIGN(NameList targets, group.getNames("targets"));
  // Some exporters leave the field out and mean every linear.
  if (targets.presence != NameList::Presence::Given)
    result.allLinears = true;
  for (NameEntry &entry : targets.entries) {
    if (entry.getText() == "Linear")
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
  OCTET_TRY(checkFormat(group, word));
  OCTET_TRY_ASSIGN(std::optional<Fields> weights, group.getObject("weights"));
  if (!weights) // the group quantises something else, such as the KV cache
    return std::optional<SchemeGroup>();
  OCTET_TRY_ASSIGN(result.scheme.weight, readWeights(*weights));
  weights->reportUnknown(warnings);
  OCTET_TRY_ASSIGN(std::optional<Fields> inputs,
                   group.getObject("input_activations"));
  result.scheme.activation = Activation::None;
  if (inputs) {
    OCTET_TRY_ASSIGN(result.scheme.activation,
                     readActivations(*inputs, result.scheme.weight));
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

Result<QuantConfig> octet::readCompressedTensors(const FoundConfig *found,
                                                 std::string_view foundMethod,
                                                 bool namedByUser) {
  if (!found || foundMethod != "compressed-tensors")
    return cannotReadLayout("compressed-tensors", found, foundMethod,
                            "it needs a config with config_groups");
  Fields fields(found->fields, found->source);
  QuantConfig config;
  config.method = "compressed-tensors";
  config.source = found->source;
  fields.ignore({"quant_method", "quantization_status",
                 "global_compression_ratio", "version"});
  OCTET_TRY(checkTransforms(fields));
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("ignore"));
  readKvCache(fields, config.kvCache);
  OCTET_TRY_ASSIGN(std::optional<std::string> format,
                   fields.getString("format"));
  OCTET_TRY_ASSIGN(std::optional<Fields> groups,
                   fields.getObject("config_groups"));
  if (!groups)
    return fields.error("config_groups", "is absent; expected an object of "
                                         "groups with targets and weights");
  for (const auto &[name, value] :
       found->fields.find("config_groups")->items()) {
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
