//===- scales.cuh - What scales are of, and as bytes ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// What has a scale of its own.
enum class Scaling {
  None,
  Tensor, ///< all of x; each shard of w
  Row,    ///< a token of x, a channel of w
  Block,  ///< blockK columns of a row of x, blockN x blockK of w
};

/// UE8M0 (N4): 2^(code - 127).
struct E8m0 {
  u8 bits;
};
OCTET_DEVICE float scaleOf(float x) { return x; }
OCTET_DEVICE float scaleOf(E8m0 x) {
  return floatOf(x.bits ? static_cast<u32>(x.bits) << 23 : 0x00400000u);
}

} // namespace octet::cuda
