//===- File.h - Reading and writing whole files -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_FILE_H
#define OCTET_SUPPORT_FILE_H

#include "octet/Support/Status.h"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace octet {

/// A regular file, open for reading. A directory, FIFO, socket or device is an
/// input error and never blocks.
class InputFile {
public:
  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  /// \returns an input error if there is no such file, it may not be read, or
  /// it is no regular file.
  static Result<InputFile> open(const std::string &path);

  int descriptor() const { return fd; }
  int64_t size() const { return bytes; } ///< in bytes, when it was opened
  /// Fills `out` from `offset`. \returns a machine error if the file ends
  /// first or cannot be read.
  Status read(int64_t offset, std::span<char> out) const;

private:
  InputFile(std::string path, int fd, int64_t bytes)
      : path(std::move(path)), fd(fd), bytes(bytes) {}
  std::string path;
  int fd = -1;
  int64_t bytes = 0;
};

/// Writes `pieces`, one after the other, to a new file that then takes the
/// place of `path`: that is either what it was or complete. The new file has no
/// name until it is whole, where the file system can. A symbolic link is
/// followed. A device or FIFO is written to directly, since a rename would
/// replace it.
/// \param executable  the file gets the x bits that the umask allows.
/// \returns a machine error that has the system's text ("No space left on
/// device"), the new file removed.
Status writeFile(const std::string &path,
                 std::span<const std::span<const std::byte>> pieces,
                 bool executable = false);

} // namespace octet

#endif // OCTET_SUPPORT_FILE_H
