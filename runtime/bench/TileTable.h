//===- TileTable.h - Measured tiles by shape --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `octet tune` is for: the table that select-kernels reads
// (lib/CudaSource/tables), made of what was measured.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_BENCH_TILETABLE_H
#define OCTET_RUNTIME_BENCH_TILETABLE_H

#include "runtime/bench/KernelReport.h"
#include <nlohmann/json_fwd.hpp>

namespace octet::rt {

/// For each N and K the fastest variant that passed by ranges of M:
///
///   {"device": …, "date": …, "shapes": [{"n": 4096, "k": 7168, "variants":
///     [{"max_m": 16, "tiles": "…"}, …, {"max_m": -1, "tiles": "…"}]}]}
///
/// A range ends at a measured M; the last has no end. The variant of the range
/// before goes on while it is within 1 % of the fastest, so that noise makes no
/// ranges. An M that nothing passed at is left out.
nlohmann::json makeTileTable(const KernelReport &report);

} // namespace octet::rt

#endif // OCTET_RUNTIME_BENCH_TILETABLE_H
