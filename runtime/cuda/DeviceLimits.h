//===- DeviceLimits.h - What a device could do ----------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_DEVICELIMITS_H
#define OCTET_RUNTIME_CUDA_DEVICELIMITS_H

#include "runtime/cuda/Driver.h"

namespace octet::rt::cu {

/// The best of `passes` copies of `bytes` bytes within the device's memory, in
/// bytes per second, those read and those written.
/// \returns an error of `bench`, as when there is no memory for two buffers.
Result<double> measureCopy(const Driver &driver, int64_t bytes, int passes);

/// Multiply-adds of dense products with FP32 sums, two operations each, per
/// second at the highest clock; 0 where the device has none or is not known.
/// Vendors' figures are for lower clocks.
struct TensorPeaks {
  double fp8 = 0, bf16 = 0;
};
TensorPeaks tensorPeaks(const DeviceInfo &device);

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_DEVICELIMITS_H
