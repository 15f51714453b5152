//===- InputMaxima.cpp - The largest traced values ------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "InputMaxima.h"
#include "octet/Numerics/Numerics.h"
#include "passes/TraceInputs.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>

using namespace octet;

/// Without their signs, floats are in the order of their bits, and NaN comes
/// after infinity: one integer maximum finds both.
template <typename Bits>
static Bits findLargestBits(const void *data, int64_t count) {
  constexpr Bits kMagnitude = Bits(~Bits(0)) >> 1;
  const Bits *bits = static_cast<const Bits *>(data);
  Bits largest = 0;
  for (int64_t i = 0; i < count; ++i)
    largest = std::max<Bits>(largest, bits[i] & kMagnitude);
  return largest;
}

float octet::findLargest(const void *data, int32_t type, int64_t count) {
  if (type == OCTET_BF16)
    return decodeBF16(findLargestBits<uint16_t>(data, count));
  if (type == OCTET_F16)
    return decodeF16(findLargestBits<uint16_t>(data, count));
  return std::bit_cast<float>(findLargestBits<uint32_t>(data, count));
}

void InputMaximaSink::trace(const char *name, int64_t index, int32_t type,
                            int64_t rows, int64_t cols, const void *data) {
  std::string_view path = name;
  constexpr std::string_view kPrefix = kInputTrace, kLayer = "{l}";
  if (!path.starts_with(kPrefix))
    return; // hidden states
  std::string module(path.substr(kPrefix.size()));
  if (size_t at = module.find(kLayer); at != module.npos)
    module.replace(at, kLayer.size(), std::to_string(index));
  float &largest = maxima[module];
  float here = findLargest(data, type, rows * cols);
  // A NaN stays: no comparison with it is true.
  if (std::isnan(here) || here > largest)
    largest = here;
}
