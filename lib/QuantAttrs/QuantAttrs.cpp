//===- QuantAttrs.cpp - Quantisation facts as attributes ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/QuantAttrs/QuantAttrs.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace octet;

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

Result<Attribute> octet::toAttr(const nlohmann::json &value,
                                const std::string &subject,
                                MLIRContext *context) {
  Builder builder(context);
  if (value.is_boolean())
    return Attribute(builder.getBoolAttr(value.get<bool>()));
  if (value.is_string())
    return Attribute(builder.getStringAttr(value.get<std::string>()));
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t(INT64_MAX))
    return Attribute(builder.getF64FloatAttr(value.get<double>()));
  if (value.is_number_integer())
    return Attribute(builder.getI64IntegerAttr(value.get<int64_t>()));
  if (value.is_number())
    return Attribute(builder.getF64FloatAttr(value.get<double>()));
  if (value.is_array()) {
    SmallVector<Attribute> elements;
    for (const nlohmann::json &element : value) {
      OCTET_TRY_ASSIGN(Attribute attribute, toAttr(element, subject, context));
      elements.push_back(attribute);
    }
    return Attribute(builder.getArrayAttr(elements));
  }
  if (value.is_object()) {
    SmallVector<NamedAttribute> entries;
    for (const auto &[key, element] : value.items()) {
      if (key.empty())
        return inputError(subject, "has a field without a name", "C4");
      OCTET_TRY_ASSIGN(Attribute attribute, toAttr(element, subject, context));
      entries.emplace_back(builder.getStringAttr(key), attribute);
    }
    return Attribute(builder.getDictionaryAttr(entries));
  }
  return Attribute(builder.getUnitAttr());
}

nlohmann::json octet::toJson(Attribute attribute) {
  if (auto boolean = dyn_cast<BoolAttr>(attribute))
    return boolean.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getValue().getSExtValue();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.str();
  if (auto array = dyn_cast<ArrayAttr>(attribute)) {
    nlohmann::json result = nlohmann::json::array();
    for (Attribute element : array)
      result.push_back(toJson(element));
    return result;
  }
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    nlohmann::json result = nlohmann::json::object();
    for (NamedAttribute entry : dictionary)
      result[entry.getName().str()] = toJson(entry.getValue());
    return result;
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Stored tensors
//===----------------------------------------------------------------------===//

Type octet::toElementType(StoredType type, MLIRContext *context) {
  Builder builder(context);
  switch (type) {
  case StoredType::BOOL:
    return builder.getI1Type();
  case StoredType::U8:
    return builder.getIntegerType(8, /*isSigned=*/false);
  case StoredType::I8:
    return builder.getI8Type();
  case StoredType::F8_E4M3:
    return Float8E4M3FNType::get(context);
  case StoredType::F8_E5M2:
    return Float8E5M2Type::get(context);
  case StoredType::F8_E8M0:
    return Float8E8M0FNUType::get(context);
  case StoredType::F8_E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case StoredType::F8_E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  case StoredType::U16:
    return builder.getIntegerType(16, /*isSigned=*/false);
  case StoredType::I16:
    return builder.getI16Type();
  case StoredType::F16:
    return builder.getF16Type();
  case StoredType::BF16:
    return builder.getBF16Type();
  case StoredType::U32:
    return builder.getIntegerType(32, /*isSigned=*/false);
  case StoredType::I32:
    return builder.getI32Type();
  case StoredType::F32:
    return builder.getF32Type();
  case StoredType::U64:
    return builder.getIntegerType(64, /*isSigned=*/false);
  case StoredType::I64:
    return builder.getI64Type();
  case StoredType::F64:
    return builder.getF64Type();
  }
  llvm_unreachable("all stored types are above");
}

std::optional<StoredType> octet::toStoredType(Type type) {
  for (int i = int(StoredType::BOOL); i <= int(StoredType::F64); ++i)
    if (toElementType(StoredType(i), type.getContext()) == type)
      return StoredType(i);
  return std::nullopt;
}

Type octet::toTensorType(const StoredTensor &tensor, MLIRContext *context) {
  if (tensor.packing != Packing::None)
    return q::TensorType::getGguf(context, packingName(tensor.packing),
                                  tensor.shape);
  return RankedTensorType::get(tensor.shape,
                               toElementType(tensor.type, context));
}

q::StoredAttr octet::toAttr(const StoredTensors &tensors, StringRef declared,
                            MLIRContext *context) {
  Builder builder(context);
  SmallVector<NamedAttribute> entries;
  int64_t headRows = 0;
  for (const auto &[name, tensor] : tensors) {
    entries.emplace_back(builder.getStringAttr(name),
                         TypeAttr::get(toTensorType(tensor, context)));
    headRows = std::max(headRows, tensor.headRows);
  }
  return q::StoredAttr::get(context, builder.getDictionaryAttr(entries),
                            declared, headRows);
}

StoredTensors octet::toTensors(q::StoredAttr stored) {
  StoredTensors tensors;
  for (NamedAttribute entry : stored.getTensors()) {
    RankedTensorType type = stored.getTensor(entry.getName());
    std::optional<StoredType> element =
        type ? toStoredType(type.getElementType()) : std::nullopt;
    if (element)
      tensors[entry.getName().str()] = {*element,
                                        std::vector<int64_t>(type.getShape())};
  }
  return tensors;
}

//===----------------------------------------------------------------------===//
// Granularity, method, contract
//===----------------------------------------------------------------------===//

q::GranularityAttr octet::toAttr(const Granularity &granularity,
                                 MLIRContext *context) {
  switch (granularity.kind) {
  case Granularity::Kind::PerTensor:
    return q::GranularityAttr::get(context, q::GranularityKind::PerTensor);
  case Granularity::Kind::PerChannel:
    return q::GranularityAttr::get(context, q::GranularityKind::PerChannel);
  case Granularity::Kind::PerToken:
    return q::GranularityAttr::get(context, q::GranularityKind::PerToken);
  case Granularity::Kind::Block:
    return q::GranularityAttr::get(context, q::GranularityKind::Block,
                                   granularity.blockN, granularity.blockK);
  }
  llvm_unreachable("all granularities are above");
}

Granularity octet::toGranularity(q::GranularityAttr attribute) {
  switch (attribute.getKind()) {
  case q::GranularityKind::PerTensor:
    return Granularity::perTensor();
  case q::GranularityKind::PerChannel:
    return Granularity::perChannel();
  case q::GranularityKind::PerToken:
    return Granularity::perToken();
  case q::GranularityKind::Block:
  case q::GranularityKind::Group: // of one row
    return Granularity::block(attribute.getBlockN(), attribute.getBlockK());
  }
  llvm_unreachable("all granularities are above");
}

bool octet::sharesWords(const WeightFormat &format) {
  return format.layout != WeightLayout::Rows;
}

/// Groups of codes that share words, or all of K.
static q::GranularityAttr toWordGranularity(const Granularity &granularity,
                                            MLIRContext *context) {
  if (granularity.isGroup())
    return q::GranularityAttr::get(context, q::GranularityKind::Group, 1,
                                   granularity.blockK);
  return q::GranularityAttr::get(context, q::GranularityKind::PerChannel);
}

static Type toCodes(CodeType code, MLIRContext *context) {
  switch (code) {
  case CodeType::E4M3:
    return Float8E4M3FNType::get(context);
  case CodeType::E2M1:
    return Float4E2M1FNType::get(context);
  case CodeType::Int8:
    return IntegerType::get(context, 8);
  case CodeType::Int4:
    return IntegerType::get(context, 4);
  }
  llvm_unreachable("all codes are above");
}

static q::Layout toLayout(WeightLayout layout) {
  switch (layout) {
  case WeightLayout::GptqWords:
    return q::Layout::PackedK;
  case WeightLayout::AwqWords:
    return q::Layout::Awq;
  default:
    return q::Layout::Packed;
  }
}

static q::Offset toOffset(ZeroPoints zeros) {
  switch (zeros) {
  case ZeroPoints::None:
    return q::Offset::None;
  case ZeroPoints::Stored:
    return q::Offset::ZeroPoints;
  case ZeroPoints::StoredMinusOne:
    return q::Offset::ZeroPointsMinusOne;
  }
  llvm_unreachable("all zero points are above");
}

static q::GlobalScale toGlobal(GlobalScale global) {
  switch (global) {
  case GlobalScale::None:
    return q::GlobalScale::None;
  case GlobalScale::Multiplies:
    return q::GlobalScale::Multiplies;
  case GlobalScale::Divides:
    return q::GlobalScale::Divides;
  }
  llvm_unreachable("all global scales are above");
}

/// The type of a scale, by its format where bytes have no type of their own.
static Type toScaleType(const ResolvedModule &method, MLIRContext *context) {
  if (method.format.scale == ScaleFormat::Exponents)
    return Float8E8M0FNUType::get(context);
  return toElementType(method.scaleType, context);
}

q::TensorType octet::toWordType(const ResolvedModule &method, int64_t n,
                                int64_t k, int64_t experts,
                                MLIRContext *context) {
  SmallVector<int64_t> shape = {n, k};
  if (experts)
    shape.insert(shape.begin(), experts);
  return q::TensorType::get(
      context, shape, toCodes(method.format.code, context),
      toWordGranularity(method.weight, context), toScaleType(method, context),
      {}, toOffset(method.format.zeroPoints), toLayout(method.format.layout),
      toGlobal(method.format.global), method.format.actOrder);
}

q::ContractAttr octet::toWordContract(q::TensorType stored, bool tiled) {
  q::TensorType type = tiled ? stored.getTiled() : stored;
  return q::ContractAttr::get(
      stored.getContext(), type.getGranularity(), type.getScaleType(),
      q::GranularityAttr(), /*isStatic=*/false, /*ue8m0=*/false,
      type.getElementType(), FloatAttr(), type.getLayout());
}

static q::ActivationScheme toScheme(Activation activation) {
  switch (activation) {
  case Activation::None:
    return q::ActivationScheme::None;
  case Activation::Static:
    return q::ActivationScheme::Static;
  case Activation::Dynamic:
    return q::ActivationScheme::Dynamic;
  }
  llvm_unreachable("all schemes are above");
}

q::MethodAttr octet::toAttr(const ResolvedModule &method,
                            MLIRContext *context) {
  if (!method.quantized)
    return q::MethodAttr::getUnquantized(context);
  // Exponents are stored as bytes (N7).
  Type scale = method.format.scale == ScaleFormat::Exponents
                   ? Type(Float8E8M0FNUType::get(context))
                   : toElementType(method.scaleType, context);
  return q::MethodAttr::get(context, method.method,
                            sharesWords(method.format)
                                ? toWordGranularity(method.weight, context)
                                : toAttr(method.weight, context),
                            scale, toScheme(method.activation));
}

ResolvedModule octet::toResolved(q::MethodAttr method,
                                 q::ContractAttr contract) {
  ResolvedModule result;
  result.method = method.getName().str();
  if (!method.isQuantized())
    return result;
  result.quantized = true;
  result.weight = toGranularity(method.getWeight());
  result.scaleType = toStoredType(method.getScale()).value_or(StoredType::F32);
  switch (method.getActivation()) {
  case q::ActivationScheme::None:
    result.activation = Activation::None;
    break;
  case q::ActivationScheme::Static:
    result.activation = Activation::Static;
    break;
  case q::ActivationScheme::Dynamic:
    result.activation = Activation::Dynamic;
    break;
  }
  result.ue8m0 = contract && contract.getUe8m0();
  return result;
}

static q::Layout toLayout(ScaleOrder order) {
  switch (order) {
  case ScaleOrder::Rows:
    return q::Layout::Plain;
  case ScaleOrder::ColumnMajor:
    return q::Layout::ColumnMajorScales;
  case ScaleOrder::Words:
    return q::Layout::Ue8m0Packed;
  }
  llvm_unreachable("all orders are above");
}

q::ContractAttr octet::toAttr(const Contract &contract, MLIRContext *context) {
  if (!contract.quantized)
    return q::ContractAttr::get(context, q::GranularityAttr(), Type(),
                                q::GranularityAttr(), /*isStatic=*/false,
                                /*ue8m0=*/false);
  q::GranularityAttr activation;
  if (contract.activation)
    activation = toAttr(*contract.activation, context);
  Builder builder(context);
  // As far as the format alone says it; the stored type says the rest.
  if (sharesWords(contract.format)) {
    ResolvedModule method;
    method.format = contract.format;
    method.weight = contract.weight;
    method.scaleType = contract.format.scale == ScaleFormat::E4M3
                           ? StoredType::F8_E4M3
                           : StoredType::F16;
    return q::ContractAttr::get(
        context, toWordGranularity(contract.weight, context),
        toScaleType(method, context), q::GranularityAttr(), /*isStatic=*/false,
        /*ue8m0=*/false, toCodes(contract.format.code, context), FloatAttr(),
        q::Layout::Tiled);
  }
  Type scale = contract.format.scale == ScaleFormat::Exponents
                   ? Type(Float8E8M0FNUType::get(context))
                   : builder.getF32Type();
  Type codes;
  if (contract.format.code == CodeType::Int8)
    codes = builder.getI8Type();
  FloatAttr bound;
  if (contract.activation && contract.input.bound)
    bound = builder.getF32FloatAttr(float(*contract.input.bound));
  return q::ContractAttr::get(context, toAttr(contract.weight, context), scale,
                              activation, contract.isStatic, contract.ue8m0,
                              codes, bound, q::Layout::Plain,
                              toLayout(contract.inputScales));
}
