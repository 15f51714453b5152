//===- sm90_dense.cuh - BF16 and F16 products of sm_90a -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   y[i,j] = round(sum_k x[i,k] w[j,k] + bias[j])
//
// with BF16 or F16 x and w and the tensor core's FP32 sum over all of K. The operands, shared
// memory and grids are those of sm90_swapped.cuh (few rows) and sm90_tiled.cuh (many).
//
//===----------------------------------------------------------------------===//

#pragma once

#include "gemm/sm90_swapped.cuh"
#include "gemm/sm90_tiled.cuh"

namespace octet::cuda {

/// `Bias` is void where there is none.
template <class Input, class Output, class Bias, int kN, int kK>
using Sm90Dense =
    Sm90Product<Input, Output, Bias, Scaling::None, Scaling::None, kN, kK, Shards<kN>>;

} // namespace octet::cuda
