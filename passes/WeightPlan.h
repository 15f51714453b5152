//===- WeightPlan.h - How one weight is loaded ------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The decisions of materialize-weights for one tensor: what is read and how it
// is rewritten to the contract (W1-W10), apart from where it goes.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_WEIGHTPLAN_H
#define OCTET_PASSES_WEIGHTPLAN_H

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"
#include "passes/WordWeights.h"
#include <optional>

namespace octet {

/// One tensor to read: a shard, or the whole of an unfused weight.
struct PartPlan {
  mlir::StringAttr path;
  mlir::StringAttr scale; ///< name of its scale's tensor; null: none
  mlir::Type type;        ///< as stored
  /// Of the scale as stored, where the type implies another (W2); else null.
  mlir::DenseI64ArrayAttr scaleShape = {};
  int64_t headRows = 0; ///< W16
  /// What one rank has of it: experts that stand in one tensor, then a side.
  llvm::SmallVector<q::SliceAttr, 2> slices = {};

  /// The type after the slices (W4).
  mlir::Type getLocalType() const;
  /// Of the scale's elements as stored, where they are other names of the same
  /// bits (exponents as ui8, N7); else null.
  mlir::TypeAttr scaleType = {};
  /// Of codes that share words.
  std::optional<WordTensors> words = {};
};

/// From what is stored to what the contract asks for.
struct WeightPlan {
  std::string problem; ///< not empty: an error, with its subject
  mlir::StringAttr name;
  llvm::SmallVector<PartPlan> parts;
  bool convertScales = false;   ///< to f32, exact
  bool convertCodes = false;    ///< N8
  bool mergeScales = false;     ///< B6
  bool makeExponents = false;   ///< W11
  bool quantize = false;        ///< W10
  bool expandScales = false;    ///< W7
  bool useLargestScale = false; ///< W8; W10 with one scale for all shards
  bool tile = false;            ///< B4, C10: in the order of its kernel
  bool shareGlobal = false; ///< W9: one scale above the groups of all shards
  mlir::Type type;          ///< of the slot
};

/// Decides for a weight and the contract of the linear that reads it (null:
/// none, as for norms).
WeightPlan planWeight(model::WeightOp op, q::ContractAttr contract);

/// A stored activation scale of NVFP4 that divides, where `input_scale`
/// multiplies (FORMATS).
inline constexpr llvm::StringLiteral kInputDivisor = "input_global_scale";

/// What is wrong with a stored static activation scale (null: absent), given
/// those of the shards before it; empty if nothing is (W2).
std::string describeInputScale(mlir::RankedTensorType type,
                               llvm::ArrayRef<PartPlan> before);

/// What is wrong with the stored scales of an FP8 cache; empty if nothing is.
std::string describeKvScales(q::StoredAttr stored);

/// The rank, an argument of the load function that `builder` is in.
mlir::Value getRankArgument(mlir::OpBuilder &builder);

/// The operators of a plan that has no problem. \param expert  null: of none.
mlir::Value emitWeight(mlir::OpBuilder &builder, mlir::Location loc,
                       const WeightPlan &plan, mlir::Value index,
                       mlir::Value expert = {});

/// A static activation scale: the largest of the parts', as one F32 (W9). Also
/// of one part, because q.max refuses what is no scale (W6).
mlir::Value emitInputScale(mlir::OpBuilder &builder, mlir::Location loc,
                           llvm::ArrayRef<PartPlan> parts, mlir::Value index,
                           mlir::Value expert = {});

/// Both scales of one layer's FP8 cache (P8) from what is stored below the
/// attention's path.
llvm::SmallVector<mlir::Value>
emitKvScales(mlir::OpBuilder &builder, mlir::Location loc,
             mlir::StringAttr path, q::StoredAttr stored, mlir::Value index);

} // namespace octet

#endif // OCTET_PASSES_WEIGHTPLAN_H
