//===- Mxfp8.cpp - The mxfp8 method -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: mxfp8` (C6, N7): E4M3 codes with an exponent for each row and
// 32 elements along K, activations alike. The fields are those of fp8; the
// block is [1, 32] whatever the config says.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

/// C6: the block is part of the format.
static Status checkBlock(Fields &fields, QuantConfig &config) {
  OCTET_TRY_ASSIGN(std::optional<Granularity> block,
                   fields.getBlock("weight_block_size"));
  if (!block || *block == config.scheme->weight)
    return Status::success();
  config.warnings.push_back(
      makeFieldNote(fields, "weight_block_size",
                    "is [" + std::to_string(block->blockN) + ", " +
                        std::to_string(block->blockK) +
                        "] and is taken as [1, 32], the group of 'mxfp8'",
                    "C6"));
  return Status::success();
}

Result<QuantConfig> octet::readMxfp8(const ReadRequest &request) {
  // ModelOpt's `MXFP8` is this method in other fields (C14).
  if (request.found && request.foundMethod == "mxfp8" &&
      request.found->fields.contains("quant_algo"))
    return readModelOpt(request);
  if (!request.found || request.foundMethod != "mxfp8")
    return cannotReadLayout(request,
                            "it reads E4M3 codes with an exponent for 32 "
                            "elements, of 'mxfp8' and ModelOpt checkpoints");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  fields.ignore(
      {"quant_method", "fmt", "scale_fmt", "version", "quantization_status"});
  config.scheme = makeMxfp8Scheme(config.source);
  OCTET_TRY(checkBlock(fields, config));
  OCTET_TRY_ASSIGN(std::optional<std::string> word,
                   fields.getString("activation_scheme"));
  if (word && *word != "dynamic")
    return fields.error("activation_scheme",
                        "is " + quoteName(*word) +
                            "; 'mxfp8' has an activation scale for each token "
                            "and 32 elements, expected 'dynamic'",
                        "C5");
  OCTET_TRY_ASSIGN(std::optional<bool> serialized,
                   fields.getBool("is_checkpoint_fp8_serialized"));
  if (!serialized.value_or(true))
    return fields.error("is_checkpoint_fp8_serialized",
                        "is false; 'mxfp8' weights are stored, not made while "
                        "loading",
                        "C5");
  OCTET_TRY(readIgnored(fields, config));
  readKvCache(fields, config.kvCache);
  fields.reportUnknown(config.warnings);
  return config;
}
