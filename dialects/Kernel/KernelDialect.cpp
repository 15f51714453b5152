//===- KernelDialect.cpp - Registration and types of kernel ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Kernel/KernelDialect.h"
#include "dialects/Kernel/KernelOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet;
using namespace octet::kernel;

#include "dialects/Kernel/KernelDialect.cpp.inc"
#include "dialects/Kernel/KernelEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Kernel/KernelAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/Kernel/KernelTypes.cpp.inc"

void KernelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Kernel/KernelAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Kernel/KernelTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Kernel/KernelOps.cpp.inc"
      >();
}

Type octet::kernel::getValueType(Type type) {
  if (auto buffer = dyn_cast<BufferType>(type))
    return buffer.getType();
  return type;
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Type type) {
  ArrayRef<int64_t> shape;
  if (isa<model::DispatchedType>(type))
    return success(); // its own verifier knows
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    shape = tensor.getShape();
  else if (auto tensor = dyn_cast<q::TensorType>(type))
    shape = tensor.getShape();
  else
    return emitError() << "buffer of " << type
                       << ", expected a tensor or a quantised tensor";
  if (shape.empty() || !ShapedType::isDynamic(shape[0]) ||
      llvm::any_of(shape.drop_front(), ShapedType::isDynamic))
    return emitError() << "buffer of " << type
                       << ", expected a dynamic leading dimension (rows of a "
                          "step) and no other";
  return success();
}
