//===- atomic.cuh - Results that CTAs hand to one another -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Words that say themselves whether they are there: memory is zeros, a result is never the bits of
// +0, and who takes results away leaves zeros. So nothing has to be in order with anything else,
// and no thread waits for the memory that it uses otherwise. CTAs that have sent their results
// count themselves; the one that counts last takes the results of all, which are all on their way.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// Adds 1 to a counter, which goes from `last` to 0; orders nothing.
/// \returns what it was.
OCTET_DEVICE u32 atomicWrap(u32 *counter, u32 last) {
  u32 before;
  asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(before)
               : "l"(counter), "r"(last)
               : "memory");
  return before;
}

OCTET_DEVICE void send(float2 *to, float2 x) {
  asm volatile("st.relaxed.gpu.global.v2.f32 [%0], {%1, %2};" ::"l"(to),
               "f"(x.x == 0.f ? -0.f : x.x), "f"(x.y == 0.f ? -0.f : x.y)
               : "memory");
}

OCTET_DEVICE bool isThere(const float2 &x) { return bitsOf(x.x) != 0 && bitsOf(x.y) != 0; }
OCTET_DEVICE bool isThere(const float4 &x) {
  return bitsOf(x.x) != 0 && bitsOf(x.y) != 0 && bitsOf(x.z) != 0 && bitsOf(x.w) != 0;
}

/// Reads where `wanted`; otherwise `y` stays. Without a branch, so that many are under way.
OCTET_DEVICE void peek(float4 &y, const float *from, bool wanted) {
  asm volatile("{\n"
               "  .reg .pred p;\n"
               "  setp.ne.s32 p, %5, 0;\n"
               "  @p ld.relaxed.gpu.global.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               "}\n"
               : "+f"(y.x), "+f"(y.y), "+f"(y.z), "+f"(y.w)
               : "l"(from), "r"(static_cast<int>(wanted))
               : "memory");
}
OCTET_DEVICE void peek(float2 &y, const float2 *from, bool wanted) {
  asm volatile("{\n"
               "  .reg .pred p;\n"
               "  setp.ne.s32 p, %3, 0;\n"
               "  @p ld.relaxed.gpu.global.v2.f32 {%0, %1}, [%2];\n"
               "}\n"
               : "+f"(y.x), "+f"(y.y)
               : "l"(from), "r"(static_cast<int>(wanted))
               : "memory");
}

/// Ends a peek of what is wanted: waits until it is there and leaves zeros in its place.
template <class Vector, class At>
OCTET_DEVICE void take(Vector &y, At *from, bool wanted) {
  if (!wanted)
    return;
  while (!isThere(y))
    peek(y, from, true);
  *reinterpret_cast<Vector *>(from) = {};
}

} // namespace octet::cuda
