//===- CubinCacheTest.cpp - Keys, files and NVRTC -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/KernelCompiler.h"
#include "octet/Support/Sha256.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace octet;
using namespace octet::cuda;
namespace fs = std::filesystem;

namespace {

/// A folder of its own, removed at the end.
struct CubinCacheTest : testing::Test {
  CubinCacheTest()
      : folder(fs::temp_directory_path() /
               ("octet-cache-test-" + std::to_string(::getpid()))) {
    fs::remove_all(folder);
  }
  ~CubinCacheTest() override { fs::remove_all(folder); }

  fs::path fileOf(const std::string &key) { return folder / (key + ".kernel"); }

  fs::path folder;
  std::string key = makeKey("source", "sm_90a", "13.0");
  CompiledKernel kernel{std::string("\0cubin\xff", 7), "ptx"};
};

std::string hashOf(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.finishHex();
}

constexpr std::string_view kGood =
    "extern \"C\" __global__ void good(float *x) { x[threadIdx.x] += 1; }\n";

} // namespace

// The examples of FIPS 180-4, and both sides of a block's end.
TEST(Sha256, Examples) {
  EXPECT_EQ(hashOf(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991"
            "b7852b855");
  EXPECT_EQ(hashOf("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410"
            "ff61f20015ad");
  EXPECT_EQ(hashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hashOf(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  Sha256 pieces;
  std::string text(200, 'x');
  for (size_t at = 0; at < text.size(); at += 7)
    pieces.update(std::string_view(text).substr(at, 7));
  EXPECT_EQ(pieces.finishHex(), hashOf(text));
}

// Everything that decides what NVRTC makes is in the key.
TEST_F(CubinCacheTest, Keys) {
  EXPECT_EQ(key, makeKey("source", "sm_90a", "13.0"));
  EXPECT_NE(key, makeKey("source ", "sm_90a", "13.0"));
  EXPECT_NE(key, makeKey("source", "sm_89", "13.0"));
  EXPECT_NE(key, makeKey("source", "sm_90a", "13.1"));
}

TEST_F(CubinCacheTest, FindsWhatWasAdded) {
  CubinCache cache(folder.string());
  EXPECT_FALSE(cache.find(key));
  ASSERT_TRUE(cache.add(key, "entry", "sm_90a", "13.0", kernel).ok());
  std::optional<CompiledKernel> found = cache.find(key);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cubin, kernel.cubin);
  EXPECT_EQ(found->ptx, "ptx");
  auto entries = cache.list();
  ASSERT_TRUE(entries.ok());
  ASSERT_EQ(entries->size(), 1u);
  EXPECT_EQ((*entries)[0].entry, "entry");
  EXPECT_EQ((*entries)[0].target, "sm_90a");
  EXPECT_EQ((*entries)[0].nvrtc, "13.0");
}

// Each byte counts, and so does the length.
TEST_F(CubinCacheTest, DamagedIsAMiss) {
  CubinCache cache(folder.string());
  ASSERT_TRUE(cache.add(key, "entry", "sm_90a", "13.0", kernel).ok());
  std::string good;
  {
    std::ifstream in(fileOf(key), std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  auto write = [&](const std::string &bytes) {
    std::ofstream(fileOf(key), std::ios::binary | std::ios::trunc) << bytes;
  };
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = char(bad[i] ^ 1);
    write(bad);
    EXPECT_FALSE(cache.find(key)) << "byte " << i;
  }
  for (size_t size = 0; size < good.size(); ++size) {
    write(good.substr(0, size));
    EXPECT_FALSE(cache.find(key)) << size << " bytes";
  }
  // Whole, but under another's name: its code is not that of the source.
  const std::string other = makeKey("other", "sm_90a", "13.0");
  write(good);
  fs::copy_file(fileOf(key), fileOf(other));
  EXPECT_TRUE(cache.find(key));
  EXPECT_FALSE(cache.find(other));
  fs::remove(fileOf(other));
  write(good.substr(0, good.size() - 1));
  auto entries = cache.list();
  ASSERT_TRUE(entries.ok());
  EXPECT_TRUE((*entries)[0].damaged);
  ASSERT_TRUE(cache.add(key, "entry", "sm_90a", "13.0", kernel).ok());
  EXPECT_TRUE(cache.find(key));
}

// Nobody reads it: to write into it would wait for ever.
TEST_F(CubinCacheTest, AFifoIsReplaced) {
  fs::create_directories(folder);
  ASSERT_EQ(::mkfifo(fileOf(key).c_str(), 0600), 0);
  CubinCache cache(folder);
  EXPECT_FALSE(cache.find(key));
  ASSERT_TRUE(cache.add(key, "octet_k", "sm_90a", "13.0", kernel).ok());
  EXPECT_TRUE(cache.find(key));
}

TEST_F(CubinCacheTest, ManyWriters) {
  CubinCache cache(folder.string());
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(cache.add(key, "entry", "sm_90a", "13.0", kernel).ok());
        EXPECT_TRUE(cache.find(key));
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 1);
}

TEST_F(CubinCacheTest, ExportsAndClears) {
  CubinCache cache(folder.string()), other((folder / "other").string());
  ASSERT_TRUE(cache.add(key, "entry", "sm_90a", "13.0", kernel).ok());
  EXPECT_EQ(cache.copyTo(other)->copied, 1);
  EXPECT_EQ(cache.copyTo(other)->copied, 0);
  EXPECT_EQ(cache.copyTo(other)->present, 1);
  // A damaged one is not passed on, and keeps none behind it from being.
  std::string bad = makeKey("other", "sm_90a", "13.0");
  std::ofstream(fileOf(bad)) << "octet kernel 1\n";
  std::string next = makeKey("next", "sm_90a", "13.0");
  ASSERT_TRUE(cache.add(next, "next", "sm_90a", "13.0", kernel).ok());
  auto copied = cache.copyTo(other);
  EXPECT_EQ(copied->copied, 1);
  EXPECT_EQ(copied->damaged, std::vector<std::string>{fileOf(bad)});
  std::ofstream(folder / "notes.txt") << "mine";
  EXPECT_EQ(*cache.clear(), 3);
  EXPECT_FALSE(cache.find(key));
  EXPECT_TRUE(other.find(key));
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
  EXPECT_EQ(*CubinCache((folder / "none").string()).clear(), 0);
}

TEST(Templates, IncludesAreFound) {
  ASSERT_FALSE(getTemplates().empty());
  std::vector<Template> found = findIncluded("#include \"ptx/tma.cuh\"\n");
  std::vector<std::string_view> names;
  for (const Template &each : found)
    names.push_back(each.name);
  EXPECT_TRUE(std::count(names.begin(), names.end(), "ptx/tma.cuh") == 1);
  EXPECT_TRUE(std::count(names.begin(), names.end(), "ptx/base.cuh") == 1);
  EXPECT_TRUE(findIncluded("#include \"nothing.cuh\"").empty());
}

TEST(Nvrtc, SaysWhereItIsNot) {
  Result<Nvrtc> none = Nvrtc::open("/nowhere/libnvrtc.so.13");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().info().kind, ErrorKind::Machine);
  EXPECT_NE(none.status().info().format().find("/nowhere"), std::string::npos);
  // A library, and another one.
  Result<Nvrtc> other = Nvrtc::open("libm.so.6");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.status().info().message.find("has no function nvrtc"),
            std::string::npos);
}

TEST_F(CubinCacheTest, CompilesOnce) {
  if (!Nvrtc::open())
    GTEST_SKIP() << "NVRTC is not here";
  CompilerOptions options;
  options.cache = folder.string();
  options.jobs = 2;
  KernelSource sources[] = {{"good", kGood}, {"better", kGood}};
  for (std::string_view target : {"sm_80", "sm_90a", "sm_100f"}) {
    Result<CompiledKernels> made = compileKernels(sources, target, options);
    ASSERT_TRUE(made.ok()) << made.status().info().format();
    // Equal sources have one key, and may both have been missing.
    EXPECT_EQ(made->numCompiled, 2u);
    EXPECT_EQ(made->kernels[0].cubin.substr(0, 4), "\x7f"
                                                   "ELF");
    EXPECT_EQ(made->kernels[0].ptx.empty(), target != "sm_80");
    Result<CompiledKernels> again = compileKernels(sources, target, options);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->numCompiled, 0u);
    EXPECT_EQ(again->kernels[1].cubin, made->kernels[1].cubin);
    EXPECT_TRUE(again->cacheProblem.ok());
  }
}

// Without NVRTC: all of one version, the newest.
TEST_F(CubinCacheTest, FindsAllOfOneVersion) {
  CubinCache cache(folder);
  KernelSource sources[] = {{"a", "source a"}, {"b", "source b"}};
  auto keep = [&](int i, const char *version) {
    const CompiledKernel made{std::string(version) + sources[i].entry.data(),
                              ""};
    ASSERT_TRUE(cache
                    .add(makeKey(sources[i].source, "sm_90a", version),
                         sources[i].entry, "sm_90a", version, made)
                    .ok());
  };
  EXPECT_FALSE(findKernels(sources, "sm_90a", cache));
  keep(0, "13.10");
  keep(1, "13.9");
  EXPECT_FALSE(findKernels(sources, "sm_90a", cache));
  keep(0, "13.9");
  auto found = findKernels(sources, "sm_90a", cache);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version, "13.9");
  EXPECT_EQ(found->kernels[1].cubin, "13.9b");
  EXPECT_EQ(found->numCompiled, 0u);
  keep(1, "13.10");
  EXPECT_EQ(findKernels(sources, "sm_90a", cache)->version, "13.10");
  EXPECT_FALSE(findKernels(sources, "sm_89", cache));
}

// The log says what and where, and the source is kept.
TEST_F(CubinCacheTest, FailureKeepsTheSource) {
  if (!Nvrtc::open())
    GTEST_SKIP() << "NVRTC is not here";
  CompilerOptions options;
  options.cache = folder.string();
  KernelSource bad{"bad_kernel", "\nextern \"C\" __global__ void f() { y; }\n"};
  Result<CompiledKernels> made = compileKernels({&bad, 1}, "sm_90a", options);
  ASSERT_FALSE(made.ok());
  ErrorInfo error = made.status().info();
  EXPECT_EQ(error.kind, ErrorKind::Internal);
  EXPECT_NE(error.format().find("bad_kernel.cu(2): error"), std::string::npos)
      << error.format();
  size_t at = error.message.find("the source is in ");
  ASSERT_NE(at, std::string::npos);
  std::string path = error.message.substr(at + 17);
  EXPECT_TRUE(fs::exists(path)) << path;
  fs::remove(path);
  // Where it has been written already it is not written again.
  options.dumped = "sources";
  made = compileKernels({&bad, 1}, "sm_90a", options);
  EXPECT_TRUE(made.status().info().message.ends_with(
      "the source is in sources/bad_kernel.cu"));
  EXPECT_FALSE(fs::exists(path)) << path;
}
