//===- Memory.h - Memory that programs see -------------------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_MEMORY_H
#define OCTET_RUNTIME_CORE_MEMORY_H

#include <cstdint>
#include <string>

namespace octet::rt {

/// Memory that programs see, of the processor or of a device.
class Memory {
public:
  virtual ~Memory() = default;
  /// `bytes` (>= 1) of zeros at a 256-byte boundary.
  /// \returns null, and why in `why` ("this machine has 8 bytes").
  virtual void *reserve(int64_t bytes, std::string &why) = 0;
  virtual void release(void *base, int64_t bytes) = 0;
  /// Between two places that do not overlap, after all steps before it and
  /// before all steps after it.
  virtual void copy(void *to, const void *from, int64_t bytes) = 0;
};

/// Memory of the processor: address space, which takes memory when it is
/// touched.
Memory &hostMemory();

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_MEMORY_H
