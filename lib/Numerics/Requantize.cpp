//===- Requantize.cpp - Rewrites of quantised weights ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Requantize.h"
#include "octet/Numerics/Numerics.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

namespace octet {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Bits of a format's exponent and mantissa, and what its codes are without a
/// value.
struct Format {
  int mantissa, bias;
  bool isFnuz;
};

Format describe(Float8 format) {
  switch (format) {
  case Float8::E4M3FN:
    return {3, 7, false};
  case Float8::E4M3FNUZ:
    return {3, 8, true};
  case Float8::E5M2:
    return {2, 15, false};
  case Float8::E5M2FNUZ:
    return {2, 16, true};
  }
  return {};
}

/// Calls fn(block, first row, last row, first column, last column).
template <typename Fn>
void forBlocks(const BlockShape &s, Fn fn) {
  const int64_t columns = ceilDiv(s.k, s.bk);
  for (int64_t r = 0; r < ceilDiv(s.n, s.bn); ++r)
    for (int64_t c = 0; c < columns; ++c)
      fn(r * columns + c, r * s.bn, std::min(s.n, (r + 1) * s.bn), c * s.bk,
         std::min(s.k, (c + 1) * s.bk));
}

} // namespace

float decodeFloat8(Float8 format, uint8_t code) {
  const Format f = describe(format);
  if (f.isFnuz && code == 0x80)
    return std::numeric_limits<float>::quiet_NaN();
  const float sign = code & 0x80 ? -1.0f : 1.0f;
  const int magnitude = code & 0x7F;
  const int exponent = magnitude >> f.mantissa;
  const int mantissa = magnitude & ((1 << f.mantissa) - 1);
  if (format == Float8::E4M3FN && magnitude == 0x7F)
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), sign);
  if (format == Float8::E5M2 && exponent == 31)
    return mantissa
               ? std::copysign(std::numeric_limits<float>::quiet_NaN(), sign)
               : sign * std::numeric_limits<float>::infinity();
  const int full = exponent ? mantissa | 1 << f.mantissa : mantissa;
  return sign * std::ldexp(static_cast<float>(full),
                           std::max(exponent, 1) - f.bias - f.mantissa);
}

const std::array<float, 256> &getFloat8Values(Float8 format) {
  static const auto tables = [] {
    std::array<std::array<float, 256>, 4> all;
    for (Float8 each :
         {Float8::E4M3FN, Float8::E4M3FNUZ, Float8::E5M2, Float8::E5M2FNUZ})
      for (int code = 0; code < 256; ++code)
        all[static_cast<int>(each)][code] =
            decodeFloat8(each, static_cast<uint8_t>(code));
    return all;
  }();
  return tables[static_cast<int>(format)];
}

int64_t findBadCode(std::span<const uint8_t> codes, Float8 from) {
  const std::array<float, 256> &values = getFloat8Values(from);
  for (size_t i = 0; i < codes.size(); ++i)
    if (!std::isfinite(values[codes[i]]))
      return static_cast<int64_t>(i);
  return -1;
}

void convertFloat8(std::span<const uint8_t> codes, std::span<const float> scale,
                   const BlockShape &shape, Float8 from, Float8 to,
                   std::span<uint8_t> outCodes, std::span<float> outScale) {
  assert((to == Float8::E4M3FN || from == Float8::E4M3FN) &&
         "one side is the format of compute");
  const std::array<float, 256> &values = getFloat8Values(from);
  forBlocks(shape, [&](int64_t block, int64_t row, int64_t rowEnd, int64_t col,
                       int64_t colEnd) {
    auto forAll = [&](auto fn) {
      for (int64_t r = row; r < rowEnd; ++r)
        for (int64_t c = col; c < colEnd; ++c)
          fn(r * shape.k + c);
    };
    if (to == Float8::E4M3FNUZ) {
      outScale[block] = scale[block] * 2;
      forAll([&](int64_t i) { outCodes[i] = toFnuzCode(codes[i]); });
      return;
    }
    bool keeps = from == Float8::E4M3FNUZ;
    forAll([&](int64_t i) { keeps &= (codes[i] & 0x7F) != 0x7F; });
    if (keeps) {
      outScale[block] = scale[block] / 2;
      forAll([&](int64_t i) { outCodes[i] = codes[i]; });
      return;
    }
    float amax = 0;
    forAll([&](int64_t i) {
      amax = std::fmax(amax, std::fabs(values[codes[i]] * scale[block]));
    });
    outScale[block] = dynamicScale(amax);
    forAll([&](int64_t i) {
      outCodes[i] =
          quantizeE4M3(values[codes[i]] * scale[block], outScale[block]);
    });
  });
}

void requantizeTensor(std::span<const uint8_t> codes, float scale,
                      float largest, std::span<uint8_t> out) {
  for (size_t i = 0; i < codes.size(); ++i)
    out[i] = quantizeE4M3(decodeE4M3(codes[i]) * scale, largest);
}

bool isPowerOfTwo(float scale) {
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  return scale > 0 && std::isfinite(scale) && (bits & 0x7FFFFFu) == 0;
}

void requantizeToExponents(std::span<const uint8_t> codes,
                           std::span<const float> scale,
                           const BlockShape &shape, std::span<uint8_t> outCodes,
                           std::span<uint8_t> outScale) {
  forBlocks(shape, [&](int64_t block, int64_t row, int64_t rowEnd, int64_t col,
                       int64_t colEnd) {
    const bool keeps = isPowerOfTwo(scale[block]);
    float amax = 0;
    for (int64_t r = row; r < rowEnd && !keeps; ++r)
      for (int64_t c = col; c < colEnd; ++c)
        amax = std::fmax(
            amax, std::fabs(decodeE4M3(codes[r * shape.k + c]) * scale[block]));
    outScale[block] =
        keeps
            ? static_cast<uint8_t>(std::bit_cast<uint32_t>(scale[block]) >> 23)
            : encodeUE8M0Scale(amax);
    const float s = decodeUE8M0(outScale[block]);
    for (int64_t r = row; r < rowEnd; ++r)
      for (int64_t c = col; c < colEnd; ++c) {
        const uint8_t code = codes[r * shape.k + c];
        outCodes[r * shape.k + c] =
            keeps ? code : quantizeE4M3(decodeE4M3(code) * scale[block], s);
      }
  });
}

float dynamicScaleInt8(float amax) {
  return std::fmax(amax, kMinAmax) / kInt8Max;
}

int8_t quantizeInt8(float x, float scale) {
  const float value = x / scale;
  if (std::isnan(value))
    return 0;
  // By hand, so that no rounding mode changes it.
  const float clamped = std::clamp(value, -kInt8Max, kInt8Max);
  const float whole = std::floor(clamped);
  const float rest = clamped - whole; // exact below 128
  float rounded = whole;
  if (rest > 0.5f || (rest == 0.5f && std::fmod(whole, 2.0f) != 0))
    rounded += 1;
  return static_cast<int8_t>(rounded);
}

float boundedScale(float amax, float bound) {
  return std::fmin(std::fmax(amax, kMinAmax), bound) / kE4M3Max;
}

} // namespace octet
