//===- FuzzPayload.cpp - What may follow a runner -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Input: 'I' and a program's info; 'F' and a file; or 'P', a byte of flags, a
// number of sections n, n table entries, content. The last makes a file whose
// page i begins with 64 bytes of the content: sections are aligned to 4096, and
// an input of zeros would take all day. Flags: 1 the table is not where it
// should be, 2 a checksum that differs.
//
// No code is run.
//
//===----------------------------------------------------------------------===//

#include "Fuzz.h"
#include "octet/Text/ChatTemplate.h"
#include "runtime/core/Payload.h"
#include "runtime/core/Program.h"
#include <algorithm>
#include <cstring>

using namespace octet;
using namespace octet::fuzz;
using namespace octet::rt;

static constexpr size_t kPiece = 64;
static constexpr size_t kMaxPages = 16;

static void readInfo(std::string_view text) {
  Result<ProgramInfo> info = parseProgramInfo(text, "program");
  if (!info)
    return requireGoodError(info.status());
  require(info->outputWidth() > 0, "an output has a width");
  require(info->maxContext > 0 && info->maxSeqs > 0 && info->maxStepTokens > 0,
          "limits are positive");
  require(info->kv.layers >= 0, "a cache has layers or none");
  require(info->kv.layers == 0 ||
              (info->kv.kvHeads > 0 && info->kv.headDim > 0),
          "a cache has rows");
  for (const ProgramTensor &tensor : info->tensors)
    for (int64_t side : tensor.shape)
      require(side >= 0, "a side is a size", tensor.name);
  for (const auto *list : {&info->bos, &info->eos})
    for (int64_t id : *list)
      require(id >= 0 && id <= INT32_MAX, "an id is an int32");
}

static std::string_view textOf(std::span<const std::byte> bytes) {
  return toText(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
}

/// Each section of the table is before the table, and is what the file has.
static void requireSectionsInFile(const Payload &payload,
                                  std::string_view file) {
  PayloadTrailer trailer;
  std::memcpy(&trailer, file.data() + file.size() - sizeof trailer,
              sizeof trailer);
  for (uint32_t i = 0; i < trailer.sections; ++i) {
    PayloadEntry entry;
    std::memcpy(&entry, file.data() + trailer.tableOffset + i * sizeof entry,
                sizeof entry);
    auto section = payload.section(entry.name);
    require(section && section->size() == entry.bytes,
            "a section is as long as the table says", entry.name);
    require(entry.offset <= trailer.tableOffset &&
                entry.bytes <= trailer.tableOffset - entry.offset,
            "a section ends before the table", entry.name);
    require(textOf(*section) == file.substr(entry.offset, entry.bytes),
            "a section is what the file has", entry.name);
  }
}

static void readPayload(std::string_view file) {
  Result<std::optional<Payload>> found =
      Payload::find(writeInput("program", file));
  if (!found)
    return requireGoodError(found.status());
  if (!*found)
    return;
  const Payload &payload = **found;
  require(payload.begin() < file.size() && payload.begin() % kPayloadAlign == 0,
          "a payload begins on a page of the file");
  std::optional<std::span<const std::byte>> program =
      payload.section("program");
  require(program.has_value(), "a payload has a program");
  requireSectionsInFile(payload, file);
  if (auto section = payload.section(kChatTemplateSection)) {
    Result<ChatTemplate> chat = parseChatTemplate(textOf(*section), "section");
    if (!chat)
      requireGoodError(chat.status());
  }
  if (auto section = payload.section("generation")) {
    Result<nlohmann::json> generation = parseJson(textOf(*section), "section");
    if (!generation)
      requireGoodError(generation.status());
  }
}

/// The file that an input of kind 'P' describes.
static std::string makeFile(std::string_view input) {
  if (input.size() < 2)
    return {};
  const uint8_t flags = uint8_t(input[0]);
  const uint32_t sections = uint8_t(input[1]);
  input.remove_prefix(2);
  std::string table(input.substr(0, sections * sizeof(PayloadEntry)));
  table.resize(sections * sizeof(PayloadEntry));
  input.remove_prefix(std::min(input.size(), table.size()));

  std::string file;
  for (size_t page = 0; page < kMaxPages && !input.empty(); ++page) {
    file += input.substr(0, kPiece);
    input.remove_prefix(std::min(input.size(), kPiece));
    file.resize((page + 1) * kPayloadAlign);
  }
  PayloadTrailer trailer = {};
  std::memcpy(trailer.magic, kPayloadMagic, sizeof trailer.magic);
  trailer.version = kPayloadVersion;
  trailer.sections = sections;
  trailer.tableOffset = file.size() + (flags & 1 ? 32 : 0);
  // From the first section on, as long as it is in the file.
  uint64_t begin = file.size();
  for (uint32_t i = 0; i < sections; ++i) {
    PayloadEntry entry;
    std::memcpy(&entry, table.data() + i * sizeof entry, sizeof entry);
    begin = std::min(begin, entry.offset);
  }
  file += table;
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(file)).subspan(begin));
  trailer.checksum = checksum.get() ^ (flags & 2 ? 1 : 0);
  file.append(reinterpret_cast<const char *>(&trailer), sizeof trailer);
  return file;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  const std::string_view rest = toText(data + 1, size - 1);
  switch (data[0]) {
  case 'I':
    readInfo(rest);
    break;
  case 'F':
    readPayload(rest);
    break;
  case 'P':
    readPayload(makeFile(rest));
    break;
  }
  return 0;
}

/// Info is JSON; the rest is not.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  if (size > 1 && data[0] == 'I')
    return 1 + mutateJson(data + 1, size - 1, maxSize - 1, seed);
  return LLVMFuzzerMutate(data, size, maxSize);
}
