//===- KernelRun.h - Checks and times kernels on the device -----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The method, the same for every operator:
//
//   operands  drawn on the device, codes normal, scales over a factor of 64;
//             as many sets as make 256 MB, at least two
//   check     the result is set to NaN first, and compared with sums in double
//             precision of the dequantised operands, all of it, before and
//             after the timing
//   time      a CUDA graph of launches one after the other over the sets, at
//             least 2 ms of them; the median of 15 replays, by events
//   sustained the same graph for 0.3 s, then timed for 0.2 s
//
// Of several candidates all are timed shortly, and only the best few of each
// case as above, in 0.4 of the time of load.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_BENCH_KERNELRUN_H
#define OCTET_RUNTIME_BENCH_KERNELRUN_H

#include "octet/CudaSource/BenchPlan.h"
#include "octet/Support/Status.h"
#include "runtime/bench/KernelReport.h"
#include <functional>
#include <span>

namespace octet::rt {

struct KernelRunOptions {
  std::string subject; ///< the executable, of errors
  std::string driver;  ///< library of the driver
  bool checkOnly = false;
  bool candidates = true; ///< all launches of a case, not the chosen one alone
  /// Called before each case with its number and how many there are.
  std::function<void(size_t, size_t)> progress;
  /// Asked before each launch that is timed: true ends the run with what it
  /// has.
  std::function<bool()> stops;
};

/// Runs all cases of a plan on the first device.
/// \param images  the section that the plan's images point into.
/// \returns a machine error if there is no device that the kernels run on, or
/// one of the driver's calls fails. A wrong result is no error but a result
/// that did not pass.
Result<KernelReport> runKernels(const cuda::BenchPlan &plan,
                                std::span<const std::byte> images,
                                const KernelRunOptions &options);

} // namespace octet::rt

#endif // OCTET_RUNTIME_BENCH_KERNELRUN_H
