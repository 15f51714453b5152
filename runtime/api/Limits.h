//===- Limits.h - octet_limits of a program ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_API_LIMITS_H
#define OCTET_RUNTIME_API_LIMITS_H

#include "octet/octet.h"
#include "runtime/core/Program.h"

namespace octet::rt {

/// Size of the struct in the first version of octet.h.
inline constexpr size_t kLimitsBytes = 64;
static_assert(sizeof(octet_limits) >= kLimitsBytes);

octet_limits limitsOf(const ProgramInfo &info);

/// As `limitsOf`, into a caller's struct of its own size.
/// \returns a usage error of `function` if it was not set up.
Status writeLimits(const char *function, const ProgramInfo &info,
                   octet_limits *limits);

} // namespace octet::rt

#endif // OCTET_RUNTIME_API_LIMITS_H
