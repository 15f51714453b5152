//===- DeviceLimits.h - What a multiprocessor has ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_DEVICELIMITS_H
#define OCTET_CUDASOURCE_DEVICELIMITS_H

#include "octet/QuantMethods/Target.h"
#include <cstdint>

namespace octet::cuda {

/// Of a compute capability, as the CUDA programming guide lists them.
struct DeviceLimits {
  int64_t registers = 65536;     ///< of a multiprocessor
  int64_t sharedPerSm = 0;       ///< bytes
  int64_t reservedShared = 1024; ///< of these, taken by each CTA
  int64_t sharedPerCta = 0;      ///< bytes that one CTA may have
};

inline DeviceLimits limitsOf(const Target &target) {
  constexpr int64_t kKib = 1024;
  DeviceLimits limits;
  const int c = target.capability;
  if (c == 80 || c == 87)
    limits.sharedPerSm = 164 * kKib;
  else if (c >= 90 && c < 120)
    limits.sharedPerSm = 228 * kKib;
  else
    limits.sharedPerSm = 100 * kKib;
  limits.sharedPerCta = limits.sharedPerSm - limits.reservedShared;
  return limits;
}

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_DEVICELIMITS_H
