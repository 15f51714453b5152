//===- AutoRound.cpp - The auto-round method ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: auto-round`: integers in the layout that `packing_format`
// names, GPTQ's or AWQ's; with `data_type: mx_fp` MXFP4 or MXFP8, with `nv_fp`
// NVFP4 (N7), whose tensors are those of compressed-tensors. `extra_config`
// overrides bits, group and sym by module, 16 bits meaning unquantised;
// `block_name_to_quantize` bounds what is quantised at all.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

namespace {

struct Quantisation {
  int64_t bits = 4, group = 128;
  bool sym = true;
  WeightLayout layout = WeightLayout::GptqWords;
  std::string type = "int";
  int64_t actBits = 16; ///< 16: weights only

  bool isInteger() const { return type == "int"; }
};

} // namespace

/// Groups of 32 with an exponent, or of 16 below two scales; activations alike.
static Status checkFloats(const Fields &fields, const Quantisation &values) {
  const bool isMx = values.type == "mx_fp";
  if (values.bits != 4 && !(isMx && values.bits == 8))
    return fields.error("bits",
                        "is " + std::to_string(values.bits) +
                            ", which is not built; " +
                            (isMx ? "4, 8 and 16 are" : "4 and 16 are"),
                        "C2");
  const int64_t group = isMx ? 32 : 16;
  if (values.group != group)
    return fields.error("group_size",
                        "is " + std::to_string(values.group) + ", '" +
                            values.type + "' has groups of " +
                            std::to_string(group),
                        "N7");
  if (!values.sym)
    return fields.error("sym", "is false; '" + values.type +
                                   "' has no zero points, expected true");
  if (values.actBits < 16 && values.actBits != values.bits)
    return fields.error("act_bits",
                        "is " + std::to_string(values.actBits) + " and bits " +
                            std::to_string(values.bits) +
                            "; products of two types are not built, the "
                            "weight's or 16 fits",
                        "C2");
  return Status::success();
}

static Status readFields(Fields &fields, Quantisation &values) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> bits, fields.getInteger("bits"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> group,
                   fields.getInteger("group_size"));
  OCTET_TRY_ASSIGN(std::optional<bool> sym, fields.getBool("sym"));
  OCTET_TRY_ASSIGN(std::optional<std::string> type,
                   fields.getString("data_type"));
  values.bits = bits.value_or(values.bits);
  values.group = group.value_or(values.group);
  values.sym = sym.value_or(values.sym);
  if (values.bits >= 16) // unquantised, whatever the rest says
    return Status::success();
  values.type = type.value_or(values.type);
  if (values.type != "int" && values.type != "mx_fp" && values.type != "nv_fp")
    return fields.error("data_type",
                        "is " + quoteName(*type) +
                            ", a layout that is not read; 'int', 'mx_fp' and "
                            "'nv_fp' are",
                        "C2");
  if (!values.isInteger())
    return checkFloats(fields, values);
  bool isGptq = values.layout == WeightLayout::GptqWords;
  if (values.bits != 4 && !(isGptq && values.bits == 8))
    return fields.error("bits",
                        "is " + std::to_string(values.bits) +
                            ", which is not built; " +
                            (isGptq ? "4, 8 and 16 are" : "4 and 16 are"),
                        "C2");
  if (values.group != -1 &&
      (values.group < 1 || values.group > (int64_t(1) << 30)))
    return fields.error("group_size", "is " + std::to_string(values.group) +
                                          ", expected a positive integer, or "
                                          "-1 for all of K");
  return Status::success();
}

/// MX and NVFP4, weights only or with activations of the same kind.
static Scheme makeFloatScheme(const Quantisation &values, std::string source) {
  const bool quantizesInput = values.actBits < 16;
  if (values.type == "nv_fp")
    return makeNvfp4Scheme(GlobalScale::Divides, quantizesInput,
                           std::move(source));
  Scheme scheme = values.bits == 8 ? makeMxfp8Scheme(std::move(source))
                                   : makeMxfp4Scheme(WeightLayout::NibbleRows,
                                                     std::move(source));
  scheme.activation = quantizesInput ? Activation::Dynamic : Activation::None;
  scheme.input = {};
  if (quantizesInput) {
    scheme.input.code = scheme.format.code;
    scheme.input.scale = ScaleFormat::Exponents;
  }
  return scheme;
}

static Scheme makeScheme(const Quantisation &values, std::string source) {
  if (!values.isInteger())
    return makeFloatScheme(values, std::move(source));
  Scheme scheme =
      makeFloat8Scheme(values.group == -1 ? Granularity::perChannel()
                                          : Granularity::group(values.group),
                       Activation::None, std::move(source));
  scheme.format.code = values.bits == 8 ? CodeType::Int8 : CodeType::Int4;
  scheme.format.layout = values.layout;
  scheme.format.zeroPoints = values.layout == WeightLayout::GptqWords
                                 ? ZeroPoints::StoredMinusOne
                                 : ZeroPoints::Stored;
  return scheme;
}

/// `auto_round:auto_gptq`, `auto_round:gptq`, `auto_awq`, ….
static Status readPacking(Fields &fields, Quantisation &values) {
  OCTET_TRY_ASSIGN(std::optional<std::string> format,
                   fields.getString("packing_format"));
  if (!values.isInteger()) // one layout each
    return Status::success();
  std::string word = toLower(format.value_or("auto_round:auto_gptq"));
  std::string_view layout = word;
  if (layout.starts_with("auto_round:"))
    layout.remove_prefix(11);
  if (layout.starts_with("auto_"))
    layout.remove_prefix(5);
  if (layout == "gptq")
    values.layout = WeightLayout::GptqWords;
  else if (layout == "awq")
    values.layout = WeightLayout::AwqWords;
  else
    return fields.error("packing_format",
                        "is " + quoteName(*format) +
                            ", a layout that is not read; "
                            "'auto_round:auto_gptq' and 'auto_round:auto_awq' "
                            "are",
                        "C2");
  return Status::success();
}

/// A key is a module's path, or an expression.
static std::string toEntry(std::string_view key) {
  bool isExpression = key.find_first_of("*[](|)^$+\\") != key.npos;
  return (isExpression ? "re:" : "") + std::string(key);
}

static Status readOverrides(Fields &fields, const Quantisation &values,
                            QuantConfig &config) {
  constexpr std::string_view kField = "extra_config";
  OCTET_TRY_ASSIGN(std::optional<Fields> all, fields.getObject(kField));
  if (!all)
    return Status::success();
  for (const auto &[key, value] : all->getJson().items()) {
    OCTET_TRY_ASSIGN(std::optional<Fields> own, all->getObject(key));
    if (!own)
      continue;
    Quantisation changed = values;
    OCTET_TRY(readFields(*own, changed));
    std::string entry = toEntry(key);
    if (changed.bits >= 16) {
      OCTET_TRY(config.ignore.add(entry, fields.getSource(), kField));
      continue;
    }
    if (key == "lm_head")
      config.lmHead = true;
    SchemeGroup group;
    group.name = key;
    group.scheme = makeScheme(changed, own->getSource());
    NameList &names = entry == key ? group.paths : group.patterns;
    OCTET_TRY(names.add(entry, fields.getSource(), kField));
    config.groups.push_back(std::move(group));
  }
  return Status::success();
}

/// What the activations are beside the weights: of the same kind, with scales
/// that are computed.
static Status checkActivations(Fields &fields, const Quantisation &values) {
  OCTET_TRY_ASSIGN(std::optional<std::string> type,
                   fields.getString("act_data_type"));
  OCTET_TRY_ASSIGN(std::optional<bool> dynamic, fields.getBool("act_dynamic"));
  if (values.isInteger() || values.actBits >= 16)
    return Status::success();
  if (type && !type->starts_with(values.type))
    return fields.error("act_data_type",
                        "is " + quoteName(*type) + " and data_type '" +
                            values.type +
                            "'; products of two types are not built",
                        "C2");
  if (!dynamic.value_or(true))
    return fields.error("act_dynamic", "is false; groups of '" + values.type +
                                           "' have scales that are computed, "
                                           "expected true");
  return Status::success();
}

/// Without the field every linear is quantised; with it those below its names,
/// a list or words with commas between.
static Status readBlocks(Fields &fields, Scheme scheme, QuantConfig &config) {
  constexpr std::string_view kField = "block_name_to_quantize";
  const nlohmann::json *value = fields.find(kField);
  if (!value) {
    config.scheme = std::move(scheme);
    return Status::success();
  }
  SchemeGroup group;
  group.name = kField;
  group.scheme = std::move(scheme);
  if (value->is_string()) {
    std::string_view rest = value->get_ref<const std::string &>();
    while (!rest.empty()) {
      size_t end = std::min(rest.find(','), rest.size());
      OCTET_TRY(group.paths.add(std::string(rest.substr(0, end)),
                                fields.getSource(), kField));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  } else {
    OCTET_TRY_ASSIGN(group.paths, fields.getNames(kField));
  }
  config.groups.push_back(std::move(group));
  return Status::success();
}

Result<QuantConfig> octet::readAutoRound(const ReadRequest &request) {
  if (!request.found || request.foundMethod != "auto-round")
    return cannotReadLayout(request, "it reads 'auto-round' checkpoints");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  fields.ignore({"quant_method",
                 "autoround_version",
                 "iters",
                 "lr",
                 "minmax_lr",
                 "nsamples",
                 "seqlen",
                 "batch_size",
                 "enable_minmax_tuning",
                 "enable_quanted_input",
                 "low_gpu_mem_usage",
                 "enable_norm_bias_tuning",
                 "gradient_accumulate_steps",
                 "amp",
                 "scale_dtype",
                 "backend",
                 "dataset",
                 "enable_alg_ext",
                 "super_bits",
                 "super_group_size",
                 "act_group_size",
                 "act_sym",
                 "zero_point",
                 "version",
                 "desc_act",
                 "damp_percent",
                 "true_sequential"});
  OCTET_TRY_ASSIGN(std::optional<int64_t> actBits,
                   fields.getInteger("act_bits"));
  Quantisation values;
  OCTET_TRY_ASSIGN(std::optional<std::string> type,
                   fields.getString("data_type"));
  values.type = type.value_or("int");
  values.actBits = actBits.value_or(16);
  OCTET_TRY(checkActivations(fields, values));
  if (values.isInteger() && values.actBits < 16)
    return fields.error("act_bits",
                        "is " + std::to_string(*actBits) +
                            "; activations beside integers of 'auto-round' are "
                            "not quantised here, expected 16",
                        "C2");
  if (!fields.find("bits"))
    return fields.error("bits", "is absent, expected 4 or 8");
  OCTET_TRY(readPacking(fields, values));
  OCTET_TRY(readFields(fields, values));
  OCTET_TRY(readIgnored(fields, config));
  OCTET_TRY(readOverrides(fields, values, config)); // before the blocks: wins
  OCTET_TRY(readBlocks(fields, makeScheme(values, config.source), config));
  fields.reportUnknown(config.warnings);
  return config;
}
