//===- Describe.cpp - What is reported of each module -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Shapes are those of one rank, computed from its sides by the function that
// says what a checkpoint stores (expectTensors), so that packing, groups and
// blocks are written in one place (W1, W5, W5b).
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "octet/Support/Checked.h"
#include <algorithm>

using namespace octet;

/// The tensor of a module under the name that is stored, or null.
static const StoredTensor *findStored(const ModuleDecision &decision,
                                      const ExpectedTensor &expected) {
  for (const std::string &name : expected.names)
    if (auto found = decision.tensors.find(name);
        found != decision.tensors.end())
      return &found->second;
  return nullptr;
}

static std::string nameType(const ModuleDecision &decision,
                            const ExpectedTensor &expected) {
  const StoredTensor *stored = findStored(decision, expected);
  return std::string(
      storedTypeName(stored ? stored->type : expected.types.front()));
}

static bool endsWith(const ExpectedTensor &expected, std::string_view word) {
  return expected.names.front().ends_with(word);
}

/// The weight's own scale, not that of the activation or of the whole tensor.
static bool isWeightScale(const ExpectedTensor &expected) {
  const std::string &name = expected.names.front();
  return name == "weight_scale" || name == "weight_scale_inv" ||
         name == "scales" || name == "_scales" || name == "scale";
}

/// Packed experts lose their own count, which the unit gives, and the bytes of
/// a group join the groups.
static Shape flatten(Shape shape, bool experts) {
  if (!experts)
    return shape;
  shape.erase(shape.begin());
  if (shape.size() == 3) {
    shape[1] *= shape[2];
    shape.pop_back();
  }
  return shape;
}

/// A weight in a plain dtype, or packed by GGUF.
static MatrixReport describePlain(const CheckContext &context,
                                  const Part &part) {
  MatrixReport matrix;
  matrix.weightDtype = nameDtype(context.dtype);
  for (std::string_view name : {"weight", ""})
    if (auto found = part.decision->tensors.find(name);
        found != part.decision->tensors.end())
      matrix.weightDtype =
          std::string(found->second.packing == Packing::None
                          ? storedTypeName(found->second.type)
                          : packingName(found->second.packing));
  matrix.weightShape = {part.n};
  if (part.module->k > 0)
    matrix.weightShape.push_back(part.k);
  return matrix;
}

/// One matrix on one rank.
static MatrixReport describeMatrix(const CheckContext &context,
                                   const Part &part) {
  const ResolvedModule &method = part.decision->method;
  if (!method.quantized)
    return describePlain(context, part);
  MatrixReport matrix;
  Scheme scheme = toScheme(method);
  if (method.whileLoading) {
    // The stored codes are those that loading makes (W10).
    const Contract &contract = part.decision->contract;
    matrix.weightDtype = "F8_E4M3";
    matrix.weightShape = {part.n, part.k};
    matrix.scaleDtype = "F32";
    matrix.scaleShape = getScaleShape(contract.weight, part.n, part.k);
    return matrix;
  }
  const int64_t experts = part.module->packed ? 1 : 0;
  std::vector<ExpectedTensor> tensors =
      expectTensors(method.method, scheme, part.n, part.k, experts);
  for (const ExpectedTensor &expected : tensors) {
    Shape shape = flatten(expected.shapes.front(), experts > 0);
    // Rows out of order read scales and zeros of all groups (FORMATS, gptq).
    if (method.format.actOrder && part.isRowSplit() &&
        &expected != &tensors.front())
      shape = expectTensors(method.method, scheme, part.n,
                            part.module->k)[size_t(&expected - tensors.data())]
                  .shapes.front();
    if (&expected == &tensors.front()) {
      matrix.weightDtype = nameType(*part.decision, expected);
      matrix.weightShape = std::move(shape);
    } else if (isWeightScale(expected)) {
      matrix.scaleDtype = nameType(*part.decision, expected);
      const StoredTensor *stored = findStored(*part.decision, expected);
      if (method.weight.kind == Granularity::Kind::PerTensor && stored)
        shape = stored->shape; // [] or [1]
      matrix.scaleShape = std::move(shape);
    } else if (endsWith(expected, "qzeros") ||
               endsWith(expected, "weight_zero_point")) {
      matrix.zerosShape = std::move(shape);
    }
  }
  if (part.paddedN != part.n || part.paddedK != part.k)
    matrix.paddedShape =
        flatten(expectTensors(method.method, scheme, part.paddedN, part.paddedK,
                              experts)
                    .front()
                    .shapes.front(),
                experts > 0);
  return matrix;
}

/// Joins shards along the output: dimension `at` of each tensor.
static void appendShape(Shape &whole, const Shape &shard, size_t at) {
  if (at < whole.size() && at < shard.size())
    whole[at] += shard[at];
}

/// Is the output the second dimension of codes and scales?
static bool isTransposed(const ModuleDecision &decision) {
  WeightLayout layout = decision.method.format.layout;
  return decision.method.quantized && (layout == WeightLayout::GptqWords ||
                                       layout == WeightLayout::AwqWords);
}

/// The fused matrix of some parts (W5, W5b): each starts its own scale rows.
static MatrixReport joinMatrices(const std::vector<const Part *> &parts,
                                 const std::vector<MatrixReport> &each) {
  MatrixReport whole = each.front();
  const ModuleDecision &decision = *parts.front()->decision;
  const size_t at = isTransposed(decision) ? 1 : 0;
  bool isPadded = std::ranges::any_of(each, [](const MatrixReport &matrix) {
    return matrix.paddedShape.has_value();
  });
  auto getPadded = [](const MatrixReport &matrix) {
    return matrix.paddedShape.value_or(matrix.weightShape);
  };
  if (isPadded)
    whole.paddedShape = getPadded(each.front());
  for (size_t i = 1; i < each.size(); ++i) {
    appendShape(whole.weightShape, each[i].weightShape, at);
    appendShape(whole.scaleShape, each[i].scaleShape, at);
    if (whole.zerosShape && each[i].zerosShape)
      appendShape(*whole.zerosShape, *each[i].zerosShape, at);
    if (isPadded)
      appendShape(*whole.paddedShape, getPadded(each[i]), at);
  }
  // One slot a shard (W1).
  if (decision.method.quantized &&
      decision.method.weight.kind == Granularity::Kind::PerTensor &&
      each.size() > 1)
    whole.scaleShape = {int64_t(each.size())};
  return whole;
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static std::string nameCompute(const CheckContext &context,
                               const Contract &contract) {
  if (!contract.activation)
    return nameDtype(context.dtype);
  switch (contract.input.code) {
  case CodeType::E4M3:
    return "F8_E4M3";
  case CodeType::E2M1:
    return "F4_E2M1";
  case CodeType::Int8:
  case CodeType::Int4:
    return "I8";
  }
  return "";
}

static std::string toLower(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  });
  return text;
}

/// What values the weight's scales have, not how they are stored.
static std::string nameScaleFormat(const ModuleDecision &decision,
                                   const std::string &scaleDtype) {
  if (scaleDtype.empty())
    return "";
  ScaleFormat stored = decision.method.format.scale;
  if (decision.contract.format.scale == ScaleFormat::Exponents ||
      stored == ScaleFormat::Exponents)
    return "ue8m0";
  if (stored == ScaleFormat::E4M3)
    return "e4m3";
  if (decision.method.ue8m0 && decision.method.weight.isBlock())
    return "ue8m0";
  return toLower(scaleDtype);
}

static std::string nameSplit(Split split) {
  switch (split) {
  case Split::Replicated:
    return "replicated";
  case Split::Columns:
    return "column";
  case Split::Rows:
    return "row";
  case Split::Vocabulary:
    return "vocabulary";
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Units
//===----------------------------------------------------------------------===//

/// The shapes of the two halves of kv_b_proj on one rank (W12).
static std::optional<std::pair<Shape, Shape>>
describeAbsorbed(const CheckContext &context, const Unit &unit) {
  const Part &part = unit.first();
  const int64_t heads = part.module->heads;
  if (part.name != "kv_b_proj" || context.options.mla == "explicit" ||
      heads <= 0)
    return std::nullopt;
  std::string attention = unit.path.substr(0, unit.path.rfind('.'));
  const ModuleEntry *output = context.findModule(attention + ".o_proj");
  if (!output || output->heads <= 0)
    return std::nullopt;
  const int64_t value = output->k / output->heads;
  const int64_t nope = part.module->n / heads - value;
  const int64_t local = heads / context.options.ranks.tp;
  return std::pair(Shape{local, nope, part.k}, Shape{local, value, part.k});
}

static void describeExperts(const CheckContext &context, const Unit &unit,
                            ModuleReport &report) {
  report.localExperts = unit.localExperts;
  for (bool rows : {false, true}) {
    std::vector<const Part *> parts;
    std::vector<MatrixReport> each;
    for (const Part &part : unit.parts)
      if (part.isRowSplit() == rows) {
        parts.push_back(&part);
        each.push_back(describeMatrix(context, part));
      }
    if (parts.empty())
      continue;
    MatrixReport matrix = joinMatrices(parts, each);
    auto addExperts = [&](Shape &shape) {
      if (shape == Shape{1} && parts.size() == 1)
        shape.clear();
      shape.insert(shape.begin(), unit.localExperts);
    };
    addExperts(matrix.weightShape);
    if (!matrix.scaleDtype.empty())
      addExperts(matrix.scaleShape);
    if (matrix.zerosShape)
      addExperts(*matrix.zerosShape);
    if (matrix.paddedShape)
      addExperts(*matrix.paddedShape);
    (rows ? report.w2 : report.w13) = std::move(matrix);
  }
}

/// Tensors of a module that are no weights: a router's bias of choices.
static void describeOthers(CheckContext &context, const Unit &unit) {
  const Part &part = unit.first();
  for (const PlainTensor &other : part.module->others) {
    auto stored = part.decision->tensors.find(other.name);
    if (other.name.starts_with('_') ||
        (context.checkpoint && stored == part.decision->tensors.end()))
      continue;
    ModuleReport report;
    report.path = unit.path + "." + other.name;
    report.storageDtype = stored != part.decision->tensors.end()
                              ? storedTypeName(stored->second.type)
                          : other.isFloat32 ? "F32"
                                            : nameDtype(context.dtype);
    report.matrix.weightShape = other.shape;
    context.report.modules.push_back(std::move(report));
  }
}

static void describeUnit(CheckContext &context, const Unit &unit) {
  const Part &part = unit.first();
  const ModuleDecision &decision = *part.decision;
  ModuleReport report;
  report.path = unit.path;
  report.method = nameFormat(decision.method);
  if (decision.method.whileLoading)
    report.method =
        decision.contract.weight.kind == Granularity::Kind::PerTensor
            ? "fp8-tensor"
            : "fp8-channel";
  for (const Part &each : unit.parts)
    if (getPacking(*each.decision) != Packing::None)
      report.method = "gguf";
  report.parallel = nameSplit(part.module->split);
  if (unit.kind == ModuleKind::RoutedExpert) {
    describeExperts(context, unit, report);
    report.parallel = context.options.ranks.ep > 1 ? "expert" : "column";
  } else {
    std::vector<const Part *> parts;
    std::vector<MatrixReport> each;
    for (const Part &shard : unit.parts) {
      parts.push_back(&shard);
      each.push_back(describeMatrix(context, shard));
    }
    report.matrix = joinMatrices(parts, each);
    if (parts.size() > 1)
      for (size_t i = 0; i < parts.size(); ++i)
        report.shards.emplace_back(parts[i]->name, std::move(each[i]));
  }
  const std::string &scale =
      report.w13 ? report.w13->scaleDtype : report.matrix.scaleDtype;
  bool multiplies = part.module->k > 0 && unit.kind != ModuleKind::Embedding;
  if (multiplies) {
    report.activation = nameActivation(decision.contract);
    report.computeDtype = nameCompute(context, decision.contract);
  }
  report.scaleFormat = nameScaleFormat(decision, scale);
  if (decision.method.quantized && decision.method.weight.isGroup())
    report.groupSize = decision.method.weight.blockK;
  report.absorbed = describeAbsorbed(context, unit);
  context.report.modules.push_back(std::move(report));
  describeOthers(context, unit);
}

static void describeAttention(CheckContext &context, const Unit &unit) {
  Result<KvReport> kv = describeKv(context, unit);
  if (!kv) {
    context.addError(kv.takeStatus().takeInfo());
    return;
  }
  ModuleReport report;
  report.path = unit.path + ".attn";
  report.kv = kv.take();
  context.report.modules.push_back(std::move(report));
  describeOthers(context, unit);
}

void octet::describeUnits(CheckContext &context) {
  for (const Unit &unit : context.units)
    if (unit.kind == ModuleKind::Attention)
      describeAttention(context, unit);
    else
      describeUnit(context, unit);
  const ModuleList &list = context.decisions.list;
  if (!list.tied)
    return;
  ModuleReport head;
  head.path = list.prefix + "lm_head";
  head.tiedTo = list.prefix + "model.embed_tokens";
  for (const ModuleReport &module : context.report.modules)
    if (module.path == head.tiedTo) {
      head.matrix = module.matrix;
      head.parallel = module.parallel;
      head.method = module.method;
    }
  head.computeDtype = nameDtype(context.dtype);
  context.report.modules.push_back(std::move(head));
}
