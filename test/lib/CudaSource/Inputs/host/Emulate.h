//===- Emulate.h - CTAs of row kernels on the host --------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The threads of a CTA are contexts that run one after the other up to where
// they wait for their warp or their CTA. A warp's exchange that not all of its
// lanes reach, or a barrier that not all threads reach, never ends on a device;
// here it is an error.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"
#include <cstdio>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <vector>

Place threadIdx, blockIdx;

namespace {

enum class Wait { None, Warp, Cta, End };

struct Thread {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Wait wait = Wait::None;
  uint32_t word = 0;
};

std::vector<Thread> threads;
ucontext_t scheduler;
std::function<void()> kernel;

void waitFor(Wait wait) {
  Thread &self = threads[threadIdx.x];
  self.wait = wait;
  swapcontext(&self.context, &scheduler);
}

void runThread() {
  kernel();
  waitFor(Wait::End);
}

bool allWait(size_t first, size_t count, Wait wait) {
  for (size_t i = first; i < first + count; ++i)
    if (threads[i].wait != wait)
      return false;
  return true;
}

void release(size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i)
    threads[i].wait = Wait::None;
}

void runCta(size_t count) {
  constexpr size_t kStack = 128 << 10;
  threads.resize(count);
  for (Thread &thread : threads) {
    if (!thread.stack)
      thread.stack.reset(new char[kStack]);
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.get();
    thread.context.uc_stack.ss_size = kStack;
    makecontext(&thread.context, runThread, 0);
    thread.wait = Wait::None;
  }
  while (!allWait(0, count, Wait::End)) {
    bool hasMoved = false;
    for (unsigned i = 0; i < count; ++i)
      if (threads[i].wait == Wait::None) {
        threadIdx = {i, 0};
        swapcontext(&scheduler, &threads[i].context);
        hasMoved = true;
      }
    for (size_t warp = 0; warp < count; warp += 32)
      if (allWait(warp, 32, Wait::Warp)) {
        release(warp, 32);
        hasMoved = true;
      }
    if (allWait(0, count, Wait::Cta)) {
      release(0, count);
      hasMoved = true;
    }
    if (!hasMoved) {
      std::puts("threads of a warp or CTA wait for ones that never come");
      std::exit(1);
    }
  }
}

/// How octet-print-row-source says a kernel is launched.
struct Launch {
  int64_t maxRows;
  unsigned threads, rows, parts;
  void (*call)(void **arguments, int rows);
};

void launch(const Launch &how, std::vector<void *> arguments, int rows) {
  kernel = [&] { how.call(arguments.data(), rows); };
  for (blockIdx.y = 0; blockIdx.y < how.parts; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x * how.rows < unsigned(rows); ++blockIdx.x)
      runCta(how.threads);
}

} // namespace

void waitForWarp() { waitFor(Wait::Warp); }
void __syncthreads() { waitFor(Wait::Cta); }

uint32_t exchangeWord(uint32_t word, int lane) {
  unsigned self = threadIdx.x;
  threads[self].word = word;
  waitForWarp();
  uint32_t other = threads[self / 32 * 32 + lane].word;
  waitForWarp();
  return other;
}
