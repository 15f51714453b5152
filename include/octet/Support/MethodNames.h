//===- MethodNames.h - The names of quantisation methods --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one list of names (C2), for the registry and for `#q.method`.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_SUPPORT_METHODNAMES_H
#define OCTET_SUPPORT_METHODNAMES_H

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace octet {

/// Of a module that no method quantises; no config has this name (C11).
inline constexpr std::string_view kUnquantizedName = "unquantized";

/// What a config or a user may name, sorted (C2).
inline constexpr std::array<std::string_view, 16> kMethodNames = {
    "auto-round",  "awq",      "awq_marlin",   "compressed-tensors",
    "fbgemm_fp8",  "fp8",      "gguf",         "gptq",
    "gptq_marlin", "modelopt", "modelopt_fp4", "mxfp4",
    "mxfp8",       "quark",    "w8a8_fp8",     "w8a8_int8"};

constexpr bool isMethodName(std::string_view name) {
  return name == kUnquantizedName ||
         std::find(kMethodNames.begin(), kMethodNames.end(), name) !=
             kMethodNames.end();
}

/// "'a', 'b' and 'c'".
template <class Names>
std::string joinQuoted(const Names &names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i)
      text += i + 1 == names.size() ? " and " : ", ";
    text += "'" + std::string(names[i]) + "'";
  }
  return text;
}

} // namespace octet

#endif // OCTET_SUPPORT_METHODNAMES_H
