//===- CudaProblems.h - Problems of kernel operators ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_CUDAPROBLEMS_H
#define OCTET_PASSES_CUDAPROBLEMS_H

#include "dialects/Kernel/KernelOps.h"
#include "dialects/Model/ModelOps.h"
#include "octet/CudaSource/Families.h"
#include "octet/CudaSource/LoadRewrite.h"
#include "passes/KernelTable.h"

namespace octet {

/// What a product's kernel is specialised by, but for the choices by M.
cuda::GemmProblem makeProblem(const Product &product, mlir::StringRef kernel,
                              mlir::StringRef module, const Target &target);
cuda::GemmProblem makeProblem(kernel::GemmOp op, const Target &target);

/// The choices by M of a family that makes them by itself (B5); nothing where
/// it cannot make the problem. \pre  the kernel is written.
std::optional<VariantTable>
chooseFamilyVariants(const cuda::GemmProblem &problem, const Target &target);

/// The choices by M of `sm90.` products, which may split K for few rows; a
/// preference that is missed where a row's result may not depend on others.
VariantTable chooseSm90Variants(const cuda::GemmProblem &problem,
                                bool batchInvariant);

/// The same of an attention; the limits are the program's.
cuda::AttentionProblem makeProblem(kernel::AttentionOp op, const Target &target,
                                   model::SettingsAttr settings);

/// What the device does of an operator of the load function that rewrites each
/// element of a weight (W8, W10); nothing for what the host does.
std::optional<cuda::LoadRewrite> findLoadRewrite(mlir::Operation *op);

/// One error that lists the kernels that are named and not written (C9), or
/// success. Both emit-kernels and lower-to-host end there.
mlir::LogicalResult refuseUnwritten(mlir::ModuleOp module);

} // namespace octet

#endif // OCTET_PASSES_CUDAPROBLEMS_H
