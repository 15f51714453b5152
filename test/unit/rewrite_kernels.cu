//===- rewrite_kernels.cu - Instances of load/rewrite.cuh -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For RuntimeCudaRewriteTest.cpp, which knows these constants.
//
//===----------------------------------------------------------------------===//

#include "load/rewrite.cuh"

using namespace octet::cuda;

#define INSTANCES(NAME, TYPE)                                                                      \
  extern "C" __global__ void rows_##NAME(const TYPE *in, E4m3 *out, float *scale) {                \
    quantizeRows<LoadedRows<TYPE, 520, 256>>(in, out, scale);                                      \
  }                                                                                                \
  extern "C" __global__ void amax_##NAME(const TYPE *in, float *scale) {                           \
    findAmax<LoadedRows<TYPE, 520, 256>>(in, scale);                                               \
  }                                                                                                \
  extern "C" __global__ void all_##NAME(const TYPE *in, E4m3 *out, float *scale) {                 \
    quantizeAll<LoadedRows<TYPE, 520, 256>>(in, out, scale);                                       \
  }

INSTANCES(f32, float)
INSTANCES(bf16, Bf16)
INSTANCES(f16, F16)

extern "C" __global__ void largest(const E4m3 *in, const float *old, E4m3 *out, float *scale) {
  useLargestScale<LoadedRows<E4m3, 520, 256>, 70, 49, 10>(in, old, out, scale);
}
