//===- Plan.h - What becomes of each tensor ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_QUANTIZE_PLAN_H
#define OCTET_LIB_QUANTIZE_PLAN_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Quantize/Quantize.h"

namespace octet {

/// A tensor of the output.
struct OutputTensor {
  std::string name;
  StoredType type = StoredType::BF16;
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  int64_t offset = 0; ///< in its file
};

/// A tensor of the source and what is written for it.
struct PlannedTensor {
  const TensorInfo *source = nullptr;
  OutputTensor data;
  std::optional<OutputTensor> scale;      ///< of a quantised weight
  std::optional<OutputTensor> inputScale; ///< with static activations

  /// The tensors that there are, in the order above.
  template <typename Fn>
  void forEachOutput(const Fn &fn) {
    fn(data);
    if (scale)
      fn(*scale);
    if (inputScale)
      fn(*inputScale);
  }
  template <typename Fn>
  void forEachOutput(const Fn &fn) const {
    const_cast<PlannedTensor *>(this)->forEachOutput(
        [&](const OutputTensor &tensor) { fn(tensor); });
  }
  /// Of a weight: the path of its module.
  std::string_view module() const {
    std::string_view name = data.name;
    return name.substr(0, name.rfind('.'));
  }
};

/// One file: a header and the tensors of a run of the plan.
struct PlannedShard {
  std::string name;
  std::string header;        ///< with its length before it, padded to 8 bytes
  size_t begin = 0, end = 0; ///< into QuantizePlan::tensors
  int64_t bytes = 0;         ///< of the file
};

struct QuantizePlan {
  std::vector<PlannedTensor> tensors; ///< by name
  std::vector<PlannedShard> shards;
  std::vector<std::string> notConverted; ///< modules, for the config
  std::vector<std::string> warnings, notes;
  int64_t quantised = 0;
};

/// Decides everything before a weight is read. See quantizeCheckpoint.
Result<QuantizePlan> planQuantize(const Checkpoint &checkpoint,
                                  const QuantizeOptions &options);

/// `quantization_config` of the result (FORMATS.md).
nlohmann::ordered_json
makeQuantizationConfig(const QuantizeOptions &options,
                       const std::vector<std::string> &notConverted);

/// model.safetensors.index.json of several shards.
nlohmann::ordered_json makeIndex(const QuantizePlan &plan);

} // namespace octet

#endif // OCTET_LIB_QUANTIZE_PLAN_H
