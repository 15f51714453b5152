//===- Payload.cpp - The program behind a runner --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Payload.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/MappedFiles.h"
#include <algorithm>
#include <bit>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;

//===----------------------------------------------------------------------===//
// Checksum
//===----------------------------------------------------------------------===//

static constexpr uint64_t kPrime1 = 0x9e3779b185ebca87ull,
                          kPrime2 = 0xc2b2ae3d27d4eb4full,
                          kPrime3 = 0x165667b19e3779f9ull,
                          kPrime4 = 0x85ebca77c2b2ae63ull,
                          kPrime5 = 0x27d4eb2f165667c5ull;

template <typename T>
static uint64_t load(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

static uint64_t mixWord(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

void Checksum::addStripe(const std::byte *stripe) {
  for (int i = 0; i < 4; ++i)
    lanes[i] = mixWord(lanes[i], load<uint64_t>(stripe + 8 * i));
}

void Checksum::add(std::span<const std::byte> bytes) {
  const size_t held = total % kStripe;
  total += bytes.size();
  if (held) {
    const size_t more = std::min(kStripe - held, bytes.size());
    std::copy_n(bytes.data(), more, waiting + held);
    bytes = bytes.subspan(more);
    if (held + more < kStripe)
      return;
    addStripe(waiting);
  }
  for (; bytes.size() >= kStripe; bytes = bytes.subspan(kStripe))
    addStripe(bytes.data());
  std::copy_n(bytes.data(), bytes.size(), waiting);
}

uint64_t Checksum::get() const {
  uint64_t hash = kPrime5; // lane 2 is the seed
  if (total >= kStripe) {
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) +
           std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes)
      hash = (hash ^ mixWord(0, lane)) * kPrime1 + kPrime4;
  }
  hash += total;
  const std::byte *at = waiting, *end = waiting + total % kStripe;
  for (; end - at >= 8; at += 8)
    hash = std::rotl(hash ^ mixWord(0, load<uint64_t>(at)), 27) * kPrime1 +
           kPrime4;
  if (end - at >= 4) {
    hash =
        std::rotl(hash ^ load<uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    at += 4;
  }
  for (; at != end; ++at)
    hash = std::rotl(hash ^ uint64_t(*at) * kPrime5, 11) * kPrime1;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

//===----------------------------------------------------------------------===//
// Payload
//===----------------------------------------------------------------------===//

Payload::Payload(Payload &&o) noexcept
    : file(std::move(o.file)), sections(std::move(o.sections)),
      base(std::exchange(o.base, nullptr)), size(std::exchange(o.size, 0)),
      first(o.first) {}

Payload &Payload::operator=(Payload &&o) noexcept {
  std::swap(file, o.file);
  std::swap(sections, o.sections);
  std::swap(base, o.base);
  std::swap(size, o.size);
  std::swap(first, o.first);
  return *this;
}

Payload::~Payload() {
  if (base) {
    unwatchMapping(base);
    munmap(const_cast<std::byte *>(base), size);
  }
}

std::optional<std::span<const std::byte>>
Payload::section(std::string_view name) const {
  for (const Section &s : sections)
    if (s.name == name)
      return std::span(base + s.offset, s.bytes);
  return std::nullopt;
}

static std::string systemError() { return std::strerror(errno); }

/// The name of a table entry, or nothing if it is not 1 to 15 printable
/// characters and zeros after them.
static std::optional<std::string> entryName(const PayloadEntry &entry) {
  size_t n = strnlen(entry.name, kSectionNameBytes);
  if (n == 0 || n == kSectionNameBytes)
    return std::nullopt;
  for (size_t i = 0; i < kSectionNameBytes; ++i)
    if (i < n ? entry.name[i] <= ' ' || entry.name[i] > '~'
              : entry.name[i] != 0)
      return std::nullopt;
  return std::string(entry.name, n);
}

Result<std::optional<Payload>> Payload::find(const std::string &path) {
  return find(path, path, Verify::Everything);
}

Result<std::optional<Payload>>
Payload::find(const std::string &name, const std::string &path, Verify verify) {
  int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return inputError(path, "cannot open: " + systemError());
  struct Closer {
    int fd;
    ~Closer() { close(fd); }
  } closer{fd};
  struct stat st;
  if (fstat(fd, &st) != 0)
    return machineError(path, "cannot read its size: " + systemError());
  if (!S_ISREG(st.st_mode))
    return inputError(path, "not a regular file");
  uint64_t fileBytes = uint64_t(st.st_size);
  PayloadTrailer trailer;
  if (fileBytes < sizeof(trailer) ||
      pread(fd, &trailer, sizeof(trailer), fileBytes - sizeof(trailer)) !=
          ssize_t(sizeof(trailer)) ||
      std::memcmp(trailer.magic, kPayloadMagic, 8) != 0)
    return std::optional<Payload>();

  if (trailer.version != kPayloadVersion)
    return inputError(path, "payload version " +
                                std::to_string(trailer.version) +
                                ", this runner reads version " +
                                std::to_string(kPayloadVersion));
  if (trailer.sections == 0 || trailer.sections > kMaxSections)
    return inputError(path, std::to_string(trailer.sections) +
                                " payload sections; 1 to " +
                                std::to_string(kMaxSections) + " are possible");
  // The table ends where the trailer starts: nothing may hide in between.
  uint64_t tableBytes = trailer.sections * sizeof(PayloadEntry);
  if (fileBytes - sizeof(trailer) < tableBytes ||
      trailer.tableOffset != fileBytes - sizeof(trailer) - tableBytes)
    return inputError(path, "payload table at byte " +
                                std::to_string(trailer.tableOffset) + " with " +
                                std::to_string(trailer.sections) +
                                " sections does not end at the trailer of a "
                                "file of " +
                                std::to_string(fileBytes) + " bytes");

  void *map = mmap(nullptr, fileBytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map == MAP_FAILED)
    return machineError(path, "cannot map " + std::to_string(fileBytes) +
                                  " bytes: " + systemError());
  Payload result;
  result.file = path;
  result.base = static_cast<const std::byte *>(map);
  result.size = fileBytes;
  watchMapping(map, fileBytes, path);
  std::span<const std::byte> table(result.base + trailer.tableOffset,
                                   tableBytes);
  for (uint32_t i = 0; i < trailer.sections; ++i) {
    PayloadEntry entry;
    std::memcpy(&entry, table.data() + i * sizeof(entry), sizeof(entry));
    std::optional<std::string> name = entryName(entry);
    if (!name)
      return inputError(path, "payload section " + std::to_string(i) +
                                  " has no printable name");
    std::string subject = "payload section " + quoteName(*name);
    if (entry.offset % kPayloadAlign)
      return inputError(
          path, subject + " starts at byte " + std::to_string(entry.offset) +
                    ", not a multiple of " + std::to_string(kPayloadAlign));
    if (entry.offset > trailer.tableOffset ||
        entry.bytes > trailer.tableOffset - entry.offset)
      return inputError(path, subject + " (" + std::to_string(entry.bytes) +
                                  " bytes at " + std::to_string(entry.offset) +
                                  ") ends beyond the table at byte " +
                                  std::to_string(trailer.tableOffset));
    if (result.section(*name))
      return inputError(path, subject + " is there twice");
    result.sections.push_back({*name, entry.offset, entry.bytes});
  }

  std::vector<const Section *> order;
  for (const Section &s : result.sections)
    order.push_back(&s);
  std::sort(order.begin(), order.end(), [](const Section *a, const Section *b) {
    return std::pair(a->offset, a->bytes) < std::pair(b->offset, b->bytes);
  });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
      return inputError(path, "payload sections " +
                                  quoteName(order[i - 1]->name) + " and " +
                                  quoteName(order[i]->name) + " overlap");
  result.first = order.front()->offset;

  if (!result.section("program") && !result.section(kKernelsSection))
    return inputError(path, "the payload has no section 'program'");
  if (verify == Verify::Table)
    return std::optional<Payload>(std::move(result));
  Checksum checksum;
  checksum.add({result.base + result.first,
                size_t(fileBytes - sizeof(trailer) - result.first)});
  if (checksum.get() != trailer.checksum)
    return inputError(path, "the payload is damaged: its checksum differs from "
                            "the one it was written with; compile again");
  return std::optional<Payload>(std::move(result));
}

/// What the link `self` stands for; `self` where that has been moved or
/// replaced since it was started.
static std::string realName(const char *self) {
  std::string name(PATH_MAX, '\0');
  ssize_t length = readlink(self, name.data(), name.size());
  struct stat own, named;
  if (length <= 0 || size_t(length) == name.size())
    return self;
  name.resize(size_t(length));
  if (stat(self, &own) != 0 || stat(name.c_str(), &named) != 0 ||
      own.st_ino != named.st_ino || own.st_dev != named.st_dev)
    return self;
  return name;
}

Result<std::optional<Payload>> Payload::findOwn(Verify verify) {
  const char *self = "/proc/self/exe";
  if (access(self, R_OK) == 0)
    return find(self, realName(self), verify);
  // A bare root without /proc: the kernel still says what it was asked to run.
  if (const char *name = reinterpret_cast<const char *>(getauxval(AT_EXECFN)))
    return find(name, name, verify);
  return machineError(self, "cannot read: " + systemError());
}

Result<Payload> Payload::open(const std::string &path) {
  OCTET_TRY_ASSIGN(std::optional<Payload> found, find(path));
  if (!found)
    return inputError(path, "not a compiled program, or cut short: it does not "
                            "end in an OCTETPLD trailer");
  return std::move(*found);
}
