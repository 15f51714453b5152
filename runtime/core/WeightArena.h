//===- WeightArena.h - Memory of computed weights ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights that load computes lie side by side in blocks of large pages: a step
// reads them from end to end, and with small pages it waits for page walks. A
// weight that fills a block has one of its own.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_WEIGHTARENA_H
#define OCTET_RUNTIME_CORE_WEIGHTARENA_H

#include "octet/Support/Sanitizers.h"
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sys/mman.h>
#include <vector>

namespace octet::rt {

class WeightArena {
public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kLargePage = size_t(2) << 20;
  /// Under a sanitizer each is by itself, so that a read past its end is seen.
  static constexpr size_t kBlock = kAddressSanitizer ? 0 : 4 * kLargePage;

  /// \returns `bytes` of memory at kAlignment, not initialised, until clear();
  /// null if there is none.
  void *allocate(size_t bytes) {
    if (bytes > SIZE_MAX - kLargePage)
      return nullptr;
    const size_t rounded =
        bytes ? (bytes + kAlignment - 1) / kAlignment * kAlignment : kAlignment;
    if (rounded >= kBlock)
      return newBlock(rounded);
    if (rounded > left) {
      std::byte *block = newBlock(kBlock);
      if (!block)
        return nullptr;
      next = block;
      left = kBlock;
    }
    void *p = next;
    next += rounded;
    left -= rounded;
    return p;
  }

  void clear() {
    blocks.clear();
    next = nullptr;
    left = 0;
  }

private:
  struct Free {
    void operator()(std::byte *p) const { std::free(p); }
  };

  std::byte *newBlock(size_t bytes) {
    const bool large = bytes >= kLargePage;
    const size_t alignment = large ? kLargePage : kAlignment;
    void *p = std::aligned_alloc(alignment, (bytes + alignment - 1) /
                                                alignment * alignment);
    if (!p)
      return nullptr;
    if (large)
      (void)madvise(p, bytes, MADV_HUGEPAGE);
    return blocks.emplace_back(static_cast<std::byte *>(p)).get();
  }

  std::vector<std::unique_ptr<std::byte, Free>> blocks;
  std::byte *next = nullptr; ///< free bytes of the newest shared block
  size_t left = 0;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_WEIGHTARENA_H
