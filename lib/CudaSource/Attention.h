//===- Attention.h - kernel.attention to CUDA C++ ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instances of runtime/kernels/cuda/attention: pagedDecode for the sequences of
// one row and, where a step has longer ones, pagedPrefill for those; of
// `sm90.paged_attention` with heads of a multiple of 64, sm90Prefill.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_ATTENTION_H
#define OCTET_CUDASOURCE_ATTENTION_H

#include "octet/CudaSource/Families.h"

namespace octet::cuda {

/// Takes heads of a multiple of 8 up to 256, BF16 or F16, and a cache of that
/// type or of E4M3 (P7a).
Result<KernelLaunch> makePagedAttention(const AttentionProblem &problem,
                                        const Target &target);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_ATTENTION_H
