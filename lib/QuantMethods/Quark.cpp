//===- Quark.cpp - The quark method -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: quark`: one config for all linears, others by glob. Weights
// are FP8 or INT8 a tensor or a channel, or FP4 in groups of 32 (MXFP4);
// activations static or dynamic. An entry with `output_tensors` alone is about
// the KV cache.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

namespace {

/// One of weight, input_tensors, output_tensors.
struct Spec {
  std::string dtype, qscheme;
  bool isDynamic = false;
  int64_t group = 0;
};

} // namespace

/// The object at `name`; a list of one stands for its element.
static Result<std::optional<Spec>>
readSpec(Fields &parent, std::string_view name, QuantConfig &config) {
  const nlohmann::json *value = parent.find(name);
  if (value && value->is_array() && value->size() != 1)
    return parent.error(name,
                        "is " + describeJson(*value) +
                            "; quantisation in several steps is not built, "
                            "expected one object",
                        "C2");
  if (!value)
    return std::optional<Spec>();
  const nlohmann::json &object = value->is_array() ? (*value)[0] : *value;
  if (!object.is_object())
    return parent.error(name,
                        "is " + describeJson(*value) + ", expected an object");
  Fields fields(object, parent.getSource() + "." + std::string(name));
  fields.ignore({"observer_cls", "round_method", "scale_type", "ch_axis",
                 "symmetric", "mx_element_dtype", "is_scale_quant",
                 "scale_calculation_mode", "zero_point_type"});
  Spec spec;
  OCTET_TRY_ASSIGN(std::optional<std::string> dtype, fields.getString("dtype"));
  OCTET_TRY_ASSIGN(std::optional<std::string> qscheme,
                   fields.getString("qscheme"));
  OCTET_TRY_ASSIGN(std::optional<bool> isDynamic, fields.getBool("is_dynamic"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> group,
                   fields.getInteger("group_size"));
  OCTET_TRY_ASSIGN(std::optional<std::string> scaleFormat,
                   fields.getString("scale_format"));
  spec.dtype = dtype.value_or("");
  spec.qscheme = qscheme.value_or("per_tensor");
  spec.isDynamic = isDynamic.value_or(false);
  spec.group = group.value_or(0);
  if (scaleFormat && *scaleFormat != "float" &&
      (*scaleFormat != "e8m0" || spec.dtype != "fp4"))
    return fields.error("scale_format",
                        "is " + quoteName(*scaleFormat) + " for dtype " +
                            quoteName(spec.dtype) +
                            "; 'e8m0' belongs to 'fp4', the others have "
                            "'float'",
                        "C2");
  fields.reportUnknown(config.warnings);
  return std::optional(std::move(spec));
}

static Result<Scheme> readWeight(const Fields &fields, const Spec &spec) {
  if (spec.dtype == "fp4") {
    constexpr int64_t kGroup = 32;
    if (spec.qscheme == "per_group" && spec.group == kGroup)
      return makeMxfp4Scheme(WeightLayout::NibbleRows, fields.getSource());
    return fields.error("weight",
                        "is 'fp4' " + spec.qscheme + " of " +
                            std::to_string(spec.group) +
                            "; MXFP4 is per_group of 32",
                        "N7");
  }
  Scheme scheme = makeFloat8Scheme(Granularity::perTensor(), Activation::None,
                                   fields.getSource());
  if (spec.dtype == "int8")
    scheme.format.code = CodeType::Int8;
  else if (spec.dtype != "fp8_e4m3")
    return fields.error("weight.dtype",
                        "is " + quoteName(spec.dtype) +
                            ", which is not built; 'fp8_e4m3', 'int8' and "
                            "'fp4' are",
                        "C2");
  if (spec.qscheme == "per_channel")
    scheme.weight = Granularity::perChannel();
  else if (spec.qscheme != "per_tensor")
    return fields.error(
        "weight.qscheme",
        "is " + quoteName(spec.qscheme) + ", which is not built for " +
            quoteName(spec.dtype) + "; 'per_tensor' and 'per_channel' are",
        "C2");
  return scheme;
}

/// The input's dtype is the weight's; static is one scale a tensor.
static Status readInput(const Fields &fields, const Spec &weight,
                        const Spec &input, Scheme &scheme) {
  if (input.dtype != weight.dtype)
    return fields.error("input_tensors.dtype",
                        "is " + quoteName(input.dtype) + " and the weight's " +
                            quoteName(weight.dtype) +
                            "; products of two dtypes are not built",
                        "C2");
  if (!input.isDynamic && input.qscheme != "per_tensor")
    return fields.error("input_tensors.qscheme",
                        "is " + quoteName(input.qscheme) +
                            " and is_dynamic is false; a static scale is one "
                            "per tensor");
  if (input.dtype == "fp4" && !input.isDynamic)
    return fields.error("input_tensors.is_dynamic",
                        "is false; MXFP4 activations have an exponent for 32 "
                        "elements, expected true");
  scheme.activation =
      input.isDynamic ? Activation::Dynamic : Activation::Static;
  scheme.input.code = scheme.format.code;
  scheme.input.scale = scheme.format.scale;
  return Status::success();
}

/// A config of all linears or of a glob's. \returns nothing for one that says
/// nothing of weights.
static Result<std::optional<Scheme>> readScheme(Fields &fields,
                                                QuantConfig &config) {
  OCTET_TRY_ASSIGN(std::optional<Spec> weight,
                   readSpec(fields, "weight", config));
  OCTET_TRY_ASSIGN(std::optional<Spec> input,
                   readSpec(fields, "input_tensors", config));
  fields.ignore({"output_tensors", "bias", "target_device"});
  fields.reportUnknown(config.warnings);
  if (!weight)
    return std::optional<Scheme>();
  OCTET_TRY_ASSIGN(Scheme scheme, readWeight(fields, *weight));
  if (input)
    OCTET_TRY(readInput(fields, *weight, *input, scheme));
  return std::optional(std::move(scheme));
}

/// `layer_quant_config`: a config for each glob.
static Status readLayers(Fields &fields, QuantConfig &config) {
  constexpr std::string_view kField = "layer_quant_config";
  OCTET_TRY_ASSIGN(std::optional<Fields> layers, fields.getObject(kField));
  if (!layers)
    return Status::success();
  for (const auto &[glob, value] : layers->getJson().items()) {
    OCTET_TRY_ASSIGN(std::optional<Fields> layer, layers->getObject(glob));
    if (!layer) { // null: these layers are not quantised
      OCTET_TRY(config.ignore.add(glob, fields.getSource(), kField,
                                  NameSyntax::Globs));
      continue;
    }
    OCTET_TRY_ASSIGN(std::optional<Scheme> scheme, readScheme(*layer, config));
    if (!scheme) // weight and input are the global ones
      continue;
    SchemeGroup group;
    group.name = glob;
    group.scheme = std::move(*scheme);
    OCTET_TRY(group.patterns.add(glob, fields.getSource(), kField,
                                 NameSyntax::Globs));
    config.groups.push_back(std::move(group));
  }
  return Status::success();
}

/// `layer_type_quant_config`: a config for each class of layers, of which only
/// linears are quantised here; it stands above the global one.
static Status readTypes(Fields &types, QuantConfig &config) {
  for (const auto &[type, value] : types.getJson().items()) {
    if (value.is_null())
      continue;
    const bool isLinear = type == "Linear" || type.ends_with(".Linear") ||
                          type.ends_with(".Linear'>");
    if (!isLinear)
      return types.error(escapeName(type),
                         "is a config of layers that are not quantised here; "
                         "'nn.Linear' is one of those that are",
                         "C2");
    OCTET_TRY_ASSIGN(std::optional<Fields> own, types.getObject(type));
    OCTET_TRY_ASSIGN(std::optional<Scheme> scheme, readScheme(*own, config));
    if (scheme)
      config.scheme = std::move(scheme);
  }
  return Status::success();
}

/// Two places say that keys and values have scales.
static Status readCache(Fields &fields, QuantConfig &config) {
  const nlohmann::json *cache = fields.find("kv_cache_quant_config");
  if (cache && !cache->empty())
    config.kvCache = "kv_cache_quant_config is " + describeJson(*cache);
  OCTET_TRY_ASSIGN(std::optional<Fields> exported, fields.getObject("export"));
  if (!exported)
    return Status::success();
  const nlohmann::json *names = exported->find("kv_cache_group");
  if (config.kvCache.empty() && names && !names->empty())
    config.kvCache = "export.kv_cache_group is " + describeJson(*names);
  return Status::success();
}

Result<QuantConfig> octet::readQuark(const ReadRequest &request) {
  if (!request.found || request.foundMethod != "quark")
    return cannotReadLayout(request, "it reads 'quark' checkpoints");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  fields.ignore({"quant_method", "version", "quant_mode", "algo_config",
                 "softmax_quant_spec", "kv_cache_post_rope", "min_kv_scale",
                 "packing_method", "log_severity_level"});
  OCTET_TRY_ASSIGN(config.ignore,
                   fields.getNames("exclude", NameSyntax::Globs));
  OCTET_TRY_ASSIGN(std::optional<Fields> global,
                   fields.getObject("global_quant_config"));
  if (!global)
    return fields.error("global_quant_config",
                        "is absent, expected an object with weight and "
                        "input_tensors");
  OCTET_TRY_ASSIGN(config.scheme, readScheme(*global, config));
  OCTET_TRY_ASSIGN(std::optional<Fields> types,
                   fields.getObject("layer_type_quant_config"));
  if (types)
    OCTET_TRY(readTypes(*types, config));
  OCTET_TRY(readLayers(fields, config));
  OCTET_TRY(readCache(fields, config));
  fields.reportUnknown(config.warnings);
  return config;
}
