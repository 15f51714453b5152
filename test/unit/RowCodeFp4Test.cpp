//===- RowCodeFp4Test.cpp - Row code that rounds to E2M1 ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostProgram.h"
#include "octet/Numerics/Fp4.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace octet;
using namespace octet::test;

// N7: the middle of two values goes to the even code, what is larger than 6 to
// 6, and a NaN, which E2M1 does not have, to 0.
TEST(Fp4, N7_EncodesToNearest) {
  const float kInputs[] = {0,     0.25f, 0.26f, 0.74f,    0.75f, 1.25f, 1.26f,
                           1.74f, 1.75f, 2.5f,  2.51f,    3.49f, 3.5f,  5.0f,
                           5.01f, 6.0f,  1e30f, INFINITY, NAN};
  const int kCodes[] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4,
                        5, 5, 6, 6, 7, 7, 7, 7, 0};
  for (size_t i = 0; i < std::size(kInputs); ++i) {
    EXPECT_EQ(encodeE2M1(kInputs[i]), kCodes[i]) << kInputs[i];
    if (!std::isnan(kInputs[i]))
      EXPECT_EQ(encodeE2M1(-kInputs[i]), kCodes[i] | 8) << -kInputs[i];
  }
  for (int code = 0; code < 16; ++code)
    EXPECT_EQ(encodeE2M1(decodeE2M1(uint8_t(code))), code);
}

// W9: group scales below a larger scale are smaller, and a scale that is shared
// already keeps its bits.
TEST(Fp4, W9_RescalesGroups) {
  EXPECT_EQ(rescaleGroup(0x38, 2, 2), 0x38);
  EXPECT_EQ(rescaleGroup(0x38, 1, 2), 0x30); // 1 -> 1/2
  EXPECT_EQ(rescaleGroup(0x39, 1, 3), 0x2C); // 1.125 / 3 = 0.375
  EXPECT_EQ(rescaleGroup(0x01, 1, 4), 0x00); // below half of the smallest
}

// NVFP4 and MXFP4 activations: the bits of lib/Numerics at every level, ties,
// NaN, infinity, zeros and a scale that underflows included.
TEST(RowCode, N7_Fp4Groups) {
  struct Case {
    int64_t width, group;
    bool isNvfp4;
  };
  for (const Case &c : {Case{96, 16, true}, Case{16, 16, true},
                        Case{96, 32, false}, Case{32, 32, false}}) {
    const int64_t rows = 24, groups = c.width / c.group;
    const float above = 0.0078125f * 1.3f;
    std::vector<float> x(rows * c.width);
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    for (float &each : x)
      each = normal(random);
    for (int64_t i = 0; i < c.width; ++i) {
      x[i] = 0;
      x[c.width + i] *= 1e-20f;
      x[2 * c.width + i] *= 1e30f;
      // A scale of one without `above`, and the middles of values.
      x[3 * c.width + i] = i % c.group == 0 ? 6.0f : float(i % 25) / 4 - 3;
    }
    x[4 * c.width] = NAN;
    x[5 * c.width] = INFINITY;
    const int64_t scaleAt = (rows * c.width * 4 + 63) / 64 * 64;
    const int64_t codes = scaleAt + 64;
    const int64_t scales = codes + (rows * c.width / 2 + 63) / 64 * 64 + 64;
    const std::string type =
        c.isNvfp4 ? "f4E2M1FN, group<16>, f8E4M3FN, global = multiplies"
                  : "f4E2M1FN, group<32>, f8E8M0FNU";
    const std::string text = c.isNvfp4 ? R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %s = kernel.place $A : !kernel.buffer<tensor<?x1xf32>>
    %q = kernel.place $C scales $S : !kernel.buffer<!q.tensor<?x$Kx$T, layout = packed>>
    kernel.rowwise "quantize" tokens of %b ins(%x, %s : !kernel.buffer<tensor<?x$Kxf32>>, !kernel.buffer<tensor<?x1xf32>>) access [row, row]
        outs(%q : !kernel.buffer<!q.tensor<?x$Kx$T, layout = packed>>) {
    ^bb0(%r: tensor<$Kxf32>, %g: tensor<1xf32>):
      %c = q.quantize %r, %g : tensor<$Kxf32>, tensor<1xf32> -> !q.tensor<1x$Kx$T, layout = packed>
      kernel.yield %c : !q.tensor<1x$Kx$T, layout = packed>
    })"
                                       : R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %q = kernel.place $C scales $S : !kernel.buffer<!q.tensor<?x$Kx$T, layout = packed>>
    kernel.rowwise "quantize" tokens of %b ins(%x : !kernel.buffer<tensor<?x$Kxf32>>) access [row]
        outs(%q : !kernel.buffer<!q.tensor<?x$Kx$T, layout = packed>>) {
    ^bb0(%r: tensor<$Kxf32>):
      %c = q.quantize %r ue8m0 : tensor<$Kxf32> -> !q.tensor<1x$Kx$T, layout = packed>
      kernel.yield %c : !q.tensor<1x$Kx$T, layout = packed>
    })";
    HostProgram program(makeModule(fill(text,
                                        std::map<std::string, std::string>{
                                            {"K", std::to_string(c.width)},
                                            {"A", std::to_string(scaleAt)},
                                            {"C", std::to_string(codes)},
                                            {"S", std::to_string(scales)},
                                            {"T", type}}),
                                   scales + rows * groups + 128),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.chunk = 7;
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      // A scalar a row stands in for the stored scale, which is one of all.
      std::vector<float> stored(rows, above);
      if (c.isNvfp4)
        std::memcpy(run.at<float>(scaleAt), stored.data(), 16 * 4);
      octet_batch batch{};
      batch.num_rows = c.isNvfp4 ? 16 : rows;
      ASSERT_EQ(run.step(batch), 0);
      if (c.isNvfp4)
        ASSERT_EQ(run.at<float>(scales)[-1], above) << level;
      for (int64_t r = 0; r < batch.num_rows; ++r)
        for (int64_t g = 0; g < groups; ++g) {
          std::vector<uint8_t> want(c.group);
          std::span group(x.data() + r * c.width + g * c.group, c.group);
          const uint8_t scale = c.isNvfp4 ? quantizeNvfp4(group, above, want)
                                          : quantizeMxfp4(group, want);
          ASSERT_EQ(int(run.at<uint8_t>(scales)[r * groups + g]), int(scale))
              << "row " << r << " group " << g << " level " << level;
          for (int64_t i = 0; i < c.group; ++i) {
            const int64_t at = r * c.width + g * c.group + i;
            const int code =
                run.at<uint8_t>(codes)[at / 2] >> (at % 2 * 4) & 15;
            ASSERT_EQ(code, int(want[i]))
                << "row " << r << " element " << g * c.group + i << " level "
                << level << ": " << group[i];
          }
        }
    }
  }
}
