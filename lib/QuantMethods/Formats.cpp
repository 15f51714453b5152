//===- Formats.cpp - One module of any other format ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// MX, NVFP4, integers in words: what a scheme expects (ExpectedTensors.cpp) is
// held against what the headers say.
//
//===----------------------------------------------------------------------===//

#include "Resolve.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;

namespace {

/// Sides of the matrix in a packed tensor.
struct Sides {
  int64_t n = 0, k = 0;
};

} // namespace

static const StoredTensor *find(const ModuleFacts &facts,
                                std::string_view name) {
  auto found = facts.tensors.find(name);
  return found == facts.tensors.end() ? nullptr : &found->second;
}

/// The last component of a tensor's name: one that starts with `_` goes on that
/// of the module, `down_proj_scales`.
static std::string nameTensor(const ModuleFacts &facts,
                              const std::string &name) {
  if (!name.starts_with('_'))
    return name;
  return facts.module.substr(facts.module.rfind('.') + 1) + name;
}

/// What the caller knows, else what the codes' tensor implies.
static Sides getSides(const Scheme &scheme, const ModuleFacts &facts,
                      const StoredTensor *codes) {
  if (facts.n > 0 && facts.k > 0)
    return {facts.n, facts.k};
  if (!codes || codes->shape.size() != 2)
    return {};
  constexpr int64_t kLargest = int64_t(1) << 31; // as a config's sizes
  int64_t rows = codes->shape[0], columns = codes->shape[1];
  if (rows < 0 || columns < 0 || rows > kLargest || columns > kLargest)
    return {};
  int64_t perWord = 32 / getBits(scheme.format.code);
  switch (scheme.format.layout) {
  case WeightLayout::Rows:
    return {rows, columns};
  case WeightLayout::NibbleRows:
    return {rows, 2 * columns};
  case WeightLayout::WordRows:
    return {rows, perWord * columns};
  case WeightLayout::GptqWords:
    return {columns, perWord * rows};
  case WeightLayout::AwqWords:
    return {perWord * columns, rows};
  case WeightLayout::NibbleExperts:
    return {};
  }
  return {};
}

/// A side that groups and words have to divide: the format has no place for a
/// rest.
static Status checkSides(const Scheme &scheme, const ModuleFacts &facts,
                         const Sides &sides) {
  auto divides = [&](char side, int64_t size, int64_t part,
                     std::string_view what) -> Status {
    if (size % part == 0)
      return Status::success();
    return inputError(facts.module,
                      std::string(1, side) + " is " + std::to_string(size) +
                          ", not a multiple of " + std::string(what) + " " +
                          std::to_string(part),
                      "W1");
  };
  const WeightFormat &format = scheme.format;
  int64_t perWord = 32 / getBits(format.code);
  bool isMx = format.scale != ScaleFormat::Float;
  if (scheme.weight.isGroup() &&
      (isMx || format.layout == WeightLayout::AwqWords))
    OCTET_TRY(divides('K', sides.k, scheme.weight.blockK, "the group of"));
  if (format.layout == WeightLayout::AwqWords)
    OCTET_TRY(divides('N', sides.n, perWord, "the codes of a word,"));
  if (format.layout == WeightLayout::GptqWords) {
    OCTET_TRY(divides('K', sides.k, perWord, "the codes of a word,"));
    OCTET_TRY(divides('N', sides.n, perWord, "the codes of a word,"));
  }
  return Status::success();
}

/// "'a' or 'b'".
static std::string joinTypes(const std::vector<StoredType> &types) {
  std::string text;
  for (size_t i = 0; i < types.size(); ++i)
    text += (i == 0                  ? ""
             : i + 1 == types.size() ? " or "
                                     : ", ") +
            std::string(storedTypeName(types[i]));
  return text;
}

/// The tensor under the one of its names that is stored; null where none is.
static Result<const std::string *> findName(const ModuleFacts &facts,
                                            const ExpectedTensor &expected) {
  const std::string *found = nullptr;
  for (const std::string &name : expected.names) {
    if (!find(facts, name))
      continue;
    if (found)
      return inputError(facts.module,
                        "has both '" + *found + "' " +
                            find(facts, *found)->describe() + " and '" + name +
                            "' " + find(facts, name)->describe() +
                            "; one of the two spellings",
                        "W2");
    found = &name;
  }
  return found;
}

static Status checkTensor(const ModuleFacts &facts, const std::string &name,
                          const ExpectedTensor &expected, bool isCodes) {
  const StoredTensor &stored = *find(facts, name);
  bool typeFits =
      std::ranges::find(expected.types, stored.type) != expected.types.end();
  bool shapeFits =
      std::ranges::find(expected.shapes, stored.shape) != expected.shapes.end();
  if (typeFits && shapeFits)
    return Status::success();
  std::string wanted = expected.describe();
  if (!typeFits && expected.types.size() > 1)
    wanted += " in " + joinTypes(expected.types);
  return inputError(facts.module,
                    "'" + nameTensor(facts, name) + "' is " +
                        stored.describe() + "; expected " + wanted,
                    isCodes ? "C13" : "W1");
}

Result<ResolvedModule> octet::resolveFormat(std::string_view method,
                                            const Scheme &scheme,
                                            const ModuleFacts &facts) {
  ResolvedModule result;
  result.quantized = true;
  result.method = method;
  result.weight = scheme.weight;
  result.activation = scheme.activation;
  result.format = scheme.format;
  result.input = scheme.input;
  // The first expected tensor holds the codes, under one name.
  std::string codesName =
      expectTensors(method, scheme, 1, 1, facts.experts).front().names.front();
  const StoredTensor *codes = find(facts, codesName);
  if (!codes)
    return inputError(facts.module,
                      "has no tensor '" + nameTensor(facts, codesName) +
                          "', which a weight of " + describeScheme(scheme) +
                          " has",
                      "C13");
  Sides sides = getSides(scheme, facts, codes);
  if (sides.n <= 0 || sides.k <= 0)
    return inputError(facts.module,
                      "'" + nameTensor(facts, codesName) + "' is " +
                          codes->describe() +
                          "; a linear has two dimensions [N, K]",
                      "C13");
  OCTET_TRY(checkSides(scheme, facts, sides));

  std::vector<ExpectedTensor> tensors =
      expectTensors(method, scheme, sides.n, sides.k, facts.experts);
  for (const ExpectedTensor &expected : tensors) {
    bool isCodes = &expected == &tensors.front();
    OCTET_TRY_ASSIGN(const std::string *name, findName(facts, expected));
    if (name) {
      OCTET_TRY(checkTensor(facts, *name, expected, isCodes));
    } else if (expected.required) {
      return inputError(facts.module,
                        "no '" + nameTensor(facts, expected.names.front()) +
                            "' for its " +
                            std::string(storedTypeName(codes->type)) +
                            " weight; expected " + expected.describe(),
                        "W6");
    }
    bool isScale = name && name->find("scale") != std::string::npos;
    if (isScale && result.scaleName.empty()) {
      result.scaleName = *name;
      result.scaleType = find(facts, *name)->type;
    }
  }
  return result;
}
