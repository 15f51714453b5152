//===- Level.h - The SIMD level of this machine -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Which of the copies of each kernel may run here. The copies differ in speed
// only, except that AVX512-BF16 and AMX have their own orders of additions.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CPU_LEVEL_H
#define OCTET_RUNTIME_CPU_LEVEL_H

#include "runtime/abi.h"

#include <optional>
#include <string_view>

namespace octet::rt {

/// The highest octet_level that processor and operating system run, or -1 if
/// not even x86-64-v3. BF16 asks for AVX512-VBMI besides AVX512-BF16: E4M3 is
/// widened by its byte look-ups. (Cooper Lake, without it, gets AVX512.) AMX
/// asks Linux for the tile registers, which a process must do once.
int detectLevel();

/// `v3`, `avx512`, `bf16` or `amx`, as `--simd` takes them; "none" for others.
std::string_view levelName(int level);

/// The level of a name of `--simd`; nothing if there is none of that name.
std::optional<int> parseLevel(std::string_view name);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CPU_LEVEL_H
