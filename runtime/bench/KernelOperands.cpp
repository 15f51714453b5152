//===- KernelOperands.cpp - Bytes of a product's operands -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelOperands.h"
#include "octet/Support/Checked.h"
#include "runtime/abi.h"
#include "runtime/cpu/Types.h"

using namespace octet;
using namespace octet::rt;
using cuda::BenchCase;
using cuda::BenchOperand;

static int64_t scaleRows(const BenchOperand &w) {
  int64_t rows = 0;
  for (int64_t shard : w.shards)
    rows += cdiv(shard, w.blockN);
  return rows;
}

static int64_t countScales(const BenchOperand &operand, int64_t rows,
                           int64_t k) {
  switch (operand.scaleMode) {
  case OCTET_SCALE_TENSOR:
    return operand.shards.empty() ? 1 : int64_t(operand.shards.size());
  case OCTET_SCALE_CHANNEL:
    return rows;
  case OCTET_SCALE_BLOCK: {
    const int64_t groups = cdiv(k, operand.blockK);
    if (!operand.shards.empty())
      return scaleRows(operand) * groups;
    return (operand.columnMajor ? alignTo(rows, 4) : rows) * groups;
  }
  default:
    return 0;
  }
}

OperandLayout OperandLayout::of(const BenchCase &c) {
  OperandLayout layout;
  layout.xCount = c.m * c.k;
  layout.wCount = c.n * c.k;
  layout.yCount = c.m * c.n;
  layout.xScales = countScales(c.x, c.m, c.k);
  layout.wScales = countScales(c.w, c.n, c.k);
  layout.yBytes = layout.yCount * elementBytes(c.yType);
  auto place = [&](int64_t &offset, int64_t bytes) {
    offset = layout.bytes;
    layout.bytes += alignTo(bytes, 256);
    layout.movedBytes += bytes;
  };
  place(layout.x, layout.xCount * elementBytes(c.x.type));
  place(layout.xScale, layout.xScales * 4);
  place(layout.w, layout.wCount * elementBytes(c.w.type));
  place(layout.wScale, layout.wScales * 4);
  place(layout.y, layout.yBytes);
  return layout;
}

/// CheckScale of check/gemm_check.cuh.
static int32_t checkMode(const BenchOperand &operand) {
  constexpr int32_t kScaleOfColumn = 4;
  return operand.columnMajor ? kScaleOfColumn : operand.scaleMode;
}

CheckedMatrix CheckedMatrix::ofX(const BenchCase &c, uint64_t base) {
  const OperandLayout layout = OperandLayout::of(c);
  CheckedMatrix m;
  m.data = base + uint64_t(layout.x);
  m.scale = base + uint64_t(layout.xScale);
  m.type = c.x.type;
  m.mode = checkMode(c.x);
  m.rows = int32_t(c.m);
  m.cols = int32_t(c.k);
  m.blockRows = 1;
  m.blockCols = int32_t(c.x.blockK);
  m.numShards = 1;
  m.shardRows[0] = m.rows;
  return m;
}

CheckedMatrix CheckedMatrix::ofW(const BenchCase &c, uint64_t base) {
  const OperandLayout layout = OperandLayout::of(c);
  CheckedMatrix m;
  m.data = base + uint64_t(layout.w);
  m.scale = base + uint64_t(layout.wScale);
  m.type = c.w.type;
  m.mode = checkMode(c.w);
  m.rows = int32_t(c.n);
  m.cols = int32_t(c.k);
  m.blockRows = int32_t(c.w.blockN);
  m.blockCols = int32_t(c.w.blockK);
  m.numShards = int32_t(c.w.shards.size());
  for (size_t i = 0; i < c.w.shards.size(); ++i)
    m.shardRows[i] = int32_t(c.w.shards[i]);
  return m;
}
