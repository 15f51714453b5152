//===- LoadOpsTest.cpp - The arithmetic of loading
//----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Against lib/Numerics, bit for bit.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/LoadOps.h"
#include "TestSupport.h"

#include <limits>

using namespace octet;
using namespace octet::test;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Scales {
  std::vector<uint8_t> data;
  Tensor scale;
  rt::ScaledMatrix matrix;

  /// 200 x 300 codes in blocks of 128 x 128: 2 x 3 scales.
  explicit Scales(int32_t scaleType, uint8_t code = 0x38)
      : data(200 * 300, code), scale(scaleType, 6) {
    for (int64_t i = 0; i < 6; ++i)
      scale.set(i, 0.5f + static_cast<float>(i));
    matrix.data = data.data();
    matrix.scale = scale.data();
    matrix.rows = 200;
    matrix.cols = 300;
    matrix.blockN = matrix.blockK = 128;
    matrix.scaleMode = OCTET_SCALE_BLOCK;
    matrix.scaleType = scaleType;
  }
};

// Blocks hold their scales, of any sign; the first that is not finite counts,
// and codes that would be such a scale do not.
TEST(LoadOps, W6_FieldsOfBlocksAreFinite) {
  rt::ThreadPool pool(2);
  struct Format {
    int32_t type;
    int64_t bytes, fields;
  };
  for (const Format &f : {Format{OCTET_Q8_0, 34, 1}, Format{OCTET_Q4_0, 18, 1},
                          Format{OCTET_Q4_1, 20, 2}}) {
    std::vector<uint8_t> data(static_cast<size_t>(100 * 3 * f.bytes), 0xFF);
    auto set = [&](int64_t field, uint16_t bits) {
      std::memcpy(data.data() + field / f.fields * f.bytes +
                      field % f.fields * 2,
                  &bits, 2);
    };
    const int64_t count = 100 * 3 * f.fields;
    for (int64_t i = 0; i < count; ++i)
      set(i, i % 3 == 0 ? 0 : encodeF16(i % 3 == 1 ? -0.5f : 65504.0f));
    rt::ScaledMatrix matrix;
    matrix.data = data.data();
    matrix.rows = 100;
    matrix.cols = 96;
    matrix.type = f.type;
    EXPECT_EQ(matrix.numScales(), count);
    EXPECT_FALSE(rt::checkScales(pool, matrix));
    set(count - 1, 0xFE00);
    rt::BadScale found = rt::checkScales(pool, matrix);
    EXPECT_EQ(found.kind, rt::BadScale::NaN);
    EXPECT_EQ(found.index, count - 1);
    set(17, 0xFC00);
    found = rt::checkScales(pool, matrix);
    EXPECT_EQ(found.kind, rt::BadScale::Infinite);
    EXPECT_EQ(found.index, 17);
  }
}

TEST(LoadOps, W6_GoodScalesPass) {
  rt::ThreadPool pool(2);
  for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16}) {
    Scales s(type);
    EXPECT_FALSE(rt::checkScales(pool, s.matrix));
  }
}

TEST(LoadOps, W6_BadScalesAreFoundFirstFirst) {
  rt::ThreadPool pool(2);
  for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16}) {
    const std::vector<std::pair<float, rt::BadScale::Kind>> bad = {
        {std::nanf(""), rt::BadScale::NaN},
        {kInf, rt::BadScale::Infinite},
        {-kInf, rt::BadScale::Negative},
        {-1, rt::BadScale::Negative},
        {0, rt::BadScale::Zero}};
    for (const auto &[value, kind] : bad) {
      Scales s(type);
      s.scale.set(4, value);
      s.scale.set(5, -2);
      const rt::BadScale found = rt::checkScales(pool, s.matrix);
      EXPECT_EQ(found.kind, kind);
      EXPECT_EQ(found.index, 4);
    }
  }
  Scales sentinel(OCTET_F32);
  sentinel.scale.set(0, std::numeric_limits<float>::lowest());
  EXPECT_EQ(rt::checkScales(pool, sentinel.matrix).kind,
            rt::BadScale::Negative);
}

TEST(LoadOps, W6_ZeroScaleOfAZeroBlockPasses) {
  rt::ThreadPool pool(2);
  Scales s(OCTET_F32, /*code=*/0x80); // minus zeros
  s.scale.set(5, 0);                  // rows 128-199, columns 256-299
  EXPECT_FALSE(rt::checkScales(pool, s.matrix));
  s.data[127 * 300 + 299] = 1; // its neighbours do not count
  s.data[199 * 300 + 255] = 1;
  EXPECT_FALSE(rt::checkScales(pool, s.matrix));
  s.data[199 * 300 + 299] = 1;
  EXPECT_EQ(rt::checkScales(pool, s.matrix).kind, rt::BadScale::Zero);
  EXPECT_EQ(rt::checkScales(pool, s.matrix).index, 5);

  rt::ScaledMatrix channel = s.matrix;
  Tensor scale(OCTET_F32, 200);
  for (int64_t i = 0; i < 200; ++i)
    scale.set(i, i == 126 || i == 127 ? 0 : 1);
  channel.scale = scale.data();
  channel.scaleMode = OCTET_SCALE_CHANNEL;
  EXPECT_EQ(rt::checkScales(pool, channel).index, 127);
}

TEST(LoadOps, ScalesConvertExactly) {
  for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16}) {
    const int64_t codes = type == OCTET_F32 ? 1000 : 65536;
    Tensor in(type, codes);
    for (int64_t i = 0; i < codes; ++i)
      in.setBits(i, type == OCTET_F32 ? static_cast<uint32_t>(i * 4000037)
                                      : static_cast<uint32_t>(i));
    std::vector<float> out(codes);
    rt::convertScales(type, in.data(), codes, out.data());
    for (int64_t i = 0; i < codes; ++i)
      if (!std::isnan(in.value(i)))
        ASSERT_EQ(out[i], in.value(i)) << i;
      else
        ASSERT_TRUE(std::isnan(out[i])) << i;
  }
  std::vector<float> out(3);
  rt::expandScale(0.5f, 3, out.data()); // W7
  EXPECT_EQ(out, (std::vector<float>{0.5f, 0.5f, 0.5f}));
}

class Quantize : public EveryLevel {};
OCTET_EVERY_LEVEL(Quantize);

TEST_P(Quantize, W10_EqualsNumerics) {
  std::mt19937 random(10);
  rt::ThreadPool pool(2);
  for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16}) {
    const int64_t rows = 37, cols = 45;
    Tensor w(type, rows * cols);
    w.randomize(random, 0.05f);
    for (int64_t c = 0; c < cols; ++c)
      w.set(3 * cols + c, 0); // N3
    w.set(5 * cols + 2, std::nanf(""));
    w.set(6 * cols + 2, 1000);
    std::vector<float> values(rows * cols);
    for (int64_t i = 0; i < w.count; ++i)
      values[i] = w.value(i);

    std::vector<uint8_t> q(rows * cols), expected(rows * cols);
    std::vector<float> scale(rows), expectedScale(rows);
    rt::quantizeWeight(pool, kernels(), type, w.data(), rows, cols,
                       OCTET_SCALE_CHANNEL, q.data(), scale.data());
    quantizeRows(values, rows, cols, cols, false, expected, expectedScale);
    EXPECT_EQ(q, expected) << nameOf(type);
    EXPECT_EQ(scale, expectedScale);

    scale[0] = dynamicScale(
        rt::matrixAmax(pool, kernels(), type, w.data(), rows, cols));
    rt::quantizeWeight(pool, kernels(), type, w.data(), rows, cols,
                       OCTET_SCALE_TENSOR, q.data(), scale.data());
    quantizeBlocks(values, rows, cols, rows, cols, expected, expectedScale);
    EXPECT_EQ(q, expected) << nameOf(type);
    EXPECT_EQ(scale[0], expectedScale[0]);
  }
}

TEST_P(Quantize, N2_EncodesEveryPrefixAsNumerics) {
  std::vector<float> x;
  for (uint32_t prefix = 0; prefix < 0x1000; ++prefix)
    for (uint32_t tail : {0u, 1u, 0x7FFFFu, 0x80000u, 0x80001u, 0xFFFFFu})
      x.push_back(std::bit_cast<float>(prefix << 20 | tail));
  std::vector<uint8_t> q(x.size());
  kernels().quantizeRow(OCTET_F32, x.data(), static_cast<int64_t>(x.size()),
                        1.0f, q.data());
  for (size_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(q[i], encodeE4M3(x[i])) << x[i];
}

TEST(LoadOps, P6_RopeTable) {
  rt::ThreadPool pool(3);
  const std::vector<float> invFreq = {1.0f, 0.1f, 0.013f};
  std::vector<float> out(100 * 6);
  rt::ropeTable(pool, invFreq.data(), 3, 100, 1.25f, out.data());
  for (int p = 0; p < 100; ++p) {
    for (int i = 0; i < 3; ++i) {
      const float angle = static_cast<float>(p) * invFreq[i];
      EXPECT_EQ(out[p * 6 + i],
                static_cast<float>(std::cos(static_cast<double>(angle))) *
                    1.25f);
      EXPECT_EQ(out[p * 6 + 3 + i],
                static_cast<float>(std::sin(static_cast<double>(angle))) *
                    1.25f);
    }
  }
}

} // namespace
