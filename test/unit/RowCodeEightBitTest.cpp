//===- RowCodeEightBitTest.cpp - Row code that rounds to INT8 -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostProgram.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

using namespace octet;
using namespace octet::test;

// INT8 codes (N7) and bounded scales of FP8 (P3), a scale a token: the bits of
// lib/Numerics at every level, ties, NaN, infinity and zeros included.
TEST(RowCode, N7_P3_Int8AndBoundedScales) {
  struct Case {
    int64_t width;
    const char *codes, *bound;
  };
  for (const Case &c : {Case{96, "i8", ""}, Case{37, "i8", ""},
                        Case{96, "f8E4M3FN", "bound 2.5"},
                        Case{37, "f8E4M3FN", "bound 0.125"}}) {
    const bool isInt8 = std::string(c.codes) == "i8";
    const float bound =
        isInt8 ? INFINITY : std::stof(std::string(c.bound).substr(6));
    const int64_t rows = 24;
    std::vector<float> x(rows * c.width);
    std::mt19937 random(8);
    std::normal_distribution<float> normal;
    for (float &each : x)
      each = normal(random);
    for (int64_t i = 0; i < c.width; ++i) {
      x[i] = 0;
      x[c.width + i] *= 1e-20f;
      x[2 * c.width + i] *= 1e30f;
      // A scale of one, and halves: ties to even.
      x[3 * c.width + i] = i == 0 ? 127.0f : float(i % 40) - 20.5f;
    }
    x[4 * c.width] = NAN;
    x[5 * c.width] = INFINITY;
    const int64_t codes = (rows * c.width * 4 + 63) / 64 * 64;
    const int64_t scales = codes + (rows * c.width + 63) / 64 * 64;
    HostProgram program(makeModule(fill(R"(
    %x = kernel.place 0 : !kernel.buffer<tensor<?x$Kxf32>>
    %q = kernel.place $C scales $S : !kernel.buffer<!q.tensor<?x$Kx$T, per_token, f32>>
    kernel.rowwise "quantize" tokens of %b ins(%x : !kernel.buffer<tensor<?x$Kxf32>>) access [row]
        outs(%q : !kernel.buffer<!q.tensor<?x$Kx$T, per_token, f32>>) {
    ^bb0(%r: tensor<$Kxf32>):
      %c = q.quantize %r $B : tensor<$Kxf32> -> !q.tensor<1x$Kx$T, per_token, f32>
      kernel.yield %c : !q.tensor<1x$Kx$T, per_token, f32>
    })",
                                        std::map<std::string, std::string>{
                                            {"K", std::to_string(c.width)},
                                            {"C", std::to_string(codes)},
                                            {"S", std::to_string(scales)},
                                            {"T", c.codes},
                                            {"B", c.bound}}),
                                   scales + rows * 4 + 64),
                        "octet-lower-to-host");
    ASSERT_TRUE(program.program()) << program.messages();
    for (int level : levels()) {
      HostRun run(program.program(), level);
      run.chunk = 7;
      std::memcpy(run.at<float>(0), x.data(), x.size() * 4);
      octet_batch batch{};
      batch.num_rows = rows;
      ASSERT_EQ(run.step(batch), 0);
      for (int64_t r = 0; r < rows; ++r) {
        float amax = 0;
        for (int64_t i = 0; i < c.width; ++i)
          amax = std::fmax(amax, std::fabs(x[r * c.width + i]));
        const float scale =
            isInt8 ? dynamicScaleInt8(amax) : boundedScale(amax, bound);
        ASSERT_EQ(run.at<float>(scales)[r], scale)
            << c.codes << " row " << r << " level " << level;
        for (int64_t i = 0; i < c.width; ++i) {
          const float value = x[r * c.width + i];
          const uint8_t want =
              isInt8 ? static_cast<uint8_t>(quantizeInt8(value, scale))
                     : quantizeE4M3(value, scale);
          ASSERT_EQ(int(run.at<uint8_t>(codes)[r * c.width + i]), int(want))
              << c.codes << " row " << r << " element " << i << " level "
              << level << ": " << value;
        }
      }
    }
  }
}
