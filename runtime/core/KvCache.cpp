//===- KvCache.cpp - The paged key-value cache ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/KvCache.h"
#include "octet/Support/Checked.h"

using namespace octet;
using namespace octet::rt;

KvCache::KvCache(KvCache &&o) noexcept { *this = std::move(o); }

KvCache &KvCache::operator=(KvCache &&o) noexcept {
  std::swap(pageCount, o.pageCount);
  std::swap(pageBytes, o.pageBytes);
  std::swap(freeList, o.freeList);
  std::swap(ownerCounts, o.ownerCounts);
  std::swap(layerTable, o.layerTable);
  std::swap(memory, o.memory);
  std::swap(base, o.base);
  std::swap(size, o.size);
  return *this;
}

KvCache::~KvCache() {
  if (base)
    memory->release(base, size);
}

/// Slots are int32_t (octet_batch::slots).
static constexpr int64_t kMaxPages = INT32_MAX / OCTET_PAGE;

/// The error of a cache of more slots than can be numbered, with the numbers
/// that would do.
static Status tooManySlots(int64_t maxSeqs, int64_t maxContext,
                           const std::string &subject) {
  std::string fits;
  auto add = [&](const char *option, int64_t most) {
    if (most > 0)
      fits += std::string(fits.empty() ? "" : " or ") + option + " " +
              std::to_string(most) + " or less";
  };
  add("--max-context", kMaxPages / maxSeqs * OCTET_PAGE);
  add("--max-seqs", kMaxPages / cdiv(maxContext, OCTET_PAGE));
  if (fits.empty())
    fits = "a smaller --max-context and --max-seqs";
  return machineError(
      subject, "the KV cache of max_seqs=" + std::to_string(maxSeqs) +
                   " sequences of max_context=" + std::to_string(maxContext) +
                   " tokens has more than the " +
                   std::to_string(kMaxPages * OCTET_PAGE) +
                   " slots that can be numbered; compile with " + fits);
}

Result<KvCache> KvCache::create(const KvInfo &info, int64_t maxSeqs,
                                int64_t maxContext, const std::string &subject,
                                Memory &memory, int64_t spare) {
  auto tooMany = [&](const std::string &what) {
    return machineError(
        subject, "the KV cache of max_seqs=" + std::to_string(maxSeqs) +
                     " sequences of max_context=" + std::to_string(maxContext) +
                     " tokens " + what +
                     "; compile with a smaller --max-context "
                     "or --max-seqs");
  };
  KvCache cache;
  auto pages = checkedMul(maxSeqs, cdiv(maxContext, OCTET_PAGE));
  if (!pages || *pages > kMaxPages - spare)
    return tooManySlots(maxSeqs, maxContext, subject);
  cache.pageCount = *pages;
  cache.freeList.reserve(*pages);
  for (int64_t page = *pages; page-- > 0;)
    cache.freeList.push_back(int32_t(page));
  cache.ownerCounts.assign(size_t(*pages), 0);
  if (info.layers == 0)
    return cache;

  const int64_t sides[] = {*pages + spare, OCTET_PAGE, info.kvHeads,
                           info.headDim, elementBytes(info.type)};
  auto half = checkedProduct(sides); // keys of one layer
  const int64_t all[] = {info.layers, 2, half.value_or(-1)};
  auto total = checkedProduct(all);
  if (!total)
    return tooMany("overflows 64 bits");
  std::string why;
  void *map = memory.reserve(*total, why);
  if (!map)
    return tooMany("needs " + std::to_string(*total) +
                   " bytes of memory: " + why);
  cache.memory = &memory;
  cache.base = map;
  cache.size = *total;
  cache.pageBytes = *half / (*pages + spare);
  for (int64_t layer = 0; layer < info.layers; ++layer) {
    char *k = static_cast<char *>(map) + 2 * layer * *half;
    cache.layerTable.push_back({k, k + *half});
  }
  return cache;
}

int32_t KvCache::take() {
  const int32_t page = freeList.back();
  freeList.pop_back();
  ownerCounts[page] = 1;
  return page;
}

void KvCache::give(int32_t page) {
  if (--ownerCounts[page] == 0)
    freeList.push_back(page);
}

bool KvCache::grow(std::vector<int32_t> &pages, int64_t tokens) {
  int64_t missing = cdiv(tokens, OCTET_PAGE) - int64_t(pages.size());
  if (missing > freePages())
    return false;
  for (; missing > 0; --missing)
    pages.push_back(take());
  return true;
}

void KvCache::shrink(std::vector<int32_t> &pages, int64_t tokens) {
  const size_t kept = size_t(cdiv(tokens, OCTET_PAGE));
  while (pages.size() > kept) {
    give(pages.back());
    pages.pop_back();
  }
}

void KvCache::share(std::span<const int32_t> pages) {
  for (int32_t page : pages)
    ++ownerCounts[page];
}

bool KvCache::makeOwn(int32_t &page) {
  if (owners(page) == 1)
    return true;
  if (freeList.empty())
    return false;
  const int32_t copy = take();
  // All of a page, whatever the order of rows and heads in it.
  for (const octet_kv_layer &layer : layerTable)
    for (void *half : {layer.k, layer.v}) {
      char *base = static_cast<char *>(half);
      memory->copy(base + copy * pageBytes, base + page * pageBytes, pageBytes);
    }
  give(page);
  page = copy;
  return true;
}
