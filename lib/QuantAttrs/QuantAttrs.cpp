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
  return q::MethodAttr::get(
      context, method.method, toAttr(method.weight, context),
      toElementType(method.scaleType, context), toScheme(method.activation));
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

q::ContractAttr octet::toAttr(const Contract &contract, MLIRContext *context) {
  if (!contract.quantized)
    return q::ContractAttr::get(context, q::GranularityAttr(), Type(),
                                q::GranularityAttr(), /*isStatic=*/false,
                                /*ue8m0=*/false);
  q::GranularityAttr activation;
  if (contract.activation)
    activation = toAttr(*contract.activation, context);
  return q::ContractAttr::get(context, toAttr(contract.weight, context),
                              Float32Type::get(context), activation,
                              contract.isStatic, contract.ue8m0);
}
