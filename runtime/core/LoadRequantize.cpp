//===- LoadRequantize.cpp - The services that round weights again ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// q.requantize (N8, W8, W11) and q.merge_scales (B6). Codes that can stay as
// they are stay in the mapping of the checkpoint.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/LoadRequantize.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Numerics/Requantize.h"
#include "octet/Support/Checked.h"
#include "runtime/core/LoadServices.h"
#include "runtime/cpu/CpuBackend.h"
#include "runtime/cpu/ThreadPool.h"
#include <algorithm>
#include <cstdio>

using namespace octet;
using namespace octet::rt;

/// Room for the codes of a part; null after recording an error.
static uint8_t *allocateCodes(Context &c, const octet_tensor_desc &desc,
                              const octet_part &part) {
  return static_cast<uint8_t *>(
      c.allocate(checkedMul(part.rows, desc.cols).value_or(-1)));
}

static std::string hex(uint8_t code) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02X", code);
  return text;
}

/// N8, of one part.
static int32_t convertCodes(Context &c, const octet_tensor_desc &from,
                            const octet_tensor_desc &to, octet_part &part) {
  const ScaledMatrix w = matrixOf(from, part);
  if (const int64_t bad = findBadCode(*c.pool, w); bad >= 0)
    return badValue(c, &from, part.tensor,
                    "element " + indexText(c, part.tensor, bad) + " is " +
                        hex(static_cast<const uint8_t *>(part.data)[bad]) +
                        ", which is no finite number in its format",
                    "N8", "the codes of a weight are finite");
  uint8_t *codes = allocateCodes(c, from, part);
  auto *scale =
      static_cast<float *>(c.allocate(w.numScales() * int64_t(sizeof(float))));
  if (!codes || !scale)
    return 1;
  if (!convertFloat8(*c.pool, kernelTable(c.level), w, to.type, codes, scale))
    part.data = codes;
  part.scale = scale;
  return 0;
}

/// W8, of all parts: the largest scale is that of the whole matrix.
static int32_t useLargestScale(Context &c, const octet_tensor_desc &from,
                               octet_weight &weight) {
  float largest = 0;
  for (int64_t i = 0; i < weight.num_parts; ++i)
    largest =
        std::max(largest, *static_cast<const float *>(weight.parts[i].scale));
  auto *scale = static_cast<float *>(c.allocate(int64_t(sizeof(float))));
  if (!scale)
    return 1;
  *scale = largest;
  for (int64_t i = 0; i < weight.num_parts; ++i) {
    octet_part &part = weight.parts[i];
    if (*static_cast<const float *>(part.scale) != largest) {
      uint8_t *codes = allocateCodes(c, from, part);
      if (!codes)
        return 1;
      requantizeTensor(*c.pool, kernelTable(c.level), matrixOf(from, part),
                       largest, codes);
      part.data = codes;
    }
    part.scale = scale;
  }
  return 0;
}

/// W11, of one part.
static int32_t useExponents(Context &c, const octet_tensor_desc &from,
                            octet_part &part) {
  const ScaledMatrix w = matrixOf(from, part);
  uint8_t *codes = allocateCodes(c, from, part);
  auto *scale = static_cast<uint8_t *>(c.allocate(w.numScales()));
  if (!codes || !scale)
    return 1;
  if (!requantizeToExponents(*c.pool, kernelTable(c.level), w, codes, scale))
    part.data = codes;
  part.scale = scale;
  return 0;
}

int32_t rt::requantizeWeight(octet_ctx *ctx, const octet_tensor_desc *from,
                             const octet_tensor_desc *to,
                             const octet_weight *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  octet_weight result = *in;
  const bool isSameCode = from->type == to->type;
  if (isSameCode && from->scale_mode == OCTET_SCALE_TENSOR) {
    if (int32_t status = useLargestScale(c, *from, result))
      return status;
    *out = result;
    return 0;
  }
  for (int64_t i = 0; i < result.num_parts; ++i)
    if (int32_t status = isSameCode
                             ? useExponents(c, *from, result.parts[i])
                             : convertCodes(c, *from, *to, result.parts[i]))
      return status;
  *out = result;
  return 0;
}

int32_t rt::mergeScalesOf(octet_ctx *ctx, const octet_tensor_desc *from,
                          const octet_tensor_desc *to, const octet_weight *in,
                          octet_weight *out) {
  Context &c = Context::from(ctx);
  octet_weight result = *in;
  for (int64_t i = 0; i < result.num_parts; ++i) {
    octet_part &part = result.parts[i];
    const ScaledMatrix w = matrixOf(*from, part);
    const int64_t count = matrixOf(*to, part).numScales();
    auto *scale =
        static_cast<float *>(c.allocate(count * int64_t(sizeof(float))));
    if (!scale)
      return 1;
    if (ScaleConflict bad = mergeScales(w, to->block_n, to->block_k, scale)) {
      const auto *old = static_cast<const uint8_t *>(part.scale);
      return badValue(
          c, from, part.scale_tensor,
          "element " + indexText(c, part.scale_tensor, bad.second) + " is 2^" +
              std::to_string(int(old[bad.second]) - 127) + " and " +
              indexText(c, part.scale_tensor, bad.first) + " is 2^" +
              std::to_string(int(old[bad.first]) - 127) +
              ", both in one block of " + std::to_string(to->block_n) + "x" +
              std::to_string(to->block_k),
          "B6",
          "--mxfp8-as block needs equal scales over each block, --mxfp8-as "
          "weight-only takes any");
    }
    part.scale = scale;
  }
  *out = result;
  return 0;
}
