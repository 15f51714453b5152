//===- base.cuh - Types and scalar instructions of device code ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every device file needs, for sm_80 and later, without a header of the toolkit: NVRTC
// compiles this text alone. Conversions are single instructions where the target has them and
// round to nearest even (N1, N2); the ones of E4M3 are done in integers before sm_89.
//
//===----------------------------------------------------------------------===//

#pragma once

#define OCTET_DEVICE __device__ __forceinline__

namespace octet::cuda {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i8 = signed char;
using i32 = int;
using i64 = long long;

/// Storage of the small float types; arithmetic is in float.
struct Bf16 {
  u16 bits;
};
struct F16 {
  u16 bits;
};
/// E4M3FN (N1): NaN is 0x7F and 0xFF, no infinity, largest finite 448.
struct E4m3 {
  u8 bits;
};

/// A tensor map of the driver (cuTensorMapEncodeTiled), passed as a `__grid_constant__`.
struct alignas(128) TensorMap {
  u64 opaque[16];
};

template <class A, class B> inline constexpr bool kIsSame = false;
template <class A> inline constexpr bool kIsSame<A, A> = true;

constexpr __host__ __device__ int divideUp(int a, int b) { return (a + b - 1) / b; }
constexpr __host__ __device__ int alignUp(int a, int b) { return (a + b - 1) / b * b; }
constexpr __host__ __device__ int minOf(int a, int b) { return a < b ? a : b; }
constexpr __host__ __device__ int maxOf(int a, int b) { return a > b ? a : b; }

//===----------------------------------------------------------------------===//
// Threads and grids
//===----------------------------------------------------------------------===//

OCTET_DEVICE u32 sharedAddress(const void *p) {
  return static_cast<u32>(__cvta_generic_to_shared(p));
}

/// Barrier `id` (1 to 15; 0 is __syncthreads) among `threads` threads of the CTA.
OCTET_DEVICE void barrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
OCTET_DEVICE void barrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/// Waits for the kernels before this one in the stream to have finished and to be visible
/// (programmatic dependent launch); nothing before sm_90.
OCTET_DEVICE void waitForPriorGrids() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// Lets the next kernel in the stream start, up to its own wait; nothing before sm_90.
OCTET_DEVICE void launchNextGrid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

OCTET_DEVICE u32 bitsOf(float x) { return __float_as_uint(x); }
OCTET_DEVICE float floatOf(u32 bits) { return __uint_as_float(bits); }

/// NaN if one is; -0 is below 0.
OCTET_DEVICE float maxOrNan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
OCTET_DEVICE float minOrNan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

/// Within one unit of the last place of 1 / x and 2 of 1 / sqrt(x); what is subnormal is 0.
OCTET_DEVICE float approximateReciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
OCTET_DEVICE float approximateInverseRoot(float x) {
  float y;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

//===----------------------------------------------------------------------===//
// BF16 and F16
//===----------------------------------------------------------------------===//

OCTET_DEVICE float toFloat(float x) { return x; }
OCTET_DEVICE float toFloat(Bf16 x) { return floatOf(static_cast<u32>(x.bits) << 16); }
OCTET_DEVICE float toFloat(F16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}

/// Two floats rounded to one word of two BF16; `low` is the one at the lower address.
OCTET_DEVICE u32 packBf16(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
OCTET_DEVICE u32 packF16(float low, float high) {
  u32 y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}
/// The larger of each two BF16 that are not NaN.
OCTET_DEVICE u32 maxPairs(u32 a, u32 b) {
  u32 y;
  asm("max.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  return y;
}
OCTET_DEVICE float2 unpackBf16(u32 x) { return {floatOf(x << 16), floatOf(x & 0xffff0000u)}; }
OCTET_DEVICE float2 unpackF16(u32 x) {
  return {toFloat(F16{static_cast<u16>(x)}), toFloat(F16{static_cast<u16>(x >> 16)})};
}

/// fromFloat<T>(x): rounded once. packPair<T>, unpackPair<T>: two of a 16-bit T in a word.
template <class T> struct Rounding;
template <> struct Rounding<float> {
  static OCTET_DEVICE float round(float x) { return x; }
};
template <> struct Rounding<Bf16> {
  static OCTET_DEVICE Bf16 round(float x) { return {static_cast<u16>(packBf16(x, 0.f))}; }
  static OCTET_DEVICE u32 pack(float low, float high) { return packBf16(low, high); }
  static OCTET_DEVICE float2 unpack(u32 x) { return unpackBf16(x); }
};
template <> struct Rounding<F16> {
  static OCTET_DEVICE F16 round(float x) { return {static_cast<u16>(packF16(x, 0.f))}; }
  static OCTET_DEVICE u32 pack(float low, float high) { return packF16(low, high); }
  static OCTET_DEVICE float2 unpack(u32 x) { return unpackF16(x); }
};
template <class T> OCTET_DEVICE T fromFloat(float x) { return Rounding<T>::round(x); }
template <class T> OCTET_DEVICE u32 packPair(float low, float high) {
  return Rounding<T>::pack(low, high);
}
template <class T> OCTET_DEVICE float2 unpackPair(u32 x) { return Rounding<T>::unpack(x); }

//===----------------------------------------------------------------------===//
// E4M3
//===----------------------------------------------------------------------===//

/// Two E4M3 codes (the low byte first) as two F16, exactly.
OCTET_DEVICE u32 e4m3x2ToF16x2(u16 codes) {
  u32 y;
#if __CUDA_ARCH__ >= 890
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"(codes));
#else
  // The fields of E4M3 moved into those of F16 are the value times 2^-8, subnormals too.
  u32 spread = (codes & 0x00ffu) | (static_cast<u32>(codes & 0xff00u) << 8);
  u32 moved = ((spread & 0x00800080u) << 8) | ((spread & 0x007f007fu) << 7);
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(moved), "r"(0x5c005c00u));
  if ((spread & 0x7fu) == 0x7fu)
    y |= 0x7fffu;
  if ((spread & 0x7f0000u) == 0x7f0000u)
    y |= 0x7fff0000u;
#endif
  return y;
}
OCTET_DEVICE float2 e4m3x2ToFloat2(u16 codes) { return unpackF16(e4m3x2ToF16x2(codes)); }
OCTET_DEVICE float toFloat(E4m3 x) { return e4m3x2ToFloat2(x.bits).x; }

/// One code in integers: round to nearest even, clamped to 448, NaN kept (N2).
OCTET_DEVICE u8 floatToE4m3Bits(float x) {
  u32 sign = (bitsOf(x) >> 24) & 0x80u, bits = bitsOf(x) & 0x7fffffffu;
  if (bits > 0x7f800000u)
    return static_cast<u8>(sign | 0x7fu);
  if (bits >= bitsOf(448.f))
    return static_cast<u8>(sign | 0x7eu);
  // Below 2^-6 steps are 2^-9, the last place of 2^14; above, three bits of mantissa stay.
  if (bits < bitsOf(0x1p-6f))
    return static_cast<u8>(sign | (bitsOf(floatOf(bits) + 0x1p14f) - bitsOf(0x1p14f)));
  bits += 0x7ffffu + ((bits >> 20) & 1u);
  return static_cast<u8>(sign | ((bits >> 20) - (120u << 3)));
}

/// Two floats as two codes, `low` in the low byte: N2's clamp and rounding.
OCTET_DEVICE u16 packE4m3(float low, float high) {
#if __CUDA_ARCH__ >= 890
  u16 y;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(high), "f"(low));
  return y;
#else
  return static_cast<u16>(floatToE4m3Bits(low) | (floatToE4m3Bits(high) << 8));
#endif
}
OCTET_DEVICE u32 packE4m3(float a, float b, float c, float d) {
  return packE4m3(a, b) | (static_cast<u32>(packE4m3(c, d)) << 16);
}
template <> struct Rounding<E4m3> {
  static OCTET_DEVICE E4m3 round(float x) { return {static_cast<u8>(packE4m3(x, 0.f))}; }
};

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// 16 bytes by one instruction; addresses are multiples of 16.
OCTET_DEVICE uint4 load16(const void *p) { return *static_cast<const uint4 *>(p); }
OCTET_DEVICE void store16(void *p, uint4 x) { *static_cast<uint4 *>(p) = x; }

/// Brings the line of `p` to L2, where all kernels see what any of them writes.
OCTET_DEVICE void prefetchL2(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/// Through the read-only path, for what no kernel that may still run writes (weights).
OCTET_DEVICE uint4 loadConstant16(const void *p) {
  uint4 x;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
      : "l"(p));
  return x;
}

} // namespace octet::cuda
