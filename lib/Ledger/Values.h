//===- Values.h - Parts and errors that follow from types -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_LEDGER_VALUES_H
#define OCTET_LIB_LEDGER_VALUES_H

#include "dialects/Quant/QuantDialect.h"
#include "octet/Ledger/Ledger.h"

namespace octet {

/// `F8_E4M3`, `BF16`, … as `octet check` names them.
std::string nameElementType(mlir::Type type);

/// What an activation is for one token: the rows of a step are left out.
LedgerPart makeTokenPart(mlir::Type type);

/// A whole weight.
LedgerPart makeWeightPart(mlir::Type type, llvm::StringRef slot);

/// `elements` numbers of a type.
LedgerPart makePart(llvm::StringRef name, mlir::Type elementType,
                    llvm::ArrayRef<int64_t> shape);

/// Codes of one token in groups of `group` along K, with a scale each.
LedgerPart makeGroupedPart(llvm::StringRef name, mlir::Type elementType,
                           int64_t elements, int64_t group,
                           mlir::Type scaleType);

/// What rounding to a type does, at most and on average (N5); nothing for F32,
/// which rounds what was F32 before. \param powerOfTwo  the scale is rounded up
/// to a power of two (N4), so that the largest value may be half of what the
/// format holds.
std::optional<LedgerError> describeRounding(mlir::Type elementType,
                                            bool powerOfTwo = false);

/// The same for a quantised type, whose scale follows the largest value.
std::optional<LedgerError> describeRounding(q::TensorType type,
                                            bool powerOfTwo = false);

/// A sum of `count` products in FP32, in any order, is wrong by at most
/// count * 2^-24 of the sum of their magnitudes.
double boundSum(int64_t count);

/// What a cache keeps of one token.
std::vector<LedgerPart> makeCacheParts(q::KvType type);

} // namespace octet

#endif // OCTET_LIB_LEDGER_VALUES_H
