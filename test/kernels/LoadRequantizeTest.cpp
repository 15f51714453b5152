//===- LoadRequantizeTest.cpp - Load operators against Numerics -----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/LoadRequantize.h"
#include "TestSupport.h"
#include "octet/Numerics/Requantize.h"

#include <numeric>

using namespace octet;
using namespace octet::test;

namespace {

class Requantize : public EveryLevel {};
OCTET_EVERY_LEVEL(Requantize);

/// A matrix of all codes but `left`, again and again, with ragged blocks.
struct Matrix {
  std::vector<uint8_t> codes;
  std::vector<float> scale;
  rt::ScaledMatrix w;
  BlockShape shape;
};

Matrix make(int32_t type, int32_t mode, bool (*isLeftOut)(int code),
            std::mt19937 &random) {
  const int64_t rows = 37, cols = 90;
  Matrix m;
  for (int64_t i = 0; m.codes.size() < size_t(rows * cols); ++i)
    if (!isLeftOut(static_cast<int>(i % 256)))
      m.codes.push_back(static_cast<uint8_t>(i % 256));
  std::shuffle(m.codes.begin(), m.codes.end(), random);
  m.shape = mode == OCTET_SCALE_TENSOR    ? BlockShape{rows, cols, rows, cols}
            : mode == OCTET_SCALE_CHANNEL ? BlockShape{rows, cols, 1, cols}
                                          : BlockShape{rows, cols, 16, 32};
  m.w.rows = rows;
  m.w.cols = cols;
  m.w.type = type;
  m.w.scaleMode = mode;
  if (mode == OCTET_SCALE_BLOCK) {
    m.w.blockN = 16;
    m.w.blockK = 32;
  }
  std::uniform_real_distribution<float> scales(0.01f, 2.0f);
  for (int64_t i = 0; i < m.w.numScales(); ++i)
    m.scale.push_back(scales(random));
  m.w.data = m.codes.data();
  m.w.scale = m.scale.data();
  return m;
}

TEST_P(Requantize, N8_EqualsNumerics) {
  std::mt19937 random(8);
  rt::ThreadPool pool(3);
  struct From {
    int32_t type;
    Float8 format;
    bool (*isLeftOut)(int);
  };
  const From formats[] = {
      {OCTET_E5M2, Float8::E5M2, [](int c) { return (c & 0x7F) >= 0x7C; }},
      {OCTET_E5M2FNUZ, Float8::E5M2FNUZ, [](int c) { return c == 0x80; }},
      {OCTET_E4M3FNUZ, Float8::E4M3FNUZ, [](int c) { return c == 0x80; }},
      // No +-240: every code stays.
      {OCTET_E4M3FNUZ, Float8::E4M3FNUZ,
       [](int c) { return c == 0x80 || (c & 0x7F) == 0x7F; }},
      // To FNUZ.
      {OCTET_E4M3, Float8::E4M3FN, [](int c) { return (c & 0x7F) == 0x7F; }}};
  for (const From &from : formats) {
    for (int32_t mode :
         {OCTET_SCALE_TENSOR, OCTET_SCALE_CHANNEL, OCTET_SCALE_BLOCK}) {
      Matrix m = make(from.type, mode, from.isLeftOut, random);
      // One block without +-240 among those with.
      std::fill_n(m.codes.begin(), 90, uint8_t(0x31));
      const bool toFnuz = from.type == OCTET_E4M3;
      std::vector<uint8_t> q(m.codes.size()), expected(q.size());
      std::vector<float> scale(m.scale.size()), expectedScale(scale.size());
      ASSERT_EQ(rt::findBadCode(pool, m.w), -1);
      const bool stays = rt::convertFloat8(pool, kernels(), m.w,
                                           toFnuz ? OCTET_E4M3FNUZ : OCTET_E4M3,
                                           q.data(), scale.data());
      convertFloat8(m.codes, m.scale, m.shape, from.format,
                    toFnuz ? Float8::E4M3FNUZ : Float8::E4M3FN, expected,
                    expectedScale);
      EXPECT_EQ(stays ? m.codes : q, expected) << from.type << " " << mode;
      EXPECT_EQ(scale, expectedScale) << from.type << " " << mode;
    }
  }
}

TEST_P(Requantize, N8_FirstBadCode) {
  std::mt19937 random(9);
  rt::ThreadPool pool(3);
  Matrix m = make(
      OCTET_E4M3FNUZ, OCTET_SCALE_CHANNEL, [](int c) { return c == 0x80; },
      random);
  m.codes[2000] = m.codes[777] = 0x80;
  EXPECT_EQ(rt::findBadCode(pool, m.w), 777);
}

TEST_P(Requantize, W8_EqualsNumerics) {
  std::mt19937 random(10);
  rt::ThreadPool pool(3);
  Matrix m = make(
      OCTET_E4M3, OCTET_SCALE_TENSOR, [](int c) { return (c & 0x7F) == 0x7F; },
      random);
  std::vector<uint8_t> q(m.codes.size()), expected(q.size());
  const float largest = m.scale[0] * 1.7f;
  rt::requantizeTensor(pool, kernels(), m.w, largest, q.data());
  requantizeTensor(m.codes, m.scale[0], largest, expected);
  EXPECT_EQ(q, expected);
}

TEST_P(Requantize, W11_EqualsNumerics) {
  std::mt19937 random(11);
  rt::ThreadPool pool(3);
  Matrix m = make(
      OCTET_E4M3, OCTET_SCALE_BLOCK, [](int c) { return (c & 0x7F) == 0x7F; },
      random);
  std::vector<uint8_t> q(m.codes.size()), expected(q.size());
  std::vector<uint8_t> scale(m.scale.size()), expectedScale(scale.size());
  m.scale[1] = 0.25f; // stays
  EXPECT_FALSE(
      rt::requantizeToExponents(pool, kernels(), m.w, q.data(), scale.data()));
  requantizeToExponents(m.codes, m.scale, m.shape, expected, expectedScale);
  EXPECT_EQ(q, expected);
  EXPECT_EQ(scale, expectedScale);
  std::iota(m.scale.begin(), m.scale.end(), 0.0f);
  for (float &each : m.scale)
    each = std::ldexp(1.0f, static_cast<int>(each) % 7 - 3);
  EXPECT_TRUE(
      rt::requantizeToExponents(pool, kernels(), m.w, q.data(), scale.data()));
  for (size_t i = 0; i < scale.size(); ++i)
    EXPECT_EQ(decodeUE8M0(scale[i]), m.scale[i]);
}

TEST(MergeScales, B6_EqualOrRefused) {
  // 5 x 96 in groups of 32 as blocks of 2 x 64: rows 0-1, 2-3, 4.
  rt::ScaledMatrix w;
  w.rows = 5;
  w.cols = 96;
  w.type = OCTET_E4M3;
  w.scaleMode = OCTET_SCALE_BLOCK;
  w.scaleType = OCTET_E8M0;
  w.blockN = 1;
  w.blockK = 32;
  std::vector<uint8_t> scale = {120, 120, 121, 120, 120, 121, 122, 122,
                                123, 122, 122, 123, 124, 124, 125};
  w.scale = scale.data();
  std::vector<float> out(6);
  EXPECT_FALSE(rt::mergeScales(w, 2, 64, out.data()));
  EXPECT_EQ(out, (std::vector<float>{0x1p-7f, 0x1p-6f, 0x1p-5f, 0x1p-4f,
                                     0x1p-3f, 0x1p-2f}));
  scale[10] = 121; // row 3, group 1
  const rt::ScaleConflict bad = rt::mergeScales(w, 2, 64, out.data());
  EXPECT_EQ(bad.first, 6);
  EXPECT_EQ(bad.second, 10);
}

} // namespace
