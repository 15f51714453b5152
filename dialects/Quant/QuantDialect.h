//===- QuantDialect.h - The q dialect ---------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_QUANTDIALECT_H
#define OCTET_DIALECTS_QUANT_QUANTDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Quant/QuantDialect.h.inc"
#include "dialects/Quant/QuantEnums.h.inc"

namespace octet::q {
class TensorType; // of which attributes speak
} // namespace octet::q

#define GET_ATTRDEF_CLASSES
#include "dialects/Quant/QuantAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Quant/QuantTypes.h.inc"

namespace octet::q {

/// A ranked tensor of exactly one float: `tensor<f32>` or `tensor<1xbf16>`.
bool isScalarTensor(mlir::Type type);

/// A type of activations and plain weights: f32, bf16 or f16.
bool isPlainFloat(mlir::Type type);

/// A type that codes may have: an FP8 format of checkpoints (N1, N8), i8 or i4.
bool isStorageType(mlir::Type type);

/// A type that scales may have: f32, bf16, f16 or f8E8M0FNU (W1, N4).
bool isScaleType(mlir::Type type);

/// The type of `experts` tensors of that type, experts first (W5).
mlir::Type withExperts(mlir::Type type, int64_t experts);

/// The module path is not empty, and has `{l}` exactly if there is an index.
mlir::LogicalResult verifyModulePath(mlir::Operation *op, llvm::StringRef path,
                                     bool hasIndex);

/// What a cut of that side leaves whole, in elements: blocks, groups and packed
/// words; 1 where it may be anywhere (W3).
int64_t getSliceStep(mlir::Type type, Side side);

/// The size of that side of a plain or quantised tensor; rows of a vector are
/// its elements. Nothing if it has no such side.
std::optional<int64_t> getSideSize(mlir::Type type, Side side);

/// The same tensor with another size of that side; a scale's shape follows
/// (W4, W5). Of an unfused matrix, or of columns.
mlir::Type withSideSize(mlir::Type type, Side side, int64_t size);

/// Why a tensor of that type cannot be cut so, with its rule; empty if it can.
std::string describeSlice(mlir::Type type, SliceAttr slice);

/// The element type of a plain or quantised tensor.
mlir::Type getStorage(mlir::Type tensor);

/// Bytes of one element of a storage or scale type; i4 has none.
int64_t getElementBytes(mlir::Type elementType);

} // namespace octet::q

#endif // OCTET_DIALECTS_QUANT_QUANTDIALECT_H
