//===- tma.cuh - Bulk copies by tensor map, sm_90+ -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Coordinates are in elements, the contiguous axis first. What lies outside of the tensor is read
// as zeros and not written; a load counts the whole box on its barrier either way.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// How long L2 should keep the lines of a load.
enum class Keep { First, Normal, Last };

/// A policy for Keep: First for what is read once, Last for what every CTA reads.
OCTET_DEVICE u64 cachePolicy(Keep keep) {
  u64 policy;
  if (keep == Keep::First)
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  else if (keep == Keep::Last)
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  else
    asm volatile("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

OCTET_DEVICE void prefetchMap(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

OCTET_DEVICE void loadTile(u32 to, const TensorMap *map, u32 barrier, int x, int y, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "l"(policy)
      : "memory");
}

/// The same box into every CTA of `mask` at the same shared address, counted on the barrier at the
/// same address in each.
OCTET_DEVICE void loadTileMulticast(u32 to, const TensorMap *map, u32 barrier, int x, int y,
                                    u16 mask, u64 policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask), "l"(policy)
      : "memory");
}

/// A plain copy of `bytes` (a multiple of 16) of global memory.
OCTET_DEVICE void loadBulk(u32 to, const void *from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

OCTET_DEVICE void storeTile(const TensorMap *map, u32 from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];" ::
                   "l"(map),
               "r"(from), "r"(x), "r"(y)
               : "memory");
}

/// Orders writes of shared memory by threads before bulk copies and products that read them.
OCTET_DEVICE void fenceSharedForAsync() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

OCTET_DEVICE void commitStores() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// All but the newest `kPending` groups of stores have read their shared memory.
template <int kPending> OCTET_DEVICE void waitStoresRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}
template <int kPending> OCTET_DEVICE void waitStores() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(kPending) : "memory");
}

} // namespace octet::cuda
