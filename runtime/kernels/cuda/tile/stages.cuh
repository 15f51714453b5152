//===- stages.cuh - A ring of stages in shared memory ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A producer fills stages in turn, consumers empty them in turn; a stage has a barrier for either.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "ptx/base.cuh"

namespace octet::cuda {

/// Where in the ring a thread is: which stage, and the parity of its phase.
template <int kStages> struct StageCursor {
  int stage = 0;
  u32 parity = 0;

  OCTET_DEVICE void advance() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

} // namespace octet::cuda
