//===- InfoTest.cpp - What octet info prints ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/octet/Info.h"
#include "CheckpointFixture.h"
#include <sstream>

using namespace octet;
using namespace octet::test;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

//===----------------------------------------------------------------------===//
// octet info
//===----------------------------------------------------------------------===//

class InfoTest : public CheckpointTest {
protected:
  std::string info(bool asJson = false, bool tensors = false) const {
    std::ostringstream out;
    Status status =
        printInfo({.path = folder, .json = asJson, .tensors = tensors}, out);
    if (!status.ok()) {
      EXPECT_EQ(out.str(), "");
      return stripped(status.info().format());
    }
    return out.str();
  }

  /// The lines after the one that begins with "tensors".
  std::string table(bool tensors = false) const {
    std::string text = info(/*asJson=*/false, tensors);
    return text.substr(text.find('\n', text.rfind("\ntensors") + 1) + 1);
  }

  /// A checkpoint of one-byte tensors.
  void writeNames(const std::vector<std::string> &names) const {
    std::string header = "{";
    for (size_t i = 0; i < names.size(); ++i)
      header += (i ? "," : "") + entry(names[i], "U8", "[1]",
                                       "[" + std::to_string(i) + "," +
                                           std::to_string(i + 1) + "]");
    writeTensors("model.safetensors", header + "}", int64_t(names.size()));
  }
};

TEST_F(InfoTest, FoldsFullProductsOnly) {
  std::vector<std::string> names = {"norm", "l.3.e.0.w", "l.3.e.2.w"};
  for (std::string layer : {"0", "1", "2"})
    for (std::string expert : {"0", "1", "2", "3"})
      names.push_back("l." + layer + ".e." + expert + ".w");
  writeNames(names);
  EXPECT_EQ(table(), "  l.{0-2}.e.{0-3}.w  U8  [1]  x 12\n"
                     "  l.3.e.{0,2}.w      U8  [1]  x 2\n"
                     "  norm               U8  [1]\n");
}

TEST_F(InfoTest, FoldsOnlyWholeNumbers) {
  writeNames({"a.01", "a.1", "a.x2", "a.99999999999", "a.2", "a.10", "0.a"});
  EXPECT_EQ(table(), "  0.a            U8  [1]\n"
                     "  a.{1,2,10}     U8  [1]  x 3\n"
                     "  a.01           U8  [1]\n"
                     "  a.99999999999  U8  [1]\n"
                     "  a.x2           U8  [1]\n");
}

TEST_F(InfoTest, FoldsOnlyEqualTypesAndShapes) {
  writeTensors("model.safetensors",
               "{" + entry("a.0", "U8", "[4]", "[0,4]") + "," +
                   entry("a.1", "U8", "[4]", "[4,8]") + "," +
                   entry("a.2", "I8", "[4]", "[8,12]") + "," +
                   entry("a.3", "U8", "[2,2]", "[12,16]") + "}",
               16);
  EXPECT_EQ(table(), "  a.{0,1}  U8  [4]     x 2\n"
                     "  a.2      I8  [4]\n"
                     "  a.3      U8  [2, 2]\n");
}

TEST_F(InfoTest, ManyNumbersInOneName) {
  std::string name = "0";
  for (int i = 0; i < 300000; ++i)
    name += ".0";
  writeNames({name, "a"});
  EXPECT_EQ(table(true).substr(0, 8), "  0.0.0.");
  EXPECT_NE(info().find("tensors:       2 tensors, 2 bytes\n"),
            std::string::npos);
}

TEST_F(InfoTest, ListsEachTensor) {
  writeNames({"a.0", "a.1"});
  EXPECT_EQ(table(true), "  a.0  U8  [1]  1 byte  model.safetensors\n"
                         "  a.1  U8  [1]  1 byte  model.safetensors\n");
}

TEST_F(InfoTest, EscapesWhatTheFileSays) {
  writeNames({"\\u001b[2J"});
  writeText("config.json",
            R"({"architectures":["\u001b[31mX"],
                "quantization_config":{"quant_method":"\u0007"}})");
  std::string text = info();
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_NE(text.find("architecture:  \\x1b[31mX\n"), text.npos) << text;
  EXPECT_NE(text.find("quantisation:  \\x07\n"), text.npos) << text;
}

TEST_F(InfoTest, MethodInTheOrderOfC1) {
  writeNames({"a"});
  EXPECT_NE(info().find("architecture:  unknown, there is no config.json\n"
                        "quantisation:  none declared\n"),
            std::string::npos);
  auto method = [&](const std::string &config) {
    writeText("config.json", config);
    return json::parse(info(/*asJson=*/true))["quant_method"];
  };
  writeText("hf_quant_config.json", R"({"quantization":{"quant_algo":"FP8"}})");
  EXPECT_EQ(method("{}"), "FP8");
  EXPECT_EQ(method(R"({"compression_config":{"quant_method":"c"}})"), "c");
  EXPECT_EQ(method(R"({"compression_config":{"quant_method":"c"},
              "text_config":{"quantization_config":{"quant_method":"b"}}})"),
            "b");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_method":"a"},
              "text_config":{"quantization_config":{"quant_method":"b"}}})"),
            "a");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_algo":"NVFP4"}})"),
            "NVFP4");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_method":7}})"), json());
}

TEST_F(InfoTest, Json) {
  writeNames({"a.0", "a.1", "größe"});
  writeText("config.json", R"({"architectures":["LlamaForCausalLM"]})");
  json value = json::parse(info(/*asJson=*/true, /*tensors=*/true));
  EXPECT_EQ(value["architecture"], "LlamaForCausalLM");
  EXPECT_EQ(value["quant_method"], json());
  EXPECT_EQ(value["tensor_count"], 3);
  EXPECT_EQ(value["tensor_bytes"], 3);
  EXPECT_EQ(value["files"][0]["name"], "model.safetensors");
  EXPECT_EQ(value["dtypes"]["U8"],
            json({{"tensor_count", 3}, {"tensor_bytes", 3}}));
  EXPECT_EQ(value["patterns"][0], json({{"name", "a.{0,1}"},
                                        {"dtype", "U8"},
                                        {"shape", {1}},
                                        {"count", 2}}));
  EXPECT_EQ(value["tensors"].size(), 3u);
  EXPECT_EQ(value["tensors"][2]["name"], "größe");
  EXPECT_FALSE(json::parse(info(true, false)).contains("tensors"));
}

TEST_F(InfoTest, OneFileWithoutAFolder) {
  writeNames({"a"});
  std::ostringstream out;
  ASSERT_TRUE(printInfo({.path = path("model.safetensors")}, out).ok());
  EXPECT_NE(out.str().find("tensors:       1 tensor, 1 byte\n"),
            std::string::npos);
}

TEST_F(InfoTest, ErrorsPrintNothing) {
  EXPECT_EQ(info(), ": has no tensors; there must be model.safetensors, "
                    "model.safetensors.index.json or another *.safetensors "
                    "file");
}

} // namespace
