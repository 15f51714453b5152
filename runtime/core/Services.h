//===- Services.h - What a program may call ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_SERVICES_H
#define OCTET_RUNTIME_CORE_SERVICES_H

#include "runtime/abi.h"

namespace octet::rt {

/// The function table of the CPU target. Its functions take the octet_ctx of a
/// `Context` (runtime/core/Context.h) and report errors there.
const octet_runtime *cpuServices();

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_SERVICES_H
