//===- Inventory.cpp - Every tensor of a checkpoint accounted for ---------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inventory.h"
#include "octet/Support/Escape.h"
#include <algorithm>

using namespace octet;

Inventory::Inventory(const Checkpoint &checkpoint) : checkpoint(checkpoint) {
  consumed.resize(checkpoint.tensors.all().size());
}

std::vector<std::pair<std::string, const TensorInfo *>>
Inventory::getBelow(const std::string &module) const {
  std::string prefix = module + ".";
  std::span<const TensorInfo> all = checkpoint.tensors.all();
  auto at =
      std::lower_bound(all.begin(), all.end(), prefix,
                       [](const TensorInfo &tensor, const std::string &name) {
                         return tensor.name < name;
                       });
  std::vector<std::pair<std::string, const TensorInfo *>> below;
  for (; at != all.end() && at->name.starts_with(prefix); ++at)
    below.emplace_back(at->name.substr(prefix.size()), &*at);
  return below;
}

bool Inventory::hasModule(const std::string &module) const {
  return !getBelow(module).empty();
}

StoredTensor Inventory::describe(const TensorInfo &tensor) const {
  StoredTensor stored{tensor.type, tensor.shape};
  if (keepPacked && tensor.shape.size() == 2 && staysPacked(tensor.packing))
    stored.packing = tensor.packing;
  stored.headRows = tensor.headRows;
  return stored;
}

void Inventory::consume(const TensorInfo &tensor) {
  consumed[size_t(&tensor - checkpoint.tensors.all().data())] = true;
}

std::string Inventory::getFile(const TensorInfo &tensor) const {
  const std::string &path = checkpoint.tensors.files[size_t(tensor.file)];
  return path.substr(path.rfind('/') + 1);
}

static std::string describeShape(const std::vector<int64_t> &shape) {
  std::string text = StoredTensor{StoredType::BF16, shape}.describe();
  return text.substr(text.find('['));
}

void Inventory::addMissing(const std::string &name,
                           const std::vector<int64_t> &shape,
                           std::string_view why) {
  ErrorInfo problem;
  problem.subject = escapePath(checkpoint.path);
  problem.message = "no tensor " + quoteName(name) + "; expected " +
                    describeShape(shape) + " " + std::string(why);
  problem.rule = "C13";
  problems.push_back(std::move(problem));
}

void Inventory::addMismatch(const TensorInfo &tensor, std::string expected) {
  ErrorInfo problem;
  problem.subject = escapePath(getFile(tensor));
  problem.message = "tensor " + quoteName(tensor.name) + " is " +
                    tensor.describe() + "; config.json implies " +
                    std::move(expected);
  problem.rule = "C13";
  problems.push_back(std::move(problem));
}

/// "weight F8_E4M3 [64, 256] and weight_scale F32 []", or "nothing".
static std::string listTensors(
    const std::vector<std::pair<std::string, const TensorInfo *>> &all) {
  std::string text;
  for (const auto &[name, tensor] : all)
    text += (text.empty() ? "" : ", ") + name + " " + tensor->describe();
  return text.empty() ? "nothing" : text;
}

void Inventory::addDifference(const std::string &module,
                              const std::string &other) {
  ErrorInfo problem;
  problem.subject = module;
  problem.message = "stores " + listTensors(getBelow(module)) +
                    "; expected what " + quoteName(other) + " stores, " +
                    listTensors(getBelow(other));
  problem.rule = "C13";
  problems.push_back(std::move(problem));
}

std::optional<StoredTensor>
Inventory::requirePlain(const std::string &name,
                        const std::vector<int64_t> &shape,
                        std::string_view why) {
  const TensorInfo *tensor = find(name);
  if (!tensor) {
    addMissing(name, shape, why);
    return std::nullopt;
  }
  consume(*tensor);
  bool plain = tensor->type == StoredType::BF16 ||
               tensor->type == StoredType::F16 ||
               tensor->type == StoredType::F32;
  if (!plain || tensor->shape != shape) {
    addMismatch(*tensor, (plain ? std::string() : "BF16, F16 or F32 ") +
                             describeShape(shape) + " " + std::string(why));
    return std::nullopt;
  }
  return describe(*tensor);
}

Status Inventory::takeProblems() {
  if (problems.empty())
    return Status::success();
  constexpr size_t kShown = 10;
  ErrorInfo first = problems.front();
  for (size_t i = 1; i < problems.size() && i < kShown; ++i)
    first.notes.push_back(problems[i].subject + ": " + problems[i].message);
  if (problems.size() > kShown)
    first.notes.push_back("and " + std::to_string(problems.size() - kShown) +
                          (isHopeless() ? " or more" : " more"));
  problems.clear();
  return first;
}

std::vector<const TensorInfo *> Inventory::getUnconsumed() const {
  std::vector<const TensorInfo *> result;
  for (size_t i = 0; i < consumed.size(); ++i)
    if (!consumed[i])
      result.push_back(&checkpoint.tensors.all()[i]);
  return result;
}
