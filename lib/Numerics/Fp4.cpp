//===- Fp4.cpp - E2M1 and the scales of its groups ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Fp4.h"
#include "octet/Numerics/Numerics.h"
#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>

using namespace octet;

static constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

float octet::decodeE2M1(uint8_t code) {
  return code & 8 ? -kValues[code & 7] : kValues[code & 7];
}

uint8_t octet::encodeE2M1(float value) {
  const float x = std::fabs(value);
  uint8_t code = 0;
  // The code grows at the middle between two values; there the even one wins,
  // which is the lower of codes 0, 2, 4, 6 and their next.
  for (int i = 0; i < 7; ++i) {
    const float middle = (kValues[i] + kValues[i + 1]) / 2;
    code += i % 2 == 0 ? x > middle : x >= middle;
  }
  const bool isNegative = std::signbit(value) && !std::isnan(value);
  return code | (isNegative ? 8 : 0);
}

static float findAmax(std::span<const float> x) {
  float amax = 0;
  for (float value : x)
    amax = std::fmax(amax, std::fabs(value)); // a NaN does not win
  return amax;
}

static void encodeAll(std::span<const float> x, float scale,
                      std::span<uint8_t> codes) {
  assert(codes.size() == x.size() && "a code a value");
  for (size_t i = 0; i < x.size(); ++i)
    codes[i] = scale == 0 ? 0 : encodeE2M1(x[i] / scale);
}

uint8_t octet::quantizeNvfp4(std::span<const float> x, float global,
                             std::span<uint8_t> codes) {
  const uint8_t scale = encodeE4M3(findAmax(x) / kE2M1Max / global);
  encodeAll(x, decodeE4M3(scale) * global, codes);
  return scale;
}

uint8_t octet::quantizeMxfp4(std::span<const float> x,
                             std::span<uint8_t> codes) {
  const float least = std::max(findAmax(x), kMinAmax) / kE2M1Max;
  // From the bits: the exponent, plus one if anything is left below it (N4).
  const uint8_t scale =
      uint8_t((std::bit_cast<uint32_t>(least) + 0x7FFFFFu) >> 23);
  encodeAll(x, std::bit_cast<float>(uint32_t(scale) << 23), codes);
  return scale;
}

uint8_t octet::rescaleGroup(uint8_t scale, float own, float shared) {
  return own == shared ? scale : encodeE4M3(decodeE4M3(scale) * own / shared);
}
