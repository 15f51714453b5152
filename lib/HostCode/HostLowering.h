//===- HostLowering.h - load and step as native code ------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The parts of lower-to-host. Each replaces functions of a module (after
// plan-buffers) by `llvm.func`s whose bodies hold the LLVM dialect, arith,
// math, vector and scf; the pass converts the rest to LLVM.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_HOSTCODE_HOSTLOWERING_H
#define OCTET_HOSTCODE_HOSTLOWERING_H

#include "DeviceCode.h"
#include "HostModule.h"
#include "dialects/Kernel/KernelOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace octet::host {

/// Names of the functions that `octet_program` holds.
inline constexpr llvm::StringLiteral kLoadName = "octet_load";
inline constexpr llvm::StringLiteral kStepName = "octet_step";

/// One row of the program's tensor table.
struct TensorRow {
  std::string name;
  mlir::Type type; ///< ranked, or quantised and in `layout = gguf`
};

/// `@load` to `octet_load`, and the table of the tensors that it reads: a row
/// for each instance of a `q.load` in the order of the function, its scale
/// right after it. What emit-kernels gave a launch is rewritten by the device.
mlir::FailureOr<std::vector<TensorRow>> lowerLoad(HostModule &host,
                                                  DeviceCode &device);

/// `@step` and the layer functions, with a row function per kernel.rowwise and
/// SIMD level, or a launch per kernel for a device.
/// \returns the number of row functions.
mlir::FailureOr<int64_t> lowerStep(HostModule &host, DeviceCode &device);

/// The info JSON (runtime/README.md), read off the module before lowering.
mlir::FailureOr<std::string> makeInfo(mlir::ModuleOp module,
                                      llvm::ArrayRef<TensorRow> tensors);

/// The constant `octet_program`, with the images of the device's code.
mlir::LogicalResult addProgram(HostModule &host, DeviceCode &device,
                               llvm::StringRef info, int64_t arenaBytes);

/// Turns a `func.func` into an `llvm.func` with the same body, whose first
/// arguments are `leading`; index arguments become i64, batches are left to
/// the caller (their uses must be gone before eraseArguments).
mlir::LLVM::LLVMFuncOp convertSignature(mlir::func::FuncOp function,
                                        llvm::StringRef name,
                                        llvm::ArrayRef<mlir::Type> leading,
                                        mlir::Type result);

} // namespace octet::host

#endif // OCTET_HOSTCODE_HOSTLOWERING_H
