//===- KernelReport.h - What a kernel executable found ----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_BENCH_KERNELREPORT_H
#define OCTET_RUNTIME_BENCH_KERNELREPORT_H

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace octet::rt {

/// Microseconds of one launch in a graph of launches one after the other, over
/// rotated operands (weights cold).
struct KernelTimes {
  double median = 0, least = 0, most = 0;
  double sustained = 0; ///< after 0.3 s of load; 0: not measured, under 20 us
};

/// One launch of one case.
struct KernelResult {
  int64_t m = 0, n = 0, k = 0;
  std::string kernel;  ///< label of the variant that serves m rows
  std::string variant; ///< its name in a table, of `octet tune`
  bool chosen = true;  ///< what select-kernels takes, not another candidate
  // Correctness, against sums in double precision of the dequantised operands.
  double relativeError = 0; ///< root of squared errors over squared reference
  double largestError = 0;
  uint64_t notANumber = 0; ///< elements that are not finite
  uint64_t firstBad = 0;   ///< the first of them, row-major
  double tolerance = 0;    ///< of relativeError
  bool passed = false;
  // Speed; zeros with --check-only.
  KernelTimes us;
  bool atLength = false;       ///< timed as KernelRun.h says, or as a finalist
  double flops = 0, bytes = 0; ///< 2 M N K; each operand counted once
  double floorUs = 0; ///< the larger of flops / peak and bytes / copy bandwidth

  double teraflops() const { return us.median ? flops / us.median / 1e6 : 0; }
  double gigabytes() const { return us.median ? bytes / us.median / 1e3 : 0; }
  double ofFloor() const { return us.median ? floorUs / us.median : 0; }
};

struct KernelReport {
  std::string op, target, version; ///< of the executable
  std::string device, driver, date;
  int multiprocessors = 0;
  double copyBandwidth = 0; ///< bytes per second, read and written
  double peak = 0;          ///< operations per second of the operands' dtype
  std::vector<KernelResult> results;
  int64_t cases = 0, casesDone = 0; ///< fewer done: it was told to stop

  int64_t countFailed() const;
  std::string text() const;
  nlohmann::json json() const;
};

/// Of candidates of one case, the numbers of those to be timed at length: what
/// is chosen today, and the least medians of those that passed; `most` at most,
/// the first first.
std::vector<size_t> chooseFinalists(std::span<const KernelResult> candidates,
                                    size_t most);

} // namespace octet::rt

#endif // OCTET_RUNTIME_BENCH_KERNELREPORT_H
