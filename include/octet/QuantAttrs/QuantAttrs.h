//===- QuantAttrs.h - Quantisation facts as attributes ----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The structs of lib/QuantMethods and the attributes of the q dialect say the
// same things; these functions go from one to the other, so that passes call
// the rules' functions on what the IR holds.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_QUANTATTRS_QUANTATTRS_H
#define OCTET_QUANTATTRS_QUANTATTRS_H

#include "dialects/Quant/QuantDialect.h"
#include "octet/QuantMethods/QuantMethods.h"

namespace octet {

/// JSON as an attribute: an object is a dictionary, `null` is `unit`, an
/// integer an i64, another number an f64.
/// \returns an input error for a key that no attribute can have (empty).
Result<mlir::Attribute> toAttr(const nlohmann::json &value,
                               const std::string &subject,
                               mlir::MLIRContext *context);
/// The inverse; attributes that toAttr does not make become `null`.
nlohmann::json toJson(mlir::Attribute attribute);

/// BOOL is i1, I8 is i8, U8 is ui8, F8_E4M3 is f8E4M3FN, F8_E8M0 is f8E8M0FNU.
mlir::Type toElementType(StoredType type, mlir::MLIRContext *context);
std::optional<StoredType> toStoredType(mlir::Type type);
/// tensor<384x256xf8E4M3FN>, or !q.tensor<…, layout = gguf> of what stays
/// packed.
mlir::Type toTensorType(const StoredTensor &tensor, mlir::MLIRContext *context);

q::StoredAttr toAttr(const StoredTensors &tensors, llvm::StringRef declared,
                     mlir::MLIRContext *context);
/// Tensors of a type that no file stores are left out.
StoredTensors toTensors(q::StoredAttr stored);

q::GranularityAttr toAttr(const Granularity &granularity,
                          mlir::MLIRContext *context);
Granularity toGranularity(q::GranularityAttr attribute);

/// `whileLoading` is not in the attribute: it shows in the weight's plain type.
q::MethodAttr toAttr(const ResolvedModule &method, mlir::MLIRContext *context);
/// \param contract  gives `ue8m0`, which the method does not have; may be null.
ResolvedModule toResolved(q::MethodAttr method, q::ContractAttr contract);

/// Scales of a contract are F32, or f8E8M0FNU where it takes exponents.
q::ContractAttr toAttr(const Contract &contract, mlir::MLIRContext *context);

/// Codes of the format share words: AWQ, GPTQ, pack-quantized, MXFP4, NVFP4.
bool sharesWords(const WeightFormat &format);

/// The type of a weight [n, k] of such a format, as it is stored.
/// \param experts  matrices in one tensor, 0: it is one matrix.
q::TensorType toWordType(const ResolvedModule &method, int64_t n, int64_t k,
                         int64_t experts, mlir::MLIRContext *context);

/// The contract of a weight whose codes share words (B4): in tiles after
/// q.repack, or as it is stored.
q::ContractAttr toWordContract(q::TensorType stored, bool tiled);

} // namespace octet

#endif // OCTET_QUANTATTRS_QUANTATTRS_H
