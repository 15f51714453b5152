//===- MappedFiles.h - What a bus error was about ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reading a mapped file beyond its end raises SIGBUS. Sizes are checked before
// a file is mapped, but somebody may cut it short afterwards; all that can be
// done then is to say which file it was.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_MAPPEDFILES_H
#define OCTET_SUPPORT_MAPPEDFILES_H

#include <cstddef>
#include <string>

namespace octet {

/// Remembers that `bytes` from `base` on are the file `path`.
void watchMapping(const void *base, size_t bytes, const std::string &path);
/// Forgets a mapping; to be called before it is unmapped.
void unwatchMapping(const void *base);

/// From now on a bus error within a watched mapping ends the process with exit
/// status 1 and `error: FILE: was truncated or changed while the program read
/// it`; any other ends it as it would have been.
void installBusErrorHandler();

} // namespace octet

#endif // OCTET_SUPPORT_MAPPEDFILES_H
