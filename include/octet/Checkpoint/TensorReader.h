//===- TensorReader.h - Rows of any stored tensor ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The seam between how a file stores a tensor and who wants its numbers: packed
// blocks, another order of rows (W16) and the element type end here.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CHECKPOINT_TENSORREADER_H
#define OCTET_CHECKPOINT_TENSORREADER_H

#include "octet/Checkpoint/Checkpoint.h"

namespace octet {

/// Elements of one block of a packing, along K: 32 or 256; 1 for None.
int64_t packedBlockElements(Packing packing);
/// Bytes of one block; 0 for None.
int64_t packedBlockBytes(Packing packing);

/// The float32 values of whole blocks. Exact but for the one rounding of each
/// value to float32: `q * d`, `q * d + m` (FORMATS.md).
/// \param blocks  any alignment.
/// \param out     [blocks * packedBlockElements].
void unpackBlocks(Packing packing, std::span<const std::byte> blocks,
                  std::span<float> out);

/// Reads rows of one tensor: its last side is the row, all others count rows; a
/// scalar is one row of one. Cheap to make; several threads may read.
class TensorReader {
public:
  /// \param tensor  outlives the reader, as do the mapped bytes.
  TensorReader(const MappedCheckpoint &mapped, const TensorInfo &tensor);

  int64_t rows() const { return numRows; }
  int64_t cols() const { return numCols; }

  /// Copies rows [first, first + count) as elements of `tensor.type`.
  /// \param out  [count * cols * byteWidth(type)] bytes.
  void readElements(int64_t first, int64_t count,
                    std::span<std::byte> out) const;

  /// Copies rows [first, first + count) as they are stored, packed or not.
  /// \param out  [count * storedRowBytes()] bytes.
  void readStored(int64_t first, int64_t count, std::span<std::byte> out) const;
  int64_t storedRowBytes() const { return rowBytes; }

  /// There is a float32 for each element: F32, F16, BF16, packed, and F64
  /// (rounded).
  bool isFloat() const;
  /// Rows as float32, which isFloat() must hold for.
  /// \param out  [count * cols].
  void readFloats(int64_t first, int64_t count, std::span<float> out) const;

private:
  std::span<const std::byte> storedRow(int64_t row) const;

  const TensorInfo *tensor;
  std::span<const std::byte> data;
  int64_t numRows = 1, numCols = 1, rowBytes = 0;
};

} // namespace octet

#endif // OCTET_CHECKPOINT_TENSORREADER_H
