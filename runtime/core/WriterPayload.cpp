//===- WriterPayload.cpp - Makes an executable ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/WriterPayload.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "runtime/core/Payload.h"
#include <cstring>

using namespace octet;
using namespace octet::rt;

Status rt::writePayload(const std::string &path,
                        std::span<const std::byte> runner,
                        std::span<const SectionToWrite> sections) {
  if (sections.empty() || sections.size() > kMaxSections)
    return internalError(path,
                         std::to_string(sections.size()) + " payload sections");
  static const std::byte zeros[kPayloadAlign] = {};
  std::vector<std::span<const std::byte>> pieces{runner};
  int64_t offset = int64_t(runner.size());
  auto padTo = [&](int64_t align) {
    int64_t pad = alignTo(offset, align) - offset;
    pieces.push_back({zeros, size_t(pad)});
    offset += pad;
  };
  std::vector<PayloadEntry> table;
  for (const SectionToWrite &section : sections) {
    if (section.name.empty() || section.name.size() >= kSectionNameBytes)
      return internalError(path,
                           "payload section name " + quoteName(section.name));
    padTo(kPayloadAlign);
    PayloadEntry entry{};
    std::memcpy(entry.name, section.name.data(), section.name.size());
    entry.offset = uint64_t(offset);
    entry.bytes = section.data.size();
    table.push_back(entry);
    pieces.push_back(section.data);
    offset += int64_t(section.data.size());
  }
  padTo(alignof(PayloadEntry));
  PayloadTrailer trailer{};
  std::memcpy(trailer.magic, kPayloadMagic, 8);
  trailer.version = kPayloadVersion;
  trailer.sections = uint32_t(table.size());
  trailer.tableOffset = uint64_t(offset);
  pieces.push_back(std::as_bytes(std::span(table)));
  // The runner and the gap behind it are no part of the payload.
  Checksum checksum;
  for (std::span<const std::byte> piece : std::span(pieces).subspan(2))
    checksum.add(piece);
  trailer.checksum = checksum.get();
  pieces.push_back(std::as_bytes(std::span(&trailer, 1)));
  return writeFile(path, pieces, /*executable=*/true);
}
