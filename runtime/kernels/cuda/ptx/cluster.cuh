//===- cluster.cuh - Clusters of CTAs and their shared memory, sm_90+ ----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks count within a cluster, x first.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

OCTET_DEVICE u32 clusterRank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

OCTET_DEVICE void clusterArrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
OCTET_DEVICE void clusterWait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
OCTET_DEVICE void clusterSync() {
  clusterArrive();
  clusterWait();
}

/// A barrier of execution alone: orders no memory but what fences of its own order.
OCTET_DEVICE void clusterArriveRelaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
OCTET_DEVICE void clusterSyncRelaxed() {
  clusterArriveRelaxed();
  clusterWait();
}

/// The address in the cluster's window of a shared address, as CTA `rank` has it.
OCTET_DEVICE u32 mapToRank(u32 address, u32 rank) {
  u32 remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

/// Sends 16 bytes to `remote`, which count on the barrier `remoteBarrier` of the same CTA.
OCTET_DEVICE void sendCluster16(u32 remote, u32 remoteBarrier, float a, float b, float c, float d) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32"
               " [%0], {%2, %3, %4, %5}, [%1];" ::"r"(remote),
               "r"(remoteBarrier), "f"(a), "f"(b), "f"(c), "f"(d)
               : "memory");
}

/// Registers of the calling warpgroup; all its warps execute it.
template <int kRegisters> OCTET_DEVICE void growRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters> OCTET_DEVICE void shrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

} // namespace octet::cuda
