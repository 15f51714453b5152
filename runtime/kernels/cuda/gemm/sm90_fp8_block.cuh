//===- sm90_fp8_block.cuh - Block-scaled FP8 products of sm_90a -----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   y[i,j] = round(sum_b sx[i,b] sw[row(j),b] sum_{k in b} x[i,k] w[j,k] + bias[j])         (N6)
//
// with blocks b of 128 or 32 columns: E4M3 x and w, sx 1xb column-major [cdiv(K,b)][pitch] (P3), sw
// bxb, each shard with rows of its own (W5b). The inner sum is the tensor core's, the outer one
// FP32. The operands, shared memory and grids are those of sm90_swapped.cuh (few rows) and
// sm90_tiled.cuh (many).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/sm90_swapped.cuh"
#include "gemm/sm90_tiled.cuh"

namespace octet::cuda {

/// `Bias` is void where there is none.
template <class Output, class Bias, int kN, int kK, class ShardWidths, int kBlock = 128>
using Sm90Fp8Block =
    Sm90Product<E4m3, Output, Bias, Scaling::Block, Scaling::Block, kN, kK, ShardWidths, kBlock>;

} // namespace octet::cuda
