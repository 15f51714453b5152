//===- CudaServices.h - What a CUDA program may call ---------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_CUDASERVICES_H
#define OCTET_RUNTIME_CUDA_CUDASERVICES_H

#include "runtime/abi.h"

namespace octet::rt::cu {

/// The table of the CUDA targets: loading is the processor's, up to `upload`;
/// `launch` and `trace` go to the CudaBackend of the context. The functions of
/// CPU steps record an internal error.
const octet_runtime *cudaServices();

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_CUDASERVICES_H
