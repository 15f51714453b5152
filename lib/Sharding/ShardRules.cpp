//===- ShardRules.cpp - The arithmetic of splits --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Sharding/ShardRules.h"
#include <algorithm>
#include <utility>

using namespace octet;

int64_t octet::countParts(const SplitDimension &dimension, int64_t tp) {
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

std::string octet::joinDegrees(const std::vector<int64_t> &degrees) {
  std::string text;
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (i)
      text += i + 1 == degrees.size() ? " or " : ", ";
    text += std::to_string(degrees[i]);
  }
  return text;
}

/// What is wrong with one dimension over `degree` ranks, which are `over`.
static std::string describeCut(const SplitDimension &dimension, int64_t degree,
                               const std::string &over) {
  int64_t parts = countParts(dimension, degree);
  std::string text = std::string(dimension.name) + " dimension " +
                     std::to_string(dimension.size) + " over " + over + " is ";
  if (parts == 0)
    return text + std::to_string(dimension.heads) +
           " heads, neither split nor replicated evenly";
  if (dimension.size % parts)
    return text + "not a whole number per rank";
  return text + std::to_string(dimension.size / parts) +
         " per rank, not a multiple of the block (" + dimension.blockName +
         "=" + std::to_string(dimension.block) + ")";
}

std::string octet::describeSplit(const std::vector<SplitDimension> &dimensions,
                                 int64_t tp) {
  for (const SplitDimension &dimension : dimensions)
    if (!splits(dimension, tp))
      return describeCut(dimension, tp, "tp=" + std::to_string(tp)) +
             "; tp=" + joinDegrees(findDegrees(dimensions)) +
             " would work [W3]";
  return "";
}

std::vector<int64_t>
octet::findExpertDegrees(const std::vector<SplitDimension> &dimensions,
                         const RankConfig &ranks) {
  std::vector<int64_t> degrees;
  for (int64_t tp = 1; tp <= kMaxListedDegree; ++tp)
    if (tp * ranks.dp % ranks.ep == 0 &&
        std::ranges::all_of(dimensions, [&](const SplitDimension &dimension) {
          return splits(dimension, tp * ranks.dp / ranks.ep);
        }))
      degrees.push_back(tp);
  return degrees;
}

std::string
octet::describeExpertSplit(const std::vector<SplitDimension> &dimensions,
                           const RankConfig &ranks, int64_t experts) {
  const int64_t degree = ranks.getExpertDegree();
  std::string over = "tp=" + std::to_string(ranks.tp);
  if (ranks.dp > 1)
    over += ", dp=" + std::to_string(ranks.dp);
  if (ranks.ep > 1)
    over += ", ep=" + std::to_string(ranks.ep);
  if (degree != ranks.tp)
    over += " (" + std::to_string(degree) + " ranks an expert)";
  for (const SplitDimension &dimension : dimensions) {
    if (splits(dimension, degree))
      continue;
    std::vector<int64_t> degrees = findExpertDegrees(dimensions, ranks);
    std::string ways;
    if (!degrees.empty())
      ways = "tp=" + joinDegrees(degrees) + " would work";
    const int64_t whole = ranks.tp * ranks.dp;
    if (experts % whole == 0)
      ways += (ways.empty() ? "" : ", or ") + ("ep=" + std::to_string(whole)) +
              ", which keeps each expert whole";
    return describeCut(dimension, degree, over) +
           (ways.empty() ? "; no tp would work" : "; " + ways) + " [W3]";
  }
  return "";
}

std::string octet::describeGroups(int64_t experts, const RankConfig &ranks) {
  if (experts % ranks.ep == 0)
    return "";
  std::vector<int64_t> groups;
  for (int64_t ep = 1; ep <= kMaxListedDegree; ++ep)
    if (experts % ep == 0 && ranks.tp * ranks.dp % ep == 0)
      groups.push_back(ep);
  return std::to_string(experts) +
         " experts over ep=" + std::to_string(ranks.ep) +
         " is not a whole number per group; ep=" + joinDegrees(groups) +
         " would work [W3c]";
}

int64_t octet::padSplit(const SplitDimension &dimension, int64_t tp) {
  const int64_t parts = countParts(dimension, tp);
  const int64_t size = dimension.size / parts, block = dimension.block;
  int64_t largest = size;
  if (parts == 1 || size % block == 0)
    return size;
  // Where a part begins in its block repeats after `block` ranks.
  for (int64_t rank = 0; rank < std::min(parts, block); ++rank) {
    int64_t begin = rank * size / block;
    int64_t end = ((rank + 1) * size + block - 1) / block;
    largest = std::max(largest, (end - begin) * block);
  }
  return largest;
}

std::string octet::describePadding(const SplitDimension &dimension,
                                   int64_t tp) {
  const int64_t own = dimension.size / countParts(dimension, tp);
  const int64_t padded = padSplit(dimension, tp);
  if (padded == own)
    return "";
  return std::string(dimension.name) + " dimension " +
         std::to_string(dimension.size) + " is " + std::to_string(own) +
         " per rank, which cuts a block (" + dimension.blockName + "=" +
         std::to_string(dimension.block) + "); each rank holds " +
         std::to_string(padded) +
         ", whole blocks, with zeros in place of what is another rank's [W3]";
}

static std::string getKind(const std::string &subject) {
  return subject.substr(subject.rfind('.') + 1);
}

bool PaddingNotes::add(const std::string &subject, const std::string &text,
                       int64_t count) {
  for (Note &note : notes)
    if (note.text == text && getKind(note.subject) == getKind(subject)) {
      note.others += count;
      return false;
    }
  notes.push_back({subject, text, count - 1});
  return true;
}

std::string PaddingNotes::Note::getText() const {
  std::string full = text;
  if (others > 0)
    full.insert(full.rfind(" ["),
                "; so in " + std::to_string(others) + " other module" +
                    (others > 1 ? "s" : "") + " of that name");
  return full;
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

std::string octet::describeWholeModel(const SplitModel &model,
                                      const RankConfig &ranks) {
  std::vector<int64_t> degrees;
  for (int64_t tp = 1; tp <= kMaxListedDegree; ++tp) {
    RankConfig each = ranks;
    each.tp = tp;
    if (!describeRanks(each).empty() ||
        (model.numExperts && model.numExperts % each.ep))
      continue;
    auto works = [&](const SplitDimension &dimension) {
      return splits(dimension, tp);
    };
    auto worksForExpert = [&](const SplitDimension &dimension) {
      return splits(dimension, each.getExpertDegree());
    };
    if (std::ranges::all_of(model.linears, works) &&
        std::ranges::all_of(model.experts, worksForExpert) &&
        std::ranges::all_of(model.heads, [&](const auto &counts) {
          return describeHeads(counts.first, counts.second, tp).empty();
        }))
      degrees.push_back(tp);
  }
  std::string given;
  if (ranks.ep > 1)
    given += " with ep=" + std::to_string(ranks.ep);
  if (ranks.dp > 1)
    given += (given.empty() ? " with dp=" : ", dp=") + std::to_string(ranks.dp);
  return degrees.empty() ? "no tp works for the whole model" + given
                         : "for the whole model" + given +
                               " tp=" + joinDegrees(degrees) + " would work";
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
