//===- HostModule.cpp - Building the LLVM side of a program ---------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostModule.h"
#include "dialects/Model/ModelOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "runtime/abi.h"
#include "llvm/ADT/StringExtras.h"
#include <cstddef>

using namespace mlir;
using namespace octet;
using namespace octet::host;

HostModule::HostModule(ModuleOp module)
    : module(module), context(module.getContext()),
      pointer(LLVM::LLVMPointerType::get(context)),
      i8(IntegerType::get(context, 8)), i32(IntegerType::get(context, 32)),
      i64(IntegerType::get(context, 64)) {
  model::SettingsAttr settings = model::getSettings(module);
  isDevice = settings && settings.getTarget() != "cpu";
  for (q::SlotOp slot : module.getOps<q::SlotOp>()) {
    firstSlot[slot.getSymName()] = numWeights;
    numWeights += slot.getCount();
  }
}

OpBuilder HostModule::atEnd() {
  return OpBuilder::atBlockEnd(module.getBody());
}

std::string HostModule::uniqueName(StringRef base) {
  // Names come from labels and slots; keep them legible in a disassembly.
  std::string name;
  for (char c : base)
    name += llvm::isAlnum(c) || c == '_' || c == '.' ? c : '_';
  int count = nextName[name]++;
  if (count > 0)
    name += "." + std::to_string(count);
  return name;
}

//===----------------------------------------------------------------------===//
// Globals
//===----------------------------------------------------------------------===//

std::string HostModule::addString(StringRef text) {
  auto found = strings.find(text);
  if (found != strings.end())
    return found->second;
  std::string name = uniqueName("octet.string");
  std::string bytes = text.str() + '\0';
  OpBuilder b = atEnd();
  LLVM::GlobalOp::create(b, module.getLoc(),
                         LLVM::LLVMArrayType::get(i8, bytes.size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, name,
                         b.getStringAttr(bytes));
  strings[text] = name;
  return name;
}

std::string HostModule::addBytes(StringRef base, StringRef bytes) {
  std::string name = uniqueName(base);
  OpBuilder b = atEnd();
  LLVM::GlobalOp::create(b, module.getLoc(),
                         LLVM::LLVMArrayType::get(i8, bytes.size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, name,
                         b.getStringAttr(bytes), /*alignment=*/16);
  return name;
}

std::string HostModule::addFloats(StringRef base, ArrayRef<float> values) {
  std::string name = uniqueName(base);
  OpBuilder b = atEnd();
  auto type = RankedTensorType::get({int64_t(values.size())}, b.getF32Type());
  LLVM::GlobalOp::create(
      b, module.getLoc(),
      LLVM::LLVMArrayType::get(b.getF32Type(), values.size()),
      /*isConstant=*/true, LLVM::Linkage::Internal, name,
      DenseElementsAttr::get(type, values), /*alignment=*/4);
  return name;
}

std::string HostModule::addStruct(StringRef base, const ConstantFields &fields,
                                  bool isExternal) {
  std::string name = isExternal ? base.str() : uniqueName(base);
  OpBuilder outer = atEnd();
  SmallVector<Type> types;
  for (const ConstantField &field : fields)
    types.push_back(std::holds_alternative<int32_t>(field)   ? i32
                    : std::holds_alternative<int64_t>(field) ? i64
                    : std::holds_alternative<float>(field)
                        ? Type(outer.getF32Type())
                        : pointer);
  auto type = LLVM::LLVMStructType::getLiteral(context, types);
  auto global = LLVM::GlobalOp::create(
      outer, module.getLoc(), type, /*isConstant=*/true,
      isExternal ? LLVM::Linkage::External : LLVM::Linkage::Internal, name,
      Attribute(), /*alignment=*/8);
  ImplicitLocOpBuilder b(module.getLoc(), context);
  b.createBlock(&global.getInitializerRegion());
  Value value = LLVM::UndefOp::create(b, type);
  for (auto [i, field] : llvm::enumerate(fields)) {
    Value element;
    if (auto *integer = std::get_if<int32_t>(&field))
      element = constant32(b, *integer);
    else if (auto *wide = std::get_if<int64_t>(&field))
      element = constant(b, *wide);
    else if (auto *real = std::get_if<float>(&field))
      element =
          LLVM::ConstantOp::create(b, b.getF32Type(), b.getF32FloatAttr(*real));
    else if (std::get<std::string>(field).empty())
      element = null(b);
    else
      element = addressOf(b, std::get<std::string>(field));
    value = LLVM::InsertValueOp::create(b, value, element,
                                        ArrayRef<int64_t>{int64_t(i)});
  }
  LLVM::ReturnOp::create(b, value);
  return name;
}

std::string HostModule::addFunctionTable(StringRef base,
                                         ArrayRef<std::string> functions) {
  ConstantFields fields(functions.begin(), functions.end());
  return addStruct(base, fields);
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

Value HostModule::addressOf(ImplicitLocOpBuilder &b, StringRef symbol) {
  return LLVM::AddressOfOp::create(b, pointer, symbol);
}

Value HostModule::constant(ImplicitLocOpBuilder &b, int64_t value) {
  return LLVM::ConstantOp::create(b, i64, b.getI64IntegerAttr(value));
}

Value HostModule::constant32(ImplicitLocOpBuilder &b, int32_t value) {
  return LLVM::ConstantOp::create(b, i32, b.getI32IntegerAttr(value));
}

Value HostModule::null(ImplicitLocOpBuilder &b) {
  return LLVM::ZeroOp::create(b, pointer);
}

Value HostModule::offset(ImplicitLocOpBuilder &b, Value base, Value bytes) {
  return LLVM::GEPOp::create(b, pointer, i8, base, ValueRange{bytes});
}

Value HostModule::offset(ImplicitLocOpBuilder &b, Value base, int64_t bytes) {
  return bytes == 0 ? base : offset(b, base, constant(b, bytes));
}

Value HostModule::loadField(ImplicitLocOpBuilder &b, Value base, int64_t bytes,
                            Type type) {
  return LLVM::LoadOp::create(b, type, offset(b, base, bytes));
}

Value HostModule::callRuntime(ImplicitLocOpBuilder &b, Value ctx, int64_t bytes,
                              Type result, ValueRange arguments) {
  Value table = loadField(b, ctx, offsetof(octet_ctx, runtime), pointer);
  SmallVector<Value> operands = {loadField(b, table, bytes, pointer), ctx};
  llvm::append_range(operands, arguments);
  SmallVector<Type> types;
  for (Value operand : ArrayRef(operands).drop_front())
    types.push_back(operand.getType());
  auto type = LLVM::LLVMFunctionType::get(
      result ? result : LLVM::LLVMVoidType::get(context), types);
  auto call = LLVM::CallOp::create(b, type, operands);
  return result ? call.getResult() : Value();
}

Value HostModule::asI64(ImplicitLocOpBuilder &b, Value value) {
  if (value.getType() == i64)
    return value;
  return arith::IndexCastOp::create(b, i64, value);
}

Value HostModule::weightAddress(ImplicitLocOpBuilder &b, Value ctx,
                                StringRef slot, Value index) {
  Value weights = loadField(b, ctx, offsetof(octet_ctx, weights), pointer);
  int64_t first = firstSlot.lookup(slot) * int64_t(sizeof(octet_weight));
  Value place = offset(b, weights, first);
  if (!index)
    return place;
  Value bytes = LLVM::MulOp::create(b, asI64(b, index),
                                    constant(b, sizeof(octet_weight)));
  return offset(b, place, bytes);
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

int32_t octet::host::abiType(Type element) {
  if (element.isF32())
    return OCTET_F32;
  if (element.isBF16())
    return OCTET_BF16;
  if (element.isF16())
    return OCTET_F16;
  if (isa<Float8E4M3FNType>(element))
    return OCTET_E4M3;
  if (isa<Float8E5M2Type>(element))
    return OCTET_E5M2;
  if (isa<Float8E4M3FNUZType>(element))
    return OCTET_E4M3FNUZ;
  if (isa<Float8E5M2FNUZType>(element))
    return OCTET_E5M2FNUZ;
  if (isa<Float8E8M0FNUType>(element))
    return OCTET_E8M0;
  if (isa<Float4E2M1FNType>(element))
    return OCTET_E2M1;
  if (element.isInteger(8)) // also bytes that hold two codes
    return OCTET_I8;
  assert(element.isInteger(32) && "no octet_dtype");
  return OCTET_I32;
}

int32_t octet::host::abiStorage(Type tensor) {
  auto quantized = dyn_cast<q::TensorType>(tensor);
  if (quantized && quantized.isTiled())
    return OCTET_TILES;
  if (quantized && quantized.isPacked())
    return abiType(quantized.getDataTensorType().getElementType());
  if (!quantized || !quantized.isGguf())
    return abiType(q::getStorage(tensor));
  return llvm::StringSwitch<int32_t>(quantized.getGgufName())
      .Case("Q8_0", OCTET_Q8_0)
      .Case("Q4_0", OCTET_Q4_0)
      .Case("Q4_1", OCTET_Q4_1);
}

int32_t octet::host::abiScaleMode(q::GranularityAttr granularity) {
  switch (granularity.getKind()) {
  case q::GranularityKind::PerTensor:
    return OCTET_SCALE_TENSOR;
  case q::GranularityKind::PerChannel:
  case q::GranularityKind::PerToken:
    return OCTET_SCALE_CHANNEL;
  case q::GranularityKind::Block:
    return OCTET_SCALE_BLOCK;
  case q::GranularityKind::Group: // of weights in the blocks
    return OCTET_SCALE_NONE;
  }
  llvm_unreachable("all granularities are above");
}

int32_t octet::host::abiWeightScaleMode(q::TensorType type) {
  if (!type.isTiled())
    return abiScaleMode(type.getGranularity());
  return type.getGlobal() == q::GlobalScale::None ? OCTET_SCALE_NONE
                                                  : OCTET_SCALE_TENSOR;
}

static int32_t abiCode(q::TensorType type) {
  if (isa<Float4E2M1FNType>(type.getElementType()))
    return OCTET_CODE_E2M1;
  // Zero points and minimums belong to plain codes; without them 2^(bits - 1)
  // was added.
  return type.getOffset() == q::Offset::None ? OCTET_CODE_BIASED
                                             : OCTET_CODE_UNSIGNED;
}

static int32_t abiPacking(q::Layout layout) {
  switch (layout) {
  case q::Layout::PackedK:
    return OCTET_PACKING_K;
  case q::Layout::Awq:
    return OCTET_PACKING_AWQ;
  case q::Layout::Gguf:
    return OCTET_PACKING_GGUF;
  default:
    return OCTET_PACKING_ROWS;
  }
}

void octet::host::appendGroups(ConstantFields &fields, q::TensorType type) {
  bool inGroups = type && (type.isPacked() || type.isTiled() || type.isGguf());
  if (!inGroups) {
    fields.push_back(int64_t(0));
    fields.append(8, int32_t(0));
    return;
  }
  static_assert(int(q::Offset::Minimums) == OCTET_OFFSET_MINIMUMS &&
                int(q::Offset::ZeroPoints) == OCTET_OFFSET_ZEROS &&
                int(q::Offset::ZeroPointsMinusOne) ==
                    OCTET_OFFSET_ZEROS_MINUS_ONE &&
                int(q::GlobalScale::Multiplies) == OCTET_GLOBAL_MULTIPLIES &&
                int(q::GlobalScale::Divides) == OCTET_GLOBAL_DIVIDES);
  int64_t k = type.getK();
  int64_t size = type.getGranularity().isGroup()
                     ? std::min(type.getGranularity().getBlockK(), k)
                     : k;
  fields.append({ConstantField(size),
                 int32_t(type.getElementType().getIntOrFloatBitWidth()),
                 abiCode(type), abiType(type.getScaleType()),
                 int32_t(type.getOffset()), int32_t(type.getGlobal()),
                 int32_t(type.getActOrder()), abiPacking(type.getLayout()),
                 int32_t(0)});
}
