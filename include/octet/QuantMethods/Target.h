//===- Target.h - What a target can run -------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTMETHODS_TARGET_H
#define OCTET_QUANTMETHODS_TARGET_H

#include "octet/Support/Status.h"
#include <string>
#include <string_view>

namespace octet {

/// Methods are keyed by name and target family (C2).
enum class TargetFamily { Cpu, Cuda };

/// A target of `--target` or `--numerics`.
struct Target {
  TargetFamily family = TargetFamily::Cpu;
  /// Compute capability times ten: 90 for 9.0; 0 for the CPU.
  int capability = 0;
  /// The canonical name: `cpu`, `sm_89`, `sm_90a`, `sm_100f`.
  std::string name = "cpu";

  bool isCpu() const { return family == TargetFamily::Cpu; }
  /// 8.0 to 8.8: no FP8 tensor cores (B4).
  bool lacksFp8Products() const {
    return !isCpu() && capability >= 80 && capability <= 88;
  }
  /// "9.0".
  std::string capabilityText() const;
};

/// Parses `cpu` or any `sm_NN` with an optional suffix `a` or `f` (C9).
/// `sm_90` means `sm_90a`; `sm_100` and `sm_100a` mean `sm_100f`, the same for
/// 120. \param option  the flag, for the error: `--target`.
Result<Target> parseTarget(std::string_view text, std::string_view option);

/// Kernels are written for the target: 8.0 to 8.9 that exist, sm_90a, and the
/// families sm_100f and sm_120f, whose features the name has to say (C9).
Status checkKernelTarget(const Target &target);

/// The activation dtype runs on the target: `bf16` and `f16` everywhere, `f32`
/// on the CPU only (C9).
Status checkActivationDtype(const Target &target, std::string_view dtype);

} // namespace octet

#endif // OCTET_QUANTMETHODS_TARGET_H
