//===- TraceInputs.h - Names of traced inputs -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_TRACEINPUTS_H
#define OCTET_PASSES_TRACEINPUTS_H

namespace octet {

/// What the names of octet-trace-inputs begin with; the module's path follows,
/// with `{l}` for the layer.
inline constexpr char kInputTrace[] = "input.";

} // namespace octet

#endif // OCTET_PASSES_TRACEINPUTS_H
