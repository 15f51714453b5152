//===- ApiFixture.h - octet.h in a test -------------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_TEST_UNIT_APIFIXTURE_H
#define OCTET_TEST_UNIT_APIFIXTURE_H

#include "FakeModel.h"
#include "TempFolder.h"
#include "octet/octet.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

namespace octet::test {

struct FreeHandle {
  void operator()(octet_file *file) const { octet_file_close(file); }
  void operator()(octet_model *model) const { octet_model_free(model); }
  void operator()(octet_seq *seq) const { octet_seq_free(seq); }
  void operator()(octet_tokenizer *tokenizer) const {
    octet_tokenizer_free(tokenizer);
  }
  void operator()(octet_decoder *decoder) const { octet_decoder_free(decoder); }
  void operator()(octet_error *error) const { octet_error_free(error); }
};
template <typename Handle>
using Owned = std::unique_ptr<Handle, FreeHandle>;

/// Calls `f` with all arguments but the error; "" or `STATUS SUBJECT: MESSAGE`.
template <typename Function, typename... Arguments>
std::string errorOf(Function f, Arguments... arguments) {
  octet_error *raw = reinterpret_cast<octet_error *>(8); // To be overwritten.
  const octet_status status = f(arguments..., &raw);
  Owned<octet_error> error(raw);
  if (status == OCTET_OK)
    return error ? "success with an error" : "";
  if (!error || octet_error_status(error.get()) != status)
    return "an error without an error";
  return std::to_string(status) + " " + octet_error_subject(error.get()) +
         ": " + octet_error_message(error.get());
}

class ApiTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = makeTempFolder();
    ASSERT_FALSE(folder.empty());
    ASSERT_TRUE(writeFakeCheckpoint(folder, fakeTensors()).ok());
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// A program of fake_program.c, packed into a file and opened.
  Owned<octet_file> openFile(const std::string &program = "fake-program",
                             const std::string &tokenizer = "",
                             const std::string &chat = "") {
    const std::string path = folder + "/" + program;
    EXPECT_TRUE(packProgram(OCTET_FAKE_DIR "/" + program + ".so", "", path,
                            tokenizer, chat)
                    .ok());
    octet_file *file = nullptr;
    EXPECT_EQ(errorOf(octet_file_open, path.c_str(), &file), "");
    return Owned<octet_file>(file);
  }

  Owned<octet_model> loadModel(const octet_file *file, int threads = 2) {
    octet_model_options options;
    octet_model_options_init(&options, sizeof(options));
    options.weights = folder.c_str();
    options.threads = threads;
    octet_model *model = nullptr;
    EXPECT_EQ(errorOf(octet_model_load, file, &options, &model), "");
    return Owned<octet_model>(model);
  }
  Owned<octet_model> loadModel() { return loadModel(openFile().get()); }

  std::string folder;
};

} // namespace octet::test

#endif // OCTET_TEST_UNIT_APIFIXTURE_H
