//===- tcgen05.cuh - Tensor memory and its products, sm_100f --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tensor memory is 128 lanes by 512 columns of 32 bits; an address is the lane in the upper half of
// a word and the column in the lower. A warp reads the 32 lanes of its rank in its warpgroup.
//
// Compile-only: no device of this family was at hand.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// By one warp: `columns` (a power of two from 32 on) of all lanes; the address is written to
/// shared memory at `to`. No other CTA of the kernel has to wait for its turn.
OCTET_DEVICE void allocateTensorMemory(u32 to, u32 columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
               "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(to),
               "r"(columns)
               : "memory");
}
/// By the warp that allocated it, after all reads.
OCTET_DEVICE void freeTensorMemory(u32 address, u32 columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(address), "r"(columns)
               : "memory");
}

/// Orders tensor-memory accesses of this thread before a barrier, and after one.
OCTET_DEVICE void fenceTensorBefore() {
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
OCTET_DEVICE void fenceTensorAfter() {
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/// Of operands that both have K contiguous: 128 rows of A by `kColumns` (a multiple of 16 up to
/// 256) rows of B, sums in FP32.
template <class T, int kColumns>
OCTET_DEVICE constexpr u32 tensorProduct() {
  static_assert(kColumns % 16 == 0 && kColumns >= 16 && kColumns <= 256, "columns of a product");
  constexpr u32 kFormat = kIsSame<T, Bf16> ? 1 : 0; // of 16 bits: F16, BF16; of 8: E4M3
  return (1u << 4) | (kFormat << 7) | (kFormat << 10) | (kColumns / 8 << 17) | (128 / 16 << 24);
}

/// By one thread: D = A B^T + (accumulate ? D : 0) over 32 bytes of K; the operands are descriptors
/// of shared memory. Products of a thread are done in order.
template <class T>
OCTET_DEVICE void multiplyInTensorMemory(u32 d, u64 a, u64 b, u32 product, bool accumulate) {
  if constexpr (sizeof(T) == 1)
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f8f6f4 [%0], %1, %2, %3, p;\n"
                 "}" ::"r"(d),
                 "l"(a), "l"(b), "r"(product), "r"(static_cast<u32>(accumulate))
                 : "memory");
  else
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %4, 0;\n"
                 "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;\n"
                 "}" ::"r"(d),
                 "l"(a), "l"(b), "r"(product), "r"(static_cast<u32>(accumulate))
                 : "memory");
}

/// Arrives on the barrier when all products that this thread has issued are done: their operands
/// have been read and their sums are there.
OCTET_DEVICE void arriveAfterProducts(u32 barrier) {
  asm volatile(
      "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier)
      : "memory");
}

/// 16 columns of this thread's lane. The wait is in the same statement: before it the registers
/// hold nothing.
OCTET_DEVICE void loadTensorMemory(float (&x)[16], u32 address) {
  u32 r[16];
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
               "%10, %11, %12, %13, %14, %15}, [%16];\n"
               "tcgen05.wait::ld.sync.aligned;"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]),
                 "=r"(r[7]), "=r"(r[8]), "=r"(r[9]), "=r"(r[10]), "=r"(r[11]), "=r"(r[12]),
                 "=r"(r[13]), "=r"(r[14]), "=r"(r[15])
               : "r"(address)
               : "memory");
#pragma unroll
  for (int i = 0; i < 16; ++i)
    x[i] = floatOf(r[i]);
}

} // namespace octet::cuda
