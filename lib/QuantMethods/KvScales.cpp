//===- KvScales.cpp - The names of a cache's scales -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KvDeclaration.h"
#include <algorithm>
#include <array>

using namespace octet;

/// Of keys, of values, and of both (W2). A lone `kv_scale` is the keys'.
static constexpr std::array<std::string_view, 5> kKeyNames = {
    "k_scale", "k_proj.k_scale", "qkv_proj.k_scale", "k_proj.output_scale",
    "kv_scale"};
static constexpr std::array<std::string_view, 4> kValueNames = {
    "v_scale", "v_proj.v_scale", "qkv_proj.v_scale", "v_proj.output_scale"};

bool octet::isKvScaleName(std::string_view name) {
  return std::ranges::find(kKeyNames, name) != kKeyNames.end() ||
         std::ranges::find(kValueNames, name) != kValueNames.end();
}

CacheScaleNames
octet::findCacheScales(const std::function<bool(std::string_view)> &isStored) {
  CacheScaleNames names;
  auto refuse = [&](std::string_view first, std::string_view second) {
    if (names.problem.empty())
      names.problem = "has both '" + std::string(first) + "' and '" +
                      std::string(second) +
                      "' for its KV cache; one of the two spellings [W2]";
  };
  auto findOne = [&](auto spellings) {
    std::string_view found;
    for (std::string_view name : spellings) {
      if (!isStored(name))
        continue;
      if (found.empty())
        found = name;
      else
        refuse(found, name);
    }
    return found;
  };
  names.k = findOne(kKeyNames);
  names.v = findOne(kValueNames);
  // `kv_scale` speaks for the values too.
  if (names.k == kKeyNames.back() && !names.v.empty())
    refuse(names.k, names.v);
  return names;
}
