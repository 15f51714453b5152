//===- mma_sync.cuh - Tensor products of a warp, from sm_80 ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product is 16 rows of A by 8 columns of B by 32 bytes of K: 16 elements of BF16 or F16, 32 of
// E4M3 (from sm_89). Lane l has g = l / 4 and t = l % 4, and holds in words of 4 bytes
//
//   a[0] row g, bytes 4t..   a[1] row g + 8, bytes 4t..   a[2] row g, bytes 16 + 4t..   a[3] row
//   g + 8, bytes 16 + 4t..   b[0] column g, bytes 4t..    b[1] column g, bytes 16 + 4t..
//   d[0], d[1] row g, columns 2t and 2t + 1               d[2], d[3] row g + 8, the same
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// Four 8x8 matrices of 16-bit elements: lanes 8i..8i+7 give the addresses of the 16-byte rows of
/// matrix i; lane l gets the bytes 4 (l % 4).. of row l / 4 of each.
OCTET_DEVICE void ldmatrix4(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
/// Two: lanes 0 to 15 give addresses.
OCTET_DEVICE void ldmatrix2(u32 &x0, u32 &x1, u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(x0), "=r"(x1)
               : "r"(address)
               : "memory");
}

/// Four, each transposed: lane l gets elements (2t, g) and (2t + 1, g) of the stored matrices.
OCTET_DEVICE void ldmatrix4Transposed(u32 (&x)[4], u32 address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(address)
               : "memory");
}
/// Transposes an 8x8 matrix of 16-bit elements, of which lane l holds (g, 2t) and (g, 2t + 1).
OCTET_DEVICE u32 transposeMatrix(u32 x) {
  u32 y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

/// d += a b of elements T, summed in FP32.
template <class T>
OCTET_DEVICE void mmaSync(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  static_assert(kIsSame<T, Bf16> || kIsSame<T, F16> || kIsSame<T, E4m3>,
                "a warp multiplies BF16, F16 or E4M3");
  if constexpr (kIsSame<T, Bf16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else if constexpr (kIsSame<T, F16>)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four E4M3 codes as two words of two T (BF16 or F16), exactly, on targets without FP8 too (B4).
/// A NaN becomes 480: see nanCodes.
template <class T>
OCTET_DEVICE void widenE4m3(u32 (&y)[2], u32 codes) {
  static_assert(kIsSame<T, Bf16> || kIsSame<T, F16>, "both hold every E4M3 value");
  // The fields of E4M3 moved into those of T are the value times a power of two, subnormals too.
  constexpr int kShift = kIsSame<T, Bf16> ? 4 : 1;
  constexpr u32 kMagnitude = 0x7f007f00u >> kShift;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    u32 high = __byte_perm(codes, 0, i == 0 ? 0x1404 : 0x3424); // a code in each upper byte
    u32 moved = ((high >> kShift) & kMagnitude) | (high & 0x80008000u);
    if constexpr (kIsSame<T, Bf16>) // times 2^120; adding -0 keeps the sign of a zero
      asm("fma.rn.bf16x2 %0, %1, %2, %3;"
          : "=r"(y[i])
          : "r"(moved), "r"(0x7b807b80u), "r"(0x80008000u));
    else // times 2^8
      asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y[i]) : "r"(moved), "r"(0x5c005c00u));
  }
}

/// The highest bit of each byte of four E4M3 codes is set if the code is NaN (N1); other bits are
/// anything.
OCTET_DEVICE u32 nanCodes(u32 codes) { return (codes & 0x7f7f7f7fu) + 0x01010101u; }

} // namespace octet::cuda
