//===- Targets.h - Which of several programs a device runs ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_TARGETS_H
#define OCTET_RUNTIME_CUDA_TARGETS_H

#include "runtime/cuda/Driver.h"
#include <optional>
#include <span>

namespace octet::rt::cu {

struct ProbedDevice {
  int capability = 0; ///< times ten
  std::string name;
};
/// The first device; nothing where there is no driver or no device. No context
/// is made.
std::optional<ProbedDevice>
probeDevice(const std::string &library = kDriverLibrary);
/// Its compute capability, times ten.
std::optional<int> probeCapability(const std::string &library = kDriverLibrary);

/// What `--target native` is.
struct NativeTarget {
  std::string target; ///< "sm_90a", "cpu"
  std::string why;    ///< "NVIDIA H200"
};
/// The target whose machine code the device takes; `cpu` without a device, or
/// with one that no kernel is written for.
NativeTarget nativeTarget(const std::optional<ProbedDevice> &device);

/// The row of `targets` whose program is run: the closest one whose machine
/// code the device takes, else the closest one whose PTX its driver compiles,
/// else the closest relative, whose sources are compiled (relativeTarget()),
/// else `cpu`. Where none of them will do it is the first, whose error says
/// why.
size_t chooseTarget(std::span<const std::string> targets,
                    std::optional<int> capability);

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_TARGETS_H
