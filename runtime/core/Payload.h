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
//   trailer:  { char magic[8] = "OCTETPLD"; u32 version = 1; u32 sections;
//               u64 table_offset; u64 checksum; }   32 bytes, the file's end
//
// Little-endian; offsets from the start of the file. `checksum` is FNV-1a 64
// over the table and then the bytes of `program`: damaged machine code is told
// before the loader of shared objects sees it.
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
inline constexpr uint32_t kPayloadVersion = 1;
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

/// FNV-1a 64 of `bytes`, continued from `hash`.
uint64_t fnv1a(std::span<const std::byte> bytes,
               uint64_t hash = 0xcbf29ce484222325ull);

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
  /// no `program`, a checksum that differs.
  static Result<std::optional<Payload>> find(const std::string &path);
  /// As `find`, of the running executable (/proc/self/exe, or the path it was
  /// started by where /proc is not mounted). Its path is the real one.
  static Result<std::optional<Payload>> findOwn();
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
  static Result<std::optional<Payload>> find(const std::string &name,
                                             const std::string &path);
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
