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
/// at 200 characters with "…". Not quoted. Characters that reorder or break a
/// line (bidirectional marks, U+2028, U+2029) count as control characters.
std::string escapeName(std::string_view name);

/// `'` + escapeName(name) + `'`.
std::string quoteName(std::string_view name);

/// A path for the subject of a message: control characters and invalid UTF-8
/// are escaped as in escapeName, quotes and backslashes stay, nothing is cut.
std::string escapePath(std::string_view path);

/// Length in bytes of the UTF-8 character at the start of `text`; 0 if there is
/// none: overlong forms, surrogates and values over U+10FFFF are not UTF-8.
int utf8Length(std::string_view text);

/// All of `text` is UTF-8.
bool isUtf8(std::string_view text);

} // namespace octet

#endif // OCTET_SUPPORT_ESCAPE_H
