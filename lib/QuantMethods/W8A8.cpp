//===- W8A8.cpp - The w8a8 family -----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `w8a8_fp8`: one scale a channel, activations per token. Its usual source is a
// compressed-tensors checkpoint read by that name (C3).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

Result<QuantConfig> octet::readW8A8Fp8(const FoundConfig *found,
                                       std::string_view foundMethod,
                                       bool namedByUser) {
  if (!found)
    return cannotReadLayout("w8a8_fp8", found, foundMethod,
                            "it reads stored FP8 weights; 'fp8' quantises "
                            "while loading");
  if (foundMethod == "compressed-tensors") {
    OCTET_TRY_ASSIGN(QuantConfig config,
                     readCompressedTensors(found, foundMethod, false));
    for (const SchemeGroup &group : config.groups)
      if (group.scheme.weight != Granularity::perChannel() ||
          group.scheme.activation != Activation::Dynamic)
        return cannotReadLayout(
            "w8a8_fp8", found, foundMethod,
            "it reads one scale a channel and dynamic activations, which " +
                quoteName(group.name) + " of config_groups is not");
    config.method = "w8a8_fp8";
    return config;
  }
  if (foundMethod != "w8a8_fp8")
    return cannotReadLayout("w8a8_fp8", found, foundMethod,
                            "it reads per-channel FP8 of 'w8a8_fp8' and "
                            "'compressed-tensors' checkpoints");
  Fields fields(found->fields, found->source);
  QuantConfig config;
  config.method = "w8a8_fp8";
  config.source = found->source;
  fields.ignore({"quant_method", "version"});
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("ignore"));
  OCTET_TRY_ASSIGN(NameList more, fields.getNames("modules_to_not_convert"));
  config.ignore.append(std::move(more));
  readKvCache(fields, config.kvCache);
  config.scheme = Scheme{Granularity::perChannel(), false, Activation::Dynamic};
  fields.reportUnknown(config.warnings);
  return config;
}
