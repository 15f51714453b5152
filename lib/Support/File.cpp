//===- File.cpp - Reading and writing whole files -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/File.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

using namespace octet;

static std::string systemText(int error) {
  return std::system_category().message(error);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

InputFile::InputFile(InputFile &&other) noexcept
    : path(std::move(other.path)), fd(std::exchange(other.fd, -1)),
      bytes(other.bytes) {}

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(path, other.path);
  std::swap(fd, other.fd);
  std::swap(bytes, other.bytes);
  return *this;
}

InputFile::~InputFile() {
  if (fd >= 0)
    ::close(fd);
}

Result<InputFile> InputFile::open(const std::string &path) {
  std::string subject = escapePath(path);
  if (path.find('\0') != std::string::npos)
    return inputError(subject, "a file name cannot hold a zero byte");
  auto checkKind = [&](const struct stat &info) -> Status {
    if (S_ISREG(info.st_mode))
      return Status::success();
    const char *what = S_ISDIR(info.st_mode)    ? "directory"
                       : S_ISFIFO(info.st_mode) ? "FIFO"
                                                : "device or socket";
    return inputError(subject,
                      std::string("is a ") + what + ", not a regular file");
  };
  // Before opening, since opening a device can have effects; and again after,
  // since the name may have changed hands. O_NONBLOCK: a FIFO without a writer
  // must not hang.
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return inputError(subject, "cannot be opened: " + systemText(errno));
  OCTET_TRY(checkKind(info));
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return inputError(subject, "cannot be opened: " + systemText(errno));
  InputFile file(path, fd, 0);
  if (::fstat(fd, &info) != 0)
    return machineError(subject, "cannot be read: " + systemText(errno));
  OCTET_TRY(checkKind(info));
  file.bytes = info.st_size;
  return file;
}

Status InputFile::read(int64_t offset, std::span<char> out) const {
  while (!out.empty()) {
    ssize_t got = ::pread(fd, out.data(), out.size(), offset);
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return machineError(escapePath(path),
                          "cannot be read: " + systemText(errno));
    if (got == 0)
      return machineError(escapePath(path),
                          "became shorter while it was read: it ends at byte " +
                              std::to_string(offset));
    out = out.subspan(got);
    offset += got;
  }
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

/// A descriptor and, until `keep`, the name of a file to remove.
struct Output {
  int fd = -1;
  std::string temporary;
  ~Output() {
    if (fd >= 0)
      ::close(fd);
    if (!temporary.empty())
      ::unlink(temporary.c_str());
  }
};

Status writeAll(int fd, const std::string &path,
                std::span<const std::span<const std::byte>> pieces) {
  int64_t done = 0, total = 0;
  for (std::span<const std::byte> piece : pieces)
    total += piece.size();
  for (std::span<const std::byte> piece : pieces) {
    while (!piece.empty()) {
      // Linux writes at most 2 GiB a call.
      size_t want = std::min<size_t>(piece.size(), size_t(1) << 30);
      ssize_t put = ::write(fd, piece.data(), want);
      if (put < 0 && errno == EINTR)
        continue;
      if (put < 0)
        return machineError(escapePath(path),
                            "cannot be written: " + systemText(errno) +
                                " after " + std::to_string(done) + " of " +
                                std::to_string(total) + " bytes");
      piece = piece.subspan(put);
      done += put;
    }
  }
  return Status::success();
}

} // namespace

Status octet::writeFile(const std::string &path,
                        std::span<const std::span<const std::byte>> pieces,
                        bool executable) {
  std::string subject = escapePath(path);
  auto fail = [&](int error) { return cannotWrite(path, error); };
  if (path.find('\0') != std::string::npos)
    return inputError(subject, "a file name cannot hold a zero byte");

  struct stat info;
  std::string target = path;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode))
      return fail(EISDIR);
    if (!S_ISREG(info.st_mode)) {
      Output direct;
      direct.fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
      if (direct.fd < 0)
        return fail(errno);
      return writeAll(direct.fd, path, pieces);
    }
    // A file that may not be written is not replaced behind its owner's back.
    if (::access(path.c_str(), W_OK) != 0)
      return fail(errno);
    char *resolved = ::realpath(path.c_str(), nullptr);
    if (!resolved)
      return fail(errno);
    target = resolved;
    ::free(resolved);
  }

  Output out;
  for (int attempt = 0; out.fd < 0; ++attempt) {
    // A left-over of a killed process with our number must not stop us.
    std::string name = target + ".tmp-" + std::to_string(::getpid()) + "-" +
                       std::to_string(attempt);
    out.fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                    executable ? 0777 : 0666);
    if (out.fd >= 0)
      out.temporary = name;
    else if (errno != EEXIST || attempt == 100)
      return fail(errno);
  }
  OCTET_TRY(writeAll(out.fd, path, pieces));
  // Some file systems report a full disk only here.
  if (::close(std::exchange(out.fd, -1)) != 0)
    return fail(errno);
  if (::rename(out.temporary.c_str(), target.c_str()) != 0)
    return fail(errno);
  out.temporary.clear();
  return Status::success();
}
