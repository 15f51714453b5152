//===- Sanitizers.h - What this was built with ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_SANITIZERS_H
#define OCTET_SUPPORT_SANITIZERS_H

namespace octet {

// Clang answers __has_feature; GCC, which may not know it, defines the macro.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#elif defined(__has_feature)
inline constexpr bool kAddressSanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool kAddressSanitizer = false;
#endif

} // namespace octet

#endif // OCTET_SUPPORT_SANITIZERS_H
