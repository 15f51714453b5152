//===- Fp8.cpp - The fp8 family -------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: fp8` (C4, C5): block, per-tensor or per-channel weights, the
// granularity being a field or the stored scale's shape (C3); activations
// static or dynamic. With no config at all, `--quantization fp8` quantises the
// weights while loading (W10).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;

/// `modules_to_not_convert` and `ignored_layers` are two names of one field.
static Status readIgnored(Fields &fields, QuantConfig &config) {
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("modules_to_not_convert"));
  OCTET_TRY_ASSIGN(NameList other, fields.getNames("ignored_layers"));
  if (other.presence == NameList::Presence::Given && !config.ignore.isEmpty()) {
    auto texts = [](const NameList &list) {
      std::vector<std::string> result;
      for (const NameEntry &entry : list.entries)
        result.push_back(entry.getText());
      std::sort(result.begin(), result.end());
      return result;
    };
    if (texts(config.ignore) == texts(other))
      return Status::success();
    ErrorInfo warning;
    warning.subject = fields.getSource();
    warning.message = "modules_to_not_convert and ignored_layers differ; a "
                      "module on either list is ignored";
    warning.rule = "C4";
    config.warnings.push_back(std::move(warning));
  }
  config.ignore.append(std::move(other));
  return Status::success();
}

static Result<Activation> readActivationScheme(Fields &fields) {
  OCTET_TRY_ASSIGN(std::optional<std::string> word,
                   fields.getString("activation_scheme"));
  if (!word || *word == "dynamic")
    return Activation::Dynamic;
  if (*word == "static")
    return Activation::Static;
  return fields.error("activation_scheme",
                      "is " + quoteName(*word) +
                          ", expected 'static' or 'dynamic'");
}

static Status readScaleFormat(Fields &fields, QuantConfig &config) {
  OCTET_TRY_ASSIGN(std::optional<std::string> word,
                   fields.getString("scale_fmt"));
  if (!word || *word == "float" || *word == "fp32")
    return Status::success();
  if (*word != "ue8m0")
    return fields.error("scale_fmt", "is " + quoteName(*word) +
                                         ", expected 'ue8m0' or no such field");
  config.ue8m0 = true;
  return Status::success();
}

static Status readFormatWord(Fields &fields) {
  OCTET_TRY_ASSIGN(std::optional<std::string> word, fields.getString("fmt"));
  if (word && *word != "e4m3" && *word != "float8_e4m3fn")
    return fields.error(
        "fmt", "is " + quoteName(*word) + ", only 'e4m3' is used in compute",
        "N1");
  return Status::success();
}

/// C5: a block needs stored codes and dynamic activations.
static Status checkBlock(const Fields &fields, const Scheme &scheme,
                         bool serialized) {
  std::string block = "[" + std::to_string(scheme.weight.blockN) + ", " +
                      std::to_string(scheme.weight.blockK) + "]";
  if (!serialized)
    return fields.error("weight_block_size",
                        "is " + block +
                            " but the checkpoint is not FP8-serialised; "
                            "convert it offline first with 'octet quantize "
                            "CKPT -o DIR --to fp8-block'",
                        "C5");
  if (scheme.activation == Activation::Static)
    return fields.error("weight_block_size",
                        "is " + block +
                            " and activation_scheme is 'static'; one static "
                            "scale cannot describe per-block activations, "
                            "activation_scheme 'dynamic' can",
                        "C5");
  return Status::success();
}

Result<QuantConfig> octet::readFp8(const FoundConfig *found,
                                   std::string_view foundMethod,
                                   bool namedByUser) {
  QuantConfig config;
  if (!found) { // W10
    config.serialized = false;
    config.scheme =
        Scheme{Granularity::perChannel(), false, Activation::Dynamic};
    config.method = "fp8";
    return config;
  }
  // `fp8` covers per-tensor, per-channel and block (C3), so it reads every
  // compressed-tensors config that has FP8 weights.
  if (foundMethod == "compressed-tensors" || foundMethod == "w8a8_fp8") {
    OCTET_TRY_ASSIGN(QuantConfig read,
                     foundMethod == "w8a8_fp8"
                         ? readW8A8Fp8(found, foundMethod, false)
                         : readCompressedTensors(found, foundMethod, false));
    read.method = "fp8";
    return read;
  }
  if (foundMethod != "fp8")
    return cannotReadLayout(
        "fp8", found, foundMethod,
        "it reads 'fp8', 'w8a8_fp8' and "
        "'compressed-tensors' checkpoints with FP8 weights");

  Fields fields(found->fields, found->source);
  config.method = "fp8";
  config.source = found->source;
  fields.ignore({"quant_method", "expert_dtype", "dequantize",
                 "modules_to_convert", "quantization_status", "version"});
  OCTET_TRY_ASSIGN(std::optional<bool> serialized,
                   fields.getBool("is_checkpoint_fp8_serialized"));
  config.serialized = serialized.value_or(true);
  OCTET_TRY(readFormatWord(fields));
  OCTET_TRY(readScaleFormat(fields, config));
  OCTET_TRY(readIgnored(fields, config));
  readKvCache(fields, config.kvCache);

  Scheme scheme;
  OCTET_TRY_ASSIGN(scheme.activation, readActivationScheme(fields));
  OCTET_TRY_ASSIGN(std::optional<Granularity> block,
                   fields.getBlock("weight_block_size"));
  if (block) {
    scheme.weight = *block;
    OCTET_TRY(checkBlock(fields, scheme, config.serialized));
  } else {
    scheme.weight = Granularity::perTensor();
    scheme.anyGranularity = true;
  }
  config.scheme = scheme;
  fields.reportUnknown(config.warnings);
  return config;
}
