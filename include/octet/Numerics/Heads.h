//===- Heads.h - kv_b_proj by heads -----------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The load rewrite of absorbed latent attention (W12) in plain scalar C++.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_NUMERICS_HEADS_H
#define OCTET_NUMERICS_HEADS_H

#include <cstdint>
#include <span>

namespace octet {

/// kv_b_proj [heads * (nope + value), rank]: of each head first the rows of
/// its keys, then those of its values.
struct LatentHeads {
  int64_t heads, nope, value, rank;
};

/// Takes the heads apart: row h * (nope + value) + i is row i of keys[h] for
/// i < nope, else row i - nope of values[h] (W12).
/// \param matrix  [heads * (nope + value), rank].
/// \param keys    [out] w_kc [heads, nope, rank].
/// \param values  [out] w_vc [heads, value, rank].
void splitHeads(std::span<const float> matrix, const LatentHeads &shape,
                std::span<float> keys, std::span<float> values);

/// The same of codes with one scale per bn x bk block. A block is found by the
/// row of the whole matrix, because a head's rows need not start on the edge of
/// one: 192 + 256 rows a head meet blocks of 128 elsewhere in each head.
/// \param scale  [cdiv(rows, bn), cdiv(rank, bk)].
void absorbBlocks(std::span<const uint8_t> codes, std::span<const float> scale,
                  const LatentHeads &shape, int64_t bn, int64_t bk,
                  std::span<float> keys, std::span<float> values);

} // namespace octet

#endif // OCTET_NUMERICS_HEADS_H
