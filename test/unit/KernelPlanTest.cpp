//===- KernelPlanTest.cpp - Lists of shapes and plans ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/BenchPlan.h"
#include "octet/CudaSource/InstanceJson.h"
#include "octet/KernelBench/KernelBench.h"
#include "runtime/bench/KernelOperands.h"
#include "runtime/bench/KernelReport.h"
#include "runtime/bench/TileTable.h"
#include "gtest/gtest.h"
#include <fstream>
#include <nlohmann/json.hpp>

using namespace octet;
using namespace octet::cuda;

static std::string writeTemporary(const char *name, const std::string &text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Shapes, LinesCommasAndComments) {
  std::string path = writeTemporary(
      "shapes", "# M N K\n1 4096 7168\n\n128,2112, 7168  # ragged\r\n8x16x32");
  Result<std::vector<GemmShape>> shapes = readShapes(path);
  ASSERT_TRUE(shapes.ok());
  ASSERT_EQ(shapes->size(), 3u);
  EXPECT_EQ((*shapes)[0].n, 4096);
  EXPECT_EQ((*shapes)[1].m, 128);
  EXPECT_EQ((*shapes)[1].k, 7168);
  EXPECT_EQ((*shapes)[2].k, 32);
}

TEST(Shapes, RefusesTheLine) {
  for (const char *line : {"1 2", "1 2 3 4", "1 2 x", "0 2 3", "-1 2 3",
                           "1 2 99999999", "1 2 3.5"}) {
    std::string path =
        writeTemporary("bad-shapes", std::string("4 5 6\n") + line + "\n");
    Result<std::vector<GemmShape>> shapes = readShapes(path);
    ASSERT_FALSE(shapes.ok()) << line;
    EXPECT_EQ(shapes.status().info().subject, path + ":2");
    EXPECT_NE(shapes.status().info().message.find(line), std::string::npos);
  }
  EXPECT_FALSE(readShapes(writeTemporary("no-shapes", "# none\n")).ok());
  EXPECT_FALSE(readShapes(testing::TempDir() + "absent-shapes").ok());
  EXPECT_EQ(parseShape("1,2").status().info().kind, ErrorKind::Usage);
}

static BenchPlan makePlan() {
  BenchPlan plan;
  plan.op = "block-gemm";
  plan.target = "sm_90a";
  plan.images.push_back({"entry", 64, 1000, 0, 0});
  KernelInstance kernel;
  kernel.label = "m16";
  kernel.entry = "entry";
  kernel.threads = 384;
  kernel.sharedBytes = 100000;
  kernel.cluster = 2;
  kernel.overlaps = true;
  kernel.grid[0] = {2, 0, 16, 0};
  Param map;
  map.kind = OCTET_PARAM_TENSOR_MAP;
  map.arg = 2;
  map.type = OCTET_E4M3;
  map.swizzle = 128;
  map.rows = 4096;
  map.cols = 7168;
  map.boxRows = 64;
  map.boxCols = 128;
  kernel.params = {map, Param::address(5), Param::rowCount()};
  KernelLaunch launch;
  launch.module = "linear";
  launch.variants = {{16, {kernel}}, {-1, {kernel, kernel}}};
  launch.bytes = 29360128;
  plan.launches.push_back(launch);
  BenchCase c;
  c.m = 5;
  c.n = 4096;
  c.k = 7168;
  c.x = {OCTET_E4M3, OCTET_SCALE_BLOCK, true, 1, 128, {}};
  c.w = {OCTET_E4M3, OCTET_SCALE_BLOCK, false, 128, 128, {4096}};
  c.yType = OCTET_BF16;
  c.launches = {0};
  c.variants = {"m16"};
  plan.cases.push_back(c);
  return plan;
}

TEST(BenchPlan, RoundTrip) {
  std::string text = writeBenchPlan(makePlan());
  Result<BenchPlan> read = readBenchPlan(text, "file");
  ASSERT_TRUE(read.ok()) << read.status().info().message;
  EXPECT_EQ(writeBenchPlan(*read), text);
  EXPECT_EQ(read->launches[0].variants[1].kernels[0].params[0].boxCols, 128);
}

/// Every field has to be there, of its type, and within what the runner holds
/// for granted.
TEST(BenchPlan, RefusesDamage) {
  nlohmann::json good = nlohmann::json::parse(writeBenchPlan(makePlan()));
  auto messageOf = [](const nlohmann::json &json) {
    Result<BenchPlan> read = readBenchPlan(json.dump(), "file");
    return read.ok() ? std::string() : read.status().info().message;
  };
  EXPECT_EQ(messageOf(good), "");
  nlohmann::json bad = good;
  bad["launches"][0]["variants"][0]["kernels"][0].erase("threads");
  EXPECT_EQ(messageOf(bad), "the list of kernels is damaged: "
                            "launches[0].variants[0].kernels[0].threads");
  bad = good;
  bad["cases"][0]["m"] = "5";
  EXPECT_EQ(messageOf(bad), "the list of kernels is damaged: cases[0].m");
  bad = good;
  bad["cases"][0]["x"]["type"] = int64_t(1) << 40;
  EXPECT_EQ(messageOf(bad), "the list of kernels is damaged: cases[0].x.type");
  bad = good;
  bad["cases"][0]["launches"] = {1};
  EXPECT_EQ(messageOf(bad), "the list of kernels has launch 1 of 1");
  bad = good;
  bad["cases"][0]["n"] = 0;
  EXPECT_EQ(messageOf(bad), "the list of kernels has a side of 0");
  bad = good;
  bad["cases"][0]["w"]["block_k"] = 0;
  EXPECT_EQ(messageOf(bad), "the list of kernels has blocks without a size");
  EXPECT_FALSE(readBenchPlan("{", "file").ok());
  EXPECT_FALSE(readBenchPlan("[]", "file").ok());
}

TEST(AbiLaunch, PointsIntoItself) {
  const BenchPlan plan = makePlan();
  const AbiLaunch abi(plan.launches[0], {{"entry", 7}});
  const octet_launch &launch = abi.get();
  ASSERT_EQ(launch.num_variants, 2);
  EXPECT_EQ(launch.variants[0].max_rows, 16);
  ASSERT_EQ(launch.variants[1].num_kernels, 2);
  const octet_kernel &kernel = launch.variants[1].kernels[1];
  EXPECT_STREQ(kernel.entry, "entry");
  EXPECT_EQ(kernel.image, 7);
  EXPECT_EQ(kernel.flags, OCTET_KERNEL_OVERLAPS);
  EXPECT_EQ(kernel.grid[0].per_rows, 16);
  ASSERT_EQ(kernel.num_params, 3);
  EXPECT_EQ(kernel.params[0].swizzle, 128);
  EXPECT_EQ(kernel.params[2].kind, OCTET_PARAM_ROWS);
}

/// Scales of x lie along M in rows of a multiple of 4 (P3); each shard of w
/// starts its own scale rows (W5b).
TEST(KernelOperands, CountsScales) {
  BenchCase c = makePlan().cases[0];
  c.w.shards = {4000, 96};
  rt::OperandLayout layout = rt::OperandLayout::of(c);
  EXPECT_EQ(layout.xScales, 56 * 8);
  EXPECT_EQ(layout.wScales, (32 + 1) * 56);
  EXPECT_EQ(layout.yBytes, 5 * 4096 * 2);
  EXPECT_EQ(layout.w % 256, 0);
  EXPECT_EQ(layout.bytes % 256, 0);
  EXPECT_EQ(layout.movedBytes,
            5 * 7168 + 4 * 56 * 8 + 4096 * 7168 + 4 * 33 * 56 + 5 * 4096 * 2);
  rt::CheckedMatrix w = rt::CheckedMatrix::ofW(c, 1 << 20);
  EXPECT_EQ(w.numShards, 2);
  EXPECT_EQ(w.shardRows[1], 96);
  EXPECT_EQ(w.data, (1u << 20) + uint64_t(layout.w));
  EXPECT_EQ(rt::CheckedMatrix::ofX(c, 0).mode, 4);
}

/// A variant goes on while it is within 1 %, a wrong one is never taken, and
/// sustained times count where there are some.
TEST(TileTable, RangesOfTheFastest) {
  rt::KernelReport report;
  auto add = [&](int64_t m, const char *variant, double us, bool passed = true,
                 double sustained = 0) {
    rt::KernelResult r;
    r.m = m;
    r.n = 64;
    r.k = 128;
    r.variant = variant;
    r.us.median = us;
    r.us.sustained = sustained;
    r.passed = passed;
    r.atLength = true;
    report.results.push_back(r);
  };
  add(1, "a", 5.0);
  add(1, "b", 6.0);
  add(8, "a", 5.04);
  add(8, "b", 5.0);
  add(8, "wrong", 1.0, /*passed=*/false);
  add(64, "a", 9.0);
  add(64, "b", 7.0);
  add(4096, "b", 100, true, 130);
  add(4096, "c", 110, true, 120);
  add(4096, "short", 90); // no finalist: its time is not one under load
  report.results.back().atLength = false;
  add(8192, "c", 19, true, 0); // one has none: by medians
  add(8192, "d", 21, true, 20);
  nlohmann::json expected = nlohmann::json::parse(
      R"([{"n": 64, "k": 128, "variants": [{"max_m": 8, "tiles": "a"},
          {"max_m": 64, "tiles": "b"}, {"max_m": -1, "tiles": "c"}]}])");
  EXPECT_EQ(rt::makeTileTable(report)["shapes"], expected);
}

/// Long runs are for what is chosen today and the best medians.
TEST(KernelReport, FinalistsAreTheFastest) {
  std::vector<rt::KernelResult> results(6);
  const double medians[] = {9, 3, 1, 2, 5, 0};
  for (size_t i = 0; i < results.size(); ++i) {
    results[i].us.median = medians[i];
    results[i].passed = i != 2; // a wrong one is none
    results[i].chosen = i == 0;
  }
  EXPECT_EQ(rt::chooseFinalists(results, 3), (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(rt::chooseFinalists(results, 9), (std::vector<size_t>{0, 1, 3, 4}));
  EXPECT_TRUE(rt::chooseFinalists({}, 3).empty());
}

TEST(KernelReport, SaysThatItStopped) {
  rt::KernelReport report;
  report.cases = report.casesDone = 3;
  EXPECT_EQ(report.text().find("stopped"), std::string::npos);
  report.casesDone = 2;
  EXPECT_NE(report.text().find("stopped after 2 of 3 shapes"),
            std::string::npos);
  EXPECT_EQ(report.json()["cases_done"], 2);
}

TEST(KernelReport, SaysWhatFailed) {
  rt::KernelReport report;
  rt::KernelResult result;
  result.m = 2;
  result.n = 10;
  result.k = 4;
  result.kernel = "m16";
  result.notANumber = 3;
  result.firstBad = 12;
  report.results.push_back(result);
  EXPECT_EQ(report.countFailed(), 1);
  EXPECT_NE(report.text().find("3 of 20 not finite, first at [1, 2]"),
            std::string::npos);
  EXPECT_NE(report.text().find("0 passed, 1 failed"), std::string::npos);
  EXPECT_EQ(report.json()["failed"], 1);
}
