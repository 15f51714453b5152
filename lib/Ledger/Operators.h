//===- Operators.h - The boundaries of one operator -------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_LIB_LEDGER_OPERATORS_H
#define OCTET_LIB_LEDGER_OPERATORS_H

#include "dialects/Quant/QuantDialect.h"
#include "mlir/IR/Operation.h"
#include "octet/Ledger/Ledger.h"
#include "octet/Support/Status.h"

namespace octet {

/// Adds what `op` does to a token: nothing for one that only names or moves
/// values inside a rank, several entries for one with boundaries inside.
/// \returns an internal error for a cache whose parts do not add up.
Status addBoundaries(mlir::Operation *op, std::vector<LedgerEntry> &entries);

// Of Operators.cpp, for the operators with boundaries inside
// (SparseOperators.cpp).

/// The path of an operator's module, `{l}` for the layer: its own, or that of
/// what it belongs to.
std::string findModulePath(mlir::Operation *op);

/// An entry with the operator's path; `rules` separated by spaces.
LedgerEntry makeEntry(mlir::Operation *op, llvm::StringRef rules,
                      llvm::StringRef name);

/// `2.5`, `1200`.
std::string formatNumber(double value);

/// A weight operand with its slot's name.
LedgerPart makeWeightOperand(mlir::Value value);

/// Arithmetic, rules and notes of a product of these types, and the bound of a
/// sum over `k` products.
void describeProduct(LedgerEntry &entry, mlir::Type input, mlir::Type weight,
                     int64_t k, mlir::Type result);

/// Arithmetic, rules and error of rounding to codes.
void describeQuantize(LedgerEntry &entry, q::TensorType type, bool isStatic,
                      bool powerOfTwo);

/// What goes to a cache, with its error.
Status addCacheWrite(LedgerEntry entry, mlir::Type input, q::KvType cache,
                     std::vector<LedgerEntry> &entries);

/// The operators of latent attention, indexers and experts; false if `op` is
/// none of them.
Result<bool> addSparseBoundaries(mlir::Operation *op,
                                 std::vector<LedgerEntry> &entries);

} // namespace octet

#endif // OCTET_LIB_LEDGER_OPERATORS_H
