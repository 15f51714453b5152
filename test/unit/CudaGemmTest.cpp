//===- CudaGemmTest.cpp - Launches of products by mma.sync and tcgen05 ----===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Mma.h"
#include "octet/CudaSource/Nvrtc.h"
#include "gtest/gtest.h"
#include <numeric>
#include <set>

using namespace octet;
using namespace octet::cuda;

namespace {

GemmProblem makeProblem(const char *kernel, int32_t x, int32_t w, int32_t y,
                        std::vector<int64_t> shards, int64_t k) {
  GemmProblem p;
  p.kernel = kernel;
  p.module = "model.layers.0.proj";
  p.shards = std::move(shards);
  p.n = std::accumulate(p.shards.begin(), p.shards.end(), int64_t(0));
  p.k = k;
  p.xType = x;
  p.wType = w;
  p.yType = y;
  return p;
}

GemmProblem withScales(GemmProblem p, int32_t x, int32_t w, int64_t bn = 0,
                       int64_t bk = 0, int32_t type = OCTET_F32) {
  p.xScaleMode = x;
  p.wScaleMode = w;
  p.blockN = bn;
  p.blockK = bk;
  p.wScaleType = type;
  return p;
}

GemmProblem withBias(GemmProblem p, int32_t type) {
  p.biasType = type;
  return p;
}

KernelLaunch make(const GemmProblem &p, const char *target) {
  Result<Target> parsed = parseTarget(target, "--target");
  EXPECT_TRUE(bool(parsed));
  GemmFamily family = findGemmFamily(p.kernel);
  EXPECT_NE(family, nullptr) << p.kernel;
  Result<KernelLaunch> launch = family(p, *parsed);
  EXPECT_TRUE(bool(launch)) << launch.status().info().format();
  return launch ? launch.take() : KernelLaunch();
}

std::string errorOf(const GemmProblem &p, const char *target) {
  Result<KernelLaunch> launch =
      findGemmFamily(p.kernel)(p, *parseTarget(target, "--target"));
  return launch ? "" : launch.status().info().format();
}

constexpr int32_t kBf16 = OCTET_BF16, kF16 = OCTET_F16, kE4m3 = OCTET_E4M3,
                  kF32 = OCTET_F32;
constexpr int32_t kNone = OCTET_SCALE_NONE, kTensor = OCTET_SCALE_TENSOR,
                  kChannel = OCTET_SCALE_CHANNEL, kBlock = OCTET_SCALE_BLOCK;

GemmProblem blockProblem() {
  return withScales(
      makeProblem("mma.fp8_block_gemm", kE4m3, kE4m3, kBf16, {2048, 576}, 7168),
      kBlock, kBlock, 128, 128);
}

TEST(CudaGemm, VariantsCoverAllRowsInOrder) {
  for (const char *target : {"sm_89", "sm_120f"}) {
    KernelLaunch launch = make(blockProblem(), target);
    ASSERT_FALSE(launch.variants.empty());
    int64_t last = 0;
    std::set<std::string> entries;
    for (const KernelVariant &variant : launch.variants) {
      bool isLast = &variant == &launch.variants.back();
      EXPECT_EQ(variant.maxRows < 0, isLast);
      if (!isLast)
        EXPECT_GT(variant.maxRows, last);
      last = variant.maxRows;
      ASSERT_EQ(variant.kernels.size(), 1u);
      const KernelInstance &kernel = variant.kernels[0];
      EXPECT_TRUE(entries.insert(kernel.entry).second) << kernel.entry;
      EXPECT_NE(kernel.source.find(kernel.entry + "("), std::string::npos);
      // x, its scales, w, its scales, y, m.
      EXPECT_EQ(kernel.params.size(), 6u);
      EXPECT_LE(kernel.sharedBytes, 99 * 1024);
      // Kernels wait for the one before only from sm_90 on.
      EXPECT_EQ(kernel.overlaps, target == std::string("sm_120f"));
      EXPECT_GT(kernel.grid[0].times, 0);
      EXPECT_GT(kernel.grid[0].perRows, 0);
    }
    // Few rows: small tiles.
    EXPECT_EQ(launch.variants[0].kernels[0].grid[0].perRows, 16);
  }
}

TEST(CudaGemm, CountsBytesAndArithmetic) {
  KernelLaunch launch = make(blockProblem(), "sm_89");
  // 16 + 5 scale rows of 56 blocks (W5b).
  EXPECT_EQ(launch.bytes, 2624 * 7168 + (16 + 5) * 56 * 4);
  EXPECT_EQ(launch.rowBytes, 7168 + 56 * 4 + 2624 * 2);
  EXPECT_EQ(launch.rowFlops, 2 * 2624 * 7168);
}

TEST(CudaGemm, SmallNIsCutIntoMoreTiles) {
  GemmProblem p = blockProblem();
  MmaTiles few = chooseMmaTiles(p, 16);
  p.shards = {24576};
  p.n = 24576;
  MmaTiles many = chooseMmaTiles(p, 16);
  EXPECT_LT(few.n, many.n);
}

TEST(CudaGemm, RefusesWhatTheTemplateDoesNotMake) {
  EXPECT_NE(errorOf(blockProblem(), "sm_86").find("sm_86 has no FP8 products"),
            std::string::npos);
  GemmProblem p = blockProblem();
  p.shards = {2048, 512};
  EXPECT_NE(errorOf(p, "sm_89").find("shards"), std::string::npos);
  p = blockProblem();
  p.blockK = 0;
  EXPECT_NE(errorOf(p, "sm_89").find("128x0"), std::string::npos);
  p = makeProblem("mma.dense_gemm", OCTET_I8, OCTET_I8, kBf16, {64}, 64);
  EXPECT_NE(errorOf(p, "sm_80").find("not i8 and i8"), std::string::npos);
  p = makeProblem("sm100.dense_gemm", kBf16, kBf16, kBf16, {64}, 100);
  EXPECT_NE(errorOf(p, "sm_100f").find("K=100"), std::string::npos);
  p = withScales(
      makeProblem("sm100.fp8_block_gemm", kE4m3, kE4m3, kBf16, {64}, 128),
      kBlock, kBlock, 128, 128, kF32);
  EXPECT_NE(errorOf(p, "sm_100f").find("powers of two"), std::string::npos);
}

/// Every template, each way through it, for every target that has it: the text
/// asserts that the launch has the shared memory of the template.
TEST(CudaGemm, InstancesCompile) {
  Result<Nvrtc> nvrtc = Nvrtc::open();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.status().info().format();
  struct Case {
    const char *target;
    GemmProblem problem;
  };
  GemmProblem dense =
      makeProblem("mma.dense_gemm", kBf16, kBf16, kBf16, {512}, 512);
  GemmProblem odd =
      withBias(makeProblem("mma.dense_gemm", kF16, kF16, kF32, {77}, 51), kF16);
  auto weightOnly = [](int32_t x, int32_t mode, int64_t bn, int64_t bk,
                       int32_t type, int64_t k) {
    return withScales(
        makeProblem("cuda.fp8_weight_only_gemm", x, kE4m3, x, {256, 72}, k),
        kNone, mode, bn, bk, type);
  };
  auto fp8 = [](const char *kernel, int32_t x, int32_t w, int64_t bn,
                int64_t bk, int32_t type, int64_t k) {
    return withScales(makeProblem(kernel, kE4m3, kE4m3, kBf16, {256, 72}, k), x,
                      w, bn, bk, type);
  };
  const Case cases[] = {
      {"sm_80", dense},
      {"sm_86", odd},
      {"sm_80", weightOnly(kBf16, kBlock, 128, 128, kF32, 512)},
      {"sm_80", weightOnly(kF16, kBlock, 1, 32, OCTET_E8M0, 300)},
      {"sm_86", weightOnly(kBf16, kChannel, 0, 0, kF32, 205)},
      {"sm_80", weightOnly(kBf16, kTensor, 0, 0, kF32, 512)},
      {"sm_89", fp8("mma.fp8_block_gemm", kBlock, kBlock, 128, 128, kF32, 512)},
      {"sm_120f",
       fp8("mma.fp8_block_gemm", kBlock, kBlock, 128, 128, kF32, 512)},
      {"sm_89",
       fp8("cuda.fp8_generic_gemm", kBlock, kBlock, 20, 48, OCTET_E8M0, 300)},
      {"sm_90a",
       fp8("cuda.fp8_generic_gemm", kBlock, kBlock, 64, 64, kF32, 512)},
      {"sm_89", withBias(fp8("mma.fp8_channel_gemm", kChannel, kChannel, 0, 0,
                             kF32, 512),
                         kF32)},
      {"sm_120f",
       fp8("mma.fp8_tensor_gemm", kTensor, kTensor, 0, 0, kF32, 512)},
      {"sm_100f",
       makeProblem("sm100.dense_gemm", kBf16, kBf16, kF32, {333}, 72)},
      {"sm_100f",
       fp8("sm100.fp8_block_gemm", kBlock, kBlock, 128, 128, OCTET_E8M0, 528)},
      {"sm_100f", withBias(fp8("sm100.fp8_block_gemm", kBlock, kBlock, 32, 32,
                               OCTET_E8M0, 528),
                           kBf16)},
      {"sm_100f",
       fp8("sm100.fp8_channel_gemm", kChannel, kChannel, 0, 0, kF32, 528)},
      {"sm_100f",
       fp8("sm100.fp8_tensor_gemm", kTensor, kTensor, 0, 0, kF32, 528)},
  };
  for (const Case &each : cases) {
    KernelLaunch launch = make(each.problem, each.target);
    ASSERT_FALSE(launch.variants.empty());
    // The smallest and the largest tile.
    std::set<const KernelVariant *> some = {&launch.variants.front(),
                                            &launch.variants.back()};
    for (const KernelVariant *variant : some) {
      const KernelInstance &kernel = variant->kernels[0];
      Result<CompiledKernel> made =
          nvrtc->compile(kernel.entry, kernel.source, each.target);
      EXPECT_TRUE(bool(made)) << made.status().info().format();
    }
  }
}

} // namespace
