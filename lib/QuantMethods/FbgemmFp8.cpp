//===- FbgemmFp8.cpp - The fbgemm_fp8 method ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: fbgemm_fp8`: E4M3 with one scale a channel, activations per
// token with a bound on the scale: s = min(max(amax, 1e-10), ub) / 448, and
// what lies beyond the bound saturates.
//
//===----------------------------------------------------------------------===//

#include "Fields.h"

using namespace octet;

Result<QuantConfig> octet::readFbgemmFp8(const ReadRequest &request) {
  if (!request.found || request.foundMethod != "fbgemm_fp8")
    return cannotReadLayout(request,
                            "it reads per-channel FP8 with a bounded scale, of "
                            "'fbgemm_fp8' checkpoints");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  fields.ignore({"quant_method", "version"});
  config.scheme = makeFloat8Scheme(Granularity::perChannel(),
                                   Activation::Dynamic, config.source);
  OCTET_TRY_ASSIGN(config.scheme->input.bound,
                   fields.getPositive("activation_scale_ub"));
  OCTET_TRY(readIgnored(fields, config));
  readKvCache(fields, config.kvCache);
  fields.reportUnknown(config.warnings);
  return config;
}
