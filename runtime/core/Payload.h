//===- Payload.h - The program behind a runner ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the sections at the end of a file. The format:
//
//   [runner][pad to 4096]  section 0 … section n-1, each at a multiple of 4096
//   table:    n entries { char name[16]; u64 offset; u64 bytes; }
//   trailer:  { char magic[8] = "OCTETPLD"; u32 version = 2; u32 sections;
//               u64 table_offset; u64 checksum; }   32 bytes, the file's end
//
// Little-endian; offsets from the start of the file. `checksum` is XXH64, seed
// 0, of all bytes from the first section to the trailer, gaps included: damage
// is told before the loader of shared objects or a tokenizer sees it. It reads
// some gigabytes a second, so that it can be compared at each start.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_PAYLOAD_H
#define OCTET_RUNTIME_CORE_PAYLOAD_H

#include "octet/Support/Status.h"
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace octet::rt {

inline constexpr char kPayloadMagic[9] = "OCTETPLD";
inline constexpr uint32_t kPayloadVersion = 2;
inline constexpr uint64_t kPayloadAlign = 4096;
inline constexpr uint32_t kMaxSections = 256;
/// Names are 1 to 15 bytes and end in a NUL.
inline constexpr size_t kSectionNameBytes = 16;

struct PayloadEntry {
  char name[kSectionNameBytes];
  uint64_t offset; ///< in bytes, from the start of the file
  uint64_t bytes;
};
struct PayloadTrailer {
  char magic[8];
  uint32_t version;
  uint32_t sections;
  uint64_t tableOffset;
  uint64_t checksum;
};
static_assert(sizeof(PayloadEntry) == 32 && sizeof(PayloadTrailer) == 32);

/// XXH64 with seed 0, piece by piece.
/// Source: github.com/Cyan4973/xxHash, doc/xxhash_spec.md.
class Checksum {
public:
  void add(std::span<const std::byte> bytes);
  uint64_t get() const;

private:
  static constexpr size_t kStripe = 32;
  void addStripe(const std::byte *stripe);
  uint64_t lanes[4] = {0x60ea27eeadc0b5d6ull, 0xc2b2ae3d27d4eb4full, 0,
                       0x61c8864e7a143579ull};
  uint64_t total = 0;         ///< bytes
  std::byte waiting[kStripe]; ///< the total % kStripe last ones
};

/// Of a kernel executable (octet/CudaSource/BenchPlan.h), which has no program.
inline constexpr char kKernelsSection[] = "kernels.json";

/// How much of a payload is looked at before it is believed.
enum class Verify {
  Everything,
  Table, ///< not the checksum: to see what kind of file it is
};

/// The sections of one file, mapped read-only.
class Payload {
public:
  Payload(Payload &&) noexcept;
  Payload &operator=(Payload &&) noexcept;
  ~Payload();

  /// Reads the table of `path`.
  /// \returns nothing if the file does not end in a trailer; an input error
  /// that names the file and the section if the trailer or table lies: wrong
  /// version, offsets beyond the file, overlap, a name twice or not printable,
  /// neither `program` nor `kernels.json`, a checksum that differs.
  static Result<std::optional<Payload>> find(const std::string &path);
  /// As `find`, of the running executable (/proc/self/exe, or the path it was
  /// started by where /proc is not mounted). Its path is the real one.
  static Result<std::optional<Payload>>
  findOwn(Verify verify = Verify::Everything);
  /// As `find`; a file without a trailer is an error too.
  static Result<Payload> open(const std::string &path);

  /// The file, as given; what errors name.
  const std::string &path() const { return file; }
  /// The bytes of a section; nothing if there is none of that name.
  std::optional<std::span<const std::byte>>
  section(std::string_view name) const;
  /// Where the payload starts: the runner is the bytes before it.
  uint64_t begin() const { return first; }

private:
  Payload() = default;
  /// Opens `name`, says `path`.
  static Result<std::optional<Payload>>
  find(const std::string &name, const std::string &path, Verify verify);
  struct Section {
    std::string name;
    uint64_t offset, bytes;
  };
  std::string file;
  std::vector<Section> sections;
  const std::byte *base = nullptr;
  size_t size = 0;
  uint64_t first = 0;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_PAYLOAD_H
