//===- ExpectedTensors.cpp - The tensors of a scheme ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// FORMATS as a function: from a scheme and the sides of a matrix to the names,
// dtypes and shapes that a checkpoint stores for it (W1, W2, N7).
//
//===----------------------------------------------------------------------===//

#include "octet/QuantMethods/QuantMethods.h"
#include "octet/Support/Checked.h"

using namespace octet;

using Shape = std::vector<int64_t>;

int64_t octet::getBits(CodeType code) {
  switch (code) {
  case CodeType::E4M3:
  case CodeType::Int8:
    return 8;
  case CodeType::E2M1:
  case CodeType::Int4:
    return 4;
  }
  return 0;
}

static bool isFloatScaled(const WeightFormat &format) {
  return format.scale == ScaleFormat::Float &&
         format.global == GlobalScale::None &&
         format.zeroPoints == ZeroPoints::None && !format.actOrder;
}

bool Scheme::isPlainFloat8() const {
  return format.code == CodeType::E4M3 && format.layout == WeightLayout::Rows &&
         isFloatScaled(format) && input == ActivationFormat();
}

static std::string describeCode(CodeType code) {
  switch (code) {
  case CodeType::E4M3:
    return "FP8";
  case CodeType::E2M1:
    return "FP4";
  case CodeType::Int8:
    return "int 8 bits";
  case CodeType::Int4:
    return "int 4 bits";
  }
  return "";
}

static std::string describeGranularity(const Granularity &granularity) {
  if (granularity.isGroup())
    return "in groups of " + std::to_string(granularity.blockK);
  if (granularity.isBlock())
    return "in " + std::to_string(granularity.blockN) + "x" +
           std::to_string(granularity.blockK) + " blocks";
  return granularity.kind == Granularity::Kind::PerTensor
             ? "with one scale a tensor"
             : "with one scale a channel";
}

std::string octet::describeScheme(const Scheme &scheme) {
  std::string text = describeCode(scheme.format.code) + " " +
                     describeGranularity(scheme.weight);
  if (scheme.format.scale == ScaleFormat::Exponents)
    text += ", power-of-two scales";
  if (scheme.format.global != GlobalScale::None)
    text += " below a scale of the tensor";
  if (scheme.format.zeroPoints != ZeroPoints::None)
    text += " with zero points";
  if (scheme.format.actOrder)
    text += ", rows out of order";
  if (scheme.activation == Activation::None)
    text += ", weight-only";
  else if (scheme.input.code != scheme.format.code)
    text += ", activations " + describeCode(scheme.input.code);
  return text;
}

std::string ExpectedTensor::describe() const {
  std::string text = StoredTensor{types.front(), shapes.front()}.describe();
  return what.empty() ? text : text + " (" + what + ")";
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

namespace {

const std::vector<StoredType> kFloats = {StoredType::F32, StoredType::BF16,
                                         StoredType::F16};
const std::vector<StoredType> kHalves = {StoredType::F16, StoredType::BF16,
                                         StoredType::F32};
const std::vector<Shape> kScalar = {{}, {1}};

/// Collects the tensors of one weight.
class Expecter {
public:
  Expecter(std::string_view method, const Scheme &scheme, int64_t n, int64_t k,
           int64_t experts)
      : method(method), scheme(scheme), format(scheme.format), n(n), k(k),
        experts(experts) {}

  std::vector<ExpectedTensor> run();

private:
  void add(std::vector<std::string> names, std::vector<StoredType> types,
           std::vector<Shape> shapes, std::string what = {},
           bool required = true);
  void addRows();
  void addNibbles();
  void addWords();
  void addGptq();
  void addAwq();
  void addExperts();
  void addInputScale();
  std::string getMatrix() const {
    return std::to_string(n) + "x" + std::to_string(k);
  }
  /// "64x1024 in groups of 32".
  std::string getBlocks() const {
    return getMatrix() + " " + describeGranularity(scheme.weight);
  }
  int64_t getWords(int64_t count) const {
    return cdiv(count * getBits(format.code), 32);
  }
  /// Scales along K: groups, or one for all of it.
  int64_t getGroups() const {
    return scheme.weight.isBlock() ? cdiv(k, scheme.weight.blockK) : 1;
  }

  std::string_view method;
  const Scheme &scheme;
  const WeightFormat &format;
  int64_t n, k, experts;
  std::vector<ExpectedTensor> tensors;
};

} // namespace

void Expecter::add(std::vector<std::string> names,
                   std::vector<StoredType> types, std::vector<Shape> shapes,
                   std::string what, bool required) {
  tensors.push_back({std::move(names), std::move(types), std::move(shapes),
                     required, std::move(what)});
}

/// `input_scale` of a static scheme, one a matrix (W2).
void Expecter::addInputScale() {
  if (scheme.activation == Activation::Static || scheme.input.belowStored)
    add({"input_scale"}, kFloats, kScalar, "one scale for the activation");
}

/// E4M3 and I8, an element a code; scales of every granularity under either
/// spelling (W2).
void Expecter::addRows() {
  add({"weight"},
      {format.code == CodeType::E4M3 ? StoredType::F8_E4M3 : StoredType::I8},
      {{n, k}});
  std::vector<StoredType> types = kFloats;
  if (format.scale == ScaleFormat::Exponents)
    types = {StoredType::U8, StoredType::F8_E8M0};
  const Granularity &weight = scheme.weight;
  Shape shape = getScaleShape(weight, n, k);
  std::vector<Shape> shapes = {shape};
  if (weight.kind == Granularity::Kind::PerTensor)
    shapes = {{}, {1}, {1, 1}};
  else if (weight.isBlock() && !weight.isGroup())
    shapes.push_back({shape[0], 1, shape[1], 1});
  else if (!weight.isBlock())
    shapes.push_back({n});
  if (scheme.anyGranularity) {
    shapes.push_back({n, 1});
    shapes.push_back({n});
  }
  bool inv = weight.isBlock() && (method == "fp8" || method == "mxfp8");
  std::vector<std::string> names = {"weight_scale", "weight_scale_inv"};
  if (inv)
    std::swap(names[0], names[1]);
  add(std::move(names), std::move(types), std::move(shapes), getBlocks());
  addInputScale();
}

/// MXFP4 and NVFP4, two codes a byte.
void Expecter::addNibbles() {
  bool divides = format.global == GlobalScale::Divides;
  // auto-round names both kinds as compressed-tensors names NVFP4's.
  bool packed = divides || method == "auto-round";
  add({packed ? "weight_packed" : "weight"}, {StoredType::U8, StoredType::I8},
      {{n, cdiv(k, 2)}}, getMatrix() + ", two codes a byte");
  if (format.scale == ScaleFormat::Exponents) {
    add({"weight_scale", "weight_scale_inv", "scale"},
        {StoredType::U8, StoredType::F8_E8M0}, {{n, getGroups()}}, getBlocks());
    return;
  }
  add({"weight_scale"}, {StoredType::F8_E4M3}, {{n, getGroups()}}, getBlocks());
  // compressed-tensors divides by its second scale, ModelOpt multiplies.
  std::string what = "one scale for " + getMatrix();
  add({divides ? "weight_global_scale" : "weight_scale_2"}, {StoredType::F32},
      kScalar, what);
  if (!scheme.input.belowStored)
    return;
  if (divides)
    add({"input_global_scale"}, {StoredType::F32}, kScalar,
        "one scale for the activation");
  else
    addInputScale();
}

/// `pack-quantized` of compressed-tensors.
void Expecter::addWords() {
  std::string bits = std::to_string(getBits(format.code)) + " bits";
  add({"weight_packed"}, {StoredType::I32}, {{n, getWords(k)}},
      getMatrix() + " of " + bits);
  std::vector<Shape> scales = {{n, getGroups()}};
  if (scheme.weight.kind == Granularity::Kind::PerTensor)
    scales = kScalar;
  add({"weight_scale"}, kFloats, scales, getBlocks());
  add({"weight_shape"}, {StoredType::I64, StoredType::I32}, {{2}},
      "the sides of the matrix");
  if (format.zeroPoints != ZeroPoints::None)
    add({"weight_zero_point"}, {StoredType::I32}, {{getWords(n), getGroups()}},
        getBlocks() + " of " + bits);
  if (format.actOrder)
    add({"weight_g_idx"}, {StoredType::I32}, {{k}}, "a group for each of K");
}

void Expecter::addGptq() {
  std::string bits = std::to_string(getBits(format.code)) + " bits";
  add({"qweight"}, {StoredType::I32}, {{getWords(k), n}},
      getMatrix() + " of " + bits + ", packed along K");
  add({"qzeros"}, {StoredType::I32}, {{getGroups(), getWords(n)}}, getBlocks());
  add({"scales"}, kHalves, {{getGroups(), n}}, getBlocks());
  // Exporters write the order even where it is the natural one.
  add({"g_idx"}, {StoredType::I32}, {{k}}, "a group for each of K",
      /*required=*/format.actOrder);
}

void Expecter::addAwq() {
  add({"qweight"}, {StoredType::I32}, {{k, getWords(n)}},
      getMatrix() + " of 4 bits, packed along N");
  add({"qzeros"}, {StoredType::I32}, {{getGroups(), getWords(n)}}, getBlocks());
  add({"scales"}, kHalves, {{getGroups(), n}}, getBlocks());
}

/// All experts of a layer in one tensor (gpt-oss).
void Expecter::addExperts() {
  const int64_t group = scheme.weight.blockK;
  add({"_blocks"}, {StoredType::U8}, {{experts, n, getGroups(), group / 2}},
      std::to_string(experts) + " experts of " + getBlocks());
  add({"_scales"}, {StoredType::U8, StoredType::F8_E8M0},
      {{experts, n, getGroups()}},
      std::to_string(experts) + " experts of " + getBlocks());
}

std::vector<ExpectedTensor> Expecter::run() {
  switch (format.layout) {
  case WeightLayout::Rows:
    addRows();
    break;
  case WeightLayout::NibbleRows:
    addNibbles();
    break;
  case WeightLayout::WordRows:
    addWords();
    break;
  case WeightLayout::GptqWords:
    addGptq();
    break;
  case WeightLayout::AwqWords:
    addAwq();
    break;
  case WeightLayout::NibbleExperts:
    addExperts();
    break;
  }
  return std::move(tensors);
}

std::vector<ExpectedTensor> octet::expectTensors(std::string_view method,
                                                 const Scheme &scheme,
                                                 int64_t n, int64_t k,
                                                 int64_t experts) {
  return Expecter(method, scheme, n, k, experts).run();
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string nameGranularity(const Granularity &granularity) {
  switch (granularity.kind) {
  case Granularity::Kind::PerTensor:
    return "tensor";
  case Granularity::Kind::PerChannel:
  case Granularity::Kind::PerToken:
    return "channel";
  case Granularity::Kind::Block:
    return granularity.isGroup() ? "group" : "block";
  }
  return "";
}

std::string octet::nameFormat(const ResolvedModule &module) {
  if (!module.quantized)
    return "unquantized";
  const WeightFormat &format = module.format;
  switch (format.layout) {
  case WeightLayout::AwqWords:
    return "awq-int4";
  case WeightLayout::GptqWords:
    return "gptq-int" + std::to_string(getBits(format.code));
  default:
    break;
  }
  switch (format.code) {
  case CodeType::E4M3:
    if (format.scale == ScaleFormat::Exponents)
      return "mxfp8";
    // A block of one row is a block.
    return "fp8-" + (module.weight.isBlock() ? std::string("block")
                                             : nameGranularity(module.weight));
  case CodeType::E2M1:
    return format.scale == ScaleFormat::E4M3 ? "nvfp4" : "mxfp4";
  case CodeType::Int8:
  case CodeType::Int4:
    return "int" + std::to_string(getBits(format.code)) + "-" +
           nameGranularity(module.weight);
  }
  return "";
}

std::string octet::nameActivation(const Contract &contract) {
  if (!contract.activation)
    return "none";
  if (contract.isStatic)
    return "static-tensor";
  if (contract.activation->isBlock())
    return "dynamic-token-group-" + std::to_string(contract.activation->blockK);
  return "dynamic-token";
}
