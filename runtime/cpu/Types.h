//===- Types.h - Sizes of octet_dtype ---------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_TYPES_H
#define OCTET_RUNTIME_CPU_TYPES_H

#include "runtime/abi.h"

namespace octet::rt {

/// Elements of the blocks of OCTET_Q8_0, OCTET_Q4_0 and OCTET_Q4_1.
inline constexpr int64_t kBlockElements = 32;

/// F16 values at the beginning of such a block: its scale, and its minimum.
constexpr int64_t blockFields(int32_t type) {
  return type == OCTET_Q4_1 ? 2 : 1;
}

/// Bytes of such a block; 0 for a type of single elements.
constexpr int64_t blockBytes(int32_t type) {
  switch (type) {
  case OCTET_Q8_0:
    return 34;
  case OCTET_Q4_0:
    return 18;
  case OCTET_Q4_1:
    return 20;
  default:
    return 0;
  }
}

/// Bytes of one element; not of blocks.
constexpr int64_t elementBytes(int32_t type) {
  switch (type) {
  case OCTET_F32:
  case OCTET_I32:
    return 4;
  case OCTET_E4M3:
  case OCTET_I8:
  case OCTET_E8M0:
  case OCTET_E5M2:
  case OCTET_E4M3FNUZ:
  case OCTET_E5M2FNUZ:
    return 1;
  default:
    return 2;
  }
}

/// Bytes of a row of `cols` elements; kBlockElements divides `cols` of blocks.
constexpr int64_t rowBytes(int32_t type, int64_t cols) {
  if (type == OCTET_E2M1)
    return (cols + 1) / 2;
  const int64_t block = blockBytes(type);
  return block ? cols / kBlockElements * block : cols * elementBytes(type);
}

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_TYPES_H
