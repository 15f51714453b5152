//===- Device.cpp - Memory, streams and events of the device --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/Device.h"
#include <algorithm>
#include <cstdio>

using namespace octet;
using namespace octet::rt::cu;

//===----------------------------------------------------------------------===//
// Owners
//===----------------------------------------------------------------------===//

DeviceBuffer &DeviceBuffer::operator=(DeviceBuffer &&o) noexcept {
  std::swap(driver, o.driver);
  std::swap(base, o.base);
  std::swap(bytes, o.bytes);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (!base)
    return;
  driver->makeCurrent();
  (void)driver->api.cuMemFree(base);
}

Status DeviceBuffer::allocate(const Driver &from, int64_t count,
                              const std::string &subject) {
  *this = DeviceBuffer();
  CUdeviceptr address = 0;
  const int64_t wanted = std::max<int64_t>(count, 1);
  const CUresult result = from.api.cuMemAlloc(&address, size_t(wanted));
  if (result == kOutOfMemory)
    return machineError(subject, "needs " + std::to_string(wanted) +
                                     " more bytes of device memory; " +
                                     describeFree(from));
  OCTET_TRY(from.check(result, "cuMemAlloc", __FILE__, __LINE__, subject));
  driver = &from;
  base = address;
  bytes = count;
  return Status::success();
}

PinnedBuffer &PinnedBuffer::operator=(PinnedBuffer &&o) noexcept {
  std::swap(driver, o.driver);
  std::swap(base, o.base);
  std::swap(bytes, o.bytes);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  if (!base)
    return;
  driver->makeCurrent();
  (void)driver->api.cuMemFreeHost(base);
}

Status PinnedBuffer::allocate(const Driver &from, int64_t count,
                              const std::string &subject) {
  *this = PinnedBuffer();
  void *address = nullptr;
  OCTET_TRY(OCTET_CUDA(from, subject, cuMemHostAlloc, &address,
                       size_t(std::max<int64_t>(count, 1)), 0));
  driver = &from;
  base = static_cast<std::byte *>(address);
  bytes = count;
  return Status::success();
}

Stream &Stream::operator=(Stream &&o) noexcept {
  std::swap(driver, o.driver);
  std::swap(stream, o.stream);
  return *this;
}

Stream::~Stream() {
  if (!stream)
    return;
  driver->makeCurrent();
  (void)driver->api.cuStreamSynchronize(stream);
  (void)driver->api.cuStreamDestroy(stream);
}

Status Stream::create(const Driver &from, const std::string &subject) {
  OCTET_TRY(
      OCTET_CUDA(from, subject, cuStreamCreate, &stream, kStreamNonBlocking));
  driver = &from;
  return Status::success();
}

Event &Event::operator=(Event &&o) noexcept {
  std::swap(driver, o.driver);
  std::swap(event, o.event);
  return *this;
}

Event::~Event() {
  if (!event)
    return;
  driver->makeCurrent();
  (void)driver->api.cuEventDestroy(event);
}

Status Event::create(const Driver &from, bool timing,
                     const std::string &subject) {
  OCTET_TRY(OCTET_CUDA(from, subject, cuEventCreate, &event,
                       timing ? 0 : kEventDisableTiming));
  driver = &from;
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

int64_t octet::rt::cu::freeBytes(const Driver &driver) {
  size_t available = 0, total = 0;
  (void)driver.api.cuMemGetInfo(&available, &total);
  return int64_t(available);
}

std::string octet::rt::cu::describeFree(const Driver &driver) {
  size_t available = 0, total = 0;
  (void)driver.api.cuMemGetInfo(&available, &total);
  char text[96];
  std::snprintf(text, sizeof(text), "%.1f GiB of %.1f GiB are free on ",
                double(available) / (1 << 30), double(total) / (1 << 30));
  return text + driver.device().name;
}

void *DeviceMemory::reserve(int64_t bytes, std::string &why) {
  driver.makeCurrent();
  CUdeviceptr base = 0;
  CUresult result = driver.api.cuMemAlloc(&base, size_t(bytes));
  if (result == kSuccess) {
    result = driver.api.cuMemsetD8Async(base, 0, size_t(bytes), stream);
    if (result == kSuccess)
      return reinterpret_cast<void *>(base);
    (void)driver.api.cuMemFree(base);
  }
  why = result == kOutOfMemory
            ? describeFree(driver)
            : driver.check(result, "cuMemAlloc", __FILE__, __LINE__, "device")
                  .info()
                  .message;
  return nullptr;
}

void DeviceMemory::release(void *base, int64_t) {
  driver.makeCurrent();
  (void)driver.api.cuMemFree(reinterpret_cast<CUdeviceptr>(base));
}

void DeviceMemory::copy(void *to, const void *from, int64_t bytes) {
  driver.makeCurrent();
  Status done = OCTET_CUDA(
      driver, "KV cache", cuMemcpyDtoDAsync, reinterpret_cast<CUdeviceptr>(to),
      reinterpret_cast<CUdeviceptr>(from), size_t(bytes), stream);
  if (error.ok() && !done.ok())
    error = std::move(done);
}
