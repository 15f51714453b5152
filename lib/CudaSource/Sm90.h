//===- Sm90.h - Products by wgmma -------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CUDASOURCE_SM90_H
#define OCTET_LIB_CUDASOURCE_SM90_H

#include "octet/CudaSource/Families.h"
#include <optional>

namespace octet::cuda {

/// Constants of gemm/sm90_swapped.cuh (few rows) or gemm/sm90_tiled.cuh.
struct Sm90Tiles {
  bool isSwapped = false;
  int m = 0, n = 0, stages = 0;
  int buffers = 1;
  // Swapped: CTAs of a cluster that share K, and rows of x; CTAs a
  // multiprocessor that registers are for.
  int splits = 1, share = 1, perSm = 1;
  // Tiled.
  int warpgroups = 2, clusterM = 1, clusterN = 1, group = 8;

  /// "m16n64k128s12_split2", "m256n128k128s4_c1x2": swapped ones have rows up
  /// to 128 and `_swap` where they do not split.
  std::string name(int stepK) const;
};

/// The tiles that a name says; nothing for a name of another form.
std::optional<Sm90Tiles> parseSm90Tiles(std::string_view name);

struct Sm90Variant {
  int64_t maxM = -1; ///< -1: any
  Sm90Tiles tiles;
};

/// Tiles by ranges of M: those measured (tables/sm_90a.json) where the shape
/// is among them, else those of a model of bytes and waves.
/// \param splitsK  false: no sum over K is split, so that a row's result does
///        not depend on how many rows there are (B5).
std::vector<Sm90Variant> chooseSm90Tiles(const GemmProblem &problem,
                                         bool splitsK);

/// The tiles that may be the fastest for `m` rows, the model's best first, at
/// most `most`: what is measured to make a table.
std::vector<Sm90Tiles> listSm90Candidates(const GemmProblem &problem, int64_t m,
                                          size_t most);

/// Tiles by the name that they have in a problem's variants.
std::string nameSm90Tiles(const GemmProblem &problem, const Sm90Tiles &tiles);

/// Why the templates do not make a problem, or "".
std::string rejectSm90(const GemmProblem &problem);
/// Why they do not make it of these tiles, or "".
std::string rejectSm90Tiles(const GemmProblem &problem, const Sm90Tiles &tiles);
int64_t countSm90SharedBytes(const GemmProblem &problem,
                             const Sm90Tiles &tiles);

/// `sm90.dense`, `sm90.fp8_block`, `sm90.fp8_channel`, `sm90.fp8_tensor`, in
/// the variants that the problem names or, where it names none, those of
/// chooseSm90Tiles.
Result<KernelLaunch> makeSm90Gemm(const GemmProblem &problem,
                                  const Target &target);

} // namespace octet::cuda

#endif // OCTET_LIB_CUDASOURCE_SM90_H
