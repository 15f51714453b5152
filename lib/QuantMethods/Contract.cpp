//===- Contract.cpp - Method x target = operand contract ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/QuantMethods/QuantMethods.h"

using namespace octet;

/// What the activation becomes under a weight granularity (P3).
static std::optional<Granularity> getActivation(const ResolvedModule &method,
                                                const Granularity &weight) {
  switch (method.activation) {
  case Activation::None:
    return std::nullopt;
  case Activation::Static:
    return Granularity::perTensor();
  case Activation::Dynamic:
    break;
  }
  if (weight.isBlock())
    return Granularity::block(1, weight.blockK);
  return Granularity::perToken();
}

static Status notBuilt(std::string_view module, std::string what,
                       std::string rule) {
  return inputError(std::string(module), std::move(what), std::move(rule));
}

Result<Contract> octet::contractFor(const ResolvedModule &method,
                                    const Target &numerics,
                                    const ContractQuery &query,
                                    std::string_view module) {
  Contract contract;
  if (!method.quantized)
    return contract;
  contract.quantized = true;
  contract.weight = method.weight;

  bool perTensor = method.weight.kind == Granularity::Kind::PerTensor;
  // One scale for a fused matrix: only where B3 says so.
  bool collapses =
      query.requantMax || (!numerics.isCpu() && numerics.capability >= 120);
  if (perTensor && query.fused) {
    if (collapses)
      return notBuilt(module,
                      "one scale for the fused matrix needs its shards "
                      "requantised, which is not built yet; the contracts of "
                      "cpu, sm_89 and sm_90a keep a scale a shard",
                      "W8");
    contract.weight = Granularity::perChannel(); // after W7 (B3)
  }
  if (method.whileLoading && query.requantMax)
    return notBuilt(module,
                    "--requant-max is not built yet; without it one scale a "
                    "channel is made while loading",
                    "W10");
  if (method.weight.isBlock() && !numerics.isCpu() &&
      numerics.capability >= 100 && numerics.capability < 120)
    return notBuilt(module,
                    "the block contract of " + numerics.name +
                        " takes power-of-two scales only, and their rewrite "
                        "is not built yet; --numerics cpu or sm_90a",
                    "W11");

  // No FP8 tensor cores: the weight is widened in the kernel (B4).
  if (numerics.lacksFp8Products() || !query.quantizeActivation)
    return contract;
  contract.activation = getActivation(method, contract.weight);
  contract.isStatic =
      contract.activation && method.activation == Activation::Static;
  contract.ue8m0 = contract.activation && !contract.isStatic && method.ue8m0;
  return contract;
}
