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

#ifndef OCTET_SHARDING_SHARDRULES_H
#define OCTET_SHARDING_SHARDRULES_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace octet {

/// Ranks are tp * dp; experts are divided over ep of them (W3c).
struct RankConfig {
  int64_t tp = 1;
  int64_t ep = 1;
  int64_t dp = 1;

  /// Ranks that each expert of a group is split over.
  int64_t getExpertDegree() const { return tp * dp / ep; }
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

/// Parts that `tp` ranks make of a dimension: KV heads are replicated where
/// there are more ranks than heads; 0 if they neither split nor replicate
/// (W3b).
int64_t countParts(const SplitDimension &dimension, int64_t tp);

/// Does a split over `tp` ranks leave each with whole blocks? (W3)
bool splits(const SplitDimension &dimension, int64_t tp);

/// The degrees up to kMaxListedDegree that split all dimensions.
std::vector<int64_t> findDegrees(const std::vector<SplitDimension> &dimensions);

/// The first dimension that `tp` ranks cannot split, and what would work (W3).
std::string describeSplit(const std::vector<SplitDimension> &dimensions,
                          int64_t tp);

/// The values of tp up to kMaxListedDegree for which, with the ep and dp of
/// `ranks`, experts are divided and all dimensions of one split.
std::vector<int64_t>
findExpertDegrees(const std::vector<SplitDimension> &dimensions,
                  const RankConfig &ranks);

/// The first dimension of an expert that the ranks of its group cannot split,
/// and what would work (W3, W3c). describeRanks and describeGroups found
/// nothing.
/// \param experts  of a layer: more groups than experts are no way out.
std::string describeExpertSplit(const std::vector<SplitDimension> &dimensions,
                                const RankConfig &ranks, int64_t experts);

/// The experts of a layer are divided into `ep` groups (W3c).
std::string describeGroups(int64_t experts, const RankConfig &ranks);

/// The part of one rank in whole blocks, the largest over the ranks: what
/// `--split-blocks pad` loads (W3). `tp` divides the size.
int64_t padSplit(const SplitDimension &dimension, int64_t tp);

/// "input dimension 1152 is 576 per rank, …": that a part cuts a block, and
/// what a rank loads with `--split-blocks pad` (W3). Empty where none is cut.
std::string describePadding(const SplitDimension &dimension, int64_t tp);

/// What `--split-blocks pad` says: one line for the modules of a kind that are
/// padded alike, which names the first and counts the others (W3).
struct PaddingNotes {
  struct Note {
    std::string subject; ///< the first module
    std::string text;    ///< describePadding's
    int64_t others = 0;

    /// With the count, before its rule.
    std::string getText() const;
  };
  std::vector<Note> notes;

  /// \param subject  a module's path; its last component is its kind.
  /// \param count    modules that it stands for.
  /// \returns whether there was none of its kind.
  bool add(const std::string &subject, const std::string &text,
           int64_t count = 1);
};

/// "1, 2 or 4".
std::string joinDegrees(const std::vector<int64_t> &degrees);

/// Query heads are split; KV heads are split or replicated (W3b).
std::string describeHeads(int64_t heads, int64_t kvHeads, int64_t tp);

/// Everything of a model that ranks divide.
struct SplitModel {
  std::vector<SplitDimension> linears;            ///< over tp
  std::vector<SplitDimension> experts;            ///< over the ranks of a group
  std::vector<std::pair<int64_t, int64_t>> heads; ///< and KV heads
  int64_t numExperts = 0;                         ///< of a layer; 0: none
};

/// "for the whole model tp=1, 2 or 4 would work", with the ep and dp of `ranks`
/// (W3).
std::string describeWholeModel(const SplitModel &model,
                               const RankConfig &ranks);

/// Degrees are positive and `ep` divides the ranks (W3c).
std::string describeRanks(const RankConfig &ranks);

} // namespace octet

#endif // OCTET_SHARDING_SHARDRULES_H
