//===- LoadRewrite.h - Kernels that rewrite weights ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_LOADREWRITE_H
#define OCTET_CUDASOURCE_LOADREWRITE_H

#include "octet/CudaSource/Instance.h"

namespace octet::cuda {

/// A weight [N, K] to E4M3 codes, while it is loaded: of F32, BF16 or F16 with
/// a scale of the whole matrix or one a row (W10); of E4M3 with a scale for
/// each shard to one for all (W8).
struct LoadRewrite {
  std::string module;  ///< path pattern, for errors
  int32_t type = 0;    ///< octet_dtype of what is stored
  bool perRow = false; ///< W10 only
  int64_t k = 0;
  std::vector<int64_t> shards; ///< W8: their rows
};

/// Its arguments are those of octet_rewrite_arg (runtime/abi.h).
KernelLaunch makeLoadRewrite(const LoadRewrite &rewrite);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_LOADREWRITE_H
