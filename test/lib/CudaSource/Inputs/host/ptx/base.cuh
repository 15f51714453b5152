//===- base.cuh - Device words of row kernels, on the host ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stands before runtime/kernels/cuda/ptx/base.cuh in the include path, so that
// a printed row kernel is C++ that Emulate.h runs: the arithmetic is that of
// the device, lanes and barriers are switches between contexts.
//
//===----------------------------------------------------------------------===//

#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#define OCTET_DEVICE inline
#define __global__
#define __launch_bounds__(...)
#define __shared__ static

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct Place {
  unsigned x, y;
};
extern Place threadIdx, blockIdx;

uint32_t exchangeWord(uint32_t word, int lane);
void waitForWarp();
void __syncthreads();

inline uint32_t __shfl_sync(unsigned, uint32_t x, int lane) {
  return exchangeWord(x, lane & 31);
}
inline float __shfl_sync(unsigned, float x, int lane) {
  return std::bit_cast<float>(
      exchangeWord(std::bit_cast<uint32_t>(x), lane & 31));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int distance) {
  return __shfl_sync(mask, x, (threadIdx.x % 32) ^ distance);
}
inline void __syncwarp() { waitForWarp(); }

// The test is compiled without contraction.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline int __float2int_rn(float a) { return std::lrint(a); }

namespace octet::cuda {

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i8 = int8_t;
using i32 = int32_t;
using i64 = long long;

struct Bf16 {
  u16 bits;
};
struct F16 {
  u16 bits;
};
struct E4m3 {
  u8 bits;
};

template <class A, class B>
inline constexpr bool kIsSame = false;
template <class A>
inline constexpr bool kIsSame<A, A> = true;
constexpr int alignUp(int a, int b) { return (a + b - 1) / b * b; }
constexpr int minOf(int a, int b) { return a < b ? a : b; }

inline void waitForPriorGrids() {}
inline void launchNextGrid() {}
inline u32 bitsOf(float x) { return std::bit_cast<u32>(x); }
inline float floatOf(u32 x) { return std::bit_cast<float>(x); }
// Of numbers.
inline float maxOrNan(float a, float b) { return a > b ? a : b; }
inline float minOrNan(float a, float b) { return a < b ? a : b; }
inline float approximateReciprocal(float x) { return 1.0f / x; }
inline float approximateInverseRoot(float x) { return 1.0f / std::sqrt(x); }

inline float toFloat(float x) { return x; }
inline float toFloat(Bf16 x) { return floatOf(u32(x.bits) << 16); }

/// Finite values.
template <class T>
T fromFloat(float x) {
  if constexpr (kIsSame<T, float>)
    return x;
  else
    return {u16((bitsOf(x) + 0x7fff + (bitsOf(x) >> 16 & 1)) >> 16)};
}
template <class T>
u32 packPair(float low, float high) {
  return fromFloat<T>(low).bits | u32(fromFloat<T>(high).bits) << 16;
}
/// Not below 0, where floats are in the order of their bits.
inline u32 maxPairs(u32 a, u32 b) {
  u32 low = (a & 0xffff) > (b & 0xffff) ? a : b;
  return (a >> 16 > b >> 16 ? a : b) & 0xffff0000 | low & 0xffff;
}
template <class T>
float2 unpackPair(u32 x) {
  return {toFloat(T{u16(x)}), toFloat(T{u16(x >> 16)})};
}

/// The nearest of all codes, the even one of two, by trying them.
inline u8 toE4m3(float x) {
  auto valueOf = [](int code) {
    int exponent = code >> 3, mantissa = code & 7;
    return exponent ? std::ldexp(8.0 + mantissa, exponent - 10)
                    : std::ldexp(double(mantissa), -9);
  };
  int best = 0;
  double size = std::fabs(double(x));
  for (int code = 1; code <= 0x7e; ++code) {
    double before = std::fabs(size - valueOf(best));
    double now = std::fabs(size - valueOf(code));
    if (now < before || (now == before && code % 2 == 0))
      best = code;
  }
  return u8(best | (std::signbit(x) ? 0x80 : 0));
}
inline u32 packE4m3(float a, float b, float c, float d) {
  return toE4m3(a) | toE4m3(b) << 8 | toE4m3(c) << 16 | u32(toE4m3(d)) << 24;
}

inline void prefetchL2(const void *) {}
inline uint4 load16(const void *p) {
  if (reinterpret_cast<uintptr_t>(p) % 16)
    std::abort();
  return *static_cast<const uint4 *>(p);
}
inline void store16(void *p, uint4 x) {
  if (reinterpret_cast<uintptr_t>(p) % 16)
    std::abort();
  *static_cast<uint4 *>(p) = x;
}

} // namespace octet::cuda
