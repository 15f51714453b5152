//===- ProgramMemory.cpp - Bytes of a compiled program --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Ledger/ProgramMemory.h"
#include "Values.h"
#include "dialects/Quant/QuantOps.h"
#include "octet/Support/Checked.h"

using namespace mlir;
using namespace octet;

/// Bytes of a plain tensor; sizes of a hostile checkpoint saturate.
static int64_t countBytes(RankedTensorType type) {
  std::optional<int64_t> count = checkedProduct(type.getShape());
  return (count ? checkedMul(*count, q::getElementBytes(type.getElementType()))
                : std::nullopt)
      .value_or(INT64_MAX);
}

/// Bytes of one instance of a slot, by the dtype of each part.
static std::map<std::string, int64_t> divideSlot(q::SlotOp slot) {
  auto quantized = dyn_cast<q::TensorType>(slot.getType());
  if (!quantized) {
    auto plain = cast<RankedTensorType>(slot.getType());
    return {{nameElementType(plain.getElementType()), countBytes(plain)}};
  }
  int64_t bytes = quantized.getBytes(), scales = 0;
  // Blocks of a GGUF file hold theirs between their codes.
  if (!quantized.isGguf() && !quantized.isTiled()) {
    RankedTensorType type = quantized.getScaleTensorType();
    scales = std::min(bytes, countBytes(type));
  }
  std::map<std::string, int64_t> parts;
  parts[nameElementType(quantized.getElementType())] += bytes - scales;
  if (scales)
    parts[nameElementType(quantized.getScaleType())] += scales;
  return parts;
}

Result<ProgramMemory> octet::measureProgram(ModuleOp module) {
  auto facts = module->getAttrOfType<DictionaryAttr>("model.memory");
  auto read = [&](StringRef name) -> std::optional<int64_t> {
    auto value = facts ? facts.getAs<IntegerAttr>(name) : IntegerAttr();
    return value ? std::optional(value.getInt()) : std::nullopt;
  };
  std::optional<int64_t> weights = read("weights"), arena = read("arena"),
                         kv = read("kv_per_token");
  if (!weights || !arena || !kv)
    return internalError("model.memory", "plan-buffers did not write it");
  ProgramMemory memory;
  memory.weightBytes = *weights;
  memory.workspaceBytes = *arena;
  memory.kvBytesPerToken = *kv;
  int64_t sum = 0;
  for (q::SlotOp slot : module.getOps<q::SlotOp>())
    for (const auto &[dtype, bytes] : divideSlot(slot)) {
      int64_t all = checkedMul(bytes, slot.countUsed()).value_or(INT64_MAX);
      int64_t &part = memory.weights[dtype];
      part = checkedAdd(part, all).value_or(INT64_MAX);
      sum = checkedAdd(sum, all).value_or(INT64_MAX);
    }
  std::erase_if(memory.weights, [](const auto &part) { return !part.second; });
  if (sum != *weights)
    return internalError("model.memory", "slots have " + std::to_string(sum) +
                                             " bytes, plan-buffers says " +
                                             std::to_string(*weights));
  return memory;
}
