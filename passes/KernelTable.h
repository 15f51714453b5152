//===- KernelTable.h - Kernels by contract and target -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What select-kernels asks of a family of targets: which kernel takes a
// product, which one another operator, and which were preferred but may not
// (B1-B5). The choice is a function of types and attributes alone.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_KERNELTABLE_H
#define OCTET_PASSES_KERNELTABLE_H

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "octet/QuantMethods/Target.h"

namespace octet {

/// What a product reads and writes.
struct Product {
  mlir::Type input, weight, result, bias; ///< bias may be null
  q::TensorType qInput, qWeight;          ///< null if plain
  bool isGrouped = false;                 ///< of experts
};

/// A kernel that would have been preferred, and why it was not taken.
struct RejectedKernel {
  std::string name;
  std::string why;
  const char *rule;
};

/// What was found in a table; `name` is empty if nothing takes the operator.
struct KernelChoice {
  std::string name;
  const char *rule = "";
  llvm::SmallVector<RejectedKernel, 2> rejected;
};

/// Variants of a kernel by ranges of M (B5).
struct VariantTable {
  llvm::SmallVector<int64_t> maxM; ///< ends of the ranges; -1: no end
  llvm::SmallVector<std::string> names;
  /// A preference that `--batch-invariant` forbids; empty: none.
  std::string missed;
};

/// The first kernel of the CPU that takes the product; no name, and the reasons
/// of those for its codes, if none does.
KernelChoice chooseCpuGemm(const Product &product);

/// The kernel of a CUDA target for a product (B1-B4).
KernelChoice chooseCudaGemm(const Product &product, const Target &target);

/// Tiles for few and for many rows; a sum over K may be split for few, in a
/// fixed order, unless a row's result may not depend on how many there are.
VariantTable chooseCudaVariants(const Product &product, const Target &target,
                                bool batchInvariant);

/// The kernel of a CUDA target for an operator that is no product.
KernelChoice chooseCudaKernel(mlir::Operation *op, const Target &target);

/// Multiprocessors of the largest device of a capability times ten.
int64_t countMultiprocessors(int capability);

} // namespace octet

#endif // OCTET_PASSES_KERNELTABLE_H
