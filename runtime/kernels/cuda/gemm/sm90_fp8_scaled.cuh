//===- sm90_fp8_scaled.cuh - FP8 products with a scale a row on sm_90a ----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   y[i,j] = round((sum_k x[i,k] w[j,k]) (sx[i] sw[j]) + bias[j])                          (N6b)
//
// with E4M3 x and w, sx one a token or one, sw one a row of W or one a shard. The sum is FP32:
// what the tensor core adds is promoted every 128 of K (N6). The operands, shared memory and grids
// are those of sm90_swapped.cuh (few rows) and sm90_tiled.cuh (many).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/sm90_swapped.cuh"
#include "gemm/sm90_tiled.cuh"

namespace octet::cuda {

/// `Bias` is void where there is none.
template <class Output, class Bias, Scaling kXScaling, Scaling kWScaling, int kN, int kK,
          class ShardWidths>
using Sm90Fp8Scaled = Sm90Product<E4m3, Output, Bias, kXScaling, kWScaling, kN, kK, ShardWidths>;

} // namespace octet::cuda
