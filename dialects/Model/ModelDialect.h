//===- ModelDialect.h - The model dialect -----------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELDIALECT_H
#define OCTET_DIALECTS_MODEL_MODELDIALECT_H

#include "dialects/Quant/QuantDialect.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Model/ModelDialect.h.inc"
#include "dialects/Model/ModelEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Model/ModelAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Model/ModelTypes.h.inc"

namespace octet::model {

/// The name of the module attribute that holds a SettingsAttr.
inline constexpr llvm::StringLiteral kSettingsName = "model.settings";

/// The settings of the module around `op`, or null.
SettingsAttr getSettings(mlir::Operation *op);

} // namespace octet::model

#endif // OCTET_DIALECTS_MODEL_MODELDIALECT_H
