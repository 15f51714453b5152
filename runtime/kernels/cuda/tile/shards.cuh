//===- shards.cuh - Shards of a fused weight ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The shards of a fused weight lie one after the other as one matrix [N, K]; each starts scale rows
// of its own (W5b).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// Rows of each shard.
template <int... kRows>
struct Shards {
  static_assert(sizeof...(kRows) > 0 && ((kRows > 0) && ...), "every shard has rows");
  static constexpr int kCount = sizeof...(kRows);
  static constexpr int kTotal = (kRows + ...);

  /// The shard of row n.
  static constexpr __host__ __device__ int shardOf(int n) {
    int begin = 0, shard = -1;
    ((shard += n >= begin, begin += kRows), ...);
    return shard;
  }

  /// The scale row of row n where `blockN` rows share one.
  static constexpr __host__ __device__ int scaleRow(int n, int blockN) {
    int begin = 0, before = 0, row = 0;
    ((row = n >= begin ? before + (n - begin) / blockN : row, begin += kRows,
      before += divideUp(kRows, blockN)),
     ...);
    return row;
  }

  /// Every shard, and so every scale row of it, starts at a multiple of `span`, which divides
  /// `blockN`: then `span` rows from any multiple of it have one scale row.
  static constexpr __host__ __device__ bool isAligned(int blockN, int span) {
    int begin = 0;
    bool isAligned = blockN % span == 0;
    ((isAligned = isAligned && begin % span == 0, begin += kRows), ...);
    return isAligned;
  }
};

} // namespace octet::cuda
