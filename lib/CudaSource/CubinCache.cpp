//===- CubinCache.cpp - Compiled kernels by content -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/CubinCache.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include "octet/Support/Sha256.h"
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <tuple>

using namespace octet;
using namespace octet::cuda;
namespace fs = std::filesystem;

static constexpr std::string_view kMagic = "octet kernel 2\n";
static constexpr std::string_view kEnding = ".kernel";
static constexpr size_t kDigest = 32, kFields = 5;
/// A kernel is a few hundred KB; what is larger is none of ours.
static constexpr int64_t kMostBytes = int64_t(1) << 28;

std::string octet::cuda::getCacheFolder() {
  // A relative one is to be ignored (XDG base directory specification).
  const char *base = std::getenv("XDG_CACHE_HOME");
  if (base && base[0] == '/')
    return std::string(base) + "/octet";
  const char *home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.cache/octet" : "";
}

std::string octet::cuda::makeKey(std::string_view source,
                                 std::string_view target,
                                 std::string_view version) {
  Sha256 hash;
  hash.updateField(kMagic);
  hash.updateField(version);
  hash.updateField(target);
  for (const std::string &option : getNvrtcOptions(target))
    hash.updateField(option);
  hash.updateField(source);
  for (const Template &each : findIncluded(source)) {
    hash.updateField(each.name);
    hash.updateField(each.text);
  }
  return hash.finishHex();
}

CubinCache CubinCache::ofUser() {
  std::string folder = getCacheFolder();
  return CubinCache(folder.empty() ? folder : folder + "/kernels");
}

std::string CubinCache::pathOf(const std::string &key) const {
  return folder + "/" + key + std::string(kEnding);
}

//===----------------------------------------------------------------------===//
// One file
//===----------------------------------------------------------------------===//

/// Of a file's body and the key in its name: a file under another's name is
/// damaged.
static std::string digestOf(std::string_view key, std::string_view body) {
  Sha256 hash;
  hash.updateField(key);
  hash.update(body);
  auto digest = hash.finish();
  return std::string(digest.begin(), digest.end());
}

static std::string encode(std::string_view key,
                          const std::array<std::string_view, kFields> &fields) {
  std::string body;
  for (std::string_view field : fields)
    for (int i = 0; i < 8; ++i)
      body += char(uint64_t(field.size()) >> (8 * i));
  for (std::string_view field : fields)
    body += field;
  return std::string(kMagic) + digestOf(key, body) + body;
}

/// Nothing if the text is not what encode() wrote.
static std::optional<std::array<std::string_view, kFields>>
decode(std::string_view key, std::string_view text) {
  const size_t head = kMagic.size() + kDigest;
  if (text.size() < head + 8 * kFields || !text.starts_with(kMagic))
    return std::nullopt;
  std::string_view body = text.substr(head);
  if (digestOf(key, body) != text.substr(kMagic.size(), kDigest))
    return std::nullopt;
  std::array<std::string_view, kFields> fields;
  size_t at = 8 * kFields;
  for (size_t f = 0; f < kFields; ++f) {
    uint64_t size = 0;
    for (int i = 0; i < 8; ++i)
      size |= uint64_t(uint8_t(body[8 * f + i])) << (8 * i);
    if (size > body.size() - at)
      return std::nullopt;
    fields[f] = body.substr(at, size);
    at += size;
  }
  if (at != body.size())
    return std::nullopt;
  return fields;
}

/// Nothing if there is no such file, or it cannot be read.
static std::optional<std::string> readAll(const std::string &path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file || file->size() > kMostBytes)
    return std::nullopt;
  std::string text(size_t(file->size()), '\0');
  if (!file->read(0, text).ok())
    return std::nullopt;
  return text;
}

static Status writeAll(const std::string &folder, const std::string &path,
                       std::string_view text) {
  std::error_code ec;
  fs::create_directories(folder, ec);
  if (ec)
    return machineError(escapePath(folder), ec.message());
  // writeFile would write into a FIFO or device, and wait for its reader.
  if (fs::is_other(path, ec))
    fs::remove(path, ec);
  std::span<const std::byte> piece(
      reinterpret_cast<const std::byte *>(text.data()), text.size());
  return writeFile(path, {&piece, 1});
}

std::optional<CompiledKernel> CubinCache::find(const std::string &key) const {
  if (folder.empty())
    return std::nullopt;
  std::optional<std::string> text = readAll(pathOf(key));
  if (!text)
    return std::nullopt;
  auto fields = decode(key, *text);
  if (!fields)
    return std::nullopt;
  return CompiledKernel{std::string((*fields)[3]), std::string((*fields)[4])};
}

Status CubinCache::add(const std::string &key, std::string_view entry,
                       std::string_view target, std::string_view version,
                       const CompiledKernel &kernel) const {
  if (folder.empty())
    return Status::success();
  return writeAll(
      folder, pathOf(key),
      encode(key, {entry, target, version, kernel.cubin, kernel.ptx}));
}

//===----------------------------------------------------------------------===//
// All of them
//===----------------------------------------------------------------------===//

/// The keys whose files are in the folder, in order.
static Result<std::vector<std::string>> findKeys(const std::string &folder) {
  std::vector<std::string> keys;
  if (folder.empty())
    return keys;
  std::error_code ec;
  fs::directory_iterator each(folder, ec);
  if (ec == std::errc::no_such_file_or_directory)
    return keys;
  for (; !ec && each != fs::directory_iterator(); each.increment(ec)) {
    std::string name = each->path().filename().string();
    if (name.size() != 64 + kEnding.size() || !name.ends_with(kEnding) ||
        name.find_first_not_of("0123456789abcdef") != 64)
      continue;
    keys.push_back(name.substr(0, 64));
  }
  if (ec)
    return machineError(escapePath(folder), ec.message());
  std::sort(keys.begin(), keys.end());
  return keys;
}

Result<std::vector<CacheEntry>> CubinCache::list() const {
  OCTET_TRY_ASSIGN(std::vector<std::string> keys, findKeys(folder));
  std::vector<CacheEntry> entries;
  for (const std::string &key : keys) {
    std::optional<std::string> text = readAll(pathOf(key));
    if (!text)
      continue; // another process has cleared it
    CacheEntry entry;
    entry.key = key;
    entry.bytes = int64_t(text->size());
    if (auto fields = decode(key, *text)) {
      entry.entry = (*fields)[0];
      entry.target = (*fields)[1];
      entry.nvrtc = (*fields)[2];
    } else {
      entry.damaged = true;
    }
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const CacheEntry &a, const CacheEntry &b) {
              return std::tie(a.entry, a.target, a.key) <
                     std::tie(b.entry, b.target, b.key);
            });
  return entries;
}

Result<int64_t> CubinCache::clear() const {
  OCTET_TRY_ASSIGN(std::vector<std::string> keys, findKeys(folder));
  int64_t count = 0;
  for (const std::string &key : keys) {
    std::error_code ec;
    count += fs::remove(pathOf(key), ec);
    if (ec)
      return machineError(escapePath(pathOf(key)), ec.message());
  }
  return count;
}

Result<CubinCache::Copied> CubinCache::copyTo(const CubinCache &to) const {
  OCTET_TRY_ASSIGN(std::vector<std::string> keys, findKeys(folder));
  Copied result;
  for (const std::string &key : keys) {
    std::optional<std::string> text = readAll(pathOf(key));
    if (!text || !decode(key, *text)) {
      result.damaged.push_back(pathOf(key));
    } else if (to.find(key)) {
      ++result.present;
    } else {
      OCTET_TRY(writeAll(to.folder, to.pathOf(key), *text));
      ++result.copied;
    }
  }
  return result;
}
