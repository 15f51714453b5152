//===- Recompile.cpp - Kernels compiled where they run --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Recompile.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;
using namespace octet::rt::cu;

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
