//===- StepTimer.h - What each launch of a step takes --------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Events between the launches of a captured step: the processor's time for
// launching is not in it, nor is the overlap of neighbours.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_STEPTIMER_H
#define OCTET_RUNTIME_CUDA_STEPTIMER_H

#include "runtime/core/Profile.h"
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Launch.h"
#include <vector>

namespace octet::rt::cu {

/// What a launch has to read and compute.
struct LaunchWork {
  OperatorKind kind;
  int64_t bytes, flops;
  std::string detail; ///< labels of the kernels that run
};
/// \param keyBytes  of a token's keys and values, of one layer.
LaunchWork workOf(const octet_launch &launch, const octet_batch &batch,
                  int64_t rows, int64_t keyBytes);

class StepTimer {
public:
  explicit StepTimer(const Driver &driver) : driver(driver) {}

  Status start(CUstream stream);
  /// Right after a launch.
  Status add(CUstream stream, const octet_launch &launch, LaunchWork work);
  /// Once all of it has run: adds it to a profile.
  Status addTo(Profile &profile);

private:
  Status record(CUstream stream);
  struct Entry {
    const octet_launch *launch;
    LaunchWork work;
  };
  const Driver &driver;
  std::vector<Event> events; ///< kept from step to step
  std::vector<Entry> entries;
  size_t used = 0;
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_STEPTIMER_H
