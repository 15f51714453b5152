//===- Recompile.cpp - Kernels compiled where they run --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Recompile.h"
#include "octet/Support/Escape.h"
#include "runtime/cuda/Images.h"
#include <algorithm>
#include <charconv>

using namespace octet;
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

bool octet::rt::cu::needsSources(std::span<const octet_image> images,
                                 std::string_view target, int capability) {
  const Fit fit = fitTarget(target, capability);
  auto runs = [&](const octet_image &image) {
    const bool hasPtx = image.ptx && image.ptx_bytes > 0;
    const bool hasCode = image.cubin && image.cubin_bytes > 0;
    return (fit == Fit::Machine && (hasCode || hasPtx)) ||
           (fit == Fit::Ptx && hasPtx);
  };
  auto hasSource = [](const octet_image &image) {
    return image.source && image.source_bytes > 0;
  };
  return !std::all_of(images.begin(), images.end(), runs) &&
         std::all_of(images.begin(), images.end(), hasSource) &&
         !relativeTarget(target, capability).empty();
}

Result<Recompiled> octet::rt::cu::compileSources(
    std::span<const octet_image> images, std::string_view target,
    const std::string &held, const DeviceInfo &device,
    const std::string &subject, const std::string &nvrtc) {
  Recompiled made;
  made.target = relativeTarget(target, device.capability);
  auto fail = [&](ErrorInfo why) {
    Status error = machineError(
        subject, "compiled for " + held + "; for the device, " +
                     quoteName(device.name) + " of compute capability " +
                     capabilityText(device.capability) +
                     ", its kernels are compiled here, but " + why.subject +
                     ": " + why.message);
    for (std::string &note : why.notes)
      error.note(std::move(note));
    return error;
  };
  // First: kernels of the cache are of its version too.
  Result<cuda::Nvrtc> library = cuda::Nvrtc::open(
      nvrtc, "an installed toolkit, or its folder in LD_LIBRARY_PATH, provides "
             "it, or compile with --target " +
                 made.target);
  if (!library)
    return fail(library.takeStatus().takeInfo());
  std::vector<cuda::KernelSource> sources;
  for (const octet_image &image : images)
    sources.push_back({image.name ? image.name : "kernel",
                       {image.source, size_t(image.source_bytes)}});
  cuda::CompilerOptions options;
  options.nvrtc = nvrtc;
  Result<cuda::CompiledKernels> kernels =
      cuda::compileKernels(sources, made.target, options);
  if (!kernels)
    return fail(kernels.takeStatus().takeInfo());
  made.kernels = kernels.take();
  made.images.assign(images.begin(), images.end());
  for (size_t i = 0; i < made.images.size(); ++i) {
    const cuda::CompiledKernel &kernel = made.kernels.kernels[i];
    made.images[i].cubin = kernel.cubin.data();
    made.images[i].cubin_bytes = int64_t(kernel.cubin.size());
    made.images[i].ptx = kernel.ptx.c_str();
    made.images[i].ptx_bytes = int64_t(kernel.ptx.size());
  }
  return made;
}
