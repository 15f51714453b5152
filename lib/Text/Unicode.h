//===- Unicode.h - Questions about characters -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Private to lib/Text. All over utf8proc's tables; texts are UTF-8.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_TEXT_UNICODE_H
#define OCTET_LIB_TEXT_UNICODE_H

#include <cstdint>
#include <string>
#include <string_view>

namespace octet::text {

bool isWhiteSpace(uint32_t code);  ///< White_Space
bool isNumeric(uint32_t code);     ///< Nd, Nl, No
bool isPunctuation(uint32_t code); ///< P*, or punctuation of ASCII
bool isMark(uint32_t code);        ///< M*
/// What a word is of, for added tokens with `single_word`: L, M, N and Pc.
bool isWordChar(uint32_t code);
/// Younger than the tables that Hugging Face's normalizers have.
bool isLeftAlone(uint32_t code);

bool isAscii(std::string_view text);

enum class NormalForm { NFC, NFD, NFKC, NFKD };
/// \returns the text itself where memory ran out.
std::string normalize(std::string_view text, NormalForm form);

/// Each character's full lower case, without regard to its neighbours.
std::string toLower(std::string_view text);

} // namespace octet::text

#endif // OCTET_LIB_TEXT_UNICODE_H
