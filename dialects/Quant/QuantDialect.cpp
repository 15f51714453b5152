//===- QuantDialect.cpp - Registration and attributes of q ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantDialect.h"
#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "octet/Support/Escape.h"
#include "octet/Support/MethodNames.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace octet::q;

#include "dialects/Quant/QuantDialect.cpp.inc"
#include "dialects/Quant/QuantEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/Quant/QuantAttrs.cpp.inc"

void QuantDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Quant/QuantAttrs.cpp.inc"
      >();
  registerTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/Quant/QuantOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// GranularityAttr
//===----------------------------------------------------------------------===//

LogicalResult
GranularityAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        GranularityKind kind, int64_t blockN, int64_t blockK) {
  if (kind == GranularityKind::Block) {
    if (blockN <= 0 || blockK <= 0)
      return emitError() << "block is " << blockN << "x" << blockK
                         << ", both sides are at least 1 [W1]";
  } else if (kind == GranularityKind::Group) {
    if (blockN != 1 || blockK <= 0)
      return emitError() << "a group of " << blockK
                         << " elements, expected at least 1 [W1]";
  } else if (blockN != 0 || blockK != 0) {
    return emitError() << "only a block granularity has sides, "
                       << stringifyGranularityKind(kind) << " has " << blockN
                       << "x" << blockK << " [W1]";
  }
  return success();
}

FailureOr<GranularityAttr> GranularityAttr::parseBare(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word)))
    return parser.emitError(loc, "expected per_tensor, per_channel, per_token, "
                                 "block<NxK> or group<K>");
  std::optional<GranularityKind> kind = symbolizeGranularityKind(word);
  if (!kind)
    return parser.emitError(loc)
           << "unknown granularity '" << word
           << "', expected per_tensor, per_channel, per_token, block<NxK> or "
              "group<K>";
  SmallVector<int64_t, 2> sides = {0, 0};
  if (*kind == GranularityKind::Block) {
    sides.clear();
    if (parser.parseLess())
      return failure();
    SMLoc sidesLoc = parser.getCurrentLocation();
    if (parser.parseDimensionList(sides, /*allowDynamic=*/false,
                                  /*withTrailingX=*/false))
      return failure();
    if (sides.size() != 2)
      return parser.emitError(sidesLoc)
             << "a block has two sides, this one " << sides.size();
    if (parser.parseGreater())
      return failure();
  } else if (*kind == GranularityKind::Group) {
    sides[0] = 1;
    if (parser.parseLess() || parser.parseInteger(sides[1]) ||
        parser.parseGreater())
      return failure();
  }
  auto attr = GranularityAttr::getChecked([&] { return parser.emitError(loc); },
                                          parser.getContext(), *kind, sides[0],
                                          sides[1]);
  if (!attr)
    return failure();
  return attr;
}

void GranularityAttr::printBare(AsmPrinter &printer) const {
  printer << stringifyGranularityKind(getKind());
  if (isBlock())
    printer << '<' << getBlockN() << 'x' << getBlockK() << '>';
  if (isGroup())
    printer << '<' << getBlockK() << '>';
}

Attribute GranularityAttr::parse(AsmParser &parser, Type) {
  if (parser.parseLess())
    return {};
  FailureOr<GranularityAttr> attr = parseBare(parser);
  if (failed(attr) || parser.parseGreater())
    return {};
  return *attr;
}

void GranularityAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBare(printer);
  printer << '>';
}

//===----------------------------------------------------------------------===//
// StoredAttr
//===----------------------------------------------------------------------===//

Type StoredAttr::getTensorType(StringRef name) const {
  auto type = getTensors().getAs<TypeAttr>(name);
  return type ? type.getValue() : Type();
}

RankedTensorType StoredAttr::getTensor(StringRef name) const {
  return dyn_cast_or_null<RankedTensorType>(getTensorType(name));
}

LogicalResult StoredAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 DictionaryAttr tensors, StringRef declared,
                                 int64_t headRows) {
  if (headRows < 0 || headRows % 2)
    return emitError() << "head_rows is " << headRows
                       << ", a head has an even number of rows [W16]";
  for (NamedAttribute entry : tensors) {
    auto type = dyn_cast<TypeAttr>(entry.getValue());
    auto packed =
        type ? dyn_cast<q::TensorType>(type.getValue()) : q::TensorType();
    if (packed && packed.isGguf() && packed.getShards().empty() &&
        !llvm::any_of(packed.getShape(), ShapedType::isDynamic))
      continue;
    if (!type || !isa<RankedTensorType>(type.getValue()))
      return emitError() << "'" << entry.getName().getValue() << "' is "
                         << entry.getValue() << ", expected a tensor type";
    if (!cast<RankedTensorType>(type.getValue()).hasStaticShape())
      return emitError() << "'" << entry.getName().getValue() << "' is "
                         << entry.getValue()
                         << ", a stored tensor has a static shape";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// MethodAttr
//===----------------------------------------------------------------------===//

/// `, NAME =`
static ParseResult parseField(AsmParser &parser, StringRef name) {
  return failure(parser.parseComma() || parser.parseKeyword(name) ||
                 parser.parseEqual());
}

static LogicalResult
verifyScaleType(function_ref<InFlightDiagnostic()> emitError, Type scale) {
  if (!isScaleType(scale))
    return emitError() << "scale type is " << scale
                       << ", expected f32, bf16, f16 or f8E8M0FNU [W1]";
  return success();
}

MethodAttr MethodAttr::getUnquantized(MLIRContext *context) {
  return get(context, "unquantized", GranularityAttr(), Type(),
             ActivationScheme::None);
}

LogicalResult MethodAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef name, GranularityAttr weight,
                                 Type scale, ActivationScheme activation) {
  if (name.empty())
    return emitError() << "a method has a name [C2]";
  if (!octet::isMethodName({name.data(), name.size()}))
    return emitError() << "no method is called " << octet::quoteName(name)
                       << "; expected "
                       << octet::joinQuoted(octet::kMethodNames) << ", or '"
                       << octet::kUnquantizedName << "' [C2]";
  if (!weight != !scale)
    return emitError() << "a quantised weight has a granularity and a scale "
                          "type, this one only one of them [W1]";
  if (!weight) {
    if (activation != ActivationScheme::None)
      return emitError() << "the activation of an unquantised weight is "
                         << stringifyActivationScheme(activation)
                         << ", expected none [C11]";
    return success();
  }
  if (name == "unquantized")
    return emitError() << "an unquantized method has a quantised weight [C11]";
  if (weight.getKind() == GranularityKind::PerToken)
    return emitError() << "a weight's scales are per_tensor, per_channel, "
                          "block or group, not per_token [W1]";
  if (failed(verifyScaleType(emitError, scale)))
    return failure();
  // One static scale cannot describe activations that are quantised by group.
  if ((weight.isBlock() || weight.isGroup()) &&
      activation == ActivationScheme::Static)
    return emitError() << "a block-quantised weight needs a dynamic "
                          "activation scheme, not static [C5]";
  return success();
}

Attribute MethodAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  std::string name;
  if (parser.parseLess() || parser.parseString(&name))
    return {};
  GranularityAttr weight;
  Type scale;
  ActivationScheme activation = ActivationScheme::None;
  if (failed(parser.parseOptionalGreater())) {
    if (parseField(parser, "weight"))
      return {};
    FailureOr<GranularityAttr> parsed = GranularityAttr::parseBare(parser);
    if (failed(parsed))
      return {};
    weight = *parsed;
    if (parseField(parser, "scale") || parser.parseType(scale) ||
        parseField(parser, "activation"))
      return {};
    SMLoc wordLoc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return {};
    std::optional<ActivationScheme> scheme = symbolizeActivationScheme(word);
    if (!scheme) {
      parser.emitError(wordLoc) << "unknown activation scheme '" << word
                                << "', expected none, static or dynamic";
      return {};
    }
    activation = *scheme;
    if (parser.parseGreater())
      return {};
  }
  return MethodAttr::getChecked([&] { return parser.emitError(loc); },
                                parser.getContext(), name, weight, scale,
                                activation);
}

void MethodAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printer.printString(getName());
  if (isQuantized()) {
    printer << ", weight = ";
    getWeight().printBare(printer);
    printer << ", scale = " << getScale()
            << ", activation = " << stringifyActivationScheme(getActivation());
  }
  printer << '>';
}

//===----------------------------------------------------------------------===//
// ContractAttr
//===----------------------------------------------------------------------===//

Type ContractAttr::getStorage() const {
  if (!isQuantized() || getCodes() || getWeight().isGroup())
    return getCodes();
  return Float8E4M3FNType::get(getContext());
}

Type ContractAttr::getActivationStorage() const {
  Type storage = getStorage();
  if (storage && (storage.isInteger(8) || isa<Float4E2M1FNType>(storage)))
    return storage;
  return Float8E4M3FNType::get(getContext());
}

/// The layouts of codes that share words.
static bool sharesWords(Layout layout) {
  return layout == Layout::Tiled || layout == Layout::Packed ||
         layout == Layout::PackedK || layout == Layout::Awq;
}

bool ContractAttr::accepts(TensorType weight) const {
  return isQuantized() && weight.getGranularity() == getWeight() &&
         weight.getScaleType() == getScale() &&
         (!sharesWords(getLayout()) || weight.getLayout() == getLayout()) &&
         !(weight.isTiled() && getLayout() != Layout::Tiled) &&
         (!getStorage() || weight.getElementType() == getStorage());
}

ContractAttr ContractAttr::withWeight(GranularityAttr weight) const {
  return get(getContext(), weight, getScale(), getActivation(), getIsStatic(),
             getUe8m0(), getCodes(), getBound(), getLayout(),
             getActivationLayout());
}

ContractAttr ContractAttr::withActivationLayout(Layout layout) const {
  return get(getContext(), getWeight(), getScale(), getActivation(),
             getIsStatic(), getUe8m0(), getCodes(), getBound(), getLayout(),
             layout);
}

/// How the scales of a dynamic FP8 activation may lie (B1, P3).
static LogicalResult
verifyActivationLayout(function_ref<InFlightDiagnostic()> emitError,
                       GranularityAttr activation, bool ue8m0, Layout layout) {
  if (layout == Layout::Plain)
    return success();
  auto say = [&] {
    return emitError() << "activation in " << stringifyLayout(layout) << ", ";
  };
  if (layout != Layout::ColumnMajorScales && layout != Layout::Ue8m0Packed)
    return say() << "expected column_major_scales or ue8m0_packed [B1]";
  if (!activation || !(activation.isBlock() ||
                       activation.getKind() == GranularityKind::PerToken))
    return say() << "which is of scales that are computed, a token or a "
                    "group each [P3]";
  if (layout == Layout::Ue8m0Packed && !ue8m0)
    return say() << "whose words hold powers of two; expected ue8m0 [N4]";
  return success();
}

/// What a contract says beside granularities (N7, P3).
static LogicalResult
verifyContractFormat(function_ref<InFlightDiagnostic()> emitError, Type scale,
                     GranularityAttr weight, GranularityAttr activation,
                     bool isStatic, bool ue8m0, Type codes, FloatAttr bound) {
  bool isInt8 = codes && codes.isInteger(8);
  if (isa<Float8E8M0FNUType>(scale) && (!weight.isBlock() || isInt8))
    return emitError() << "scale type is " << scale
                       << ", which is of blocks of f8E4M3FN codes [N7]";
  if (isInt8 && weight.isBlock())
    return emitError() << "codes are i8 in blocks, expected one scale a tensor "
                          "or a channel [N7]";
  if (isInt8 && ue8m0)
    return emitError() << "i8 activations have f32 scales, ue8m0 is for FP8 "
                          "[N7]";
  if (bound && (!activation || isStatic ||
                activation.getKind() != GranularityKind::PerToken))
    return emitError() << "a bound is of dynamic per_token scales [P3]";
  if (bound && !(bound.getValueAsDouble() > 0))
    return emitError() << "bound is " << bound.getValueAsDouble()
                       << ", expected a positive number [P3]";
  return success();
}

/// Codes that share words (B4). Of them only NVFP4 and MXFP4 go with
/// activations that are quantised, in the weight's groups: below a stored
/// scale, or with a power of two each (N7).
static LogicalResult
verifyWordContract(function_ref<InFlightDiagnostic()> emitError,
                   GranularityAttr weight, Type scale,
                   GranularityAttr activation, bool isStatic, bool ue8m0,
                   Type codes, Layout layout) {
  if (activation && weight.isGroup() &&
      isa_and_nonnull<Float4E2M1FNType>(codes) &&
      (layout == Layout::Packed || layout == Layout::Tiled)) {
    bool isMx = isa<Float8E8M0FNUType>(scale);
    if (activation == weight && isStatic == !isMx && ue8m0 == isMx)
      return success();
    return emitError() << "an activation beside "
                       << (isMx ? "MXFP4 is group<" : "NVFP4 is group<")
                       << weight.getBlockK()
                       << (isMx ? "> ue8m0, a power of two a group [N7]"
                                : "> static, groups below a stored scale [N7]");
  }
  if (activation)
    return emitError() << "layout " << stringifyLayout(layout)
                       << " is of weights only; an activation beside them is "
                          "not quantised [B4]";
  if (!codes ||
      !(weight.isGroup() || weight.getKind() == GranularityKind::PerChannel))
    return emitError() << "layout " << stringifyLayout(layout)
                       << " names its codes, in groups or channels; these are "
                       << stringifyGranularityKind(weight.getKind())
                       << (codes ? "" : " without codes") << " [B4]";
  return success();
}

LogicalResult ContractAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   GranularityAttr weight, Type scale,
                                   GranularityAttr activation, bool isStatic,
                                   bool ue8m0, Type codes, FloatAttr bound,
                                   Layout layout, Layout activationLayout) {
  if (!weight != !scale)
    return emitError() << "a quantised weight has a granularity and a scale "
                          "type, this one only one of them [W1]";
  if (!weight) {
    if (activation || isStatic || ue8m0 || codes || bound ||
        layout != Layout::Plain || activationLayout != Layout::Plain)
      return emitError() << "the activation of an unquantised weight is not "
                            "quantised [B1]";
    return success();
  }
  if (codes && !isStorageType(codes))
    return emitError() << "codes are " << codes
                       << ", expected a storage type such as i8 [N1]";
  if (weight.getKind() == GranularityKind::PerToken)
    return emitError() << "a weight's scales are per_tensor, per_channel, "
                          "block or group, not per_token [W1]";
  if (failed(verifyScaleType(emitError, scale)) ||
      failed(sharesWords(layout)
                 ? verifyWordContract(emitError, weight, scale, activation,
                                      isStatic, ue8m0, codes, layout)
                 : verifyContractFormat(emitError, scale, weight, activation,
                                        isStatic, ue8m0, codes, bound)) ||
      failed(verifyActivationLayout(emitError, activation, ue8m0,
                                    activationLayout)))
    return failure();
  if (!activation) {
    if (isStatic || ue8m0)
      return emitError() << "an activation that is not quantised has no "
                            "scale [B4]";
    return success();
  }
  if (sharesWords(layout)) {
    if (bound)
      return emitError() << "groups of f4E2M1FN follow all values, a bound is "
                            "of FP8 [N7]";
    return success();
  }
  if (activation.getKind() == GranularityKind::PerChannel)
    return emitError() << "an activation's scales are per_tensor, per_token "
                          "or block, not per_channel [P3]";
  if (weight.isGroup() || activation.isGroup())
    return emitError() << "integers in groups are weights only; an activation "
                          "beside them is not quantised [B4]";
  if (isStatic != (activation.getKind() == GranularityKind::PerTensor))
    return emitError() << "a static activation scale and per_tensor come "
                          "together: one scale of a whole step would make "
                          "rows depend on each other [B5]";
  if (isStatic && ue8m0)
    return emitError() << "a static scale is the checkpoint's, ue8m0 is for "
                          "dynamic ones [P3]";
  if (weight.isBlock() != activation.isBlock())
    return emitError() << "a block-quantised weight goes with an activation "
                          "in blocks along K and no other [N6]";
  if (activation.isBlock() && (activation.getBlockN() != 1 ||
                               activation.getBlockK() != weight.getBlockK()))
    return emitError() << "activation is block<" << activation.getBlockN()
                       << "x" << activation.getBlockK()
                       << ">, the weight's blocks imply block<1x"
                       << weight.getBlockK() << "> [P3]";
  return success();
}

Attribute ContractAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseLess())
    return {};
  auto emit = [&] { return parser.emitError(loc); };
  if (succeeded(parser.parseOptionalKeyword("none"))) {
    if (parser.parseGreater())
      return {};
    return ContractAttr::getChecked(
        emit, parser.getContext(), GranularityAttr(), Type(), GranularityAttr(),
        false, false, Type(), FloatAttr(), Layout::Plain, Layout::Plain);
  }
  if (parser.parseKeyword("weight") || parser.parseEqual())
    return {};
  FailureOr<GranularityAttr> weight = GranularityAttr::parseBare(parser);
  if (failed(weight) || parser.parseComma())
    return {};
  Type codes, scale;
  if (succeeded(parser.parseOptionalKeyword("codes")) &&
      (parser.parseEqual() || parser.parseType(codes) || parser.parseComma()))
    return {};
  if (parser.parseKeyword("scale") || parser.parseEqual() ||
      parser.parseType(scale) || parseField(parser, "activation"))
    return {};
  GranularityAttr activation;
  bool isStatic = false, ue8m0 = false;
  FloatAttr bound;
  Layout activationLayout = Layout::Plain;
  if (failed(parser.parseOptionalKeyword("none"))) {
    FailureOr<GranularityAttr> parsed = GranularityAttr::parseBare(parser);
    if (failed(parsed))
      return {};
    activation = *parsed;
    isStatic = succeeded(parser.parseOptionalKeyword("static"));
    ue8m0 = succeeded(parser.parseOptionalKeyword("ue8m0"));
    if (succeeded(parser.parseOptionalKeyword("bound"))) {
      double value;
      if (parser.parseFloat(value))
        return {};
      bound = FloatAttr::get(Float32Type::get(parser.getContext()), value);
    }
    for (Layout order : {Layout::ColumnMajorScales, Layout::Ue8m0Packed})
      if (succeeded(parser.parseOptionalKeyword(stringifyLayout(order))))
        activationLayout = order;
  }
  Layout layout = Layout::Plain;
  if (succeeded(parser.parseOptionalComma())) {
    SMLoc wordLoc = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword("layout") || parser.parseEqual() ||
        parser.parseKeyword(&word))
      return {};
    std::optional<Layout> named = symbolizeLayout(word);
    if (!named) {
      parser.emitError(wordLoc) << "unknown layout '" << word << "'";
      return {};
    }
    layout = *named;
  }
  if (parser.parseGreater())
    return {};
  return ContractAttr::getChecked(emit, parser.getContext(), *weight, scale,
                                  activation, isStatic, ue8m0, codes, bound,
                                  layout, activationLayout);
}

void ContractAttr::print(AsmPrinter &printer) const {
  if (!isQuantized()) {
    printer << "<none>";
    return;
  }
  printer << "<weight = ";
  getWeight().printBare(printer);
  if (getCodes())
    printer << ", codes = " << getCodes();
  printer << ", scale = " << getScale() << ", activation = ";
  if (quantizesActivation())
    getActivation().printBare(printer);
  else
    printer << "none";
  if (getIsStatic())
    printer << " static";
  if (getUe8m0())
    printer << " ue8m0";
  if (getBound()) {
    printer << " bound ";
    printer.printFloat(getBound().getValue());
  }
  if (getActivationLayout() != Layout::Plain)
    printer << ' ' << stringifyLayout(getActivationLayout());
  if (getLayout() != Layout::Plain)
    printer << ", layout = " << stringifyLayout(getLayout());
  printer << '>';
}
