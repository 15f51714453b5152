//===- Runner.h - The runner inside the compiler ----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_RUNNER_H
#define OCTET_HOSTCODE_RUNNER_H

#include <cstddef>
#include <span>

namespace octet::host {

/// The bytes of octet-run as it was built with this compiler (link OctetRunner;
/// a library of its own, so that only `octet` carries it).
std::span<const std::byte> embeddedRunner();

} // namespace octet::host

#endif // OCTET_HOSTCODE_RUNNER_H
