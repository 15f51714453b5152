//===- Output.cpp - What every writer has in common -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Output.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>

using namespace octet;
namespace fs = std::filesystem;

Status octet::cannotWrite(const std::string &path, int error) {
  return machineError(escapePath(path),
                      "cannot be written: " +
                          std::system_category().message(error));
}

Status octet::print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
      std::fflush(stdout) != 0)
    return cannotWrite("stdout", errno);
  return Status::success();
}

void octet::ignoreFileSizeSignal() { std::signal(SIGXFSZ, SIG_IGN); }

//===----------------------------------------------------------------------===//
// Output that is input
//===----------------------------------------------------------------------===//

static bool isSame(const struct stat &a, const struct stat &b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/// Whether a file of a folder is part of the checkpoint there. Other tensors
/// beside model.safetensors are not read.
static bool isCheckpointFile(const fs::path &file) {
  constexpr std::string_view kEndings[] = {".safetensors", ".json", ".jinja",
                                           ".txt", ".model"};
  const std::string ending = file.extension().string();
  std::error_code error;
  if (ending == ".safetensors" && file.filename() != "model.safetensors" &&
      fs::exists(file.parent_path() / "model.safetensors", error))
    return false;
  return std::ranges::count(kEndings, ending) > 0;
}

/// A file of a checkpoint in `folder` that `output` is; "" if it is none.
static std::string findInFolder(const std::string &folder,
                                const struct stat &output) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    struct stat entry;
    if (isCheckpointFile(it->path()) &&
        ::stat(it->path().c_str(), &entry) == 0 && isSame(entry, output))
      return it->path().string();
  }
  return "";
}

Status octet::checkNotInput(const std::string &option,
                            const std::string &output,
                            std::span<const std::string> inputs) {
  struct stat target;
  if (output.empty() || ::stat(output.c_str(), &target) != 0)
    return Status::success(); // nothing to replace
  for (const std::string &input : inputs) {
    struct stat given;
    if (input.empty() || ::stat(input.c_str(), &given) != 0)
      continue;
    // A device takes what is written and stays what it is.
    if (isSame(given, target) && !S_ISCHR(given.st_mode))
      return usageError(option + " " + escapePath(output),
                        "is the input " + escapePath(input) +
                            ", which it would replace; another name is needed");
    if (!S_ISDIR(given.st_mode))
      continue;
    std::string found = findInFolder(input, target);
    if (!found.empty())
      return usageError(option + " " + escapePath(output),
                        "is part of the input, " + escapePath(found) +
                            ", which it would replace; another name is needed");
  }
  return Status::success();
}
