//===- FakeModel.h - The checkpoint of fake_program.c -----------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_FAKEMODEL_H
#define OCTET_TEST_UNIT_FAKEMODEL_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace octet::test {

inline constexpr int64_t kFakeVocab = 61;
inline constexpr int64_t kFakeHidden = 48;
inline constexpr int64_t kFakeContext = 200;

/// One tensor of the fake checkpoint, with its values.
struct FakeTensor {
  std::string name;
  StoredType type;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};

/// All tensors, with values from a fixed generator (seed 1).
std::vector<FakeTensor> fakeTensors();

/// Writes tensors as FOLDER/model.safetensors.
Status writeFakeCheckpoint(const std::string &folder,
                           const std::vector<FakeTensor> &tensors);

/// Wraps a shared object as a program file, or an executable with a runner.
/// \param runner     path of octet-run, or "" for none.
/// \param tokenizer  path of a tokenizer.json, or "" for none.
/// \param chat       path of a section "chat_template", or "" for none.
Status packProgram(const std::string &sharedObject, const std::string &runner,
                   const std::string &output, const std::string &tokenizer = "",
                   const std::string &chat = "");
/// The same for several programs: pairs of a target and a shared object.
Status
packPrograms(std::span<const std::pair<std::string, std::string>> programs,
             const std::string &runner, const std::string &output);

} // namespace octet::test

#endif // OCTET_TEST_UNIT_FAKEMODEL_H
