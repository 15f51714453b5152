//===- Link.cpp - An object to a shared object ----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLD as a library. It reads and writes files, so the object and the result
// live in a temporary folder that is removed in every case.
//
//===----------------------------------------------------------------------===//

#include "lld/Common/Driver.h"
#include "octet/HostCode/HostCode.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

LLD_HAS_DRIVER(elf)

using namespace octet;

static Status writeObject(llvm::StringRef path, std::span<const char> object) {
  std::error_code ec;
  llvm::raw_fd_ostream file(path, ec);
  if (ec)
    return machineError(path.str(), ec.message());
  file.write(object.data(), object.size());
  file.close();
  if (file.has_error()) {
    std::string why = file.error().message();
    file.clear_error();
    return machineError(path.str(), why);
  }
  return Status::success();
}

Result<std::vector<char>> octet::linkProgram(std::span<const char> object) {
  llvm::SmallString<128> folder;
  if (std::error_code ec =
          llvm::sys::fs::createUniqueDirectory("octet-link", folder))
    return machineError(folder.str().str(), ec.message());
  llvm::scope_exit cleanup([&] { llvm::sys::fs::remove_directories(folder); });
  llvm::SmallString<128> input(folder), output(folder);
  llvm::sys::path::append(input, "program.o");
  llvm::sys::path::append(output, "program.so");
  OCTET_TRY(writeObject(input, object));

  // One page size for every kernel of the architecture would waste space in
  // small programs; x86-64 has 4 KiB pages.
  const char *arguments[] = {"ld.lld",
                             "-shared",
                             "--no-undefined",
                             "-z",
                             "relro",
                             "-z",
                             "now",
                             "-z",
                             "noexecstack",
                             "-z",
                             "max-page-size=4096",
                             "--build-id=none",
                             "--gc-sections",
                             "--hash-style=gnu",
                             "-soname",
                             "octet_program",
                             "--threads=1",
                             "-o",
                             output.c_str(),
                             input.c_str()};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const lld::DriverDef drivers[] = {{lld::Gnu, &lld::elf::link}};
  lld::Result linked = lld::lldMain(arguments, stream, stream, drivers);
  if (linked.retCode != 0) {
    // LLD says the same for a full disk and for a broken object.
    llvm::StringRef text = llvm::StringRef(messages).trim();
    if (text.contains("No space left") || text.contains("cannot open output"))
      return machineError(output.str().str(), text.str());
    return internalError("link", text.str());
  }
  auto buffer = llvm::MemoryBuffer::getFile(output, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return machineError(output.str().str(), buffer.getError().message());
  return std::vector<char>((*buffer)->getBufferStart(),
                           (*buffer)->getBufferEnd());
}
