//===- DeviceLimits.cpp - What a device could do --------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/DeviceLimits.h"
#include "runtime/cuda/Device.h"
#include <algorithm>

using namespace octet;
using namespace octet::rt::cu;

Result<double> octet::rt::cu::measureCopy(const Driver &driver, int64_t bytes,
                                          int passes) {
  const std::string subject = "bench";
  driver.makeCurrent();
  DeviceBuffer from, to;
  Stream stream;
  Event begin, end;
  OCTET_TRY(from.allocate(driver, bytes, subject));
  OCTET_TRY(to.allocate(driver, bytes, subject));
  OCTET_TRY(stream.create(driver, subject));
  OCTET_TRY(begin.create(driver, /*timing=*/true, subject));
  OCTET_TRY(end.create(driver, /*timing=*/true, subject));
  double best = 0;
  for (int pass = 0; pass <= passes; ++pass) { // The first is not counted.
    OCTET_TRY(OCTET_CUDA(driver, subject, cuEventRecord, begin.handle(),
                         stream.handle()));
    OCTET_TRY(OCTET_CUDA(driver, subject, cuMemcpyDtoDAsync, to.address(),
                         from.address(), size_t(bytes), stream.handle()));
    OCTET_TRY(OCTET_CUDA(driver, subject, cuEventRecord, end.handle(),
                         stream.handle()));
    OCTET_TRY(
        OCTET_CUDA(driver, subject, cuStreamSynchronize, stream.handle()));
    float milliseconds = 0;
    OCTET_TRY(OCTET_CUDA(driver, subject, cuEventElapsedTime, &milliseconds,
                         begin.handle(), end.handle()));
    if (pass > 0 && milliseconds > 0)
      best = std::max(best, 2e3 * double(bytes) / double(milliseconds));
  }
  return best;
}

TensorPeaks octet::rt::cu::tensorPeaks(const DeviceInfo &device) {
  // Operations a clock of a multiprocessor, from the vendor's white papers.
  struct {
    int capability;
    double fp8, bf16;
  } table[] = {{80, 0, 2048},      {86, 0, 512},     {87, 0, 512},
               {89, 1024, 512},    {90, 8192, 4096}, {100, 16384, 8192},
               {103, 16384, 8192}, {120, 1024, 512}, {121, 1024, 512}};
  const double clocks =
      double(device.multiprocessors) * double(device.clockKilohertz) * 1e3;
  for (auto [capability, fp8, bf16] : table)
    if (capability == device.capability)
      return {fp8 * clocks, bf16 * clocks};
  return {};
}
