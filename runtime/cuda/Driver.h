//===- Driver.h - The CUDA driver, opened at run time --------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_DRIVER_H
#define OCTET_RUNTIME_CUDA_DRIVER_H

#include "octet/Support/Status.h"
#include "runtime/cuda/DriverTypes.h"
#include <memory>
#include <string>
#include <string_view>

namespace octet::rt::cu {

inline constexpr const char kDriverLibrary[] = "libcuda.so.1";
/// 1000 * major + 10 * minor: the CUDA version whose driver has all functions.
inline constexpr int kLeastDriver = 12000;

/// "12.4" of 12040.
std::string versionText(int version);

/// The device that a program runs on.
struct DeviceInfo {
  std::string name;
  int capability = 0; ///< times ten: 90 for 9.0
  int multiprocessors = 0;
  int clockKilohertz = 0; ///< the highest
  int sharedBytes = 0;    ///< most dynamic shared memory of a block
  int l2Bytes = 0;
  int64_t memoryBytes = 0; ///< all of the device's
  int64_t freeBytes = 0;   ///< when it was opened
  int driverVersion = 0;   ///< as kLeastDriver
};

/// libcuda, its first device and that device's primary context. Devices are
/// chosen by CUDA_VISIBLE_DEVICES, which the driver reads.
class Driver {
public:
  /// What the user has to provide, for errors.
  struct Needs {
    std::string subject; ///< the program's file
    std::string target;  ///< "sm_90a"
    int version = kLeastDriver;
  };
  /// \param library  path or name for dlopen.
  /// \returns a machine error: no such library, no device, or an older driver
  /// than `needs.version`; each says what the program needs.
  static Result<std::unique_ptr<Driver>> open(const std::string &library,
                                              const Needs &needs);
  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  const DeviceInfo &device() const { return info; }
  /// Makes the context that of the calling thread; each entry does so, for a
  /// model may be used by one thread after the other.
  void makeCurrent() const { (void)api.cuCtxSetCurrent(context); }

  /// Success, or a machine error of `subject` (a module path or file) with the
  /// driver's text and the place in our code. OCTET_CUDA calls this.
  Status check(CUresult result, const char *call, const char *file, int line,
               std::string_view subject) const {
    if (result == kSuccess) [[likely]]
      return Status::success();
    return failure(result, call, file, line, subject);
  }

  DriverApi api{};

private:
  Driver() = default;
  Status failure(CUresult result, const char *call, const char *file, int line,
                 std::string_view subject) const;
  void *library = nullptr;
  CUdevice handle = 0;
  CUcontext context = nullptr;
  DeviceInfo info;
};

/// Calls a function of the driver: a Status that names `subject`.
#define OCTET_CUDA(driver, subject, function, ...)                             \
  (driver).check((driver).api.function(__VA_ARGS__), #function, __FILE__,      \
                 __LINE__, subject)

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_DRIVER_H
