//===- Fit.cpp - Targets and the devices that run them --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Fit.h"
#include <charconv>

using namespace octet::rt::cu;

/// 90 of "sm_90a", which leaves "a"; 0 of what is no CUDA target.
static int takeNumber(std::string_view &target) {
  if (!target.starts_with("sm_"))
    return 0;
  target.remove_prefix(3);
  int number = 0;
  const char *end = target.data() + target.size();
  auto [stop, error] = std::from_chars(target.data(), end, number);
  target = {stop, size_t(end - stop)};
  return error == std::errc() ? number : 0;
}

Fit octet::rt::cu::fitTarget(std::string_view target, int capability) {
  std::string_view suffix = target;
  const int number = takeNumber(suffix);
  if (number <= 0)
    return Fit::No;
  if (suffix == "a")
    return number == capability ? Fit::Machine : Fit::No;
  const bool sameMajor = number / 10 == capability / 10 && capability >= number;
  if (sameMajor)
    return Fit::Machine;
  return suffix.empty() && capability > number ? Fit::Ptx : Fit::No;
}

std::string_view octet::rt::cu::bestTarget(int capability) {
  // The closest first.
  for (std::string_view target :
       {"sm_120f", "sm_100f", "sm_90a", "sm_89", "sm_86", "sm_80"})
    if (fitTarget(target, capability) != Fit::No)
      return target;
  return "";
}

std::string octet::rt::cu::capabilityText(int capability) {
  return std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

std::string octet::rt::cu::relativeTarget(std::string_view target,
                                          int capability) {
  std::string_view suffix = target;
  const int number = takeNumber(suffix);
  if (number <= 0 || number / 10 != capability / 10 || capability < number)
    return "";
  // What can only be reached through PTX is of another family.
  const std::string_view best = bestTarget(capability);
  std::string_view rest = best;
  const int bestNumber = takeNumber(rest);
  if (bestNumber / 10 == capability / 10 && bestNumber >= number)
    return std::string(best);
  return "sm_" + std::to_string(capability) + std::string(suffix);
}
