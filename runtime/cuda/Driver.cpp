//===- Driver.cpp - The CUDA driver, opened at run time -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Driver.h"
#include "octet/Support/Escape.h"
#include <cstring>
#include <dlfcn.h>

using namespace octet;
using namespace octet::rt::cu;

std::string octet::rt::cu::versionText(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

/// "CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"
static std::string nameOf(const DriverApi &api, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (api.cuGetErrorName)
    (void)api.cuGetErrorName(result, &name);
  if (api.cuGetErrorString)
    (void)api.cuGetErrorString(result, &text);
  std::string message = name ? name : "error " + std::to_string(result);
  return text ? message + " (" + text + ")" : message;
}

Status Driver::failure(CUresult result, const char *call, const char *file,
                       int line, std::string_view subject) const {
  const char *base = std::strrchr(file, '/');
  std::string message = std::string(call) + ": " + nameOf(api, result);
  message += std::string(", at ") + (base ? base + 1 : file) + ":" +
             std::to_string(line);
  return machineError(std::string(subject), std::move(message));
}

Result<std::unique_ptr<Driver>> Driver::open(const std::string &library,
                                             const Needs &needs) {
  const std::string compiled = "compiled for " + needs.target;
  const std::string needed =
      "a driver of CUDA " + versionText(needs.version) + " or newer is needed";
  auto fail = [&](const std::string &what) {
    return machineError(needs.subject, compiled + ", but " + what);
  };
  std::unique_ptr<Driver> driver(new Driver());
  driver->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!driver->library) {
    const char *text = dlerror();
    return fail("there is no NVIDIA driver (" +
                escapeName(text ? text : library.c_str()) + "); " + needed);
  }
  const char *missing = nullptr;
  DriverApi &api = driver->api;
#define OCTET_FIND(member, name, parameters)                                   \
  if (void *address = dlsym(driver->library, #name))                           \
    api.member = reinterpret_cast<CUresult(*) parameters>(address);            \
  else if (!missing)                                                           \
    missing = #name;
  OCTET_DRIVER_FUNCTIONS(OCTET_FIND)
#undef OCTET_FIND
#define OCTET_FIND(member, name, parameters)                                   \
  api.member =                                                                 \
      reinterpret_cast<CUresult(*) parameters>(dlsym(driver->library, #name));
  OCTET_NEWER_DRIVER_FUNCTIONS(OCTET_FIND)
#undef OCTET_FIND
  int version = 0;
  if (api.cuDriverGetVersion)
    (void)api.cuDriverGetVersion(&version);
  if (version && version < needs.version)
    return fail("the driver is of CUDA " + versionText(version) + "; " +
                needed);
  if (missing)
    return fail("the driver has no function " + std::string(missing) + "; " +
                needed);

  const std::string &subject = needs.subject;
  auto noDevice = [&] {
    return fail("there is no NVIDIA GPU that this process may use; "
                "CUDA_VISIBLE_DEVICES may hide them");
  };
  if (CUresult result = api.cuInit(0); result == kNoDevice)
    return noDevice();
  else if (result == kStubLibrary)
    return fail("libcuda is the one that programs are linked with, not a "
                "driver's; " +
                needed);
  else if (result != kSuccess)
    return fail("the driver does not start: cuInit says " +
                nameOf(api, result));
  int count = 0;
  OCTET_TRY(OCTET_CUDA(*driver, subject, cuDeviceGetCount, &count));
  if (count == 0)
    return noDevice();
  OCTET_TRY(OCTET_CUDA(*driver, subject, cuDeviceGet, &driver->handle, 0));
  DeviceInfo &info = driver->info;
  info.driverVersion = version;
  char name[256] = "";
  OCTET_TRY(OCTET_CUDA(*driver, subject, cuDeviceGetName, name, sizeof(name),
                       driver->handle));
  info.name = name;
  int major = 0, minor = 0;
  struct {
    int attribute;
    int *value;
  } attributes[] = {{kCapabilityMajor, &major},
                    {kCapabilityMinor, &minor},
                    {kMultiprocessorCount, &info.multiprocessors},
                    {kClockKilohertz, &info.clockKilohertz},
                    {kMaxSharedOptin, &info.sharedBytes},
                    {kL2CacheSize, &info.l2Bytes}};
  for (auto [attribute, value] : attributes)
    OCTET_TRY(OCTET_CUDA(*driver, subject, cuDeviceGetAttribute, value,
                         attribute, driver->handle));
  info.capability = 10 * major + minor;
  OCTET_TRY(OCTET_CUDA(*driver, subject, cuDevicePrimaryCtxRetain,
                       &driver->context, driver->handle));
  OCTET_TRY(OCTET_CUDA(*driver, subject, cuCtxSetCurrent, driver->context));
  size_t available = 0, total = 0;
  OCTET_TRY(OCTET_CUDA(*driver, subject, cuMemGetInfo, &available, &total));
  info.freeBytes = int64_t(available);
  info.memoryBytes = int64_t(total);
  return driver;
}

Driver::~Driver() {
  if (context)
    (void)api.cuDevicePrimaryCtxRelease(handle);
  // The library stays: drivers do not like to be unloaded, and the next model
  // of this process opens it again.
}
