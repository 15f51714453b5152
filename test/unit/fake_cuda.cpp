//===- fake_cuda.cpp - A driver without a device --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CubinParams.h"
#include "FakeCuda.h"
#include "fake_kernels.h"
#include "runtime/cuda/DriverTypes.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

using namespace octet::rt::cu;
using octet::test::FakeCuda;

#define FAKE extern "C" __attribute__((visibility("default")))

/// FAKE_CUDA=80,8 pretends a device of capability 8.0 with 8 GiB.
static FakeCuda *makeState() {
  auto *fake = new FakeCuda();
  if (const char *text = std::getenv("FAKE_CUDA")) {
    unsigned gibibytes = 1;
    std::sscanf(text, "%d,%u", &fake->capability, &gibibytes);
    fake->memory = size_t(gibibytes) << 30;
  }
  return fake;
}
static FakeCuda *state = makeState();
FAKE FakeCuda *fakeCuda() { return state; }

static constexpr CUresult kLaunchFailure = 719;
static constexpr CUresult kCaptureUnsupported = 900;

using Work = std::function<void()>;

struct octet::rt::cu::CUstream_st {
  std::deque<Work> queue;
  bool captures = false;
  std::vector<Work> captured;
  void run() {
    while (!queue.empty()) {
      Work work = std::move(queue.front());
      queue.pop_front();
      work();
    }
  }
};
struct octet::rt::cu::CUevent_st {
  CUstream stream = nullptr;
  double time = 0;
};
struct octet::rt::cu::CUgraph_st {
  std::vector<Work> work;
};
struct octet::rt::cu::CUgraphExec_st {
  std::vector<Work> work;
};
struct octet::rt::cu::CUfunc_st {
  std::string entry;
  octet::test::FakeKernel kernel;
  int shared = 0;
};
struct octet::rt::cu::CUmod_st {
  /// Of a real cubin: its kernels are launched and do nothing.
  std::map<std::string, std::vector<size_t>> cubin;
  std::vector<std::unique_ptr<CUfunc_st>> functions;
};

static std::vector<CUstream> streams;
static std::map<const char *, size_t> hostBlocks; ///< pinned
static std::map<CUdeviceptr, size_t> deviceBlocks;
static bool brokenContext = false;
static double ticks = 0;

static void mistake(std::string what) {
  state->mistakes.push_back(what);
  // A process that is not a test of ours has no other way to see it.
  if (std::getenv("FAKE_CUDA"))
    std::fprintf(stderr, "mistake: %s\n", what.c_str());
}

/// Back to a driver that has just been opened.
FAKE void fakeCudaReset() {
  for (CUstream stream : streams)
    stream->queue.clear();
  *state = FakeCuda();
  brokenContext = false;
}

static void runAll() {
  for (CUstream stream : streams)
    stream->run();
}

static bool isPinned(const void *p) {
  auto it = hostBlocks.upper_bound(static_cast<const char *>(p));
  if (it == hostBlocks.begin())
    return false;
  --it;
  return static_cast<const char *>(p) < it->first + it->second;
}

/// Whether [at, at + bytes) lies in one block of device memory.
static bool isDevice(CUdeviceptr at, size_t bytes) {
  auto it = deviceBlocks.upper_bound(at);
  if (it == deviceBlocks.begin())
    return false;
  --it;
  return at + bytes <= it->first + it->second;
}

static CUresult add(CUstream stream, Work work) {
  if (brokenContext)
    return kLaunchFailure;
  if (stream->captures)
    stream->captured.push_back(std::move(work));
  else
    stream->queue.push_back(std::move(work));
  return kSuccess;
}

//===----------------------------------------------------------------------===//
// Device and memory
//===----------------------------------------------------------------------===//

FAKE CUresult cuInit(unsigned) {
  return state->devices ? state->initResult : kNoDevice;
}
FAKE CUresult cuDriverGetVersion(int *version) {
  *version = state->version;
  return kSuccess;
}
FAKE CUresult cuGetErrorName(CUresult, const char **text) {
  *text = "CUDA_ERROR_FAKE";
  return kSuccess;
}
FAKE CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "a fake error";
  return kSuccess;
}
FAKE CUresult cuDeviceGetCount(int *count) {
  *count = state->devices;
  return kSuccess;
}
FAKE CUresult cuDeviceGet(CUdevice *device, int) {
  *device = 0;
  return kSuccess;
}
FAKE CUresult cuDeviceGetName(char *name, int bytes, CUdevice) {
  std::strncpy(name, "Fake GPU", size_t(bytes));
  return kSuccess;
}
FAKE CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  switch (attribute) {
  case kCapabilityMajor:
    *value = state->capability / 10;
    return kSuccess;
  case kCapabilityMinor:
    *value = state->capability % 10;
    return kSuccess;
  case kMultiprocessorCount:
    *value = state->multiprocessors;
    return kSuccess;
  case kMaxSharedOptin:
    *value = state->sharedBytes;
    return kSuccess;
  case kClockKilohertz:
    *value = 1000000;
    return kSuccess;
  case kL2CacheSize:
    *value = 1 << 20;
    return kSuccess;
  }
  return kInvalidValue;
}
FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(1);
  return kSuccess;
}
FAKE CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return kSuccess; }
FAKE CUresult cuCtxSetCurrent(CUcontext) { return kSuccess; }
FAKE CUresult cuMemGetInfo_v2(size_t *available, size_t *total) {
  *total = state->memory;
  *available = state->memory - std::min(state->allocated, state->memory);
  return kSuccess;
}
FAKE CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  if (bytes == 0)
    return kInvalidValue;
  if (state->allocated + bytes > state->memory)
    return kOutOfMemory;
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  std::memset(memory, 0xFF, bytes); // NaN: nobody promised zeros
  *address = reinterpret_cast<CUdeviceptr>(memory);
  deviceBlocks[*address] = bytes;
  state->allocated += bytes;
  return kSuccess;
}
FAKE CUresult cuMemFree_v2(CUdeviceptr address) {
  runAll();
  auto it = deviceBlocks.find(address);
  if (it == deviceBlocks.end()) {
    mistake("cuMemFree of no block");
    return kInvalidValue;
  }
  state->allocated -= it->second;
  deviceBlocks.erase(it);
  std::free(reinterpret_cast<void *>(address));
  return kSuccess;
}
FAKE CUresult cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  *address = std::malloc(bytes);
  hostBlocks[static_cast<char *>(*address)] = bytes;
  state->pinned += bytes;
  return kSuccess;
}
FAKE CUresult cuMemFreeHost(void *address) {
  auto it = hostBlocks.find(static_cast<char *>(address));
  if (it == hostBlocks.end())
    return kInvalidValue;
  state->pinned -= it->second;
  hostBlocks.erase(it);
  std::free(address);
  return kSuccess;
}

FAKE CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from,
                                   size_t bytes, CUstream stream) {
  if (!isDevice(to, bytes))
    mistake("cuMemcpyHtoDAsync outside of device memory");
  ++state->toDevice;
  state->toDeviceBytes += int64_t(bytes);
  if (!isPinned(from) && !stream->captures)
    stream->run(); // The driver takes it at once.
  CUresult result = add(
      stream, [=] { std::memcpy(reinterpret_cast<void *>(to), from, bytes); });
  if (!isPinned(from) && !stream->captures)
    stream->run();
  return result;
}
FAKE CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes,
                                   CUstream stream) {
  if (!isDevice(from, bytes))
    mistake("cuMemcpyDtoHAsync outside of device memory");
  CUresult result = add(
      stream, [=] { std::memcpy(to, reinterpret_cast<void *>(from), bytes); });
  if (!isPinned(to) && !stream->captures)
    stream->run();
  return result;
}
FAKE CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from,
                                   size_t bytes, CUstream stream) {
  if (!isDevice(to, bytes) || !isDevice(from, bytes))
    mistake("cuMemcpyDtoDAsync outside of device memory");
  return add(stream, [=] {
    std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<void *>(from),
                bytes);
  });
}
FAKE CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                              CUstream stream) {
  if (!isDevice(to, bytes))
    mistake("cuMemsetD8Async outside of device memory");
  return add(stream,
             [=] { std::memset(reinterpret_cast<void *>(to), value, bytes); });
}

//===----------------------------------------------------------------------===//
// Streams, events, graphs
//===----------------------------------------------------------------------===//

FAKE CUresult cuStreamCreate(CUstream *stream, unsigned) {
  *stream = new CUstream_st();
  streams.push_back(*stream);
  return kSuccess;
}
FAKE CUresult cuStreamDestroy_v2(CUstream stream) {
  std::erase(streams, stream);
  delete stream;
  return kSuccess;
}
FAKE CUresult cuStreamSynchronize(CUstream stream) {
  if (stream->captures) {
    mistake("cuStreamSynchronize of a stream that is captured");
    return kCaptureUnsupported;
  }
  ++state->waits;
  stream->run();
  if (state->failAfterLaunch >= 0 &&
      int64_t(state->launches.size()) > state->failAfterLaunch)
    brokenContext = true;
  return brokenContext ? kLaunchFailure : kSuccess;
}
FAKE CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  if (mode != kCaptureRelaxed || stream->captures)
    return kInvalidValue;
  stream->captures = true;
  stream->captured.clear();
  return kSuccess;
}
FAKE CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  stream->captures = false;
  *graph = new CUgraph_st{std::move(stream->captured)};
  return kSuccess;
}
FAKE CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                          unsigned long long) {
  *exec = new CUgraphExec_st{graph->work};
  ++state->graphsMade;
  ++state->graphsAlive;
  return kSuccess;
}
FAKE CUresult cuGraphDestroy(CUgraph graph) {
  delete graph;
  return kSuccess;
}
FAKE CUresult cuGraphExecDestroy(CUgraphExec exec) {
  --state->graphsAlive;
  delete exec;
  return kSuccess;
}
FAKE CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ++state->graphLaunches;
  for (const Work &work : exec->work)
    if (CUresult result = add(stream, work))
      return result;
  return kSuccess;
}
FAKE CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = new CUevent_st();
  return kSuccess;
}
FAKE CUresult cuEventDestroy_v2(CUevent event) {
  delete event;
  return kSuccess;
}
FAKE CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
                                     unsigned flags) {
  if (stream->captures != (flags == kEventRecordExternal))
    mistake("an event inside of a capture needs the flag for it");
  event->stream = stream;
  return add(stream, [=] { event->time = ++ticks; });
}
FAKE CUresult cuEventRecord(CUevent event, CUstream stream) {
  return cuEventRecordWithFlags(event, stream, 0);
}
FAKE CUresult cuEventSynchronize(CUevent event) {
  if (event->stream)
    event->stream->run();
  return kSuccess;
}
FAKE CUresult cuEventElapsedTime(float *milliseconds, CUevent a, CUevent b) {
  *milliseconds = float(b->time - a->time);
  return a->time > 0 && b->time > 0 ? kSuccess : kInvalidValue;
}

//===----------------------------------------------------------------------===//
// Modules and launches
//===----------------------------------------------------------------------===//

/// In place of a kernel of a real cubin: addresses and tensor maps are of
/// device memory.
static bool checkParams(const octet::test::FakeKernel &kernel,
                        const void *const *params) {
  // Of the cache, whose size no program knows.
  constexpr uint64_t kUnknownRows = uint64_t(1) << 30;
  bool isGood = true;
  for (size_t i = 0; i < kernel.params.size(); ++i) {
    uint64_t words[8];
    if (kernel.params[i] == 'i')
      continue;
    std::memcpy(words, params[i], kernel.params[i] == 'p' ? 8 : sizeof(words));
    if (kernel.params[i] == 'p')
      isGood &= isDevice(words[0], 1);
    else
      isGood &= isDevice(words[0], words[2] >= kUnknownRows
                                       ? 1
                                       : (words[2] - 1) * words[3] + words[1]);
  }
  return isGood;
}

FAKE CUresult cuFuncGetParamInfo(CUfunction function, size_t index,
                                 size_t *offset, size_t *size) {
  if (index >= function->kernel.params.size())
    return kInvalidValue;
  const char kind = function->kernel.params[index];
  *offset = 0;
  *size = kind == 'p' ? 8 : kind == 'i' ? 4 : 128;
  return kSuccess;
}

FAKE CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
                                 unsigned options, int *names, void **values) {
  static std::mutex mutex; // a program loads its images in parallel
  std::lock_guard lock(mutex);
  const bool isCode =
      std::strcmp(static_cast<const char *>(image), "fake cubin") == 0;
  const bool isPtx =
      std::strcmp(static_cast<const char *>(image), "fake ptx") == 0;
  if ((isCode && !state->takesMachineCode) || (isPtx && !state->takesPtx))
    return kNoBinaryForGpu;
  auto cubin = isPtx ? std::map<std::string, std::vector<size_t>>()
                     : octet::test::readCubin(image);
  if (!isCode && !isPtx && cubin.empty())
    return kInvalidImage;
  *module = new CUmod_st();
  (*module)->cubin = std::move(cubin);
  state->loaded = isCode ? "cubin" : "ptx";
  ++state->modules;
  return kSuccess;
}
FAKE CUresult cuModuleUnload(CUmodule module) {
  --state->modules;
  delete module;
  return kSuccess;
}
FAKE CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                  const char *entry) {
  octet::test::FakeKernel kernel = octet::test::findFakeKernel(entry);
  if (auto it = module->cubin.find(entry); it != module->cubin.end()) {
    kernel.params.clear();
    for (size_t bytes : it->second)
      kernel.params += bytes == 8 ? 'p' : bytes == 4 ? 'i' : 'm';
    kernel.run = checkParams;
  }
  if (!kernel.run)
    return kNotFound;
  module->functions.push_back(
      std::make_unique<CUfunc_st>(CUfunc_st{entry, kernel}));
  *function = module->functions.back().get();
  return kSuccess;
}
FAKE CUresult cuFuncSetAttribute(CUfunction function, int attribute,
                                 int value) {
  if (attribute == kMaxDynamicShared)
    function->shared = value;
  return kSuccess;
}

FAKE CUresult cuLaunchKernelEx(const CUlaunchConfig *config,
                               CUfunction function, void **params, void **) {
  FakeCuda::Launch launch{
      function->entry,
      {config->gridDimX, config->gridDimY, config->gridDimZ},
      config->blockDimX,
      config->sharedMemBytes,
      1,
      false,
      config->hStream->captures};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute &attribute = config->attrs[i];
    if (attribute.id == kClusterDimension)
      launch.cluster = attribute.value.clusterDim.x;
    if (attribute.id == kProgrammaticStreamSerialization)
      launch.overlaps =
          attribute.value.programmaticStreamSerializationAllowed != 0;
  }
  if (launch.grid[0] % launch.cluster || int(launch.shared) > function->shared)
    return kInvalidValue;
  state->launches.push_back(launch);
  if (state->failLaunch == int64_t(state->launches.size()) - 1)
    return kInvalidValue;
  // The driver copies parameters when it is called.
  std::vector<std::vector<std::byte>> copies;
  for (char kind : function->kernel.params) {
    const size_t bytes = kind == 'p' ? 8 : kind == 'i' ? 4 : 128;
    const auto *from = static_cast<const std::byte *>(params[copies.size()]);
    copies.emplace_back(from, from + bytes);
  }
  return add(config->hStream,
             [kernel = function->kernel, copies, entry = function->entry] {
               std::vector<const void *> list;
               for (const std::vector<std::byte> &copy : copies)
                 list.push_back(copy.data());
               if (!kernel.run(kernel, list.data()))
                 mistake("kernel " + entry + " found wrong values");
             });
}

FAKE CUresult cuTensorMapEncodeTiled(CUtensorMap *map, int type, uint32_t rank,
                                     void *address, const uint64_t *dims,
                                     const uint64_t *strides,
                                     const uint32_t *box, const uint32_t *steps,
                                     int interleave, int swizzle, int promotion,
                                     int fill) {
  if (rank != 2 || strides[0] % 16 || box[0] > 256 || box[1] > 256 ||
      reinterpret_cast<uintptr_t>(address) % 16 || interleave || fill ||
      steps[0] != 1 || steps[1] != 1)
    return kInvalidValue;
  *map = CUtensorMap();
  map->opaque[0] = reinterpret_cast<uint64_t>(address);
  map->opaque[1] = dims[0];
  map->opaque[2] = dims[1];
  map->opaque[3] = strides[0];
  map->opaque[4] = uint64_t(type);
  map->opaque[5] = box[0];
  map->opaque[6] = box[1];
  map->opaque[7] = uint64_t(swizzle);
  return kSuccess;
}
