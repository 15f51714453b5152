//===- Quantize.cpp - Rows to E4M3 while loading ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   amax = max |x|, NaN left out          q = e4m3(x / scale), a true division (N2)
//
// x is F32, BF16 or F16, aligned to its element, of any length. Equal to lib/Numerics bit for bit.
//
//===----------------------------------------------------------------------===//

#include "runtime/kernels/cpu/Simd.h"

namespace octet::rt::OCTET_LEVEL_NAMESPACE {

float rowAmax(int32_t type, const void *x, int64_t count) {
  VF amax = VF{};
  for (int64_t i = 0; i < count; i += 16) {
    const VF a = absLanes(widenFrom(x, i, type, minOf<int64_t>(16, count - i)));
    amax = maxLanes(a, amax); // keeps amax where a is NaN
  }
  return maxOfLanes(amax);
}

void quantizeRow(int32_t type, const void *x, int64_t count, float scale, uint8_t *q) {
  for (int64_t i = 0; i < count; i += 16) {
    const int64_t lanes = minOf<int64_t>(16, count - i);
    const VB16 codes = narrowE4M3(widenFrom(x, i, type, lanes) / scale);
    memcpy(q + i, &codes, static_cast<size_t>(lanes));
  }
}

} // namespace octet::rt::OCTET_LEVEL_NAMESPACE
