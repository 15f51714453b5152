//===- FakeModel.cpp - The checkpoint of fake_program.c -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeModel.h"
#include "octet/Support/File.h"
#include "runtime/core/WriterPayload.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace octet;
using namespace octet::test;

static FakeTensor f32(std::string name, std::vector<int64_t> shape,
                      float deviation, std::mt19937 &bits) {
  FakeTensor t{std::move(name), StoredType::F32, std::move(shape), {}};
  size_t count = 1;
  for (int64_t side : t.shape)
    count *= size_t(side);
  std::vector<float> values(count);
  // Not std::normal_distribution, whose values depend on the library.
  for (float &v : values)
    v = (float(bits() >> 8) * 0x1p-23f - 1.0f) * deviation;
  t.data.resize(count * sizeof(float));
  std::memcpy(t.data.data(), values.data(), t.data.size());
  return t;
}

std::vector<FakeTensor> test::fakeTensors() {
  std::mt19937 bits(1);
  std::vector<FakeTensor> all;
  all.push_back(f32("embed", {61, 48}, 1.0f, bits));
  FakeTensor extra{"extra", StoredType::F8_E4M3, {4, 8}, {}};
  extra.data.assign(32, std::byte(0x38)); // 1.0
  all.push_back(std::move(extra));
  FakeTensor scale{"extra_scale", StoredType::F32, {1}, {}};
  const float one = 1;
  scale.data.resize(sizeof(one));
  std::memcpy(scale.data.data(), &one, sizeof(one));
  all.push_back(std::move(scale));
  for (const char *layer : {"0", "1"}) {
    std::string prefix = std::string("layers.") + layer + ".";
    all.push_back(f32(prefix + "k_proj", {32, 48}, 0.4f, bits));
    all.push_back(f32(prefix + "o_proj", {48, 64}, 0.7f, bits));
    all.push_back(f32(prefix + "q_proj", {64, 48}, 0.4f, bits));
    all.push_back(f32(prefix + "v_proj", {32, 48}, 0.4f, bits));
  }
  return all;
}

Status test::writeFakeCheckpoint(const std::string &folder,
                                 const std::vector<FakeTensor> &tensors) {
  std::vector<TensorToWrite> out;
  for (const FakeTensor &t : tensors)
    out.push_back({t.name, t.type, t.shape, t.data});
  return writeSafetensors(folder + "/model.safetensors", out);
}

static Result<std::vector<char>> readAll(const std::string &path) {
  OCTET_TRY_ASSIGN(InputFile file, InputFile::open(path));
  std::vector<char> bytes(size_t(file.size()));
  OCTET_TRY(file.read(0, bytes));
  return bytes;
}

Status test::packProgram(const std::string &sharedObject,
                         const std::string &runner, const std::string &output,
                         const std::string &tokenizer,
                         const std::string &chat) {
  OCTET_TRY_ASSIGN(std::vector<char> program, readAll(sharedObject));
  std::vector<char> runnerBytes;
  if (!runner.empty()) {
    OCTET_TRY_ASSIGN(runnerBytes, readAll(runner));
  }
  std::vector<rt::SectionToWrite> sections{
      {"program", std::as_bytes(std::span(program))}};
  std::vector<char> tokenizerBytes;
  if (!tokenizer.empty()) {
    OCTET_TRY_ASSIGN(tokenizerBytes, readAll(tokenizer));
    sections.push_back(
        {"tokenizer.json", std::as_bytes(std::span(tokenizerBytes))});
  }
  std::vector<char> chatBytes;
  if (!chat.empty()) {
    OCTET_TRY_ASSIGN(chatBytes, readAll(chat));
    sections.push_back({"chat_template", std::as_bytes(std::span(chatBytes))});
  }
  return rt::writePayload(output, std::as_bytes(std::span(runnerBytes)),
                          sections);
}

Status test::packPrograms(
    std::span<const std::pair<std::string, std::string>> programs,
    const std::string &runner, const std::string &output) {
  std::vector<std::vector<char>> objects;
  std::string targets;
  for (const auto &[target, path] : programs) {
    OCTET_TRY_ASSIGN(std::vector<char> object, readAll(path));
    objects.push_back(std::move(object));
    targets += (targets.empty() ? "" : ",") + target;
  }
  std::vector<char> runnerBytes;
  if (!runner.empty()) {
    OCTET_TRY_ASSIGN(runnerBytes, readAll(runner));
  }
  std::vector<rt::SectionToWrite> sections;
  for (size_t i = 0; i < objects.size(); ++i)
    sections.push_back({i ? "program." + std::to_string(i) : "program",
                        std::as_bytes(std::span(objects[i]))});
  sections.push_back({"targets", std::as_bytes(std::span(targets))});
  return rt::writePayload(output, std::as_bytes(std::span(runnerBytes)),
                          sections);
}
