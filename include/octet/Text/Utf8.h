//===- Utf8.h - UTF-8 that may be broken ------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is not UTF-8 becomes U+FFFD, one for each maximal part that could have
// begun a character, as Unicode recommends and as Python's errors="replace" and
// Rust's from_utf8_lossy do it.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEXT_UTF8_H
#define OCTET_TEXT_UTF8_H

#include <cstdint>
#include <string>
#include <string_view>

namespace octet {

/// What stands at the start of some bytes.
struct Utf8Step {
  int bytes;       ///< length of the character or of the part to replace
  bool valid;      ///< it is a character
  bool incomplete; ///< the bytes end where a character may still be completed
};
/// Looks at the start of `text`, which is not empty.
Utf8Step utf8Step(std::string_view text);

/// Appends the character `code` (a scalar value) to `out`.
void appendUtf8(std::string &out, uint32_t code);

/// The first character of valid, non-empty UTF-8, which is removed from `text`.
uint32_t takeChar(std::string_view &text);

/// `text` with U+FFFD for what is not UTF-8.
std::string toUtf8(std::string_view text);

/// The same over bytes that arrive in pieces: gives out only whole characters.
class Utf8Stream {
public:
  /// Appends to `out` what `bytes` complete.
  void push(std::string_view bytes, std::string &out);
  /// Appends U+FFFD if the bytes ended inside a character.
  void finish(std::string &out);

private:
  std::string pending;
};

} // namespace octet

#endif // OCTET_TEXT_UTF8_H
