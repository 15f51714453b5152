//===- RequantizeTest.cpp - Rewrites of quantised weights -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Requantize.h"
#include "octet/Numerics/Numerics.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

using namespace octet;

namespace {

std::vector<uint8_t> allCodesBut(std::initializer_list<int> left) {
  std::vector<uint8_t> codes;
  for (int code = 0; code < 256; ++code)
    if (std::find(left.begin(), left.end(), code) == left.end())
      codes.push_back(static_cast<uint8_t>(code));
  return codes;
}

} // namespace

// The formats' largest, smallest and missing values, from their definitions.
TEST(Requantize, N8_FormatsAreWhatTheyAre) {
  EXPECT_EQ(decodeFloat8(Float8::E5M2, 0x7B), 57344.0f);
  EXPECT_EQ(decodeFloat8(Float8::E5M2, 0x01), 0x1p-16f);
  EXPECT_EQ(decodeFloat8(Float8::E5M2, 0x3C), 1.0f);
  EXPECT_TRUE(std::isinf(decodeFloat8(Float8::E5M2, 0x7C)));
  EXPECT_TRUE(std::isnan(decodeFloat8(Float8::E5M2, 0xFD)));
  EXPECT_EQ(decodeFloat8(Float8::E5M2FNUZ, 0x7F), 57344.0f);
  EXPECT_EQ(decodeFloat8(Float8::E5M2FNUZ, 0x01), 0x1p-17f);
  EXPECT_TRUE(std::isnan(decodeFloat8(Float8::E5M2FNUZ, 0x80)));
  EXPECT_EQ(decodeFloat8(Float8::E4M3FNUZ, 0x7F), 240.0f);
  EXPECT_EQ(decodeFloat8(Float8::E4M3FNUZ, 0xFF), -240.0f);
  EXPECT_EQ(decodeFloat8(Float8::E4M3FNUZ, 0x01), 0x1p-10f);
  EXPECT_TRUE(std::isnan(decodeFloat8(Float8::E4M3FNUZ, 0x80)));
  // E5M2 is the upper byte of binary16, FN is the decoder of N1.
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    const float half = decodeF16(static_cast<uint16_t>(code << 8));
    const float wide = decodeFloat8(Float8::E5M2, byte);
    EXPECT_TRUE(half == wide || (std::isnan(half) && std::isnan(wide))) << code;
    const float fn = decodeFloat8(Float8::E4M3FN, byte);
    EXPECT_TRUE(fn == decodeE4M3(byte) || std::isnan(fn)) << code;
    // FNUZ has half of FN's value wherever both have one.
    if (code != 0x80 && (code & 0x7F) != 0x7F) {
      EXPECT_EQ(decodeFloat8(Float8::E4M3FNUZ, byte), fn / 2) << code;
    }
  }
}

TEST(Requantize, N8_FnuzKeepsItsBitsAndHalvesTheScale) {
  // All codes that FN has too, one a block of [1, 2] in pairs of equal ones.
  const std::vector<uint8_t> codes = allCodesBut({0x7F, 0x80, 0xFF});
  const auto n = static_cast<int64_t>(codes.size());
  std::vector<float> scale(codes.size());
  for (size_t i = 0; i < scale.size(); ++i)
    scale[i] = 0.37f * static_cast<float>(i + 1);
  std::vector<uint8_t> out(codes.size());
  std::vector<float> outScale(codes.size());
  EXPECT_EQ(findBadCode(codes, Float8::E4M3FNUZ), -1);
  convertFloat8(codes, scale, {n, 1, 1, 1}, Float8::E4M3FNUZ, Float8::E4M3FN,
                out, outScale);
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(out[i], codes[i]);
    EXPECT_EQ(outScale[i], scale[i] / 2);
    // The number is the same.
    EXPECT_EQ(decodeE4M3(out[i]) * outScale[i],
              decodeFloat8(Float8::E4M3FNUZ, codes[i]) * scale[i]);
  }
}

// +-240 is NaN in FN: the group that holds it is rounded again, its neighbour
// keeps its bits.
TEST(Requantize, N8_FnuzGroupWith240IsRequantised) {
  const std::vector<uint8_t> codes = {0x7F, 0x30, 0xFF, 0x01,
                                      0x7E, 0x30, 0x11, 0x81};
  const std::vector<float> scale = {0.5f, 0.5f};
  std::vector<uint8_t> out(8);
  std::vector<float> outScale(2);
  convertFloat8(codes, scale, {2, 4, 1, 4}, Float8::E4M3FNUZ, Float8::E4M3FN,
                out, outScale);
  EXPECT_EQ(outScale[0], dynamicScale(120.0f));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(out[i],
              quantizeE4M3(decodeFloat8(Float8::E4M3FNUZ, codes[i]) * 0.5f,
                           outScale[0]));
  EXPECT_EQ(out[0], 0x7E);
  EXPECT_EQ(outScale[1], 0.25f);
  for (int i = 4; i < 8; ++i)
    EXPECT_EQ(out[i], codes[i]);
}

TEST(Requantize, N8_BadCodesAreFound) {
  const std::vector<uint8_t> all = allCodesBut({});
  EXPECT_EQ(findBadCode(all, Float8::E4M3FNUZ), 0x80);
  EXPECT_EQ(findBadCode(all, Float8::E5M2FNUZ), 0x80);
  EXPECT_EQ(findBadCode(all, Float8::E5M2), 0x7C);
  EXPECT_EQ(findBadCode(all, Float8::E4M3FN), 0x7F);
  const std::vector<uint8_t> good =
      allCodesBut({0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFD, 0xFE, 0xFF});
  EXPECT_EQ(findBadCode(good, Float8::E5M2), -1);
}

TEST(Requantize, N8_FnToFnuz) {
  const std::vector<uint8_t> codes = allCodesBut({0x7F, 0xFF});
  const auto k = static_cast<int64_t>(codes.size());
  const std::vector<float> scale = {0.3f};
  std::vector<uint8_t> out(codes.size());
  std::vector<float> outScale(1);
  convertFloat8(codes, scale, {1, k, 1, k}, Float8::E4M3FN, Float8::E4M3FNUZ,
                out, outScale);
  EXPECT_EQ(outScale[0], 0.6f);
  for (size_t i = 0; i < codes.size(); ++i) {
    EXPECT_EQ(out[i], codes[i] == 0x80 ? 0 : codes[i]);
    EXPECT_EQ(decodeFloat8(Float8::E4M3FNUZ, out[i]) * outScale[0],
              decodeE4M3(codes[i]) * scale[0]);
  }
}

// Every code of E5M2 in blocks of 2 x 3 with ragged edges: within half a unit
// of E4M3 (N5) of the number that it was.
TEST(Requantize, N8_E5M2AtItsOwnGranularity) {
  const std::vector<uint8_t> codes =
      allCodesBut({0x7C, 0x7D, 0x7E, 0x7F, 0xFC, 0xFD, 0xFE, 0xFF});
  const BlockShape shape{8, 31, 3, 4};
  ASSERT_EQ(codes.size(), size_t(shape.n * shape.k));
  std::vector<float> scale(3 * 8);
  for (size_t i = 0; i < scale.size(); ++i)
    scale[i] = 0.01f * static_cast<float>(i % 5 + 1);
  std::vector<uint8_t> out(codes.size());
  std::vector<float> outScale(scale.size());
  convertFloat8(codes, scale, shape, Float8::E5M2, Float8::E4M3FN, out,
                outScale);
  for (int64_t r = 0; r < shape.n; ++r)
    for (int64_t c = 0; c < shape.k; ++c) {
      const int64_t i = r * shape.k + c, block = r / 3 * 8 + c / 4;
      const float was = decodeFloat8(Float8::E5M2, codes[i]) * scale[block];
      const float is = decodeE4M3(out[i]) * outScale[block];
      EXPECT_LE(std::fabs(is - was), std::fmax(0x1.01p-4f * std::fabs(was),
                                               0x1.01p-10f * outScale[block]))
          << "row " << r << " column " << c;
    }
}

TEST(Requantize, W8_TheLargestScaleKeepsItsCodes) {
  const std::vector<uint8_t> codes = allCodesBut({0x7F, 0xFF});
  std::vector<uint8_t> out(codes.size());
  for (float scale : {0.1f, 0.0173f, 3.3f}) {
    requantizeTensor(codes, scale, scale, out);
    EXPECT_EQ(out, codes) << scale;
    requantizeTensor(codes, scale, 2.5f * scale, out);
    for (size_t i = 0; i < codes.size(); ++i)
      EXPECT_EQ(out[i],
                quantizeE4M3(decodeE4M3(codes[i]) * scale, 2.5f * scale));
  }
}

TEST(Requantize, W11_PowersOfTwoStayOthersAreRoundedUp) {
  EXPECT_TRUE(isPowerOfTwo(0x1p-12f));
  EXPECT_TRUE(isPowerOfTwo(1.0f));
  EXPECT_FALSE(isPowerOfTwo(3.0f));
  EXPECT_FALSE(isPowerOfTwo(0.0f));
  EXPECT_FALSE(isPowerOfTwo(-1.0f));
  EXPECT_FALSE(isPowerOfTwo(INFINITY));
  EXPECT_FALSE(isPowerOfTwo(0x1.000002p-3f));
  const std::vector<uint8_t> codes = {0x7E, 0x08, 0x80, 0x33,
                                      0x70, 0x08, 0x80, 0x33};
  const std::vector<float> scale = {0x1p-5f, 0.011f};
  std::vector<uint8_t> out(8), exponents(2);
  requantizeToExponents(codes, scale, {2, 4, 1, 4}, out, exponents);
  EXPECT_EQ(exponents[0], 127 - 5);
  EXPECT_TRUE(std::equal(codes.begin(), codes.begin() + 4, out.begin()));
  const float amax = decodeE4M3(0x70) * 0.011f;
  EXPECT_EQ(exponents[1], encodeUE8M0Scale(amax));
  const float s = decodeUE8M0(exponents[1]);
  EXPECT_GE(s * 448, amax);
  for (int i = 4; i < 8; ++i)
    EXPECT_EQ(out[i], quantizeE4M3(decodeE4M3(codes[i]) * 0.011f, s));
}

TEST(Requantize, N7_Int8RoundsToEvenAndClamps) {
  EXPECT_EQ(quantizeInt8(0.5f, 1), 0);
  EXPECT_EQ(quantizeInt8(1.5f, 1), 2);
  EXPECT_EQ(quantizeInt8(-0.5f, 1), 0);
  EXPECT_EQ(quantizeInt8(-1.5f, 1), -2);
  EXPECT_EQ(quantizeInt8(-2.5f, 1), -2);
  EXPECT_EQ(quantizeInt8(126.5f, 1), 126);
  EXPECT_EQ(quantizeInt8(200, 1), 127);
  EXPECT_EQ(quantizeInt8(-128, 1), -127);
  EXPECT_EQ(quantizeInt8(-INFINITY, 1), -127);
  EXPECT_EQ(quantizeInt8(NAN, 1), 0);
  EXPECT_EQ(dynamicScaleInt8(0), 1e-10f / 127);
  EXPECT_EQ(dynamicScaleInt8(3), 3.0f / 127);
}

TEST(Requantize, P3_BoundedScale) {
  EXPECT_EQ(boundedScale(100, 1200), 100.0f / 448);
  EXPECT_EQ(boundedScale(5000, 1200), 1200.0f / 448);
  EXPECT_EQ(boundedScale(0, 1200), 1e-10f / 448);
}
