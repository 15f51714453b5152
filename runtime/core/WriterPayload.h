//===- WriterPayload.h - Makes an executable --------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The compiler's side of Payload.h.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_WRITERPAYLOAD_H
#define OCTET_RUNTIME_CORE_WRITERPAYLOAD_H

#include "octet/Support/Status.h"
#include <cstddef>
#include <span>
#include <string>

namespace octet::rt {

struct SectionToWrite {
  std::string name; ///< 1 to 15 printable characters; `program` must be there
  std::span<const std::byte> data;
};

/// Writes `runner` and the sections after it to `path`: an executable, or a
/// program file if `runner` is empty. The bytes go to a temporary beside
/// `path` that is renamed when complete.
///
/// \param path      the output; replaced if it exists. Mode 755, less umask.
/// \param runner    bytes of an octet-run without payload, or nothing.
/// \param sections  in file order.
/// \returns a machine error naming `path` and the system's reason (disk full,
/// cannot be written), and then nothing is left behind.
Status writePayload(const std::string &path, std::span<const std::byte> runner,
                    std::span<const SectionToWrite> sections);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_WRITERPAYLOAD_H
