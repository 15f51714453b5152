//===- Memory.cpp - Memory of the processor -------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Memory.h"
#include <cerrno>
#include <cstring>
#include <sys/mman.h>

using namespace octet;
using namespace octet::rt;

namespace {
class HostMemory : public Memory {
public:
  void *reserve(int64_t bytes, std::string &why) override {
    void *map = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map != MAP_FAILED)
      return map;
    why = std::strerror(errno);
    return nullptr;
  }
  void release(void *base, int64_t bytes) override {
    munmap(base, size_t(bytes));
  }
  void copy(void *to, const void *from, int64_t bytes) override {
    std::memcpy(to, from, size_t(bytes));
  }
};

} // namespace

Memory &rt::hostMemory() {
  static HostMemory memory;
  return memory;
}
