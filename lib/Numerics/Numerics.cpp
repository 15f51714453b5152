//===- Numerics.cpp - The reference arithmetic ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every conversion works on the bits of the float with integers, so that no
// rounding mode, flush-to-zero setting or library can change a result.
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Numerics.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

namespace octet {
namespace {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kInfBits = 0x7F800000u;

/// value * 2^-shift rounded to the nearest integer, ties to even.
uint32_t shiftRightEven(uint32_t value, unsigned shift) {
  if (shift == 0)
    return value;
  if (shift > 31)
    return 0;
  const uint32_t half = 1u << (shift - 1);
  const uint32_t rest = value & ((1u << shift) - 1);
  const uint32_t quotient = value >> shift;
  if (rest > half || (rest == half && (quotient & 1)))
    return quotient + 1;
  return quotient;
}

/// The bits, without sign, of a finite float's magnitude in a format of
/// `mantissa` bits whose exponent bias is `bias`: round to nearest even,
/// subnormals included. What exceeds the format comes out as if its exponent
/// field were wide enough; the caller clamps.
uint32_t narrow(uint32_t magnitude, unsigned mantissa, int bias) {
  const int exponent = static_cast<int>(magnitude >> 23) - 127 + bias;
  const unsigned drop = 23 - mantissa;
  if (exponent >= 1) {
    // A carry out of the mantissa is the right exponent by itself.
    const uint32_t rebased =
        (static_cast<uint32_t>(exponent) << 23) | (magnitude & 0x7FFFFFu);
    return shiftRightEven(rebased, drop);
  }
  // Subnormal in the target: align to its fixed exponent. A subnormal float is
  // far below half of the smallest value of either format that comes here.
  if ((magnitude >> 23) == 0)
    return 0;
  const uint32_t full = (magnitude & 0x7FFFFFu) | 0x800000u;
  return shiftRightEven(full, drop + static_cast<unsigned>(1 - exponent));
}

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The largest magnitude so far. A NaN does not win: it stays a NaN of its own
/// (N2) and leaves the scale to its neighbours.
float widenAmax(float amax, float x) { return std::fmax(amax, std::fabs(x)); }

} // namespace

float decodeE4M3(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t exponent = (code >> 3) & 0xF;
  const uint32_t mantissa = code & 0x7;
  if (exponent == 0xF && mantissa == 0x7)
    return std::bit_cast<float>(sign | 0x7FC00000u);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-9f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) |
                              (mantissa << 20));
}

uint8_t encodeE4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80);
  const uint32_t magnitude = bits & ~kSignBit;
  if (magnitude > kInfBits)
    return sign | 0x7F;
  if (magnitude >= std::bit_cast<uint32_t>(kE4M3Max))
    return sign | 0x7E;
  return sign | static_cast<uint8_t>(narrow(magnitude, 3, 7));
}

uint16_t encodeBF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & ~kSignBit) > kInfBits)
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>(shiftRightEven(bits & ~kSignBit, 16) |
                               (bits >> 16 & 0x8000));
}

float decodeBF16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t encodeF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & ~kSignBit;
  if (magnitude > kInfBits)
    return sign | 0x7E00 | static_cast<uint16_t>((magnitude >> 13) & 0x3FF);
  // 65520 is half-way between the largest finite value and the next power.
  if (magnitude >= std::bit_cast<uint32_t>(65520.0f))
    return sign | 0x7C00;
  return sign | static_cast<uint16_t>(narrow(magnitude, 10, 15));
}

float decodeF16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F;
  const uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0x1F)
    return std::bit_cast<float>(sign | kInfBits | (mantissa << 13) |
                                (mantissa ? 0x400000u : 0u));
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) |
                              (mantissa << 13));
}

float dynamicScale(float amax) { return std::fmax(amax, kMinAmax) / kE4M3Max; }

uint8_t encodeUE8M0Scale(float amax) {
  const uint32_t bits = std::bit_cast<uint32_t>(dynamicScale(amax));
  // Positive and normal by the floor of N3; infinity ends as 0xFF, a NaN.
  const uint32_t exponent = bits >> 23;
  return static_cast<uint8_t>(exponent + ((bits & 0x7FFFFFu) ? 1 : 0));
}

float decodeUE8M0(uint8_t code) {
  if (code == 0xFF)
    return std::bit_cast<float>(0x7FC00000u);
  if (code == 0)
    return 0x1p-127f;
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

void quantizeRows(std::span<const float> x, int64_t m, int64_t k, int64_t group,
                  bool ue8m0, std::span<uint8_t> q, std::span<float> scale) {
  if (m == 0 || k == 0)
    return;
  const int64_t groups = ceilDiv(k, group);
  assert(static_cast<int64_t>(x.size()) >= m * k && "x is too short");
  assert(static_cast<int64_t>(q.size()) >= m * k && "q is too short");
  assert(static_cast<int64_t>(scale.size()) >= m * groups &&
         "scale is too short");
  for (int64_t row = 0; row < m; ++row) {
    for (int64_t g = 0; g < groups; ++g) {
      const int64_t begin = row * k + g * group;
      const int64_t end = row * k + std::min(k, (g + 1) * group); // W4
      float amax = 0;
      for (int64_t i = begin; i < end; ++i)
        amax = widenAmax(amax, x[i]);
      const float s =
          ue8m0 ? decodeUE8M0(encodeUE8M0Scale(amax)) : dynamicScale(amax);
      scale[row * groups + g] = s;
      for (int64_t i = begin; i < end; ++i)
        q[i] = quantizeE4M3(x[i], s);
    }
  }
}

void quantizeBlocks(std::span<const float> w, int64_t n, int64_t k, int64_t bn,
                    int64_t bk, std::span<uint8_t> q, std::span<float> scale) {
  if (n == 0 || k == 0)
    return;
  const int64_t columns = ceilDiv(k, bk);
  assert(static_cast<int64_t>(w.size()) >= n * k && "w is too short");
  assert(static_cast<int64_t>(q.size()) >= n * k && "q is too short");
  assert(static_cast<int64_t>(scale.size()) >= ceilDiv(n, bn) * columns &&
         "scale is too short");
  for (int64_t rb = 0; rb < ceilDiv(n, bn); ++rb) {
    for (int64_t cb = 0; cb < columns; ++cb) {
      const int64_t rowEnd = std::min(n, (rb + 1) * bn); // W4
      const int64_t colEnd = std::min(k, (cb + 1) * bk);
      float amax = 0;
      for (int64_t r = rb * bn; r < rowEnd; ++r)
        for (int64_t c = cb * bk; c < colEnd; ++c)
          amax = widenAmax(amax, w[r * k + c]);
      const float s = dynamicScale(amax);
      scale[rb * columns + cb] = s;
      for (int64_t r = rb * bn; r < rowEnd; ++r)
        for (int64_t c = cb * bk; c < colEnd; ++c)
          q[r * k + c] = quantizeE4M3(w[r * k + c], s);
    }
  }
}

void dequantizeBlocks(std::span<const uint8_t> q, std::span<const float> scale,
                      int64_t n, int64_t k, int64_t bn, int64_t bk,
                      std::span<float> w) {
  if (n == 0 || k == 0)
    return;
  const int64_t columns = ceilDiv(k, bk);
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < k; ++c)
      w[r * k + c] =
          decodeE4M3(q[r * k + c]) * scale[(r / bn) * columns + c / bk];
}

} // namespace octet
