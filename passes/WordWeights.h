//===- WordWeights.h - Loading of codes that share words --------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of WeightPlan that knows AWQ, GPTQ, pack-quantized, MXFP4 and NVFP4:
// which tensors belong to a weight, and the operators that join them (q.load of
// each, q.pack).
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_WORDWEIGHTS_H
#define OCTET_PASSES_WORDWEIGHTS_H

#include "dialects/Quant/QuantOps.h"

namespace octet {

/// One tensor of such a weight.
struct WordTensor {
  mlir::StringAttr name; ///< last component; null: the weight has none
  mlir::RankedTensorType type = {}; ///< as stored
};

/// Codes, scales, zero points, the scale above those of groups, and the group
/// of each column.
struct WordTensors {
  q::TensorType type;
  WordTensor codes, scales, zeros, global, order;
};

/// Finds the tensors that `type` implies among those that are stored.
/// \param codes  the name of the tensor of codes.
/// \returns what is wrong, or nothing.
std::string findWordTensors(llvm::StringRef subject, q::StoredAttr stored,
                            mlir::StringAttr codes, q::TensorType type,
                            WordTensors &tensors);

/// Loads each and joins them.
mlir::Value emitWordTensors(mlir::OpBuilder &builder, mlir::Location loc,
                            const WordTensors &tensors, mlir::StringAttr path,
                            mlir::Value index, mlir::Value expert);

} // namespace octet

#endif // OCTET_PASSES_WORDWEIGHTS_H
