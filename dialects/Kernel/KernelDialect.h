//===- KernelDialect.h - The kernel dialect ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_KERNEL_KERNELDIALECT_H
#define OCTET_DIALECTS_KERNEL_KERNELDIALECT_H

#include "dialects/Model/ModelDialect.h"
#include "dialects/Quant/QuantDialect.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Kernel/KernelDialect.h.inc"
#include "dialects/Kernel/KernelEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Kernel/KernelTypes.h.inc"

namespace octet::kernel {

/// The tensor or quantised tensor that an operand is, or has room for.
mlir::Type getValueType(mlir::Type type);

/// A value of that type in a region is exact in `elementType` (N9): it went
/// through `kernel.round`, was loaded from such an operand, or only moves
/// values that are.
bool isRoundedTo(mlir::Value value, mlir::Type elementType);

} // namespace octet::kernel

#endif // OCTET_DIALECTS_KERNEL_KERNELDIALECT_H
