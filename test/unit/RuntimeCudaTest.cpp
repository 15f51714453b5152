//===- RuntimeCudaTest.cpp - A CUDA program, on a driver without a device -===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaFixture.h"
#include "FakeCuda.h"
#include "TempFolder.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/CudaBackend.h"
#include <bit>
#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>

using namespace octet;
using namespace octet::rt;
using namespace octet::test;
namespace fs = std::filesystem;

static const std::string kFakeDriver = OCTET_FAKE_DIR "/fake-cuda.so";

namespace {
class CudaTest : public ::testing::Test {
protected:
  void SetUp() override {
    void *library = dlopen(kFakeDriver.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    reinterpret_cast<void (*)()>(dlsym(library, "fakeCudaReset"))();
    fake = reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda"))();
    folder = octet::test::makeTempFolder();
    ASSERT_FALSE(folder.empty());
    ASSERT_TRUE(writeFakeCheckpoint(folder, fakeTensors()).ok());
  }
  void TearDown() override {
    EXPECT_EQ(fake->mistakes, std::vector<std::string>());
    fs::remove_all(folder);
  }

  Result<std::unique_ptr<Model>> load(const char *program = "fake-cuda-program",
                                      const std::string &driver = kFakeDriver) {
    return loadFake(OCTET_FAKE_DIR, program, folder, driver);
  }
  /// The one line of loading that fails, without the temporary folder.
  std::string loadError(const char *program = "fake-cuda-program",
                        const std::string &driver = kFakeDriver) {
    auto model = load(program, driver);
    EXPECT_FALSE(model.ok());
    if (model.ok())
      return "";
    EXPECT_EQ(model.status().info().exitCode(), 1);
    EXPECT_EQ(model.status().info().subject, folder + "/program");
    return model.status().info().message;
  }

  FakeCuda *fake = nullptr;
  std::string folder;
};
} // namespace

//===----------------------------------------------------------------------===//
// Load
//===----------------------------------------------------------------------===//

// Shards of the host become one matrix, which kernels rewrite and upload copies
// to its place, one scale a row or one for all (W10).
TEST_F(CudaTest, RewritesWeights) {
  const std::string file = folder + "/program";
  ASSERT_TRUE(
      packProgram(OCTET_FAKE_DIR "/fake-cuda-program.so", "", file).ok());
  auto payload = Payload::open(file);
  ASSERT_TRUE(payload.ok());
  auto program = Program::load(*payload);
  ASSERT_TRUE(program.ok());
  ThreadPool pool(2);
  auto backend = cu::CudaBackend::create(**program, pool, kFakeDriver, "");
  ASSERT_TRUE(backend.ok());
  Context ctx;
  ctx.cuda = backend->get();

  constexpr int64_t kRows = 20, kK = 40, kSplit = 13;
  constexpr octet_grid kOne = {1, 1, 0, 0}, kEach = {1, 0, 1, 0};
  octet_param params[4]{};
  params[0].arg = OCTET_REWRITE_FROM;
  params[1].arg = OCTET_REWRITE_TO;
  params[2].arg = OCTET_REWRITE_TO_SCALE;
  params[3].kind = OCTET_PARAM_ROWS;
  const octet_param few[] = {params[0], params[2], params[3]};
  auto kernel = [&](const char *entry, std::span<const octet_param> list) {
    octet_kernel made{};
    made.entry = made.label = entry;
    made.threads = 32;
    made.cluster = 1;
    made.grid[0] = kEach;
    made.grid[1] = made.grid[2] = kOne;
    made.num_params = int64_t(list.size());
    made.params = list.data();
    return made;
  };
  const octet_kernel rows[] = {kernel("fake_rewrite_rows_40", params)};
  const octet_kernel all[] = {kernel("fake_largest_40", few),
                              kernel("fake_rewrite_all_40", params)};
  const octet_variant byRows{-1, 1, rows}, asWhole{-1, 2, all};
  octet_tensor_desc from{}, to{};
  from.module = to.module = "m";
  from.rows = to.rows = kRows;
  from.cols = to.cols = kK;
  from.type = to.scale_type = OCTET_F32;
  to.type = OCTET_E4M3;

  octet_weight made[2];
  std::vector<std::vector<float>> given;
  for (int i = 0; i < 2; ++i) {
    std::vector<float> &data = given.emplace_back(size_t(kRows * kK));
    for (size_t j = 0; j < data.size(); ++j)
      data[j] = float((j * 7 + size_t(i) * 5) % 199);
    octet_launch launch{};
    launch.module = "m";
    launch.num_variants = 1;
    launch.variants = i == 0 ? &byRows : &asWhole;
    to.scale_mode = i == 0 ? OCTET_SCALE_CHANNEL : OCTET_SCALE_TENSOR;
    // As load makes them: gone after `forget`.
    std::vector<float> shards[] = {{data.begin(), data.begin() + kSplit * kK},
                                   {data.begin() + kSplit * kK, data.end()}};
    octet_weight in{2,
                    {{shards[0].data(), nullptr, kSplit, -1, -1},
                     {shards[1].data(), nullptr, kRows - kSplit, -1, -1}}};
    octet_weight out;
    ASSERT_EQ((*backend)->rewrite(ctx, from, to, launch, in, out), 0);
    ASSERT_EQ((*backend)->upload(ctx, to, out, made[i]), 0);
    (*backend)->forget();
  }
  ASSERT_TRUE((*backend)->finishLoad(ctx).ok());
  for (int i = 0; i < 2; ++i) {
    const octet_part &part = made[i].parts[0];
    EXPECT_EQ(part.rows, kRows);
    const auto *codes = static_cast<const uint8_t *>(part.data);
    for (size_t j = 0; j < given[i].size(); ++j)
      ASSERT_EQ(codes[j], uint8_t(given[i][j])) << i << " " << j;
    const auto *scale = static_cast<const float *>(part.scale);
    if (i == 0)
      for (int64_t r = 0; r < kRows; ++r)
        EXPECT_EQ(scale[r], given[0][size_t(r * kK)]);
    else // one a shard (W7)
      EXPECT_EQ(std::pair(scale[0], scale[1]), std::pair(396.0f, 396.0f));
  }
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST_F(CudaTest, ComputesWhatTheCpuDoes) {
  auto model = load(), cpu = load("fake-program");
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  ASSERT_TRUE(cpu.ok()) << cpu.status().info().format();
  Engine engine(**model), expected(**cpu);
  std::vector<Sequence> a, b;
  for (int i = 0; i < 3; ++i) {
    a.push_back(prompt(60 + 31 * i, i));
    b.push_back(prompt(60 + 31 * i, i));
    std::vector<float> x, y;
    ASSERT_TRUE(engine.prefill(a[size_t(i)], 40, x).ok());
    ASSERT_TRUE(expected.prefill(b[size_t(i)], 40, y).ok());
    expectNear(x, y, "prefill " + std::to_string(i));
  }
  for (int step = 0; step < 12; ++step)
    expectNear(decode(engine, a, step), decode(expected, b, step),
               "step " + std::to_string(step));
  for (Sequence &s : a)
    engine.release(s);
  for (Sequence &s : b)
    expected.release(s);
}

TEST_F(CudaTest, DecodeIsCapturedOnceABucket) {
  auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  Engine engine(**model);
  std::vector<Sequence> sequences;
  for (int i = 0; i < 5; ++i) {
    sequences.push_back(prompt(10 + i, i));
    std::vector<float> logits;
    ASSERT_TRUE(engine.prefill(sequences.back(), 0, logits).ok());
  }
  EXPECT_EQ(fake->graphsMade, 0);
  fake->launches.clear();
  std::span<Sequence> all(sequences);
  decode(engine, all.first(3), 0);
  const size_t launches = fake->launches.size();
  EXPECT_EQ(launches, 13u); // embed, five of each layer, norm, head
  for (const FakeCuda::Launch &launch : fake->launches)
    EXPECT_TRUE(launch.captured) << launch.entry;
  // Three and four rows share a graph, which only waits for its logits.
  const int64_t waits = fake->waits;
  const int64_t copies = fake->toDevice;
  for (int step = 1; step < 6; ++step)
    decode(engine, all.first(step % 2 ? 3 : 4), step);
  EXPECT_EQ(fake->waits, waits + 5);
  EXPECT_EQ(fake->toDevice, copies + 5);
  EXPECT_EQ(fake->launches.size(), launches);
  EXPECT_EQ(fake->graphsMade, 1);
  EXPECT_EQ(fake->graphLaunches, 6);
  decode(engine, all, 6); // five rows: the largest bucket has max_seqs, 7
  decode(engine, all.first(1), 7);
  EXPECT_EQ(fake->graphsMade, 3);
  EXPECT_EQ((*model)->cuda()->numGraphs(), 3u);
  for (Sequence &s : sequences)
    engine.release(s);
}

TEST_F(CudaTest, LaunchesAsTheTableSays) {
  auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  Engine engine(**model);
  Sequence s = prompt(20, 1);
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, 1, logits).ok());
  ASSERT_EQ(fake->launches.size(), 13u);
  auto grid = [&](size_t i) {
    const unsigned *g = fake->launches[i].grid;
    return std::vector<unsigned>(g, g + 3);
  };
  using Grid = std::vector<unsigned>;
  EXPECT_EQ(grid(0), Grid({20, 1, 1}));
  EXPECT_EQ(fake->launches[1].entry, "fake_gemm_128_48");
  EXPECT_EQ(grid(1), Grid({2, 20, 1}));
  EXPECT_EQ(fake->launches[1].cluster, 2u);
  EXPECT_EQ(fake->launches[3].entry, "fake_attention");
  EXPECT_EQ(grid(3), Grid({1, 1, 1}));
  EXPECT_EQ(fake->launches[3].shared, 64u); // that of long sequences
  EXPECT_EQ(fake->launches[4].entry, "fake_map_gemm_48_64");
  EXPECT_EQ(grid(4), Grid({3, 1, 1}));
  EXPECT_EQ(fake->launches[4].shared, 2048u);
  EXPECT_EQ(grid(12), Grid({1, 1, 1})); // one output
  for (const FakeCuda::Launch &launch : fake->launches) {
    EXPECT_TRUE(launch.overlaps);
    EXPECT_EQ(launch.block, 128u);
  }
  fake->launches.clear();
  decode(engine, {&s, 1}, 0);
  EXPECT_EQ(grid(1), Grid({2, 1, 1})); // flattened, at most one a processor
  EXPECT_EQ(fake->launches[3].shared, 0u);
  engine.release(s);
}

TEST_F(CudaTest, PaddingChangesNothing) {
  auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  Engine engine(**model);
  std::vector<Sequence> together, alone;
  for (int i = 0; i < 5; ++i) {
    together.push_back(prompt(61 + i, i));
    std::vector<float> logits;
    ASSERT_TRUE(engine.prefill(together.back(), 0, logits).ok());
    // Its pages are shared until one of the two writes.
    alone.push_back(engine.fork(together.back()));
  }
  for (int step = 0; step < 6; ++step) {
    std::vector<float> all = decode(engine, together, step);
    for (size_t i = 0; i < alone.size(); ++i) {
      alone[i].tokens.push_back(together[i].tokens.back());
      std::vector<float> one(size_t(kFakeVocab), 0.0f);
      Feed feed{&alone[i], 1, 1};
      ASSERT_TRUE(engine.step({&feed, 1}, one).ok());
      for (size_t j = 0; j < one.size(); ++j)
        ASSERT_EQ(std::bit_cast<uint32_t>(one[j]),
                  std::bit_cast<uint32_t>(all[i * one.size() + j]))
            << "step " << step << ", sequence " << i << ", logit " << j;
    }
  }
  for (Sequence &s : together)
    engine.release(s);
  for (Sequence &s : alone)
    engine.release(s);
  EXPECT_EQ((*model)->cache().freePages(), (*model)->cache().numPages());
}

TEST_F(CudaTest, TracesAreOfTheGivenRows) {
  struct Sink : TraceSink {
    void trace(const char *name, int64_t index, int32_t type, int64_t rows,
               int64_t cols, const void *data) override {
      const auto *values = static_cast<const float *>(data);
      all[std::string(name) + std::to_string(index)].assign(
          values, values + rows * cols);
    }
    std::map<std::string, std::vector<float>> all;
  };
  auto model = load(), cpu = load("fake-program");
  ASSERT_TRUE(model.ok() && cpu.ok());
  std::map<std::string, std::vector<float>> seen[2];
  for (int which = 0; which < 2; ++which) {
    Engine engine(which ? **cpu : **model);
    Sink sink;
    std::vector<Sequence> s = {prompt(5, 1), prompt(7, 2), prompt(9, 3)};
    std::vector<float> logits;
    for (Sequence &each : s)
      ASSERT_TRUE(engine.prefill(each, 1, logits, &sink).ok());
    std::vector<Feed> feeds;
    for (Sequence &each : s) {
      each.tokens.push_back(4);
      feeds.push_back({&each, 1, 1});
    }
    logits.resize(3 * size_t(kFakeVocab));
    ASSERT_TRUE(engine.step(feeds, logits, &sink).ok());
    seen[which] = std::move(sink.all);
    for (Sequence &each : s)
      engine.release(each);
  }
  ASSERT_EQ(seen[0].size(), 4u);
  for (auto &[name, values] : seen[1])
    expectNear(seen[0][name], values, name);
}

TEST_F(CudaTest, DrawsTokensOnTheDevice) {
  auto model = load(), cpu = load("fake-program");
  ASSERT_TRUE(model.ok() && cpu.ok());
  EXPECT_TRUE((*model)->draws());
  EXPECT_FALSE((*cpu)->draws());
  std::vector<std::vector<int32_t>> drawn[2];
  for (int which = 0; which < 2; ++which) {
    Engine engine(which ? **cpu : **model);
    std::vector<Sequence> s = {prompt(5, 1), prompt(70, 2), prompt(9, 3)};
    std::vector<Feed> feeds;
    for (int step = 0; step < 20; ++step) {
      std::vector<Draw> draws;
      feeds.clear();
      for (size_t i = 0; i < s.size(); ++i) {
        Draw draw{{.seed = 7}, i, uint64_t(step)};
        if (i > 0)
          draw.options.temperature = 0.8f;
        if (i > 1)
          draw.options.topK = 5, draw.options.topP = 0.9f;
        // The long prompt comes in three steps, without outputs at first.
        const int64_t count = std::min<int64_t>(s[i].pending(), 16);
        const bool isLast = count == s[i].pending();
        feeds.push_back({&s[i], count, isLast ? 1 : 0});
        if (isLast)
          draws.push_back(draw);
      }
      std::vector<int32_t> tokens(draws.size(), -2);
      Status done = engine.draw(feeds, draws, tokens);
      ASSERT_TRUE(done.ok()) << done.info().format();
      drawn[which].push_back(tokens);
      size_t next = 0;
      for (const Feed &feed : feeds)
        if (feed.outputs)
          feed.sequence->tokens.push_back(tokens[next++]);
    }
    for (Sequence &each : s)
      engine.release(each);
  }
  EXPECT_EQ(drawn[0], drawn[1]);
}

TEST_F(CudaTest, ProfileHasEachOperator) {
  auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  Engine engine(**model);
  Sequence s = prompt(30, 1);
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, 1, logits).ok());
  Profile profile;
  (*model)->setProfile(&profile);
  std::vector<float> profiled = decode(engine, {&s, 1}, 0);
  (*model)->setProfile(nullptr);
  engine.truncate(s, 30);
  EXPECT_EQ(profiled, decode(engine, {&s, 1}, 0));
  std::map<std::string, OperatorProfile> found;
  for (const OperatorProfile &entry : profile.entries())
    found[entry.name] = entry;
  EXPECT_EQ(found.size(), 8u);
  EXPECT_EQ(found["layers.{l}.o_proj"].calls, 2);
  EXPECT_EQ(found["layers.{l}.o_proj"].kind, OperatorKind::Product);
  EXPECT_EQ(found["layers.{l}.o_proj"].bytes, 2 * 4 * 64 * 48);
  EXPECT_EQ(found["layers.{l}.o_proj"].flops, 2 * 2 * 64 * 48);
  EXPECT_EQ(found["layers.{l}.attn"].kind, OperatorKind::Attention);
  // Keys and values of 31 tokens.
  EXPECT_EQ(found["layers.{l}.attn"].bytes, 2 * 31 * 2 * 32 * 4);
  EXPECT_EQ(found["layers.{l}.attn"].detail, "decode_kernel");
  EXPECT_GT(found["embed"].nanoseconds, 0);
  engine.release(s);
}

TEST_F(CudaTest, GivesEverythingBack) {
  {
    auto model = load();
    ASSERT_TRUE(model.ok()) << model.status().info().format();
    Engine engine(**model);
    std::vector<Sequence> s = {prompt(5, 1)};
    std::vector<float> logits;
    ASSERT_TRUE(engine.prefill(s[0], 1, logits).ok());
    decode(engine, s, 0);
    engine.release(s[0]);
    EXPECT_GT(fake->allocated, 0u);
    EXPECT_EQ(fake->modules, 1);
  }
  EXPECT_EQ(fake->allocated, 0u);
  EXPECT_EQ(fake->pinned, 0u);
  EXPECT_EQ(fake->modules, 0);
  EXPECT_EQ(fake->graphsAlive, 0);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST_F(CudaTest, NoDriver) {
  EXPECT_EQ(loadError("fake-cuda-program", "libnone-of-this.so.1"),
            "compiled for sm_90a, but there is no NVIDIA driver "
            "(libnone-of-this.so.1: cannot open shared object file: No such "
            "file or directory); a driver of CUDA 12.4 or newer is needed");
  // A library that is none.
  EXPECT_EQ(loadError("fake-cuda-program", OCTET_FAKE_DIR "/fake-program.so"),
            "compiled for sm_90a, but the driver has no function cuInit; a "
            "driver of CUDA 12.4 or newer is needed");
}

TEST_F(CudaTest, NoDevice) {
  fake->devices = 0;
  EXPECT_EQ(loadError(),
            "compiled for sm_90a, but there is no NVIDIA GPU that this "
            "process may use; CUDA_VISIBLE_DEVICES may hide them");
}

// One line, without what only we know.
TEST_F(CudaTest, DriverThatDoesNotStart) {
  fake->initResult = 999;
  EXPECT_EQ(loadError(), "compiled for sm_90a, but the driver does not start: "
                         "cuInit says CUDA_ERROR_FAKE (a fake error)");
  fake->initResult = 34;
  EXPECT_EQ(loadError(),
            "compiled for sm_90a, but libcuda is the one that programs are "
            "linked with, not a driver's; a driver of CUDA 12.4 or newer is "
            "needed");
}

TEST_F(CudaTest, OldDriver) {
  fake->version = 12020;
  EXPECT_EQ(loadError(),
            "compiled for sm_90a, but the driver is of CUDA 12.2; a driver of "
            "CUDA 12.4 or newer is needed");
}

TEST_F(CudaTest, OtherDevice) {
  fake->capability = 80;
  EXPECT_EQ(loadError(), "compiled for sm_90a, but the device is 'Fake GPU' of "
                         "compute capability 8.0; compile with --target sm_80");
  fake->capability = 100;
  EXPECT_EQ(loadError(),
            "compiled for sm_90a, but the device is 'Fake GPU' of compute "
            "capability 10.0; compile with --target sm_100f");
  fake->capability = 75;
  EXPECT_TRUE(loadError().ends_with("8.0 is the least that runs"));
}

//===----------------------------------------------------------------------===//
// Close relatives
//===----------------------------------------------------------------------===//

namespace {
class CudaRelativeTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (HasFatalFailure())
      return;
    before = std::getenv("XDG_CACHE_HOME") ? std::getenv("XDG_CACHE_HOME") : "";
    setenv("XDG_CACHE_HOME", folder.c_str(), 1);
    void *library = dlopen(kNvrtc.c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_TRUE(library) << dlerror();
    compiled = static_cast<int *>(dlsym(library, "fakeNvrtcCompiled"));
    target = static_cast<const char *>(dlsym(library, "fakeNvrtcTarget"));
    *compiled = 0;
  }
  void TearDown() override {
    if (before.empty())
      unsetenv("XDG_CACHE_HOME");
    else
      setenv("XDG_CACHE_HOME", before.c_str(), 1);
    CudaTest::TearDown();
  }
  Result<std::unique_ptr<Model>> loadWith(const std::string &nvrtc,
                                          const char *program) {
    return loadFake(OCTET_FAKE_DIR, program, folder, kFakeDriver, nvrtc);
  }
  const std::string kNvrtc = OCTET_FAKE_DIR "/fake-nvrtc.so";
  int *compiled = nullptr;
  const char *target = nullptr;
  std::string before;
};
} // namespace

TEST_F(CudaRelativeTest, CompilesItsSourceOnce) {
  fake->capability = 91;
  std::vector<float> first;
  {
    auto model = loadWith(kNvrtc, "fake-cuda-program");
    ASSERT_TRUE(model.ok()) << model.status().info().format();
    EXPECT_EQ(*compiled, 1);
    EXPECT_STREQ(target, "sm_91a");
    EXPECT_EQ(fake->loaded, "cubin");
    ASSERT_EQ((*model)->warnings().size(), 1u);
    EXPECT_EQ((*model)->warnings()[0],
              "compiled for sm_90a; 1 kernels were compiled for sm_91a, once, "
              "and are kept for the next start");
    auto cpu = load("fake-program");
    ASSERT_TRUE(cpu.ok()) << cpu.status().info().format();
    Engine engine(**model), expected(**cpu);
    std::vector<Sequence> a = {prompt(20, 1)}, b = {prompt(20, 1)};
    std::vector<float> y;
    ASSERT_TRUE(engine.prefill(a[0], 20, first).ok());
    ASSERT_TRUE(expected.prefill(b[0], 20, y).ok());
    expectNear(first, y, "prefill");
    engine.release(a[0]);
    expected.release(b[0]);
  }
  // The second start takes it from the cache.
  auto model = loadWith(kNvrtc, "fake-cuda-program");
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  EXPECT_EQ(*compiled, 1);
  EXPECT_TRUE((*model)->warnings().empty());
}

TEST_F(CudaRelativeTest, NoNvrtc) {
  fake->capability = 91;
  auto model = loadWith(folder + "/none.so", "fake-cuda-program");
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.status().info().exitCode(), 1);
  const std::string &message = model.status().info().message;
  EXPECT_TRUE(message.starts_with(
      "compiled for sm_90a; for the device, 'Fake GPU' of compute capability "
      "9.1, its kernels are compiled here, but " +
      folder + "/none.so: cannot be opened as NVRTC: "))
      << message;
}

TEST_F(CudaRelativeTest, NvrtcDoesNotKnowTheDevice) {
  fake->capability = 94;
  auto model = loadWith(kNvrtc, "fake-cuda-program");
  ASSERT_FALSE(model.ok());
  const ErrorInfo &error = model.status().info();
  EXPECT_EQ(error.exitCode(), 1);
  EXPECT_NE(error.message.find("NVRTC 13.7 does not compile it for sm_94a: "
                               "NVRTC_ERROR_INVALID_OPTION"),
            std::string::npos)
      << error.message;
  EXPECT_EQ(error.notes, std::vector<std::string>{
                             "nvrtc: error: invalid --gpu-architecture"});
}

// Where machine code runs, or no relative is, NVRTC is not opened.
TEST_F(CudaRelativeTest, OnlyForRelatives) {
  EXPECT_TRUE(loadWith(folder + "/none.so", "fake-cuda-program").ok());
  fake->capability = 100;
  auto model = loadWith(kNvrtc, "fake-cuda-program");
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(model.status().info().message.starts_with(
      "compiled for sm_90a, but the device is 'Fake GPU' of compute capability "
      "10.0"));
  fake->capability = 89;
  EXPECT_TRUE(loadWith(folder + "/none.so", "fake-cuda-sm89").ok());
  fake->capability = 86; // below the target
  EXPECT_FALSE(loadWith(kNvrtc, "fake-cuda-sm89").ok());
  EXPECT_EQ(*compiled, 0);
}

//===----------------------------------------------------------------------===//
// PTX
//===----------------------------------------------------------------------===//

TEST_F(CudaTest, CompilesPtxOnNewerDevices) {
  fake->capability = 90;
  {
    auto model = load("fake-cuda-sm89");
    ASSERT_TRUE(model.ok()) << model.status().info().format();
    EXPECT_EQ(fake->loaded, "ptx");
  }
  fake->capability = 89;
  {
    auto model = load("fake-cuda-sm89");
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(fake->loaded, "cubin");
  }
  fake->takesMachineCode = false;
  {
    auto model = load("fake-cuda-sm89");
    ASSERT_TRUE(model.ok());
    EXPECT_EQ(fake->loaded, "ptx");
  }
  fake->takesPtx = false;
  auto model = load("fake-cuda-sm89");
  ASSERT_FALSE(model.ok());
  const ErrorInfo &error = model.status().info();
  EXPECT_TRUE(error.message.starts_with("cuModuleLoadDataEx: CUDA_ERROR_FAKE "
                                        "(a fake error), at Images.cpp:"))
      << error.message;
  ASSERT_EQ(error.notes.size(), 1u);
  EXPECT_EQ(error.notes[0],
            "image 'fake_kernels.cu' on Fake GPU, driver of CUDA 13.0; a newer "
            "driver may take it");
}

TEST_F(CudaTest, NoPtxForNewerDevices) {
  EXPECT_EQ(loadError("fake-cuda-no-ptx"),
            "compiled for sm_89, but the device is 'Fake GPU' of compute "
            "capability 9.0; compile with --target sm_90a");
}

TEST_F(CudaTest, TooLittleMemory) {
  fake->memory = 700000;
  const std::string message = loadError();
  // 7 sequences of 200 tokens, of 2 layers.
  EXPECT_TRUE(message.starts_with("needs ") &&
              message.find(" bytes of device memory (weights 60000, KV cache "
                           "716800, intermediate values ") != message.npos &&
              message.ends_with(", 700000 of 700000 are free on 'Fake GPU'; "
                                "compile with a smaller --max-context or "
                                "--max-seqs"))
      << message;
}

TEST_F(CudaTest, UnknownKernel) {
  auto model = load("fake-cuda-entry");
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  Sequence s = prompt(5, 1);
  std::vector<float> logits;
  Status status = engine.prefill(s, 1, logits);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().subject, "layers.{l}.add");
  EXPECT_NE(status.info().message.find(
                "kernel 'fake_gone' is not in image 'fake_kernels.cu'"),
            std::string::npos)
      << status.info().message;
}

TEST_F(CudaTest, ParametersAreThoseOfTheKernel) {
  struct {
    const char *program, *message;
  } cases[] = {{"fake-cuda-size",
                "kernel 'fake_add' has a parameter 3 of 4 bytes, its launch "
                "has one of 8"},
               {"fake-cuda-count", "kernel 'fake_add' has 4 parameters, its "
                                   "launch has 5"}};
  for (auto [program, message] : cases) {
    auto model = load(program);
    ASSERT_TRUE(model.ok());
    Engine engine(**model);
    Sequence s = prompt(5, 1);
    std::vector<float> logits;
    Status status = engine.prefill(s, 1, logits);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.info().subject, "layers.{l}.add");
    EXPECT_NE(status.info().message.find(message), std::string::npos)
        << status.info().message;
  }
}

TEST_F(CudaTest, FailedLaunchNamesItsModule) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  std::vector<Sequence> s = {prompt(5, 1)};
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s[0], 1, logits).ok());
  for (bool captured : {false, true}) {
    s[0].tokens.push_back(1);
    if (!captured)
      s[0].tokens.push_back(1);
    fake->failLaunch = int64_t(fake->launches.size()) + 4;
    Feed feed{&s[0], s[0].pending(), 1};
    logits.resize(size_t(kFakeVocab));
    Status status = engine.step({&feed, 1}, logits);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.info().subject, "layers.{l}.o_proj");
    EXPECT_TRUE(status.info().message.starts_with(
        "cuLaunchKernelEx: CUDA_ERROR_FAKE (a fake error), at Launch.cpp:"))
        << status.info().message;
    ASSERT_EQ(status.info().notes.size(), 1u);
    EXPECT_TRUE(status.info().notes[0].starts_with(
        "kernel o_kernel (fake_map_gemm_48_64), grid 1x1x1 of 128 threads"));
    fake->failLaunch = -1;
    engine.truncate(s[0], 5);
  }
  // The model is usable after it.
  decode(engine, s, 0);
  engine.release(s[0]);
}

TEST_F(CudaTest, FailureOnTheDevice) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  Sequence s = prompt(5, 1);
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, 1, logits).ok());
  s.tokens.push_back(1);
  fake->failAfterLaunch = 3;
  Status status = engine.prefill(s, 1, logits);
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(status.info().message.starts_with("cuStreamSynchronize: "));
  ASSERT_EQ(status.info().notes.size(), 1u);
  EXPECT_NE(status.info().notes[0].find("--trace hidden"), std::string::npos);
}

TEST_F(CudaTest, TracedFailureNamesItsModule) {
  struct Sink : TraceSink {
    void trace(const char *, int64_t, int32_t, int64_t, int64_t,
               const void *) override {}
  } sink;
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  Sequence s = prompt(5, 1);
  std::vector<float> logits;
  fake->failAfterLaunch = 3;
  Status status = engine.prefill(s, 1, logits, &sink);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().subject, "layers.{l}.attn");
}
