//===- Gptq.cpp - The gptq family ---------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: gptq`: 4 or 8 bits in groups along K, words along K, lowest
// bits first; w = (q - z) * s, with z - 1 stored by `gptq` and z by `gptq_v2`.
// With `desc_act` rows are not in the order of their groups. `dynamic`
// overrides fields by module, `-:PATTERN` skips modules. `gptq_marlin` is the
// same checkpoint run from a layout of its own (C10).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Checkpoint/JsonSax.h"
#include "octet/Support/Escape.h"

using namespace octet;

namespace {

/// The fields that `dynamic` may override.
struct Quantisation {
  int64_t bits = 4, group = 128;
  bool sym = true, descAct = false;
  ZeroPoints zeros = ZeroPoints::StoredMinusOne;
};

} // namespace

static Status readFields(Fields &fields, Quantisation &values) {
  OCTET_TRY_ASSIGN(std::optional<int64_t> bits, fields.getInteger("bits"));
  OCTET_TRY_ASSIGN(std::optional<int64_t> group,
                   fields.getInteger("group_size"));
  OCTET_TRY_ASSIGN(std::optional<bool> sym, fields.getBool("sym"));
  OCTET_TRY_ASSIGN(std::optional<bool> descAct, fields.getBool("desc_act"));
  values.bits = bits.value_or(values.bits);
  values.group = group.value_or(values.group);
  values.sym = sym.value_or(values.sym);
  values.descAct = descAct.value_or(values.descAct);
  if (values.bits != 4 && values.bits != 8)
    return fields.error("bits",
                        "is " + std::to_string(values.bits) +
                            (values.bits == 2 || values.bits == 3
                                 ? ", which is not built; 4 and 8 are"
                                 : ", expected 4 or 8"),
                        "C2");
  if (values.group != -1 &&
      (values.group < 1 || values.group > (int64_t(1) << 30)))
    return fields.error("group_size", "is " + std::to_string(values.group) +
                                          ", expected a positive integer, or "
                                          "-1 for all of K");
  return Status::success();
}

static Scheme makeScheme(const Quantisation &values, std::string source) {
  Scheme scheme =
      makeFloat8Scheme(values.group == -1 ? Granularity::perChannel()
                                          : Granularity::group(values.group),
                       Activation::None, std::move(source));
  scheme.format.code = values.bits == 8 ? CodeType::Int8 : CodeType::Int4;
  scheme.format.layout = WeightLayout::GptqWords;
  scheme.format.zeroPoints = values.zeros;
  scheme.format.actOrder = values.descAct;
  return scheme;
}

/// The keys of `dynamic` in the order of the file, where parsing kept it: each
/// of them once, and nothing else.
static std::optional<std::vector<std::string>>
findOrder(Fields &fields, const nlohmann::json &rules) {
  const nlohmann::json *order = fields.find(detail::kRuleOrder);
  if (!order || !order->is_array() || order->size() != rules.size())
    return std::nullopt;
  std::set<std::string> keys;
  std::vector<std::string> result;
  for (const nlohmann::json &each : *order) {
    if (!each.is_string() || !rules.contains(each.get<std::string>()) ||
        !keys.insert(each.get<std::string>()).second)
      return std::nullopt;
    result.push_back(each.get<std::string>());
  }
  return result;
}

/// The rules by module: of those that match, the first counts.
static Status readDynamic(Fields &fields, const Quantisation &values,
                          QuantConfig &config) {
  OCTET_TRY_ASSIGN(std::optional<Fields> rules, fields.getObject("dynamic"));
  if (!rules)
    return Status::success();
  std::optional<std::vector<std::string>> order =
      findOrder(fields, rules->getJson());
  config.ordered = order.has_value();
  if (!order) {
    order.emplace();
    for (const auto &[key, value] : rules->getJson().items())
      order->push_back(key);
  }
  for (const std::string &key : *order) {
    std::string_view pattern = key;
    SchemeGroup group;
    group.name = key;
    group.skips = pattern.starts_with("-:");
    if (group.skips || pattern.starts_with("+:"))
      pattern.remove_prefix(2);
    OCTET_TRY_ASSIGN(std::optional<Fields> rule, rules->getObject(key));
    if (!rule && !group.skips)
      continue;
    if (!group.skips) {
      Quantisation own = values;
      OCTET_TRY(readFields(*rule, own));
      rule->reportUnknown(config.warnings);
      group.scheme = makeScheme(own, rule->getSource());
    }
    OCTET_TRY(group.patterns.add("re:" + std::string(pattern),
                                 fields.getSource(), "dynamic"));
    config.groups.push_back(std::move(group));
  }
  return Status::success();
}

/// What the repacked kernel cannot take, or empty (C10).
static std::string whyNotRepacked(const Quantisation &values) {
  if (!values.sym)
    return "sym is false";
  if (values.group != 32 && values.group != 64 && values.group != 128 &&
      values.group != -1)
    return "group_size is " + std::to_string(values.group);
  return "";
}

/// Fields of the quantiser that do not change what is stored.
static void ignoreDecoration(Fields &fields) {
  fields.ignore({"quant_method",
                 "damp_percent",
                 "damp_auto_increment",
                 "static_groups",
                 "true_sequential",
                 "model_name_or_path",
                 "model_file_base_name",
                 "dataset",
                 "tokenizer",
                 "batch_size",
                 "cache_block_outputs",
                 "exllama_config",
                 "use_cuda_fp16",
                 "use_exllama",
                 "max_input_length",
                 "model_seqlen",
                 "module_name_preceding_first_block",
                 "pad_token_id",
                 "block_name_to_quantize",
                 "meta",
                 "pack_dtype",
                 "mse",
                 "is_marlin_format",
                 "backend",
                 "format"});
}

static Status readZeros(Fields &fields, Quantisation &values) {
  OCTET_TRY_ASSIGN(std::optional<std::string> format,
                   fields.getString("checkpoint_format"));
  std::string word = format.value_or("gptq");
  if (word == "gptq_v2")
    values.zeros = ZeroPoints::Stored;
  else if (word != "gptq")
    return fields.error("checkpoint_format",
                        "is " + quoteName(word) +
                            ", a layout that is not read; 'gptq' and "
                            "'gptq_v2' are",
                        "C2");
  return Status::success();
}

Result<QuantConfig> octet::readGptq(const ReadRequest &request) {
  if (!request.found ||
      (request.foundMethod != "gptq" && request.foundMethod != "gptq_marlin"))
    return cannotReadLayout(request, "it reads 4- and 8-bit weights packed "
                                     "along K, of 'gptq' checkpoints");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  ignoreDecoration(fields);
  if (!fields.find("bits"))
    return fields.error("bits", "is absent, expected 4 or 8");
  Quantisation values;
  OCTET_TRY(readZeros(fields, values));
  OCTET_TRY(readFields(fields, values));
  config.scheme = makeScheme(values, config.source);
  OCTET_TRY_ASSIGN(std::optional<bool> lmHead, fields.getBool("lm_head"));
  config.lmHead = lmHead.value_or(false);
  OCTET_TRY(readIgnored(fields, config));
  OCTET_TRY(readDynamic(fields, values, config));
  // Lists of lists: the modules of a block in the order of their quantisation.
  if (const nlohmann::json *names = fields.find("modules_in_block_to_quantize"))
    if (!names->empty())
      config.warnings.push_back(makeFieldNote(
          fields, "modules_in_block_to_quantize",
          "is not used; which modules are quantised is read off their tensors",
          "C13"));
  readKvCache(fields, config.kvCache);
  OCTET_TRY(chooseRepacked(request, "gptq", "gptq_marlin",
                           whyNotRepacked(values),
                           "4 or 8 bits, groups of 32, 64, 128 or all of K, "
                           "sym true",
                           config));
  fields.reportUnknown(config.warnings);
  return config;
}
