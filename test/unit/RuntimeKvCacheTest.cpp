//===- RuntimeKvCacheTest.cpp - The paged cache ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/KvCache.h"
#include <cstring>
#include <gtest/gtest.h>
#include <set>

using namespace octet;
using namespace octet::rt;

TEST(KvCache, PagesAreSharedOut) {
  KvInfo info{.layers = 3, .kvHeads = 2, .headDim = 8, .type = OCTET_BF16};
  auto made = KvCache::create(info, 2, 130, "p");
  ASSERT_TRUE(made.ok());
  KvCache cache = made.take();
  EXPECT_EQ(cache.numPages(), 6); // Two sequences of three pages.
  std::vector<int32_t> a, b, c;
  ASSERT_TRUE(cache.grow(a, 64));
  EXPECT_EQ(a.size(), 1u);
  ASSERT_TRUE(cache.grow(a, 64));
  EXPECT_EQ(a.size(), 1u);
  ASSERT_TRUE(cache.grow(b, 130));
  ASSERT_TRUE(cache.grow(a, 65));
  EXPECT_EQ(a.size(), 2u);
  EXPECT_EQ(cache.freePages(), 1);
  EXPECT_FALSE(cache.grow(c, 65));
  EXPECT_TRUE(c.empty());
  std::set<int32_t> all(a.begin(), a.end());
  all.insert(b.begin(), b.end());
  EXPECT_EQ(all.size(), 5u);
  cache.release(b);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(cache.freePages(), 4);
  EXPECT_TRUE(cache.grow(c, 65));
}

// A page is free when its last owner has given it back; who writes into one
// that others have gets a copy of it.
TEST(KvCache, SharedPages) {
  KvInfo info{.layers = 2, .kvHeads = 2, .headDim = 8, .type = OCTET_BF16};
  const size_t bytes = OCTET_PAGE * 2 * 8 * 2;
  auto made = KvCache::create(info, 1, 256, "p");
  ASSERT_TRUE(made.ok());
  KvCache cache = made.take(); // 4 pages
  auto at = [&](int layer, bool values, int32_t page) {
    const octet_kv_layer &l = cache.layers()[layer];
    return static_cast<uint8_t *>(values ? l.v : l.k) + page * bytes;
  };
  std::vector<int32_t> a;
  ASSERT_TRUE(cache.grow(a, 128));
  for (int layer : {0, 1})
    for (bool values : {false, true})
      for (size_t i = 0; i < bytes; ++i)
        at(layer, values, a[1])[i] = uint8_t(i * 3 + layer * 50 + values);
  std::vector<int32_t> b = a;
  cache.share(b);
  EXPECT_EQ(cache.owners(a[0]), 2);
  EXPECT_EQ(cache.freePages(), 2);

  ASSERT_TRUE(cache.makeOwn(b[1]));
  EXPECT_NE(b[1], a[1]);
  EXPECT_EQ(cache.owners(a[1]), 1);
  EXPECT_EQ(cache.owners(b[1]), 1);
  EXPECT_EQ(cache.freePages(), 1);
  for (int layer : {0, 1})
    for (bool values : {false, true})
      ASSERT_EQ(
          std::memcmp(at(layer, values, a[1]), at(layer, values, b[1]), bytes),
          0);
  // Its only owner already.
  const int32_t own = b[1];
  ASSERT_TRUE(cache.makeOwn(b[1]));
  EXPECT_EQ(b[1], own);

  // Without a free page nothing changes.
  std::vector<int32_t> c;
  ASSERT_TRUE(cache.grow(c, 64));
  const int32_t shared = b[0];
  EXPECT_FALSE(cache.makeOwn(b[0]));
  EXPECT_EQ(b[0], shared);
  EXPECT_EQ(cache.owners(shared), 2);

  cache.release(a);
  EXPECT_EQ(cache.freePages(), 1);
  EXPECT_EQ(cache.owners(shared), 1);
  cache.shrink(b, 1);
  EXPECT_EQ(cache.freePages(), 2);
  cache.shrink(b, 64);
  EXPECT_EQ(b.size(), 1u);
  cache.release(b);
  cache.release(c);
  EXPECT_EQ(cache.freePages(), 4);
}

TEST(KvCache, LayersDoNotOverlap) {
  KvInfo info{.layers = 2, .kvHeads = 3, .headDim = 5, .type = OCTET_E4M3};
  auto made = KvCache::create(info, 1, 128, "p");
  ASSERT_TRUE(made.ok());
  const size_t bytes = 2 * OCTET_PAGE * 3 * 5;
  std::vector<void *> parts;
  for (int layer = 0; layer < 2; ++layer) {
    parts.push_back(made->layers()[layer].k);
    parts.push_back(made->layers()[layer].v);
  }
  for (size_t i = 0; i < parts.size(); ++i)
    std::memset(parts[i], int(i) + 1, bytes);
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t j = 0; j < bytes; ++j)
      ASSERT_EQ(static_cast<char *>(parts[i])[j], char(i + 1));
}

TEST(KvCache, AbsurdSizes) {
  KvInfo info{.layers = 1 << 20, .kvHeads = 1 << 20, .headDim = 1 << 20};
  auto message = [&](int64_t seqs, int64_t context) {
    auto made = KvCache::create(info, seqs, context, "p");
    return made.ok() ? "no error" : made.status().info().message;
  };
  EXPECT_EQ(message(1, 64),
            "the KV cache of max_seqs=1 sequences of max_context=64 tokens "
            "overflows 64 bits; compile with a smaller --max-context or "
            "--max-seqs");
  EXPECT_EQ(message(int64_t(1) << 20, 131072),
            "the KV cache of max_seqs=1048576 sequences of max_context=131072 "
            "tokens has more than the 2147483584 slots that can be numbered; "
            "compile with --max-context 1984 or less or --max-seqs 16383 or "
            "less");
  // No number of sequences is enough.
  EXPECT_TRUE(message(2, INT32_MAX)
                  .ends_with("compile with --max-context 1073741760 or less"));
  // What the message says would do.
  auto fits = [](int64_t seqs, int64_t context) {
    return KvCache::create(KvInfo(), seqs, context, "p").ok();
  };
  EXPECT_TRUE(fits(1 << 20, 1984));
  EXPECT_FALSE(fits(1 << 20, 1985));
  EXPECT_TRUE(fits(16383, 131072));
  EXPECT_FALSE(fits(16384, 131072));
  EXPECT_TRUE(fits(2, 1073741760));
  EXPECT_FALSE(fits(2, 1073741761));
  // 2^49 bytes: within 64 bits, beyond the address space.
  info = {.layers = 1 << 20, .kvHeads = 1 << 10, .headDim = 1 << 10};
  EXPECT_NE(message(1, 64).find("bytes of memory: "), std::string::npos);
}
