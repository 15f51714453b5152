//===- mbarrier.cuh - Transaction barriers in shared memory, sm_90+ ------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A barrier is 8 bytes of shared memory, named by its 32-bit shared address. Its phase completes
// when all arrivals and all expected bytes are there; waiters name the parity of the phase they
// wait for, 0 first.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

OCTET_DEVICE void initBarrier(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

/// Makes initialised barriers visible to bulk copies and to the cluster; a CTA or cluster barrier
/// has to follow.
OCTET_DEVICE void fenceBarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

OCTET_DEVICE void arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// Arrives, and adds to the bytes that this phase waits for.
OCTET_DEVICE void arriveExpecting(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

/// Arrives on the barrier at the same address in CTA `rank` of the cluster. That orders this
/// thread's products before copies that the waiter starts; no fence of memory, which would cost as
/// much as a step of K.
OCTET_DEVICE void arriveAt(u32 barrier, u32 rank) {
  asm volatile("{\n"
               ".reg .b32 remote;\n"
               "mapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
               "}" ::"r"(barrier),
               "r"(rank)
               : "memory");
}

OCTET_DEVICE bool tryWait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile("{\n"
               ".reg .pred p;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
               "selp.u32 %0, 1, 0, p;\n"
               "}"
               : "=r"(done)
               : "r"(barrier), "r"(parity)
               : "memory");
  return done != 0;
}

OCTET_DEVICE void wait(u32 barrier, u32 parity) {
  while (!tryWait(barrier, parity)) {
  }
}

} // namespace octet::cuda
