//===- Scalars.cpp - Step 6: scales that are scalars --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A check may read scalars (C13): a scale that is NaN, infinite or negative is
// found before anything is compiled (W6). Zero is judged while loading, where
// the block is known; a zero that is a hole of its file was never written, and
// is judged only when the weights are asked for.
//
//===----------------------------------------------------------------------===//

#include "Units.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Support/Escape.h"
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

using namespace octet;

bool ScalarReader::isScalar(const TensorInfo &tensor) {
  for (int64_t side : tensor.shape)
    if (side != 1)
      return false;
  return tensor.isPlain() &&
         (tensor.type == StoredType::F32 || tensor.type == StoredType::BF16 ||
          tensor.type == StoredType::F16);
}

Result<double> ScalarReader::read(const TensorInfo &tensor,
                                  std::string_view module) {
  if (!isScalar(tensor))
    return inputError(std::string(module),
                      quoteName(tensor.name) + " is " + tensor.describe() +
                          "; expected F32 [] (one scale)",
                      "W1");
  auto file = files.find(tensor.file);
  if (file == files.end()) {
    OCTET_TRY_ASSIGN(
        InputFile opened,
        InputFile::open(checkpoint.tensors.files[size_t(tensor.file)]));
    file = files.emplace(tensor.file, std::move(opened)).first;
  }
  std::array<char, 4> bytes = {};
  OCTET_TRY(file->second.read(
      tensor.offset, std::span(bytes).first(size_t(byteWidth(tensor.type)))));
  uint32_t bits = 0;
  std::memcpy(&bits, bytes.data(), bytes.size());
  float value = 0;
  if (tensor.type == StoredType::F32)
    std::memcpy(&value, &bits, sizeof(value));
  else
    value = tensor.type == StoredType::BF16 ? decodeBF16(uint16_t(bits))
                                            : decodeF16(uint16_t(bits));
  if (!std::isfinite(value))
    return inputError(std::string(module),
                      "scale " + quoteName(tensor.name) + " is " +
                          (std::isnan(value) ? "NaN"
                           : value > 0       ? "infinite"
                                             : "-infinite") +
                          "; expected a positive number",
                      "W6");
  return double(value);
}

/// A scale of a weight or an activation; those of a KV cache may be negative,
/// which is the same as absent (P8).
static bool isLinearScale(std::string_view name) {
  std::string_view last = name.substr(name.rfind('.') + 1);
  return last == "weight_scale" || last == "weight_scale_inv" ||
         last == "input_scale" || last == "weight_scale_2" ||
         last == "weight_global_scale" || last == "input_global_scale";
}

/// Nothing is stored where the tensor stands: a sparse layout of a checkpoint,
/// its headers without its data. False where the file system does not say.
static bool isHole(const Checkpoint &checkpoint, const TensorInfo &tensor) {
  Result<InputFile> file =
      InputFile::open(checkpoint.tensors.files[size_t(tensor.file)]);
  if (!file)
    return false;
  // The size is a few bytes, and a hole is whole pages.
  return ::lseek(file->descriptor(), tensor.offset, SEEK_HOLE) == tensor.offset;
}

/// One note for all scales that are not judged.
static void noteHoles(CheckContext &context,
                      const std::vector<const TensorInfo *> &holes) {
  if (holes.empty())
    return;
  const std::string &name = holes[0]->name;
  std::string others;
  if (holes.size() > 1)
    others = " and " + std::to_string(holes.size() - 1) + " more";
  ErrorInfo note;
  note.subject = name.substr(0, name.rfind('.'));
  note.message = "scale " + quoteName(name) + others +
                 (others.empty() ? " is" : " are") +
                 " a hole of the file, which reads as 0: not judged before "
                 "the values are stored";
  note.rule = "W6";
  context.report.notes.push_back(std::move(note));
}

void octet::checkScalars(CheckContext &context) {
  std::vector<const TensorInfo *> holes;
  for (const TensorInfo &tensor : context.checkpoint->tensors.all()) {
    if (!isLinearScale(tensor.name) || !ScalarReader::isScalar(tensor))
      continue;
    std::string module = tensor.name.substr(0, tensor.name.rfind('.'));
    Result<double> value = context.scalars->read(tensor, module);
    if (!value) {
      context.addError(value.takeStatus().takeInfo());
      continue;
    }
    // A weight's scale may be 0 where its codes are, which nobody reads here;
    // nothing can be divided by 0.
    bool divides = tensor.name.ends_with(".input_scale") ||
                   tensor.name.ends_with("_global_scale");
    if (*value > 0 || (*value == 0 && !divides))
      continue;
    if (*value == 0 && !context.options.withWeights &&
        isHole(*context.checkpoint, tensor)) {
      holes.push_back(&tensor);
      continue;
    }
    char text[32];
    std::snprintf(text, sizeof(text), "%g", *value);
    context.addError(inputError(module,
                                "scale " + quoteName(tensor.name) + " is " +
                                    text + "; expected a positive number",
                                "W6")
                         .takeInfo());
  }
  noteHoles(context, holes);
}
