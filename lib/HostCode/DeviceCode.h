//===- DeviceCode.h - Constants of a CUDA program ---------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What emit-kernels leaves in the IR, as the structs of runtime/abi.h: an
// octet_image for each `kernel.binary`, an octet_launch for each operator with
// a `launch`. A program of the CPU has neither.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_DEVICECODE_H
#define OCTET_HOSTCODE_DEVICECODE_H

#include "HostModule.h"
#include "dialects/Kernel/KernelOps.h"
#include "octet/CudaSource/Instance.h"

namespace octet::host {

class DeviceCode {
public:
  explicit DeviceCode(HostModule &host);

  /// The octet_launch of an operator. \returns its symbol, or an error on the
  /// operator if its launch names a binary or an argument that is not there.
  mlir::FailureOr<std::string> addLaunch(mlir::Operation *op, int64_t numArgs);
  /// That of the module, which draws tokens; "" if it has none.
  mlir::FailureOr<std::string> addSampler();

  int64_t numImages() const { return binaries.size(); }
  /// The array of octet_image, or "" without images. \returns an error on a
  /// binary whose bytes a print has left out.
  mlir::FailureOr<std::string> addImages();

private:
  mlir::FailureOr<std::string> addLaunch(mlir::Operation *op,
                                         const cuda::KernelLaunch &launch,
                                         int64_t numArgs);
  HostModule &host;
  llvm::SmallVector<kernel::BinaryOp> binaries;
  llvm::StringMap<int32_t> rows; ///< of each entry in `binaries`
};

} // namespace octet::host

#endif // OCTET_HOSTCODE_DEVICECODE_H
