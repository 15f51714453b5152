//===- KernelCompiler.cpp - Many kernels at once --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/KernelCompiler.h"
#include "octet/Support/Escape.h"
#include <algorithm>
#include <atomic>
#include <mutex>
#include <sstream>
#include <thread>

using namespace octet;
using namespace octet::cuda;

/// Calls work(i) for each i below `count` on up to `jobs` threads.
static void forEach(size_t count, unsigned jobs,
                    const std::function<void(size_t)> &work) {
  if (jobs == 0)
    jobs = std::max(std::thread::hardware_concurrency(), 1u);
  std::atomic<size_t> next = 0;
  auto loop = [&] {
    for (size_t i; (i = next++) < count;)
      work(i);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min<size_t>(jobs, count); ++i)
    threads.emplace_back(loop);
  loop();
  for (std::thread &thread : threads)
    thread.join();
}

/// All of them from the cache, as one version of NVRTC made them; nothing if
/// one is missing.
static std::optional<CompiledKernels>
findAll(std::span<const KernelSource> sources, std::string_view target,
        const std::string &version, const CubinCache &cache) {
  CompiledKernels result;
  result.version = version;
  for (const KernelSource &source : sources) {
    auto found = cache.find(makeKey(source.source, target, version));
    if (!found)
      return std::nullopt;
    result.kernels.push_back(std::move(*found));
  }
  return result;
}

/// The versions of NVRTC that the cache has kernels of, the newest first.
static std::vector<std::string> listVersions(const CubinCache &cache) {
  std::vector<std::pair<std::vector<int>, std::string>> versions;
  auto entries = cache.list();
  if (!entries)
    return {};
  for (const CacheEntry &entry : *entries) {
    std::vector<int> numbers;
    std::istringstream text(entry.nvrtc);
    for (int number; text >> number; text.ignore())
      numbers.push_back(number);
    if (!entry.damaged)
      versions.emplace_back(std::move(numbers), entry.nvrtc);
  }
  std::ranges::sort(versions, std::greater<>());
  const auto same = std::ranges::unique(versions);
  versions.erase(same.begin(), same.end());
  std::vector<std::string> result;
  for (auto &[numbers, text] : versions)
    result.push_back(std::move(text));
  return result;
}

std::optional<CompiledKernels>
octet::cuda::findKernels(std::span<const KernelSource> sources,
                         std::string_view target, const CubinCache &cache) {
  for (const std::string &version : listVersions(cache))
    if (auto all = findAll(sources, target, version, cache))
      return all;
  return std::nullopt;
}

Result<CompiledKernels>
octet::cuda::compileKernels(std::span<const KernelSource> sources,
                            std::string_view target,
                            const CompilerOptions &options) {
  CompiledKernels result;
  result.kernels.resize(sources.size());
  if (sources.empty())
    return result;
  CubinCache cache = !options.cached         ? CubinCache("")
                     : options.cache.empty() ? CubinCache::ofUser()
                                             : CubinCache(options.cache);
  // Its version is part of every key.
  Result<Nvrtc> opened = Nvrtc::open(options.nvrtc);
  if (!opened && options.nvrtc.empty())
    if (auto all = findKernels(sources, target, cache))
      return std::move(*all);
  OCTET_TRY_ASSIGN(Nvrtc nvrtc, std::move(opened));
  result.version = nvrtc.version();

  std::vector<std::string> keys(sources.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < sources.size(); ++i) {
    keys[i] = makeKey(sources[i].source, target, nvrtc.version());
    if (std::optional<CompiledKernel> found = cache.find(keys[i]))
      result.kernels[i] = std::move(*found);
    else
      missing.push_back(i);
  }
  result.numCompiled = missing.size();
  if (missing.empty())
    return result;
  if (options.cached && cache.path().empty())
    result.cacheProblem = machineError(
        "the kernels' cache", "neither XDG_CACHE_HOME nor HOME names a "
                              "folder");
  if (options.onCompile)
    options.onCompile(missing.size());

  std::vector<Status> failures(missing.size());
  std::mutex mutex; // of result.cacheProblem
  std::atomic<bool> failed = false;
  forEach(missing.size(), options.jobs, [&](size_t m) {
    if (failed)
      return;
    const size_t i = missing[m];
    Result<CompiledKernel> made =
        nvrtc.compile(sources[i].entry, sources[i].source, target);
    if (!made) {
      failures[m] = made.takeStatus();
      failed = true;
      return;
    }
    Status kept =
        cache.add(keys[i], sources[i].entry, target, nvrtc.version(), *made);
    result.kernels[i] = made.take();
    if (kept.ok())
      return;
    std::lock_guard lock(mutex);
    result.cacheProblem = std::move(kept);
  });
  for (size_t m = 0; m < missing.size(); ++m) {
    if (failures[m].ok())
      continue;
    // Of the one that is told of, and only where it is nowhere else.
    const KernelSource &source = sources[missing[m]];
    const std::string kept =
        options.dumped.empty()
            ? keepSource(source.entry, source.source)
            : options.dumped + "/" + std::string(source.entry) + ".cu";
    ErrorInfo error = failures[m].takeInfo();
    if (!kept.empty())
      error.message += "; the source is in " + escapePath(kept);
    return error;
  }
  return result;
}
