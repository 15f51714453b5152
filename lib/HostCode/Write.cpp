//===- Write.cpp - Program files and executables --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/HostCode/HostCode.h"
#include "runtime/core/WriterPayload.h"

using namespace octet;

// Runner.S. Weak, so that a tool that writes no executable need not carry it.
extern "C" {
extern const std::byte octet_runner_begin[] __attribute__((weak));
extern const std::byte octet_runner_end[] __attribute__((weak));
}

static Status write(const std::string &path, std::span<const std::byte> runner,
                    std::span<const char> program,
                    std::span<const PayloadSection> sections) {
  std::vector<rt::SectionToWrite> payload;
  if (!program.empty())
    payload.push_back({"program", std::as_bytes(program)});
  for (const PayloadSection &section : sections)
    payload.push_back({section.name, std::as_bytes(std::span(section.bytes))});
  return rt::writePayload(path, runner, payload);
}

Status octet::writeProgram(const std::string &path,
                           std::span<const char> program,
                           std::span<const PayloadSection> sections) {
  return write(path, {}, program, sections);
}

Status octet::writeExecutable(const std::string &path,
                              std::span<const char> program,
                              std::span<const PayloadSection> sections) {
  // Through volatile pointers: a compiler takes the address of an array for
  // non-zero and the two for different objects.
  const std::byte *volatile begin = octet_runner_begin;
  const std::byte *volatile end = octet_runner_end;
  if (!begin)
    return internalError("runner", "this tool was linked without octet-run");
  return write(path, {begin, size_t(end - begin)}, program, sections);
}
