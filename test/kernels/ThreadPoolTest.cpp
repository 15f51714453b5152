//===- ThreadPoolTest.cpp - Loops of all sizes on pools of all sizes ------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every index once, whatever the pool; nested and concurrent use; sleeping
// workers.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace octet::rt;

namespace {

class Pool : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Pool, ::testing::Values(1, 2, 3, 7, 32));

TEST_P(Pool, EveryIndexOnce) {
  ThreadPool pool(GetParam(), GetParam());
  EXPECT_EQ(pool.size(), GetParam());
  for (int64_t n : {0, 1, 2, 5, 64, 1000, 12345}) {
    for (int64_t grain : {-1, 0, 1, 7, 1000, 1 << 30}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      pool.parallelFor(n, grain, [&](int64_t begin, int64_t end) {
        ASSERT_LT(begin, end);
        ASSERT_TRUE(end - begin >= grain || end == n);
        for (int64_t i = begin; i < end; ++i)
          ++seen[static_cast<size_t>(i)];
      });
      for (auto &count : seen)
        ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST_P(Pool, ManyShortLoops) {
  // A late worker must neither run nor count a chunk of another loop.
  ThreadPool pool(GetParam(), GetParam());
  for (int round = 0; round < 20000; ++round) {
    const int64_t n = 1 + round % 9;
    std::atomic<int64_t> sum{0};
    pool.parallelChunks(n, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sum += i + round;
    });
    ASSERT_EQ(sum.load(), n * (n - 1) / 2 + n * round);
  }
}

TEST_P(Pool, WakesAfterSleeping) {
  ThreadPool pool(GetParam(), GetParam());
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> count{0};
    pool.parallelChunks(100, 1, [&](int64_t begin, int64_t end) {
      count += static_cast<int>(end - begin);
    });
    ASSERT_EQ(count.load(), 100);
  }
}

TEST_P(Pool, NestedLoopsRunInline) {
  ThreadPool pool(GetParam(), GetParam());
  std::atomic<int64_t> count{0};
  pool.parallelFor(50, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto self = std::this_thread::get_id();
      pool.parallelFor(20, 1, [&](int64_t b, int64_t e) {
        if (pool.size() > 1) {
          EXPECT_EQ(std::this_thread::get_id(), self);
        }
        count += e - b;
      });
    }
  });
  EXPECT_EQ(count.load(), 1000);
}

TEST_P(Pool, TwoUsersAtOnce) {
  ThreadPool pool(GetParam(), GetParam());
  std::atomic<int64_t> count{0};
  auto use = [&] {
    for (int i = 0; i < 200; ++i)
      pool.parallelFor(30, 1, [&](int64_t b, int64_t e) { count += e - b; });
  };
  std::thread other(use);
  use();
  other.join();
  EXPECT_EQ(count.load(), 2 * 200 * 30);
}

// More threads than processors: no more of them run than there are, so that
// none takes the processor of one that has work.
TEST(PoolCrowded, NoMoreThreadsRunThanProcessors) {
  for (int processors : {1, 2, 3}) {
    ThreadPool pool(40, processors);
    EXPECT_EQ(pool.size(), 40);
    for (int round = 0; round < 30; ++round) {
      std::atomic<int> running{0}, most{0}, count{0};
      pool.parallelChunks(100, 1, [&](int64_t begin, int64_t end) {
        const int now = ++running;
        for (int seen = most;
             now > seen && !most.compare_exchange_weak(seen, now);)
          ;
        count += static_cast<int>(end - begin);
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        --running;
      });
      EXPECT_EQ(count, 100);
      EXPECT_LE(most, processors);
    }
  }
}

TEST(PoolDefaults, OneThreadAtLeast) {
  EXPECT_GE(ThreadPool::defaultThreads(), 1);
  EXPECT_EQ(ThreadPool(0).size(), 1);
  EXPECT_EQ(ThreadPool(-3).size(), 1);
}

TEST(PoolScratch, GrowsAndKeepsItsAlignment) {
  Scratch scratch;
  void *small = scratch.get(100);
  EXPECT_EQ(scratch.get(50), small);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(scratch.get(100000)) % 64, 0u);
  EXPECT_NE(&ThreadPool::threadScratch(), &ThreadPool::callerScratch());
}

} // namespace
