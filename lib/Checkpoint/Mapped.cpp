//===- Mapped.cpp - The weights, mapped -----------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Support/MappedFiles.h"
#include <cassert>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

using namespace octet;

MappedCheckpoint::MappedCheckpoint(MappedCheckpoint &&other) noexcept
    : mappings(std::move(other.mappings)) {
  other.mappings.clear();
}

MappedCheckpoint &
MappedCheckpoint::operator=(MappedCheckpoint &&other) noexcept {
  std::swap(mappings, other.mappings);
  return *this;
}

MappedCheckpoint::~MappedCheckpoint() {
  for (const Mapping &mapping : mappings)
    if (mapping.base) {
      unwatchMapping(mapping.base);
      ::munmap(mapping.base, mapping.size);
    }
}

Result<MappedCheckpoint> MappedCheckpoint::map(const TensorTable &table) {
  MappedCheckpoint mapped;
  for (size_t i = 0; i < table.files.size(); ++i) {
    OCTET_TRY_ASSIGN(InputFile file, InputFile::open(table.files[i]));
    std::string subject = escapePath(table.files[i]);
    if (file.size() != table.fileBytes[i])
      return inputError(subject, "is " + std::to_string(file.size()) +
                                     " bytes, it was " +
                                     std::to_string(table.fileBytes[i]) +
                                     " when its header was read");
    // A file without tensors is still at least its header, never empty.
    void *base = ::mmap(nullptr, file.size(), PROT_READ, MAP_PRIVATE,
                        file.descriptor(), 0);
    if (base == MAP_FAILED)
      return machineError(subject, "cannot be mapped: " +
                                       std::system_category().message(errno));
    const size_t size = size_t(file.size());
    mapped.mappings.push_back({base, size, std::move(file)});
    watchMapping(base, size, table.files[i]);
  }
  return mapped;
}

std::span<const std::byte>
MappedCheckpoint::bytes(const TensorInfo &tensor) const {
  const Mapping &mapping = mappings[tensor.file];
  assert(uint64_t(tensor.offset) + uint64_t(tensor.bytes) <= mapping.size &&
         "a tensor of another table");
  return {static_cast<const std::byte *>(mapping.base) + tensor.offset,
          size_t(tensor.bytes)};
}

std::optional<MappedCheckpoint::Place>
MappedCheckpoint::find(const void *address) const {
  for (size_t i = 0; i < mappings.size(); ++i) {
    const uintptr_t base = reinterpret_cast<uintptr_t>(mappings[i].base);
    const uintptr_t at = reinterpret_cast<uintptr_t>(address);
    if (at >= base && at - base < mappings[i].size)
      return Place{i, int64_t(at - base)};
  }
  return std::nullopt;
}

Status MappedCheckpoint::read(Place from, std::span<std::byte> out) const {
  return mappings[from.file].file.read(
      from.offset, {reinterpret_cast<char *>(out.data()), out.size()});
}

/// Advises on the pages that hold `data`, in part or whole.
static void advise(std::span<const std::byte> data, int advice) {
  uintptr_t page = uintptr_t(::sysconf(_SC_PAGESIZE));
  uintptr_t begin = reinterpret_cast<uintptr_t>(data.data());
  uintptr_t end = begin + data.size();
  begin -= begin % page;
  if (begin < end)
    (void)::madvise(reinterpret_cast<void *>(begin), end - begin, advice);
}

// Pages that a neighbour shares may go too: nothing is lost.
void MappedCheckpoint::release(const TensorInfo &tensor) const {
  advise(bytes(tensor), MADV_DONTNEED);
}

void MappedCheckpoint::prefetch(const TensorInfo &tensor) const {
  advise(bytes(tensor), MADV_WILLNEED);
}
