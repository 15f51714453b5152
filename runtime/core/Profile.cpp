//===- Profile.cpp - What each operator of a program takes ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Profile.h"
#include "runtime/core/Context.h"
#include "runtime/core/KvCache.h"
#include "runtime/core/Services.h"
#include "runtime/cpu/Grouped.h"
#include <algorithm>
#include <ctime>
#include <map>
#include <tuple>

using namespace octet;
using namespace octet::rt;

const char *rt::operatorKindName(OperatorKind kind) {
  switch (kind) {
  case OperatorKind::Rows:
    return "rows";
  case OperatorKind::Product:
    return "product";
  case OperatorKind::Attention:
    return "attention";
  }
  return "";
}

void Profile::add(const void *site, OperatorKind kind, const char *name,
                  int64_t nanoseconds, int64_t bytes, int64_t flops,
                  const std::string &detail) {
  OperatorProfile &entry = sites[site];
  if (entry.calls++ == 0) {
    entry.kind = kind;
    entry.name = name;
    entry.detail = detail;
  }
  entry.nanoseconds += nanoseconds;
  entry.bytes += bytes;
  entry.flops += flops;
}

std::vector<OperatorProfile> Profile::entries() const {
  // Runs of equal layers have a site each.
  std::map<std::tuple<OperatorKind, std::string, std::string>, OperatorProfile>
      merged;
  for (const auto &[site, entry] : sites) {
    auto [it, isNew] =
        merged.try_emplace({entry.kind, entry.name, entry.detail}, entry);
    if (isNew)
      continue;
    it->second.calls += entry.calls;
    it->second.nanoseconds += entry.nanoseconds;
    it->second.bytes += entry.bytes;
    it->second.flops += entry.flops;
  }
  std::vector<OperatorProfile> result;
  for (auto &[key, entry] : merged)
    result.push_back(std::move(entry));
  std::ranges::sort(result, [](const auto &a, const auto &b) {
    return std::tie(b.nanoseconds, a.kind, a.name) <
           std::tie(a.nanoseconds, b.kind, b.name);
  });
  return result;
}

//===----------------------------------------------------------------------===//
// What a call reads and computes
//===----------------------------------------------------------------------===//

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

static int64_t weightBytes(const octet_gemm_desc &desc, const octet_weight &w) {
  int64_t bytes = 0;
  for (int64_t i = 0; i < w.num_parts; ++i) {
    const int64_t rows = w.parts[i].rows;
    bytes += desc.w_type == OCTET_TILES
                 ? tileLayoutOf(desc.groups, desc.k).bytes(rows)
                 : rows * rowBytes(desc.w_type, desc.k);
    int64_t scales = 0;
    if (desc.w_scale_mode == OCTET_SCALE_TENSOR)
      scales = 1;
    else if (desc.w_scale_mode == OCTET_SCALE_CHANNEL)
      scales = rows;
    else if (desc.w_scale_mode == OCTET_SCALE_BLOCK)
      scales = ceilDiv(rows, desc.block_n) * ceilDiv(desc.k, desc.block_k);
    bytes += scales * int64_t(sizeof(float));
  }
  return bytes;
}

/// Keys that the rows of a batch see: of each sequence once, and of each row.
static std::pair<int64_t, int64_t> countKeys(const octet_attention_desc &desc,
                                             const octet_batch &batch) {
  int64_t read = 0, multiplied = 0;
  for (int64_t i = 0; i < batch.num_sequences; ++i) {
    const octet_sequence &s = batch.sequences[i];
    const int64_t first = s.context - s.num_rows; // position of its first row
    const int64_t window = desc.window ? desc.window : s.context;
    read += std::min(s.context, window + s.num_rows - 1);
    for (int64_t row = 0; row < s.num_rows; ++row)
      multiplied += std::min(first + row + 1, window);
  }
  return {read, multiplied};
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

static int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * int64_t(1'000'000'000) + time.tv_nsec;
}

static void parallelFor(octet_ctx *ctx, const octet_rows_desc *desc, int64_t n,
                        octet_row_fn fn, void *arg) {
  const int64_t start = now();
  cpuServices()->parallel_for(ctx, desc, n, fn, arg);
  Context::from(ctx).profile->add(desc, OperatorKind::Rows, desc->name,
                                  now() - start, n * desc->row_bytes, 0);
}

static void gemm(octet_ctx *ctx, const octet_gemm_desc *desc, int64_t m,
                 const void *x, const float *xScale, const octet_weight *w,
                 const octet_weight *bias, void *y) {
  const int64_t start = now();
  cpuServices()->gemm(ctx, desc, m, x, xScale, w, bias, y);
  Context::from(ctx).profile->add(desc, OperatorKind::Product, desc->module,
                                  now() - start, weightBytes(*desc, *w),
                                  2 * m * desc->n * desc->k);
}

static void attention(octet_ctx *ctx, const octet_attention_desc *desc,
                      int64_t layer, const octet_batch *batch, const void *q,
                      const float *kScale, const float *vScale, void *y) {
  const int64_t start = now();
  cpuServices()->attention(ctx, desc, layer, batch, q, kScale, vScale, y);
  const int64_t elapsed = now() - start;
  auto [read, multiplied] = countKeys(*desc, *batch);
  Context::from(ctx).profile->add(
      desc, OperatorKind::Attention, desc->module, elapsed,
      2 * read * desc->kv_heads * desc->head_dim * elementBytes(desc->kv_type),
      4 * multiplied * desc->q_heads * desc->head_dim);
}

const octet_runtime *rt::profiledServices() {
  static const octet_runtime table = [] {
    octet_runtime t = *cpuServices();
    t.parallel_for = parallelFor;
    t.gemm = gemm;
    t.attention = attention;
    return t;
  }();
  return &table;
}
