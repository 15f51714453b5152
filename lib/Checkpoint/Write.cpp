//===- Write.cpp - Writing safetensors ------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "octet/Support/File.h"
#include <algorithm>

using namespace octet;

/// Our own callers' mistakes, which no file can cause.
static Status checkTensor(const TensorToWrite &tensor) {
  auto bug = [&](const std::string &message) {
    return internalError("tensor " + quoteName(tensor.name), message);
  };
  if (tensor.name.empty() || tensor.name == "__metadata__" ||
      !isUtf8(tensor.name))
    return bug("a safetensors file cannot hold this name");
  std::optional<int64_t> count = checkedProduct(tensor.shape);
  std::optional<int64_t> need =
      count ? checkedMul(*count, byteWidth(tensor.type)) : std::nullopt;
  if (!need || uint64_t(*need) != tensor.data.size())
    return bug("has " + std::to_string(tensor.data.size()) +
               " bytes of data, dtype and shape need " +
               (need ? std::to_string(*need) : "more than 2^63 - 1"));
  return Status::success();
}

Status octet::writeSafetensors(const std::string &path,
                               std::span<const TensorToWrite> tensors) {
  // Widest elements first: with a header padded to 8 bytes each tensor then
  // begins at a multiple of its element.
  std::vector<const TensorToWrite *> order;
  for (const TensorToWrite &tensor : tensors) {
    OCTET_TRY(checkTensor(tensor));
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(),
            [](const TensorToWrite *a, const TensorToWrite *b) {
              return std::pair(-byteWidth(a->type), std::string_view(a->name)) <
                     std::pair(-byteWidth(b->type), std::string_view(b->name));
            });

  nlohmann::json header = nlohmann::json::object();
  std::vector<std::span<const std::byte>> pieces(1);
  int64_t offset = 0;
  for (const TensorToWrite *tensor : order) {
    int64_t end = offset + int64_t(tensor->data.size());
    auto [entry, isNew] =
        header.get_ptr<nlohmann::json::object_t *>()->try_emplace(tensor->name);
    if (!isNew)
      return internalError("tensor " + quoteName(tensor->name),
                           "is to be written twice");
    entry->second = {{"dtype", storedTypeName(tensor->type)},
                     {"shape", tensor->shape},
                     {"data_offsets", {offset, end}}};
    pieces.push_back(tensor->data);
    offset = end;
  }

  std::string text = dumpJson(header);
  text.append(alignTo(text.size(), 8) - text.size(), ' ');
  if (text.size() > size_t(kMaxHeaderBytes))
    return inputError(escapePath(path), "its header would be " +
                                            std::to_string(text.size()) +
                                            " bytes, over the limit of " +
                                            std::to_string(kMaxHeaderBytes));
  std::string prefix;
  for (int i = 0; i < 8; ++i)
    prefix += char(text.size() >> (8 * i) & 0xFF);
  text = prefix + text;
  pieces[0] = std::as_bytes(std::span(text));
  return writeFile(path, pieces);
}
