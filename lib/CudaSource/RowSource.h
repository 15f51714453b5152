//===- RowSource.h - kernel.rowwise to CUDA C++ -----------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The region of a `kernel.rowwise` is its only definition; lib/HostCode prints
// the CPU's code of it, this printer a `.cu` of calls to row/row.cuh.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_CUDASOURCE_ROWSOURCE_H
#define OCTET_CUDASOURCE_ROWSOURCE_H

#include "dialects/Kernel/KernelOps.h"
#include "octet/CudaSource/Instance.h"
#include "octet/QuantMethods/Target.h"

namespace octet::cuda {

/// The kernel of `op` (after plan-buffers) for `target`. Its arguments are the
/// pointers of host::RowFrame in their order, then the number of rows. Equal
/// regions have equal text. What cannot be printed is an error on the op.
mlir::FailureOr<KernelLaunch> printRowwiseLaunch(kernel::RowwiseOp op,
                                                 const Target &target);

} // namespace octet::cuda

#endif // OCTET_CUDASOURCE_ROWSOURCE_H
