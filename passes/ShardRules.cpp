//===- ShardRules.cpp - The arithmetic of splits --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/ShardRules.h"
#include <algorithm>
#include <utility>

using namespace octet;

/// Parts that `tp` ranks make of a dimension: KV heads are replicated where
/// there are more ranks than heads; 0 if they neither split nor replicate.
static int64_t countParts(const SplitDimension &dimension, int64_t tp) {
  if (dimension.heads <= 0 || dimension.heads % tp == 0)
    return tp;
  return tp % dimension.heads == 0 ? dimension.heads : 0;
}

bool octet::splits(const SplitDimension &dimension, int64_t tp) {
  int64_t parts = countParts(dimension, tp);
  // A module that is not split may have a ragged last block.
  if (parts == 1)
    return true;
  return parts > 0 && dimension.size % parts == 0 &&
         dimension.size / parts % dimension.block == 0;
}

std::vector<int64_t>
octet::findDegrees(const std::vector<SplitDimension> &dimensions) {
  std::vector<int64_t> degrees;
  for (int64_t tp = 1; tp <= kMaxListedDegree; ++tp)
    if (std::ranges::all_of(dimensions, [&](const SplitDimension &dimension) {
          return splits(dimension, tp);
        }))
      degrees.push_back(tp);
  return degrees;
}

/// `1, 2 or 4`.
static std::string joinDegrees(const std::vector<int64_t> &degrees) {
  std::string text;
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (i)
      text += i + 1 == degrees.size() ? " or " : ", ";
    text += std::to_string(degrees[i]);
  }
  return text;
}

std::string octet::describeSplit(const std::vector<SplitDimension> &dimensions,
                                 int64_t tp) {
  for (const SplitDimension &dimension : dimensions) {
    if (splits(dimension, tp))
      continue;
    int64_t parts = countParts(dimension, tp);
    std::string text = std::string(dimension.name) + " dimension " +
                       std::to_string(dimension.size) +
                       " over tp=" + std::to_string(tp) + " is ";
    if (parts == 0)
      text += std::to_string(dimension.heads) +
              " heads, neither split nor replicated evenly";
    else if (dimension.size % parts)
      text += "not a whole number per rank";
    else
      text += std::to_string(dimension.size / parts) +
              " per rank, not a multiple of the block (" + dimension.blockName +
              "=" + std::to_string(dimension.block) + ")";
    return text + "; tp=" + joinDegrees(findDegrees(dimensions)) +
           " would work [W3]";
  }
  return "";
}

std::string octet::describeHeads(int64_t heads, int64_t kvHeads, int64_t tp) {
  auto works = [&](int64_t degree) {
    return heads % degree == 0 &&
           (kvHeads % degree == 0 || degree % kvHeads == 0);
  };
  if (works(tp))
    return "";
  std::vector<int64_t> degrees;
  for (int64_t degree = 1; degree <= kMaxListedDegree; ++degree)
    if (works(degree))
      degrees.push_back(degree);
  std::string text = std::to_string(heads) + " heads and " +
                     std::to_string(kvHeads) +
                     " KV heads over tp=" + std::to_string(tp) + ": ";
  text += heads % tp ? "heads are split evenly"
                     : "KV heads are split evenly, or each stands on equally "
                       "many ranks";
  return text + "; tp=" + joinDegrees(degrees) + " would work [W3b]";
}

std::string octet::describeRanks(const RankConfig &ranks) {
  for (auto [flag, value] :
       {std::pair("tp", ranks.tp), std::pair("ep", ranks.ep),
        std::pair("dp", ranks.dp)})
    if (value < 1)
      return std::string("--") + flag + " " + std::to_string(value) +
             ": expected 1 or more [W3c]";
  // Both are at most 2^31 - 1 (model.settings), so the product fits.
  if (ranks.tp * ranks.dp % ranks.ep)
    return "--ep " + std::to_string(ranks.ep) + ": does not divide the " +
           std::to_string(ranks.tp * ranks.dp) +
           " ranks of tp=" + std::to_string(ranks.tp) +
           " and dp=" + std::to_string(ranks.dp) + " [W3c]";
  return "";
}
