//===- FusedShards.cpp - What a fused module asks of its shards -----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/QuantMethods/QuantMethods.h"
#include <numeric>

using namespace octet;

/// "a", "a and b", "a, b and c".
static std::string joinNames(const std::vector<std::string> &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

/// "q_proj and k_proj are".
static std::string nameSide(const std::vector<std::string> &names) {
  return joinNames(names) + (names.size() == 1 ? " is" : " are");
}

std::string octet::describeMixedShards(std::span<const ShardVote> shards) {
  std::vector<std::string> quantized, ignored, ungrouped, plain;
  for (const ShardVote &shard : shards)
    (shard.quantized                         ? quantized
     : shard.declared.starts_with("ignored") ? ignored
     : shard.declared == "no group"          ? ungrouped
                                             : plain)
        .push_back(shard.name);
  if (quantized.empty() || quantized.size() == shards.size())
    return "";
  std::vector<std::string> sides;
  if (!ignored.empty())
    sides.push_back(nameSide(ignored) + " on the ignore list");
  if (!ungrouped.empty())
    sides.push_back(nameSide(ungrouped) + " in no group of the config");
  if (!plain.empty())
    sides.push_back(nameSide(plain) + " stored without scales");
  return nameSide(quantized) + " quantised but " + joinNames(sides);
}

SplitAlignment octet::getSplitAlignment(const Scheme &scheme) {
  SplitAlignment alignment;
  if (scheme.weight.isBlock()) {
    alignment.n = scheme.weight.blockN;
    alignment.k = scheme.weight.blockK;
  }
  const WeightFormat &format = scheme.format;
  const int64_t perWord = 32 / getBits(format.code);
  int64_t packN = 1, packK = 1;
  switch (format.layout) {
  case WeightLayout::Rows:
    break;
  case WeightLayout::NibbleRows:
  case WeightLayout::NibbleExperts:
    packK = 2;
    break;
  case WeightLayout::WordRows:
    packK = perWord;
    packN = format.zeroPoints == ZeroPoints::None ? 1 : perWord;
    break;
  case WeightLayout::GptqWords:
    packN = packK = perWord; // zero points lie along N
    break;
  case WeightLayout::AwqWords:
    packN = perWord;
    break;
  }
  alignment.n = std::lcm(alignment.n, packN);
  alignment.k = std::lcm(alignment.k, packK);
  if (format.actOrder) {
    // Groups are not runs of K: any whole word may be cut off, and each rank
    // reads scales of all groups.
    alignment.k = packK;
    alignment.needsAllScales = true;
  }
  return alignment;
}
