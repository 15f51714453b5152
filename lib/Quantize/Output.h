//===- Output.h - The folder being written ----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_QUANTIZE_OUTPUT_H
#define OCTET_LIB_QUANTIZE_OUTPUT_H

#include "octet/Support/Status.h"
#include <cstdint>
#include <span>
#include <string>

namespace octet {

/// A folder beside `output` that becomes it, or disappears.
class StagingFolder {
public:
  /// \returns an input error if `output` is there and no empty folder.
  static Result<StagingFolder> create(const std::string &output);
  StagingFolder(StagingFolder &&other) noexcept;
  StagingFolder &operator=(StagingFolder &&) = delete;
  /// Removes the folder and what is in it, unless it was committed.
  ~StagingFolder();

  const std::string &path() const { return folder; }
  /// Renames it to `output`.
  Status commit();

private:
  StagingFolder() = default;
  std::string output, folder;
};

/// A file written at any place in any order.
class PositionedFile {
public:
  /// \param bytes  its size when it is complete.
  static Result<PositionedFile> create(const std::string &path, int64_t bytes);
  PositionedFile(PositionedFile &&other) noexcept;
  PositionedFile &operator=(PositionedFile &&) = delete;
  ~PositionedFile();

  Status write(int64_t offset, std::span<const std::byte> data);
  /// Some file systems report a full disk only here.
  Status close();

private:
  PositionedFile(std::string path, int fd) : path(std::move(path)), fd(fd) {}
  std::string path;
  int fd = -1;
};

} // namespace octet

#endif // OCTET_LIB_QUANTIZE_OUTPUT_H
