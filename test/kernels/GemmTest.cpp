//===- GemmTest.cpp - Products against double
//---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tolerance. A lane adds ceil(K / 16) products, then 4 additions join the
// lanes, one the segments each, two or three factors scale: with u = 2^-24 each
// of n roundings moves the sum by at most u times the sum of magnitudes, so
//   |y - ref| <= 2 n u sum |x w s|   with n = K / 16 + K / 1024 + 16,
// then half a unit in the last place of y. The factor 2 covers that VDPBF16PS
// may round each of its two additions and the second-order terms. At level amx
// a sum adds the pairs of up to 512 elements one by one, and at most K / 32
// partials: n = min(K, 512) / 2 + K / 32 + 16.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

using namespace octet;
using namespace octet::test;

namespace {

constexpr int kSeed = 20240607;

struct Case {
  int64_t m, k;
  std::vector<int64_t> parts;
  int32_t x, w, y;
  int32_t wScale = OCTET_SCALE_NONE, xScale = OCTET_SCALE_NONE;
  int64_t bn = 0, bk = 0;
  int32_t bias = -1;
};

std::ostream &operator<<(std::ostream &os, const Case &c) {
  os << "m " << c.m << " k " << c.k << " parts";
  for (int64_t p : c.parts)
    os << ' ' << p;
  return os << ' ' << nameOf(c.x) << " x " << nameOf(c.w) << " -> "
            << nameOf(c.y) << " scales w " << c.wScale << " x " << c.xScale
            << " block " << c.bn << 'x' << c.bk << " bias " << nameOf(c.bias);
}

/// Operands of a case, with everything the kernel points to.
struct Operands {
  Case c;
  octet_gemm_desc desc{};
  Tensor x;
  std::vector<float> xScale;
  std::vector<Tensor> w, bias;
  std::vector<std::vector<float>> wScale;
  octet_weight weight{}, biasWeight{};
  int64_t n = 0, blocks = 1;

  Operands(const Case &c, std::mt19937 &random) : c(c), x(c.x, c.m * c.k) {
    std::uniform_real_distribution<float> scales(0.25f, 2.0f);
    if (c.bk)
      blocks = ceilDiv(c.k, c.bk);
    x.randomize(random, c.x == OCTET_I8 ? 40 : 1.5f);
    const int64_t xScales = c.xScale == OCTET_SCALE_TENSOR    ? 1
                            : c.xScale == OCTET_SCALE_CHANNEL ? c.m
                            : c.xScale == OCTET_SCALE_BLOCK   ? c.m * blocks
                                                              : 0;
    for (int64_t i = 0; i < xScales; ++i)
      xScale.push_back(scales(random));
    weight.num_parts = biasWeight.num_parts =
        static_cast<int64_t>(c.parts.size());
    w.reserve(c.parts.size());
    bias.reserve(c.parts.size());
    wScale.reserve(c.parts.size());
    for (size_t p = 0; p < c.parts.size(); ++p) {
      const int64_t rows = c.parts[p];
      n += rows;
      w.emplace_back(c.w, rows * c.k)
          .randomize(random, c.w == OCTET_I8 ? 40 : 0.5f);
      const int64_t count = c.wScale == OCTET_SCALE_TENSOR    ? 1
                            : c.wScale == OCTET_SCALE_CHANNEL ? rows
                            : c.wScale == OCTET_SCALE_BLOCK
                                ? ceilDiv(rows, c.bn) * blocks
                                : 0;
      wScale.emplace_back();
      for (int64_t i = 0; i < count; ++i)
        wScale.back().push_back(scales(random));
      bias.emplace_back(c.bias < 0 ? OCTET_F32 : c.bias, rows)
          .randomize(random, 1);
      weight.parts[p] = {w[p].data(), count ? wScale[p].data() : nullptr, rows,
                         -1, -1};
      // The second part has no bias: its data is null.
      biasWeight.parts[p] = {p == 1 ? nullptr : bias[p].data(), nullptr, rows,
                             -1, -1};
    }
    desc.module = "test";
    desc.n = n, desc.k = c.k;
    desc.block_n = c.bn, desc.block_k = c.bk;
    desc.x_type = c.x, desc.w_type = c.w, desc.y_type = c.y;
    desc.bias_type = c.bias;
    desc.w_scale_mode = c.wScale, desc.x_scale_mode = c.xScale;
    desc.w_scale_type = OCTET_F32;
  }

  Tensor run(rt::ThreadPool &pool, const rt::KernelTable &kernels,
             int64_t firstRow, int64_t rows) const {
    Tensor y(c.y, rows * n);
    for (int64_t i = 0; i < y.count; ++i)
      y.set(i, 12345); // everything must be written
    const float *scales = xScale.data();
    if (c.xScale == OCTET_SCALE_CHANNEL)
      scales += firstRow;
    else if (c.xScale == OCTET_SCALE_BLOCK)
      scales += firstRow * blocks;
    const char *data = static_cast<const char *>(x.data()) +
                       firstRow * c.k * static_cast<int64_t>(bytesOf(c.x));
    kernels.gemm(pool, desc, rows, data, scales, weight,
                 c.bias < 0 ? nullptr : &biasWeight, y.data());
    return y;
  }

  float xs(int64_t i, int64_t b) const {
    switch (c.xScale) {
    case OCTET_SCALE_TENSOR:
      return xScale[0];
    case OCTET_SCALE_CHANNEL:
      return xScale[i];
    case OCTET_SCALE_BLOCK:
      return xScale[i * blocks + b];
    default:
      return 1;
    }
  }
  float ws(size_t p, int64_t row, int64_t b) const {
    switch (c.wScale) {
    case OCTET_SCALE_TENSOR:
      return wScale[p][0];
    case OCTET_SCALE_CHANNEL:
      return wScale[p][row];
    case OCTET_SCALE_BLOCK:
      return wScale[p][row / c.bn * blocks + b]; // W5b
    default:
      return 1;
    }
  }

  void check(const Tensor &y, int level) const {
    std::vector<float> xv(c.m * c.k), wv(c.k);
    for (int64_t i = 0; i < c.m * c.k; ++i)
      xv[i] = x.value(i);
    const double adds =
        level == OCTET_LEVEL_AMX
            ? std::min<int64_t>(c.k, 512) / 2.0 + c.k / 32.0 + 16
            : c.k / 16.0 + c.k / 1024.0 + 16;
    const double roundings = 2 * adds * 0x1p-24;
    int64_t column = 0;
    for (size_t p = 0; p < c.parts.size(); ++p) {
      for (int64_t row = 0; row < c.parts[p]; ++row, ++column) {
        for (int64_t k = 0; k < c.k; ++k)
          wv[k] = w[p].value(row * c.k + k);
        for (int64_t i = 0; i < c.m; ++i) {
          double sum = 0, magnitude = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            const int64_t b = c.bk ? k / c.bk : 0;
            const double term =
                double(xv[i * c.k + k]) * wv[k] * xs(i, b) * ws(p, row, b);
            sum += term;
            magnitude += std::fabs(term);
          }
          if (c.bias >= 0 && p != 1) {
            sum += bias[p].value(row);
            magnitude += std::fabs(bias[p].value(row));
          }
          const double bound =
              roundings * magnitude +
              roundingError(c.y, std::fabs(sum) + roundings * magnitude);
          const double got = y.value(i * n + column);
          ASSERT_LE(std::fabs(got - sum), bound)
              << "at [" << i << ", " << column << "]: " << got << " (0x"
              << std::hex << y.bits(i * n + column) << ") and " << sum;
        }
      }
    }
  }
};

/// Shapes with every kind of edge: one element, less than a chunk, one more
/// than a chunk or segment, rows that no tile divides.
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {1, 1},   {1, 64},   {2, 31},   {3, 100},  {4, 128},  {5, 65},  {7, 200},
      {9, 576}, {17, 257}, {66, 300}, {1, 2500}, {6, 1025}, {40, 160}};
  const std::vector<std::vector<int64_t>> parts = {
      {1}, {16}, {33, 7}, {50, 3, 5}, {97}};
  struct Types {
    int32_t x, w, y, wScale, xScale;
    int64_t bn, bk;
    int32_t bias;
  };
  constexpr int32_t F32 = OCTET_F32, B = OCTET_BF16, H = OCTET_F16,
                    E = OCTET_E4M3, none = OCTET_SCALE_NONE,
                    tensor = OCTET_SCALE_TENSOR, channel = OCTET_SCALE_CHANNEL,
                    block = OCTET_SCALE_BLOCK;
  const std::vector<Types> types = {
      // unquantised
      {F32, F32, F32, none, none, 0, 0, F32},
      {F32, B, F32, none, none, 0, 0, -1},
      {F32, H, F32, none, none, 0, 0, H},
      {B, B, B, none, none, 0, 0, B},
      {B, B, F32, none, none, 0, 0, -1},
      {B, F32, B, none, none, 0, 0, -1},
      {B, H, B, none, none, 0, 0, -1},
      {H, H, H, none, none, 0, 0, H},
      {H, B, H, none, none, 0, 0, -1},
      {H, F32, F32, none, none, 0, 0, -1},
      // FP8 by FP8: tensor, channel and block scales (N6, N6b)
      {E, E, B, tensor, tensor, 0, 0, B},
      {E, E, F32, channel, tensor, 0, 0, F32},
      {E, E, B, channel, channel, 0, 0, B},
      {E, E, H, channel, channel, 0, 0, -1},
      {E, E, B, block, block, 16, 128, B},
      {E, E, F32, block, block, 8, 64, -1},
      {E, E, F32, block, block, 5, 32, F32},
      {E, E, B, block, block, 1, 32, -1},
      {E, E, F32, block, block, 16, 48, -1},
      {E, E, B, channel, block, 0, 128, -1},
      {E, B, F32, none, tensor, 0, 0, -1},
      // weights only
      {F32, E, F32, block, none, 16, 128, F32},
      {F32, E, F32, tensor, none, 0, 0, -1},
      {B, E, B, block, none, 16, 128, -1},
      {B, E, B, channel, none, 0, 0, B},
      {H, E, H, block, none, 4, 64, -1},
      {B, E, F32, none, none, 0, 0, -1},
      {B, E, B, block, none, 1, 32, B},
      {F32, E, F32, block, none, 1, 32, -1},
      {B, OCTET_I8, B, channel, none, 0, 0, B},
      {F32, OCTET_I8, F32, tensor, none, 0, 0, -1},
      {H, OCTET_I8, H, channel, none, 0, 0, -1},
  };
  for (size_t t = 0; t < types.size(); ++t) {
    for (size_t s = 0; s < sizes.size(); ++s) {
      const Types &ty = types[t];
      all.push_back({sizes[s].first, sizes[s].second,
                     parts[(s + t) % parts.size()], ty.x, ty.w, ty.y, ty.wScale,
                     ty.xScale, ty.bn, ty.bk, ty.bias});
    }
  }
  return all;
}

class Gemm : public EveryLevel {};
OCTET_EVERY_LEVEL(Gemm);

TEST_P(Gemm, N6_N6b_MatchesDouble) {
  std::mt19937 random(kSeed);
  rt::ThreadPool pool(2);
  for (const Case &c : cases()) {
    SCOPED_TRACE(::testing::Message() << c << ", seed " << kSeed);
    Operands operands(c, random);
    operands.check(operands.run(pool, kernels(), 0, c.m), GetParam());
    if (HasFatalFailure())
      return;
  }
}

TEST_P(Gemm, B5_RowsAndThreadsDoNotMatter) {
  std::mt19937 random(kSeed + 1);
  rt::ThreadPool one(1), two(2), three(3), seven(7);
  for (const Case &c : cases()) {
    SCOPED_TRACE(::testing::Message() << c);
    Operands operands(c, random);
    const Tensor whole = operands.run(one, kernels(), 0, c.m);
    for (rt::ThreadPool *pool : {&two, &three, &seven})
      ASSERT_TRUE(
          sameBits(whole, operands.run(*pool, kernels(), 0, c.m), operands.n));
    for (int64_t rows : {1, 2, 3, 4, 5, 8}) {
      for (int64_t first = 0; first < c.m; first += rows) {
        const int64_t count = std::min(rows, c.m - first);
        const Tensor part = operands.run(two, kernels(), first, count);
        for (int64_t i = 0; i < part.count; ++i)
          ASSERT_EQ(part.bits(i), whole.bits(first * operands.n + i))
              << "row " << first + i / operands.n << " in a batch of " << count;
      }
    }
  }
}

TEST_P(Gemm, B5_LongBatch) {
  // More rows than are packed at once, and a split of them over threads.
  std::mt19937 random(kSeed + 2);
  rt::ThreadPool one(1), seven(7);
  for (int32_t type : {OCTET_BF16, OCTET_E4M3}) {
    Case c{1100, 130, {40}, type, type, OCTET_F32};
    if (type == OCTET_E4M3) {
      c.wScale = c.xScale = OCTET_SCALE_BLOCK;
      c.bn = c.bk = 128;
    }
    Operands operands(c, random);
    const Tensor whole = operands.run(one, kernels(), 0, c.m);
    EXPECT_TRUE(
        sameBits(whole, operands.run(seven, kernels(), 0, c.m), operands.n));
    operands.check(whole, GetParam());
    for (int64_t row : {0, 511, 512, 1099}) {
      const Tensor alone = operands.run(one, kernels(), row, 1);
      for (int64_t j = 0; j < operands.n; ++j)
        ASSERT_EQ(alone.bits(j), whole.bits(row * operands.n + j)) << row;
    }
  }
}

TEST_P(Gemm, AllE4M3CodesAreExact) {
  // y[0, j] = the value of code j: one product of 1, all others 0.
  rt::ThreadPool pool(1);
  for (int32_t x : {OCTET_F32, OCTET_BF16, OCTET_F16, OCTET_E4M3}) {
    for (int64_t place : {0, 9, 40, 63, 64, 69}) {
      Case c{1, 70, {256}, x, OCTET_E4M3, OCTET_F32};
      std::mt19937 random(1);
      Operands operands(c, random);
      for (int64_t k = 0; k < c.k; ++k)
        operands.x.set(k, k == place ? 1 : 0);
      for (int64_t j = 0; j < 256; ++j)
        for (int64_t k = 0; k < c.k; ++k)
          operands.w[0].setBits(j * c.k + k, k == place ? uint32_t(j) : 0x38);
      for (int64_t rows : {1, 9}) {
        octet_gemm_desc desc = operands.desc;
        Tensor xs(x, rows * c.k);
        for (int64_t i = 0; i < xs.count; ++i)
          xs.setBits(i, operands.x.bits(i % c.k));
        Tensor y(OCTET_F32, rows * 256);
        kernels().gemm(pool, desc, rows, xs.data(), nullptr, operands.weight,
                       nullptr, y.data());
        for (int64_t j = 0; j < rows * 256; ++j) {
          const float expected = decodeE4M3(static_cast<uint8_t>(j % 256));
          if (std::isnan(expected))
            EXPECT_TRUE(std::isnan(y.value(j))) << j;
          else
            EXPECT_EQ(y.value(j), expected) << j << " place " << place;
        }
      }
    }
  }
}

TEST_P(Gemm, NaNStaysInItsRow) {
  std::mt19937 random(kSeed + 3);
  rt::ThreadPool pool(2);
  for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16, OCTET_E4M3}) {
    Case c{7, 150, {20}, type, type, OCTET_F32};
    Operands operands(c, random);
    operands.x.set(3 * c.k + 149, std::nanf(""));
    const Tensor y = operands.run(pool, kernels(), 0, c.m);
    for (int64_t i = 0; i < y.count; ++i)
      EXPECT_EQ(std::isnan(y.value(i)), i / 20 == 3) << nameOf(type) << i;
  }
}

TEST_P(Gemm, ZerosGiveTheBias) {
  std::mt19937 random(kSeed + 4);
  rt::ThreadPool pool(2);
  for (int64_t m : {1, 9}) {
    Case c{m, 200, {20, 4}, OCTET_E4M3, OCTET_E4M3, OCTET_BF16};
    c.wScale = c.xScale = OCTET_SCALE_BLOCK;
    c.bn = c.bk = 128;
    c.bias = OCTET_BF16;
    Operands operands(c, random);
    for (int64_t i = 0; i < operands.x.count; ++i)
      operands.x.set(i, 0);
    const Tensor y = operands.run(pool, kernels(), 0, m);
    for (int64_t i = 0; i < y.count; ++i) {
      const int64_t j = i % 24;
      EXPECT_EQ(y.value(i), j < 20 ? operands.bias[0].value(j) : 0);
    }
  }
}

TEST_P(Gemm, EmptyShapes) {
  rt::ThreadPool pool(2);
  std::mt19937 random(1);
  Case c{3, 0, {5}, OCTET_BF16, OCTET_BF16, OCTET_F32};
  Operands operands(c, random);
  const Tensor y = operands.run(pool, kernels(), 0, 3);
  for (int64_t i = 0; i < y.count; ++i)
    EXPECT_EQ(y.value(i), 0);
  EXPECT_EQ(operands.run(pool, kernels(), 0, 0).count, 0);
}

TEST(GemmLevels, FmaFamilyIsEqualAtV3AndAVX512) {
  if (rt::detectLevel() < OCTET_LEVEL_AVX512)
    GTEST_SKIP() << "this machine has no SIMD level avx512";
  std::mt19937 random(kSeed + 5);
  rt::ThreadPool pool(2);
  for (const Case &c : cases()) {
    SCOPED_TRACE(::testing::Message() << c);
    Operands operands(c, random);
    ASSERT_TRUE(sameBits(
        operands.run(pool, rt::kernelTable(OCTET_LEVEL_V3), 0, c.m),
        operands.run(pool, rt::kernelTable(OCTET_LEVEL_AVX512), 0, c.m),
        operands.n));
  }
}

} // namespace
