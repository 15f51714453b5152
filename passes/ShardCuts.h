//===- ShardCuts.h - Where the ranks cut each weight ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decisions of shard: pure functions of an operator and the ranks, read by its
// checks and by its rewriting.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_SHARDCUTS_H
#define OCTET_PASSES_SHARDCUTS_H

#include "passes/RankSlices.h"

namespace octet {

/// How a linear is split over tensor-parallel ranks.
enum class SplitKind { Column, Row, Replicated };

/// Megatron's way: what reads the residual stream is split by outputs, what
/// writes it by inputs, so that a layer joins its results twice. MLA's A
/// projections, routers and indexers are replicated.
SplitKind getSplitKind(llvm::StringRef module);

/// A cut, and what W3 says of it.
struct WeightCut {
  SideCut cut;
  SplitDimension dimension;
};

/// The cuts of a linear's weight, one for each of its shards; a single one of a
/// row-parallel one, none of a replicated one.
/// \param kvHeads  of the attention beside it (W3b).
llvm::SmallVector<WeightCut> getCuts(model::LinearOp op, int64_t tp,
                                     int64_t kvHeads);

/// A weight has the sides of a matrix: codes that share a byte have none before
/// they have a type.
bool hasSides(mlir::Value weight);

/// The heads of kv_b, whose rows are split with the attention (W12).
WeightCut getKvBCut(model::MlaAttentionOp op, int64_t tp);

/// The cuts of gate and up, each on its own (W5), as one list a weight; then
/// that of down. Empty for codes that have no sides before they have a type.
struct ExpertCuts {
  llvm::SmallVector<llvm::SmallVector<WeightCut>, 2> gateUp;
  WeightCut down;
  bool known = false;
};
ExpertCuts getCuts(model::ExpertsOp op, const RankConfig &ranks);

/// The number of heads on one rank, where KV heads may be replicated (W3b).
inline int64_t getLocalHeads(int64_t heads, int64_t tp) {
  return heads % tp == 0 ? heads / tp : 1;
}

/// Replaces everything that `getCuts` cuts. Everything was checked.
struct ShardChoices {
  RankConfig ranks;
  bool broadcastSelection = true; ///< rank 0's choice on all ranks (P10)
};
/// \returns linears that were split.
int64_t shardModule(mlir::ModuleOp module, const ShardChoices &options);

} // namespace octet

#endif // OCTET_PASSES_SHARDCUTS_H
