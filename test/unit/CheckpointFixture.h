//===- CheckpointFixture.h - A folder of checkpoint files ----*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_CHECKPOINTFIXTURE_H
#define OCTET_TEST_UNIT_CHECKPOINTFIXTURE_H

#include "octet/Checkpoint/Checkpoint.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>

namespace octet::test {

/// A folder of its own for each test, and writers of what goes wrong in it.
class CheckpointTest : public testing::Test {
protected:
  CheckpointTest() {
    std::string pattern = testing::TempDir() + "octet-checkpoint-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~CheckpointTest() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) const {
    return folder + "/" + name;
  }

  void writeText(const std::string &name, std::string_view text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }

  /// A safetensors file of `header` and `dataBytes` of a hole.
  void writeTensors(const std::string &name, const std::string &header,
                    int64_t dataBytes) const {
    std::string prefix;
    for (int i = 0; i < 8; ++i)
      prefix += char(header.size() >> (8 * i) & 0xFF);
    writeText(name, prefix + header);
    std::filesystem::resize_file(path(name), 8 + header.size() + dataBytes);
  }

  /// The text after "error: FILE: " of reading a header, "ok" without error.
  std::string read(const std::string &header, int64_t dataBytes) const {
    writeTensors("x.safetensors", header, dataBytes);
    return readFile("x.safetensors");
  }

  std::string readFile(const std::string &name) const {
    Result<TensorTable> table = readSafetensors(path(name));
    return table.ok() ? "ok" : stripped(table.status().info().format());
  }

  std::string openFolder(bool needConfig = false) const {
    Result<Checkpoint> checkpoint =
        openCheckpoint(folder, {.needConfig = needConfig});
    return checkpoint.ok() ? "ok"
                           : stripped(checkpoint.status().info().format());
  }

  /// Without "error: ", the test's folder and the last newline.
  std::string stripped(std::string text) const {
    EXPECT_EQ(text.substr(0, 7), "error: ");
    text = text.substr(7, text.size() - 8);
    for (size_t at; (at = text.find(folder)) != text.npos;)
      text.replace(at, folder.size() + (text[at + folder.size()] == '/'), "");
    return text;
  }

  std::string folder;
};

/// One entry of a header.
inline std::string entry(const std::string &name, const std::string &dtype,
                         const std::string &shape, const std::string &offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

} // namespace octet::test

#endif // OCTET_TEST_UNIT_CHECKPOINTFIXTURE_H
