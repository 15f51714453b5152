//===- Grouped.h - Codes that share words, into tiles -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What octet_runtime's check_groups and tile_weight compute, without where
// tensors come from.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_GROUPED_H
#define OCTET_RUNTIME_CPU_GROUPED_H

#include "runtime/abi.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/TileLayout.h"
#include <string>

namespace octet::rt {

/// The tensors of a weight as a checkpoint stores them (abi.h), of any
/// alignment but `order`'s.
struct GroupedMatrix {
  octet_groups groups{};
  int32_t type = 0; ///< OCTET_Q4_0 or OCTET_Q4_1 of OCTET_PACKING_GGUF
  int64_t rows = 0, cols = 0;
  const void *codes = nullptr;
  const void *scales = nullptr;
  const void *zeros = nullptr;    ///< null: none
  const float *global = nullptr;  ///< null: none
  const int32_t *order = nullptr; ///< null: column k is in group k / size

  int64_t numGroups() const { return (cols + groups.size - 1) / groups.size; }
};

/// Something that W1 or W6 refuses.
struct BadGroup {
  enum Part { None, Blocks, Scales, Zeros, Global, Order };
  Part part = None;
  /// In the tensor of that part, row-major; of blocks their fields.
  int64_t index = 0;
  std::string what; ///< "NaN; a scale is finite and positive"
  const char *rule = "W6";

  explicit operator bool() const { return part != None; }
};

/// The first scale, minimum, zero point or index that cannot be.
BadGroup checkGroups(ThreadPool &pool, const GroupedMatrix &m);

/// The tiles that a weight becomes.
TileLayout tileLayoutOf(const octet_groups &groups, int64_t cols);

/// Bytes of a weight in tiles, with its columns' order.
int64_t tiledBytes(const GroupedMatrix &m);

/// Writes `tiledBytes` bytes to `out`, which is aligned to 64.
void tileWeight(ThreadPool &pool, const GroupedMatrix &m, void *out);

/// The scale above those of groups, as a factor.
float globalFactor(const GroupedMatrix &m);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_GROUPED_H
