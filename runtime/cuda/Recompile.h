//===- Recompile.h - Kernels compiled where they run ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program holds the source of its kernels. On a close relative of its target,
// for which there is neither machine code nor PTX, NVRTC compiles it anew; the
// result is kept in the user's cache (octet/CudaSource/CubinCache.h). The
// library is opened only then.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_RECOMPILE_H
#define OCTET_RUNTIME_CUDA_RECOMPILE_H

#include "octet/CudaSource/KernelCompiler.h"
#include "runtime/abi.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Fit.h"

namespace octet::rt::cu {

/// Kernels of a program for the device that was found.
struct Recompiled {
  std::string target;
  cuda::CompiledKernels kernels;
  std::vector<octet_image> images; ///< point into `kernels`
};

/// Whether the program's images do not run on the device, but its sources may.
bool needsSources(std::span<const octet_image> images, std::string_view target,
                  int capability);

/// Compiles all sources, several at once, or takes them from the user's cache.
/// Only if needsSources().
/// \param held     the targets that the program holds, for errors.
/// \param subject  the program's file.
/// \param nvrtc    the library; empty: where it is found.
/// \returns a machine error: no NVRTC, with the places where it was looked for;
/// or that it does not compile a kernel for the device, with its log.
Result<Recompiled>
compileSources(std::span<const octet_image> images, std::string_view target,
               const std::string &held, const DeviceInfo &device,
               const std::string &subject, const std::string &nvrtc);

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_RECOMPILE_H
