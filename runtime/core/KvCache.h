//===- KvCache.h - The paged key-value cache --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keys and values of all layers in pages of OCTET_PAGE tokens. One page number
// stands for the same page of each layer, so a sequence has one page table.
// Memory for max_seqs full sequences is taken at once; that of the processor is
// address space until a page is first written.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_KVCACHE_H
#define OCTET_RUNTIME_CORE_KVCACHE_H

#include "octet/Support/Status.h"
#include "runtime/abi.h"
#include "runtime/core/Memory.h"
#include "runtime/core/Program.h"
#include "runtime/cpu/Types.h"
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace octet::rt {

class KvCache {
public:
  KvCache(KvCache &&) noexcept;
  KvCache &operator=(KvCache &&) noexcept;
  ~KvCache();

  /// Takes memory for `maxSeqs` sequences of `maxContext` tokens.
  /// \param memory  where; it outlives the cache.
  /// \param spare   pages behind the others that nobody gets: firstSpare().
  /// \returns an error naming `subject` with the bytes that are too many. A
  /// program without a cache (`info.layers` 0) has pages but no bytes.
  static Result<KvCache> create(const KvInfo &info, int64_t maxSeqs,
                                int64_t maxContext, const std::string &subject,
                                Memory &memory = hostMemory(),
                                int64_t spare = 0);

  /// One a layer, for octet_ctx::kv.
  const octet_kv_layer *layers() const { return layerTable.data(); }
  int64_t numPages() const { return pageCount; }
  int32_t firstSpare() const { return int32_t(pageCount); }
  /// All that was reserved.
  int64_t bytes() const { return size; }
  int64_t freePages() const { return int64_t(freeList.size()); }

  /// Adds pages until `pages` holds `tokens` tokens; false, and `pages` as it
  /// was, if there are not enough free ones.
  [[nodiscard]] bool grow(std::vector<int32_t> &pages, int64_t tokens);
  /// Gives the pages beyond those of `tokens` tokens back. A page is free when
  /// its last owner has given it back.
  void shrink(std::vector<int32_t> &pages, int64_t tokens);
  /// Gives all pages back.
  void release(std::vector<int32_t> &pages) { shrink(pages, 0); }

  /// One more owner of each page, for a second list of the same pages.
  void share(std::span<const int32_t> pages);
  /// How many lists have the page.
  int32_t owners(int32_t page) const { return ownerCounts[page]; }
  /// Puts a copy of its own in the place of a page that has other owners, for
  /// someone who is about to write; false, and nothing changed, if no page is
  /// free. A page without other owners stays.
  [[nodiscard]] bool makeOwn(int32_t &page);

private:
  KvCache() = default;
  int32_t take();
  void give(int32_t page);
  int64_t pageCount = 0;
  int64_t pageBytes = 0;            ///< of the keys of a layer; values as many
  std::vector<int32_t> freeList;    ///< the next page is at the back
  std::vector<int32_t> ownerCounts; ///< by page; 0: free
  std::vector<octet_kv_layer> layerTable;
  Memory *memory = nullptr;
  void *base = nullptr;
  int64_t size = 0;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_KVCACHE_H
