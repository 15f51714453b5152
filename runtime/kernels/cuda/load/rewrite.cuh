//===- rewrite.cuh - Weights rewritten on their way to the device ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Once each, while a model is loaded: what touches every element of a weight, bit for bit as
// runtime/cpu/LoadOps.cpp and LoadRequantize.cpp do it.
//
//   quantizeRows      scale[r] = max(amax(x[r, :]), 1e-10) / 448; code = e4m3(x / scale)      (W10)
//   findAmax,         scale[1] = amax(x), from 0;
//   quantizeAll       scale[0] = max(scale[1], 1e-10) / 448; code = e4m3(x / scale[0])        (W10)
//   useLargestScale   scale[0] = max over shards s of old[s];
//                     code = e4m3(code * old[s] / scale[0]), left alone where the two agree    (W8)
//
//   operand   shape       types            contiguous   alignment
//   in        [rows, K]   F32, BF16, F16   K            256          E4M3 of useLargestScale
//   old       [shards]    F32                           256
//   out       [rows, K]   E4M3             K            256
//   scale     [rows], [2] F32                           256          zeros before
//
// Rounding  products and quotients are FP32 numbers, rounded once each; a NaN counts for no amax.
// Threads   kThreads, whole warps; a CTA a row. The link that fills `in` is the limit.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

template <class Element_, int kK_, int kThreads_> struct LoadedRows {
  using Element = Element_;
  static constexpr int kK = kK_, kThreads = kThreads_;
  static_assert(kK > 0 && kThreads % 32 == 0 && kThreads <= 1024);
};

/// The largest magnitude of a row, in all threads.
template <class Config> OCTET_DEVICE float amaxOf(const typename Config::Element *x) {
  __shared__ float ofWarp[Config::kThreads / 32];
  float amax = 0.f;
  for (int i = threadIdx.x; i < Config::kK; i += Config::kThreads)
    amax = fmaxf(amax, fabsf(toFloat(x[i])));
  for (int lanes = 16; lanes > 0; lanes /= 2)
    amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, lanes));
  if (threadIdx.x % 32 == 0)
    ofWarp[threadIdx.x / 32] = amax;
  __syncthreads();
  for (float each : ofWarp)
    amax = fmaxf(amax, each);
  return amax;
}

OCTET_DEVICE float scaleOfAmax(float amax) { return __fdiv_rn(fmaxf(amax, 1e-10f), 448.f); }

template <class Config>
OCTET_DEVICE void quantizeRow(const typename Config::Element *x, E4m3 *out, float scale) {
  for (int i = threadIdx.x; i < Config::kK; i += Config::kThreads)
    out[i] = fromFloat<E4m3>(__fdiv_rn(toFloat(x[i]), scale));
}

template <class Config>
OCTET_DEVICE void quantizeRows(const typename Config::Element *in, E4m3 *out, float *scale) {
  const i64 row = blockIdx.x, first = row * Config::kK;
  const float s = scaleOfAmax(amaxOf<Config>(in + first));
  if (threadIdx.x == 0)
    scale[row] = s;
  quantizeRow<Config>(in + first, out + first, s);
}

template <class Config>
OCTET_DEVICE void findAmax(const typename Config::Element *in, float *scale) {
  const float amax = amaxOf<Config>(in + i64(blockIdx.x) * Config::kK);
  // Without a sign the bits are in the order of the numbers.
  if (threadIdx.x == 0)
    atomicMax(reinterpret_cast<int *>(scale + 1), static_cast<int>(bitsOf(amax)));
}

template <class Config>
OCTET_DEVICE void quantizeAll(const typename Config::Element *in, E4m3 *out, float *scale) {
  const i64 first = i64(blockIdx.x) * Config::kK;
  const float s = scaleOfAmax(scale[1]);
  if (blockIdx.x == 0 && threadIdx.x == 0)
    scale[0] = s;
  quantizeRow<Config>(in + first, out + first, s);
}

/// The shards' rows, in order.
template <class Config, int... kRows>
OCTET_DEVICE void useLargestScale(const E4m3 *in, const float *old, E4m3 *out, float *scale) {
  const i64 row = blockIdx.x, first = row * Config::kK;
  constexpr int kShards = sizeof...(kRows);
  const int rows[kShards] = {kRows...};
  float largest = 0.f, own = 0.f;
  i64 begin = 0;
  for (int s = 0; s < kShards; ++s) {
    largest = fmaxf(largest, old[s]);
    if (row >= begin)
      own = old[s];
    begin += rows[s];
  }
  if (row == 0 && threadIdx.x == 0)
    scale[0] = largest;
  for (int i = threadIdx.x; i < Config::kK; i += Config::kThreads) {
    const E4m3 code = in[first + i];
    out[first + i] = own == largest ? code
                                    : fromFloat<E4m3>(__fdiv_rn(__fmul_rn(toFloat(code), own),
                                                                largest));
  }
}

} // namespace octet::cuda
