//===- Sha256.h - SHA-256 ---------------------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_SHA256_H
#define OCTET_SUPPORT_SHA256_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace octet {

/// FIPS 180-4. For keys of caches and checksums of files.
class Sha256 {
public:
  void update(std::string_view bytes);
  /// Adds the length before the text, so that "ab", "c" is not "a", "bc".
  void updateField(std::string_view bytes);
  /// The digest; nothing may be added after it.
  std::array<uint8_t, 32> finish();
  /// The same in 64 lower-case hexadecimal digits.
  std::string finishHex();

private:
  void compress(const uint8_t *block);

  std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372,
                                   0xa54ff53a, 0x510e527f, 0x9b05688c,
                                   0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> buffer = {};
  size_t buffered = 0;
  uint64_t total = 0; ///< bytes
};

} // namespace octet

#endif // OCTET_SUPPORT_SHA256_H
