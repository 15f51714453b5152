//===- MappedFiles.cpp - What a bus error was about -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/MappedFiles.h"
#include "octet/Support/Escape.h"
#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

using namespace octet;

namespace {
/// One watched mapping. The handler may walk the list at any moment, so entries
/// are never freed, only used again: `bytes` is 0 while the others change.
struct Entry {
  std::atomic<size_t> bytes = 0;
  std::atomic<uintptr_t> base = 0;
  std::atomic<bool> truncated = false;
  std::string subject; ///< the file
  std::string message; ///< all that the handler writes
  Entry *next = nullptr;
};
} // namespace

static std::atomic<Entry *> entries = nullptr;
static std::atomic_flag reported;
static bool onTerminal = false;
static std::atomic<OnTruncation> onTruncation = OnTruncation::Exit;
static constexpr char kTruncated[] =
    "was truncated or changed while the program read it";

/// Of those who change the list; the handler takes none.
static std::mutex &listMutex() {
  static std::mutex mutex;
  return mutex;
}

void octet::watchMapping(const void *base, size_t bytes,
                         const std::string &path) {
  std::lock_guard lock(listMutex());
  Entry *entry = entries;
  while (entry && (entry->bytes != 0 || entry->truncated))
    entry = entry->next;
  // The last page is mapped to its end.
  const size_t page = size_t(::sysconf(_SC_PAGESIZE));
  const bool isNew = !entry;
  if (isNew)
    entry = new Entry;
  entry->subject = escapePath(path);
  entry->message = "error: " + entry->subject + ": " + kTruncated + "\n";
  entry->base = reinterpret_cast<uintptr_t>(base);
  entry->bytes = (bytes + page - 1) / page * page;
  if (isNew) {
    entry->next = entries;
    entries = entry;
  }
}

void octet::unwatchMapping(const void *base) {
  std::lock_guard lock(listMutex());
  for (Entry *entry = entries; entry; entry = entry->next)
    if (entry->base == reinterpret_cast<uintptr_t>(base))
      entry->bytes = 0;
}

Status octet::takeTruncation() {
  std::lock_guard lock(listMutex());
  // Also of what is watched no more: such an entry is not used again before.
  for (Entry *entry = entries; entry; entry = entry->next)
    if (entry->truncated.exchange(false))
      return inputError(entry->subject, kTruncated);
  return Status::success();
}

/// Only async-signal-safe functions below: the thread may hold any lock.
static void writeAll(const char *data, size_t size) {
  while (size) {
    ssize_t n = ::write(STDERR_FILENO, data, size);
    if (n <= 0)
      return;
    data += n;
    size -= size_t(n);
  }
}

static void onBusError(int, siginfo_t *info, void *) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Entry *entry = entries; entry; entry = entry->next) {
    const size_t bytes = entry->bytes;
    const uintptr_t base = entry->base;
    if (address < base || address - base >= bytes)
      continue;
    // A system call and nothing else, whatever the standard lists as safe.
    if (onTruncation == OnTruncation::Remember &&
        ::mmap(reinterpret_cast<void *>(base), bytes, PROT_READ,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED) {
      entry->truncated = true;
      return;
    }
    // Several threads may read the file; the first one speaks.
    while (reported.test_and_set())
      ::pause();
    // Over a line of progress.
    if (onTerminal)
      writeAll("\r\x1b[K", 4);
    writeAll(entry->message.data(), entry->message.size());
    ::_exit(1);
  }
  // Not ours: the instruction faults again, now with nobody to catch it.
  ::signal(SIGBUS, SIG_DFL);
}

void octet::installBusErrorHandler(OnTruncation action) {
  onTruncation = action;
  onTerminal = ::isatty(STDERR_FILENO);
  struct sigaction handler{};
  handler.sa_sigaction = onBusError;
  // No stack of its own: a file that shrank is no stack that overflowed.
  handler.sa_flags = SA_SIGINFO;
  sigemptyset(&handler.sa_mask);
  ::sigaction(SIGBUS, &handler, nullptr);
}
