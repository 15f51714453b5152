//===- Targets.cpp - Which of several programs a device runs --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Targets.h"
#include "octet/Support/Escape.h"
#include "runtime/cuda/Fit.h"
#include <charconv>
#include <dlfcn.h>
#include <tuple>

using namespace octet;
using namespace octet::rt::cu;

std::optional<ProbedDevice>
octet::rt::cu::probeDevice(const std::string &library) {
  // Stays open: the driver keeps threads and memory of its own.
  void *handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    return std::nullopt;
  auto find = [&]<typename Function>(const char *name, Function *&function) {
    function = reinterpret_cast<Function *>(::dlsym(handle, name));
    return function != nullptr;
  };
  CUresult (*init)(unsigned);
  CUresult (*getDevice)(CUdevice *, int);
  CUresult (*getName)(char *, int, CUdevice);
  CUresult (*getAttribute)(int *, int, CUdevice);
  if (!find("cuInit", init) || !find("cuDeviceGet", getDevice) ||
      !find("cuDeviceGetName", getName) ||
      !find("cuDeviceGetAttribute", getAttribute))
    return std::nullopt;
  CUdevice device{};
  int major = 0, minor = 0;
  if (init(0) != kSuccess || getDevice(&device, 0) != kSuccess ||
      getAttribute(&major, kCapabilityMajor, device) != kSuccess ||
      getAttribute(&minor, kCapabilityMinor, device) != kSuccess)
    return std::nullopt;
  char name[256] = "";
  if (getName(name, int(sizeof(name) - 1), device) != kSuccess)
    return std::nullopt;
  return ProbedDevice{10 * major + minor, name};
}

std::optional<int> octet::rt::cu::probeCapability(const std::string &library) {
  const std::optional<ProbedDevice> device = probeDevice(library);
  return device ? std::optional(device->capability) : std::nullopt;
}

NativeTarget
octet::rt::cu::nativeTarget(const std::optional<ProbedDevice> &device) {
  if (!device)
    return {"cpu", "there is no NVIDIA GPU"};
  const std::string name = escapeName(device->name);
  const std::string_view best = bestTarget(device->capability);
  if (fitTarget(best, device->capability) == Fit::Machine)
    return {std::string(best), name};
  return {"cpu", "no kernels are written for " + name +
                     " of compute capability " +
                     capabilityText(device->capability)};
}

/// How good a target is: machine code before PTX before sources before the CPU,
/// then the closest, which is the highest.
static std::tuple<int, int> rate(const std::string &target,
                                 std::optional<int> capability) {
  if (target == "cpu")
    return {1, 0};
  const Fit fit = capability ? fitTarget(target, *capability) : Fit::No;
  const bool isRelative = fit == Fit::No && capability &&
                          !relativeTarget(target, *capability).empty();
  if (fit == Fit::No && !isRelative)
    return {0, 0};
  int number = 0;
  std::from_chars(target.data() + 3, target.data() + target.size(), number);
  return {fit == Fit::Machine ? 4 : fit == Fit::Ptx ? 3 : 2, number};
}

size_t octet::rt::cu::chooseTarget(std::span<const std::string> targets,
                                   std::optional<int> capability) {
  size_t best = 0;
  for (size_t i = 1; i < targets.size(); ++i)
    if (rate(targets[i], capability) > rate(targets[best], capability))
      best = i;
  return best;
}
