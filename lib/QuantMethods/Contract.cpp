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

static bool isBetween(const Target &target, int from, int to) {
  return !target.isCpu() && target.capability >= from && target.capability < to;
}

/// The target multiplies two FP4 operands (B4).
static bool hasFp4Products(const Target &target) {
  return !target.isCpu() && target.capability >= 100;
}

/// The target multiplies by an exponent each 32 elements (B6).
static bool runsMxfp8(const Target &target) {
  return target.isCpu() || target.capability >= 100;
}

/// The order of activation scales that the fast kernels of a target read (B1):
/// warp-group products of sm_90 copy F32 scales in bulk, a K block's of all
/// rows together; block-scaled products of sm_100 take four exponents a word.
/// `mma.sync` and the generic kernels read rows (B2).
static ScaleOrder findScaleOrder(const Contract &contract,
                                 const Target &kernels) {
  const bool isMx = contract.weight == Granularity::block(1, 32) &&
                    contract.format.scale == ScaleFormat::Exponents;
  const bool isFast = contract.weight == Granularity::block(128, 128) ||
                      contract.weight == Granularity::block(32, 32);
  if (!contract.activation || !contract.activation->isBlock())
    return ScaleOrder::Rows;
  const bool hasExponents = contract.format.scale == ScaleFormat::Exponents;
  if (isBetween(kernels, 90, 100) && isFast && !hasExponents)
    return ScaleOrder::ColumnMajor;
  if (isBetween(kernels, 100, 120) && (isFast || isMx) && hasExponents &&
      contract.ue8m0)
    return ScaleOrder::Words;
  return ScaleOrder::Rows;
}

/// Contracts of the formats that have no choice of granularity: MX, NVFP4,
/// packed integers (B4, B6).
static Result<Contract> contractForFormat(const ResolvedModule &method,
                                          const Target &numerics,
                                          const ContractQuery &query,
                                          std::string_view module) {
  Contract contract;
  contract.quantized = true;
  contract.weight = method.weight;
  contract.format = method.format;
  bool quantizes = query.quantizeActivation;
  switch (method.format.code) {
  case CodeType::E4M3: // MXFP8
    if (runsMxfp8(numerics))
      break;
    if (query.mxfp8As == "weight-only") {
      quantizes = false;
    } else if (query.mxfp8As == "block") {
      // Verified when loading: scales are equal over each block.
      contract.weight = Granularity::block(128, 128);
      contract.format = WeightFormat();
      contract.activation = Granularity::block(1, 128);
      contract.ue8m0 = true;
      if (numerics.lacksFp8Products() || !quantizes) {
        contract.activation.reset();
        contract.ue8m0 = false;
      }
      return contract;
    } else {
      return inputError(std::string(module),
                        "MXFP8 runs on the CPU and from sm_100 on, not on " +
                            numerics.name +
                            "; --mxfp8-as block or --mxfp8-as weight-only runs "
                            "it there",
                        "B6");
    }
    break;
  case CodeType::E2M1:
    quantizes &= hasFp4Products(numerics); // B4
    if (quantizes && method.input.code == CodeType::E2M1 &&
        method.activation != Activation::None && query.k % kFp4Columns != 0)
      return inputError(std::string(module),
                        "K is " + std::to_string(query.k) +
                            "; products of two operands in FP4 read rows of a "
                            "multiple of " +
                            std::to_string(kFp4Columns) +
                            " elements; --activation-quant off runs its "
                            "weights",
                        "C11");
    break;
  case CodeType::Int8:
  case CodeType::Int4:
    break;
  }
  // Words are widened in an order of the target's own, but by the kernels of
  // `gptq` and `awq`, which a user may ask for (C10).
  contract.repacked = !numerics.isCpu() && method.method != "gptq" &&
                      method.method != "awq" &&
                      method.format.layout != WeightLayout::Rows &&
                      (method.activation == Activation::None || !quantizes);
  if (method.activation == Activation::None || !quantizes)
    return contract;
  contract.input = method.input;
  contract.activation = getActivation(method, contract.weight);
  contract.isStatic = method.activation == Activation::Static;
  contract.ue8m0 = method.input.scale == ScaleFormat::Exponents;
  return contract;
}

/// The block kernel of sm_100 takes power-of-two scales only (B1, B2); other
/// blocks, and blocks whose scales are to stay, take the generic one (W11).
static bool wantsExponents(const Granularity &weight, const Target &numerics,
                           const ContractQuery &query) {
  if (!weight.isBlock() || !isBetween(numerics, 100, 120))
    return false;
  return !query.keepScales && (weight == Granularity::block(128, 128) ||
                               weight == Granularity::block(32, 32));
}

bool octet::takesLargestScale(const Target &numerics) {
  return !numerics.isCpu() && numerics.capability >= 120;
}

/// What the kernel multiplies, before the order in which it reads scales.
static Result<Contract> contractForNumbers(const ResolvedModule &method,
                                           const Target &numerics,
                                           const ContractQuery &query,
                                           std::string_view module) {
  Contract contract;
  if (!method.quantized)
    return contract;
  bool isInt8Rows = method.format.code == CodeType::Int8 &&
                    method.format.layout == WeightLayout::Rows;
  bool isFloat8Rows = method.format == WeightFormat();
  if (!isInt8Rows && !isFloat8Rows)
    return contractForFormat(method, numerics, query, module);
  contract.quantized = true;
  contract.weight = method.weight;
  contract.format = method.format;

  bool perTensor = method.weight.kind == Granularity::Kind::PerTensor;
  // One scale for a fused matrix: only where B3 says so.
  bool collapses = query.requantMax || takesLargestScale(numerics);
  if (perTensor && query.fused && (!collapses || !isFloat8Rows))
    contract.weight = Granularity::perChannel(); // after W7 (B3)
  if (method.whileLoading && query.requantMax)   // W10
    contract.weight = Granularity::perTensor();
  bool exponents = wantsExponents(method.weight, numerics, query);
  if (exponents)
    contract.format.scale = ScaleFormat::Exponents;

  // No FP8 tensor cores: the weight is widened in the kernel (B4). INT8 has
  // them from sm_80 on.
  if ((numerics.lacksFp8Products() && isFloat8Rows) ||
      !query.quantizeActivation)
    return contract;
  contract.activation = getActivation(method, contract.weight);
  contract.isStatic =
      contract.activation && method.activation == Activation::Static;
  contract.ue8m0 =
      contract.activation && !contract.isStatic && (method.ue8m0 || exponents);
  if (contract.activation)
    contract.input = method.input;
  return contract;
}

Result<Contract> octet::contractFor(const ResolvedModule &method,
                                    const Target &numerics,
                                    const ContractQuery &query,
                                    std::string_view module) {
  OCTET_TRY_ASSIGN(Contract contract,
                   contractForNumbers(method, numerics, query, module));
  contract.inputScales = findScaleOrder(contract, query.kernels);
  return contract;
}
