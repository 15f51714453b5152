//===- Escape.h - Untrusted names in messages -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_ESCAPE_H
#define OCTET_SUPPORT_ESCAPE_H

#include <string>
#include <string_view>

namespace octet {

/// A name read from a file, fit for a terminal: control characters, quotes,
/// backslashes and invalid UTF-8 are escaped (`\x1b`), and what is left is cut
/// at 200 characters with "…". Not quoted.
std::string escapeName(std::string_view name);

/// `'` + escapeName(name) + `'`.
std::string quoteName(std::string_view name);

} // namespace octet

#endif // OCTET_SUPPORT_ESCAPE_H
