//===- Images.h - The kernels of a program on a device -------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_IMAGES_H
#define OCTET_RUNTIME_CUDA_IMAGES_H

#include "runtime/abi.h"
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Fit.h"
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace octet::rt {
class ThreadPool; // runtime/cpu/ThreadPool.h
}

namespace octet::rt::cu {

/// A function that is ready to be launched.
struct Kernel {
  CUfunction function = nullptr;
  CUdeviceptr workspace = 0;
};

class Images {
public:
  /// Puts all images on the device: the machine code, or, if the device does
  /// not take it, the PTX.
  /// \param subject  the program's file.
  /// \param pool     whose threads load them.
  /// \param held     the targets that the program holds, for errors; empty:
  /// `target`.
  /// \returns an input error that names them and the device's if that is none
  /// of them; a machine error with the driver's text that names the
  /// image.
  static Result<Images> load(const Driver &driver,
                             std::span<const octet_image> images,
                             const std::string &target,
                             const std::string &subject, ThreadPool &pool,
                             const std::string &held = "");
  Images(Images &&) = default;
  Images &operator=(Images &&) = delete;
  ~Images();

  /// Whether code for the target waits for the kernel before it, so that it may
  /// start early: from sm_90 on.
  bool mayOverlap() const { return overlaps; }

  /// The function of a kernel, its shared memory allowed and its workspace
  /// there. Kernels of one entry share a workspace: a stream runs them one
  /// after the other. Usable while a stream is captured.
  /// \param module  the subject of errors.
  Result<const Kernel *> find(const octet_kernel &kernel,
                              std::string_view module);

private:
  Images(const Driver &driver, std::span<const octet_image> images)
      : driver(&driver), images(images) {}
  Status loadImage(const octet_image &image, bool tryMachine, bool tryPtx,
                   const std::string &subject, CUmodule &module);
  Status prepare(const octet_kernel &kernel, const std::string &module,
                 Kernel &out);
  const Driver *driver;
  std::span<const octet_image> images;
  bool overlaps = false;
  std::vector<CUmodule> modules;
  std::unordered_map<const octet_kernel *, Kernel> kernels;
  Stream zeroing; ///< of workspaces
  std::map<std::pair<int32_t, std::string>, DeviceBuffer> workspaces;
  std::vector<DeviceBuffer> outgrown; ///< that earlier kernels still have
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_IMAGES_H
