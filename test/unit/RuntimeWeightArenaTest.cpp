//===- RuntimeWeightArenaTest.cpp - Memory of computed weights ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/WeightArena.h"
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using octet::rt::WeightArena;

namespace {

bool aligned(const void *p, size_t to) {
  return reinterpret_cast<uintptr_t>(p) % to == 0;
}

// Each keeps its bytes whatever is written to those around it.
TEST(WeightArena, PiecesDoNotOverlap) {
  WeightArena arena;
  for (int round = 0; round < 2; ++round) {
    struct Piece {
      unsigned char *data;
      size_t size;
    };
    std::vector<Piece> pieces;
    const size_t large = WeightArena::kLargePage;
    for (size_t size :
         {size_t(0), size_t(1), size_t(64), size_t(65), 3 * large - 1,
          3 * large, 3 * large, 4 * large, 9 * large + 3, size_t(100)}) {
      auto *p = static_cast<unsigned char *>(arena.allocate(size));
      ASSERT_NE(p, nullptr);
      EXPECT_TRUE(aligned(p, WeightArena::kAlignment));
      if (size >= 4 * large)
        EXPECT_TRUE(aligned(p, large)) << size;
      std::memset(p, int(pieces.size() + 1), size);
      pieces.push_back({p, size});
    }
    for (size_t i = 0; i < pieces.size(); ++i)
      for (size_t j = 0; j < pieces[i].size; ++j)
        ASSERT_EQ(pieces[i].data[j], i + 1) << i << " at " << j;
    arena.clear();
  }
}

TEST(WeightArena, SizesThatDoNotExist) {
  WeightArena arena;
  EXPECT_EQ(arena.allocate(SIZE_MAX), nullptr);
  EXPECT_NE(arena.allocate(8), nullptr);
}

} // namespace
