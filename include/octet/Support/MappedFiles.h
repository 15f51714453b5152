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

#include "octet/Support/Status.h"
#include <cstddef>
#include <string>

namespace octet {

/// Remembers that `bytes` from `base` on are the file `path`.
void watchMapping(const void *base, size_t bytes, const std::string &path);
/// Forgets a mapping; to be called before it is unmapped.
void unwatchMapping(const void *base);

/// What a bus error within a watched mapping does.
enum class OnTruncation {
  /// Ends the process with exit status 1 and `error: FILE: was truncated or
  /// changed while the program read it`.
  Exit,
  /// All of the mapping reads as zeros from then on, and takeTruncation has
  /// that error: for who has something to clean up.
  Remember,
};
/// From now on; any other bus error ends the process as it would have been.
void installBusErrorHandler(OnTruncation action = OnTruncation::Exit);
/// The error that OnTruncation::Remember has kept, once.
Status takeTruncation();

} // namespace octet

#endif // OCTET_SUPPORT_MAPPEDFILES_H
