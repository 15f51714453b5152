//===- RuntimeCudaDeviceTest.cpp - A CUDA program on a device -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernels of fake_kernels.cu on a real driver. Skipped without a device of
// capability 9.0. `RuntimeCudaDeviceTest OBJECTS` takes the shared objects from
// the folder OBJECTS, on a machine where they were not built.
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "TempFolder.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/CudaBackend.h"
#include <bit>
#include <chrono>
#include <cstdio>
#include <filesystem>

using namespace octet;
using namespace octet::rt;
using namespace octet::test;
namespace fs = std::filesystem;

static std::string objects = OCTET_FAKE_DIR;

namespace {
class CudaDeviceTest : public ::testing::Test {
protected:
  void SetUp() override {
    auto driver = cu::Driver::open(cu::kDriverLibrary, {"test", "sm_90a"});
    if (!driver.ok())
      GTEST_SKIP() << driver.status().info().message;
    if ((*driver)->device().capability != 90)
      GTEST_SKIP() << "no device of capability 9.0";
    folder = octet::test::makeTempFolder();
    ASSERT_FALSE(folder.empty());
    ASSERT_TRUE(writeFakeCheckpoint(folder, fakeTensors()).ok());
  }
  void TearDown() override {
    if (!folder.empty())
      fs::remove_all(folder);
  }
  Result<std::unique_ptr<Model>> load(const char *program) {
    return loadFake(objects, program, folder, "");
  }
  std::string folder;
};
} // namespace

TEST_F(CudaDeviceTest, ComputesWhatTheCpuDoes) {
  auto model = load("fake-cuda-device"), cpu = load("fake-program");
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  ASSERT_TRUE(cpu.ok()) << cpu.status().info().format();
  Engine engine(**model), expected(**cpu);
  std::vector<Sequence> a, b;
  for (int i = 0; i < 3; ++i) {
    a.push_back(prompt(60 + 31 * i, i));
    b.push_back(prompt(60 + 31 * i, i));
    std::vector<float> x, y;
    Status done = engine.prefill(a[size_t(i)], 40, x);
    ASSERT_TRUE(done.ok()) << done.info().format();
    ASSERT_TRUE(expected.prefill(b[size_t(i)], 40, y).ok());
    expectNear(x, y, "prefill " + std::to_string(i));
  }
  std::vector<Sequence> forks;
  for (Sequence &s : a)
    forks.push_back(engine.fork(s));
  for (int step = 0; step < 12; ++step) {
    std::vector<float> all = decode(engine, a, step);
    expectNear(all, decode(expected, b, step), "step " + std::to_string(step));
    for (size_t i = 0; i < forks.size(); ++i) {
      forks[i].tokens.push_back(a[i].tokens.back());
      std::vector<float> one(size_t(kFakeVocab), 0.0f);
      Feed feed{&forks[i], 1, 1};
      ASSERT_TRUE(engine.step({&feed, 1}, one).ok());
      for (size_t j = 0; j < one.size(); ++j)
        ASSERT_EQ(std::bit_cast<uint32_t>(one[j]),
                  std::bit_cast<uint32_t>(all[i * one.size() + j]))
            << "step " << step << ", sequence " << i << ", logit " << j;
    }
  }
  EXPECT_EQ((*model)->cuda()->numGraphs(), 2u);

  for (int step = 12; step < 16; ++step) {
    std::vector<Feed> feeds;
    std::vector<int32_t> tokens(a.size());
    for (Sequence &s : a) {
      s.tokens.push_back(step);
      feeds.push_back({&s, 1, 1});
    }
    std::vector<Draw> draws(a.size());
    ASSERT_TRUE(engine.draw(feeds, draws, tokens).ok());
    std::vector<float> logits(a.size() * size_t(kFakeVocab));
    feeds.clear();
    for (Sequence &s : b) {
      s.tokens.push_back(step);
      feeds.push_back({&s, 1, 1});
    }
    ASSERT_TRUE(expected.step(feeds, logits).ok());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(tokens[i], argmax(std::span(logits).subspan(
                               i * size_t(kFakeVocab), size_t(kFakeVocab))));
  }

  Profile profile;
  (*model)->setProfile(&profile);
  std::vector<float> profiled = decode(engine, a, 12);
  (*model)->setProfile(nullptr);
  expectNear(profiled, decode(expected, b, 12), "profiled");
  EXPECT_EQ(profile.entries().size(), 8u);
  for (const OperatorProfile &entry : profile.entries()) {
    EXPECT_GT(entry.nanoseconds, 0) << entry.name;
    EXPECT_LT(entry.nanoseconds, 1'000'000) << entry.name;
    std::printf("%s %ld calls %.2f us\n", entry.name.c_str(), long(entry.calls),
                double(entry.nanoseconds) * 1e-3);
  }
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < 50; ++step)
    decode(engine, a, 13 + step);
  std::printf("decode step %.1f us\n",
              std::chrono::duration<double, std::micro>(
                  std::chrono::steady_clock::now() - start)
                      .count() /
                  50);
  for (Sequence &s : a)
    engine.release(s);
  for (Sequence &s : b)
    expected.release(s);
  for (Sequence &s : forks)
    engine.release(s);
}

TEST_F(CudaDeviceTest, UploadsAtTheSpeedOfTheLink) {
  auto driver = cu::Driver::open(cu::kDriverLibrary, {"test", "sm_90a"});
  ASSERT_TRUE(driver.ok());
  ThreadPool pool(ThreadPool::defaultThreads());
  std::vector<uint8_t> data(size_t(1) << 30);
  for (size_t i = 0; i < data.size(); i += 4093)
    data[i] = uint8_t(i >> 12);
  octet_tensor_desc desc{};
  desc.module = "m";
  desc.rows = 1 << 15;
  desc.cols = 1 << 15;
  desc.type = OCTET_E4M3;
  octet_weight in{1, {{data.data(), nullptr, desc.rows, -1, -1}}}, out{};
  auto plan = cu::planUpload(desc, in, {});
  ASSERT_TRUE(plan.ok());
  cu::Uploader uploader(**driver, pool, "test");
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(uploader.upload(desc, *plan, out).ok());
  auto memory = uploader.finish();
  ASSERT_TRUE(memory.ok());
  std::printf("upload %.1f GB/s with %d threads\n",
              4 * double(data.size()) * 1e-9 /
                  std::chrono::duration<double>(
                      std::chrono::steady_clock::now() - start)
                      .count(),
              pool.size());
  std::vector<uint8_t> back(data.size());
  cu::Stream stream;
  ASSERT_TRUE(stream.create(**driver, "test").ok());
  Status copied =
      OCTET_CUDA(**driver, "test", cuMemcpyDtoHAsync, back.data(),
                 reinterpret_cast<cu::CUdeviceptr>(out.parts[0].data),
                 back.size(), stream.handle());
  ASSERT_TRUE(copied.ok());
  Status waited =
      OCTET_CUDA(**driver, "test", cuStreamSynchronize, stream.handle());
  ASSERT_TRUE(waited.ok());
  EXPECT_TRUE(back == data);
}

TEST_F(CudaDeviceTest, UnknownKernelNamesItsModule) {
  auto model = load("fake-cuda-device-entry");
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  Engine engine(**model);
  for (int tokens : {5, 1}) { // at once, and while capturing
    Sequence s = prompt(tokens, 1);
    std::vector<float> logits;
    Status status = engine.prefill(s, 1, logits);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.info().subject, "layers.{l}.add");
    std::printf("%s", status.info().format().c_str());
  }
}

TEST_F(CudaDeviceTest, OtherTarget) {
  auto model = load("fake-cuda-no-ptx");
  ASSERT_FALSE(model.ok());
  std::printf("%s", model.status().info().format().c_str());
}

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1)
    objects = argv[1];
  return RUN_ALL_TESTS();
}
