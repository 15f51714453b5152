//===- W8A8.cpp - The w8a8 family ---------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `w8a8_fp8` and `w8a8_int8`: one scale a channel, activations per token. Their
// usual source is a compressed-tensors checkpoint read by that name (C3).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

static Scheme makeScheme(CodeType code, std::string source) {
  Scheme scheme = makeFloat8Scheme(Granularity::perChannel(),
                                   Activation::Dynamic, std::move(source));
  scheme.format.code = code;
  scheme.input.code = code;
  return scheme;
}

/// Both read the same fields and differ in the codes.
static Result<QuantConfig> readW8A8(const ReadRequest &request, CodeType code,
                                    std::string_view word) {
  if (!request.found)
    return cannotReadLayout(request, "it reads stored " + std::string(word) +
                                         " weights; 'fp8' quantises while "
                                         "loading");
  Scheme scheme = makeScheme(code, request.found->source);
  if (request.foundMethod == "compressed-tensors") {
    OCTET_TRY_ASSIGN(QuantConfig config,
                     readCompressedTensors(request.asFound()));
    for (const SchemeGroup &group : config.groups)
      if (group.scheme.weight != scheme.weight ||
          group.scheme.activation != scheme.activation ||
          group.scheme.format != scheme.format ||
          group.scheme.input != scheme.input)
        return cannotReadLayout(
            request,
            "it reads " +
                (code == CodeType::E4M3 ? std::string()
                                        : std::string(word) + " with ") +
                "one scale a channel and dynamic activations, which " +
                quoteName(group.name) + " of config_groups is not");
    config.method = request.name;
    return config;
  }
  if (request.foundMethod != request.name)
    return cannotReadLayout(request, "it reads per-channel " +
                                         std::string(word) + " of '" +
                                         std::string(request.name) +
                                         "' and 'compressed-tensors' "
                                         "checkpoints");
  Fields fields(request.found->fields, request.found->source);
  QuantConfig config = startConfig(request);
  fields.ignore({"quant_method", "version"});
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("ignore"));
  OCTET_TRY_ASSIGN(NameList more, fields.getNames("modules_to_not_convert"));
  config.ignore.append(std::move(more));
  readKvCache(fields, config.kvCache);
  config.scheme = std::move(scheme);
  fields.reportUnknown(config.warnings);
  return config;
}

Result<QuantConfig> octet::readW8A8Fp8(const ReadRequest &request) {
  return readW8A8(request, CodeType::E4M3, "FP8");
}

Result<QuantConfig> octet::readW8A8Int8(const ReadRequest &request) {
  return readW8A8(request, CodeType::Int8, "INT8");
}
