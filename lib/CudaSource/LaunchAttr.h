//===- LaunchAttr.h - A launch as an attribute ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fields of InstanceFields.h as a dictionary, without those that are as a
// new struct has them; lists of numbers are arrays, flags units. The source is
// not among them: `kernel.binary` has it under the entry's name.
//
//   launch = {label = "rms_norm", module = "a", variants = [{kernels = [{entry
//   =
//     "octet_kernel_a", grid = …, params = [{kind = 0 …}], threads = 256}]}]}
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_LAUNCHATTR_H
#define OCTET_CUDASOURCE_LAUNCHATTR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "octet/CudaSource/Instance.h"

namespace octet::cuda {

/// The discardable attribute of `kernel` operators after emit-kernels.
inline constexpr llvm::StringLiteral kLaunchName = "launch";
/// And of the module of a whole model: the launch that draws tokens.
inline constexpr llvm::StringLiteral kSampleName = "kernel.sample";

mlir::DictionaryAttr toAttribute(mlir::MLIRContext *context,
                                 const KernelLaunch &launch);

/// The launch of an operator. \returns an error on it if it has none, or one
/// with a field of another kind or unknown name.
mlir::FailureOr<KernelLaunch> getLaunch(mlir::Operation *op,
                                        llvm::StringRef name = kLaunchName);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_LAUNCHATTR_H
