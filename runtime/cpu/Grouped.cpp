//===- Grouped.cpp - Codes that share words, into tiles
//-----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A group of a tile is unpacked to a byte a code, [64 rows][columns], and put
// together again in the order of the tile. Each packing is one Reader.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/Grouped.h"
#include "octet/Numerics/Numerics.h"
#include "runtime/cpu/Types.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <vector>

namespace octet::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

template <typename T>
T read(const void *p, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(p) + index * sizeof(T),
              sizeof(T));
  return value;
}

/// Where AWQ's column c of eight stands in its word.
constexpr int kAwqNibble[8] = {0, 4, 1, 5, 2, 6, 3, 7};

//===----------------------------------------------------------------------===//
// Packings
//===----------------------------------------------------------------------===//

/// `code(row, column)` and `zero(row, group)` of one packing and width.
template <int kPacking, int kBits>
struct Reader {
  static constexpr int64_t kPerWord = 32 / kBits;
  static constexpr uint32_t kMask = (1u << kBits) - 1;

  explicit Reader(const GroupedMatrix &m)
      : m(m), groups(m.numGroups()),
        rowBytes(m.groups.code == OCTET_CODE_E2M1
                     ? ceilDiv(m.cols, 2)
                     : ceilDiv(m.cols, kPerWord) * 4) {}

  uint32_t code(int64_t row, int64_t col) const {
    if constexpr (kPacking == OCTET_PACKING_GGUF) {
      const int64_t bytes = m.type == OCTET_Q4_1 ? 20 : 18;
      const auto *block = static_cast<const uint8_t *>(m.codes) +
                          (row * (m.cols / 32) + col / 32) * bytes;
      const uint32_t byte = block[bytes - 16 + col % 16];
      return col % 32 < 16 ? byte & 15 : byte >> 4;
    } else if constexpr (kPacking == OCTET_PACKING_AWQ) {
      const auto word = read<uint32_t>(m.codes, col * (m.rows / 8) + row / 8);
      return word >> (4 * kAwqNibble[row % 8]) & kMask;
    } else if constexpr (kPacking == OCTET_PACKING_K) {
      const auto word = read<uint32_t>(m.codes, col / kPerWord * m.rows + row);
      return word >> (col % kPerWord * kBits) & kMask;
    } else {
      // Little-endian words and bytes are the same.
      const auto *bytes =
          static_cast<const uint8_t *>(m.codes) + row * rowBytes;
      return bytes[col * kBits / 8] >> (col * kBits % 8) & kMask;
    }
  }

  uint32_t zero(int64_t row, int64_t group) const {
    if (!m.zeros)
      return 0;
    int64_t word = 0;
    int64_t place = row % kPerWord;
    if constexpr (kPacking == OCTET_PACKING_ROWS)
      word = row / kPerWord * groups + group;
    else
      word = group * ceilDiv(m.rows, kPerWord) + row / kPerWord;
    if constexpr (kPacking == OCTET_PACKING_AWQ)
      place = kAwqNibble[place];
    const uint32_t stored =
        read<uint32_t>(m.zeros, word) >> (place * kBits) & kMask;
    return stored + (m.groups.offset == OCTET_OFFSET_ZEROS_MINUS_ONE);
  }

  /// Where the scale of a row and group stands in its tensor.
  int64_t scaleIndex(int64_t row, int64_t group) const {
    if constexpr (kPacking == OCTET_PACKING_K || kPacking == OCTET_PACKING_AWQ)
      return group * m.rows + row;
    return row * groups + group;
  }

  const GroupedMatrix &m;
  int64_t groups, rowBytes;
};

/// Calls `function(reader)` with the reader of a weight's packing.
template <typename Function>
auto withReader(const GroupedMatrix &m, Function &&function) {
  const bool wide = m.groups.bits == 8;
  switch (m.groups.packing) {
  case OCTET_PACKING_GGUF:
    return function(Reader<OCTET_PACKING_GGUF, 4>(m));
  case OCTET_PACKING_AWQ:
    return function(Reader<OCTET_PACKING_AWQ, 4>(m));
  case OCTET_PACKING_K:
    return wide ? function(Reader<OCTET_PACKING_K, 8>(m))
                : function(Reader<OCTET_PACKING_K, 4>(m));
  default:
    return wide ? function(Reader<OCTET_PACKING_ROWS, 8>(m))
                : function(Reader<OCTET_PACKING_ROWS, 4>(m));
  }
}

/// Field `field` of a block of GGUF: its scale, or its minimum.
uint16_t fieldBits(const GroupedMatrix &m, int64_t block, int64_t field) {
  return read<uint16_t>(
      static_cast<const char *>(m.codes) + block * blockBytes(m.type), field);
}

float scaleValue(int32_t type, const void *scales, int64_t index) {
  switch (type) {
  case OCTET_F32:
    return read<float>(scales, index);
  case OCTET_BF16:
    return decodeBF16(read<uint16_t>(scales, index));
  case OCTET_F16:
    return decodeF16(read<uint16_t>(scales, index));
  case OCTET_E4M3:
    return decodeE4M3(read<uint8_t>(scales, index));
  default: { // E8M0
    const auto code = read<uint8_t>(scales, index);
    return code == 0xFF ? NAN : std::ldexp(1.0f, int(code) - 127);
  }
  }
}

//===----------------------------------------------------------------------===//
// Order of columns
//===----------------------------------------------------------------------===//

/// The columns group by group, each in its own order.
std::vector<int32_t> sortColumns(const GroupedMatrix &m) {
  std::vector<int64_t> next(static_cast<size_t>(m.numGroups()));
  for (size_t g = 0; g < next.size(); ++g)
    next[g] = int64_t(g) * m.groups.size;
  std::vector<int32_t> columns(static_cast<size_t>(m.cols));
  for (int64_t k = 0; k < m.cols; ++k)
    columns[next[m.order[k]]++] = static_cast<int32_t>(k);
  return columns;
}

BadGroup checkOrder(const GroupedMatrix &m) {
  const int64_t groups = m.numGroups();
  std::vector<int64_t> counts(static_cast<size_t>(groups));
  for (int64_t k = 0; k < m.cols; ++k) {
    if (m.order[k] < 0 || m.order[k] >= groups)
      return {BadGroup::Order, k,
              std::to_string(m.order[k]) + "; expected a group from 0 to " +
                  std::to_string(groups - 1),
              "W1"};
    const int64_t g = m.order[k];
    const int64_t size = std::min(m.groups.size, m.cols - g * m.groups.size);
    if (++counts[g] > size)
      return {BadGroup::Order, k,
              std::to_string(g) + ", which " + std::to_string(size) +
                  " columns before it have; a group has " +
                  std::to_string(size),
              "W1"};
  }
  return {};
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

constexpr const char *kGood = nullptr;

/// Why a scale of a row and group cannot be, or null.
template <typename R>
const char *judge(const R &reader, const std::vector<int32_t> &columns,
                  int64_t row, int64_t group) {
  const GroupedMatrix &m = reader.m;
  const float value =
      scaleValue(m.groups.scale_type, m.scales, reader.scaleIndex(row, group));
  if (std::isnan(value))
    return "NaN";
  if (std::signbit(value) && value != 0)
    return "negative";
  if (std::isinf(value))
    return "infinite";
  if (value != 0)
    return kGood;
  const uint32_t zero = m.zeros ? reader.zero(row, group)
                        : m.groups.code == OCTET_CODE_BIASED
                            ? 1u << (m.groups.bits - 1)
                            : 0;
  const int64_t begin = group * m.groups.size;
  const int64_t end = std::min(begin + m.groups.size, m.cols);
  for (int64_t k = begin; k < end; ++k) {
    const uint32_t code = reader.code(row, columns.empty() ? k : columns[k]);
    const bool isZero =
        m.groups.code == OCTET_CODE_E2M1 ? (code & 7) == 0 : code == zero;
    if (!isZero)
      return "zero with a non-zero group";
  }
  return kGood;
}

/// The smallest i of [0, count) that `isBad` says so of, or count.
template <typename Predicate>
int64_t findFirst(ThreadPool &pool, int64_t count, int64_t grain,
                  Predicate &&isBad) {
  std::atomic<int64_t> first{count};
  pool.parallelFor(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i >= first.load(std::memory_order_relaxed))
        return;
      if (!isBad(i))
        continue;
      int64_t known = first.load(std::memory_order_relaxed);
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
      return;
    }
  });
  return first.load();
}

BadGroup checkBlocks(ThreadPool &pool, const GroupedMatrix &m) {
  const int64_t fields = blockFields(m.type);
  const int64_t count = m.rows * m.numGroups() * fields;
  auto value = [&](int64_t i) {
    return decodeF16(fieldBits(m, i / fields, i % fields));
  };
  const int64_t bad = findFirst(pool, count, 1 << 14, [&](int64_t i) {
    return !std::isfinite(value(i));
  });
  if (bad == count)
    return {};
  return {BadGroup::Blocks, bad, std::isnan(value(bad)) ? "NaN" : "infinite"};
}

template <typename R>
BadGroup checkScalesOf(ThreadPool &pool, const R &reader,
                       const std::vector<int32_t> &columns) {
  const GroupedMatrix &m = reader.m;
  const int64_t groups = m.numGroups(), count = m.rows * groups;
  const int64_t bad = findFirst(pool, count, 1 << 14, [&](int64_t i) {
    return judge(reader, columns, i / groups, i % groups) != kGood;
  });
  if (bad < count)
    return {BadGroup::Scales, reader.scaleIndex(bad / groups, bad % groups),
            std::string(judge(reader, columns, bad / groups, bad % groups)) +
                "; a scale is finite and positive"};
  // A zero point has the room of a code in tiles.
  if (m.groups.bits != 8 || m.groups.offset != OCTET_OFFSET_ZEROS_MINUS_ONE)
    return {};
  const int64_t large = findFirst(pool, count, 1 << 14, [&](int64_t i) {
    return reader.zero(i / groups, i % groups) > 255;
  });
  if (large == count)
    return {};
  return {BadGroup::Zeros,
          large % groups * ceilDiv(m.rows, 4) + large / groups / 4,
          "a zero point of 256 for row " + std::to_string(large / groups) +
              ", stored as 255; codes of 8 bits have 0 to 255",
          "W1"};
}

} // namespace

BadGroup checkGroups(ThreadPool &pool, const GroupedMatrix &m) {
  if (m.groups.packing == OCTET_PACKING_GGUF)
    return checkBlocks(pool, m);
  if (m.global && !(*m.global > 0 && std::isfinite(*m.global)))
    return {BadGroup::Global, 0,
            std::to_string(*m.global) + "; a scale is finite and positive"};
  std::vector<int32_t> columns;
  if (m.order) {
    if (BadGroup bad = checkOrder(m))
      return bad;
    columns = sortColumns(m);
  }
  return withReader(
      m, [&](auto reader) { return checkScalesOf(pool, reader, columns); });
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

TileLayout tileLayoutOf(const octet_groups &groups, int64_t cols) {
  TileLayout layout;
  layout.cols = cols;
  layout.group = groups.size;
  layout.planes = groups.bits / 4;
  switch (groups.scale_type) {
  case OCTET_F32:
  case OCTET_BF16: // widened
    layout.scaleBytes = 4;
    break;
  case OCTET_F16:
    layout.scaleBytes = 2;
    break;
  default:
    layout.scaleBytes = 1;
    break;
  }
  switch (groups.offset) {
  case OCTET_OFFSET_NONE:
    break;
  case OCTET_OFFSET_MINIMUMS:
    layout.offsetBytes = 2;
    break;
  default:
    layout.offsetBytes = 1;
    break;
  }
  return layout;
}

int64_t tiledBytes(const GroupedMatrix &m) {
  return tileLayoutOf(m.groups, m.cols).bytes(m.rows) +
         (m.order ? m.cols * int64_t(sizeof(int32_t)) : 0);
}

float globalFactor(const GroupedMatrix &m) {
  if (!m.global)
    return 1;
  return m.groups.global == OCTET_GLOBAL_DIVIDES ? 1.0f / *m.global : *m.global;
}

/// The low nibbles of eight bytes in the order of a word.
static uint32_t packWord(uint64_t bytes) {
  // Even columns in the low half: 0 2 4 6 of 16-bit lanes, then the odd ones.
  auto half = [](uint64_t x) {
    x &= 0x000F000F000F000Full;
    x |= x >> 12;
    return static_cast<uint32_t>((x & 0xFF) | (x >> 24 & 0xFF00));
  };
  return half(bytes) | half(bytes >> 8) << 16;
}

/// Scales and offsets of a group of a tile.
template <typename R>
static void tileHeader(const R &reader, const TileLayout &layout, int64_t row0,
                       int64_t rows, int64_t group, uint8_t *out) {
  const GroupedMatrix &m = reader.m;
  const bool inBlocks = m.groups.packing == OCTET_PACKING_GGUF;
  uint8_t *offsets = out + TileLayout::kRows * layout.scaleBytes;
  std::memset(out, 0, static_cast<size_t>(layout.headerBytes()));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = row0 + r;
    if (inBlocks) {
      for (int64_t f = 0; f < blockFields(m.type); ++f) {
        const uint16_t bits = fieldBits(m, row * reader.groups + group, f);
        std::memcpy((f ? offsets : out) + 2 * r, &bits, 2);
      }
      continue;
    }
    const int64_t index = reader.scaleIndex(row, group);
    if (m.groups.scale_type == OCTET_BF16) {
      const float scale = scaleValue(OCTET_BF16, m.scales, index);
      std::memcpy(out + 4 * r, &scale, 4);
    } else {
      std::memcpy(out + layout.scaleBytes * r,
                  static_cast<const char *>(m.scales) +
                      layout.scaleBytes * index,
                  static_cast<size_t>(layout.scaleBytes));
    }
    if (layout.offsetBytes)
      offsets[r] = static_cast<uint8_t>(reader.zero(row, group));
  }
}

/// The codes of a group of a tile, a byte each: [64][stride].
template <typename R>
static void unpackGroup(const R &reader, const int32_t *columns, int64_t row0,
                        int64_t rows, int64_t begin, int64_t count,
                        uint8_t *codes, int64_t stride) {
  std::memset(codes, 0, static_cast<size_t>(TileLayout::kRows * stride));
  const int32_t packing = reader.m.groups.packing;
  if (packing == OCTET_PACKING_K || packing == OCTET_PACKING_AWQ) {
    for (int64_t i = 0; i < count; ++i) {
      const int64_t column = columns ? columns[begin + i] : begin + i;
      for (int64_t r = 0; r < rows; ++r)
        codes[r * stride + i] =
            static_cast<uint8_t>(reader.code(row0 + r, column));
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < count; ++i)
      codes[r * stride + i] = static_cast<uint8_t>(
          reader.code(row0 + r, columns ? columns[begin + i] : begin + i));
}

template <typename R>
static void tileOne(const R &reader, const TileLayout &layout,
                    const int32_t *columns, int64_t tile, uint8_t *out,
                    std::vector<uint8_t> &codes) {
  const GroupedMatrix &m = reader.m;
  const int64_t row0 = tile * TileLayout::kRows;
  const int64_t rows = std::min(TileLayout::kRows, m.rows - row0);
  for (int64_t g = 0; g < layout.groups(); ++g) {
    uint8_t *group = out + layout.groupBegin(g);
    tileHeader(reader, layout, row0, rows, g, group);
    const int64_t vectors = layout.vectors(g);
    const int64_t stride = vectors * TileLayout::kColumns;
    codes.resize(static_cast<size_t>(TileLayout::kRows * stride));
    unpackGroup(reader, columns, row0, rows, g * layout.group, layout.length(g),
                codes.data(), stride);
    uint8_t *words = group + layout.headerBytes();
    for (int64_t v = 0; v < vectors; ++v)
      for (int64_t p = 0; p < layout.planes; ++p)
        for (int64_t r = 0; r < TileLayout::kRows; ++r, words += 4) {
          uint64_t bytes;
          std::memcpy(&bytes,
                      codes.data() + r * stride + v * TileLayout::kColumns, 8);
          // The high nibbles of codes of 8 bits come first.
          if (p + 2 == layout.planes)
            bytes >>= 4;
          const uint32_t word = packWord(bytes);
          std::memcpy(words, &word, 4);
        }
  }
}

void tileWeight(ThreadPool &pool, const GroupedMatrix &m, void *out) {
  const TileLayout layout = tileLayoutOf(m.groups, m.cols);
  auto *tiles = static_cast<uint8_t *>(out);
  std::vector<int32_t> columns;
  if (m.order) {
    columns = sortColumns(m);
    std::memcpy(tiles + layout.bytes(m.rows), columns.data(),
                columns.size() * sizeof(int32_t));
  }
  withReader(m, [&](auto reader) {
    pool.parallelFor(
        TileLayout::tiles(m.rows), 1, [&](int64_t begin, int64_t end) {
          std::vector<uint8_t> codes;
          for (int64_t t = begin; t < end; ++t)
            tileOne(reader, layout, columns.empty() ? nullptr : columns.data(),
                    t, tiles + t * layout.tileBytes(), codes);
        });
    return 0;
  });
}

} // namespace octet::rt
