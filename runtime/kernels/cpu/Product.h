//===- Product.h - Panels, scales and rounding of a product -----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the ways to multiply share (Gemm.cpp, Amx.cpp): which rows of W a task takes, the scales
// of its sums (N6, N6b, W5b), bias, and the one rounding of y.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_KERNELS_CPU_PRODUCT_H
#define OCTET_RUNTIME_KERNELS_CPU_PRODUCT_H

#include "runtime/kernels/cpu/Dot.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {
namespace {

struct Problem {
  const octet_gemm_desc &desc;
  int64_t m;
  const void *x;
  const float *xScale;
  const octet_weight &w;
  const octet_weight *bias;
  void *y;
  ChunkMap map;
  bool blocked;
};

/// A run of rows of one part.
struct Panel {
  const octet_part *part;
  const octet_part *bias; // or null
  int64_t row;            // first, in the part
  int64_t rows;
  int64_t column; // of y
};

int64_t countPanels(const octet_weight &w, int64_t size) {
  int64_t count = 0;
  for (int64_t p = 0; p < w.num_parts; ++p)
    count += ceilDiv(w.parts[p].rows, size);
  return count;
}

Panel findPanel(const Problem &problem, int64_t index, int64_t size) {
  int64_t column = 0;
  for (int64_t p = 0;; ++p) {
    const octet_part &part = problem.w.parts[p];
    const int64_t count = ceilDiv(part.rows, size);
    if (index < count) {
      const int64_t row = index * size;
      const bool biased = problem.desc.bias_type >= 0 && problem.bias &&
                          p < problem.bias->num_parts && problem.bias->parts[p].data;
      return {&part, biased ? &problem.bias->parts[p] : nullptr, row, minOf(size, part.rows - row),
              column + row};
    }
    index -= count;
    column += part.rows;
  }
}

/// Scale of row i of x in block b.
OCTET_INLINE float xScaleAt(const Problem &problem, int64_t i, int64_t b) {
  switch (problem.desc.x_scale_mode) {
  case OCTET_SCALE_TENSOR:
    return problem.xScale[0];
  case OCTET_SCALE_CHANNEL:
    return problem.xScale[i];
  case OCTET_SCALE_BLOCK:
    return problem.xScale[i * problem.map.scaleBlocks + b];
  default:
    return 1.0f;
  }
}

/// 2^(code - 127) (N4); NaN scales were refused when they were loaded (W6).
OCTET_INLINE float widenE8M0(uint8_t code) {
  const uint32_t bits = code ? static_cast<uint32_t>(code) << 23 : 0x00400000u;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

/// The scale row of a row of a part (W5b), and its value in block b.
OCTET_INLINE int64_t scaleRowOf(const Problem &problem, int64_t row) {
  switch (problem.desc.w_scale_mode) {
  case OCTET_SCALE_CHANNEL:
    return row;
  case OCTET_SCALE_BLOCK:
    return row / problem.desc.block_n;
  default:
    return 0;
  }
}
OCTET_INLINE float wScaleAt(const Problem &problem, const octet_part &part, int64_t scaleRow,
                            int64_t b) {
  const float *scale = static_cast<const float *>(part.scale);
  switch (problem.desc.w_scale_mode) {
  case OCTET_SCALE_TENSOR:
  case OCTET_SCALE_CHANNEL:
    return scale[scaleRow];
  case OCTET_SCALE_BLOCK: {
    const int64_t at = scaleRow * problem.map.scaleBlocks + b;
    return problem.desc.w_scale_type == OCTET_E8M0
               ? widenE8M0(static_cast<const uint8_t *>(part.scale)[at])
               : scale[at];
  }
  default:
    return 1.0f;
  }
}

/// Fills rowScales[j] for the rows of a panel: tables of sx * sw, [block][rows of x, padded to
/// `stride`], one for each scale row that the panel touches.
static inline void buildScaleTables(const Problem &problem, const Panel &panel, int64_t m0,
                                    int64_t rows, int64_t stride, float *table,
                                    const float **rowScales) {
  const int64_t blocks = problem.map.scaleBlocks;
  const bool isExponentRow = stride == 1 && problem.desc.w_scale_type == OCTET_E8M0 &&
                             problem.desc.w_scale_mode == OCTET_SCALE_BLOCK &&
                             problem.desc.x_scale_mode == OCTET_SCALE_BLOCK;
  int64_t last = -1;
  for (int64_t j = 0; j < panel.rows; ++j) {
    const int64_t scaleRow = scaleRowOf(problem, panel.row + j);
    if (j == 0 || scaleRow != last) {
      if (j > 0)
        table += problem.map.tableBlocks * stride;
      if (isExponentRow) {
        // One token: as many scales as there are groups in the row, so in vectors.
        const float *sx = problem.xScale + m0 * blocks;
        const uint8_t *sw = static_cast<const uint8_t *>(panel.part->scale) + scaleRow * blocks;
        for (int64_t b = 0; b < blocks; ++b)
          table[b] = sx[b] * widenE8M0(sw[b]);
      } else {
        for (int64_t b = 0; b < blocks; ++b) {
          const float sw = wScaleAt(problem, *panel.part, scaleRow, b);
          for (int64_t i = 0; i < rows; ++i)
            table[b * stride + i] = xScaleAt(problem, m0 + i, b) * sw;
          for (int64_t i = rows; i < stride; ++i)
            table[b * stride + i] = 0;
        }
      }
      // Behind the row, where its last chunk is half a chunk.
      for (int64_t i = blocks * stride; i < problem.map.tableBlocks * stride; ++i)
        table[i] = 0;
      last = scaleRow;
    }
    rowScales[j] = table;
  }
}

/// How many scale rows a panel touches.
static inline int64_t countScaleRows(const Problem &problem, const Panel &panel) {
  return scaleRowOf(problem, panel.row + panel.rows - 1) - scaleRowOf(problem, panel.row) + 1;
}

/// Scales, bias and the one rounding of rows of sums. Columns go by 16: `start` takes those of the
/// panel from `first`, `row` a vector of them.
struct Finish {
  const Problem &problem;
  const Panel &panel;
  bool scaled;
  int64_t first = 0, count = 0;
  VF sw = VF{}, bias = VF{};

  Finish(const Problem &problem, const Panel &panel) : problem(problem), panel(panel) {
    scaled = !problem.blocked && (problem.desc.x_scale_mode != OCTET_SCALE_NONE ||
                                  problem.desc.w_scale_mode != OCTET_SCALE_NONE);
  }
  void start(int64_t column) {
    const octet_gemm_desc &desc = problem.desc;
    first = column;
    count = minOf<int64_t>(16, panel.rows - column);
    sw = splat(1.0f);
    if (scaled && desc.w_scale_mode == OCTET_SCALE_CHANNEL)
      sw = widenFrom(panel.part->scale, panel.row + column, OCTET_F32, count);
    else if (scaled && desc.w_scale_mode == OCTET_SCALE_TENSOR)
      sw = splat(*static_cast<const float *>(panel.part->scale));
    if (panel.bias)
      bias = widenFrom(panel.bias->data, panel.row + column, desc.bias_type, count);
  }
  void row(int64_t i, VF v) const {
    if (scaled)
      v *= xScaleAt(problem, i, 0) * sw;
    if (panel.bias)
      v += bias;
    narrowTo(problem.y, i * problem.desc.n + panel.column + first, problem.desc.y_type, v, count);
  }
};

/// For sums [columns of the panel][ld rows], in squares of 16; reads 16 rows even of the last
/// square.
static inline void finishColumns(const Problem &problem, const Panel &panel, int64_t m0,
                                 int64_t rows, const float *sums, int64_t ld) {
  Finish finish(problem, panel);
  for (int64_t j = 0; j < panel.rows; j += 16) {
    finish.start(j);
    for (int64_t i = 0; i < rows; i += 16) {
      VI square[16];
      for (int c = 0; c < 16; ++c)
        square[c] = load<VI>(sums + (j + c) * ld + i);
      transposeWords(square);
      const int64_t end = minOf<int64_t>(16, rows - i);
      for (int64_t r = 0; r < end; ++r)
        finish.row(m0 + i + r, (VF)square[r]);
    }
  }
}

} // namespace
} // namespace octet::rt::OCTET_LEVEL_NAMESPACE

#endif // OCTET_RUNTIME_KERNELS_CPU_PRODUCT_H
