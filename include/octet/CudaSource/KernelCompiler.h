//===- KernelCompiler.h - Many kernels at once ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_KERNELCOMPILER_H
#define OCTET_CUDASOURCE_KERNELCOMPILER_H

#include "octet/CudaSource/CubinCache.h"
#include <functional>

namespace octet::cuda {

/// One source; the views are of the caller.
struct KernelSource {
  std::string_view entry;
  std::string_view source;
};

struct CompilerOptions {
  std::string nvrtc;  ///< the library; empty: where it is found
  unsigned jobs = 0;  ///< threads; 0: one a processor
  bool cached = true; ///< read and write the cache
  std::string cache;  ///< its folder; empty: the user's
  std::string dumped; ///< a folder that has ENTRY.cu of each source, or empty
  /// Called once, before the first kernel is compiled, with how many are.
  std::function<void(size_t)> onCompile;
};

/// What was made, in the order of the sources.
struct CompiledKernels {
  std::vector<CompiledKernel> kernels;
  std::string version;    ///< of NVRTC: "13.0"
  size_t numCompiled = 0; ///< the others came from the cache
  Status cacheProblem;    ///< an error of writing the cache, if there was one
};

/// All of them as one version of NVRTC made them, the newest that made all;
/// nothing if there is none.
std::optional<CompiledKernels>
findKernels(std::span<const KernelSource> sources, std::string_view target,
            const CubinCache &cache);

/// Compiles for one target. Where NVRTC is not there, what findKernels() finds
/// will do: the cache of another machine. \returns the error of the first
/// source that does not compile, in their order, or that NVRTC is not there.
Result<CompiledKernels> compileKernels(std::span<const KernelSource> sources,
                                       std::string_view target,
                                       const CompilerOptions &options);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_KERNELCOMPILER_H
