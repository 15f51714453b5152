//===- KernelOps.h - Operators of kernel ------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_KERNEL_KERNELOPS_H
#define OCTET_DIALECTS_KERNEL_KERNELOPS_H

#include "dialects/Kernel/KernelDialect.h"

#define GET_OP_CLASSES
#include "dialects/Kernel/KernelOps.h.inc"

#endif // OCTET_DIALECTS_KERNEL_KERNELOPS_H
