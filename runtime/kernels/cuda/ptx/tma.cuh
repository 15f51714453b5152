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

OCTET_DEVICE void prefetchMap(const TensorMap *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// No cache hint: with evict_normal, tiles of 64 rows of x and more come up to a fifth slower (19.5 us
// against 15.5 for 64x64 tiles of 128 rows, N 4096, K 7168 on an H200).
OCTET_DEVICE void loadTile(u32 to, const TensorMap *map, u32 barrier, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
               "l"(map), "r"(barrier), "r"(x), "r"(y)
               : "memory");
}

/// A load of what is read once and takes no room of what is read again: weights, where there are
/// few rows (11.0 us against 12.6 with 32 rows of x, N 24576, K 1536 on an H200, one warp copying
/// and x hinted to stay; not measured alone).
OCTET_DEVICE void loadTileOnce(u32 to, const TensorMap *map, u32 barrier, int x, int y) {
  asm volatile(
      "{\n"
      ".reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%3, %4}], [%2], policy;\n"
      "}" ::"r"(to),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

/// The same box into every CTA of `mask` at the same shared address, counted on the barrier at the
/// same address in each.
OCTET_DEVICE void loadTileMulticast(u32 to, const TensorMap *map, u32 barrier, int x, int y,
                                    u16 mask) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to),
               "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(mask)
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
