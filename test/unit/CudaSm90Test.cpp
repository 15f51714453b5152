//===- CudaSm90Test.cpp - Launches of products by wgmma -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Sm90.h"
#include "octet/CudaSource/Nvrtc.h"
#include "gtest/gtest.h"
#include <numeric>
#include <set>

using namespace octet;
using namespace octet::cuda;

namespace {

GemmProblem makeProblem(const char *kernel, int32_t x, int32_t y,
                        std::vector<int64_t> shards, int64_t k) {
  GemmProblem p;
  p.kernel = kernel;
  p.module = "model.layers.0.proj";
  p.shards = std::move(shards);
  p.n = std::accumulate(p.shards.begin(), p.shards.end(), int64_t(0));
  p.k = k;
  p.xType = p.wType = x;
  p.yType = y;
  return p;
}

GemmProblem blockProblem(std::vector<int64_t> shards = {2048, 576},
                         int64_t k = 7168) {
  GemmProblem p = makeProblem("sm90.fp8_block_gemm", OCTET_E4M3, OCTET_BF16,
                              std::move(shards), k);
  p.xScaleMode = p.wScaleMode = OCTET_SCALE_BLOCK;
  p.blockN = p.blockK = 128;
  p.columnMajorScales = true;
  return p;
}

GemmProblem scaledProblem(int32_t x, int32_t w) {
  GemmProblem p = makeProblem("sm90.fp8_channel_gemm", OCTET_E4M3, OCTET_F16,
                              {256, 72}, 528);
  p.xScaleMode = x;
  p.wScaleMode = w;
  return p;
}

Target sm90() { return *parseTarget("sm_90a", "--target"); }

KernelLaunch make(const GemmProblem &p) {
  Result<KernelLaunch> launch = findGemmFamily(p.kernel)(p, sm90());
  EXPECT_TRUE(bool(launch)) << launch.status().info().format();
  return launch ? launch.take() : KernelLaunch();
}

std::string errorOf(const GemmProblem &p) {
  Result<KernelLaunch> launch = findGemmFamily(p.kernel)(p, sm90());
  return launch ? "" : launch.status().info().format();
}

TEST(CudaSm90, NamesSayTheTiles) {
  Sm90Tiles few;
  few.isSwapped = true;
  few.m = 16;
  few.n = 64;
  few.stages = 12;
  few.splits = 2;
  few.perSm = 3;
  Sm90Tiles many;
  many.m = 192;
  many.n = 128;
  many.stages = 4;
  many.warpgroups = 3;
  many.clusterN = 2;
  many.group = 16;
  many.buffers = 2;
  EXPECT_EQ(few.name(128), "swap_m16n64k128s12_split2_sm3");
  EXPECT_EQ(many.name(64), "m192n128k64s4_w3_c1x2_g16_b2");
  for (const Sm90Tiles &tiles : {few, many}) {
    std::optional<Sm90Tiles> parsed = parseSm90Tiles(tiles.name(128));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->name(128), tiles.name(128));
  }
  for (const char *name : {"", "m16n64", "m16n64k128s0", "m16n64k128s4_split2",
                           "swap_m16n64k128s4_c1x2", "m16n64k128s4_c2", "any"})
    EXPECT_FALSE(parseSm90Tiles(name)) << name;
}

TEST(CudaSm90, VariantsCoverAllRowsInOrder) {
  for (const GemmProblem &p :
       {blockProblem(), blockProblem({4096}), blockProblem({512}, 256),
        blockProblem({152064}, 4096),
        scaledProblem(OCTET_SCALE_CHANNEL, OCTET_SCALE_CHANNEL),
        makeProblem("sm90.dense_gemm", OCTET_BF16, OCTET_F32, {152064},
                    4096)}) {
    KernelLaunch launch = make(p);
    ASSERT_FALSE(launch.variants.empty());
    int64_t last = 0;
    std::set<std::string> entries;
    for (const KernelVariant &variant : launch.variants) {
      bool isLast = &variant == &launch.variants.back();
      EXPECT_EQ(variant.maxRows < 0, isLast);
      if (!isLast)
        EXPECT_GT(variant.maxRows, last);
      last = variant.maxRows;
      const KernelInstance &kernel = variant.kernels[0];
      entries.insert(kernel.entry);
      EXPECT_LE(kernel.sharedBytes, 227 * 1024);
      EXPECT_TRUE(kernel.overlaps);
      const Grid &grid = kernel.grid[0];
      EXPECT_EQ((grid.perRows ? grid.times : grid.fixed) % kernel.cluster, 0);
      // The label ends in the name of the tiles, which make the same kernel.
      GemmProblem named = p;
      named.maxM = {-1};
      named.variants = {kernel.label.substr(kernel.label.rfind(' ') + 1)};
      EXPECT_EQ(make(named).variants[0].kernels[0].entry, kernel.entry);
    }
    EXPECT_GT(entries.size(), 1u);
  }
}

/// B5: a row's result may not depend on how many rows there are.
TEST(CudaSm90, SumsAreNotSplitWhereRowsDoNotDependOnOthers) {
  bool splits = false;
  for (const Sm90Variant &variant : chooseSm90Tiles(blockProblem(), true))
    splits |= variant.tiles.splits > 1;
  EXPECT_TRUE(splits);
  for (const GemmProblem &p : {blockProblem(), blockProblem({4096})})
    for (const Sm90Variant &variant : chooseSm90Tiles(p, false))
      EXPECT_EQ(variant.tiles.splits, 1);
}

/// Shapes of the table keep what was measured, and go on beyond it.
TEST(CudaSm90, TilesAreThoseMeasured) {
  std::vector<Sm90Variant> variants =
      chooseSm90Tiles(blockProblem({4096}), true);
  ASSERT_GT(variants.size(), 5u);
  EXPECT_EQ(variants[0].maxM, 8);
  EXPECT_EQ(variants[0].tiles.name(128), "swap_m8n64k128s12_split3_sm2");
  EXPECT_EQ(variants[4].maxM, 128);
  EXPECT_EQ(variants[4].tiles.name(128), "m64n64k128s13_w1_c2x1_b2");
  EXPECT_EQ(variants.back().tiles.name(128), "m256n128k128s4_c1x2");
}

TEST(CudaSm90, CandidatesAreDifferentAndLegal) {
  GemmProblem p = blockProblem();
  std::vector<Sm90Tiles> list = listSm90Candidates(p, 64, 12);
  ASSERT_EQ(list.size(), 12u);
  std::set<std::string> names;
  for (const Sm90Tiles &tiles : list) {
    EXPECT_TRUE(names.insert(tiles.name(128)).second) << tiles.name(128);
    EXPECT_EQ(rejectSm90Tiles(p, tiles), "");
  }
}

TEST(CudaSm90, ScalesOfBlocksAreReadByMap) {
  const KernelInstance kernel = make(blockProblem()).variants[0].kernels[0];
  ASSERT_EQ(kernel.params.size(), 6u);
  const Param &x = kernel.params[0], &scale = kernel.params[1];
  EXPECT_EQ(x.kind, OCTET_PARAM_TENSOR_MAP);
  EXPECT_EQ(x.rows, -1);
  EXPECT_EQ(x.swizzle, 128);
  EXPECT_EQ(scale.kind, OCTET_PARAM_TENSOR_MAP);
  EXPECT_EQ(scale.rows, 56);
  EXPECT_EQ(scale.cols, -1);
  EXPECT_EQ(scale.boxRows, 1);
  EXPECT_EQ(scale.boxCols, x.boxRows);
}

TEST(CudaSm90, RefusesWhatTheTemplatesDoNotMake) {
  GemmProblem p = blockProblem();
  p.blockN = p.blockK = 64;
  EXPECT_NE(errorOf(p).find("not 64x64"), std::string::npos);
  EXPECT_NE(errorOf(blockProblem({516, 256})).find("multiples of 8 rows"),
            std::string::npos);
  EXPECT_NE(errorOf(blockProblem({512}, 1000)).find("K=1000"),
            std::string::npos);
  p = blockProblem();
  p.variants = {"m17n64k128s4"};
  EXPECT_NE(errorOf(p).find("64 or 128 rows"), std::string::npos);
  p.variants = {"any"};
  EXPECT_NE(errorOf(p).find("'any'"), std::string::npos);
  Result<KernelLaunch> launch =
      makeSm90Gemm(blockProblem(), *parseTarget("sm_100f", "--target"));
  ASSERT_FALSE(launch);
  EXPECT_NE(launch.status().info().format().find("sm_100f"), std::string::npos);
}

/// The text asserts that the launch has the shared memory of the template.
TEST(CudaSm90, InstancesCompile) {
  Result<Nvrtc> nvrtc = Nvrtc::open();
  if (!nvrtc)
    GTEST_SKIP() << nvrtc.status().info().format();
  auto named = [](GemmProblem p, const char *tiles) {
    p.variants = {tiles};
    return p;
  };
  GemmProblem biased = scaledProblem(OCTET_SCALE_CHANNEL, OCTET_SCALE_TENSOR);
  biased.biasType = OCTET_F32;
  GemmProblem dense =
      makeProblem("sm90.dense_gemm", OCTET_BF16, OCTET_F32, {333}, 72);
  GemmProblem small = blockProblem({608, 72}, 272);
  small.blockN = small.blockK = 32;
  const GemmProblem problems[] = {
      named(small, "swap_m16n64k128s2_split2"),
      named(small, "m128n128k128s3_c1x2"),
      named(blockProblem(), "swap_m16n64k128s8_split4_sm2"),
      named(blockProblem({600, 72}, 272), "swap_m64n128k128s2_share2_b2"),
      named(blockProblem({600, 72}, 272), "m128n96k128s3_b2"),
      named(blockProblem(), "m256n128k128s4_c1x2"),
      named(biased, "swap_m8n64k128s2_split2"),
      named(biased, "m256n112k128s3_c2x1"),
      named(dense, "swap_m128n64k64s2_split2"),
      named(dense, "m128n256k64s3"),
  };
  for (const GemmProblem &problem : problems) {
    const KernelInstance kernel = make(problem).variants[0].kernels[0];
    Result<CompiledKernel> made =
        nvrtc->compile(kernel.entry, kernel.source, "sm_90a");
    EXPECT_TRUE(bool(made)) << made.status().info().format();
  }
}

} // namespace
