//===- GemmMxTest.cpp - Products with exponents for scales ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GemmTest.cpp holds products in groups of 32 against double; here scales in
// UE8M0 give the bits of the same scales in F32 (N4, N7).
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"

using namespace octet;
using namespace octet::test;

namespace {

class GemmMx : public EveryLevel {};
OCTET_EVERY_LEVEL(GemmMx);

TEST_P(GemmMx, N7_ExponentsAreTheirValues) {
  std::mt19937 random(7);
  rt::ThreadPool pool(2);
  struct Shape {
    int64_t m, n, k, bn, bk;
  };
  for (const Shape &s : std::vector<Shape>{{1, 5, 32, 1, 32},
                                           {1, 70, 96, 1, 32},
                                           {3, 33, 320, 1, 32},
                                           {20, 33, 352, 1, 32},
                                           {2, 40, 256, 32, 32},
                                           {1, 40, 300, 128, 128},
                                           {17, 40, 300, 128, 128}}) {
    for (int32_t type : {OCTET_E4M3, OCTET_BF16}) {
      const int64_t groups = ceilDiv(s.k, s.bk);
      const int64_t count = ceilDiv(s.n, s.bn) * groups;
      Tensor x(type, s.m * s.k), w(OCTET_E4M3, s.n * s.k);
      x.randomize(random, 1.5f);
      w.randomize(random, 30);
      std::vector<uint8_t> exponents(count);
      std::vector<float> floats(count), xScale(s.m * groups);
      for (int64_t i = 0; i < count; ++i) {
        exponents[i] = static_cast<uint8_t>(119 + random() % 9);
        floats[i] = decodeUE8M0(exponents[i]);
      }
      for (float &each : xScale)
        each = std::ldexp(1.0f, static_cast<int>(random() % 5) - 3);
      octet_gemm_desc desc{};
      desc.module = "test";
      desc.n = s.n, desc.k = s.k;
      desc.block_n = s.bn, desc.block_k = s.bk;
      desc.x_type = type;
      desc.w_type = OCTET_E4M3;
      desc.y_type = OCTET_F32;
      desc.bias_type = -1;
      desc.w_scale_mode = OCTET_SCALE_BLOCK;
      desc.x_scale_mode =
          type == OCTET_E4M3 ? OCTET_SCALE_BLOCK : OCTET_SCALE_NONE;
      Tensor y[2] = {Tensor(OCTET_F32, s.m * s.n),
                     Tensor(OCTET_F32, s.m * s.n)};
      for (int i = 0; i < 2; ++i) {
        desc.w_scale_type = i ? OCTET_E8M0 : OCTET_F32;
        const void *scale = i ? static_cast<const void *>(exponents.data())
                              : static_cast<const void *>(floats.data());
        const octet_weight weight{1, {{w.data(), scale, s.n, -1, -1}}};
        kernels().gemm(pool, desc, s.m, x.data(), xScale.data(), weight,
                       nullptr, y[i].data());
      }
      EXPECT_TRUE(sameBits(y[0], y[1], s.n))
          << s.m << "x" << s.n << "x" << s.k << " " << nameOf(type);
      EXPECT_NE(y[0].value(0), 0);
    }
  }
}

} // namespace
