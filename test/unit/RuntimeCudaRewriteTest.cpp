//===- RuntimeCudaRewriteTest.cpp - Rewrites of weights on a device -------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Codes and scales of load/rewrite.cuh are those of the processor, bit for bit.
// Skipped without a device of capability 9.0. `RuntimeCudaRewriteTest OBJECTS`
// takes the kernels from the folder OBJECTS.
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Numerics.h"
#include "octet/Support/File.h"
#include "runtime/cpu/Level.h"
#include "runtime/cpu/LoadOps.h"
#include "runtime/cpu/LoadRequantize.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/Types.h"
#include "runtime/cuda/Launch.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <random>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

static std::string objects = OCTET_FAKE_DIR;
static constexpr int64_t kRows = 129, kK = 520; // as rewrite_kernels.cu has it

namespace {
class CudaRewriteTest : public ::testing::Test {
protected:
  void SetUp() override {
    auto opened = Driver::open(kDriverLibrary, {"test", "sm_90a"});
    if (!opened.ok())
      GTEST_SKIP() << opened.status().info().message;
    driver = opened.take();
    if (driver->device().capability != 90)
      GTEST_SKIP() << "no device of capability 9.0";
    auto file = InputFile::open(objects + "/rewrite_kernels.cubin");
    ASSERT_TRUE(file.ok());
    cubin.resize(size_t(file->size()));
    ASSERT_TRUE(file->read(0, cubin).ok());
    image.name = "rewrite_kernels";
    image.cubin = cubin.data();
    image.cubin_bytes = int64_t(cubin.size());
    image.ptx = image.source = "";
    auto loaded =
        Images::load(*driver, {&image, 1}, "sm_90a", "test", pool, "sm_90a");
    ASSERT_TRUE(loaded.ok()) << loaded.status().info().format();
    images.emplace(loaded.take());
    ASSERT_TRUE(stream.create(*driver, "test").ok());
  }

  CUdeviceptr put(const void *data, int64_t bytes) {
    DeviceBuffer buffer;
    EXPECT_TRUE(buffer.allocate(*driver, bytes, "test").ok());
    EXPECT_EQ(driver->api.cuMemcpyHtoDAsync(buffer.address(), data,
                                            size_t(bytes), stream.handle()),
              kSuccess);
    EXPECT_EQ(driver->api.cuStreamSynchronize(stream.handle()), kSuccess);
    buffers.push_back(std::move(buffer));
    return buffers.back().address();
  }
  template <typename T>
  std::vector<T> get(CUdeviceptr from, int64_t count) {
    std::vector<T> out(static_cast<size_t>(count));
    EXPECT_EQ(driver->api.cuMemcpyDtoHAsync(
                  out.data(), from, out.size() * sizeof(T), stream.handle()),
              kSuccess);
    EXPECT_EQ(driver->api.cuStreamSynchronize(stream.handle()), kSuccess);
    return out;
  }
  /// A CTA a row.
  void run(const char *entry, std::vector<CUdeviceptr> args) {
    std::vector<octet_param> params(args.size());
    std::vector<const void *> addresses;
    for (size_t i = 0; i < args.size(); ++i) {
      params[i].arg = int32_t(i);
      addresses.push_back(reinterpret_cast<const void *>(args[i]));
    }
    // By its address a kernel is known.
    octet_kernel &kernel = *kernels.emplace_back(new octet_kernel());
    kernel.entry = kernel.label = entry;
    kernel.threads = 256;
    kernel.cluster = 1;
    kernel.grid[0] = {1, 0, 1, 0};
    kernel.grid[1] = kernel.grid[2] = {1, 1, 0, 0};
    kernel.num_params = int64_t(params.size());
    kernel.params = params.data();
    const octet_variant variant{-1, 1, &kernel};
    octet_launch launch{};
    launch.module = launch.label = entry;
    launch.num_variants = 1;
    launch.variants = &variant;
    LaunchParams place;
    Status done =
        launchOn(stream.handle(), *driver, *images, launch, octet_batch{},
                 kRows, StepFrame(), addresses.data(), place);
    ASSERT_TRUE(done.ok()) << done.info().format();
  }

  ThreadPool pool{2};
  std::unique_ptr<Driver> driver;
  std::string cubin;
  octet_image image{};
  std::optional<Images> images;
  Stream stream;
  std::vector<DeviceBuffer> buffers;
  std::vector<std::unique_ptr<octet_kernel>> kernels;
};
} // namespace

/// NaNs are alike whatever their sign.
static int64_t countDifferent(const std::vector<uint8_t> &a,
                              const std::vector<uint8_t> &b) {
  int64_t count = 0;
  for (size_t i = 0; i < a.size(); ++i)
    count += a[i] != b[i] && ((a[i] & b[i] & 0x7F) != 0x7F);
  return count;
}

TEST_F(CudaRewriteTest, QuantizesAsTheProcessorDoes) {
  const KernelTable &cpu = kernelTable(detectLevel());
  std::mt19937 random(1);
  for (auto [type, name] : {std::pair(OCTET_F32, "f32"),
                            {OCTET_BF16, "bf16"},
                            {OCTET_F16, "f16"}}) {
    // Any bits, so all exponents, zeros and NaNs; rows of plain numbers.
    const int64_t bytes = elementBytes(type);
    std::vector<uint8_t> in(size_t(kRows * kK * bytes));
    for (int64_t i = 0; i < kRows * kK; ++i) {
      uint32_t bits = random();
      if (const int64_t row = i / kK; row % 3)
        bits = std::bit_cast<uint32_t>(
            std::ldexp(float(int32_t(random())), -40 - int(row % 30)));
      if (type == OCTET_F32)
        std::memcpy(&in[size_t(i * 4)], &bits, 4);
      else if (type == OCTET_BF16 || i / kK % 3 == 0)
        std::memcpy(&in[size_t(i * 2)], reinterpret_cast<char *>(&bits) + 2, 2);
      else // of a moderate size in F16
        bits = (bits >> 16 & 0x83FF) | uint32_t(i / kK % 27) << 10,
        std::memcpy(&in[size_t(i * 2)], &bits, 2);
    }
    const CUdeviceptr data = put(in.data(), int64_t(in.size()));
    for (bool perRow : {true, false}) {
      std::vector<uint8_t> want(size_t(kRows * kK));
      std::vector<float> scale(perRow ? size_t(kRows) : 1);
      if (!perRow)
        scale[0] =
            dynamicScale(matrixAmax(pool, cpu, type, in.data(), kRows, kK));
      quantizeWeight(pool, cpu, type, in.data(), kRows, kK,
                     perRow ? OCTET_SCALE_CHANNEL : OCTET_SCALE_TENSOR,
                     want.data(), scale.data());
      const std::vector<float> zeros(size_t(kRows + 1));
      const CUdeviceptr scales = put(zeros.data(), 4 * kRows);
      const std::vector<uint8_t> empty(want.size(), 0xAA);
      const CUdeviceptr out = put(empty.data(), int64_t(empty.size()));
      if (perRow) {
        run((std::string("rows_") + name).c_str(), {data, out, scales});
      } else {
        run((std::string("amax_") + name).c_str(), {data, scales});
        run((std::string("all_") + name).c_str(), {data, out, scales});
      }
      EXPECT_EQ(get<float>(scales, int64_t(scale.size())), scale) << name;
      EXPECT_EQ(countDifferent(get<uint8_t>(out, kRows * kK), want), 0)
          << name << " per " << (perRow ? "row" : "tensor");
    }
  }
}

TEST_F(CudaRewriteTest, RequantizesAsTheProcessorDoes) {
  const KernelTable &cpu = kernelTable(detectLevel());
  std::mt19937 random(2);
  const int64_t shards[] = {70, 49, 10};
  const float old[] = {0.0123f, 0.75f, 0.4999f};
  std::vector<uint8_t> in(size_t(kRows * kK)), want;
  for (uint8_t &code : in)
    code = uint8_t(random());
  int64_t row = 0;
  for (int s = 0; s < 3; ++s) {
    std::vector<uint8_t> codes(size_t(shards[s] * kK));
    ScaledMatrix w{};
    w.data = &in[size_t(row * kK)];
    w.scale = &old[s];
    w.rows = shards[s];
    w.cols = kK;
    w.type = OCTET_E4M3;
    w.scaleMode = OCTET_SCALE_TENSOR;
    if (old[s] == 0.75f)
      codes.assign(in.begin() + row * kK, in.begin() + (row + shards[s]) * kK);
    else
      requantizeTensor(pool, cpu, w, 0.75f, codes.data());
    want.insert(want.end(), codes.begin(), codes.end());
    row += shards[s];
  }
  const CUdeviceptr codes = put(in.data(), int64_t(in.size()));
  const CUdeviceptr scales = put(old, sizeof(old));
  const std::vector<uint8_t> empty(in.size(), 0xAA);
  const CUdeviceptr out = put(empty.data(), int64_t(empty.size()));
  const float zeros[2] = {};
  const CUdeviceptr scale = put(zeros, sizeof(zeros));
  run("largest", {codes, scales, out, scale});
  EXPECT_EQ(get<float>(scale, 1)[0], 0.75f);
  EXPECT_EQ(countDifferent(get<uint8_t>(out, kRows * kK), want), 0);
}

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1)
    objects = argv[1];
  return RUN_ALL_TESTS();
}
