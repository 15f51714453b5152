//===- HostModule.h - Building the LLVM side of a program -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Globals, fields of the structs of runtime/abi.h and calls through its table.
// Offsets come from the header itself, so that there is one layout.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_HOSTMODULE_H
#define OCTET_HOSTCODE_HOSTMODULE_H

#include "dialects/Quant/QuantOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringMap.h"
#include <variant>

namespace octet::host {

/// A field of a constant struct: an integer of 4 or 8 bytes, a float, or the
/// address of a symbol (empty: null).
using ConstantField = std::variant<int32_t, int64_t, float, std::string>;

/// A struct of runtime/abi.h in the making, its fields in order.
using ConstantFields = llvm::SmallVector<ConstantField>;

class HostModule {
public:
  explicit HostModule(mlir::ModuleOp module);

  mlir::ModuleOp module;
  mlir::MLIRContext *context;
  mlir::Type pointer, i8, i32, i64;
  bool isDevice; ///< the target is no CPU: addresses of data are a device's

  // --- globals ---

  /// A constant string with a NUL, one a text; \returns its symbol.
  std::string addString(llvm::StringRef text);
  /// Constant bytes at a 16-byte boundary.
  std::string addBytes(llvm::StringRef name, llvm::StringRef bytes);
  /// A constant array of floats.
  std::string addFloats(llvm::StringRef name, llvm::ArrayRef<float> values);
  /// A constant struct; an external one is exported.
  std::string addStruct(llvm::StringRef name, const ConstantFields &fields,
                        bool isExternal = false);
  /// A constant array of functions.
  std::string addFunctionTable(llvm::StringRef name,
                               llvm::ArrayRef<std::string> functions);
  /// A name that no symbol of the module has.
  std::string uniqueName(llvm::StringRef base);

  // --- code ---

  mlir::Value addressOf(mlir::ImplicitLocOpBuilder &b, llvm::StringRef symbol);
  mlir::Value constant(mlir::ImplicitLocOpBuilder &b, int64_t value);
  mlir::Value constant32(mlir::ImplicitLocOpBuilder &b, int32_t value);
  mlir::Value null(mlir::ImplicitLocOpBuilder &b);
  /// base + bytes.
  mlir::Value offset(mlir::ImplicitLocOpBuilder &b, mlir::Value base,
                     int64_t bytes);
  mlir::Value offset(mlir::ImplicitLocOpBuilder &b, mlir::Value base,
                     mlir::Value bytes);
  /// The field of `type` at `bytes` from `base`.
  mlir::Value loadField(mlir::ImplicitLocOpBuilder &b, mlir::Value base,
                        int64_t bytes, mlir::Type type);
  /// Calls the function at `bytes` in the table of `ctx`; `result` may be null.
  mlir::Value callRuntime(mlir::ImplicitLocOpBuilder &b, mlir::Value ctx,
                          int64_t bytes, mlir::Type result,
                          mlir::ValueRange arguments);
  /// `value` (index or i64) as i64.
  mlir::Value asI64(mlir::ImplicitLocOpBuilder &b, mlir::Value value);

  // --- weights ---

  /// The number of octet_weight slots, and the first of each `q.slot`.
  int64_t numWeights = 0;
  /// Address of the octet_weight of `slot`[index]; index may be null.
  mlir::Value weightAddress(mlir::ImplicitLocOpBuilder &b, mlir::Value ctx,
                            llvm::StringRef slot, mlir::Value index);

private:
  mlir::OpBuilder atEnd();

  llvm::StringMap<std::string> strings;
  llvm::StringMap<int64_t> firstSlot;
  llvm::StringMap<int> nextName;
};

/// octet_dtype of an element type.
int32_t abiType(mlir::Type element);
/// The same of a plain or quantised tensor's elements, or of its blocks.
int32_t abiStorage(mlir::Type tensor);
/// octet_scale_mode of a granularity.
int32_t abiScaleMode(q::GranularityAttr granularity);
/// The same of a weight, whose scales may stand in its tiles or blocks.
int32_t abiWeightScaleMode(q::TensorType type);
/// Appends the octet_groups of a weight to a description; zeros of one whose
/// codes do not share words, and of none.
void appendGroups(ConstantFields &fields, q::TensorType type);

} // namespace octet::host

#endif // OCTET_HOSTCODE_HOSTMODULE_H
