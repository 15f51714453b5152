//===- Launch.h - From a launch table to the stream ----------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What is constant in a program's tables plus the addresses of one call: the
// grid, the parameters, and their tensor maps. The runtime knows no kernel.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_LAUNCH_H
#define OCTET_RUNTIME_CUDA_LAUNCH_H

#include "runtime/abi.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/Images.h"
#include <array>
#include <cstdint>
#include <vector>

namespace octet::rt::cu {

/// What all launches of a step share.
struct StepFrame {
  int64_t numSequences = 0;
  CUdeviceptr sequences = 0; ///< octet_device_sequence [numSequences]
  CUdeviceptr pages = 0;     ///< of all sequences
};

/// The variant for a step of `rows` rows whose longest sequence has `longest`;
/// null if none serves so many.
const octet_variant *chooseVariant(const octet_launch &launch, int64_t rows,
                                   int64_t longest);

/// The most rows that one sequence of a batch has.
int64_t longestOf(const octet_batch &batch);

/// CTAs along x, y and z (octet_kernel::grid, per_sm). Of a kernel with
/// clusters x is a multiple of their size.
std::array<int64_t, 3> gridOf(const octet_kernel &kernel, int64_t rows,
                              int64_t sequences, int64_t multiprocessors);

/// A tensor map, as cuTensorMapEncodeTiled wants it.
struct MapShape {
  int dataType = 0, swizzle = 0;
  uint64_t cols = 0, rows = 0, pitchBytes = 0;
  uint32_t boxCols = 0, boxRows = 0;
};
/// \returns an internal error of `module` for a type or swizzle that maps do
/// not have.
Result<MapShape> mapShapeOf(const octet_param &param, int64_t rows,
                            const std::string &module);

/// The parameters of one kernel, in its order.
class LaunchParams {
public:
  /// \param args  addresses of the launch.
  Status build(const Driver &driver, const octet_kernel &kernel,
               const char *module, int64_t rows, const StepFrame &frame,
               CUdeviceptr workspace, const void *const *args);
  void **list() { return pointers.data(); }

private:
  std::vector<uint64_t> words; ///< addresses and integers
  std::vector<CUtensorMap> maps;
  std::vector<void *> pointers;
};

/// Puts the kernels of `launch` that serve `rows` rows on a stream; nothing for
/// 0 rows.
/// \returns errors of the launch's module.
Status launchOn(CUstream stream, const Driver &driver, Images &images,
                const octet_launch &launch, const octet_batch &batch,
                int64_t rows, const StepFrame &frame, const void *const *args,
                LaunchParams &params);

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_LAUNCH_H
