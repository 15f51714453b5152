//===- StepInputs.h - The arrays of a batch, for the device --- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All arrays of a step lie in one block of pinned memory and travel by one
// copy. Their places depend on the numbers of rows, outputs and sequences
// alone, so a captured step finds them where they were.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_STEPINPUTS_H
#define OCTET_RUNTIME_CUDA_STEPINPUTS_H

#include "runtime/core/Program.h"
#include "runtime/cuda/Device.h"
#include "runtime/cuda/Launch.h"
#include <span>
#include <vector>

namespace octet::rt::cu {

/// Rows of decode steps that are captured: 1, 2, 4, 8, 16, 24, 32, 48, 64, then
/// every 64, the last one `most`.
std::vector<int64_t> bucketsUpTo(int64_t most);

/// Byte offsets of the arrays.
struct BatchLayout {
  int64_t ids, positions, slots, outputRows, sequences, pages;
  int64_t bytes; ///< of all of them
  static BatchLayout of(int64_t rows, int64_t outputs, int64_t sequences,
                        int64_t pages);
};

/// A batch as it is on the device.
struct DeviceBatch {
  BatchLayout layout;
  octet_batch batch; ///< device addresses, but for `sequences`
  StepFrame frame;
};

class StepInputs {
public:
  /// Takes memory for the largest step of a program.
  Status allocate(const Driver &driver, const ProgramInfo &info);

  /// Writes a batch into the pinned block. With `rows` above batch.num_rows the
  /// batch is decode (a row and an output for each sequence) and is filled up
  /// with sequences of one token, id 0, in the page `spare`.
  /// \param rows  batch.num_rows, or more.
  DeviceBatch write(const octet_batch &batch, int64_t rows, int32_t spare);
  /// Adds how tokens are drawn to what was written last.
  /// \param rows  of the device's batch; those beyond `given` take the largest
  /// logit.
  /// \returns their address on the device.
  CUdeviceptr addSampling(std::span<const octet_sample_row> given,
                          int64_t rows);
  /// Puts the copy of what was written last on the stream.
  Status send(const Driver &driver, CUstream stream,
              const std::string &subject);

  std::span<const std::byte> written() const {
    return {pinned.data(), size_t(bytes)};
  }

private:
  PinnedBuffer pinned;
  DeviceBuffer device;
  DeviceBuffer input; ///< of a module
  int64_t moduleIn = 0;
  const float *hostInput = nullptr; ///< of the batch written last
  int64_t hostRows = 0;
  std::vector<octet_sequence> sequences; ///< padded
  int64_t bytes = 0;
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_STEPINPUTS_H
