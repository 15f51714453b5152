//===- ModelVerify.h - What many operators ask for --------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Private to dialects/Model. Each check emits its error on the operator.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELVERIFY_H
#define OCTET_DIALECTS_MODEL_MODELVERIFY_H

#include "dialects/Model/ModelOps.h"

namespace octet::model {

/// A number as a config file would have it.
std::string printFloat(float value);

inline mlir::RankedTensorType plainType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}

/// Rows of the step: `[rows, width]` in an activation dtype.
mlir::LogicalResult verifyRows(mlir::Operation *op, llvm::StringRef what,
                               mlir::RankedTensorType type);
/// The same with a width that is known.
mlir::LogicalResult verifyWidth(mlir::Operation *op, llvm::StringRef what,
                                mlir::RankedTensorType type, int64_t width,
                                llvm::StringRef rule);
/// One i32 a row.
mlir::LogicalResult verifyIndices(mlir::Operation *op, llvm::StringRef what,
                                  mlir::RankedTensorType type);
mlir::LogicalResult verifySameRows(mlir::Operation *op, llvm::StringRef what,
                                   int64_t rows, llvm::StringRef other,
                                   int64_t otherRows);
mlir::LogicalResult verifySameType(mlir::Operation *op, mlir::Value input,
                                   mlir::Value result);
mlir::LogicalResult verifyModule(mlir::Operation *op, llvm::StringRef module);
/// At least 1.
mlir::LogicalResult verifyPositive(mlir::Operation *op, llvm::StringRef what,
                                   int64_t value);
/// A factor: positive and finite.
mlir::LogicalResult verifyScale(mlir::Operation *op, llvm::StringRef what,
                                const llvm::APFloat &value);
/// One value of each of `width` columns.
mlir::LogicalResult verifyVector(mlir::Operation *op, llvm::StringRef what,
                                 mlir::Value value, int64_t width,
                                 llvm::StringRef rule);
/// Rows that ranks add (P15).
mlir::LogicalResult verifyRankSum(mlir::Operation *op,
                                  mlir::RankedTensorType type);
/// `weight` is what the method stores or what the contract reads (B3).
mlir::LogicalResult verifyWeightContract(mlir::Operation *op, mlir::Type weight,
                                         q::MethodAttr method,
                                         q::ContractAttr contract);

} // namespace octet::model

#endif // OCTET_DIALECTS_MODEL_MODELVERIFY_H
