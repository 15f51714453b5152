//===- Target.cpp - What a target can run ---------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/QuantMethods/Target.h"
#include "octet/Support/Escape.h"
#include <charconv>

using namespace octet;

std::string Target::capabilityText() const {
  return std::to_string(capability / 10) + "." +
         std::to_string(capability % 10);
}

Result<Target> octet::parseTarget(std::string_view text,
                                  std::string_view option) {
  std::string subject = std::string(option) + " " + escapeName(text);
  if (text == "cpu")
    return Target();
  Target target;
  target.family = TargetFamily::Cuda;
  std::string_view rest = text;
  if (rest.starts_with("sm_")) {
    rest.remove_prefix(3);
    const char *end = rest.data() + rest.size();
    auto [stop, error] = std::from_chars(rest.data(), end, target.capability);
    std::string_view suffix(stop, size_t(end - stop));
    if (error == std::errc() && target.capability >= 10 &&
        target.capability <= 999 &&
        (suffix.empty() || suffix == "a" || suffix == "f")) {
      // sm_90 means sm_90a; the families from 100 on have `f`.
      if (target.capability == 90)
        suffix = "a";
      else if (target.capability == 100 || target.capability == 120)
        suffix = "f";
      target.name =
          "sm_" + std::to_string(target.capability) + std::string(suffix);
      return target;
    }
  }
  return inputError(subject,
                    "no target of that name; 'cpu' or 'sm_NN' with NN the "
                    "compute capability, such as 'sm_90a'",
                    "C9");
}

Status octet::checkKernelTarget(const Target &target) {
  static constexpr std::string_view kTargets[] = {"sm_80",   "sm_86",  "sm_87",
                                                  "sm_88",   "sm_89",  "sm_90a",
                                                  "sm_100f", "sm_120f"};
  for (std::string_view name : kTargets)
    if (target.name == name)
      return Status::success();
  return inputError("--target " + target.name,
                    "kernels are written for sm_80, sm_86, sm_89, sm_90a, "
                    "sm_100f and sm_120f; a device of 10.3 runs programs of "
                    "sm_100f, one of 12.1 those of sm_120f",
                    "C9");
}

Status octet::checkActivationDtype(const Target &target,
                                   std::string_view dtype) {
  if (dtype == "bf16" || dtype == "f16")
    return Status::success();
  if (dtype == "f32") {
    if (target.isCpu())
      return Status::success();
    return inputError("--dtype f32",
                      "f32 activations run on the CPU target only, the target "
                      "is " +
                          target.name + "; bf16 and f16 run there",
                      "C9");
  }
  return inputError("--dtype " + escapeName(dtype),
                    "no activation dtype of that name; bf16, f16, or f32 on "
                    "the CPU target",
                    "C9");
}
