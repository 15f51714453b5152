//===- RuntimeCudaPartsTest.cpp - Parts of the CUDA runtime ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"
#include "TempFolder.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/CudaServices.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Recompile.h"
#include "runtime/cuda/StepInputs.h"
#include "runtime/cuda/Upload.h"
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;
using octet::test::FakeCuda;

static const std::string kFakeDriver = OCTET_FAKE_DIR "/fake-cuda.so";

static std::unique_ptr<Driver> openDriver() {
  void *library = dlopen(kFakeDriver.c_str(), RTLD_NOW | RTLD_LOCAL);
  reinterpret_cast<void (*)()>(dlsym(library, "fakeCudaReset"))();
  auto driver = Driver::open(kFakeDriver, {"p", "sm_90a"});
  EXPECT_TRUE(driver.ok());
  return driver.take();
}

TEST(CudaTargets, MachineCodeOrPtx) {
  struct {
    const char *target;
    int capability;
    Fit fit;
  } cases[] = {
      {"sm_80", 80, Fit::Machine},    {"sm_80", 86, Fit::Machine},
      {"sm_80", 75, Fit::No},         {"sm_80", 90, Fit::Ptx},
      {"sm_86", 80, Fit::No},         {"sm_89", 90, Fit::Ptx},
      {"sm_90a", 90, Fit::Machine},   {"sm_90a", 100, Fit::No},
      {"sm_100f", 100, Fit::Machine}, {"sm_100f", 103, Fit::Machine},
      {"sm_100f", 110, Fit::No},      {"sm_100f", 120, Fit::No},
      {"sm_120f", 121, Fit::Machine}, {"cpu", 90, Fit::No},
      {"sm_", 90, Fit::No},
  };
  for (auto [target, capability, fit] : cases)
    EXPECT_EQ(fitTarget(target, capability), fit)
        << target << " on " << capability;
  EXPECT_EQ(bestTarget(90), "sm_90a");
  EXPECT_EQ(bestTarget(87), "sm_86");
  EXPECT_EQ(bestTarget(110), "sm_89");
  EXPECT_EQ(bestTarget(75), "");
  EXPECT_EQ(relativeTarget("sm_90a", 90), "sm_90a");
  EXPECT_EQ(relativeTarget("sm_90a", 91), "sm_91a");
  EXPECT_EQ(relativeTarget("sm_80", 89), "sm_89");
  EXPECT_EQ(relativeTarget("sm_80", 87), "sm_86");
  EXPECT_EQ(relativeTarget("sm_87", 87), "sm_87");
  EXPECT_EQ(relativeTarget("sm_120f", 121), "sm_120f");
  // Below the target, of another major version, or no target of a device.
  EXPECT_EQ(relativeTarget("sm_89", 86), "");
  EXPECT_EQ(relativeTarget("sm_90a", 89), "");
  EXPECT_EQ(relativeTarget("sm_90a", 100), "");
  EXPECT_EQ(relativeTarget("cpu", 90), "");
  EXPECT_EQ(relativeTarget("sm_", 0), "");
}

TEST(CudaBuckets, Rows) {
  using List = std::vector<int64_t>;
  EXPECT_EQ(bucketsUpTo(1), List({1}));
  EXPECT_EQ(bucketsUpTo(7), List({1, 2, 4, 7}));
  EXPECT_EQ(bucketsUpTo(64), List({1, 2, 4, 8, 16, 24, 32, 48, 64}));
  EXPECT_EQ(bucketsUpTo(200),
            List({1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 192, 200}));
}

TEST(CudaLaunch, Grid) {
  octet_kernel kernel{};
  auto grid = [&](int64_t rows, int64_t sequences) {
    return gridOf(kernel, rows, sequences, /*multiprocessors=*/5);
  };
  using Grid = std::array<int64_t, 3>;
  const octet_grid one{1, 1, 0, 0};
  kernel.grid[0] = {3, 2, 64, 0};
  kernel.grid[1] = {2, 0, 0, 1};
  kernel.grid[2] = one;
  EXPECT_EQ(grid(64, 4), Grid({9, 8, 1}));
  EXPECT_EQ(grid(65, 4), Grid({12, 8, 1}));
  kernel.per_sm = 2;
  EXPECT_EQ(grid(65, 4), Grid({10, 1, 1}));
  EXPECT_EQ(grid(1, 0), Grid({0, 1, 1}));
  kernel.cluster = 4; // of ten CTAs, two whole clusters
  EXPECT_EQ(grid(65, 4), Grid({8, 1, 1}));
  kernel.grid[1] = one;
  kernel.grid[0] = {3, 1, 0, 0};
  EXPECT_EQ(grid(1, 1), Grid({4, 1, 1}));
}

TEST(CudaLaunch, Variant) {
  const octet_variant variants[] = {{4, 0, nullptr}, {16, 0, nullptr}};
  octet_launch launch{};
  launch.num_variants = 2;
  launch.variants = variants;
  EXPECT_EQ(chooseVariant(launch, 4, 99), &variants[0]);
  EXPECT_EQ(chooseVariant(launch, 5, 1), &variants[1]);
  EXPECT_EQ(chooseVariant(launch, 17, 1), nullptr);
  launch.by_longest = 1;
  EXPECT_EQ(chooseVariant(launch, 17, 1), &variants[0]);
}

TEST(CudaLaunch, MapShape) {
  octet_param param{};
  param.type = OCTET_E4M3;
  param.swizzle = 128;
  param.rows = -1;
  param.cols = 200;
  auto shape = mapShapeOf(param, 33, "m");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->rows, 33u);
  EXPECT_EQ(shape->cols, 200u);
  EXPECT_EQ(shape->pitchBytes, 208u); // 16-byte steps
  EXPECT_EQ(shape->swizzle, 3);
  EXPECT_EQ(shape->dataType, kMapUint8);
  // Scales of the activation, column-major: a row a group (P3).
  param = octet_param();
  param.type = OCTET_F32;
  param.rows = 32;
  param.cols = -1;
  shape = mapShapeOf(param, 5, "m");
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->cols, 5u);
  EXPECT_EQ(shape->pitchBytes, 32u); // 5 floats, as 8
  param.swizzle = 48;
  EXPECT_FALSE(mapShapeOf(param, 5, "m").ok());
}

TEST(CudaInputs, DecodeIsFilledUp) {
  auto driver = openDriver();
  ProgramInfo info;
  info.maxSeqs = 4;
  info.maxContext = 300;
  info.maxStepTokens = 8;
  StepInputs inputs;
  ASSERT_TRUE(inputs.allocate(*driver, info).ok());
  const int32_t ids[] = {7, 8}, positions[] = {64, 2},
                slots[] = {5 * 64, 9 * 64 + 2}, outputs[] = {0, 1};
  const int32_t pages0[] = {3, 5}, pages1[] = {9};
  const octet_sequence sequences[] = {{0, 1, 65, pages0}, {1, 1, 3, pages1}};
  octet_batch batch{};
  batch.num_rows = batch.num_sequences = batch.num_outputs = 2;
  batch.ids = ids;
  batch.positions = positions;
  batch.slots = slots;
  batch.sequences = sequences;
  batch.output_rows = outputs;
  const DeviceBatch there = inputs.write(batch, /*rows=*/4, /*spare=*/20);
  auto list = [&](int64_t offset, size_t count) {
    std::vector<int32_t> values(count);
    std::memcpy(values.data(), inputs.written().data() + offset, 4 * count);
    return values;
  };
  using List = std::vector<int32_t>;
  EXPECT_EQ(list(there.layout.ids, 4), List({7, 8, 0, 0}));
  EXPECT_EQ(list(there.layout.positions, 4), List({64, 2, 0, 0}));
  EXPECT_EQ(list(there.layout.slots, 4), List({320, 578, 1280, 1280}));
  EXPECT_EQ(list(there.layout.outputRows, 4), List({0, 1, 2, 3}));
  EXPECT_EQ(list(there.layout.sequences, 16),
            List({0, 1, 65, 0, 1, 1, 3, 2, 2, 1, 1, 3, 3, 1, 1, 3}));
  EXPECT_EQ(list(there.layout.pages, 4), List({3, 5, 9, 20}));
  EXPECT_EQ(there.batch.num_rows, 4);
  EXPECT_EQ(there.batch.num_sequences, 4);
  EXPECT_EQ(there.batch.num_outputs, 4);
  EXPECT_EQ(there.frame.numSequences, 4);
  EXPECT_EQ(there.batch.sequences[3].num_rows, 1);
  // Places do not depend on the pages, so that a graph finds them.
  EXPECT_EQ(BatchLayout::of(4, 4, 4, 1).pages, there.layout.pages);
}

//===----------------------------------------------------------------------===//
// Uploads
//===----------------------------------------------------------------------===//

static std::vector<uint8_t> bytesFrom(size_t count, int seed) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = uint8_t(i * 31 + size_t(seed) * 7 + i / 251);
  return bytes;
}

TEST(CudaUpload, ShardsAndScalesAreContiguous) {
  auto driver = openDriver();
  ThreadPool pool(2);
  // Less than a shard: pieces cross the buffers.
  Uploader uploader(*driver, pool, "p", /*bufferBytes=*/1000);
  octet_tensor_desc desc{};
  desc.module = "m.qkv_proj";
  desc.rows = 130 + 20;
  desc.cols = 160;
  desc.block_n = desc.block_k = 128;
  desc.type = OCTET_E4M3;
  desc.scale_mode = OCTET_SCALE_BLOCK;
  desc.scale_type = OCTET_F32;
  auto first = bytesFrom(130 * 160, 1), second = bytesFrom(20 * 160, 2);
  // 2x2 and 1x2 blocks (W5b).
  auto scale1 = bytesFrom(16, 3), scale2 = bytesFrom(8, 4);
  octet_weight in{2,
                  {{first.data(), scale1.data(), 130, -1, -1},
                   {second.data(), scale2.data(), 20, -1, -1}}};
  octet_weight out[3];
  for (octet_weight &each : out) {
    const int64_t unknown[] = {-1, -1};
    auto plan = planUpload(desc, in, unknown);
    ASSERT_TRUE(plan.ok()) << plan.status().info().format();
    ASSERT_TRUE(uploader.upload(desc, *plan, each).ok());
  }
  // What comes of the processor's copy afterwards does not matter.
  auto want = first;
  want.insert(want.end(), second.begin(), second.end());
  auto scales = scale1;
  scales.insert(scales.end(), scale2.begin(), scale2.end());
  std::fill(first.begin(), first.end(), 0);
  auto memory = uploader.finish();
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(uploader.times().bytes, 3 * int64_t(want.size() + scales.size()));
  for (const octet_weight &each : out) {
    ASSERT_EQ(each.num_parts, 1);
    const octet_part &part = each.parts[0];
    EXPECT_EQ(part.rows, 150);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(part.data) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(part.scale) % 256, 0u);
    EXPECT_EQ(std::memcmp(part.data, want.data(), want.size()), 0);
    EXPECT_EQ(std::memcmp(part.scale, scales.data(), scales.size()), 0);
  }
}

TEST(CudaUpload, VectorsOfShards) {
  octet_tensor_desc desc{};
  desc.module = "m.bias";
  desc.rows = 1;
  desc.cols = 100;
  desc.type = OCTET_BF16;
  auto data = bytesFrom(200, 1);
  octet_weight in{3,
                  {{data.data(), nullptr, 1, 4, -1},
                   {nullptr, nullptr, 1, -1, -1}, // it has no bias
                   {data.data() + 100, nullptr, 1, 5, -1}}};
  const int64_t elements[] = {64, -1, 16};
  auto plan = planUpload(desc, in, elements);
  ASSERT_TRUE(plan.ok()) << plan.status().info().format();
  ASSERT_EQ(plan->data.size(), 3u);
  EXPECT_EQ(plan->data[0].bytes, 128);
  EXPECT_EQ(plan->data[1].bytes, 40);
  EXPECT_EQ(plan->data[1].from, nullptr);
  EXPECT_EQ(plan->data[2].bytes, 32);
  const int64_t tooMany[] = {64, -1, 64};
  EXPECT_FALSE(planUpload(desc, in, tooMany).ok());
  const int64_t unknown[] = {64, -1, -1};
  EXPECT_FALSE(planUpload(desc, in, unknown).ok());
}

TEST(CudaUpload, LargeWeightsHaveTheirOwnMemory) {
  auto driver = openDriver();
  ThreadPool pool(1);
  Uploader uploader(*driver, pool, "p", /*bufferBytes=*/1 << 20);
  std::vector<uint8_t> large(70 << 20, 1), small(100, 2);
  octet_tensor_desc desc{};
  desc.module = "m";
  desc.rows = 1;
  desc.type = OCTET_E4M3;
  octet_weight out;
  for (auto *data : {&small, &large, &small}) {
    desc.cols = int64_t(data->size());
    octet_weight in{1, {{data->data(), nullptr, 1, -1, -1}}};
    auto plan = planUpload(desc, in, {});
    ASSERT_TRUE(plan.ok());
    ASSERT_TRUE(uploader.upload(desc, *plan, out).ok());
  }
  auto memory = uploader.finish();
  ASSERT_TRUE(memory.ok());
  ASSERT_EQ(memory->size(), 2u); // the small ones share
  EXPECT_EQ((*memory)[0].size(), 70 << 20);
  EXPECT_EQ(static_cast<const uint8_t *>(out.parts[0].data)[99], 2);
}

// Weights as the file has them are read from it, past the mapping.
TEST(CudaUpload, ReadsFiles) {
  const std::string folder = test::makeTempFolder();
  auto data = bytesFrom(5000, 1), other = bytesFrom(300, 2);
  const std::string path = folder + "/model.safetensors";
  auto write = [&](std::string name, std::span<const uint8_t> bytes) {
    return TensorToWrite{std::move(name),
                         StoredType::I8,
                         {int64_t(bytes.size())},
                         std::as_bytes(bytes)};
  };
  const TensorToWrite tensors[] = {write("a", data), write("b", other)};
  ASSERT_TRUE(writeSafetensors(path, tensors).ok());
  auto opened = openCheckpoint(folder, {.needConfig = false});
  ASSERT_TRUE(opened.ok());
  auto mapped = MappedCheckpoint::map(opened->tensors);
  ASSERT_TRUE(mapped.ok());
  auto driver = openDriver();
  ThreadPool pool(2);
  octet_tensor_desc desc{};
  desc.module = "m";
  desc.rows = 1;
  desc.type = OCTET_I8;
  auto uploadAll = [&](Uploader &uploader, octet_weight *out) -> Status {
    uploader.readFrom(&*mapped);
    for (const char *name : {"b", "a"}) {
      auto bytes = mapped->bytes(*opened->tensors.find(name));
      desc.cols = int64_t(bytes.size());
      octet_weight in{1, {{bytes.data(), nullptr, 1, -1, -1}}};
      auto plan = planUpload(desc, in, {});
      if (!plan.ok())
        return plan.takeStatus();
      if (Status done = uploader.upload(desc, *plan, *out++); !done.ok())
        return done;
    }
    return Status::success();
  };
  octet_weight out[2];
  Uploader uploader(*driver, pool, "p", /*bufferBytes=*/1000);
  ASSERT_TRUE(uploadAll(uploader, out).ok());
  auto memory = uploader.finish();
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(std::memcmp(out[0].parts[0].data, other.data(), 300), 0);
  EXPECT_EQ(std::memcmp(out[1].parts[0].data, data.data(), 5000), 0);
  EXPECT_EQ(uploader.times().bytes, 5300);
  EXPECT_GT(uploader.times().seconds, uploader.times().filling);

  ASSERT_EQ(truncate(path.c_str(), 1000), 0);
  Uploader second(*driver, pool, "p", 1000);
  Status done = uploadAll(second, out);
  ASSERT_FALSE(done.ok());
  // Which of the reads is first to end is not known.
  const std::string want = path + ": became shorter while it was read: it ends "
                                  "at byte ";
  EXPECT_TRUE(done.info().format().starts_with("error: " + want))
      << done.info().format();
  std::filesystem::remove_all(folder);
}

// What a kernel rewrote is copied within the device, in the stream's order, and
// the next weight has its place.
TEST(CudaUpload, RewrittenWeightsShareTheirMemory) {
  auto driver = openDriver();
  ThreadPool pool(2);
  Uploader uploader(*driver, pool, "p", /*bufferBytes=*/1000);
  octet_tensor_desc desc{};
  desc.module = "m";
  desc.rows = 30;
  desc.cols = 100;
  desc.type = OCTET_E4M3;
  octet_weight out[2];
  std::vector<uint8_t> data[2] = {bytesFrom(3000, 1), bytesFrom(3000, 2)};
  CUdeviceptr places[2];
  for (int i = 0; i < 2; ++i) {
    const UploadPiece pieces[] = {{data[i].data(), 1800},
                                  {data[i].data() + 1800, 1200}};
    auto staged = uploader.stage(pieces, "m");
    ASSERT_TRUE(staged.ok());
    places[i] = *staged;
    ASSERT_TRUE(uploader.send().ok());
    auto made = uploader.takeTemporary(3000, "m");
    ASSERT_TRUE(made.ok());
    ASSERT_EQ(
        driver->api.cuMemcpyDtoDAsync(*made, *staged, 3000, uploader.handle()),
        kSuccess);
    auto *codes = reinterpret_cast<const uint8_t *>(*made);
    octet_weight in{
        2, {{codes, nullptr, 10, -1, -1}, {codes + 1000, nullptr, 20, -1, -1}}};
    const int64_t unknown[] = {-1, -1};
    auto plan = planUpload(desc, in, unknown);
    ASSERT_TRUE(plan.ok());
    ASSERT_TRUE(uploader.upload(desc, *plan, out[i]).ok());
    uploader.forgetTemporaries();
  }
  EXPECT_EQ(places[0], places[1]);
  auto memory = uploader.finish();
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->size(), 1u); // no temporaries
  EXPECT_EQ(uploader.times().bytes, 6000);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(std::memcmp(out[i].parts[0].data, data[i].data(), 3000), 0) << i;
}

TEST(CudaUpload, WhatLoadMadeGoesWhenItIsTold) {
  Context ctx;
  auto mapped = [] { return mallinfo2().hblkhd; };
  const size_t before = mapped();
  for (int weight = 0; weight < 4; ++weight) {
    for (int copy = 0; copy < 2; ++copy) // large enough for a mapping each
      ASSERT_TRUE(ctx.allocate(int64_t(64) << 20));
    EXPECT_GE(mapped(), before + (size_t(128) << 20));
    // Two, and up to a large page each before they begin and behind them.
    EXPECT_LT(mapped(),
              before + (size_t(128) << 20) + 4 * WeightArena::kLargePage);
    cudaServices()->forget(&ctx);
    EXPECT_EQ(mapped(), before);
  }
}

TEST(CudaUpload, NoRoom) {
  auto driver = openDriver();
  auto *fake = reinterpret_cast<FakeCuda *(*)()>(
      dlsym(dlopen(kFakeDriver.c_str(), RTLD_NOW), "fakeCuda"))();
  fake->memory = 32 << 20;
  ThreadPool pool(1);
  Uploader uploader(*driver, pool, "p", 1000);
  octet_tensor_desc desc{};
  desc.module = "m.o_proj";
  desc.rows = 1;
  desc.cols = 4;
  desc.type = OCTET_E4M3;
  uint32_t word = 0;
  octet_weight in{1, {{&word, nullptr, 1, -1, -1}}}, out;
  auto plan = planUpload(desc, in, {});
  ASSERT_TRUE(plan.ok());
  Status status = uploader.upload(desc, *plan, out);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().format(),
            "error: m.o_proj: needs 67108864 more bytes of device memory; 0.0 "
            "GiB of 0.0 GiB are free on Fake GPU\n");
}
