//===- CudaSamplerTest.cpp - The launch that draws tokens on CUDA ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/Nvrtc.h"
#include "octet/CudaSource/Sampler.h"
#include "gtest/gtest.h"

using namespace octet;
using namespace octet::cuda;

namespace {

TEST(CudaSampler, ARowIsACta) {
  Result<KernelLaunch> launch = makeSampler(151936);
  ASSERT_TRUE(bool(launch));
  ASSERT_EQ(launch->variants.size(), 1u);
  ASSERT_EQ(launch->variants[0].kernels.size(), 1u);
  const KernelInstance &kernel = launch->variants[0].kernels[0];
  EXPECT_EQ(kernel.grid[0].times, 1);
  EXPECT_EQ(kernel.grid[0].perRows, 1);
  EXPECT_EQ(kernel.params.size(), 4u);
}

TEST(CudaSampler, RefusesVocabulariesThatSumsCannotHold) {
  for (int64_t vocab : {int64_t(0), (int64_t(1) << 24) + 1})
    EXPECT_FALSE(bool(makeSampler(vocab))) << vocab;
}

/// The scratch that the text asserts is that of the template (STYLE section 9).
TEST(CudaSampler, CompilesForEveryTarget) {
  Result<Nvrtc> nvrtc = Nvrtc::open();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.status().info().format();
  struct {
    const char *target;
    int64_t vocab;
  } cases[] = {{"sm_80", 151936},  {"sm_86", 32003},   {"sm_89", 1},
               {"sm_90a", 128256}, {"sm_100f", 50257}, {"sm_120f", 262144}};
  for (const auto &[target, vocab] : cases) {
    Result<KernelLaunch> launch = makeSampler(vocab);
    ASSERT_TRUE(bool(launch)) << launch.status().info().format();
    const KernelInstance &kernel = launch->variants[0].kernels[0];
    Result<CompiledKernel> compiled =
        nvrtc->compile(kernel.entry, kernel.source, target);
    EXPECT_TRUE(bool(compiled)) << compiled.status().info().format();
  }
}

} // namespace
