//===- Float8.cpp - One module of E4M3 codes ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What `fp8`, `w8a8_fp8` and `compressed-tensors` share: an E4M3 weight with
// one scale a matrix, a channel or a block, under either spelling of its name.
//
//===----------------------------------------------------------------------===//

#include "Resolve.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;

static constexpr std::string_view kPlainScale = "weight_scale";
static constexpr std::string_view kBlockScale = "weight_scale_inv";

std::vector<int64_t> octet::getScaleShape(const Granularity &granularity,
                                          int64_t n, int64_t k) {
  switch (granularity.kind) {
  case Granularity::Kind::PerTensor:
    return {};
  case Granularity::Kind::PerChannel:
  case Granularity::Kind::PerToken:
    return {n, 1};
  case Granularity::Kind::Block:
    return {cdiv(n, granularity.blockN), cdiv(k, granularity.blockK)};
  }
  return {};
}

static bool isScalarShape(const std::vector<int64_t> &shape) {
  return shape.size() <= 2 &&
         std::all_of(shape.begin(), shape.end(),
                     [](int64_t side) { return side == 1; });
}

/// The stored shape is the granularity's, in any spelling of W2: a scalar as []
/// or [1], a channel's scale as [N, 1] or [N], a grid as [a, b] or [a, 1, b,
/// 1].
static bool fitsGranularity(const std::vector<int64_t> &shape,
                            const Granularity &granularity, int64_t n,
                            int64_t k) {
  if (granularity.kind == Granularity::Kind::PerTensor)
    return isScalarShape(shape);
  std::vector<int64_t> wanted = getScaleShape(granularity, n, k);
  if (granularity.isBlock())
    return shape == wanted ||
           shape == std::vector<int64_t>{wanted[0], 1, wanted[1], 1};
  return shape == wanted || shape == std::vector<int64_t>{n};
}

/// "F32 [144, 32] (18432x4096 in 128x128 blocks)".
static std::string describeExpected(const Scheme &scheme, int64_t n,
                                    int64_t k) {
  const Granularity &granularity = scheme.weight;
  std::string text =
      StoredTensor{StoredType::F32, getScaleShape(granularity, n, k)}
          .describe();
  std::string matrix = std::to_string(n) + "x" + std::to_string(k);
  if (scheme.anyGranularity)
    return text + " (one scale) or F32 [" + std::to_string(n) +
           ", 1] (one a channel)";
  if (granularity.isBlock())
    return text + " (" + matrix + " in " + std::to_string(granularity.blockN) +
           "x" + std::to_string(granularity.blockK) + " blocks)";
  if (granularity.kind == Granularity::Kind::PerTensor)
    return text + " (one scale for " + matrix + ")";
  return text + " (one scale a channel of " + matrix + ")";
}

/// "a per-tensor scale", for the note that shows what is there instead.
static std::string describeKind(const std::vector<int64_t> &shape, int64_t n) {
  if (isScalarShape(shape))
    return "a per-tensor scale";
  if (fitsGranularity(shape, Granularity::perChannel(), n, 1))
    return "a per-channel scale";
  return "a scale of another shape";
}

/// F32 and the two half formats hold scales; U8 exponents belong to MX formats.
static Status checkScaleType(const ModuleFacts &facts, std::string_view name,
                             const StoredTensor &scale) {
  if (scale.type == StoredType::F32 || scale.type == StoredType::BF16 ||
      scale.type == StoredType::F16)
    return Status::success();
  std::string message = "'" + std::string(name) + "' is " + scale.describe() +
                        "; expected F32, BF16 or F16";
  if (scale.type == StoredType::U8 || scale.type == StoredType::F8_E8M0)
    message += ", exponents belong to 'mxfp8'";
  return inputError(facts.module, std::move(message), "W1");
}

/// Finds the scale that fits the scheme and fills in granularity, name and
/// dtype.
static Status findWeightScale(ResolvedModule &result, std::string_view method,
                              const Scheme &scheme, const ModuleFacts &facts,
                              const StoredTensor &weight) {
  int64_t n = weight.shape[0], k = weight.shape[1];
  std::string type(storedTypeName(weight.type));
  auto plain = facts.tensors.find(kPlainScale);
  auto block = facts.tensors.find(kBlockScale);
  auto end = facts.tensors.end();
  if (plain != end && block != end)
    return inputError(facts.module,
                      "has both 'weight_scale' " + plain->second.describe() +
                          " and 'weight_scale_inv' " +
                          block->second.describe() +
                          "; one of the two spellings",
                      "W2");
  // The usual spelling of this method and granularity, then the other (W2).
  bool blockName = scheme.weight.isBlock() && method != "compressed-tensors";
  std::string_view usual = blockName ? kBlockScale : kPlainScale;
  auto found = plain != end ? plain : block;
  if (found == end)
    return inputError(facts.module,
                      "no '" + std::string(usual) + "' for its " + type +
                          " weight; expected " + describeExpected(scheme, n, k),
                      "W6");

  const StoredTensor &scale = found->second;
  OCTET_TRY(checkScaleType(facts, found->first, scale));
  if (fitsGranularity(scale.shape, scheme.weight, n, k)) {
    result.weight = scheme.weight;
  } else if (scheme.anyGranularity &&
             fitsGranularity(scale.shape, Granularity::perChannel(), n, k)) {
    result.weight = Granularity::perChannel();
  } else if (found->first == usual) {
    Status status =
        inputError(facts.module,
                   "'" + found->first + "' is " + scale.describe() +
                       "; expected " + describeExpected(scheme, n, k),
                   "W1");
    if (scheme.anyGranularity && scale.shape.size() >= 2)
      status.note("the config has no weight_block_size");
    return status;
  } else {
    Status status =
        inputError(facts.module,
                   "no '" + std::string(usual) + "' for its " + type +
                       " weight; expected " + describeExpected(scheme, n, k),
                   "W6");
    std::string shape = scale.describe();
    status.note(
        (facts.file.empty() ? std::string() : escapePath(facts.file) + ": ") +
        "has '" + facts.module + "." + found->first + "' " +
        shape.substr(shape.find('[')) + ", " + describeKind(scale.shape, n));
    return status;
  }
  result.scaleName = found->first;
  result.scaleType = scale.type;
  return Status::success();
}

/// A static scheme has one stored scale for the activation (W2, W6).
static Status checkInputScale(const ModuleFacts &facts) {
  auto found = facts.tensors.find("input_scale");
  if (found == facts.tensors.end())
    return inputError(facts.module,
                      "no 'input_scale', which a static activation scheme "
                      "needs; expected F32 []",
                      "W6");
  OCTET_TRY(checkScaleType(facts, "input_scale", found->second));
  if (!isScalarShape(found->second.shape))
    return inputError(facts.module,
                      "'input_scale' is " + found->second.describe() +
                          "; expected F32 [] (one scale for the activation)",
                      "W1");
  return Status::success();
}

Result<ResolvedModule> octet::resolveFloat8(std::string_view method,
                                            const Scheme &scheme,
                                            const ModuleFacts &facts) {
  ResolvedModule result;
  result.quantized = true;
  result.method = method;
  result.activation = scheme.activation;
  result.input = scheme.input;
  const StoredTensor &weight = facts.tensors.find("weight")->second;
  OCTET_TRY(findWeightScale(result, method, scheme, facts, weight));
  if (scheme.activation == Activation::Static)
    OCTET_TRY(checkInputScale(facts));
  return result;
}
