//===- FindObject.cpp - Unwinding on glibc 2.34 ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A libgcc built on glibc 2.35 or later finds unwind tables by
// `_dl_find_object`, which glibc 2.34 does not have; linked statically it would
// be the only reason why the runner needs 2.35. This one has the same contract
// and walks the loaded objects: slower, and only while an exception (a wrong
// command line) is thrown.
//
//===----------------------------------------------------------------------===//

#include <cstdint>
#include <link.h>

namespace {
/// As glibc's struct dl_find_object on x86-64.
struct FoundObject {
  unsigned long long flags;
  void *mapStart;
  void *mapEnd;
  struct link_map *linkMap;
  void *ehFrame; ///< the PT_GNU_EH_FRAME segment
  unsigned long long reserved[7];
};

struct Search {
  uintptr_t address;
  FoundObject *out;
};
} // namespace

static int visit(struct dl_phdr_info *info, size_t, void *arg) {
  Search &search = *static_cast<Search *>(arg);
  uintptr_t low = UINTPTR_MAX, high = 0, table = 0;
  bool inside = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    uintptr_t begin = info->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_GNU_EH_FRAME)
      table = begin;
    if (p.p_type != PT_LOAD)
      continue;
    low = begin < low ? begin : low;
    high = begin + p.p_memsz > high ? begin + p.p_memsz : high;
    inside |= search.address - begin < p.p_memsz;
  }
  if (!inside || !table)
    return 0;
  *search.out = FoundObject{};
  search.out->mapStart = reinterpret_cast<void *>(low);
  search.out->mapEnd = reinterpret_cast<void *>(high);
  search.out->ehFrame = reinterpret_cast<void *>(table);
  return 1;
}

// By its assembler name: glibc 2.35's header declares it with its own struct.
extern "C" __attribute__((visibility("hidden"))) int
findObject(void *address, void *result) __asm__("_dl_find_object");

extern "C" int findObject(void *address, void *result) {
  Search search{reinterpret_cast<uintptr_t>(address),
                static_cast<FoundObject *>(result)};
  return dl_iterate_phdr(visit, &search) == 1 ? 0 : -1;
}
