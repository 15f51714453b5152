//===- ThreadPool.h - The threads of a loaded model -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step is some hundred short loops, each over before an ordinary condition
// variable has woken anybody. So workers spin for a while after a loop and
// sleep only when none follows. Those that spin or run have a seat each, and
// there are no more seats than processors beside the caller's: further threads
// sleep, instead of taking the processors of those that have work.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_THREADPOOL_H
#define OCTET_RUNTIME_CPU_THREADPOOL_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace octet::rt {

/// 64-byte-aligned memory that only grows.
class Scratch {
public:
  Scratch() = default;
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  ~Scratch();

  /// At least `bytes` bytes, kept until the next call. Ends the process with a
  /// message if there is no memory: kernels cannot fail.
  void *get(size_t bytes);
  template <typename T>
  T *get(size_t count) {
    return static_cast<T *>(get(count * sizeof(T)));
  }

private:
  void *data = nullptr;
  size_t size = 0;
};

class ThreadPool {
public:
  /// Runs rows or tasks [begin, end); the signature of octet_row_fn.
  using Fn = void (*)(void *arg, int64_t begin, int64_t end);

  /// A pool of `threads` threads, the one that calls parallelFor included; at
  /// least 1.
  explicit ThreadPool(int threads);
  /// \param processors  that the threads share.
  ThreadPool(int threads, int processors);
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;
  ~ThreadPool();

  /// One thread for each processor that this process may use.
  static int defaultThreads();

  int size() const { return static_cast<int>(workers.size()) + 1; }

  /// Runs fn over [0, n) in chunks of at least `grain` (the last may be
  /// shorter) and returns when all have run. A call from inside fn, or while
  /// another thread uses the pool, runs on the caller alone.
  void parallelFor(int64_t n, int64_t grain, Fn fn, void *arg);

  /// The same in chunks of exactly `chunk` (the last may be shorter): for tasks
  /// that are long enough to be taken one by one.
  void parallelChunks(int64_t n, int64_t chunk, Fn fn, void *arg);

  /// The same for any callable taking (int64_t begin, int64_t end).
  template <typename Callable>
  void parallelFor(int64_t n, int64_t grain, Callable &&callable) {
    parallelFor(n, grain, thunk<std::remove_reference_t<Callable>>(),
                const_cast<void *>(static_cast<const void *>(&callable)));
  }
  template <typename Callable>
  void parallelChunks(int64_t n, int64_t chunk, Callable &&callable) {
    parallelChunks(n, chunk, thunk<std::remove_reference_t<Callable>>(),
                   const_cast<void *>(static_cast<const void *>(&callable)));
  }

  /// Memory of the calling thread, for one task at a time.
  static Scratch &threadScratch();
  /// Memory of the thread that calls parallelFor, to hand to its tasks.
  static Scratch &callerScratch();

private:
  template <typename Callable>
  static Fn thunk() {
    return [](void *arg, int64_t begin, int64_t end) {
      (*static_cast<Callable *>(arg))(begin, end);
    };
  }

  void work();
  /// Whether there is a loop after `last`, or the pool ends.
  bool hasLoop(uint32_t last) const;
  /// Waits for that, for a short while. \returns whether it came.
  bool spin(uint32_t last) const;
  /// Sleeps until there may be one.
  void sleep(uint32_t last);
  /// Runs chunks of loop `epoch` until none is left.
  void runChunks(uint32_t epoch);

  std::vector<std::thread> workers;
  std::mutex user;
  std::atomic<bool> stopping{false};

  // The loop. Written before `state` announces it and left alone until each of
  // its chunks is done; atomic because a late worker may still read them while
  // the next loop is being written (its claim then fails).
  std::atomic<Fn> loopFn{nullptr};
  std::atomic<void *> loopArg{nullptr};
  std::atomic<int64_t> loopSize{0};
  std::atomic<int64_t> loopChunk{1};
  std::atomic<uint32_t> loopChunks{0};

  /// Epoch of the loop (high half) and its next chunk (low half), claimed
  /// together: a claim succeeds only for the loop whose fields were read.
  alignas(64) std::atomic<uint64_t> state{0};
  alignas(64) std::atomic<uint32_t> chunksDone{0};
  /// A copy of the epoch that workers sleep on, and how many do.
  alignas(64) std::atomic<uint32_t> epochFutex{0};
  std::atomic<uint32_t> sleepers{0};
  const int seats;            ///< workers that may be awake at once
  std::atomic<int> seated{0}; ///< workers that are
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_THREADPOOL_H
