//===- descriptor.cuh - Shared-memory tiles as operands of wgmma ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile of rows of 128 bytes (K contiguous), as a bulk copy with SWIZZLE_128B leaves it: the
// 16-byte chunk c of row r lies at chunk c ^ (r % 8). Tiles begin at multiples of 1024 bytes.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

inline constexpr int kRowBytes = 128; ///< of a tile's row: one step of K

/// K-major, 128-byte swizzle, groups of 8 rows 1024 bytes apart. Adding 2 moves by 32 bytes of K,
/// which is one product; adding 64 moves by 8 rows.
OCTET_DEVICE u64 swizzledOperand(u32 address) {
  return static_cast<u64>((address & 0x3ffffu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

/// The byte of chunk `chunk` of row `row` in a swizzled tile.
OCTET_DEVICE u32 swizzledOffset(int row, int chunk) {
  return row * kRowBytes + ((chunk ^ (row & 7)) << 4);
}

} // namespace octet::cuda
