//===- FakeCuda.h - A driver without a device -------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// fake_cuda.cpp is a libcuda whose device is the processor. Work on a stream
// waits until something waits for it, as late as a real driver may: whoever
// reuses a buffer too early reads the wrong values here too. Its kernels are
// those of fake_cuda_program.c.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_FAKECUDA_H
#define OCTET_TEST_UNIT_FAKECUDA_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace octet::test {

struct FakeCuda {
  // What it pretends to be.
  int version = 13000;
  int devices = 1;
  int initResult = 0;
  int capability = 90;
  int multiprocessors = 4;
  int sharedBytes = 232448;
  size_t memory = size_t(1) << 30;
  bool takesMachineCode = true;
  bool takesPtx = true;
  /// Fail this launch (from 0), and the wait after it.
  int64_t failLaunch = -1;
  int64_t failAfterLaunch = -1;

  // What happened.
  struct Launch {
    std::string entry;
    unsigned grid[3], block, shared, cluster;
    bool overlaps, captured;
  };
  std::vector<Launch> launches;
  int64_t graphsMade = 0, graphLaunches = 0, graphsAlive = 0;
  int64_t waits = 0; ///< for a stream
  int64_t toDevice = 0, toDeviceBytes = 0;
  size_t allocated = 0; ///< now, of the device
  size_t pinned = 0;
  int modules = 0;                   ///< loaded now
  std::string loaded;                ///< "cubin" or "ptx": the last module
  std::vector<std::string> mistakes; ///< of the caller
};

} // namespace octet::test

#endif // OCTET_TEST_UNIT_FAKECUDA_H
