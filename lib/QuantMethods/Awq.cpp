//===- Awq.cpp - The awq family -----------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// `quant_method: awq`, layout `gemm`: 4 bits in groups along K with zero
// points, eight columns a word in the order 0 2 4 6 1 3 5 7; w = (q - z) * s.
// `awq_marlin` is the same checkpoint run from a layout of its own (C10).
//
//===----------------------------------------------------------------------===//

#include "Fields.h"
#include "octet/Support/Escape.h"

using namespace octet;

/// What the repacked kernel cannot take, or empty (C10).
static std::string whyNotRepacked(int64_t group) {
  if (group == 32 || group == 64 || group == 128 || group == -1)
    return "";
  return "group_size is " + std::to_string(group);
}

Result<QuantConfig> octet::readAwq(const ReadRequest &request) {
  if (!request.found ||
      (request.foundMethod != "awq" && request.foundMethod != "awq_marlin"))
    return cannotReadLayout(request, "it reads 4-bit weights packed along N, "
                                     "of 'awq' checkpoints");
  QuantConfig config = startConfig(request);
  Fields fields(request.found->fields, request.found->source);
  fields.ignore({"quant_method", "do_fuse", "fuse_max_seq_len", "backend",
                 "exllama_config", "modules_to_fuse"});
  OCTET_TRY_ASSIGN(std::optional<int64_t> bits,
                   fields.getInteger({"bits", "w_bit"}));
  if (bits.value_or(4) != 4)
    return fields.error("bits",
                        "is " + std::to_string(*bits) +
                            ", which AWQ's layout does not have; "
                            "expected 4",
                        "C2");
  OCTET_TRY_ASSIGN(std::optional<std::string> version,
                   fields.getString("version"));
  if (version && toLower(*version) != "gemm")
    return fields.error("version",
                        "is " + quoteName(*version) +
                            ", a layout that is not read; 'gemm' is",
                        "C2");
  OCTET_TRY_ASSIGN(std::optional<bool> zeros, fields.getBool("zero_point"));
  if (!zeros.value_or(true))
    return fields.error("zero_point",
                        "is false; the layout 'gemm' stores zero points, "
                        "expected true",
                        "C2");
  OCTET_TRY_ASSIGN(std::optional<int64_t> group,
                   fields.getInteger({"group_size", "q_group_size"}));
  int64_t size = group.value_or(128);
  if (size != -1 && (size < 1 || size > (int64_t(1) << 30)))
    return fields.error("group_size", "is " + std::to_string(size) +
                                          ", expected a positive integer, or "
                                          "-1 for all of K");

  Scheme scheme = makeFloat8Scheme(size == -1 ? Granularity::perChannel()
                                              : Granularity::group(size),
                                   Activation::None, config.source);
  scheme.format.code = CodeType::Int4;
  scheme.format.layout = WeightLayout::AwqWords;
  scheme.format.zeroPoints = ZeroPoints::Stored;
  config.scheme = std::move(scheme);
  OCTET_TRY(readIgnored(fields, config));
  readKvCache(fields, config.kvCache);
  OCTET_TRY(chooseRepacked(request, "awq", "awq_marlin", whyNotRepacked(size),
                           "groups of 32, 64, 128 or all of K", config));
  fields.reportUnknown(config.warnings);
  return config;
}
