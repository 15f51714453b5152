//===- Fp4Gemm.h - Products of two operands in E2M1 -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_FP4GEMM_H
#define OCTET_RUNTIME_CORE_FP4GEMM_H

#include "runtime/core/Context.h"

namespace octet::rt {

/// octet_runtime::gemm of an input in OCTET_E2M1 and a weight in OCTET_TILES:
/// the reference of targets that multiply such operands (B4, N7), in FP32. A
/// code times its group's scale is exact there; the scales above those of
/// groups are one factor at the end.
void gemmOfFp4(Context &c, const octet_gemm_desc &desc, int64_t m,
               const void *x, const void *xScale, const octet_weight &w,
               const octet_weight *bias, void *y);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_FP4GEMM_H
