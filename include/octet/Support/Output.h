//===- Output.h - What every writer has in common ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_OUTPUT_H
#define OCTET_SUPPORT_OUTPUT_H

#include "octet/Support/Status.h"
#include <span>
#include <string>
#include <string_view>

namespace octet {

/// Output that a system call refused: `SUBJECT: cannot be written: the
/// system's text`, a machine error.
/// \param error  of errno.
Status cannotWrite(const std::string &path, int error);

/// Writes to stdout, at once. A full disk or closed pipe is a machine error.
Status print(std::string_view text);

/// Whether writing `output` would replace something that is read: one of
/// `inputs` under this or another name (device and inode are compared), or,
/// where an input is a folder, a file of a checkpoint in it. A program that
/// was written into that folder may be written again.
/// \param option  that `output` was given by.
/// \param inputs  files and folders; empty ones and ones that are not there
///                are nobody's.
/// \returns a usage error that names the input.
Status checkNotInput(const std::string &option, const std::string &output,
                     std::span<const std::string> inputs);

/// A file over the limit of its size (ulimit -f) is an error of the call that
/// writes it, not the end of the process by SIGXFSZ.
void ignoreFileSizeSignal();

} // namespace octet

#endif // OCTET_SUPPORT_OUTPUT_H
