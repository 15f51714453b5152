//===- RowCodeTest.cpp - Generated row code against the reference ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each test compiles a kernel.rowwise, runs it at every SIMD level of this
// machine and compares bits with lib/Numerics or with scalar code written out
// here, whose products and sums stand in statements of their own so that none
// is contracted. Random data comes from fixed seeds.
//
//===----------------------------------------------------------------------===//

#include "HostProgram.h"
#include "octet/Numerics/Numerics.h"
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace octet;
using namespace octet::test;

namespace {

constexpr uint32_t kSeed = 20250611;

uint32_t bitsOf(float x) { return std::bit_cast<uint32_t>(x); }
float floatOf(uint32_t x) { return std::bit_cast<float>(x); }

/// Both are NaN, or the same bits.
::testing::AssertionResult sameBits(float got, float want) {
  if (bitsOf(got) == bitsOf(want))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << got << " (0x" << std::hex << bitsOf(got) << "), expected "
         << std::dec << want << " (0x" << std::hex << bitsOf(want) << ")";
}

/// Floats that sit on and around every rounding boundary of a narrow format
/// given by its values, specials, and random bit patterns.
std::vector<float> hardFloats(const std::vector<float> &values) {
  std::vector<float> out = {0.0f,
                            -0.0f,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            -NAN,
                            floatOf(0x7F800001u),
                            floatOf(0xFFFFFFFFu),
                            floatOf(1u),
                            floatOf(0x807FFFFFu),
                            448.0f,
                            464.0f,
                            480.0f,
                            1e30f,
                            -1e30f,
                            FLT_MAX,
                            FLT_MIN};
  auto around = [&](float x) {
    for (int step = -2; step <= 2; ++step)
      for (uint32_t sign : {0u, 0x80000000u})
        out.push_back(floatOf((bitsOf(x) + step) ^ sign));
  };
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    around(values[i]);
    around((values[i] + values[i + 1]) / 2);
  }
  std::mt19937 random(kSeed);
  for (int i = 0; i < 20000; ++i)
    out.push_back(floatOf(random()));
  for (int i = 0; i < 20000; ++i) // exponents near those of FP8
    out.push_back(
        floatOf((random() & 0x807FFFFFu) | ((110 + random() % 30) << 23)));
  return out;
}

std::vector<float> e4m3Values() {
  std::vector<float> values;
  for (int code = 0; code < 0x7F; ++code)
    values.push_back(decodeE4M3(code));
  return values;
}

/// Rows of `width`, the last filled up with zeros.
int64_t padRows(std::vector<float> &values, int64_t width) {
  int64_t rows = (values.size() + width - 1) / width;
  values.resize(rows * width, 0.0f);
  return rows;
}

octet_batch batchOf(int64_t rows) {
  octet_batch batch{};
  batch.num_rows = rows;
  return batch;
}

std::vector<float> gaussian(int64_t n, uint32_t seed, float scale = 1.0f) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> out(n);
  for (float &x : out)
    x = normal(random);
  return out;
}

} // namespace

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

// N1, N2: all boundaries of all codes, at a width with a tail of every length.
TEST(RowCode, StaticQuantizeMatchesReference) {
  for (int64_t width : {1, 7, 16, 37, 96}) {
    std::vector<float> x = hardFloats(e4m3Values());
    int64_t rows = padRows(x, width);
    int64_t codes = (rows * width * 4 + 63) / 64 * 64;
    int64_t scales = codes + (rows * width + 63) / 64 * 64;
    HostProgram program(
        makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %q = kernel.place $C scales $S : !kernel.buffer<!q.tensor<?x$Kxf8E4M3FN, per_tensor, f32>>
    %s = q.weight @s : tensor<f32>
    kernel.rowwise "quantize" tokens of %b ins(%x, %s : !kernel.buffer<tensor<?x$Kxf32>>, tensor<f32>) access [row, uniform]
        outs(%q : !kernel.buffer<!q.tensor<?x$Kxf8E4M3FN, per_tensor, f32>>) {
    ^bb0(%r: tensor<$Kxf32>, %t: tensor<1xf32>):
      %c = q.quantize %r, %t : tensor<$Kxf32>, tensor<1xf32> -> !q.tensor<1x$Kxf8E4M3FN, per_tensor, f32>
      kernel.yield %c : !q.tensor<1x$Kxf8E4M3FN, per_tensor, f32>
    })",
                        {{"K", width}, {"C", codes}, {"S", scales}}),
                   scales + 64, "  q.slot @s[1] : tensor<f32>"),
        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    for (float scale : {1.0f, 0.37f})
      for (int level : levels()) {
        HostRun run(program.program(), level);
        run.chunk = 3;
        run.setWeight(0, &scale);
        std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
        ASSERT_EQ(run.step(batchOf(rows)), 0);
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_EQ(int(run.at<uint8_t>(codes)[i]),
                    int(quantizeE4M3(x[i], scale)))
              << x[i] << " (0x" << std::hex << bitsOf(x[i]) << ") / " << scale
              << " at level " << level << ", width " << width;
        EXPECT_EQ(*run.at<float>(scales), scale);
      }
  }
}

// N2, N3, N4: dynamic scales, groups of zeros, ragged groups (W4), NaN.
TEST(RowCode, DynamicQuantizeMatchesReference) {
  struct Case {
    int64_t width, group;
    const char *granularity;
    bool ue8m0;
  } cases[] = {
      {256, 128, "block<1x128>", false}, {320, 128, "block<1x128>", false},
      {320, 128, "block<1x128>", true},  {45, 32, "block<1x32>", false},
      {100, 20, "block<1x20>", false},   {16, 16, "block<1x16>", true},
      {96, 96, "per_token", false},      {37, 37, "per_token", false},
      {1, 1, "per_token", false},        {640, 640, "per_token", true}};
  for (const Case &c : cases) {
    const int64_t rows = 40, groups = (c.width + c.group - 1) / c.group;
    std::vector<float> x = gaussian(rows * c.width, kSeed);
    for (int64_t i = 0; i < c.width; ++i) {
      x[i] = 0;                 // N3
      x[c.width + i] *= 1e-20f; // below the floor
      x[2 * c.width + i] *= 1e30f;
      x[3 * c.width + i] = std::ldexp(1.75f, int(i % 40) - 20);
      x[4 * c.width + i] = i == 0 ? NAN : x[4 * c.width + i];
      x[5 * c.width + i] = i == 0 ? INFINITY : x[5 * c.width + i];
      x[6 * c.width + i] = 448.0f; // a scale of exactly one
    }
    int64_t codes = (rows * c.width * 4 + 63) / 64 * 64;
    int64_t scales = codes + (rows * c.width + 63) / 64 * 64;
    HostProgram program(makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %q = kernel.place $C scales $S : !kernel.buffer<!q.tensor<?x$Kxf8E4M3FN, $G, f32>>
    kernel.rowwise "quantize" tokens of %b ins(%x : !kernel.buffer<tensor<?x$Kxf32>>) access [row]
        outs(%q : !kernel.buffer<!q.tensor<?x$Kxf8E4M3FN, $G, f32>>) {
    ^bb0(%r: tensor<$Kxf32>):
      %c = q.quantize %r $U : tensor<$Kxf32> -> !q.tensor<1x$Kxf8E4M3FN, $G, f32>
      kernel.yield %c : !q.tensor<1x$Kxf8E4M3FN, $G, f32>
    })",
                                        std::map<std::string, std::string>{
                                            {"K", std::to_string(c.width)},
                                            {"C", std::to_string(codes)},
                                            {"S", std::to_string(scales)},
                                            {"G", c.granularity},
                                            {"U", c.ue8m0 ? "ue8m0" : ""}}),
                                   scales + rows * groups * 4 + 64),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    std::vector<uint8_t> q(x.size());
    std::vector<float> s(rows * groups);
    quantizeRows(x, rows, c.width, c.group, c.ue8m0, q, s);
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.chunk = 7;
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      ASSERT_EQ(run.step(batchOf(rows)), 0);
      for (size_t i = 0; i < s.size(); ++i)
        ASSERT_TRUE(sameBits(run.at<float>(scales)[i], s[i]))
            << "scale " << i << " of " << c.granularity << " level " << level;
      for (size_t i = 0; i < q.size(); ++i)
        ASSERT_EQ(int(run.at<uint8_t>(codes)[i]), int(q[i]))
            << "code " << i << " of " << c.granularity << " level " << level
            << ": " << x[i];
    }
  }
}

/// A kernel `$IN` rows to `$OUT` rows with that body over %r.
static std::string convertKernel(const std::string &in, const std::string &out,
                                 const std::string &body, int64_t width,
                                 int64_t place, int64_t bytes) {
  return makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kx$IN>>
    %y = kernel.place $P : !kernel.buffer<tensor<?x$Kx$OUT>>
    kernel.rowwise "convert" tokens of %b ins(%x : !kernel.buffer<tensor<?x$Kx$IN>>) access [row]
        outs(%y : !kernel.buffer<tensor<?x$Kx$OUT>>) {
    ^bb0(%r: tensor<$Kxf32>):
      $BODY
    })",
                         std::map<std::string, std::string>{
                             {"BODY", body}, // first: it holds $K too
                             {"IN", in},
                             {"OUT", out},
                             {"K", std::to_string(width)},
                             {"P", std::to_string(place)}}),
                    bytes);
}

// Loads widen exactly: all 65536 values of both types.
TEST(RowCode, LoadsWidenExactly) {
  for (bool bf16 : {true, false}) {
    const int64_t width = 257, rows = 256, place = 131648;
    HostProgram program(convertKernel(bf16 ? "bf16" : "f16", "f32",
                                      "kernel.yield %r : tensor<$Kxf32>", width,
                                      place, place + width * rows * 4),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    for (int level : levels()) {
      HostRun run(program.program(), level);
      for (int64_t i = 0; i < width * rows; ++i)
        run.at<uint16_t>(0)[i] = uint16_t(i);
      ASSERT_EQ(run.step(batchOf(rows)), 0);
      for (int64_t i = 0; i < width * rows; ++i)
        ASSERT_TRUE(sameBits(run.at<float>(place)[i],
                             bf16 ? decodeBF16(i) : decodeF16(i)))
            << i << " level " << level;
    }
  }
}

// kernel.round to nearest even; NaN stays NaN.
TEST(RowCode, RoundMatchesReference) {
  for (bool bf16 : {true, false}) {
    std::vector<float> values;
    for (uint32_t i = 0; i < 0x7F80; i += 7)
      values.push_back(bf16 ? decodeBF16(i) : decodeF16(i & 0x7BFF));
    std::vector<float> x = hardFloats(values);
    for (float more : {65504.0f, 65519.9f, 65520.0f, 65536.0f, 3.39e38f})
      x.push_back(more);
    const int64_t width = 61;
    int64_t rows = padRows(x, width);
    int64_t place = (x.size() * 4 + 63) / 64 * 64;
    std::string type = bf16 ? "bf16" : "f16";
    HostProgram program(
        convertKernel(
            "f32", type,
            "%o = kernel.round %r to " + type +
                " : tensor<$Kxf32>\n kernel.yield %o : tensor<$Kxf32>",
            width, place, place + x.size() * 2),
        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    for (int level : levels()) {
      HostRun run(program.program(), level);
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      ASSERT_EQ(run.step(batchOf(rows)), 0);
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(run.at<uint16_t>(place)[i],
                  bf16 ? encodeBF16(x[i]) : encodeF16(x[i]))
            << x[i] << " (0x" << std::hex << bitsOf(x[i]) << ") level "
            << level;
    }
  }
}

// Within 2 units in the last place of the true value, on every scale.
TEST(RowCode, ExpIsAccurate) {
  std::vector<float> x = {
      0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,    88.7228f, 88.8f,  89.5f,
      -87.3f, -100.0f, -103.9f,  -104.1f,   1e-30f, -1e-30f,  200.0f, -200.0f};
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> near(-4.0f, 4.0f), far(-110.0f, 95.0f);
  for (int i = 0; i < 50000; ++i)
    x.push_back(i % 2 ? near(random) : far(random));
  const int64_t width = 333;
  int64_t rows = padRows(x, width);
  int64_t place = (x.size() * 4 + 63) / 64 * 64;
  HostProgram program(
      convertKernel("f32", "f32",
                    "%o = math.exp %r : tensor<$Kxf32>\n kernel.yield %o : "
                    "tensor<$Kxf32>",
                    width, place, place + x.size() * 4),
      "octet-lower-to-host");
  ASSERT_TRUE(program.program()) << program.messages();
  for (int level : levels()) {
    HostRun run(program.program(), level);
    std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
    ASSERT_EQ(run.step(batchOf(rows)), 0);
    for (size_t i = 0; i < x.size(); ++i) {
      float got = run.at<float>(place)[i];
      double want = std::exp(double(x[i]));
      if (std::isnan(x[i])) {
        ASSERT_TRUE(std::isnan(got));
        continue;
      }
      float nearest = float(want);
      if (std::isinf(nearest) || nearest == 0) {
        ASSERT_EQ(got, nearest) << x[i];
        continue;
      }
      double unit = std::nextafter(nearest, INFINITY) - double(nearest);
      ASSERT_LE(std::fabs(got - want), 2 * unit)
          << x[i] << " gives " << got << " at level " << level;
    }
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// The sum of a row in double, for a tolerance that follows from the width.
static double sumOf(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += x[i];
  return sum;
}

// W4: rows and groups of any length; every level the same bits.
TEST(RowCode, ReductionsOfAnyWidth) {
  struct Case {
    int64_t width, group;
  } cases[] = {{1, 0},    {5, 0},   {16, 0},   {17, 0},
               {64, 0},   {100, 0}, {1000, 0}, {4096, 0},
               {384, 64}, {72, 24}, {100, 30}, {640, 128}};
  for (Case c : cases) {
    const int64_t rows = 9;
    int64_t groups = c.group ? (c.width + c.group - 1) / c.group : 1;
    int64_t group = c.group ? c.group : c.width;
    std::vector<float> x = gaussian(rows * c.width, kSeed + c.width);
    int64_t sums = (x.size() * 4 + 63) / 64 * 64;
    int64_t maxima = sums + 64 * rows * groups;
    std::string by = c.group ? " group " + std::to_string(c.group) : "";
    HostProgram program(makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %y = kernel.place $S : !kernel.buffer<tensor<?x$Gxf32>>
    %z = kernel.place $M : !kernel.buffer<tensor<?x$Gxf32>>
    kernel.rowwise "reduce" tokens of %b ins(%x : !kernel.buffer<tensor<?x$Kxf32>>) access [row]
        outs(%y, %z : !kernel.buffer<tensor<?x$Gxf32>>, !kernel.buffer<tensor<?x$Gxf32>>) {
    ^bb0(%r: tensor<$Kxf32>):
      %s = kernel.reduce add %r $B : tensor<$Kxf32> -> tensor<$Gxf32>
      %m = kernel.reduce max %r $B : tensor<$Kxf32> -> tensor<$Gxf32>
      kernel.yield %s, %m : tensor<$Gxf32>, tensor<$Gxf32>
    })",
                                        std::map<std::string, std::string>{
                                            {"K", std::to_string(c.width)},
                                            {"G", std::to_string(groups)},
                                            {"S", std::to_string(sums)},
                                            {"M", std::to_string(maxima)},
                                            {"B", by}}),
                                   maxima + 64 * rows * groups),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    std::vector<float> first;
    for (int level : levels()) {
      HostRun run(program.program(), level);
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      ASSERT_EQ(run.step(batchOf(rows)), 0);
      std::vector<float> got(run.at<float>(sums),
                             run.at<float>(sums) + rows * groups);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t g = 0; g < groups; ++g) {
          const float *from = &x[i * c.width + g * group];
          int64_t n = std::min(group, c.width - g * group);
          double magnitude = 0;
          for (int64_t j = 0; j < n; ++j)
            magnitude += std::fabs(from[j]);
          // Each of n sums rounds by at most 2^-24 of the magnitude.
          ASSERT_NEAR(got[i * groups + g], sumOf(from, n),
                      n * 0x1p-24 * magnitude + 1e-30);
          ASSERT_EQ(run.at<float>(maxima)[i * groups + g],
                    *std::max_element(from, from + n));
        }
      if (first.empty())
        first = got;
      ASSERT_EQ(std::memcmp(first.data(), got.data(), got.size() * 4), 0)
          << "level " << level << " width " << c.width;
    }
  }
}

// P6: halves, neighbours, partial rotation; widths that fit no vector.
TEST(RowCode, RopeMatchesScalarCode) {
  struct Case {
    int64_t heads, dim, half;
    bool interleaved;
  } cases[] = {{6, 64, 32, false}, {2, 24, 12, false}, {3, 16, 8, false},
               {2, 64, 16, false}, {2, 40, 10, false}, {4, 64, 32, true},
               {3, 10, 4, true}};
  for (const Case &c : cases) {
    const int64_t rows = 5, width = c.heads * c.dim, positions = 11;
    std::vector<float> x = gaussian(rows * width, kSeed);
    std::vector<float> table = gaussian(positions * 2 * c.half, kSeed + 1);
    std::vector<int32_t> index = {3, 0, 10, 3, 7};
    int64_t place = (x.size() * 4 + 63) / 64 * 64;
    HostProgram program(
        makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %y = kernel.place $P : !kernel.buffer<tensor<?x$Kxf32>>
    %t = q.weight @t : tensor<11x$Txf32>
    %p = model.field positions of %b : tensor<?xi32>
    kernel.rowwise "rope" tokens of %b ins(%x, %t : !kernel.buffer<tensor<?x$Kxf32>>, tensor<11x$Txf32>) access [row, indexed]
        indices(%p : tensor<?xi32>) outs(%y : !kernel.buffer<tensor<?x$Kxf32>>) {
    ^bb0(%r: tensor<$Kxf32>, %u: tensor<$Txf32>):
      %d = arith.addf %r, %r : tensor<$Kxf32>
      %o = kernel.rope %d, %u head_dim $D $I : tensor<$Kxf32>, tensor<$Txf32> -> tensor<$Kxf32>
      kernel.yield %o : tensor<$Kxf32>
    })",
                        std::map<std::string, std::string>{
                            {"K", std::to_string(width)},
                            {"P", std::to_string(place)},
                            {"T", std::to_string(2 * c.half)},
                            {"D", std::to_string(c.dim)},
                            {"I", c.interleaved ? "interleaved" : ""}}),
                   2 * place + 64,
                   "  q.slot @t[1] : tensor<11x" + std::to_string(2 * c.half) +
                       "xf32>"),
        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    std::vector<float> want(x.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t h = 0; h < c.heads; ++h) {
        const float *row = &x[i * width + h * c.dim];
        float *out = &want[i * width + h * c.dim];
        const float *t = &table[index[i] * 2 * c.half];
        for (int64_t j = 0; j < c.dim; ++j)
          out[j] = row[j] + row[j];
        for (int64_t j = 0; j < c.half; ++j) {
          int64_t p = c.interleaved ? 2 * j : j;
          int64_t q = c.interleaved ? 2 * j + 1 : j + c.half;
          float a = row[p] + row[p], b = row[q] + row[q];
          volatile float ac = a * t[j], bs = b * t[c.half + j];
          volatile float bc = b * t[j], as = a * t[c.half + j];
          out[p] = ac - bs;
          out[q] = bc + as;
        }
      }
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.setWeight(0, table.data());
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      octet_batch batch = batchOf(rows);
      batch.positions = index.data();
      ASSERT_EQ(run.step(batch), 0);
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_TRUE(sameBits(run.at<float>(place)[i], want[i]))
            << "element " << i << " of head_dim " << c.dim << " half " << c.half
            << " level " << level;
    }
  }
}

// A head's weight for all heads, groups that cut vectors, values kept between
// loops, a result beside a quantised one.
TEST(RowCode, HeadNormMatchesScalarCode) {
  for (int64_t dim : {64, 24, 128, 10}) {
    const int64_t heads = 3, width = heads * dim, rows = 6;
    std::vector<float> x = gaussian(rows * width, kSeed + dim, 2.0f);
    std::vector<float> w = gaussian(dim, kSeed + 1);
    int64_t place = (x.size() * 4 + 63) / 64 * 64;
    int64_t codes = 2 * place, scales = 3 * place;
    HostProgram program(
        makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %y = kernel.place $P : !kernel.buffer<tensor<?x$Kxf32>>
    %q = kernel.place $C scales $S : !kernel.buffer<!q.tensor<?x$Kxf8E4M3FN, block<1x32>, f32>>
    %g = q.weight @g : tensor<$Dxf32>
    kernel.rowwise "norm" tokens of %b ins(%x, %g : !kernel.buffer<tensor<?x$Kxf32>>, tensor<$Dxf32>) access [row, uniform]
        outs(%y, %q : !kernel.buffer<tensor<?x$Kxf32>>, !kernel.buffer<!q.tensor<?x$Kxf8E4M3FN, block<1x32>, f32>>) {
    ^bb0(%r: tensor<$Kxf32>, %w: tensor<$Dxf32>):
      %m = kernel.reduce max %r group $D : tensor<$Kxf32> -> tensor<3xf32>
      %a = arith.addf %m, %m : tensor<3xf32>
      %c = kernel.broadcast %a group $D : tensor<3xf32> -> tensor<$Kxf32>
      %t = kernel.tile %w : tensor<$Dxf32> -> tensor<$Kxf32>
      %d = arith.divf %r, %c : tensor<$Kxf32>
      %n = arith.mulf %d, %t : tensor<$Kxf32>
      %o = q.quantize %n : tensor<$Kxf32> -> !q.tensor<1x$Kxf8E4M3FN, block<1x32>, f32>
      kernel.yield %n, %o : tensor<$Kxf32>, !q.tensor<1x$Kxf8E4M3FN, block<1x32>, f32>
    })",
                        {{"K", width},
                         {"P", place},
                         {"D", dim},
                         {"C", codes},
                         {"S", scales}}),
                   4 * place + 64,
                   "  q.slot @g[1] : tensor<" + std::to_string(dim) + "xf32>"),
        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    std::vector<float> want(x.size());
    for (int64_t i = 0; i < rows * heads; ++i) {
      float most = *std::max_element(&x[i * dim], &x[i * dim] + dim);
      float twice = most + most;
      for (int64_t j = 0; j < dim; ++j) {
        volatile float quotient = x[i * dim + j] / twice;
        want[i * dim + j] = quotient * w[j];
      }
    }
    int64_t groups = (width + 31) / 32;
    std::vector<uint8_t> q(x.size());
    std::vector<float> s(rows * groups);
    quantizeRows(want, rows, width, 32, false, q, s);
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.chunk = 1;
      run.setWeight(0, w.data());
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      ASSERT_EQ(run.step(batchOf(rows)), 0);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_TRUE(sameBits(run.at<float>(place)[i], want[i]))
            << i << " dim " << dim << " level " << level;
        ASSERT_EQ(run.at<uint8_t>(codes)[i], q[i]);
      }
      for (size_t i = 0; i < s.size(); ++i)
        ASSERT_TRUE(sameBits(run.at<float>(scales)[i], s[i]));
    }
  }
}

// P7a: keys and values go to the rows that the slots name, in the cache's type.
TEST(RowCode, CacheRows) {
  for (std::string type : {"bf16", "f16", "f32", "fp8_e4m3"}) {
    const int64_t width = 2 * 20, rows = 4;
    std::vector<float> x = gaussian(rows * 2 * width, kSeed, 3.0f);
    std::vector<int32_t> slots = {70, 2, 127, 64};
    bool fp8 = type == "fp8_e4m3";
    std::string element = "tensor<40xf32>";
    std::string code = "!q.tensor<1x40xf8E4M3FN, per_tensor, f32>";
    std::string body;
    if (fp8)
      body = "%c = q.quantize %k, %s : tensor<40xf32>, tensor<1xf32> -> " +
             code +
             "\n%d = q.quantize %v, %s : tensor<40xf32>, tensor<1xf32> -> " +
             code + "\nkernel.yield %c, %d : " + code + ", " + code;
    else if (type == "f32")
      body = "kernel.yield %k, %v : tensor<40xf32>, tensor<40xf32>";
    else
      body = "%c = kernel.round %k to " + type +
             " : tensor<40xf32>\n%d = kernel.round %v to " + type +
             " : tensor<40xf32>\nkernel.yield %c, %d : tensor<40xf32>, "
             "tensor<40xf32>";
    HostProgram program(makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x80xf32>>
    %t = q.weight @s : tensor<f32>
    %p = model.field slots of %b : tensor<?xi32>
    %l = arith.constant 1 : index
    %cache = q.kv_cache[%l] : !q.kv<$T, page = 64, heads = 2, dim = 20>
    kernel.rowwise "kv" tokens of %b ins(%x, %t : !kernel.buffer<tensor<?x80xf32>>, tensor<f32>) access [row, uniform]
        cache(%cache, %p : !q.kv<$T, page = 64, heads = 2, dim = 20>, tensor<?xi32>) {
    ^bb0(%r: tensor<80xf32>, %s: tensor<1xf32>):
      %k = kernel.slice %r at 0 : tensor<80xf32> -> tensor<40xf32>
      %v = kernel.slice %r at 40 : tensor<80xf32> -> tensor<40xf32>
      $BODY
    })",
                                        std::map<std::string, std::string>{
                                            {"T", type}, {"BODY", body}}),
                                   4096, "  q.slot @s[1] : tensor<f32>"),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    const float scale = 0.021f;
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.setWeight(0, &scale);
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      std::vector<uint8_t> k(128 * width * 4, 0xEE), v(k);
      octet_kv_layer layers[] = {{nullptr, nullptr}, {k.data(), v.data()}};
      run.kv = layers;
      octet_batch batch = batchOf(rows);
      batch.slots = slots.data();
      ASSERT_EQ(run.step(batch), 0);
      size_t bytes = fp8 ? 1 : type == "f32" ? 4 : 2;
      std::vector<uint8_t> wantK(k.size(), 0xEE), wantV(wantK);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < 2 * width; ++j) {
          float value = x[i * 2 * width + j];
          auto &cache = j < width ? wantK : wantV;
          uint8_t *to = &cache[(slots[i] * width + j % width) * bytes];
          uint16_t narrow =
              type == "bf16" ? encodeBF16(value) : encodeF16(value);
          uint8_t code8 = quantizeE4M3(value, scale);
          std::memcpy(to,
                      fp8          ? (void *)&code8
                      : bytes == 4 ? (void *)&value
                                   : &narrow,
                      bytes);
        }
      EXPECT_EQ(k, wantK) << type << " level " << level;
      EXPECT_EQ(v, wantV) << type << " level " << level;
    }
  }
}

//===----------------------------------------------------------------------===//
// Fusion
//===----------------------------------------------------------------------===//

/// One layer of a decoder in the model dialect, as insert-quantization leaves
/// it. $T: the activation dtype, $G: granularity of activations, $V: cache.
static const char *const kLayer = R"(module attributes {
    model.info = {hash = "0", kind = "model", vocab = 32 : i64, layers = 2 : i64},
    model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = $T, tp = 1, ep = 1, dp = 1,
      max_context = 64, max_seqs = 4, max_step_tokens = 32, activation_quant = "auto", kv_cache = "auto",
      quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  q.slot @n0[1] : tensor<80x$T>
  q.slot @nq[1] : tensor<20x$T>
  q.slot @table[1] : tensor<64x20xf32>
  q.slot @emb[1] : tensor<32x80x$T>
  q.slot @wqkv[1] : !q.tensor<160x80xf8E4M3FN, $W, f32, shards = [80, 40, 40]>
  q.slot @wo[1] : !q.tensor<80x80xf8E4M3FN, $W, f32>
  q.slot @wgu[1] : !q.tensor<112x80xf8E4M3FN, $W, f32, shards = [56, 56]>
  q.slot @wd[1] : !q.tensor<80x56xf8E4M3FN, $W, f32>
  func.func @load(%rank: index) { return }
  func.func private @layer(%l: index, %h: tensor<?x80x$T>, %b: !model.batch) -> tensor<?x80x$T> {
    %g0 = q.weight @n0 : tensor<80x$T>
    %n0 = model.rms_norm %h, %g0 {eps = 1.0e-06 : f32, module = "n0"} : tensor<?x80x$T>, tensor<80x$T> -> tensor<?x80x$T>
    %q0 = q.quantize %n0 $U : tensor<?x80x$T> -> !q.tensor<?x80xf8E4M3FN, $G, f32>
    %wqkv = q.weight @wqkv : !q.tensor<160x80xf8E4M3FN, $W, f32, shards = [80, 40, 40]>
    %qkv = model.linear %q0, %wqkv {contract = #q.contract<weight = $W, scale = f32, activation = $G$X>, module = "qkv"} : !q.tensor<?x80xf8E4M3FN, $G, f32>, !q.tensor<160x80xf8E4M3FN, $W, f32, shards = [80, 40, 40]> -> tensor<?x160x$T>
    %q, %k, %v = model.split %qkv : tensor<?x160x$T> -> tensor<?x80x$T>, tensor<?x40x$T>, tensor<?x40x$T>
    %gq = q.weight @nq : tensor<20x$T>
    %qn = model.rms_norm %q, %gq {eps = 1.0e-06 : f32, heads = 4 : i64, module = "nq"} : tensor<?x80x$T>, tensor<20x$T> -> tensor<?x80x$T>
    %kn = model.rms_norm %k, %gq {eps = 1.0e-06 : f32, heads = 2 : i64, module = "nk"} : tensor<?x40x$T>, tensor<20x$T> -> tensor<?x40x$T>
    %p = model.field positions of %b : tensor<?xi32>
    %t = q.weight @table : tensor<64x20xf32>
    %qr = model.rope %qn, %t at %p {head_dim = 20 : i64, module = "a"} : tensor<?x80x$T>, tensor<64x20xf32>, tensor<?xi32> -> tensor<?x80x$T>
    %kr = model.rope %kn, %t at %p {head_dim = 20 : i64, module = "a"} : tensor<?x40x$T>, tensor<64x20xf32>, tensor<?xi32> -> tensor<?x40x$T>
    %c = q.kv_cache[%l] : !q.kv<$V, page = 64, heads = 2, dim = 20>
    %s = model.field slots of %b : tensor<?xi32>
    q.kv_write %kr, %v, %c at %s : tensor<?x40x$T>, tensor<?x40x$T>, !q.kv<$V, page = 64, heads = 2, dim = 20>, tensor<?xi32>
    %a = model.attention %qr cache(%c : !q.kv<$V, page = 64, heads = 2, dim = 20>) of %b[%l] {q_heads = 4 : i64, kv_heads = 2 : i64, head_dim = 20 : i64, scale = 0.25 : f32, module = "a"} : tensor<?x80x$T> -> tensor<?x80x$T>
    %q1 = q.quantize %a $U : tensor<?x80x$T> -> !q.tensor<?x80xf8E4M3FN, $G, f32>
    %wo = q.weight @wo : !q.tensor<80x80xf8E4M3FN, $W, f32>
    %o = model.linear %q1, %wo {contract = #q.contract<weight = $W, scale = f32, activation = $G$X>, module = "o"} : !q.tensor<?x80xf8E4M3FN, $G, f32>, !q.tensor<80x80xf8E4M3FN, $W, f32> -> tensor<?x80x$T>
    %h1 = model.add %h, %o : tensor<?x80x$T>
    %n1 = model.rms_norm %h1, %g0 {eps = 1.0e-06 : f32, module = "n1"} : tensor<?x80x$T>, tensor<80x$T> -> tensor<?x80x$T>
    %q2 = q.quantize %n1 $U : tensor<?x80x$T> -> !q.tensor<?x80xf8E4M3FN, $G, f32>
    %wgu = q.weight @wgu : !q.tensor<112x80xf8E4M3FN, $W, f32, shards = [56, 56]>
    %gu = model.linear %q2, %wgu {contract = #q.contract<weight = $W, scale = f32, activation = $G$X>, module = "gu"} : !q.tensor<?x80xf8E4M3FN, $G, f32>, !q.tensor<112x80xf8E4M3FN, $W, f32, shards = [56, 56]> -> tensor<?x112x$T>
    %gate, %up = model.split %gu : tensor<?x112x$T> -> tensor<?x56x$T>, tensor<?x56x$T>
    %sw = model.swiglu %gate, %up : tensor<?x56x$T>
    %q3 = q.quantize %sw $U : tensor<?x56x$T> -> !q.tensor<?x56xf8E4M3FN, $G, f32>
    %wd = q.weight @wd : !q.tensor<80x56xf8E4M3FN, $W, f32>
    %d = model.linear %q3, %wd {contract = #q.contract<weight = $W, scale = f32, activation = $G$X>, module = "d"} : !q.tensor<?x56xf8E4M3FN, $G, f32>, !q.tensor<80x56xf8E4M3FN, $W, f32> -> tensor<?x80x$T>
    %h2 = model.add %h1, %d : tensor<?x80x$T>
    return %h2 : tensor<?x80x$T>
  }
  func.func @step(%b: !model.batch) {
    %ids = model.field ids of %b : tensor<?xi32>
    %e = q.weight @emb : tensor<32x80x$T>
    %h0 = model.embedding %ids, %e : tensor<?xi32>, tensor<32x80x$T> -> tensor<?x80x$T>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    model.trace "hidden"[%c0] %h0 : tensor<?x80x$T>
    %h = scf.for %l = %c0 to %c2 step %c1 iter_args(%x = %h0) -> (tensor<?x80x$T>) {
      %y = func.call @layer(%l, %x, %b) : (index, tensor<?x80x$T>, !model.batch) -> tensor<?x80x$T>
      %i = arith.addi %l, %c1 : index
      model.trace "hidden"[%i] %y : tensor<?x80x$T>
      scf.yield %y : tensor<?x80x$T>
    }
    %g = q.weight @n0 : tensor<80x$T>
    %n = model.rms_norm %h, %g {eps = 1.0e-06 : f32, module = "n"} : tensor<?x80x$T>, tensor<80x$T> -> tensor<?x80x$T>
    %r = model.field output_rows of %b : tensor<?xi32>
    %s = model.select_rows %n, %r : tensor<?x80x$T>, tensor<?xi32> -> tensor<?x80x$T>
    %y = model.lm_head %s, %e {module = "lm_head"} : tensor<?x80x$T>, tensor<32x80x$T> -> tensor<?x32xf32>
    model.output %y to %b : tensor<?x32xf32>
    return
  }
})";

namespace {
/// Everything that a step leaves behind.
struct Trail {
  std::vector<uint8_t> bytes;
  bool operator==(const Trail &) const = default;
};
} // namespace

static Trail runLayer(const octet_program_t *program, int level, int64_t chunk,
                      const std::string &type) {
  const int64_t rows = 13;
  HostRun run(program, level);
  run.chunk = chunk;
  run.tracing = 1;
  std::vector<float> values = gaussian(32 * 80, kSeed);
  std::vector<uint16_t> narrow;
  for (float x : values)
    narrow.push_back(type == "f16" ? encodeF16(x) : encodeBF16(x));
  const void *weights =
      type == "f32" ? (const void *)values.data() : narrow.data();
  std::vector<float> table = gaussian(64 * 20, kSeed + 1);
  for (int slot = 0; slot < program->num_weights; ++slot)
    run.setWeight(slot, weights, values.data(), 80);
  run.setWeight(2, table.data());
  std::vector<int32_t> ids, positions, slots, outputs = {2, 5, 12};
  for (int i = 0; i < rows; ++i) {
    ids.push_back(i * 5 % 32);
    positions.push_back(i);
    slots.push_back(127 - i);
  }
  std::vector<std::vector<uint8_t>> caches(4,
                                           std::vector<uint8_t>(128 * 40 * 4));
  octet_kv_layer layers[] = {{caches[0].data(), caches[1].data()},
                             {caches[2].data(), caches[3].data()}};
  run.kv = layers;
  std::vector<float> logits(outputs.size() * 32);
  octet_batch batch = batchOf(rows);
  batch.ids = ids.data();
  batch.positions = positions.data();
  batch.slots = slots.data();
  batch.num_outputs = outputs.size();
  batch.output_rows = outputs.data();
  batch.output = logits.data();
  EXPECT_EQ(run.step(batch), 0);
  EXPECT_EQ(run.traces.size(), 3u);
  Trail trail;
  for (auto &trace : run.traces)
    trail.bytes.insert(trail.bytes.end(), trace.begin(), trace.end());
  for (auto &cache : caches)
    trail.bytes.insert(trail.bytes.end(), cache.begin(), cache.end());
  auto *p = reinterpret_cast<uint8_t *>(logits.data());
  trail.bytes.insert(trail.bytes.end(), p, p + logits.size() * 4);
  return trail;
}

// N9, B5: fused and unfused, every level, any chunks: the same bits.
TEST(RowCode, FusionChangesNoNumber) {
  struct Case {
    const char *type, *weight, *activation, *ue8m0, *cache;
  } cases[] = {{"bf16", "block<32x32>", "block<1x32>", "", "bf16"},
               {"f32", "per_channel", "per_token", "", "f32"},
               {"bf16", "block<32x32>", "block<1x32>", "ue8m0", "f32"},
               {"f16", "per_channel", "per_token", "", "f16"}};
  for (const Case &c : cases) {
    std::string ir =
        fill(kLayer,
             std::map<std::string, std::string>{{"T", c.type},
                                                {"W", c.weight},
                                                {"G", c.activation},
                                                {"U", c.ue8m0},
                                                {"X", *c.ue8m0 ? " ue8m0" : ""},
                                                {"V", c.cache}});
    const std::string rest =
        ",octet-select-kernels,octet-plan-buffers,octet-lower-to-host";
    HostProgram fused(ir, "octet-fuse-rowwise" + rest);
    HostProgram unfused(ir, "octet-fuse-rowwise{fuse=false}" + rest);
    ASSERT_TRUE(fused.program()) << fused.messages();
    ASSERT_TRUE(unfused.program()) << unfused.messages();
    EXPECT_LE(fused.program()->arena_bytes, unfused.program()->arena_bytes);
    std::vector<Trail> trails;
    for (int level : levels())
      for (int64_t chunk : {0, 1, 5}) {
        trails.push_back(runLayer(fused.program(), level, chunk, c.type));
        trails.push_back(runLayer(unfused.program(), level, chunk, c.type));
      }
    for (const Trail &trail : trails)
      ASSERT_EQ(trail, trails.front()) << c.type << " " << c.activation;
  }
}

// Removing a kernel from the IR changes the program: nothing else computes it.
TEST(RowCode, ProgramComesFromTheRegion) {
  auto compile = [](const char *op) {
    return convertKernel("f32", "f32",
                         std::string("%o = ") + op +
                             " %r, %r : tensor<$Kxf32>\n kernel.yield %o : "
                             "tensor<$Kxf32>",
                         16, 64, 256);
  };
  HostProgram add(compile("arith.addf"), "octet-lower-to-host");
  HostProgram multiply(compile("arith.mulf"), "octet-lower-to-host");
  ASSERT_TRUE(add.program() && multiply.program());
  for (int level : levels()) {
    HostRun a(add.program(), level), m(multiply.program(), level);
    a.at<float>(0)[3] = m.at<float>(0)[3] = 5.0f;
    a.step(batchOf(1));
    m.step(batchOf(1));
    EXPECT_EQ(a.at<float>(64)[3], 10.0f);
    EXPECT_EQ(m.at<float>(64)[3], 25.0f);
  }
}
