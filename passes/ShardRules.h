//===- ShardRules.h - The arithmetic of splits ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// W3, W3b and W3c as functions of numbers. Each returns the text of an error
// without its subject, or an empty string, so that the pass and `octet check`
// have one wording.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_SHARDRULES_H
#define OCTET_PASSES_SHARDRULES_H

#include <cstdint>
#include <string>
#include <vector>

namespace octet {

/// Ranks are tp * dp; experts are divided over ep of them (W3c).
struct RankConfig {
  int64_t tp = 1;
  int64_t ep = 1;
  int64_t dp = 1;
};

/// One dimension that a split divides.
struct SplitDimension {
  const char *name;      ///< `input` (row-parallel) or `output` (column-)
  int64_t size;          ///< elements
  int64_t block;         ///< of its scales, in elements; 1: none
  const char *blockName; ///< `bk` or `bn`
  /// KV heads of a k or v projection, which more ranks than heads replicate
  /// (W3b); 0: split like any other.
  int64_t heads = 0;
};

/// Degrees above this are not listed among those that would work.
inline constexpr int64_t kMaxListedDegree = 128;

/// Does a split over `tp` ranks leave each with whole blocks? (W3)
bool splits(const SplitDimension &dimension, int64_t tp);

/// The degrees up to kMaxListedDegree that split all dimensions.
std::vector<int64_t> findDegrees(const std::vector<SplitDimension> &dimensions);

/// The first dimension that `tp` ranks cannot split, and what would work (W3).
std::string describeSplit(const std::vector<SplitDimension> &dimensions,
                          int64_t tp);

/// Query heads are split; KV heads are split or replicated (W3b).
std::string describeHeads(int64_t heads, int64_t kvHeads, int64_t tp);

/// Degrees are positive and `ep` divides the ranks (W3c).
std::string describeRanks(const RankConfig &ranks);

} // namespace octet

#endif // OCTET_PASSES_SHARDRULES_H
