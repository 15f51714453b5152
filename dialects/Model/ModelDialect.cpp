//===- ModelDialect.cpp - Registration and attributes of model ------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Model/ModelDialect.h"
#include "dialects/Model/ModelOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet::model;

#include "dialects/Model/ModelDialect.cpp.inc"
#include "dialects/Model/ModelEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Model/ModelAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Model/ModelTypes.cpp.inc"

void ModelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Model/ModelAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Model/ModelTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Model/ModelOps.cpp.inc"
      >();
}

SettingsAttr octet::model::getSettings(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  return module ? module->getAttrOfType<SettingsAttr>(kSettingsName)
                : SettingsAttr();
}

LogicalResult ModelDialect::verifyOperationAttribute(Operation *op,
                                                     NamedAttribute attr) {
  if (attr.getName() != kSettingsName)
    return success();
  if (!isa<ModuleOp>(op))
    return op->emitOpError()
           << "has " << kSettingsName << ", which belongs to the module";
  if (!isa<SettingsAttr>(attr.getValue()))
    return op->emitOpError() << kSettingsName << " is " << attr.getValue()
                             << ", expected #model.settings";
  return success();
}

LogicalResult SettingsAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, StringRef target,
    StringRef numerics, Type dtype, int64_t tp, int64_t ep, int64_t dp,
    int64_t maxContext, int64_t maxSeqs, int64_t maxStepTokens,
    StringRef activationQuant, StringRef kvCache, StringRef quantization, bool,
    bool, bool, StringRef mla, StringRef indexCache, int64_t mtp, bool,
    StringRef mxfp8As, StringRef scaleFormat, StringRef splitBlocks) {
  for (auto [name, value] :
       {std::pair("target", target), std::pair("numerics", numerics)})
    if (value != "cpu" && !value.starts_with("sm_"))
      return emitError() << name << " is '" << value
                         << "', expected cpu or sm_NN [C9]";
  if (!q::isPlainFloat(dtype))
    return emitError() << "dtype is " << dtype
                       << ", expected f32, bf16 or f16 [C9]";
  // Cache rows are int32 (runtime/abi.h), so no count may exceed one.
  for (auto [name, value] :
       {std::pair("tp", tp), std::pair("ep", ep), std::pair("dp", dp),
        std::pair("max_context", maxContext), std::pair("max_seqs", maxSeqs),
        std::pair("max_step_tokens", maxStepTokens)})
    if (value < 1 || value > INT32_MAX)
      return emitError() << name << " is " << value
                         << ", expected 1 to 2147483647";
  if (splitBlocks != "error" && splitBlocks != "pad")
    return emitError() << "split_blocks is '" << splitBlocks
                       << "', expected error or pad [W3]";
  if (activationQuant != "auto" && activationQuant != "off")
    return emitError() << "activation_quant is '" << activationQuant
                       << "', expected auto or off";
  if (kvCache != "auto" && !q::symbolizeKvLayout(kvCache))
    return emitError() << "kv_cache is '" << kvCache
                       << "', expected auto, f32, bf16, f16 or fp8_e4m3 [P7b]";
  if (mla != "auto" && mla != "explicit" && mla != "absorbed")
    return emitError() << "mla is '" << mla
                       << "', expected auto, explicit or absorbed [W12]";
  if (indexCache != "fp8" && indexCache != "bf16")
    return emitError() << "index_cache is '" << indexCache
                       << "', expected fp8 or bf16 [P9]";
  if (!mxfp8As.empty() && mxfp8As != "block" && mxfp8As != "weight-only")
    return emitError() << "mxfp8_as is '" << mxfp8As
                       << "', expected block, weight-only or nothing [B6]";
  if (scaleFormat != "auto" && scaleFormat != "keep")
    return emitError() << "scale_format is '" << scaleFormat
                       << "', expected auto or keep [W11]";
  if (mtp < 0 || mtp > INT32_MAX)
    return emitError() << "mtp is " << mtp
                       << ", expected 0 to 2147483647 [W14]";
  return success();
}

LogicalResult
DispatchedType::verify(function_ref<InFlightDiagnostic()> emitError, Type rows,
                       int64_t choices, Order) {
  ArrayRef<int64_t> shape;
  if (auto quantized = dyn_cast<q::TensorType>(rows))
    shape = quantized.getShape();
  else if (auto plain = dyn_cast<RankedTensorType>(rows);
           plain && q::isPlainFloat(plain.getElementType()))
    shape = plain.getShape();
  if (shape.size() != 2 || !ShapedType::isDynamic(shape[0]) ||
      ShapedType::isDynamic(shape[1]))
    return emitError() << "rows are " << rows
                       << ", expected rows [rows, width] of a step, plain or "
                          "quantised [B7]";
  if (choices < 1 || choices > INT32_MAX)
    return emitError() << "choices is " << choices
                       << ", expected 1 to 2147483647 [B7]";
  return success();
}
