//===- cp_async.cuh - Asynchronous copies of sm_80 ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Global to shared memory without registers. Copies of a thread are joined into groups, which
// complete in order; other threads see them after the thread has waited and a barrier.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// Copies `kBytes` (4, 8 or 16; both addresses are multiples of it), of which the first `valid`
/// are read and the rest are zeros. Nothing is read where `valid` is 0, whatever the address.
template <int kBytes>
OCTET_DEVICE void cpAsync(u32 to, const void *from, int valid) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16, "cp.async moves 4, 8 or 16 bytes");
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(kBytes),
                 "r"(valid)
                 : "memory");
}

OCTET_DEVICE void cpAsyncCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

/// Asks for `bytes`, a multiple of 16, in the L2 cache; nothing before sm_90.
OCTET_DEVICE void prefetchL2(const void *from, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

/// Waits until at most `kGroups` of the thread's groups are under way.
template <int kGroups>
OCTET_DEVICE void cpAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

} // namespace octet::cuda
