//===- CalibrateTest.cpp - The largest traced values ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/Calibrate/InputMaxima.h"
#include "octet/Numerics/Numerics.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace octet;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// findLargest of the values in each type that holds them exactly.
void expectLargest(std::vector<float> values, float expected) {
  std::vector<uint16_t> bf16, f16;
  for (float value : values) {
    bf16.push_back(encodeBF16(value));
    f16.push_back(encodeF16(value));
  }
  int64_t count = int64_t(values.size());
  for (float found : {findLargest(values.data(), OCTET_F32, count),
                      findLargest(bf16.data(), OCTET_BF16, count),
                      findLargest(f16.data(), OCTET_F16, count)}) {
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(found)) << found;
    else
      EXPECT_EQ(found, expected);
  }
}

TEST(FindLargest, Magnitudes) {
  expectLargest({}, 0);
  expectLargest({0.0f, -0.0f}, 0);
  expectLargest({1, -3, 2}, 3);
  expectLargest({-0.5f}, 0.5f);
  expectLargest({0x1p-14f, 0, -0x1p-13f}, 0x1p-13f);
  expectLargest({1, -kInf, 3}, kInf);
  expectLargest({kInf, -kNaN, 3}, kNaN);
  expectLargest({kNaN, kInf}, kNaN);
}

TEST(InputMaximaSink, KeepsTheLargestOfEachModule) {
  InputMaximaSink sink;
  auto trace = [&](const char *name, int64_t index, std::vector<float> x) {
    sink.trace(name, index, OCTET_F32, 1, int64_t(x.size()), x.data());
  };
  trace("input.model.layers.{l}.q_proj", 0, {1, -2});
  trace("input.model.layers.{l}.q_proj", 11, {5});
  trace("input.model.layers.{l}.q_proj", 0, {1, 1.5f});
  trace("input.a", 0, {kNaN});
  trace("input.a", 0, {7}); // a NaN is not forgotten
  trace("hidden", 0, {100});
  InputMaxima maxima = sink.take();
  ASSERT_EQ(maxima.size(), 3u);
  EXPECT_EQ(maxima["model.layers.0.q_proj"], 2);
  EXPECT_EQ(maxima["model.layers.11.q_proj"], 5);
  EXPECT_TRUE(std::isnan(maxima["a"]));
}

} // namespace
