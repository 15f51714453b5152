//===- GemmInt8.cpp - Products of INT8 codes --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   y[i,j] = round( float(sum_k x[i,k] w[j,k]) (sx[i] sw[j]) + bias[j] )  (N6b)
//
//   operand   shape             types            contiguous  aligned to
//   x         [m, k]            I8               k           1
//   w         parts [rows, k]   I8               k           1
//   y         [m, n]            F32, BF16, F16   n           its element
//   scales    see abi.h         F32; one a tensor, a token or a channel
//
// The sum is exact in INT32 for k up to 2^17, which select-kernels checks, so its order does not
// matter: pairs of products are added by VPMADDWD, codes widened to 16 bits (x once, w on the way).
// K and N may be ragged.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"
#include "runtime/kernels/cpu/Product.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

typedef int16_t VS __attribute__((vector_size(64)));
typedef int8_t VS32 __attribute__((vector_size(32)));

#if OCTET_SIMD_LEVEL == 0
constexpr int kTileM = 2, kTileN = 2; // 16 registers of half a vector
#else
constexpr int kTileM = 4, kTileN = 4;
#endif
/// Codes of a vector after widening, and vectors of a chunk.
constexpr int64_t kStep = 32;
/// Rows of W in a task, and rows of x that are widened at once.
constexpr int64_t kUnit = 64, kRows = 256;
static_assert(kUnit % 16 == 0 && kUnit % kTileN == 0 && kRows % kTileM == 0);

OCTET_INLINE VI multiplyAdd(VI acc, VS x, VS w) {
#if defined(__AVX512BW__)
  return acc + (VI)_mm512_madd_epi16((__m512i)x, (__m512i)w);
#else
  __m256i a[2], b[2], c[2];
  memcpy(a, &acc, 64), memcpy(b, &x, 64), memcpy(c, &w, 64);
  for (int i = 0; i < 2; ++i)
    a[i] = _mm256_add_epi32(a[i], _mm256_madd_epi16(b[i], c[i]));
  memcpy(&acc, a, 64);
  return acc;
#endif
}

OCTET_INLINE VS widenCodes(const int8_t *p) { return __builtin_convertvector(load<VS32>(p), VS); }
/// The last `count` codes of a row, zeros behind them.
OCTET_INLINE VS widenTail(const int8_t *p, int64_t count) {
  int8_t copy[kStep] = {};
  memcpy(copy, p, static_cast<size_t>(count));
  return widenCodes(copy);
}

OCTET_INLINE int32_t sumInts(VI v) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i)
    sum += v[i];
  return sum;
}

/// sums[i * kUnit + j] of MR rows of x (widened, `steps` vectors each) and NR rows of W.
template <int MR, int NR>
static void dotTile(const VS *x, int64_t steps, const int8_t *w, int64_t k, int32_t *sums) {
  VI acc[MR][NR];
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; ++j)
      acc[i][j] = VI{};
  const int64_t whole = k / kStep;
  auto step = [&](int64_t s, auto widen) __attribute__((always_inline)) {
    VS xs[MR];
#pragma GCC unroll 4
    for (int i = 0; i < MR; ++i)
      xs[i] = x[i * steps + s];
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) {
      const VS ws = widen(w + j * k + s * kStep);
#pragma GCC unroll 4
      for (int i = 0; i < MR; ++i)
        acc[i][j] = multiplyAdd(acc[i][j], xs[i], ws);
    }
  };
  for (int64_t s = 0; s < whole; ++s)
    step(s, [](const int8_t *p) __attribute__((always_inline)) { return widenCodes(p); });
  if (whole < steps)
    step(whole,
         [&](const int8_t *p) __attribute__((always_inline)) { return widenTail(p, k % kStep); });
  for (int i = 0; i < MR; ++i)
    for (int j = 0; j < NR; ++j)
      sums[i * kUnit + j] = sumInts(acc[i][j]);
}

template <int MR>
static void dotRows(const VS *x, int64_t steps, const Panel &panel, int64_t k, int32_t *sums) {
  const int8_t *w = static_cast<const int8_t *>(panel.part->data) + panel.row * k;
  int64_t j = 0;
  for (; j + kTileN <= panel.rows; j += kTileN)
    dotTile<MR, kTileN>(x, steps, w + j * k, k, sums + j);
  for (; j < panel.rows; ++j)
    dotTile<MR, 1>(x, steps, w + j * k, k, sums + j);
}

/// Scales, bias and the one rounding of `rows` rows of exact sums.
static void finish(const Problem &problem, const Panel &panel, int64_t row, int64_t rows,
                   const int32_t *sums) {
  Finish finish(problem, panel);
  for (int64_t j = 0; j < panel.rows; j += 16) {
    finish.start(j);
    for (int64_t i = 0; i < rows; ++i)
      finish.row(row + i, __builtin_convertvector(load<VI>(sums + i * kUnit + j), VF));
  }
}

/// Rows [row, row + rows) of x times a panel.
static void multiply(const Problem &problem, const VS *x, int64_t steps, int64_t row, int64_t rows,
                     const Panel &panel) {
  alignas(64) int32_t sums[kTileM * kUnit] = {};
  for (int64_t i = 0; i < rows; i += kTileM) {
    const int64_t count = minOf<int64_t>(kTileM, rows - i);
    const VS *tile = x + i * steps;
    switch (count) {
    case 1:
      dotRows<1>(tile, steps, panel, problem.desc.k, sums);
      break;
    case 2:
      dotRows<2>(tile, steps, panel, problem.desc.k, sums);
      break;
#if OCTET_SIMD_LEVEL > 0
    case 3:
      dotRows<3>(tile, steps, panel, problem.desc.k, sums);
      break;
    case 4:
      dotRows<4>(tile, steps, panel, problem.desc.k, sums);
      break;
#endif
    }
    finish(problem, panel, row + i, count, sums);
  }
}

} // namespace

void gemmInt8(ThreadPool &pool, const octet_gemm_desc &desc, int64_t m, const void *x,
              const float *xScale, const octet_weight &w, const octet_weight *bias, void *y) {
  const Problem problem{desc, m, x, xScale, w, bias, y, ChunkMap(desc.k, desc.k), false};
  const int64_t steps = ceilDiv(desc.k, kStep);
  const int8_t *codes = static_cast<const int8_t *>(x);
  for (int64_t m0 = 0; m0 < m; m0 += kRows) {
    const int64_t rows = minOf(kRows, m - m0);
    VS *wide = static_cast<VS *>(
        ThreadPool::callerScratch().get(static_cast<size_t>(rows * steps) * sizeof(VS)));
    auto widen = [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int8_t *row = codes + (m0 + i) * desc.k;
        VS *out = wide + i * steps;
        for (int64_t s = 0; s < desc.k / kStep; ++s)
          out[s] = widenCodes(row + s * kStep);
        if (desc.k % kStep)
          out[steps - 1] = widenTail(row + (steps - 1) * kStep, desc.k % kStep);
      }
    };
    pool.parallelFor(rows, 8, widen);
    auto units = [&](int64_t begin, int64_t end) {
      for (int64_t u = begin; u < end; ++u)
        multiply(problem, wide, steps, m0, rows, findPanel(problem, u, kUnit));
    };
    pool.parallelChunks(countPanels(w, kUnit), 1, units);
  }
}

} // namespace octet::rt::OCTET_LEVEL_NAMESPACE
