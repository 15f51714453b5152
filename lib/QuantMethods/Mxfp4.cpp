//===- Mxfp4.cpp - The mxfp4 method -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: mxfp4` (gpt-oss): routed experts are E2M1 in groups of 32 with
// exponents, all experts of a layer in one tensor; nothing else is quantised
// (C12). Weight-only (B4). The list of what is not converted has globs (C7).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"

using namespace octet;

Result<QuantConfig> octet::readMxfp4(const ReadRequest &request) {
  QuantConfig config = startConfig(request);
  config.expertsOnly = true;
  config.scheme = makeMxfp4Scheme(WeightLayout::NibbleExperts, config.source);
  if (!request.found) { // W10: experts are quantised while loading
    config.serialized = false;
    return config;
  }
  if (request.foundMethod != "mxfp4")
    return cannotReadLayout(request, "it reads the experts of 'mxfp4' "
                                     "checkpoints, or quantises those of an "
                                     "unquantised one while loading");
  Fields fields(request.found->fields, request.found->source);
  fields.ignore({"quant_method", "version", "dequantize"});
  OCTET_TRY_ASSIGN(config.ignore, fields.getNames("modules_to_not_convert",
                                                  NameSyntax::Globs));
  readKvCache(fields, config.kvCache);
  fields.reportUnknown(config.warnings);
  return config;
}
