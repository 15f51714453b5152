//===- RankSlices.h - Which part is a rank's --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shares of ranks as functions of the rank, and slices of weights made of them
// (W3, W3b, W3c).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_RANKSLICES_H
#define OCTET_PASSES_RANKSLICES_H

#include "dialects/Model/ModelOps.h"
#include "octet/Sharding/ShardRules.h"

namespace octet {

/// How some ranks share: rank r has part `(r mod ranks) / every` of `parts`.
struct RankShare {
  int64_t parts = 1;
  int64_t every = 1; ///< ranks that have the same part
  int64_t ranks = 1; ///< parts * every, after which it begins again

  /// Parts of a split over the tensor-parallel ranks; KV heads that there are
  /// fewer of than ranks stand on several (W3b).
  static RankShare ofTensors(int64_t parts, int64_t tp) {
    return {parts, tp / parts, tp};
  }
  /// The groups that experts are divided into (W3c).
  static RankShare ofGroups(const RankConfig &ranks) {
    return {ranks.ep, ranks.getExpertDegree(), ranks.tp * ranks.dp};
  }
  /// The ranks inside such a group.
  static RankShare inGroup(const RankConfig &ranks) {
    return {ranks.getExpertDegree(), 1, ranks.getExpertDegree()};
  }
};

/// `(r mod ranks) floordiv every * stride`, without what is trivial.
/// \param all  ranks that there are.
mlir::AffineMap makeFirst(mlir::MLIRContext *context, const RankShare &share,
                          int64_t stride, int64_t all);

/// What a padded value has more than its own columns; none where `block` is 0.
struct Padding {
  mlir::AffineMap first;
  int64_t own = 0, block = 0;
  bool operator==(const Padding &) const = default;
  explicit operator bool() const { return block != 0; }
};

/// One side of a stored tensor that is cut, and in which way.
struct SideCut {
  q::Side side;
  int64_t whole; ///< elements
  int64_t step;  ///< of blocks, groups, words
  RankShare share;
};

/// The slice of a cut that W3 allows, or, if it begins inside a block, the
/// padded one.
q::SliceAttr makeSlice(mlir::MLIRContext *context, const SideCut &cut,
                       int64_t all);

/// What a slice adds to the rank's own columns.
Padding getPadding(q::SliceAttr slice);

/// Rows of which the first rank has all and the others zeros: a bias that is
/// added once (N6).
q::SliceAttr makeOnce(mlir::MLIRContext *context, q::Side side, int64_t size,
                      const RankShare &share, int64_t all);

/// Rows of a vocabulary, whose last rank may be short (W3b).
q::SliceAttr makeVocabulary(mlir::MLIRContext *context, mlir::Type table,
                            int64_t tp, int64_t all);

/// Gives a weight of one path a slice for each path, and the type that follows.
void setSlices(model::WeightOp op, llvm::ArrayRef<q::SliceAttr> slices);

} // namespace octet

#endif // OCTET_PASSES_RANKSLICES_H
