//===- CudaAttentionTest.cpp - Launches of attention on CUDA --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Attention.h"
#include "lib/CudaSource/DeviceLimits.h"
#include "octet/CudaSource/Nvrtc.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <random>
#include <set>

using namespace octet;
using namespace octet::cuda;

namespace {

AttentionProblem makeProblem(int32_t type, int32_t kvType, int64_t qHeads,
                             int64_t kvHeads, int64_t headDim,
                             int64_t window = 0) {
  AttentionProblem p;
  p.kernel = "cuda.paged_attention";
  p.module = "model.layers.0.self_attn";
  p.type = type;
  p.kvType = kvType;
  p.qHeads = qHeads;
  p.kvHeads = kvHeads;
  p.headDim = headDim;
  p.window = window;
  p.scale = 0.125f;
  p.maxContext = 32768;
  p.maxSeqs = 64;
  p.maxStepTokens = 4096;
  return p;
}

Target targetOf(const char *name) { return *parseTarget(name, "--target"); }

KernelLaunch make(const AttentionProblem &p, const char *target) {
  AttentionFamily family = findAttentionFamily(p.kernel);
  EXPECT_NE(family, nullptr) << p.kernel;
  Result<KernelLaunch> launch = family(p, targetOf(target));
  EXPECT_TRUE(bool(launch)) << launch.status().info().format();
  return launch ? launch.take() : KernelLaunch();
}

std::string errorOf(const AttentionProblem &p) {
  Result<KernelLaunch> launch = makePagedAttention(p, targetOf("sm_90a"));
  return launch ? "" : launch.status().info().format();
}

/// octet_grid without kernels that stay on the device.
int64_t ctasOf(const KernelInstance &kernel, int64_t rows, int64_t sequences) {
  const Grid &grid = kernel.grid[0];
  int64_t count = grid.fixed + grid.perSequence * sequences;
  if (grid.perRows > 0)
    count += (rows + grid.perRows - 1) / grid.perRows;
  return grid.times * count;
}

constexpr int32_t kBf16 = OCTET_BF16, kF16 = OCTET_F16, kE4m3 = OCTET_E4M3;

AttentionProblem sm90(AttentionProblem p) {
  p.kernel = "sm90.paged_attention";
  return p;
}

TEST(CudaAttention, DecodingIsAVariantOfItsOwn) {
  KernelLaunch launch = make(makeProblem(kBf16, kBf16, 32, 8, 128), "sm_90a");
  EXPECT_TRUE(launch.byLongest);
  ASSERT_EQ(launch.variants.size(), 2u);
  EXPECT_EQ(launch.variants[0].maxRows, 1);
  EXPECT_EQ(launch.variants[1].maxRows, -1);
  // A step with longer sequences still decodes the others in the same way.
  ASSERT_EQ(launch.variants[0].kernels.size(), 2u);
  ASSERT_EQ(launch.variants[1].kernels.size(), 3u);
  for (size_t i : {0, 1})
    EXPECT_EQ(launch.variants[0].kernels[i].source,
              launch.variants[1].kernels[i].source);
}

TEST(CudaAttention, SplitsOccupyTheDeviceWhateverTheBatch) {
  AttentionProblem p = makeProblem(kBf16, kBf16, 32, 8, 128);
  const KernelInstance decode = make(p, "sm_90a").variants[0].kernels[0];
  EXPECT_EQ(decode.perSm, 2);
  const int64_t splits = 2 * 132 / 8;
  EXPECT_EQ(decode.grid[0].times, splits * 8);
  EXPECT_EQ(decode.grid[0].perSequence, 1);
  EXPECT_EQ(decode.workspaceBytes,
            (64 + 1) * splits * 32 * (128 + 2) * 4 + 8 * 4);

  // What a window shows needs no more splits than it has parts of four pages.
  p.window = 512;
  EXPECT_EQ(make(p, "sm_90a").variants[0].kernels[0].grid[0].times, 3 * 8);
  p.window = 64;
  EXPECT_EQ(make(p, "sm_90a").variants[0].kernels.size(), 1u) << "no joining";
}

TEST(CudaAttention, ASequenceThatIsAloneIsJoinedWhereItIsDecoded) {
  const KernelLaunch launch =
      make(makeProblem(kBf16, kBf16, 32, 8, 128), "sm_90a");
  const KernelInstance &join = launch.variants[0].kernels[1];
  EXPECT_EQ(ctasOf(join, 1, 1), 0) << "not launched";
  for (int64_t sequences : {2, 3, 64})
    EXPECT_GE(ctasOf(join, sequences, sequences), 32 * sequences);
}

TEST(CudaAttention, ManySequencesHaveFewerSplits) {
  AttentionProblem p = makeProblem(kBf16, kBf16, 64, 1, 128);
  p.maxSeqs = 2048;
  const KernelInstance decode = make(p, "sm_90a").variants[0].kernels[0];
  EXPECT_LE(decode.workspaceBytes, int64_t(256) << 20);
  EXPECT_GE(decode.grid[0].times, 4) << "four tiles of queries";
}

/// The queries of a tile, out of "paged_prefill d128_q128k64".
int64_t queriesOf(const KernelInstance &kernel) {
  return std::atoll(kernel.label.c_str() + kernel.label.find("_q") + 2);
}

/// A tile is found by its number among those of all sequences, as findTile of
/// attention/paged_prefill.cuh counts them: nobody would take one too many.
TEST(CudaAttention, TheGridHoldsEveryTileOfPrefill) {
  constexpr unsigned kSeed = 20261130;
  std::mt19937 random(kSeed);
  auto upTo = [&](int64_t most) { return int64_t(random() % (most + 1)); };
  for (int64_t group : {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 40, 200, 300})
    for (int64_t dim : {64, 96, 128, 256})
      for (const char *kernelName :
           {"cuda.paged_attention", "sm90.paged_attention"}) {
        AttentionProblem p = makeProblem(kBf16, kBf16, 2 * group, 2, dim);
        p.kernel = kernelName;
        const KernelInstance kernel =
            make(p, "sm_90a").variants[1].kernels.back();
        const int64_t queries = queriesOf(kernel);
        ASSERT_GT(queries, 0) << kernel.label;
        for (int trial = 0; trial < 200; ++trial) {
          const int64_t sequences = 1 + upTo(63), longest = 1 + upTo(300);
          int64_t rows = 0, tiles = 0;
          for (int64_t i = 0; i < sequences; ++i) {
            const int64_t own = upTo(longest); // 0: takes no part
            rows += own;
            if (own > 1)
              tiles += (own * group + queries - 1) / queries;
          }
          ASSERT_GE(ctasOf(kernel, rows, sequences), 2 * tiles)
              << "seed " << kSeed << ", group " << group << ", " << kernel.label
              << ", " << rows << " rows of " << sequences << " sequences";
        }
      }
}

TEST(CudaAttention, EveryTargetsSharedMemoryIsEnough) {
  for (const char *target :
       {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100f", "sm_120f"})
    for (int64_t dim : {8, 64, 72, 80, 96, 128, 192, 256})
      for (int32_t kv : {kBf16, kE4m3})
        for (int64_t group : {1, 8, 16}) {
          AttentionProblem p = makeProblem(kBf16, kv, 4 * group, 4, dim);
          if (group == 8)
            p = sm90(p);
          KernelLaunch launch = make(p, target);
          for (const KernelVariant &variant : launch.variants)
            for (const KernelInstance &kernel : variant.kernels)
              EXPECT_LE(kernel.sharedBytes,
                        limitsOf(targetOf(target)).sharedPerCta)
                  << target << " " << kernel.entry;
        }
}

TEST(CudaAttention, NamesTellInstancesApart) {
  std::set<std::string> entries;
  size_t count = 0;
  auto add = [&](const AttentionProblem &p) {
    KernelLaunch launch = make(p, "sm_90a");
    for (const KernelInstance &kernel : launch.variants[1].kernels) {
      EXPECT_NE(kernel.source.find("\n" + kernel.entry + "("),
                std::string::npos);
      entries.insert(kernel.entry);
      ++count;
    }
  };
  add(makeProblem(kBf16, kBf16, 32, 8, 128));
  add(makeProblem(kF16, kF16, 32, 8, 128));
  add(makeProblem(kBf16, kE4m3, 32, 8, 128));
  add(makeProblem(kBf16, kBf16, 32, 4, 128));
  add(makeProblem(kBf16, kBf16, 32, 8, 64));
  add(makeProblem(kBf16, kBf16, 32, 8, 128, 4096));
  AttentionProblem p = makeProblem(kBf16, kBf16, 32, 8, 128);
  p.scale = 0.0625f;
  add(p);
  EXPECT_EQ(entries.size(), count);
}

TEST(CudaAttention, ScalesAreArgumentsOfAnFp8Cache) {
  auto uses = [](const AttentionProblem &p, int arg) {
    int count = 0;
    const KernelLaunch launch = make(p, "sm_90a");
    for (const KernelInstance &kernel : launch.variants[1].kernels)
      for (const Param &param : kernel.params)
        count += param.kind == OCTET_PARAM_ADDRESS && param.arg == arg;
    return count;
  };
  const AttentionProblem plain = makeProblem(kBf16, kBf16, 32, 8, 128);
  const AttentionProblem scaled = makeProblem(kBf16, kE4m3, 32, 8, 128);
  EXPECT_EQ(uses(plain, AttentionProblem::KScale), 0);
  EXPECT_EQ(uses(plain, AttentionProblem::VScale), 0);
  EXPECT_EQ(uses(scaled, AttentionProblem::KScale), 2);
  EXPECT_EQ(uses(scaled, AttentionProblem::VScale), 3);
}

TEST(CudaAttention, WarpGroupsReadTheCacheByTensorMaps) {
  const AttentionProblem plain = sm90(makeProblem(kBf16, kBf16, 32, 8, 128));
  const KernelInstance kernel =
      make(plain, "sm_90a").variants[1].kernels.back();
  EXPECT_EQ(kernel.threads, 384);
  for (size_t i : {1, 2}) {
    const Param &map = kernel.params[i];
    EXPECT_EQ(map.kind, OCTET_PARAM_TENSOR_MAP);
    EXPECT_EQ(map.arg, i == 1 ? AttentionProblem::K : AttentionProblem::V);
    EXPECT_EQ(map.cols, 8 * 128);
    EXPECT_EQ(map.boxRows, OCTET_PAGE);
    EXPECT_EQ(map.boxCols * 2, map.swizzle);
  }
  // Codes come as they lie, a head at a time.
  const AttentionProblem scaled = sm90(makeProblem(kBf16, kE4m3, 32, 8, 128));
  const Param codes =
      make(scaled, "sm_90a").variants[1].kernels.back().params[1];
  EXPECT_EQ(codes.kind, OCTET_PARAM_TENSOR_MAP);
  EXPECT_EQ(codes.swizzle, 0);
  EXPECT_EQ(codes.boxCols, 128);
  // Other heads are not cut into parts of 64.
  const AttentionProblem odd = sm90(makeProblem(kBf16, kBf16, 32, 8, 96));
  EXPECT_EQ(make(odd, "sm_90a").variants[1].kernels.back().threads, 128);
}

TEST(CudaAttention, RefusesWhatTheTemplatesDoNotHave) {
  EXPECT_NE(errorOf(makeProblem(OCTET_F32, OCTET_F32, 8, 8, 64))
                .find("q is f32, not bf16 or f16"),
            std::string::npos);
  EXPECT_NE(errorOf(makeProblem(kBf16, kF16, 8, 8, 64))
                .find("the cache is f16, not bf16 or e4m3"),
            std::string::npos);
  EXPECT_NE(errorOf(makeProblem(kBf16, kBf16, 8, 3, 64))
                .find("8 query heads over 3 KV heads"),
            std::string::npos);
  for (int64_t dim : {12, 264})
    EXPECT_NE(errorOf(makeProblem(kBf16, kBf16, 8, 8, dim))
                  .find("heads of " + std::to_string(dim) +
                        ", not a multiple of 8 up to 256"),
              std::string::npos);
}

/// The sizes that the text asserts are those of the template (STYLE section 9).
TEST(CudaAttention, CompilesForEveryTarget) {
  Result<Nvrtc> nvrtc = Nvrtc::open();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.status().info().format();
  struct {
    const char *target;
    AttentionProblem problem;
  } cases[] = {
      {"sm_80", makeProblem(kBf16, kE4m3, 8, 2, 64)},
      {"sm_86", makeProblem(kF16, kF16, 14, 2, 72, 300)},
      {"sm_89", makeProblem(kF16, kE4m3, 4, 4, 40)},
      {"sm_90a", makeProblem(kBf16, kE4m3, 32, 8, 128)},
      {"sm_90a", sm90(makeProblem(kBf16, kBf16, 32, 8, 128))},
      {"sm_90a", sm90(makeProblem(kF16, kE4m3, 8, 4, 256, 512))},
      {"sm_100f", makeProblem(kBf16, kBf16, 40, 2, 96, 1024)},
      {"sm_120f", makeProblem(kBf16, kBf16, 4, 4, 256)},
  };
  for (const auto &[target, problem] : cases) {
    const KernelLaunch launch = make(problem, target);
    for (const KernelInstance &kernel : launch.variants[1].kernels) {
      Result<CompiledKernel> compiled =
          nvrtc->compile(kernel.entry, kernel.source, target);
      EXPECT_TRUE(bool(compiled)) << compiled.status().info().format();
    }
  }
}

} // namespace
