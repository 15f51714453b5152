//===- LoadOps.cpp - The arithmetic of loading
//--------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parallel over rows where the work grows with the weights; the rest is small.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/LoadOps.h"
#include "octet/Numerics/Numerics.h"
#include "runtime/cpu/Types.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace octet::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

float halfToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = (bits >> 10) & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  const uint32_t wide = exponent == 0x1F ? 0x7F800000u : (exponent + 112) << 23;
  return std::bit_cast<float>(sign | wide | mantissa << 13);
}

float readScale(int32_t type, const void *scales, int64_t index) {
  if (type == OCTET_F32) {
    float value;
    std::memcpy(&value, static_cast<const char *>(scales) + index * 4, 4);
    return value;
  }
  if (type == OCTET_E8M0)
    return decodeUE8M0(static_cast<const uint8_t *>(scales)[index]);
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char *>(scales) + index * 2, 2);
  if (type == OCTET_BF16)
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  return halfToFloat(bits);
}

/// Whether every element of [rows, cols] at `data`, `stride` apart, is +-0.
bool allZero(const char *data, int64_t rows, int64_t cols, int64_t stride,
             int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r) {
    const char *row = data + r * stride * bytes;
    for (int64_t c = 0; c < cols; ++c) {
      // Little-endian: the sign is the top bit of the last byte.
      for (int64_t b = 0; b < bytes; ++b) {
        const auto byte = static_cast<uint8_t>(row[c * bytes + b]);
        if (b == bytes - 1 ? byte & 0x7F : byte)
          return false;
      }
    }
  }
  return true;
}

bool blockIsZero(const ScaledMatrix &w, int64_t index) {
  int64_t row = 0, col = 0, rows = w.rows, cols = w.cols;
  if (w.scaleMode == OCTET_SCALE_CHANNEL) {
    row = index;
    rows = 1;
  } else if (w.scaleMode == OCTET_SCALE_BLOCK) {
    const int64_t columns = ceilDiv(w.cols, w.blockK);
    row = index / columns * w.blockN;
    col = index % columns * w.blockK;
    rows = std::min(w.blockN, w.rows - row); // W4
    cols = std::min(w.blockK, w.cols - col);
  }
  const int64_t bytes = elementBytes(w.type);
  const char *data =
      static_cast<const char *>(w.data) + (row * w.cols + col) * bytes;
  return allZero(data, rows, cols, w.cols, bytes);
}

BadScale::Kind judge(const ScaledMatrix &w, int64_t index, float value) {
  if (std::isnan(value))
    return BadScale::NaN;
  if (value < 0)
    return BadScale::Negative;
  if (std::isinf(value))
    return BadScale::Infinite;
  if (value == 0 && w.data && !blockIsZero(w, index))
    return BadScale::Zero;
  return BadScale::None;
}

} // namespace

int64_t ScaledMatrix::numScales() const {
  if (blockBytes(type))
    return rows * (cols / kBlockElements) * blockFields(type);
  switch (scaleMode) {
  case OCTET_SCALE_TENSOR:
    return 1;
  case OCTET_SCALE_CHANNEL:
    return rows;
  case OCTET_SCALE_BLOCK:
    return ceilDiv(rows, blockN) * ceilDiv(cols, blockK);
  default:
    return 0;
  }
}

/// Field i of blocks, in the order of the file: scale and minimum of the first.
static float readField(const ScaledMatrix &w, int64_t i) {
  const int64_t fields = blockFields(w.type);
  const char *block =
      static_cast<const char *>(w.data) + i / fields * blockBytes(w.type);
  return readScale(OCTET_F16, block, i % fields);
}

/// The same check of blocks, whose scales may have any sign and be zero.
static BadScale checkFields(ThreadPool &pool, const ScaledMatrix &w) {
  const int64_t count = w.numScales();
  std::atomic<int64_t> first{count};
  pool.parallelFor(count, 1 << 14, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (std::isfinite(readField(w, i)))
        continue;
      int64_t known = first.load(std::memory_order_relaxed);
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
      return;
    }
  });
  const int64_t index = first.load();
  if (index == count)
    return {};
  const float value = readField(w, index);
  return {std::isnan(value) ? BadScale::NaN : BadScale::Infinite, index, value};
}

BadScale checkScales(ThreadPool &pool, const ScaledMatrix &w) {
  if (blockBytes(w.type))
    return checkFields(pool, w);
  const int64_t count = w.numScales();
  std::atomic<int64_t> first{count};
  pool.parallelFor(count, 1024, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (i >= first.load(std::memory_order_relaxed))
        return;
      if (judge(w, i, readScale(w.scaleType, w.scale, i)) == BadScale::None)
        continue;
      int64_t known = first.load(std::memory_order_relaxed);
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
      return;
    }
  });
  const int64_t index = first.load();
  if (index == count)
    return {};
  const float value = readScale(w.scaleType, w.scale, index);
  return {judge(w, index, value), index, value};
}

const char *describe(BadScale::Kind kind) {
  switch (kind) {
  case BadScale::None:
    return "good";
  case BadScale::NaN:
    return "NaN";
  case BadScale::Infinite:
    return "infinite";
  case BadScale::Negative:
    return "negative";
  case BadScale::Zero:
    return "zero with a non-zero block";
  }
  return "unknown";
}

void convertScales(int32_t type, const void *in, int64_t count, float *out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = readScale(type, in, i);
}

void expandScale(float scale, int64_t rows, float *out) {
  std::fill_n(out, rows, scale);
}

float matrixAmax(ThreadPool &pool, const KernelTable &kernels, int32_t type,
                 const void *in, int64_t rows, int64_t cols) {
  const char *data = static_cast<const char *>(in);
  const int64_t rowBytes = cols * elementBytes(type);
  std::vector<float> amax(static_cast<size_t>(rows));
  pool.parallelFor(rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      amax[r] = kernels.rowAmax(type, data + r * rowBytes, cols);
  });
  float largest = 0;
  for (float a : amax)
    largest = std::max(largest, a);
  return largest;
}

void quantizeWeight(ThreadPool &pool, const KernelTable &kernels, int32_t type,
                    const void *in, int64_t rows, int64_t cols,
                    int32_t scaleMode, uint8_t *q, float *scale) {
  const char *data = static_cast<const char *>(in);
  const int64_t rowBytes = cols * elementBytes(type);
  const int64_t grain =
      std::max<int64_t>(1, 65536 / std::max<int64_t>(rowBytes, 1));
  if (scaleMode == OCTET_SCALE_CHANNEL) {
    pool.parallelFor(rows, grain, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        scale[r] =
            dynamicScale(kernels.rowAmax(type, data + r * rowBytes, cols));
        kernels.quantizeRow(type, data + r * rowBytes, cols, scale[r],
                            q + r * cols);
      }
    });
    return;
  }
  pool.parallelFor(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      kernels.quantizeRow(type, data + r * rowBytes, cols, *scale,
                          q + r * cols);
  });
}

void ropeTable(ThreadPool &pool, const float *invFreq, int64_t half,
               int64_t positions, float scale, float *out) {
  pool.parallelFor(positions, 16, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      float *row = out + p * 2 * half;
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(p) * invFreq[i];
        double sine, cosine;
        sincos(angle, &sine, &cosine);
        row[i] = static_cast<float>(cosine) * scale;
        row[half + i] = static_cast<float>(sine) * scale;
      }
    }
  });
}

} // namespace octet::rt
