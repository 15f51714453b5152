//===- Checked.h - Arithmetic on integers from a file -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_CHECKED_H
#define OCTET_SUPPORT_CHECKED_H

#include <cstdint>
#include <optional>
#include <span>

namespace octet {

/// a + b, or nothing if it does not fit.
inline std::optional<int64_t> checkedAdd(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r))
    return std::nullopt;
  return r;
}

/// a * b, or nothing if it does not fit.
inline std::optional<int64_t> checkedMul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r))
    return std::nullopt;
  return r;
}

/// The product of non-negative sides; nothing if a side is negative or the
/// product does not fit. The product of no sides is 1.
inline std::optional<int64_t> checkedProduct(std::span<const int64_t> sides) {
  int64_t r = 1;
  for (int64_t side : sides)
    if (side < 0 || __builtin_mul_overflow(r, side, &r))
      return std::nullopt;
  return r;
}

/// ceil(a / b) for a >= 0, b > 0; never overflows.
constexpr int64_t cdiv(int64_t a, int64_t b) { return a / b + (a % b != 0); }

/// `a` rounded up to a multiple of `b` (a >= 0, b > 0).
constexpr int64_t alignTo(int64_t a, int64_t b) { return cdiv(a, b) * b; }

} // namespace octet

#endif // OCTET_SUPPORT_CHECKED_H
