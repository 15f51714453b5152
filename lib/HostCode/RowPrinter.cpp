//===- RowPrinter.cpp - kernel.rowwise to vector code ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowPrinter.h"
#include "RowEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace octet;
using namespace octet::host;

//===----------------------------------------------------------------------===//
// The frame
//===----------------------------------------------------------------------===//

RowFrame RowFrame::of(kernel::RowwiseOp op) {
  RowFrame frame;
  for (size_t i = 0; i < op.getInputs().size(); ++i)
    frame.inputs.push_back(frame.size++);
  for (size_t i = 0; i < op.getIndices().size(); ++i)
    frame.indices.push_back(frame.size++);
  for (Value out : op.getOuts()) {
    frame.outs.push_back(frame.size++);
    bool quantized = isa<q::TensorType>(kernel::getValueType(out.getType()));
    frame.scales.push_back(quantized ? frame.size++ : -1);
  }
  if (op.getCache()) {
    frame.cacheK = frame.size++;
    frame.cacheV = frame.size++;
    frame.slots = frame.size++;
  }
  return frame;
}

static int64_t rowBytes(Type type) {
  if (auto quantized = dyn_cast<q::TensorType>(type))
    return quantized.isGguf()
               ? quantized.withShape({1, quantized.getK()}).getBytes()
               : quantized.getDataTensorType().getShape().back();
  auto tensor = cast<RankedTensorType>(type);
  int64_t width = tensor.getRank() == 0 ? 1 : tensor.getShape().back();
  return width * q::getElementBytes(tensor.getElementType());
}

int64_t octet::host::countRowBytes(kernel::RowwiseOp op) {
  int64_t bytes = 0;
  for (Value value : llvm::concat<Value>(op.getInputs(), op.getOuts()))
    bytes += rowBytes(kernel::getValueType(value.getType()));
  if (op.getCache())
    bytes += op.getCache().getType().getBytesPerToken();
  return bytes;
}

//===----------------------------------------------------------------------===//
// Frame and row
//===----------------------------------------------------------------------===//

Value RowEmitter::framePointer(int64_t slot) { return pointers[slot]; }

void RowEmitter::openCall(Value argument) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  for (int64_t i = 0; i < frame.size; ++i) {
    Value address = LLVM::GEPOp::create(b, pointer, pointer, argument,
                                        ArrayRef<LLVM::GEPArg>{int32_t(i)});
    pointers.push_back(LLVM::LoadOp::create(b, pointer, address, 8));
  }
  if (plan.scratchElements > 0)
    scratch = LLVM::AllocaOp::create(b, pointer, b.getF32Type(),
                                     i64(plan.scratchElements), 64);
}

/// One yielded value's place in this row.
void RowEmitter::addDestination(Value yielded, Type type, Value pointer,
                                Value scales, Value row) {
  if (auto quantized = dyn_cast<q::TensorType>(type)) {
    // All codes are bytes, or share one.
    Value offset = arith::MulIOp::create(b, row, i64(rowBytes(quantized)));
    Codes codes{t.address(pointer, offset, b.getI8Type()), scales};
    codeDestinations[yielded].push_back(codes);
    return;
  }
  auto tensor = cast<RankedTensorType>(type);
  Value offset = arith::MulIOp::create(b, row, i64(tensor.getDimSize(1)));
  destinations[yielded].push_back(
      {t.address(pointer, offset, tensor.getElementType()),
       tensor.getElementType()});
}

void RowEmitter::openRow(Value currentRow) {
  row = currentRow;
  auto loadIndex = [&](Value pointer) -> Value {
    Value address = t.address(pointer, row, b.getI32Type());
    Value index = LLVM::LoadOp::create(b, b.getI32Type(), address, 4);
    return arith::ExtSIOp::create(b, b.getI64Type(), index);
  };
  int64_t nextIndex = 0;
  for (auto [i, input, attr] : llvm::enumerate(
           op.getInputs(), op.getAccess().getAsRange<kernel::AccessAttr>())) {
    Value pointer = framePointer(frame.inputs[i]);
    if (attr.getValue() != kernel::Access::Uniform) {
      Type type = kernel::getValueType(input.getType());
      Value line = attr.getValue() == kernel::Access::Row
                       ? row
                       : loadIndex(framePointer(frame.indices[nextIndex++]));
      Value offset = arith::MulIOp::create(b, line, i64(rowBytes(type)));
      pointer = t.address(pointer, offset, b.getI8Type());
    }
    inputRows.push_back(pointer);
  }
  // Here and not where one is first read, which may be inside of a loop.
  for (BlockArgument argument : op.getBody().getArguments())
    if (RowPlan::widthOf(argument) == 1)
      scalarOf(argument);

  ValueRange yielded = op.getBody().front().getTerminator()->getOperands();
  for (auto [i, out] : llvm::enumerate(op.getOuts()))
    addDestination(
        yielded[i], kernel::getValueType(out.getType()),
        framePointer(frame.outs[i]),
        frame.scales[i] < 0 ? Value() : framePointer(frame.scales[i]), row);
  if (!op.getCache())
    return;
  q::KvType cache = op.getCache().getType();
  int64_t width = cache.getHeads() * cache.getDim();
  Value slot = loadIndex(framePointer(frame.slots));
  for (auto [value, pointer] :
       {std::pair(yielded[yielded.size() - 2], frame.cacheK),
        std::pair(yielded[yielded.size() - 1], frame.cacheV)}) {
    Value offset = arith::MulIOp::create(b, slot, i64(width));
    Value place =
        t.address(framePointer(pointer), offset, cache.getElementType());
    if (isa<q::TensorType>(value.getType()))
      codeDestinations[value].push_back({place, Value()});
    else
      destinations[value].push_back({place, cache.getElementType()});
  }
}

//===----------------------------------------------------------------------===//
// The function
//===----------------------------------------------------------------------===//

void RowEmitter::print(LLVM::LLVMFuncOp function) {
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  openCall(entry->getArgument(0));
  auto loop = scf::ForOp::create(b, entry->getArgument(1),
                                 entry->getArgument(2), i64(1));
  LLVM::ReturnOp::create(b, ValueRange());
  b.setInsertionPointToStart(loop.getBody());
  openRow(loop.getInductionVar());
  for (Operation &body : op.getBody().front()) {
    if (auto reduce = dyn_cast<kernel::ReduceOp>(body)) {
      printReduce(reduce);
    } else if (auto quantize = dyn_cast<q::QuantizeOp>(body)) {
      printQuantize(quantize);
    } else if (auto yield = dyn_cast<kernel::YieldOp>(body)) {
      for (Value value : yield.getValues())
        if (!isa<q::TensorType>(value.getType()))
          storeYielded(value);
    } else if (RowPlan::widthOf(body.getResult(0)) == 1) {
      for (Value operand : body.getOperands())
        if (RowPlan::widthOf(operand) > 1) {
          SmallVector<Value> none;
          prepareOperand(operand, /*identity=*/false, none);
        }
      scalarOf(body.getResult(0));
    }
  }
}

FailureOr<LLVM::LLVMFuncOp> octet::host::printRowFunction(OpBuilder &builder,
                                                          kernel::RowwiseOp op,
                                                          StringRef name) {
  FailureOr<RowPlan> plan = RowPlan::make(op);
  if (failed(plan))
    return failure();
  ImplicitLocOpBuilder b(op.getLoc(), builder);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                  {pointer, b.getI64Type(), b.getI64Type()});
  auto function =
      LLVM::LLVMFuncOp::create(b, name, type, LLVM::Linkage::Internal);
  RowEmitter(b, op, *plan).print(function);
  return function;
}
