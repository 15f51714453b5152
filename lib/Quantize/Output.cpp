//===- Output.cpp - The folder being written ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"
#include "octet/Support/Escape.h"
#include "octet/Support/Output.h"
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace octet;
namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// StagingFolder
//===----------------------------------------------------------------------===//

StagingFolder::StagingFolder(StagingFolder &&other) noexcept
    : output(std::move(other.output)), folder(std::exchange(other.folder, {})) {
}

StagingFolder::~StagingFolder() {
  if (folder.empty())
    return;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
}

Result<StagingFolder> StagingFolder::create(const std::string &output) {
  StagingFolder staging;
  staging.output = output;
  while (staging.output.size() > 1 && staging.output.back() == '/')
    staging.output.pop_back();
  std::string subject = escapePath(output);
  std::error_code error;
  fs::file_status status = fs::symlink_status(staging.output, error);
  if (status.type() == fs::file_type::directory) {
    bool empty = fs::is_empty(staging.output, error);
    if (error)
      return inputError(subject, "cannot be read: " + error.message());
    if (!empty)
      return inputError(subject, "is a folder with something in it; the output "
                                 "is a new or an empty folder");
  } else if (status.type() != fs::file_type::not_found) {
    return inputError(subject, "is there and no folder; the output is a new or "
                               "an empty folder");
  }
  // Beside it, so that a rename does not cross file systems. A left-over of a
  // killed process with our number must not stop us.
  for (int attempt = 0; staging.folder.empty(); ++attempt) {
    std::string name = staging.output + ".tmp-" + std::to_string(::getpid()) +
                       "-" + std::to_string(attempt);
    if (::mkdir(name.c_str(), 0777) == 0)
      staging.folder = name;
    else if (errno != EEXIST || attempt == 100)
      return cannotWrite(output, errno);
  }
  return staging;
}

Status StagingFolder::commit() {
  // rename(2) takes the place of an empty folder, of nothing else.
  if (::rename(folder.c_str(), output.c_str()) != 0)
    return cannotWrite(output, errno);
  folder.clear();
  return Status::success();
}

//===----------------------------------------------------------------------===//
// PositionedFile
//===----------------------------------------------------------------------===//

PositionedFile::PositionedFile(PositionedFile &&other) noexcept
    : path(std::move(other.path)), fd(std::exchange(other.fd, -1)) {}

PositionedFile::~PositionedFile() {
  if (fd >= 0)
    ::close(fd);
}

Result<PositionedFile> PositionedFile::create(const std::string &path,
                                              int64_t bytes) {
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0)
    return cannotWrite(path, errno);
  PositionedFile file(path, fd);
  if (::ftruncate(fd, bytes) != 0)
    return cannotWrite(path, errno);
  return file;
}

Status PositionedFile::write(int64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    // Linux writes at most 2 GiB a call.
    size_t want = std::min<size_t>(data.size(), size_t(1) << 30);
    ssize_t put = ::pwrite(fd, data.data(), want, offset);
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return cannotWrite(path, errno);
    data = data.subspan(size_t(put));
    offset += put;
  }
  return Status::success();
}

Status PositionedFile::close() {
  if (::close(std::exchange(fd, -1)) != 0)
    return cannotWrite(path, errno);
  return Status::success();
}
