//===- Sampler.h - The launch that draws tokens --------------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_SAMPLER_H
#define OCTET_CUDASOURCE_SAMPLER_H

#include "octet/CudaSource/Instance.h"
#include "octet/Support/Status.h"

namespace octet::cuda {

/// octet_program.sample of runtime/abi.h, for logits of `vocab` tokens (P17).
/// \returns an internal error for a vocabulary that the kernel cannot count.
Result<KernelLaunch> makeSampler(int64_t vocab);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_SAMPLER_H
