//===- BenchPlan.cpp - What a kernel executable checks and times ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/BenchPlan.h"
#include "InstanceFields.h"
#include "runtime/abi.h"

using namespace octet;
using namespace octet::cuda;

namespace octet::cuda {

template <typename Visitor, Is<BenchImage> T>
void visitFields(Visitor &&visit, T &value) {
  visit("entry", value.entry);
  visit("cubin_offset", value.cubinOffset);
  visit("cubin_bytes", value.cubinBytes);
  visit("ptx_offset", value.ptxOffset);
  visit("ptx_bytes", value.ptxBytes);
}

template <typename Visitor, Is<BenchOperand> T>
void visitFields(Visitor &&visit, T &value) {
  visit("type", value.type);
  visit("scale_mode", value.scaleMode);
  visit("column_major", value.columnMajor);
  visit("block_n", value.blockN);
  visit("block_k", value.blockK);
  visit("shards", value.shards);
}

template <typename Visitor, Is<BenchCase> T>
void visitFields(Visitor &&visit, T &value) {
  visit("m", value.m);
  visit("n", value.n);
  visit("k", value.k);
  visit("x", value.x);
  visit("w", value.w);
  visit("y_type", value.yType);
  visit("launches", value.launches);
  visit("variants", value.variants);
}

template <typename Visitor, Is<BenchPlan> T>
void visitFields(Visitor &&visit, T &value) {
  visit("operator", value.op);
  visit("target", value.target);
  visit("version", value.version);
  visit("driver", value.driver);
  visit("images", value.images);
  visit("launches", value.launches);
  visit("cases", value.cases);
}

} // namespace octet::cuda

std::string octet::cuda::writeBenchPlan(const BenchPlan &plan) {
  return writeJson(plan).dump();
}

/// What the runner relies on; "" if it holds.
static std::string findFault(const BenchPlan &plan) {
  constexpr int64_t kMostSide = int64_t(1) << 24, kMostShards = 4;
  for (const BenchCase &c : plan.cases) {
    for (int64_t side : {c.m, c.n, c.k})
      if (side < 1 || side > kMostSide)
        return "a side of " + std::to_string(side);
    if (c.w.shards.empty() || int64_t(c.w.shards.size()) > kMostShards)
      return std::to_string(c.w.shards.size()) + " shards";
    if (c.launches.empty())
      return "a case without a launch";
    if (!c.variants.empty() && c.variants.size() != c.launches.size())
      return std::to_string(c.variants.size()) + " names of " +
             std::to_string(c.launches.size()) + " launches";
    for (int64_t launch : c.launches)
      if (launch < 0 || launch >= int64_t(plan.launches.size()))
        return "launch " + std::to_string(launch) + " of " +
               std::to_string(plan.launches.size());
    for (const BenchOperand *operand : {&c.x, &c.w})
      if (operand->scaleMode == OCTET_SCALE_BLOCK &&
          (operand->blockN < 1 || operand->blockK < 1))
        return "blocks without a size";
  }
  for (const KernelLaunch &launch : plan.launches)
    if (launch.variants.empty())
      return "a launch without variants";
  return "";
}

Result<BenchPlan> octet::cuda::readBenchPlan(std::string_view text,
                                             const std::string &subject) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  BenchPlan plan;
  std::string bad = json.is_discarded() ? "not JSON" : readJson(json, plan);
  if (!bad.empty() || !json.is_object())
    return inputError(subject, "the list of kernels is damaged: " + bad);
  if (std::string fault = findFault(plan); !fault.empty())
    return inputError(subject, "the list of kernels has " + fault);
  return plan;
}
