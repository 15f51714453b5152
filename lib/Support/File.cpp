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

/// A descriptor, closed at the end.
struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0)
      ::close(fd);
  }
};

/// The new contents of a file, in its folder. Where the file system can, they
/// have no name until they are whole: whatever ends the process then leaves
/// nothing behind.
class NewFile {
public:
  /// \returns 0 or an errno.
  int open(const std::string &target, mode_t mode) {
    const size_t slash = target.rfind('/');
    folder = slash == std::string::npos
                 ? "."
                 : target.substr(0, std::max(slash, size_t(1)));
    out.fd = ::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (out.fd >= 0) {
      // A second descriptor, to give it a name after it has been closed.
      link.fd = ::open(linkOf(out.fd).c_str(), O_PATH | O_CLOEXEC);
      if (link.fd >= 0)
        return 0;
      ::close(std::exchange(out.fd, -1)); // no /proc
    }
    return tryNames([&](const char *name) {
      out.fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
      return out.fd >= 0;
    });
  }

  int descriptor() const { return out.fd; }

  /// Takes the place of `target`. \returns 0 or an errno.
  int moveTo(const std::string &target) {
    // Some file systems report a full disk only here.
    if (::close(std::exchange(out.fd, -1)) != 0)
      return errno;
    if (link.fd >= 0) {
      // Only a rename replaces a file.
      const std::string from = linkOf(link.fd);
      auto linkTo = [&](const char *name) {
        return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name,
                        AT_SYMLINK_FOLLOW) == 0;
      };
      if (linkTo(target.c_str()))
        return 0;
      if (errno != EEXIST)
        return errno;
      if (int error = tryNames(linkTo))
        return error;
    }
    if (::rename(temporary.c_str(), target.c_str()) != 0)
      return errno;
    temporary.clear();
    return 0;
  }

  ~NewFile() {
    if (!temporary.empty())
      ::unlink(temporary.c_str());
  }

private:
  static std::string linkOf(int fd) {
    return "/proc/self/fd/" + std::to_string(fd);
  }

  /// Calls `make` with names until one is free: a left-over of a killed process
  /// with our number must not stop us.
  template <typename Make>
  int tryNames(Make &&make) {
    for (int attempt = 0;; ++attempt) {
      std::string name = folder + "/.octet-" + std::to_string(::getpid()) +
                         "-" + std::to_string(attempt) + ".tmp";
      if (make(name.c_str())) {
        temporary = std::move(name);
        return 0;
      }
      if (errno != EEXIST || attempt == 100)
        return errno;
    }
  }

  std::string folder;
  std::string temporary; ///< a name to remove
  Descriptor out;        ///< to write to
  Descriptor link;       ///< of a file without a name
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
      Descriptor direct;
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

  NewFile file;
  if (int error = file.open(target, executable ? 0777 : 0666))
    return fail(error);
  OCTET_TRY(writeAll(file.descriptor(), path, pieces));
  if (int error = file.moveTo(target))
    return fail(error);
  return Status::success();
}
