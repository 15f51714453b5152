//===- Heads.cpp - kv_b_proj by heads -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Heads.h"
#include "octet/Numerics/Numerics.h"
#include <algorithm>
#include <vector>

using namespace octet;

void octet::splitHeads(std::span<const float> matrix, const LatentHeads &shape,
                       std::span<float> keys, std::span<float> values) {
  const size_t keyCount = size_t(shape.nope * shape.rank);
  const size_t valueCount = size_t(shape.value * shape.rank);
  for (size_t head = 0; head < size_t(shape.heads); ++head) {
    auto rows = matrix.subspan(head * (keyCount + valueCount));
    std::ranges::copy(rows.first(keyCount), keys.begin() + head * keyCount);
    std::ranges::copy(rows.subspan(keyCount, valueCount),
                      values.begin() + head * valueCount);
  }
}

void octet::absorbBlocks(std::span<const uint8_t> codes,
                         std::span<const float> scale, const LatentHeads &shape,
                         int64_t bn, int64_t bk, std::span<float> keys,
                         std::span<float> values) {
  const int64_t rows = shape.heads * (shape.nope + shape.value);
  std::vector<float> matrix(size_t(rows * shape.rank));
  dequantizeBlocks(codes, scale, rows, shape.rank, bn, bk, matrix);
  splitHeads(matrix, shape, keys, values);
}
