//===- TensorReader.cpp - Rows of any stored tensor -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include <cassert>
#include <cstring>

using namespace octet;

TensorReader::TensorReader(const MappedCheckpoint &mapped,
                           const TensorInfo &tensor)
    : tensor(&tensor), data(mapped.bytes(tensor)) {
  // Header readers checked that the product fits.
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    (i + 1 == tensor.shape.size() ? numCols : numRows) *= tensor.shape[i];
  // A permuted vector (a bias, W16) has a row for each element.
  if (tensor.headRows && tensor.shape.size() == 1)
    std::swap(numRows, numCols);
  rowBytes = numRows ? tensor.bytes / numRows : 0;
}

std::span<const std::byte> TensorReader::storedRow(int64_t row) const {
  if (int64_t head = tensor->headRows) {
    // W16: the file pairs row i of a head's first half with row i of its
    // second.
    int64_t within = row % head, half = within / (head / 2);
    row += 2 * (within % (head / 2)) + half - within;
  }
  return data.subspan(size_t(row * rowBytes), size_t(rowBytes));
}

void TensorReader::readElements(int64_t first, int64_t count,
                                std::span<std::byte> out) const {
  assert(first >= 0 && count >= 0 && first + count <= numRows && "no such row");
  if (tensor->packing != Packing::None) {
    assert(tensor->type == StoredType::F32 && "packed elements are F32");
    assert(reinterpret_cast<uintptr_t>(out.data()) % alignof(float) == 0);
    readFloats(
        first, count,
        {reinterpret_cast<float *>(out.data()), size_t(count * numCols)});
    return;
  }
  readStored(first, count, out);
}

void TensorReader::readStored(int64_t first, int64_t count,
                              std::span<std::byte> out) const {
  assert(first >= 0 && count >= 0 && first + count <= numRows && "no such row");
  assert(out.size() >= size_t(count * rowBytes) && "out is too short");
  if (!tensor->headRows) {
    std::memcpy(out.data(), data.data() + first * rowBytes,
                size_t(count * rowBytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::span<const std::byte> row = storedRow(first + i);
    std::memcpy(out.data() + i * rowBytes, row.data(), row.size());
  }
}

bool TensorReader::isFloat() const {
  switch (tensor->type) {
  case StoredType::F16:
  case StoredType::BF16:
  case StoredType::F32:
  case StoredType::F64:
    return true;
  default:
    return false;
  }
}

/// Elements may lie at any address: a header can have any length.
template <typename T, typename Decode>
static void widen(std::span<const std::byte> row, float *out, Decode decode) {
  for (size_t i = 0; i < row.size() / sizeof(T); ++i) {
    T value;
    std::memcpy(&value, row.data() + i * sizeof(T), sizeof(T));
    out[i] = decode(value);
  }
}

void TensorReader::readFloats(int64_t first, int64_t count,
                              std::span<float> out) const {
  assert(first >= 0 && count >= 0 && first + count <= numRows && "no such row");
  assert(out.size() >= size_t(count * numCols) && "out is too short");
  for (int64_t i = 0; i < count; ++i) {
    std::span<const std::byte> row = storedRow(first + i);
    float *to = out.data() + i * numCols;
    if (tensor->packing != Packing::None) {
      unpackBlocks(tensor->packing, row, {to, size_t(numCols)});
      continue;
    }
    switch (tensor->type) {
    case StoredType::F16:
      widen<uint16_t>(row, to, decodeF16);
      break;
    case StoredType::BF16:
      widen<uint16_t>(row, to, decodeBF16);
      break;
    case StoredType::F32:
      std::memcpy(to, row.data(), row.size());
      break;
    case StoredType::F64:
      widen<double>(row, to, [](double value) { return float(value); });
      break;
    default:
      assert(false && "not a float");
    }
  }
}
