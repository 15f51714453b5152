//===- Images.cpp - The kernels of a program on a device ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Images.h"
#include "octet/Support/Escape.h"
#include "runtime/cpu/ThreadPool.h"

using namespace octet;
using namespace octet::rt::cu;

//===----------------------------------------------------------------------===//
// Targets and devices
//===----------------------------------------------------------------------===//

static Status unsupported(const std::string &subject, const std::string &target,
                          const DeviceInfo &device) {
  const std::string_view best = bestTarget(device.capability);
  return inputError(subject,
                    "compiled for " + target + ", but the device is " +
                        quoteName(device.name) + " of compute capability " +
                        capabilityText(device.capability) +
                        (best.empty()
                             ? std::string("; 8.0 is the least that runs")
                             : "; compile with --target " + std::string(best)));
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

Status Images::loadImage(const octet_image &image, bool tryMachine, bool tryPtx,
                         const std::string &subject, CUmodule &module) {
  const std::string name =
      "image " + quoteName(image.name ? image.name : "without a name");
  char log[4096] = "";
  auto load = [&](const void *data) {
    int options[] = {kJitErrorLog, kJitErrorLogBytes};
    void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
    return driver->api.cuModuleLoadDataEx(&module, data, 2, options, values);
  };
  CUresult result = kNoBinaryForGpu;
  if (tryMachine && image.cubin && image.cubin_bytes > 0)
    result = load(image.cubin);
  if (result != kSuccess && tryPtx && image.ptx && image.ptx_bytes > 0) {
    log[0] = 0;
    result = load(image.ptx);
  }
  if (result == kSuccess)
    return Status::success();
  Status error =
      driver->check(result, "cuModuleLoadDataEx", __FILE__, __LINE__, subject);
  if (log[0])
    error.note("the driver says: " + escapeName(log));
  const DeviceInfo &device = driver->device();
  return std::move(error).note(
      name + " on " + device.name + ", driver of CUDA " +
      versionText(device.driverVersion) +
      (result == kUnsupportedPtxVersion || result == kNoBinaryForGpu
           ? "; a newer driver may take it"
           : ""));
}

Result<Images> Images::load(const Driver &driver,
                            std::span<const octet_image> list,
                            const std::string &target,
                            const std::string &subject, ThreadPool &pool,
                            const std::string &held) {
  const Fit fit = fitTarget(target, driver.device().capability);
  bool hasPtx = !list.empty();
  for (const octet_image &image : list)
    hasPtx = hasPtx && image.ptx && image.ptx_bytes > 0;
  if (fit == Fit::No || (fit == Fit::Ptx && !hasPtx))
    return unsupported(subject, held.empty() ? target : held, driver.device());
  Images images(driver, list);
  images.overlaps =
      fitTarget(target, 90) != Fit::Ptx && driver.device().capability >= 90;
  OCTET_TRY(images.zeroing.create(driver, subject));
  // PTX takes the driver seconds; it compiles several at once.
  images.modules.resize(list.size());
  std::vector<Status> results(list.size());
  auto load = [&](int64_t begin, int64_t end) {
    driver.makeCurrent();
    for (size_t i = size_t(begin); i < size_t(end); ++i)
      results[i] = images.loadImage(list[i], fit == Fit::Machine, hasPtx,
                                    subject, images.modules[i]);
  };
  pool.parallelChunks(int64_t(list.size()), /*chunk=*/1, load);
  for (Status &result : results)
    OCTET_TRY(std::move(result));
  return images;
}

Images::~Images() {
  if (modules.empty())
    return;
  driver->makeCurrent();
  for (CUmodule module : modules)
    if (module)
      (void)driver->api.cuModuleUnload(module);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

static size_t sizeOf(int32_t paramKind) {
  switch (paramKind) {
  case OCTET_PARAM_TENSOR_MAP:
    return sizeof(CUtensorMap);
  case OCTET_PARAM_ROWS:
  case OCTET_PARAM_NUM_SEQUENCES:
    return sizeof(int32_t);
  default:
    return sizeof(CUdeviceptr);
  }
}

/// How a function's parameters differ from its table; empty: they do not. One
/// more is not asked for: the question would be an error of the driver, which
/// tools that watch it report.
static std::string compareParams(const Driver &driver, CUfunction function,
                                 const octet_kernel &kernel) {
  if (!driver.api.cuFuncGetParamInfo)
    return "";
  size_t offset = 0, size = 0;
  for (int64_t i = 0; i < kernel.num_params; ++i) {
    const size_t wanted = sizeOf(kernel.params[i].kind);
    if (driver.api.cuFuncGetParamInfo(function, size_t(i), &offset, &size) !=
        kSuccess)
      return "has " + std::to_string(i) + " parameters, its launch has " +
             std::to_string(kernel.num_params);
    if (size != wanted)
      return "has a parameter " + std::to_string(i) + " of " +
             std::to_string(size) + " bytes, its launch has one of " +
             std::to_string(wanted);
  }
  return "";
}

Status Images::prepare(const octet_kernel &kernel, const std::string &module,
                       Kernel &out) {
  auto bug = [&](const std::string &what) {
    return internalError(
        module,
        "kernel " + quoteName(kernel.entry ? kernel.entry : "") + " " + what);
  };
  if (!kernel.entry || kernel.image < 0 ||
      size_t(kernel.image) >= modules.size())
    return bug("is in image " + std::to_string(kernel.image) +
               " of a program of " + std::to_string(modules.size()));
  const DeviceInfo &device = driver->device();
  if (kernel.shared_bytes > device.sharedBytes)
    return machineError(module,
                        "kernel " + quoteName(kernel.entry) + " needs " +
                            std::to_string(kernel.shared_bytes) +
                            " bytes of shared memory, " + device.name +
                            " has " + std::to_string(device.sharedBytes));
  if (CUresult result = driver->api.cuModuleGetFunction(
          &out.function, modules[size_t(kernel.image)], kernel.entry);
      result == kNotFound)
    return bug("is not in image " +
               quoteName(images[size_t(kernel.image)].name));
  else
    OCTET_TRY(driver->check(result, "cuModuleGetFunction", __FILE__, __LINE__,
                            module));
  OCTET_TRY(OCTET_CUDA(*driver, module, cuFuncSetAttribute, out.function,
                       kMaxDynamicShared, kernel.shared_bytes));
  if (const std::string fault = compareParams(*driver, out.function, kernel);
      !fault.empty())
    return bug(fault);
  constexpr int kPortableCluster = 8;
  if (kernel.cluster > kPortableCluster)
    OCTET_TRY(OCTET_CUDA(*driver, module, cuFuncSetAttribute, out.function,
                         kNonPortableCluster, 1));
  if (kernel.workspace_bytes <= 0)
    return Status::success();
  DeviceBuffer &buffer = workspaces[{kernel.image, kernel.entry}];
  if (buffer.size() < kernel.workspace_bytes) {
    if (buffer.size())
      outgrown.push_back(std::move(buffer));
    OCTET_TRY(buffer.allocate(*driver, kernel.workspace_bytes, module));
    OCTET_TRY(OCTET_CUDA(*driver, module, cuMemsetD8Async, buffer.address(), 0,
                         size_t(kernel.workspace_bytes), zeroing.handle()));
    OCTET_TRY(
        OCTET_CUDA(*driver, module, cuStreamSynchronize, zeroing.handle()));
  }
  out.workspace = buffer.address();
  return Status::success();
}

Result<const Kernel *> Images::find(const octet_kernel &kernel,
                                    std::string_view module) {
  if (auto it = kernels.find(&kernel); it != kernels.end())
    return &it->second;
  Kernel made;
  OCTET_TRY(prepare(kernel, std::string(module), made));
  return &kernels.emplace(&kernel, made).first->second;
}
