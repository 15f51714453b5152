//===- GemmInt8Test.cpp - Exact products of INT8 codes --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No tolerance: the INT32 sum is exact, and what follows is one conversion, two
// products, a sum and a rounding, each of them correctly rounded (N6b).
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

using namespace octet;
using namespace octet::test;

namespace {

struct Shape {
  int64_t m, k;
  std::vector<int64_t> parts;
};

/// One element, ragged ends, rows that no tile divides, more rows than a pass.
const std::vector<Shape> kShapes = {
    {1, 1, {1}},    {1, 32, {4}},         {2, 31, {3, 2}},    {3, 100, {65}},
    {5, 65, {7}},   {9, 576, {33, 7}},    {300, 70, {66, 1}}, {1, 4096, {130}},
    {4, 160, {64}}, {6, 1025, {50, 3, 5}}};

class GemmInt8 : public EveryLevel {};
OCTET_EVERY_LEVEL(GemmInt8);

struct Operands {
  Tensor x;
  std::vector<Tensor> w, bias;
  std::vector<float> xScale;
  std::vector<std::vector<float>> wScale;
  octet_weight weight{}, biasWeight{};
  int64_t n = 0;
};

Operands draw(const Shape &shape, bool perTensor, std::mt19937 &random) {
  Operands o;
  std::uniform_real_distribution<float> scales(0.25f, 2.0f);
  o.x = Tensor(OCTET_I8, shape.m * shape.k);
  o.x.randomize(random, 80); // many at +-127
  for (int64_t i = 0; i < (perTensor ? 1 : shape.m); ++i)
    o.xScale.push_back(scales(random));
  o.weight.num_parts = o.biasWeight.num_parts =
      static_cast<int64_t>(shape.parts.size());
  o.w.reserve(shape.parts.size());
  o.bias.reserve(shape.parts.size());
  o.wScale.reserve(shape.parts.size());
  for (size_t p = 0; p < shape.parts.size(); ++p) {
    const int64_t rows = shape.parts[p];
    o.n += rows;
    o.w.emplace_back(OCTET_I8, rows * shape.k).randomize(random, 80);
    o.bias.emplace_back(OCTET_F32, rows).randomize(random, 100);
    o.wScale.emplace_back();
    for (int64_t i = 0; i < (perTensor ? 1 : rows); ++i)
      o.wScale.back().push_back(scales(random));
    o.weight.parts[p] = {o.w[p].data(), o.wScale[p].data(), rows, -1, -1};
    o.biasWeight.parts[p] = {o.bias[p].data(), nullptr, rows, -1, -1};
  }
  return o;
}

TEST_P(GemmInt8, N6b_ExactOnEveryShape) {
  std::mt19937 random(20241130);
  rt::ThreadPool pool(3);
  for (const Shape &shape : kShapes) {
    for (bool perTensor : {false, true}) {
      const Operands o = draw(shape, perTensor, random);
      octet_gemm_desc desc{};
      desc.module = "test";
      desc.n = o.n, desc.k = shape.k;
      desc.x_type = desc.w_type = OCTET_I8;
      desc.y_type = desc.bias_type = OCTET_F32;
      desc.w_scale_mode = desc.x_scale_mode =
          perTensor ? OCTET_SCALE_TENSOR : OCTET_SCALE_CHANNEL;
      Tensor y(OCTET_F32, shape.m * o.n);
      kernels().gemm(pool, desc, shape.m, o.x.data(), o.xScale.data(), o.weight,
                     &o.biasWeight, y.data());
      int64_t column = 0;
      for (size_t p = 0; p < shape.parts.size(); ++p)
        for (int64_t row = 0; row < shape.parts[p]; ++row, ++column)
          for (int64_t i = 0; i < shape.m; ++i) {
            int64_t sum = 0;
            for (int64_t k = 0; k < shape.k; ++k)
              sum += int64_t(o.x.value(i * shape.k + k)) *
                     int64_t(o.w[p].value(row * shape.k + k));
            const float scale =
                o.xScale[perTensor ? 0 : i] * o.wScale[p][perTensor ? 0 : row];
            const float product = static_cast<float>(sum) * scale;
            ASSERT_EQ(y.value(i * o.n + column), product + o.bias[p].value(row))
                << "[" << i << ", " << column << "] of " << shape.m << "x"
                << shape.k;
          }
    }
  }
}

// The largest sum that select-kernels lets through does not overflow.
TEST_P(GemmInt8, N6b_LongestSum) {
  const int64_t k = 1 << 17;
  rt::ThreadPool pool(2);
  Tensor x(OCTET_I8, k), w(OCTET_I8, k), y(OCTET_F32, 1);
  for (int64_t i = 0; i < k; ++i) {
    x.set(i, 127);
    w.set(i, i % 2 ? 127 : -127);
  }
  for (int sign : {0, 1}) {
    if (sign)
      for (int64_t i = 0; i < k; ++i)
        w.set(i, -127);
    const float one = 1;
    octet_weight weight{1, {{w.data(), &one, 1, -1, -1}}};
    octet_gemm_desc desc{};
    desc.module = "test";
    desc.n = 1, desc.k = k;
    desc.x_type = desc.w_type = OCTET_I8;
    desc.y_type = OCTET_F32;
    desc.bias_type = -1;
    desc.w_scale_mode = desc.x_scale_mode = OCTET_SCALE_TENSOR;
    kernels().gemm(pool, desc, 1, x.data(), &one, weight, nullptr, y.data());
    EXPECT_EQ(y.value(0), sign ? -127.0f * 127.0f * static_cast<float>(k) : 0);
  }
}

} // namespace
