//===- Fp4Gemm.cpp - Products of two operands in E2M1 ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Fp4Gemm.h"
#include "octet/Numerics/Fp4.h"
#include "octet/Numerics/Numerics.h"
#include "runtime/cpu/CpuBackend.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/Types.h"
#include <cstring>

using namespace octet;
using namespace octet::rt;

/// Rows that are widened at once.
static constexpr int64_t kRows = 256;

void rt::gemmOfFp4(Context &c, const octet_gemm_desc &desc, int64_t m,
                   const void *x, const void *xScale, const octet_weight &w,
                   const octet_weight *bias, void *y) {
  const int64_t k = desc.k, size = desc.groups.size, groups = k / size;
  const bool isNvfp4 = desc.groups.scale_type == OCTET_E4M3;
  const auto *scales = static_cast<const uint8_t *>(xScale);
  const auto *codes = static_cast<const uint8_t *>(x);
  const int64_t codeBytes = rowBytes(OCTET_E2M1, k);

  octet_gemm_desc plain = desc;
  plain.x_type = OCTET_F32;
  plain.x_scale_mode = OCTET_SCALE_NONE;
  octet_weight scaled = w;
  float factors[OCTET_MAX_PARTS];
  if (isNvfp4) {
    float above;
    std::memcpy(&above, scales - sizeof(above), sizeof(above));
    plain.w_scale_mode = OCTET_SCALE_TENSOR;
    for (int64_t i = 0; i < w.num_parts; ++i) {
      const auto *own = static_cast<const float *>(w.parts[i].scale);
      factors[i] = above * (own ? *own : 1.0f);
      scaled.parts[i].scale = &factors[i];
    }
  }

  std::vector<float> wide(static_cast<size_t>(std::min(kRows, m) * k));
  for (int64_t first = 0; first < m; first += kRows) {
    const int64_t rows = std::min(kRows, m - first);
    c.pool->parallelFor(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const uint8_t *from = codes + (first + row) * codeBytes;
        float *to = wide.data() + row * k;
        for (int64_t g = 0; g < groups; ++g) {
          const uint8_t stored = scales[(first + row) * groups + g];
          const float scale =
              isNvfp4 ? decodeE4M3(stored) : decodeUE8M0(stored);
          for (int64_t i = g * size; i < (g + 1) * size; ++i)
            to[i] = decodeE2M1(from[i / 2] >> (i % 2 * 4) & 15) * scale;
        }
      }
    });
    kernelTable(c.level).gemm(
        *c.pool, plain, rows, wide.data(), nullptr, scaled, bias,
        static_cast<char *>(y) + first * rowBytes(desc.y_type, desc.n));
  }
}
