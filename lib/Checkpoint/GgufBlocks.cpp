//===- GgufBlocks.cpp - Packed blocks to float32 --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The blocks, lowest byte first, f16 is IEEE binary16 (FORMATS.md):
//
//   Q4_0   d f16, 16 bytes                      w = d (q - 8)
//   Q4_1   d f16, m f16, 16 bytes               w = d q + m
//   Q5_0   d f16, 4 bytes of fifth bits, 16     w = d (q - 16)
//   Q5_1   d f16, m f16, 4, 16                  w = d q + m
//   Q8_0   d f16, 32 x i8                       w = d q
//   Q4_K   d f16, m f16, 12 bytes, 128          w = (d s) q - (m t)
//   Q6_K   128 bytes, 64, 16 x i8 s, d f16      w = (d s) (q - 32)
//
// In blocks of 32 byte i holds element i in its low and element i + 16 in its
// high nibble; bit i of the fifth bits is that of element i. A product of a
// scale and a code has at most 24 bits, so each value is rounded once however a
// compiler joins the operations (Q6_K: 25 bits, and no sum follows).
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include <cassert>

using namespace octet;

namespace {

constexpr int kBlock = 32, kSuperBlock = 256;

float readF16(const uint8_t *at) {
  return decodeF16(static_cast<uint16_t>(at[0] | at[1] << 8));
}

/// Low nibbles are elements 0-15, high ones 16-31, plus a fifth bit each.
template <bool kFifth>
void unpackNibbles(const uint8_t *qs, const uint8_t *high, int (&codes)[32]) {
  uint32_t bits = kFifth ? uint32_t(high[0]) | uint32_t(high[1]) << 8 |
                               uint32_t(high[2]) << 16 | uint32_t(high[3]) << 24
                         : 0;
  for (int i = 0; i < 16; ++i) {
    codes[i] = (qs[i] & 15) | (bits >> i & 1) << 4;
    codes[i + 16] = (qs[i] >> 4) | (bits >> (i + 16) & 1) << 4;
  }
}

void unpackQ4_0(const uint8_t *at, float *out) {
  int codes[32];
  unpackNibbles<false>(at + 2, nullptr, codes);
  float d = readF16(at);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * float(codes[i] - 8);
}

void unpackQ4_1(const uint8_t *at, float *out) {
  int codes[32];
  unpackNibbles<false>(at + 4, nullptr, codes);
  float d = readF16(at), m = readF16(at + 2);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * float(codes[i]) + m;
}

void unpackQ5_0(const uint8_t *at, float *out) {
  int codes[32];
  unpackNibbles<true>(at + 6, at + 2, codes);
  float d = readF16(at);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * float(codes[i] - 16);
}

void unpackQ5_1(const uint8_t *at, float *out) {
  int codes[32];
  unpackNibbles<true>(at + 8, at + 4, codes);
  float d = readF16(at), m = readF16(at + 2);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * float(codes[i]) + m;
}

void unpackQ8_0(const uint8_t *at, float *out) {
  float d = readF16(at);
  for (int i = 0; i < kBlock; ++i)
    out[i] = d * float(static_cast<int8_t>(at[2 + i]));
}

/// Eight scales and eight minima of 6 bits in 12 bytes: the first four of each
/// have their own bytes, the others a nibble and the two bits left over there.
void unpackQ4_K(const uint8_t *at, float *out) {
  float d = readF16(at), m = readF16(at + 2);
  const uint8_t *packed = at + 4, *qs = at + 16;
  for (int j = 0; j < 8; ++j) {
    int scale, minimum;
    if (j < 4) {
      scale = packed[j] & 63;
      minimum = packed[j + 4] & 63;
    } else {
      scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
      minimum = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
    }
    // 64 elements share 32 bytes: the low nibbles come first.
    const uint8_t *bytes = qs + j / 2 * 32;
    float step = d * float(scale), offset = m * float(minimum);
    for (int i = 0; i < 32; ++i) {
      int code = j % 2 ? bytes[i] >> 4 : bytes[i] & 15;
      out[j * 32 + i] = step * float(code) - offset;
    }
  }
}

/// Halves of 128 elements: 64 bytes of low nibbles, 32 of two more bits each
/// for the four runs of 32, a scale for 16 elements.
void unpackQ6_K(const uint8_t *at, float *out) {
  float d = readF16(at + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t *low = at + half * 64, *high = at + 128 + half * 32;
    const uint8_t *scales = at + 192 + half * 8;
    for (int run = 0; run < 4; ++run)
      for (int i = 0; i < 32; ++i) {
        int byte = low[i + run % 2 * 32];
        int code =
            (run < 2 ? byte & 15 : byte >> 4) | (high[i] >> (2 * run) & 3) << 4;
        int scale = static_cast<int8_t>(scales[run * 2 + i / 16]);
        out[half * 128 + run * 32 + i] = d * float(scale) * float(code - 32);
      }
  }
}

struct PackingRow {
  int64_t elements, bytes;
  void (*unpack)(const uint8_t *at, float *out);
};

/// In the order of Packing.
constexpr PackingRow kPackings[] = {
    {1, 0, nullptr},
    {kBlock, 18, unpackQ4_0},
    {kBlock, 20, unpackQ4_1},
    {kBlock, 22, unpackQ5_0},
    {kBlock, 24, unpackQ5_1},
    {kBlock, 34, unpackQ8_0},
    {kSuperBlock, 144, unpackQ4_K},
    {kSuperBlock, 210, unpackQ6_K},
};
static_assert(size_t(Packing::Q6_K) + 1 == std::size(kPackings),
              "kPackings has one row for each Packing");

} // namespace

std::optional<Packing> octet::parsePacking(std::string_view name) {
  for (size_t i = 1; i < std::size(kPackings); ++i)
    if (packingName(Packing(i)) == name)
      return Packing(i);
  return std::nullopt;
}

bool octet::staysPacked(Packing packing) {
  return packing == Packing::Q8_0 || packing == Packing::Q4_0 ||
         packing == Packing::Q4_1;
}

int64_t octet::packedBlockElements(Packing packing) {
  return kPackings[size_t(packing)].elements;
}

int64_t octet::packedBlockBytes(Packing packing) {
  return kPackings[size_t(packing)].bytes;
}

void octet::unpackBlocks(Packing packing, std::span<const std::byte> blocks,
                         std::span<float> out) {
  const PackingRow &row = kPackings[size_t(packing)];
  assert(row.unpack && blocks.size() % size_t(row.bytes) == 0 &&
         "not whole blocks");
  const auto *at = reinterpret_cast<const uint8_t *>(blocks.data());
  size_t count = blocks.size() / size_t(row.bytes);
  assert(out.size() >= count * size_t(row.elements) && "out is too short");
  for (size_t i = 0; i < count; ++i)
    row.unpack(at + i * size_t(row.bytes),
               out.data() + i * size_t(row.elements));
}
