//===- TileLayout.h - Weights in tiles of 64 rows ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one order of 4- and 8-bit weights that products read (OCTET_TILES). A
// tile is 64 rows of W and all of K, one stream of memory:
//
//   tile      its groups along K, one after the other
//   group     64 scales, 64 offsets (if there are any), then its vectors, a
//             group's last one filled up with codes that x multiplies by 0
//   vector    8 columns of 64 rows: for each plane four times 64 bytes, of rows
//             0-15, 16-31, …; row r is the 32-bit word r of them
//   word      8 nibbles: columns 0 2 4 6 from the lowest bit, then 1 3 5 7, so
//             that a shift by 4 j leaves the pair 2 j, 2 j + 1 in the low
//             nibbles of two 16-bit halves
//   plane     codes of 8 bits have two: the high nibbles, then the low ones
//
// Rows behind the last of a part have codes and scales of 0. Every group begins
// at a multiple of 64 bytes. Where columns are sorted by group (act-order) the
// column of each sorted one follows the tiles, K values of 32 bits.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_TILELAYOUT_H
#define OCTET_RUNTIME_CPU_TILELAYOUT_H

#include <cstdint>

namespace octet::rt {

struct TileLayout {
  static constexpr int64_t kRows = 64;   ///< of a tile
  static constexpr int64_t kColumns = 8; ///< of a vector
  static constexpr int64_t kBytes = 256; ///< of a vector and plane

  int64_t cols = 0;
  int64_t group = 0;       ///< elements along K with one scale, 1..cols
  int64_t planes = 1;      ///< 1 for codes of 4 bits, 2 of 8
  int64_t scaleBytes = 2;  ///< of one scale
  int64_t offsetBytes = 0; ///< of one minimum or zero point

  constexpr int64_t groups() const { return (cols + group - 1) / group; }
  /// Columns of group g; the last may be short.
  constexpr int64_t length(int64_t g) const {
    return g + 1 < groups() ? group : cols - g * group;
  }
  constexpr int64_t vectors(int64_t g) const {
    return (length(g) + kColumns - 1) / kColumns;
  }
  constexpr int64_t headerBytes() const {
    return kRows * (scaleBytes + offsetBytes);
  }
  constexpr int64_t groupBytes(int64_t g) const {
    return headerBytes() + vectors(g) * planes * kBytes;
  }
  /// Where group g begins in its tile.
  constexpr int64_t groupBegin(int64_t g) const { return g * groupBytes(0); }
  constexpr int64_t tileBytes() const {
    return groupBegin(groups() - 1) + groupBytes(groups() - 1);
  }
  /// Where the columns of group g begin in a row of x that has room for whole
  /// vectors, and the size of such a row.
  constexpr int64_t columnBegin(int64_t g) const {
    return g * vectors(0) * kColumns;
  }
  constexpr int64_t paddedColumns() const {
    return columnBegin(groups() - 1) + vectors(groups() - 1) * kColumns;
  }
  static constexpr int64_t tiles(int64_t rows) {
    return (rows + kRows - 1) / kRows;
  }
  /// All tiles of a part of `rows` rows.
  constexpr int64_t bytes(int64_t rows) const {
    return tiles(rows) * tileBytes();
  }
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_TILELAYOUT_H
