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

using namespace octet;

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
  if (!word)
    return Status::success();
  // The headers say which it is; loading makes e4m3 of the others (N8).
  for (std::string_view known : {"e4m3", "float8_e4m3fn", "e5m2", "float8_e5m2",
                                 "float8_e4m3fnuz", "float8_e5m2fnuz"})
    if (*word == known)
      return Status::success();
  return fields.error(
      "fmt", "is " + quoteName(*word) + ", expected 'e4m3' or 'e5m2'", "N1");
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

Result<QuantConfig> octet::readFp8(const ReadRequest &request) {
  QuantConfig config = startConfig(request);
  if (!request.found) { // W10
    config.serialized = false;
    config.scheme =
        makeFloat8Scheme(Granularity::perChannel(), Activation::Dynamic, "");
    return config;
  }
  // `fp8` covers per-tensor, per-channel and block (C3), so it reads every
  // config that has FP8 weights with float scales.
  if (request.foundMethod != "fp8") {
    std::string why = "it reads FP8 weights with float scales, of 'fp8', "
                      "'w8a8_fp8', 'compressed-tensors', 'modelopt' and "
                      "'quark' checkpoints";
    MethodReader read = nullptr;
    if (request.foundMethod == "compressed-tensors")
      read = readCompressedTensors;
    else if (request.foundMethod == "w8a8_fp8")
      read = readW8A8Fp8;
    else if (request.foundMethod == "modelopt")
      read = readModelOpt;
    else if (request.foundMethod == "quark")
      read = readQuark;
    if (!read)
      return cannotReadLayout(request, why);
    OCTET_TRY_ASSIGN(config, read(request.asFound()));
    bool readable = !config.scheme || config.scheme->isPlainFloat8();
    for (const SchemeGroup &group : config.groups)
      readable &= group.scheme.isPlainFloat8();
    if (!readable)
      return cannotReadLayout(request, why);
    config.method = "fp8";
    return config;
  }

  Fields fields(request.found->fields, request.found->source);
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
  scheme.source = config.source;
  config.scheme = std::move(scheme);
  fields.reportUnknown(config.warnings);
  return config;
}
