//===- PackedTypes.h - Weights whose codes share words ----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of q::TensorType that knows the layouts packed, packed_k, awq and
// tiled.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_PACKEDTYPES_H
#define OCTET_DIALECTS_QUANT_PACKEDTYPES_H

#include "dialects/Quant/QuantDialect.h"

namespace octet::q {

/// The parameters of a type that do not depend on its sides.
struct WordFormat {
  mlir::Type elementType;
  GranularityAttr granularity;
  mlir::Type scaleType;
  Offset offset;
  Layout layout;
  GlobalScale global;
  bool actOrder;

  /// One of the layouts of this file.
  bool inWords() const {
    return layout == Layout::Packed || layout == Layout::PackedK ||
           layout == Layout::Awq || layout == Layout::Tiled;
  }
};

/// Codes, scales, offsets and layout go together; of any type, since what
/// belongs to these layouts is nowhere else.
mlir::LogicalResult
verifyWords(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
            const WordFormat &format);

/// Words and groups divide the sides where they have to, and all bytes are
/// counted by an int64_t. `shape` is static.
mlir::LogicalResult
verifyWordSides(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
                const WordFormat &format, llvm::ArrayRef<int64_t> shape,
                llvm::ArrayRef<int64_t> shardRows);

/// What a contract with an activation makes of rows of that shape (P3): codes
/// and F32 scales, in the contract's order; four exponents a word; or NVFP4
/// whose stored scale multiplies (N7).
TensorType getActivationType(ContractAttr contract,
                             llvm::ArrayRef<int64_t> shape);

/// The tensor of a packed type's codes.
mlir::RankedTensorType getPackedData(TensorType type);

/// Bytes of all tensors of a type of these layouts.
int64_t countPackedBytes(TensorType type);

} // namespace octet::q

#endif // OCTET_DIALECTS_QUANT_PACKEDTYPES_H
