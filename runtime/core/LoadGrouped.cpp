//===- LoadGrouped.cpp - Codes that share words, while loading ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// octet_runtime's check_groups, share_global and tile_weight: finds the
// tensors, owns the tiles, and names the tensor that holds a bad value.
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Fp4.h"
#include "runtime/core/LoadServices.h"
#include "runtime/core/RandomWeights.h"
#include "runtime/cpu/Grouped.h"
#include "runtime/cpu/Types.h"

using namespace octet;
using namespace octet::rt;

static const void *dataOf(const octet_weight *weight) {
  return weight ? weight->parts[0].data : nullptr;
}

/// What a weight of one part looks like to the arithmetic.
static GroupedMatrix groupedOf(const octet_tensor_desc &desc,
                               const octet_grouped &in) {
  GroupedMatrix m;
  m.groups = desc.groups;
  m.type = desc.type;
  m.rows = desc.rows;
  m.cols = desc.cols;
  m.codes = dataOf(in.codes);
  m.scales = dataOf(in.scales);
  m.zeros = dataOf(in.zeros);
  // Loading aligned both to their elements.
  m.global = static_cast<const float *>(dataOf(in.global));
  m.order = static_cast<const int32_t *>(dataOf(in.order));
  return m;
}

/// "scale of row 3, block 7", rows in the order of the file (W16).
static std::string nameField(const Context &c, const octet_tensor_desc &desc,
                             int32_t tensor, int64_t index) {
  const int64_t fields = blockFields(desc.type), block = index / fields;
  const int64_t groups = desc.cols / kBlockElements;
  int64_t row = block / groups;
  const bool known = tensor >= 0 && tensor < int64_t(c.rows.size());
  if (const int64_t head = known ? c.rows[tensor]->headRows : 0) {
    const int64_t within = row % head;
    row += 2 * (within % (head / 2)) + within / (head / 2) - within;
  }
  return std::string(index % fields ? "minimum" : "scale") + " of row " +
         std::to_string(row) + ", block " + std::to_string(block % groups);
}

int32_t rt::checkGroupsOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                          const octet_grouped *in) {
  Context &c = Context::from(ctx);
  const BadGroup bad = checkGroups(*c.pool, groupedOf(*desc, *in));
  if (!bad)
    return 0;
  const octet_weight *weights[] = {in->codes, in->codes,  in->scales,
                                   in->zeros, in->global, in->order};
  const int32_t tensor = weights[bad.part]->parts[0].tensor;
  // "NaN; a scale is finite and positive": the value, and what would be right.
  const size_t semicolon = bad.what.find("; ");
  const std::string value = bad.what.substr(0, semicolon);
  const std::string why = semicolon == std::string::npos
                              ? "it has to be finite"
                              : bad.what.substr(semicolon + 2);
  std::string where;
  if (bad.part == BadGroup::Blocks)
    where = nameField(c, *desc, tensor, bad.index);
  else if (std::string index = indexText(c, tensor, bad.index); !index.empty())
    where = "element " + index;
  else
    where = "it";
  return badValue(c, desc, tensor, where + " is " + value, bad.rule, why);
}

int32_t rt::shareGlobalOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                          const octet_grouped *in, int64_t count,
                          const octet_weight *const *globals,
                          octet_weight *outScales, octet_weight *outGlobal) {
  Context &c = Context::from(ctx);
  const GroupedMatrix m = groupedOf(*desc, *in);
  const bool divides = m.groups.global == OCTET_GLOBAL_DIVIDES;
  float shared = *m.global;
  for (int64_t i = 0; i < count; ++i) {
    const float other = *static_cast<const float *>(dataOf(globals[i]));
    shared = divides ? std::min(shared, other) : std::max(shared, other);
  }
  if (shared == *m.global) {
    *outScales = *in->scales;
    *outGlobal = *in->global;
    return 0;
  }
  const int64_t numScales = m.rows * m.numGroups();
  auto *scales = static_cast<uint8_t *>(c.allocate(numScales));
  auto *global = static_cast<float *>(c.allocate(int64_t(sizeof(float))));
  if (!scales || !global)
    return 1;
  *global = shared;
  // One that divides is the factor's reciprocal.
  const float own = divides ? shared : *m.global;
  const float below = divides ? *m.global : shared;
  const auto *stored = static_cast<const uint8_t *>(m.scales);
  c.pool->parallelFor(numScales, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      scales[i] = rescaleGroup(stored[i], own, below);
  });
  *outScales = octet_weight{1, {{scales, nullptr, m.rows, -1, -1}}};
  *outGlobal = octet_weight{1, {{global, nullptr, 1, -1, -1}}};
  return 0;
}

int32_t rt::tileWeightOf(octet_ctx *ctx, const octet_tensor_desc *desc,
                         const octet_grouped *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  const GroupedMatrix m = groupedOf(*desc, *in);
  void *tiles = c.allocate(tiledBytes(m));
  if (!tiles)
    return 1;
  tileWeight(*c.pool, m, tiles);
  float *global = nullptr;
  if (m.global) {
    global = static_cast<float *>(c.allocate(int64_t(sizeof(float))));
    if (!global)
      return 1;
    *global = globalFactor(m);
  }
  const int32_t tensor = in->codes->parts[0].tensor;
  // What was read is not read again, but by an embedding that shares it.
  if (!c.random && c.mapped && tensor >= 0 && tensor < int64_t(c.rows.size()))
    c.mapped->release(*c.rows[tensor]);
  *out = octet_weight{1, {{tiles, global, m.rows, -1, -1}}};
  return 0;
}
