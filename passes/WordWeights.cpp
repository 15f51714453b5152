//===- WordWeights.cpp - Loading of codes that share words ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/WordWeights.h"
#include "mlir/IR/Builders.h"
#include "passes/ModulePaths.h"

using namespace mlir;
using namespace octet;

/// The names of a kind of tensor in all methods (FORMATS), and the rule that
/// asks for it.
namespace {
struct Kind {
  StringRef what;
  SmallVector<StringRef, 4> names;
  StringRef rule;
};
} // namespace

static bool isByte(Type type) {
  return type.isInteger(8) || isa<Float8E8M0FNUType>(type);
}

/// The elements in the same order; bytes have several names (N7), and experts'
/// blocks a dimension of their own.
static bool isStoredAs(RankedTensorType stored, RankedTensorType implied) {
  bool sameType =
      stored.getElementType() == implied.getElementType() ||
      (isByte(stored.getElementType()) && isByte(implied.getElementType()));
  return sameType && stored.hasStaticShape() &&
         stored.getNumElements() == implied.getNumElements() &&
         (stored.getRank() != implied.getRank() ||
          stored.getShape() == implied.getShape());
}

static std::string findTensor(StringRef subject, q::StoredAttr stored,
                              const Kind &kind, RankedTensorType implied,
                              WordTensor &tensor) {
  if (!implied)
    return "";
  for (StringRef name : kind.names) {
    RankedTensorType type = stored.getTensor(name);
    if (!type)
      continue;
    if (!isStoredAs(type, implied))
      return (subject + ": '" + name + "' is " + print(type) + ", expected " +
              print(implied) + " [" + kind.rule + "]")
          .str();
    tensor = {StringAttr::get(implied.getContext(), name), type};
    return "";
  }
  return (subject + ": no '" + kind.names.front() + "', the " + kind.what +
          "; expected " + print(implied) + " [" + kind.rule + "]")
      .str();
}

std::string octet::findWordTensors(StringRef subject, q::StoredAttr stored,
                                   StringAttr codes, q::TensorType type,
                                   WordTensors &tensors) {
  tensors.type = type;
  const std::pair<Kind, std::pair<RankedTensorType, WordTensor *>> all[] = {
      {{"codes", {codes.getValue()}, "C13"},
       {type.getDataTensorType(), &tensors.codes}},
      {{"scales",
        {"scales", "weight_scale", "weight_scale_inv", "scale", "_scales"},
        "W6"},
       {type.getScaleTensorType(), &tensors.scales}},
      {{"zero points", {"qzeros", "weight_zero_point"}, "W6"},
       {type.getZeroTensorType(), &tensors.zeros}},
      {{"scale above those of groups",
        {"weight_scale_2", "weight_global_scale"},
        "N7"},
       {type.getGlobalTensorType(), &tensors.global}},
      {{"group of each column", {"g_idx", "weight_g_idx"}, "W6"},
       {type.getOrderTensorType(), &tensors.order}}};
  for (const auto &[kind, target] : all) {
    std::string problem =
        findTensor(subject, stored, kind, target.first, *target.second);
    if (!problem.empty())
      return problem;
  }
  return "";
}

Value octet::emitWordTensors(OpBuilder &builder, Location loc,
                             const WordTensors &tensors, StringAttr path,
                             Value index, Value expert) {
  auto load = [&](const WordTensor &tensor) -> Value {
    if (!tensor.name)
      return {};
    return q::LoadOp::create(builder, loc, tensor.type, path, index,
                             tensor.name, /*scale=*/StringAttr(),
                             /*scale_shape=*/{}, /*head_rows=*/{}, expert,
                             /*scale_type=*/{});
  };
  Value codes = load(tensors.codes), scales = load(tensors.scales);
  Value zeros = load(tensors.zeros), global = load(tensors.global);
  Value order = load(tensors.order);
  return q::PackOp::create(builder, loc, tensors.type, codes, scales, zeros,
                           global, order);
}
