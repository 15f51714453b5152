//===- LoadRequantize.cpp - Codes and scales rewritten --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/LoadRequantize.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include "runtime/cpu/Types.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <vector>

namespace octet::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rows that are worth a task.
int64_t grainOf(const ScaledMatrix &w) {
  return std::max<int64_t>(1, 65536 / std::max<int64_t>(w.cols, 1));
}

Float8 formatOf(int32_t type) {
  switch (type) {
  case OCTET_E5M2:
    return Float8::E5M2;
  case OCTET_E4M3FNUZ:
    return Float8::E4M3FNUZ;
  case OCTET_E5M2FNUZ:
    return Float8::E5M2FNUZ;
  default:
    return Float8::E4M3FN;
  }
}

/// The blocks of a matrix, whatever its granularity is called.
struct Blocks {
  int64_t n, k, columns, count;

  explicit Blocks(const ScaledMatrix &w) {
    n = w.scaleMode == OCTET_SCALE_BLOCK     ? w.blockN
        : w.scaleMode == OCTET_SCALE_CHANNEL ? 1
                                             : std::max<int64_t>(w.rows, 1);
    k = w.scaleMode == OCTET_SCALE_BLOCK ? w.blockK
                                         : std::max<int64_t>(w.cols, 1);
    columns = ceilDiv(w.cols, k);
    count = ceilDiv(w.rows, n) * columns;
  }
  int64_t of(int64_t row, int64_t column) const {
    return row / n * columns + column;
  }
};

/// Calls fn(row, block, pointer to codes, how many) for the part of each row in
/// each block, rows [begin, end).
template <typename Fn>
void forParts(const ScaledMatrix &w, const Blocks &blocks, int64_t begin,
              int64_t end, Fn fn) {
  const auto *codes = static_cast<const uint8_t *>(w.data);
  for (int64_t r = begin; r < end; ++r)
    for (int64_t c = 0; c < blocks.columns; ++c)
      fn(r, blocks.of(r, c), codes + r * w.cols + c * blocks.k,
         std::min(blocks.k, w.cols - c * blocks.k));
}

/// The largest over each block of what `of` gives for a row's part.
template <typename Of>
std::vector<float> reduceBlocks(ThreadPool &pool, const ScaledMatrix &w,
                                const Blocks &blocks, Of of) {
  std::vector<float> partial(static_cast<size_t>(w.rows * blocks.columns));
  pool.parallelFor(w.rows, grainOf(w), [&](int64_t begin, int64_t end) {
    forParts(
        w, blocks, begin, end,
        [&](int64_t row, int64_t block, const uint8_t *codes, int64_t count) {
          partial[row * blocks.columns + block % blocks.columns] =
              of(block, codes, count);
        });
  });
  std::vector<float> largest(static_cast<size_t>(blocks.count));
  for (int64_t row = 0; row < w.rows; ++row)
    for (int64_t c = 0; c < blocks.columns; ++c) {
      float &each = largest[blocks.of(row, c)];
      each = std::max(each, partial[row * blocks.columns + c]);
    }
  return largest;
}

/// Values of codes times a scale, in memory of the thread.
const float *widen(const std::array<float, 256> &values, float scale,
                   const uint8_t *codes, int64_t count) {
  float *out =
      ThreadPool::threadScratch().get<float>(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    out[i] = values[codes[i]] * scale;
  return out;
}

} // namespace

int64_t findBadCode(ThreadPool &pool, const ScaledMatrix &w) {
  const std::array<float, 256> &values = getFloat8Values(formatOf(w.type));
  bool bad[256];
  for (int code = 0; code < 256; ++code)
    bad[code] = !std::isfinite(values[code]);
  const auto *codes = static_cast<const uint8_t *>(w.data);
  const int64_t count = w.rows * w.cols;
  std::atomic<int64_t> first{count};
  pool.parallelFor(count, 65536, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (!bad[codes[i]])
        continue;
      int64_t known = first.load(std::memory_order_relaxed);
      while (i < known && !first.compare_exchange_weak(known, i)) {
      }
      return;
    }
  });
  const int64_t index = first.load();
  return index == count ? -1 : index;
}

bool convertFloat8(ThreadPool &pool, const KernelTable &kernels,
                   const ScaledMatrix &w, int32_t type, uint8_t *q,
                   float *scale) {
  const Blocks blocks(w);
  const auto *old = static_cast<const float *>(w.scale);
  const std::array<float, 256> &values = getFloat8Values(formatOf(w.type));
  if (type == OCTET_E4M3FNUZ) {
    for (int64_t i = 0; i < blocks.count; ++i)
      scale[i] = old[i] * 2;
    pool.parallelFor(w.rows, grainOf(w), [&](int64_t begin, int64_t end) {
      const auto *codes = static_cast<const uint8_t *>(w.data);
      for (int64_t i = begin * w.cols; i < end * w.cols; ++i)
        q[i] = toFnuzCode(codes[i]);
    });
    return false;
  }
  // The magnitude of a block that cannot keep its codes, 0 of one that can.
  const bool mayKeep = w.type == OCTET_E4M3FNUZ;
  std::vector<float> missing(static_cast<size_t>(blocks.count), 1.0f);
  if (mayKeep)
    missing = reduceBlocks(pool, w, blocks,
                           [](int64_t, const uint8_t *codes, int64_t count) {
                             for (int64_t i = 0; i < count; ++i)
                               if ((codes[i] & 0x7F) == 0x7F)
                                 return 1.0f;
                             return 0.0f;
                           });
  bool allStay = true;
  for (float each : missing)
    allStay &= each == 0;
  std::vector<float> amax(missing.size());
  if (!allStay)
    amax = reduceBlocks(
        pool, w, blocks,
        [&](int64_t block, const uint8_t *codes, int64_t count) {
          if (missing[block] == 0)
            return 0.0f;
          return kernels.rowAmax(
              OCTET_F32, widen(values, old[block], codes, count), count);
        });
  for (int64_t i = 0; i < blocks.count; ++i)
    scale[i] = missing[i] == 0 ? old[i] / 2 : dynamicScale(amax[i]);
  if (allStay)
    return true;
  pool.parallelFor(w.rows, grainOf(w), [&](int64_t begin, int64_t end) {
    forParts(w, blocks, begin, end,
             [&](int64_t, int64_t block, const uint8_t *codes, int64_t count) {
               uint8_t *out =
                   q + (codes - static_cast<const uint8_t *>(w.data));
               if (missing[block] == 0)
                 std::copy_n(codes, count, out);
               else
                 kernels.quantizeRow(OCTET_F32,
                                     widen(values, old[block], codes, count),
                                     count, scale[block], out);
             });
  });
  return false;
}

void requantizeTensor(ThreadPool &pool, const KernelTable &kernels,
                      const ScaledMatrix &w, float largest, uint8_t *q) {
  const std::array<float, 256> &values = getFloat8Values(Float8::E4M3FN);
  const float old = *static_cast<const float *>(w.scale);
  const auto *codes = static_cast<const uint8_t *>(w.data);
  pool.parallelFor(w.rows, grainOf(w), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      kernels.quantizeRow(OCTET_F32,
                          widen(values, old, codes + r * w.cols, w.cols),
                          w.cols, largest, q + r * w.cols);
  });
}

bool requantizeToExponents(ThreadPool &pool, const KernelTable &kernels,
                           const ScaledMatrix &w, uint8_t *q, uint8_t *scale) {
  const Blocks blocks(w);
  const auto *old = static_cast<const float *>(w.scale);
  const std::array<float, 256> &values = getFloat8Values(Float8::E4M3FN);
  bool allStay = true;
  for (int64_t i = 0; i < blocks.count; ++i)
    allStay &= isPowerOfTwo(old[i]);
  std::vector<float> amax(static_cast<size_t>(blocks.count));
  if (!allStay)
    amax = reduceBlocks(
        pool, w, blocks,
        [&](int64_t block, const uint8_t *codes, int64_t count) {
          if (isPowerOfTwo(old[block]))
            return 0.0f;
          return kernels.rowAmax(
              OCTET_F32, widen(values, old[block], codes, count), count);
        });
  for (int64_t i = 0; i < blocks.count; ++i)
    scale[i] = isPowerOfTwo(old[i])
                   ? static_cast<uint8_t>(std::bit_cast<uint32_t>(old[i]) >> 23)
                   : encodeUE8M0Scale(amax[i]);
  if (allStay)
    return true;
  pool.parallelFor(w.rows, grainOf(w), [&](int64_t begin, int64_t end) {
    forParts(w, blocks, begin, end,
             [&](int64_t, int64_t block, const uint8_t *codes, int64_t count) {
               uint8_t *out =
                   q + (codes - static_cast<const uint8_t *>(w.data));
               if (isPowerOfTwo(old[block]))
                 std::copy_n(codes, count, out);
               else
                 kernels.quantizeRow(OCTET_F32,
                                     widen(values, old[block], codes, count),
                                     count, decodeUE8M0(scale[block]), out);
             });
  });
  return false;
}

ScaleConflict mergeScales(const ScaledMatrix &w, int64_t blockN, int64_t blockK,
                          float *scale) {
  const Blocks from(w);
  const auto *old = static_cast<const uint8_t *>(w.scale);
  const int64_t columns = ceilDiv(w.cols, blockK);
  for (int64_t i = 0; i < from.count; ++i) {
    const int64_t row = i / from.columns * from.n / blockN * blockN;
    const int64_t column = i % from.columns * from.k / blockK * blockK;
    const int64_t first =
        row / from.n * from.columns + column / from.k; // of the block
    if (old[i] != old[first])
      return {first, i};
    scale[row / blockN * columns + column / blockK] = decodeUE8M0(old[i]);
  }
  return {};
}

} // namespace octet::rt
