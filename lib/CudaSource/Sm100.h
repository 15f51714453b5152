//===- Sm100.h - Products in tensor memory ----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_CUDASOURCE_SM100_H
#define OCTET_LIB_CUDASOURCE_SM100_H

#include "octet/CudaSource/Families.h"

namespace octet::cuda {

/// `sm100.dense`, `sm100.fp8_block` (the scales of x are words of four
/// exponents, those of w bytes), `sm100.fp8_channel`, `sm100.fp8_tensor`.
/// Compile-only: no device of this family was at hand.
Result<KernelLaunch> makeSm100Gemm(const GemmProblem &problem,
                                   const Target &target);

} // namespace octet::cuda

#endif // OCTET_LIB_CUDASOURCE_SM100_H
