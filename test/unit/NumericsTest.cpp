//===- NumericsTest.cpp - The reference arithmetic, exhaustively ----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The oracle here is arithmetic in double on the formats' definitions: the
// value of a code from its fields, the code of a value by searching the
// nearest one. It shares nothing with the bit manipulation under test.
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Numerics.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace octet;

namespace {

/// The value of a code of a small IEEE-like format, from its definition.
double valueOf(uint32_t code, int exponentBits, int mantissaBits) {
  const int bias = (1 << (exponentBits - 1)) - 1;
  const uint32_t mantissa = code & ((1u << mantissaBits) - 1);
  const int exponent =
      static_cast<int>(code >> mantissaBits) & ((1 << exponentBits) - 1);
  const double sign = code >> (exponentBits + mantissaBits) ? -1 : 1;
  if (exponent == 0)
    return sign * std::ldexp(mantissa, 1 - bias - mantissaBits);
  return sign * std::ldexp((1u << mantissaBits) + mantissa,
                           exponent - bias - mantissaBits);
}

/// The E4M3 code nearest to |x|, ties to the even code, saturating (N2).
uint8_t nearestE4M3(double x) {
  const double a = std::fabs(x);
  uint8_t best = 0;
  double bestError = std::numeric_limits<double>::infinity();
  for (uint32_t code = 0; code <= 0x7E; ++code) {
    const double error = std::fabs(valueOf(code, 4, 3) - std::min(a, 448.0));
    if (error < bestError || (error == bestError && code % 2 == 0)) {
      best = static_cast<uint8_t>(code);
      bestError = error;
    }
  }
  return std::signbit(x) ? best | 0x80 : best;
}

float ulpsAway(float x, int ulps) {
  return std::bit_cast<float>(
      static_cast<uint32_t>(std::bit_cast<int32_t>(x) + ulps));
}

TEST(Numerics, N1_AllE4M3Codes) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = decodeE4M3(static_cast<uint8_t>(code));
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value)) << code;
      continue;
    }
    EXPECT_EQ(value, valueOf(code, 4, 3)) << code;
    EXPECT_EQ(std::signbit(value), code >= 0x80) << code;
    EXPECT_EQ(encodeE4M3(value), code);
  }
  EXPECT_EQ(decodeE4M3(0x7E), 448.0f);
  EXPECT_EQ(decodeE4M3(0x08), 0x1p-6f);
  EXPECT_EQ(decodeE4M3(0x01), 0x1p-9f);
}

TEST(Numerics, N2_MidpointsOfE4M3RoundToEven) {
  for (uint32_t code = 0; code < 0x7E; ++code) {
    // Exact in float: neighbours share at most one more bit.
    const float middle =
        static_cast<float>((valueOf(code, 4, 3) + valueOf(code + 1, 4, 3)) / 2);
    const uint8_t even = static_cast<uint8_t>(code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(encodeE4M3(middle), even) << code;
    EXPECT_EQ(encodeE4M3(-middle), even | 0x80) << code;
    for (int ulps = 1; ulps <= 64; ++ulps) {
      EXPECT_EQ(encodeE4M3(ulpsAway(middle, ulps)), code + 1) << ulps;
      EXPECT_EQ(encodeE4M3(ulpsAway(middle, -ulps)), code) << ulps;
    }
  }
}

TEST(Numerics, N2_E4M3AgainstSearch) {
  // Every float with a 12-bit prefix, and what surrounds it.
  for (uint32_t prefix = 0; prefix < 0x7F8; ++prefix) {
    for (uint32_t tail : {0u, 1u, 0x7FFFFu, 0x80000u, 0x80001u, 0xFFFFFu}) {
      const float x = std::bit_cast<float>((prefix << 20) | tail);
      EXPECT_EQ(encodeE4M3(x), nearestE4M3(x)) << x;
      EXPECT_EQ(encodeE4M3(-x), nearestE4M3(-x)) << x;
    }
  }
}

TEST(Numerics, N2_ClampAndNaN) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(encodeE4M3(448.0f), 0x7E);
  EXPECT_EQ(encodeE4M3(464.0f), 0x7E); // would round to 480 unclamped
  EXPECT_EQ(encodeE4M3(1e30f), 0x7E);
  EXPECT_EQ(encodeE4M3(inf), 0x7E);
  EXPECT_EQ(encodeE4M3(-inf), 0xFE);
  EXPECT_EQ(encodeE4M3(std::nanf("")), 0x7F);
  EXPECT_EQ(encodeE4M3(-std::nanf("")), 0xFF);
  EXPECT_EQ(encodeE4M3(-0.0f), 0x80);
}

TEST(Numerics, AllBF16AndF16CodesRoundTrip) {
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const uint16_t bits = static_cast<uint16_t>(code);
    if ((code & 0x7F80) == 0x7F80 && (code & 0x7F)) {
      EXPECT_TRUE(std::isnan(decodeBF16(bits)));
      EXPECT_TRUE(std::isnan(decodeBF16(encodeBF16(decodeBF16(bits)))));
    } else {
      EXPECT_EQ(encodeBF16(decodeBF16(bits)), bits);
      if ((code & 0x7F80) != 0x7F80) {
        EXPECT_EQ(decodeBF16(bits), valueOf(code, 8, 7));
      }
    }
    if ((code & 0x7C00) == 0x7C00 && (code & 0x3FF)) {
      EXPECT_TRUE(std::isnan(decodeF16(bits)));
      EXPECT_TRUE(std::isnan(decodeF16(encodeF16(decodeF16(bits)))));
    } else {
      EXPECT_EQ(encodeF16(decodeF16(bits)), bits);
      if ((code & 0x7C00) != 0x7C00) {
        EXPECT_EQ(decodeF16(bits), valueOf(code, 5, 10));
      }
    }
  }
}

TEST(Numerics, MidpointsOfBF16AndF16RoundToEven) {
  for (uint32_t code = 0; code < 0x7F7F; ++code) {
    const float middle =
        static_cast<float>((valueOf(code, 8, 7) + valueOf(code + 1, 8, 7)) / 2);
    const uint16_t even =
        static_cast<uint16_t>(code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(encodeBF16(middle), even);
    EXPECT_EQ(encodeBF16(-middle), even | 0x8000);
    EXPECT_EQ(encodeBF16(ulpsAway(middle, 1)), code + 1);
    if (code > 0) {
      EXPECT_EQ(encodeBF16(ulpsAway(middle, -1)), code);
    }
  }
  for (uint32_t code = 0; code < 0x7BFF; ++code) {
    const float middle = static_cast<float>(
        (valueOf(code, 5, 10) + valueOf(code + 1, 5, 10)) / 2);
    const uint16_t even =
        static_cast<uint16_t>(code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(encodeF16(middle), even);
    EXPECT_EQ(encodeF16(-middle), even | 0x8000);
    EXPECT_EQ(encodeF16(ulpsAway(middle, 1)), code + 1);
    EXPECT_EQ(encodeF16(ulpsAway(middle, -1)), code);
  }
}

TEST(Numerics, OverflowOfBF16AndF16) {
  EXPECT_EQ(encodeF16(65519.996f), 0x7BFF);
  EXPECT_EQ(encodeF16(65520.0f), 0x7C00);
  EXPECT_EQ(encodeF16(-1e30f), 0xFC00);
  EXPECT_EQ(encodeF16(0x1p-25f), 0); // a tie, to even
  EXPECT_EQ(encodeF16(0x1.000002p-25f), 1);
  EXPECT_EQ(encodeBF16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(encodeBF16(0x1.FEFFFEp127f), 0x7F7F);
}

TEST(Numerics, N3_DynamicScale) {
  EXPECT_EQ(dynamicScale(448.0f), 1.0f);
  EXPECT_EQ(dynamicScale(3.0f), 3.0f / 448.0f);
  EXPECT_EQ(dynamicScale(0.0f), 1e-10f / 448.0f);
  EXPECT_EQ(dynamicScale(1e-20f), 1e-10f / 448.0f);
}

TEST(Numerics, N4_UE8M0RoundsUp) {
  for (uint32_t code = 0; code < 255; ++code)
    EXPECT_EQ(decodeUE8M0(static_cast<uint8_t>(code)),
              std::ldexp(1.0, static_cast<int>(code) - 127));
  EXPECT_TRUE(std::isnan(decodeUE8M0(0xFF)));

  std::mt19937 random(4);
  for (int trial = 0; trial < 100000; ++trial) {
    const float amax =
        std::ldexp(1.0f + static_cast<float>(random()) * 0x1p-32f,
                   static_cast<int>(random() % 80) - 40);
    const double exact = dynamicScale(amax);
    const double power = decodeUE8M0(encodeUE8M0Scale(amax));
    EXPECT_GE(power, exact) << amax; // ceil: nothing overflows 448
    EXPECT_LT(power / 2, exact) << amax;
  }
  // A power of two stays; its upper neighbour moves to the next.
  EXPECT_EQ(encodeUE8M0Scale(448.0f), 127);
  EXPECT_EQ(encodeUE8M0Scale(std::nextafter(448.0f, 1e9f)), 128);
  EXPECT_EQ(encodeUE8M0Scale(std::nextafter(448.0f, 0.0f)), 127);
  EXPECT_EQ(encodeUE8M0Scale(0.0f), encodeUE8M0Scale(1e-10f));
}

TEST(Numerics, W4_RaggedGroupsOfRows) {
  const int64_t m = 3, k = 10, group = 4;
  std::vector<float> x(m * k);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i) - 11.5f;
  std::vector<uint8_t> q(m * k);
  std::vector<float> scale(m * 3);
  quantizeRows(x, m, k, group, /*ue8m0=*/false, q, scale);
  for (int64_t r = 0; r < m; ++r) {
    for (int64_t c = 0; c < k; ++c) {
      float amax = 0;
      for (int64_t i = c / group * group;
           i < std::min(k, (c / group + 1) * group); ++i)
        amax = std::max(amax, std::fabs(x[r * k + i]));
      EXPECT_EQ(scale[r * 3 + c / group], amax / 448.0f);
      EXPECT_EQ(q[r * k + c], nearestE4M3(x[r * k + c] / (amax / 448.0f)));
    }
  }
  // With N4, every value stays in range without the clamp's help.
  quantizeRows(x, m, k, group, /*ue8m0=*/true, q, scale);
  for (float s : scale)
    EXPECT_EQ(std::bit_cast<uint32_t>(s) & 0x7FFFFF, 0u);
}

TEST(Numerics, W1_W4_RaggedBlocks) {
  const int64_t n = 5, k = 7, bn = 2, bk = 4;
  std::vector<float> w(n * k);
  for (size_t i = 0; i < w.size(); ++i)
    w[i] = std::sin(static_cast<float>(i)) * static_cast<float>(i + 1);
  std::vector<uint8_t> q(n * k);
  std::vector<float> scale(3 * 2), back(n * k);
  quantizeBlocks(w, n, k, bn, bk, q, scale);
  dequantizeBlocks(q, scale, n, k, bn, bk, back);
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < k; ++c) {
      float amax = 0;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < k; ++j)
          if (i / bn == r / bn && j / bk == c / bk)
            amax = std::max(amax, std::fabs(w[i * k + j]));
      const float s = scale[r / bn * 2 + c / bk];
      EXPECT_EQ(s, amax / 448.0f) << r << ' ' << c;
      // N5: half a unit in the last place of a 3-bit mantissa, or half a
      // subnormal step; the division and product by s add two ulps of float.
      const float bound =
          std::max(std::fabs(w[r * k + c]) * 0x1p-4f, s * 0x1p-10f) *
          (1 + 0x1p-20f);
      EXPECT_LE(std::fabs(back[r * k + c] - w[r * k + c]), bound);
    }
  }
}

TEST(Numerics, N3_ZerosNeverGiveNaN) {
  std::vector<float> x(32, 0.0f);
  std::vector<uint8_t> q(32, 0x55);
  std::vector<float> scale(2);
  for (bool ue8m0 : {false, true}) {
    quantizeRows(x, 2, 16, 16, ue8m0, q, scale);
    for (uint8_t code : q)
      EXPECT_EQ(code, 0);
    for (float s : scale)
      EXPECT_GT(s, 0.0f);
  }
}

TEST(Numerics, N2_NaNStaysNaNAndAlone) {
  std::vector<float> x = {1.0f, std::nanf(""), -2.0f, 0.5f};
  std::vector<uint8_t> q(4);
  std::vector<float> scale(1);
  quantizeRows(x, 1, 4, 4, /*ue8m0=*/false, q, scale);
  EXPECT_EQ(scale[0], 2.0f / 448.0f);
  EXPECT_EQ(q[1] & 0x7F, 0x7F);
  EXPECT_EQ(decodeE4M3(q[0]), 224.0f);
  EXPECT_EQ(decodeE4M3(q[2]), -448.0f);
}

TEST(Numerics, EmptyShapesAreNoWork) {
  quantizeRows({}, 0, 8, 4, false, {}, {});
  quantizeRows({}, 4, 0, 4, false, {}, {});
  quantizeBlocks({}, 0, 0, 4, 4, {}, {});
  dequantizeBlocks({}, {}, 0, 0, 4, 4, {});
}

} // namespace
