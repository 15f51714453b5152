//===- ThreadPool.cpp - The threads of a loaded model ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A loop is a counter of chunks that the caller and the workers take from; who
// takes a chunk never matters to its result. The caller waits for chunks, not
// for workers: a worker that sleeps through a loop delays nobody.
//
//===----------------------------------------------------------------------===//

#include "runtime/cpu/ThreadPool.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <immintrin.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace octet::rt {
namespace {

/// How long a worker spins before it sleeps: longer than the serial code
/// between two loops of a step, shorter than a token.
constexpr int64_t kSpinNanoseconds = 100'000;
/// Chunks a thread, so that one slow thread does not hold up a loop.
constexpr int64_t kChunksPerThread = 8;

/// A next chunk that no loop has.
constexpr uint32_t kClosed = UINT32_MAX;

thread_local bool insideLoop = false;

int64_t nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futexWake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

} // namespace

Scratch::~Scratch() { std::free(data); }

void *Scratch::get(size_t bytes) {
  if (bytes <= size)
    return data;
  std::free(data);
  // Powers of two: few steps until the largest shape has been seen.
  size_t rounded = 4096;
  while (rounded < bytes)
    rounded *= 2;
  data = std::aligned_alloc(64, rounded);
  if (!data) {
    std::fprintf(stderr,
                 "error: memory: cannot allocate %zu bytes of scratch for a "
                 "kernel\n",
                 rounded);
    std::_Exit(1);
  }
  size = rounded;
  return data;
}

Scratch &ThreadPool::threadScratch() {
  static thread_local Scratch scratch;
  return scratch;
}

Scratch &ThreadPool::callerScratch() {
  static thread_local Scratch scratch;
  return scratch;
}

int ThreadPool::defaultThreads() {
  // The kernel refuses a mask shorter than its own; grow until it fits.
  for (int processors = 1024; processors <= 1 << 20; processors *= 4) {
    cpu_set_t *set = CPU_ALLOC(processors);
    if (!set)
      break;
    const size_t bytes = CPU_ALLOC_SIZE(processors);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known)
      return std::max(count, 1);
  }
  return 1;
}

ThreadPool::ThreadPool(int threads) : ThreadPool(threads, defaultThreads()) {}

ThreadPool::ThreadPool(int threads, int processors)
    : seats(std::max(std::min(threads, processors) - 1, 0)) {
  workers.reserve(static_cast<size_t>(std::max(threads, 1) - 1));
  for (int i = 1; i < threads; ++i)
    workers.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  stopping.store(true);
  epochFutex.fetch_add(1);
  futexWake(epochFutex, INT_MAX);
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::runChunks(uint32_t epoch) {
  uint64_t seen = state.load(std::memory_order_acquire);
  while (true) {
    if (static_cast<uint32_t>(seen >> 32) != epoch)
      return;
    const uint32_t chunks = loopChunks.load(std::memory_order_acquire);
    const uint32_t index = static_cast<uint32_t>(seen);
    if (index >= chunks)
      return;
    const Fn fn = loopFn.load(std::memory_order_acquire);
    void *const arg = loopArg.load(std::memory_order_acquire);
    const int64_t n = loopSize.load(std::memory_order_acquire);
    const int64_t chunk = loopChunk.load(std::memory_order_acquire);
    if (!state.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel,
                                     std::memory_order_acquire))
      continue;
    const int64_t begin = static_cast<int64_t>(index) * chunk;
    fn(arg, begin, std::min(n, begin + chunk));
    chunksDone.fetch_add(1, std::memory_order_release);
    seen = state.load(std::memory_order_acquire);
  }
}

bool ThreadPool::hasLoop(uint32_t last) const {
  return static_cast<uint32_t>(state.load() >> 32) != last || stopping.load();
}

bool ThreadPool::spin(uint32_t last) const {
  const int64_t deadline = nanoseconds() + kSpinNanoseconds;
  do {
    for (int i = 0; i < 32; ++i)
      _mm_pause();
    if (hasLoop(last))
      return true;
  } while (nanoseconds() < deadline);
  return false;
}

void ThreadPool::sleep(uint32_t last) {
  // Whoever announces a loop stores `state` before it looks at `sleepers`, a
  // worker adds itself before it looks at `state`: one sees the other.
  const uint32_t ticket = epochFutex.load();
  sleepers.fetch_add(1);
  if (!hasLoop(last))
    futexWait(epochFutex, ticket);
  sleepers.fetch_sub(1);
}

void ThreadPool::work() {
  insideLoop = true; // a nested call runs on this thread
  uint32_t last = 0;
  while (!stopping.load(std::memory_order_relaxed)) {
    if (seated.fetch_add(1) < seats) {
      while (hasLoop(last) || spin(last)) {
        if (stopping.load(std::memory_order_relaxed))
          break;
        last =
            static_cast<uint32_t>(state.load(std::memory_order_acquire) >> 32);
        runChunks(last);
      }
    } else {
      // No processor is left: this loop is the others'.
      last = static_cast<uint32_t>(state.load() >> 32);
    }
    seated.fetch_sub(1);
    sleep(last);
  }
}

void ThreadPool::parallelFor(int64_t n, int64_t grain, Fn fn, void *arg) {
  const int64_t wanted = (seats + 1) * kChunksPerThread;
  parallelChunks(n, std::max(grain, (n + wanted - 1) / wanted), fn, arg);
}

void ThreadPool::parallelChunks(int64_t n, int64_t chunk, Fn fn, void *arg) {
  if (n <= 0)
    return;
  chunk = std::max<int64_t>(chunk, 1);
  // The index of a chunk has 32 bits.
  chunk = std::max(chunk, n / INT32_MAX);
  if (size() == 1 || n <= chunk || insideLoop || !user.try_lock()) {
    fn(arg, 0, n);
    return;
  }
  std::lock_guard<std::mutex> lock(user, std::adopt_lock);
  insideLoop = true;

  const uint32_t chunks = static_cast<uint32_t>((n + chunk - 1) / chunk);
  const uint32_t epoch =
      static_cast<uint32_t>(state.load(std::memory_order_relaxed) >> 32) + 1;
  // Closed first: a late worker that reads a field of this loop cannot claim a
  // chunk of the last one with it.
  state.store(static_cast<uint64_t>(epoch - 1) << 32 | kClosed);
  chunksDone.store(0, std::memory_order_relaxed);
  loopFn.store(fn, std::memory_order_release);
  loopArg.store(arg, std::memory_order_release);
  loopSize.store(n, std::memory_order_release);
  loopChunk.store(chunk, std::memory_order_release);
  loopChunks.store(chunks, std::memory_order_release);
  state.store(static_cast<uint64_t>(epoch) << 32);
  const int idle = seats - seated.load();
  if (sleepers.load() != 0 && idle > 0) {
    epochFutex.fetch_add(1);
    futexWake(epochFutex, idle);
  }

  runChunks(epoch);
  // The rest is in the workers' hands; one of them may need this thread's
  // processor where other processes run.
  for (int spins = 0; chunksDone.load(std::memory_order_acquire) != chunks;) {
    _mm_pause();
    if (++spins == 4096) {
      spins = 0;
      sched_yield();
    }
  }
  insideLoop = false;
}

} // namespace octet::rt
