//===- wgmma.cuh - Warp-group products of sm_90a -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// D[64, N] (+)= A[64, K] B[N, K]^T by one warpgroup, K of 32 bytes: 32 E4M3 or 16 BF16/F16, D in
// FP32 registers. Thread t of the warpgroup holds, for i < N / 8 and j < 4, in d[4 i + j] the
// element of row 16 (t / 32) + (t % 32) / 4 + 8 (j / 2) and column 8 i + 2 (t % 4) + j % 2.
//
// A and B are descriptors of shared memory (tile/descriptor.cuh), or A is four words of registers.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// Before the first product, and after registers that products read or write were written.
OCTET_DEVICE void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
OCTET_DEVICE void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/// All but the newest `kPending` groups are done.
template <int kPending> OCTET_DEVICE void wgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving accesses of accumulators over this point: it does not know that
/// products in flight write them.
template <int kCount> OCTET_DEVICE void pinRegisters(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i)
    asm volatile("" : "+f"(d[i])::"memory");
}

/// Wgmma<T, N>::multiply(d, a, b, accumulate): D = A B^T + (accumulate ? D : 0).
template <class T, int kN> struct Wgmma;

// Lists of the first registers, by their number.
#define OCTET_REGS_4 "%0, %1, %2, %3"
#define OCTET_REGS_8 OCTET_REGS_4 ", %4, %5, %6, %7"
#define OCTET_REGS_12 OCTET_REGS_8 ", %8, %9, %10, %11"
#define OCTET_REGS_16 OCTET_REGS_12 ", %12, %13, %14, %15"
#define OCTET_REGS_20 OCTET_REGS_16 ", %16, %17, %18, %19"
#define OCTET_REGS_24 OCTET_REGS_20 ", %20, %21, %22, %23"
#define OCTET_REGS_28 OCTET_REGS_24 ", %24, %25, %26, %27"
#define OCTET_REGS_32 OCTET_REGS_28 ", %28, %29, %30, %31"
#define OCTET_REGS_36 OCTET_REGS_32 ", %32, %33, %34, %35"
#define OCTET_REGS_40 OCTET_REGS_36 ", %36, %37, %38, %39"
#define OCTET_REGS_44 OCTET_REGS_40 ", %40, %41, %42, %43"
#define OCTET_REGS_48 OCTET_REGS_44 ", %44, %45, %46, %47"
#define OCTET_REGS_52 OCTET_REGS_48 ", %48, %49, %50, %51"
#define OCTET_REGS_56 OCTET_REGS_52 ", %52, %53, %54, %55"
#define OCTET_REGS_60 OCTET_REGS_56 ", %56, %57, %58, %59"
#define OCTET_REGS_64 OCTET_REGS_60 ", %60, %61, %62, %63"
#define OCTET_REGS_68 OCTET_REGS_64 ", %64, %65, %66, %67"
#define OCTET_REGS_72 OCTET_REGS_68 ", %68, %69, %70, %71"
#define OCTET_REGS_76 OCTET_REGS_72 ", %72, %73, %74, %75"
#define OCTET_REGS_80 OCTET_REGS_76 ", %76, %77, %78, %79"
#define OCTET_REGS_84 OCTET_REGS_80 ", %80, %81, %82, %83"
#define OCTET_REGS_88 OCTET_REGS_84 ", %84, %85, %86, %87"
#define OCTET_REGS_92 OCTET_REGS_88 ", %88, %89, %90, %91"
#define OCTET_REGS_96 OCTET_REGS_92 ", %92, %93, %94, %95"
#define OCTET_REGS_100 OCTET_REGS_96 ", %96, %97, %98, %99"
#define OCTET_REGS_104 OCTET_REGS_100 ", %100, %101, %102, %103"
#define OCTET_REGS_108 OCTET_REGS_104 ", %104, %105, %106, %107"
#define OCTET_REGS_112 OCTET_REGS_108 ", %108, %109, %110, %111"
#define OCTET_REGS_116 OCTET_REGS_112 ", %112, %113, %114, %115"
#define OCTET_REGS_120 OCTET_REGS_116 ", %116, %117, %118, %119"
#define OCTET_REGS_124 OCTET_REGS_120 ", %120, %121, %122, %123"
#define OCTET_REGS_128 OCTET_REGS_124 ", %124, %125, %126, %127"
#define OCTET_OUTS_4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define OCTET_OUTS_8 OCTET_OUTS_4, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define OCTET_OUTS_12 OCTET_OUTS_8, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define OCTET_OUTS_16 OCTET_OUTS_12, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define OCTET_OUTS_20 OCTET_OUTS_16, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define OCTET_OUTS_24 OCTET_OUTS_20, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define OCTET_OUTS_28 OCTET_OUTS_24, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define OCTET_OUTS_32 OCTET_OUTS_28, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define OCTET_OUTS_36 OCTET_OUTS_32, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define OCTET_OUTS_40 OCTET_OUTS_36, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define OCTET_OUTS_44 OCTET_OUTS_40, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define OCTET_OUTS_48 OCTET_OUTS_44, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define OCTET_OUTS_52 OCTET_OUTS_48, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define OCTET_OUTS_56 OCTET_OUTS_52, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define OCTET_OUTS_60 OCTET_OUTS_56, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define OCTET_OUTS_64 OCTET_OUTS_60, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define OCTET_OUTS_68 OCTET_OUTS_64, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define OCTET_OUTS_72 OCTET_OUTS_68, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define OCTET_OUTS_76 OCTET_OUTS_72, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define OCTET_OUTS_80 OCTET_OUTS_76, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define OCTET_OUTS_84 OCTET_OUTS_80, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define OCTET_OUTS_88 OCTET_OUTS_84, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define OCTET_OUTS_92 OCTET_OUTS_88, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define OCTET_OUTS_96 OCTET_OUTS_92, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define OCTET_OUTS_100 OCTET_OUTS_96, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define OCTET_OUTS_104 OCTET_OUTS_100, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define OCTET_OUTS_108 OCTET_OUTS_104, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define OCTET_OUTS_112 OCTET_OUTS_108, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define OCTET_OUTS_116 OCTET_OUTS_112, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define OCTET_OUTS_120 OCTET_OUTS_116, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define OCTET_OUTS_124 OCTET_OUTS_120, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define OCTET_OUTS_128 OCTET_OUTS_124, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// The numbers of the operands after `count` registers: up to three descriptors or flags, or A in
// four registers.
#define OCTET_WGMMA_E4M3(kN, count, o1, o2, o3)                                                    \
  template <> struct Wgmma<E4m3, kN> {                                                             \
    static OCTET_DEVICE void multiply(float (&d)[count], u64 a, u64 b, bool accumulate) {          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o3 ", 0;\n"                               \
                   "wgmma.mma_async.sync.aligned.m64n" #kN "k32.f32.e4m3.e4m3"                      \
                   " {" OCTET_REGS_##count "}, %" #o1 ", %" #o2 ", p, 1, 1;\n}"                     \
                   : OCTET_OUTS_##count                                                            \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                           \
    }                                                                                              \
  };
// Of 16-bit floats B may be stored with N contiguous (kTransposeB).
#define OCTET_WGMMA_16(type, name, kN, count, o1, o2, o3, o4, o5, o6, o7)                          \
  template <> struct Wgmma<type, kN> {                                                             \
    template <bool kTransposeB = false>                                                            \
    static OCTET_DEVICE void multiply(float (&d)[count], u64 a, u64 b, bool accumulate) {          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o3 ", 0;\n"                               \
                   "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." name                         \
                   " {" OCTET_REGS_##count "}, %" #o1 ", %" #o2 ", p, 1, 1, 0, %" #o4 ";\n}"       \
                   : OCTET_OUTS_##count                                                            \
                   : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)),                            \
                     "n"(static_cast<int>(kTransposeB)));                                          \
    }                                                                                              \
    template <bool kTransposeB = false>                                                            \
    static OCTET_DEVICE void multiply(float (&d)[count], const u32 (&a)[4], u64 b,                 \
                                      bool accumulate) {                                           \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #o6 ", 0;\n"                               \
                   "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." name                         \
                   " {" OCTET_REGS_##count "}, {%" #o1 ", %" #o2 ", %" #o3 ", %" #o4 "}, %" #o5    \
                   ", p, 1, 1, %" #o7 ";\n}"                                                       \
                   : OCTET_OUTS_##count                                                            \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b),                           \
                     "r"(static_cast<int>(accumulate)), "n"(static_cast<int>(kTransposeB)));       \
    }                                                                                              \
  };
#define OCTET_WGMMA(kN, count, o1, o2, o3, o4, o5, o6, o7)                                         \
  OCTET_WGMMA_E4M3(kN, count, o1, o2, o3)                                                          \
  OCTET_WGMMA_16(Bf16, "bf16.bf16", kN, count, o1, o2, o3, o4, o5, o6, o7)                         \
  OCTET_WGMMA_16(F16, "f16.f16", kN, count, o1, o2, o3, o4, o5, o6, o7)

OCTET_WGMMA(8, 4, 4, 5, 6, 7, 8, 9, 10)
OCTET_WGMMA(16, 8, 8, 9, 10, 11, 12, 13, 14)
OCTET_WGMMA(24, 12, 12, 13, 14, 15, 16, 17, 18)
OCTET_WGMMA(32, 16, 16, 17, 18, 19, 20, 21, 22)
OCTET_WGMMA(40, 20, 20, 21, 22, 23, 24, 25, 26)
OCTET_WGMMA(48, 24, 24, 25, 26, 27, 28, 29, 30)
OCTET_WGMMA(56, 28, 28, 29, 30, 31, 32, 33, 34)
OCTET_WGMMA(64, 32, 32, 33, 34, 35, 36, 37, 38)
OCTET_WGMMA(72, 36, 36, 37, 38, 39, 40, 41, 42)
OCTET_WGMMA(80, 40, 40, 41, 42, 43, 44, 45, 46)
OCTET_WGMMA(88, 44, 44, 45, 46, 47, 48, 49, 50)
OCTET_WGMMA(96, 48, 48, 49, 50, 51, 52, 53, 54)
OCTET_WGMMA(104, 52, 52, 53, 54, 55, 56, 57, 58)
OCTET_WGMMA(112, 56, 56, 57, 58, 59, 60, 61, 62)
OCTET_WGMMA(120, 60, 60, 61, 62, 63, 64, 65, 66)
OCTET_WGMMA(128, 64, 64, 65, 66, 67, 68, 69, 70)
OCTET_WGMMA(144, 72, 72, 73, 74, 75, 76, 77, 78)
OCTET_WGMMA(160, 80, 80, 81, 82, 83, 84, 85, 86)
OCTET_WGMMA(176, 88, 88, 89, 90, 91, 92, 93, 94)
OCTET_WGMMA(192, 96, 96, 97, 98, 99, 100, 101, 102)
OCTET_WGMMA(208, 104, 104, 105, 106, 107, 108, 109, 110)
OCTET_WGMMA(224, 112, 112, 113, 114, 115, 116, 117, 118)
OCTET_WGMMA(240, 120, 120, 121, 122, 123, 124, 125, 126)
OCTET_WGMMA(256, 128, 128, 129, 130, 131, 132, 133, 134)

#undef OCTET_WGMMA_E4M3
#undef OCTET_WGMMA_16
#undef OCTET_WGMMA

} // namespace octet::cuda
