//===- KernelClock.h - Times of launches, and what bounds them --*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_BENCH_KERNELCLOCK_H
#define OCTET_RUNTIME_BENCH_KERNELCLOCK_H

#include "octet/Support/Status.h"
#include "runtime/bench/KernelReport.h"
#include "runtime/cuda/Driver.h"
#include <functional>

namespace octet::rt {

/// How long launches are timed.
enum class Effort {
  Whole, ///< as KernelRun.h says
  Quick, ///< the median of few replays, to tell the better of many candidates
  Final, ///< as Whole, the sustained figure in 0.4 of the time: of candidates
         ///< one after the other, which leave the device loaded
};

/// Times launches in a CUDA graph, the sets 0 … numSets - 1 in turn; the method
/// is in KernelRun.h.
/// \param enqueue  puts one launch on the stream, which is captured.
/// \param subject  of errors: the kernel.
Result<KernelTimes> timeLaunches(const cu::Driver &driver, cu::CUstream stream,
                                 int64_t numSets, const std::string &subject,
                                 const std::function<Status(int64_t)> &enqueue,
                                 Effort effort = Effort::Whole);

/// Bytes per second that a copy within the device reads and writes, the best of
/// some copies of 4 GiB (or of a quarter of the free memory).
Result<double> measureCopy(const cu::Driver &driver, cu::CUstream stream,
                           const std::string &subject);

/// Operations per second of dense products of `type` (octet_dtype) by tensor
/// cores at the device's rated clock; FP32's of an unknown device.
double peakOperations(const cu::DeviceInfo &device, int32_t type);

} // namespace octet::rt

#endif // OCTET_RUNTIME_BENCH_KERNELCLOCK_H
