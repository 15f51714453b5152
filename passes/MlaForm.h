//===- MlaForm.h - Explicit and absorbed latent attention ------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Latent attention multiplies latents by kv_b_proj (explicit), or its queries
// and results by the matrix's two halves, w_kc and w_vc (absorbed, W12). The
// numbers differ by one rounding: the explicit form quantises the latents for
// kv_b_proj like the input of any linear, the absorbed form does not.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_PASSES_MLAFORM_H
#define OCTET_PASSES_MLAFORM_H

#include "dialects/Model/ModelOps.h"
#include "dialects/Quant/QuantOps.h"

namespace octet {

enum class MlaForm { Explicit, Absorbed, Both };

/// --mla. `auto` is absorbed where a row's result may not depend on the number
/// of rows (--batch-invariant), else both, chosen by that number (B5).
MlaForm getMlaForm(model::MlaAttentionOp op);

/// The slots of the halves.
struct AbsorbedTypes {
  mlir::RankedTensorType matrix; ///< [heads * (nope + value), rank], plain
  mlir::RankedTensorType keys;   ///< w_kc [heads, nope, rank]
  mlir::RankedTensorType values; ///< w_vc [heads, value, rank]
  q::SliceAttr rows;             ///< of a padded matrix (W3), else null
};

/// \param weight  kv_b_proj as it is loaded. A plain one keeps its dtype, codes
///                become the activation dtype.
AbsorbedTypes getAbsorbedTypes(model::MlaAttentionOp op, mlir::Type weight);

/// Dequantises the whole matrix, so that each row meets the scale of its block,
/// drops the rows that padding added to a rank's (W3), then takes the heads
/// apart. \returns w_kc and w_vc.
/// \param rank  the load function's.
llvm::SmallVector<mlir::Value>
emitAbsorbed(mlir::OpBuilder &builder, mlir::Location loc,
             const AbsorbedTypes &types, mlir::Value weight, mlir::Value rank);

/// Makes the attention read w_kc and w_vc, or kv_b_proj and both. Without
/// kv_b_proj nothing of it is quantised or padded, and the contract says so.
void useMatrices(model::MlaAttentionOp op,
                 llvm::ArrayRef<mlir::Value> matrices);

} // namespace octet

#endif // OCTET_PASSES_MLAFORM_H
