//===- Fit.h - Targets and the devices that run them --------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_FIT_H
#define OCTET_RUNTIME_CUDA_FIT_H

#include <string>
#include <string_view>

namespace octet::rt::cu {

/// How code for a target runs on a device.
enum class Fit {
  No,
  Machine, ///< its machine code does
  Ptx,     ///< the driver can compile its PTX
};
/// \param target      "sm_89", "sm_90a", "sm_120f". Machine code runs on the
/// same major version from its minor one on, with `a` on no other device;
/// without a suffix PTX runs on all that are newer.
/// \param capability  of the device, times ten.
Fit fitTarget(std::string_view target, int capability);

/// "sm_90a" for 90: what to compile for; empty for devices older than any.
std::string_view bestTarget(int capability);

/// "9.0" of 90.
std::string capabilityText(int capability);

/// What the kernels of a program for `target` are compiled for on a device
/// that takes neither their machine code nor PTX: "sm_91a" of "sm_90a" and 91,
/// "sm_89" of "sm_80" and 89. Only for a device of the target's major version,
/// and not an older one; empty for others.
/// \param capability  of the device, times ten.
std::string relativeTarget(std::string_view target, int capability);

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_FIT_H
