//===- gemm_check.cuh - Operands, reference and comparison of products ----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `octet kernel` needs around a product on the device:
//
//   fill        pseudo-random codes, elements or scales, a function of seed and index alone
//   dequantize  an operand and its scales as F32 [rows, K]
//   reference   Y = X W^T (+ bias) of such matrices: sums of 16 products in F32, the rest in F64
//   compare     errors of a result against that
//
// Nothing here is fast but `reference`, which has to do 3e11 products in some tenths of a second.
// Every function strides over its elements with any grid; matrices are row-major and contiguous.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// octet_dtype of runtime/abi.h, as far as products have it.
enum CheckType { kCheckF32 = 0, kCheckBf16 = 1, kCheckF16 = 2, kCheckE4m3 = 3 };
/// octet_scale_mode, and groups of an activation whose scales lie along M (P3).
enum CheckScale { kNoScale = 0, kOneScale = 1, kScaleOfRow = 2, kScaleOfBlock = 3, kScaleOfColumn = 4 };

OCTET_DEVICE u64 mixBits(u64 x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ull;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// About normal, mean 0 and deviation 1: the sum of four uniform numbers.
OCTET_DEVICE float drawNormal(u64 bits) {
  int sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += static_cast<int>((bits >> (16 * i)) & 0xffff);
  return (sum - 2 * 65535) * (1.f / 37837.f);
}

OCTET_DEVICE float loadElement(const void *p, int type, u64 i) {
  switch (type) {
  case kCheckF32:
    return static_cast<const float *>(p)[i];
  case kCheckBf16:
    return toFloat(static_cast<const Bf16 *>(p)[i]);
  case kCheckF16:
    return toFloat(static_cast<const F16 *>(p)[i]);
  default:
    return toFloat(static_cast<const E4m3 *>(p)[i]);
  }
}

OCTET_DEVICE u64 firstIndex() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
OCTET_DEVICE u64 indexStride() { return u64(gridDim.x) * blockDim.x; }

/// Elements of `type`, normal with deviation 1, or 64 for codes (of which 448 is the largest).
OCTET_DEVICE void fillElements(void *out, int type, u64 count, u64 seed) {
  for (u64 i = firstIndex(); i < count; i += indexStride()) {
    float x = drawNormal(mixBits(seed * 0x9e3779b97f4a7c15ull + i + 1));
    switch (type) {
    case kCheckF32:
      static_cast<float *>(out)[i] = x;
      break;
    case kCheckBf16:
      static_cast<Bf16 *>(out)[i] = fromFloat<Bf16>(x);
      break;
    case kCheckF16:
      static_cast<F16 *>(out)[i] = fromFloat<F16>(x);
      break;
    default:
      static_cast<E4m3 *>(out)[i] = fromFloat<E4m3>(64.f * x);
    }
  }
}

/// Scales over a factor of 64, never zero.
OCTET_DEVICE void fillScales(float *out, u64 count, u64 seed) {
  for (u64 i = firstIndex(); i < count; i += indexStride()) {
    u64 bits = mixBits(seed * 0x9e3779b97f4a7c15ull + i + 1);
    out[i] = exp2f(static_cast<float>(bits >> 40) * (6.f / 16777216.f) - 12.f);
  }
}

/// An operand of a product.
struct CheckedMatrix {
  const void *data;
  const float *scale;
  int type, mode;
  int rows, cols;
  int blockRows, blockCols; ///< of kScaleOfBlock; blockCols of kScaleOfColumn
  int numShards;            ///< of rows: each starts its own scale rows (W5b)
  int shardRows[4];
};

OCTET_DEVICE float scaleOf(const CheckedMatrix &m, int row, int col) {
  switch (m.mode) {
  case kNoScale:
    return 1.f;
  case kScaleOfRow:
    return m.scale[row];
  case kScaleOfColumn:
    return m.scale[i64(col / m.blockCols) * alignUp(m.rows, 4) + row];
  }
  int first = 0; // scale row of the shard
  for (int i = 0; i + 1 < m.numShards && row >= m.shardRows[i]; ++i) {
    row -= m.shardRows[i];
    first += m.mode == kOneScale ? 1 : divideUp(m.shardRows[i], m.blockRows);
  }
  if (m.mode == kOneScale)
    return m.scale[first];
  return m.scale[i64(first + row / m.blockRows) * divideUp(m.cols, m.blockCols) +
                 col / m.blockCols];
}

OCTET_DEVICE void dequantize(const CheckedMatrix &m, float *out) {
  const u64 count = u64(m.rows) * m.cols;
  for (u64 i = firstIndex(); i < count; i += indexStride())
    out[i] = loadElement(m.data, m.type, i) *
             scaleOf(m, static_cast<int>(i / m.cols), static_cast<int>(i % m.cols));
}

/// Y[M,N] in F32 of x [M,K] and w [N,K]; 256 threads make 64 x 64 of it, grid (cdiv(N,64),
/// cdiv(M,64)). `bias` may be null.
OCTET_DEVICE void referenceProduct(const float *x, const float *w, const void *bias, int biasType,
                                   float *y, int rows, int n, int k) {
  constexpr int kTile = 64, kDepth = 16;
  __shared__ float xs[kDepth][kTile + 4], ws[kDepth][kTile + 4];
  const int m0 = blockIdx.y * kTile, n0 = blockIdx.x * kTile;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  double sum[4][4] = {};
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += 256) {
      int row = i / kDepth, col = i % kDepth;
      bool inside = k0 + col < k;
      xs[col][row] = inside && m0 + row < rows ? x[i64(m0 + row) * k + k0 + col] : 0.f;
      ws[col][row] = inside && n0 + row < n ? w[i64(n0 + row) * k + k0 + col] : 0.f;
    }
    __syncthreads();
    float part[4][4] = {};
#pragma unroll
    for (int d = 0; d < kDepth; ++d)
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          part[i][j] = fmaf(xs[d][ty * 4 + i], ws[d][tx * 4 + j], part[i][j]);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        sum[i][j] += part[i][j];
    __syncthreads();
  }
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      int row = m0 + ty * 4 + i, col = n0 + tx * 4 + j;
      if (row < rows && col < n)
        y[i64(row) * n + col] = static_cast<float>(
            sum[i][j] + (bias ? loadElement(bias, biasType, col) : 0.f));
    }
}

/// What `compare` adds up; zero at first, `firstBad` all ones.
struct CheckErrors {
  double squaredError, squaredReference;
  u64 notANumber; ///< or infinite
  u64 firstBad;   ///< index of the first of those
  u32 largest;    ///< bits of the largest |y - reference|
  u32 reserved;
};

OCTET_DEVICE void compare(const void *y, int type, const float *reference, u64 count,
                          CheckErrors *errors) {
  double error = 0, square = 0;
  u32 largest = 0;
  for (u64 i = firstIndex(); i < count; i += indexStride()) {
    float value = loadElement(y, type, i), expected = reference[i];
    float difference = fabsf(value - expected);
    if (!(difference < 3.4e38f)) {
      atomicAdd(&errors->notANumber, 1ull);
      atomicMin(&errors->firstBad, i);
      continue;
    }
    error += double(difference) * difference;
    square += double(expected) * expected;
    largest = largest > bitsOf(difference) ? largest : bitsOf(difference);
  }
  atomicAdd(&errors->squaredError, error);
  atomicAdd(&errors->squaredReference, square);
  atomicMax(&errors->largest, largest);
}

} // namespace octet::cuda
