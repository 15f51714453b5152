//===- Device.h - Memory, streams and events of the device ---- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_DEVICE_H
#define OCTET_RUNTIME_CUDA_DEVICE_H

#include "runtime/core/Memory.h"
#include "runtime/cuda/Driver.h"
#include <utility>

namespace octet::rt::cu {

/// Memory of the device, freed with its owner.
class DeviceBuffer {
public:
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer &&o) noexcept { *this = std::move(o); }
  DeviceBuffer &operator=(DeviceBuffer &&o) noexcept;
  ~DeviceBuffer();

  /// Takes `bytes` bytes (at least 1), of any content, in place of what it had.
  /// \returns a machine error of `subject`; without memory it says how much
  /// there is.
  Status allocate(const Driver &driver, int64_t bytes,
                  const std::string &subject);
  CUdeviceptr address() const { return base; }
  template <typename T = void>
  T *pointer() const {
    return reinterpret_cast<T *>(base);
  }
  int64_t size() const { return bytes; }

private:
  const Driver *driver = nullptr;
  CUdeviceptr base = 0;
  int64_t bytes = 0;
};

/// Memory of the processor that the device copies from and to by itself.
class PinnedBuffer {
public:
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer &&o) noexcept { *this = std::move(o); }
  PinnedBuffer &operator=(PinnedBuffer &&o) noexcept;
  ~PinnedBuffer();

  Status allocate(const Driver &driver, int64_t bytes,
                  const std::string &subject);
  std::byte *data() const { return base; }
  int64_t size() const { return bytes; }

private:
  const Driver *driver = nullptr;
  std::byte *base = nullptr;
  int64_t bytes = 0;
};

class Stream {
public:
  Stream() = default;
  Stream(Stream &&o) noexcept { *this = std::move(o); }
  Stream &operator=(Stream &&o) noexcept;
  ~Stream();

  Status create(const Driver &driver, const std::string &subject);
  CUstream handle() const { return stream; }

private:
  const Driver *driver = nullptr;
  CUstream stream = nullptr;
};

class Event {
public:
  Event() = default;
  Event(Event &&o) noexcept { *this = std::move(o); }
  Event &operator=(Event &&o) noexcept;
  ~Event();

  Status create(const Driver &driver, bool timing, const std::string &subject);
  CUevent handle() const { return event; }

private:
  const Driver *driver = nullptr;
  CUevent event = nullptr;
};

/// Of the device's memory, now.
int64_t freeBytes(const Driver &driver);

/// "2.5 GiB of 139.8 GiB are free on NVIDIA H200".
std::string describeFree(const Driver &driver);

/// Arena and cache: zeros, and copies in the order of a stream.
class DeviceMemory : public Memory {
public:
  /// Both outlive it.
  DeviceMemory(const Driver &driver, CUstream stream)
      : driver(driver), stream(stream) {}

  void *reserve(int64_t bytes, std::string &why) override;
  void release(void *base, int64_t bytes) override;
  void copy(void *to, const void *from, int64_t bytes) override;
  /// The first error of a copy since the last call.
  Status takeError() { return std::exchange(error, Status()); }

private:
  const Driver &driver;
  CUstream stream;
  Status error;
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_DEVICE_H
