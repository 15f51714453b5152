//===- Mma.h - Products by mma.sync -----------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CUDASOURCE_MMA_H
#define OCTET_LIB_CUDASOURCE_MMA_H

#include "octet/CudaSource/Families.h"

namespace octet::cuda {

/// The constants of gemm/mma_gemm.cuh that a choice of tiles fixes.
struct MmaTiles {
  int m = 0, n = 0;           ///< of y
  int warpsM = 0, warpsN = 0; ///< of a CTA
  int stages = 0;
  int sharedBytes = 0;

  bool operator==(const MmaTiles &) const = default;
};

/// The tiles for up to `rows` rows (-1: many): a closed-form estimate, nothing
/// is measured on these targets. Every choice gives the same numbers (B5).
MmaTiles chooseMmaTiles(const GemmProblem &problem, int64_t rows);

/// The instance with these tiles. \pre  the problem is one of the template's.
KernelInstance makeMmaInstance(const GemmProblem &problem,
                               const MmaTiles &tiles, const Target &target);

/// `mma.dense`, `mma.fp8_block`, `mma.fp8_channel`, `mma.fp8_tensor`,
/// `cuda.fp8_generic`, `cuda.fp8_weight_only`.
Result<KernelLaunch> makeMmaGemm(const GemmProblem &problem,
                                 const Target &target);

} // namespace octet::cuda

#endif // OCTET_LIB_CUDASOURCE_MMA_H
