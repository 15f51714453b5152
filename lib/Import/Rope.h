//===- Rope.h - Rotary position embedding from a config ---------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_IMPORT_ROPE_H
#define OCTET_LIB_IMPORT_ROPE_H

#include "ConfigReader.h"

namespace octet {

/// The rotary embedding that a config describes (C15).
struct RopeParameters {
  enum class Type { Default, Linear, Llama3, Yarn };
  Type type = Type::Default;
  double theta = 10000;
  double factor = 1;
  double partial = 1; ///< part of each head that is rotated
  double lowFreqFactor = 1, highFreqFactor = 4;                ///< llama3
  double originalMaxPositions = 0;                             ///< llama3, yarn
  double betaFast = 32, betaSlow = 1;                          ///< yarn
  std::optional<double> attentionFactor, mscale, mscaleAllDim; ///< yarn
  bool truncate = true;                                        ///< yarn

  bool operator==(const RopeParameters &) const = default;
};

/// Reads `rope_theta`, `rope_scaling`, `rope_parameters` (also nested per
/// attention type) and `partial_rotary_factor`; a contradiction is an error.
/// \param maxPositions  max_position_embeddings, the default of YaRN's original
///                      length.
/// \param warnings      gets unknown keys of these objects.
Result<RopeParameters> readRope(ConfigReader &config, int64_t maxPositions,
                                std::vector<std::string> &warnings);

/// What the table of cosines and sines is made of.
struct RopeFrequencies {
  std::vector<float> inverse; ///< one a pair of rotated values
  float scale = 1;            ///< multiplies cosines and sines
};

/// The inverse frequencies, in the float32 arithmetic of transformers
/// (modeling_rope_utils.py), so that angles agree at long positions.
/// \param headDim  values of a head; `partial` of them are rotated.
/// \returns an input error if no even number of values is rotated.
Result<RopeFrequencies> computeRope(const RopeParameters &rope,
                                    int64_t headDim);

} // namespace octet

#endif // OCTET_LIB_IMPORT_ROPE_H
