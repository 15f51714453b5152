//===- Sampler.cpp - The launch that draws tokens -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/Sampler.h"
#include "runtime/abi.h"

using namespace octet;
using namespace octet::cuda;

Result<KernelLaunch> octet::cuda::makeSampler(int64_t vocab) {
  constexpr int64_t kMostTokens = int64_t(1) << 24; // as sampler.cuh asserts
  if (vocab < 1 || vocab > kMostTokens)
    return internalError("sample", "a vocabulary of " + std::to_string(vocab) +
                                       " tokens; 1 to " +
                                       std::to_string(kMostTokens) +
                                       " are possible");
  constexpr int32_t kThreads = 1024;
  const std::string tokens = std::to_string(vocab);
  const std::string threads = std::to_string(kThreads);
  KernelInstance kernel;
  kernel.label = "sample v" + tokens;
  kernel.entry = "octet_kernel_sample_v" + tokens;
  kernel.threads = kThreads;
  kernel.overlaps = true;
  kernel.grid[0] = {1, 0, /*perRows=*/1, 0};
  // Config::kPadded keys and as many probabilities.
  constexpr int64_t kPad = 4;
  const int64_t scratchBytes = 2 * ((vocab + kPad - 1) / kPad * kPad) * 4;
  Param scratch = Param::address(OCTET_SAMPLE_SCRATCH);
  scratch.pitchBytes = scratchBytes;
  kernel.params = {Param::address(OCTET_SAMPLE_LOGITS),
                   Param::address(OCTET_SAMPLE_OPTIONS),
                   Param::address(OCTET_SAMPLE_TOKENS), scratch};
  kernel.source =
      "// Tokens drawn from logits of " + tokens +
      " tokens: temperature, top-k, top-p, min-p (P17).\n"
      "#include \"sample/sampler.cuh\"\n\n"
      "using Config = octet::cuda::Sampler</*kVocab=*/" +
      tokens + ", /*kThreads=*/" + threads +
      ">;\nstatic_assert(2 * Config::kPadded * 4 == " +
      std::to_string(scratchBytes) +
      ",\n              \"the scratch that the launch has\");\n\n"
      "extern \"C\" __global__ void __launch_bounds__(" +
      threads + ")\n" + kernel.entry +
      "(const float *logits, const octet::cuda::SampleRow *options,\n"
      "    int *tokens, void *scratch) {\n"
      "  octet::cuda::sampleRows<Config>(logits, options, tokens, scratch);\n"
      "}\n";
  KernelLaunch launch;
  launch.module = "sample";
  launch.label = "cuda.sample";
  launch.rowBytes = vocab * int64_t(sizeof(float));
  launch.variants.resize(1);
  launch.variants[0].kernels.push_back(std::move(kernel));
  return launch;
}
