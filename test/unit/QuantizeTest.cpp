//===- QuantizeTest.cpp - Quantising a checkpoint offline -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Quantize/Quantize.h"
#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Numerics/Numerics.h"
#include "octet/Support/MappedFiles.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace octet;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

class QuantizeTest : public testing::Test {
protected:
  QuantizeTest() {
    std::string pattern = testing::TempDir() + "octet-quantize-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    fs::create_directory(folder + "/in");
    writeText("in/config.json", R"({"architectures": ["LlamaForCausalLM"],
                                     "torch_dtype": "bfloat16"})");
    options.checkpoint = folder + "/in";
    options.output = folder + "/out";
    options.threads = 3;
  }
  ~QuantizeTest() override { fs::remove_all(folder); }

  void writeText(const std::string &name, std::string_view text) const {
    std::ofstream(folder + "/" + name, std::ios::binary) << text;
  }
  std::string readText(const std::string &name) const {
    std::ifstream file(folder + "/" + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void addFloats(const std::string &name, std::vector<int64_t> shape,
                 std::vector<float> values) {
    add(name, StoredType::F32, shape,
        std::string(reinterpret_cast<const char *>(values.data()),
                    values.size() * sizeof(float)));
  }
  void add(const std::string &name, StoredType type, std::vector<int64_t> shape,
           std::string data) {
    stored.push_back({name, type, std::move(shape), std::move(data)});
  }
  std::vector<float> random(int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(normal(rng));
    return values;
  }

  void writeSource() const {
    std::vector<TensorToWrite> tensors;
    for (const Stored &s : stored)
      tensors.push_back(
          {s.name, s.type, s.shape, std::as_bytes(std::span(s.data))});
    ASSERT_TRUE(writeSafetensors(folder + "/in/model.safetensors", tensors));
  }

  /// The error without "error: " and the test's folder, or "ok".
  std::string run() {
    writeSource();
    Result<QuantizeResult> done = quantizeCheckpoint(options);
    if (done.ok()) {
      result = done.take();
      return "ok";
    }
    std::string text = done.status().info().format();
    text = text.substr(7, text.find('\n') - 7);
    for (size_t at; (at = text.find(folder + "/")) != text.npos;)
      text.erase(at, folder.size() + 1);
    return text;
  }

  /// The result as an open checkpoint.
  void openOutput() {
    Result<Checkpoint> opened = openCheckpoint(options.output);
    ASSERT_TRUE(opened.ok()) << opened.status().info().format();
    checkpoint = opened.take();
    mapped.emplace(MappedCheckpoint::map(checkpoint.tensors).take());
  }
  std::string describe(const std::string &name) const {
    const TensorInfo *tensor = checkpoint.tensors.find(name);
    return tensor ? tensor->describe() : "none";
  }
  template <typename T>
  std::vector<T> read(const std::string &name) const {
    std::span<const std::byte> bytes =
        mapped->bytes(*checkpoint.tensors.find(name));
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  /// What is in the test's folder beside `in`.
  std::vector<std::string> leftOver() const {
    std::vector<std::string> names;
    for (const auto &entry : fs::directory_iterator(folder))
      if (entry.path().filename() != "in")
        names.push_back(entry.path().filename());
    return names;
  }

  struct Stored {
    std::string name;
    StoredType type;
    std::vector<int64_t> shape;
    std::string data;
  };
  std::string folder;
  std::vector<Stored> stored;
  std::mt19937 rng{5};
  QuantizeOptions options;
  QuantizeResult result;
  Checkpoint checkpoint;
  std::optional<MappedCheckpoint> mapped;
};

constexpr const char *kQ = "model.layers.0.self_attn.q_proj";
std::string q(const char *leaf) { return std::string(kQ) + leaf; }

/// Ragged on both sides; many chunks (N2, N3, W1, W4).
TEST_F(QuantizeTest, BlocksAreThoseOfNumerics) {
  const int64_t n = 1300, k = 576;
  std::vector<float> w = random(n * k);
  std::fill_n(w.begin(), 128, 0.0f);
  addFloats(q(".weight"), {n, k}, w);
  ASSERT_EQ(run(), "ok");
  openOutput();
  ASSERT_EQ(describe(q(".weight")), "F8_E4M3 [1300, 576]");
  ASSERT_EQ(describe(q(".weight_scale_inv")), "F32 [11, 5]");
  std::vector<uint8_t> codes(n * k);
  std::vector<float> scales(11 * 5);
  quantizeBlocks(w, n, k, 128, 128, codes, scales);
  EXPECT_EQ(read<uint8_t>(q(".weight")), codes);
  EXPECT_EQ(read<float>(q(".weight_scale_inv")), scales);
  EXPECT_EQ(checkpoint.config["quantization_config"],
            json::parse(R"({"activation_scheme": "dynamic", "fmt": "e4m3",
                            "quant_method": "fp8",
                            "weight_block_size": [128, 128],
                            "modules_to_not_convert": ["lm_head"]})"));
}

TEST_F(QuantizeTest, ChannelsAndTensors) {
  const int64_t n = 700, k = 513;
  std::vector<float> w = random(n * k);
  addFloats(q(".weight"), {n, k}, w);
  options.to = QuantizeTo::Channel;
  ASSERT_EQ(run(), "ok");
  openOutput();
  ASSERT_EQ(describe(q(".weight_scale")), "F32 [700, 1]");
  std::vector<uint8_t> codes(n * k);
  std::vector<float> scales(n);
  quantizeBlocks(w, n, k, 1, k, codes, scales);
  EXPECT_EQ(read<uint8_t>(q(".weight")), codes);
  EXPECT_EQ(read<float>(q(".weight_scale")), scales);
  const json &config = checkpoint.config["quantization_config"];
  EXPECT_EQ(config["quant_method"], "compressed-tensors");
  EXPECT_EQ(config["config_groups"]["group_0"]["weights"]["strategy"],
            "channel");

  options.to = QuantizeTo::Tensor;
  options.output = folder + "/tensor";
  ASSERT_EQ(run(), "ok");
  openOutput();
  ASSERT_EQ(describe(q(".weight_scale")), "F32 []");
  scales.resize(1);
  quantizeBlocks(w, n, k, n, k, codes, scales);
  EXPECT_EQ(read<uint8_t>(q(".weight")), codes);
  EXPECT_EQ(read<float>(q(".weight_scale")), scales);
}

TEST_F(QuantizeTest, WhatStaysAsItIs) {
  for (const char *name :
       {"model.embed_tokens.weight", "lm_head.weight", "model.norm.weight",
        "model.layers.0.mlp.gate.weight",
        "model.layers.0.self_attn.indexer.weights_proj.weight",
        "model.layers.1.eh_proj.weight",
        "vision_tower.layers.0.self_attn.q_proj.weight"})
    addFloats(name, {4, 4}, random(16));
  addFloats("model.layers.0.mlp.experts.3.w1.weight", {4, 4}, random(16));
  addFloats("model.layers.0.mlp.experts.3.w3.weight", {4, 4}, random(16));
  addFloats(q(".bias"), {4}, random(4));
  addFloats(q(".weight"), {4, 4}, random(16));
  ASSERT_EQ(run(), "ok");
  EXPECT_EQ(result.quantised, 3);
  EXPECT_EQ(result.kept, 8);
  openOutput();
  for (const Stored &s : stored)
    if (describe(s.name).starts_with("F32"))
      EXPECT_EQ(read<char>(s.name),
                std::vector<char>(s.data.begin(), s.data.end()));
  EXPECT_EQ(describe("model.layers.0.mlp.gate.weight"), "F32 [4, 4]");
  EXPECT_EQ(checkpoint.config["quantization_config"]["modules_to_not_convert"],
            json::parse(R"(["lm_head", "model.layers.0.mlp.gate",
                      "model.layers.0.self_attn.indexer.weights_proj",
                      "model.layers.1.eh_proj"])"));
}

TEST_F(QuantizeTest, Ignore) {
  addFloats("model.layers.0.mlp.down_proj.weight", {4, 4}, random(16));
  addFloats("model.layers.0.mlp.gate_proj.weight", {4, 4}, random(16));
  addFloats("model.layers.0.mlp.up_proj.weight", {4, 4}, random(16));
  addFloats(q(".weight"), {4, 4}, random(16));
  options.ignore = {"mlp.gate_proj"};
  EXPECT_EQ(run(), "--ignore: 'model.layers.0.mlp.gate_proj' is ignored and "
                   "'model.layers.0.mlp.up_proj' is not; they are fused when "
                   "the model runs and are skipped together or not at all "
                   "[C8]");
  options.ignore = {"mlp.gate_proj", "re:.*up_proj", "lm_head", "mlp.gate"};
  ASSERT_EQ(run(), "ok");
  EXPECT_EQ(result.quantised, 2);
  EXPECT_EQ(result.warnings,
            std::vector<std::string>{"--ignore[3] 'mlp.gate' matches nothing "
                                     "[C7]"});
}

TEST_F(QuantizeTest, Shards) {
  for (int i = 0; i < 5; ++i)
    addFloats("model.layers." + std::to_string(i) + ".self_attn.q_proj.weight",
              {64, 64}, random(64 * 64));
  addFloats("model.embed_tokens.weight", {64, 64}, random(64 * 64));
  options.shardBytes = 9000;
  ASSERT_EQ(run(), "ok");
  // 16384 bytes alone; of 4100 bytes two fit.
  EXPECT_EQ(result.files, 4);
  openOutput();
  EXPECT_EQ(checkpoint.tensors.files.size(), 4u);
  EXPECT_EQ(checkpoint.tensors.all().size(), 11u);
  json index = json::parse(readText("out/model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 64 * 64 * 4 + 5 * (64 * 64 + 4));
  EXPECT_EQ(index["weight_map"]["model.embed_tokens.weight"],
            "model-00001-of-00004.safetensors");
  EXPECT_NE(readText("out/model-00001-of-00004.safetensors")
                .find(R"("__metadata__":{"format":"pt"})"),
            std::string::npos);
}

TEST_F(QuantizeTest, SidecarsAreCopied) {
  addFloats(q(".weight"), {4, 4}, random(16));
  writeText("in/tokenizer.json", "{}");
  writeText("in/generation_config.json", R"({"eos_token_id": 2})");
  ASSERT_EQ(run(), "ok");
  EXPECT_EQ(readText("out/tokenizer.json"), "{}");
  EXPECT_EQ(readText("out/generation_config.json"), R"({"eos_token_id": 2})");
}

TEST_F(QuantizeTest, QuantisedSources) {
  addFloats(q(".weight"), {4, 4}, random(16));
  const std::string hint =
      "; 'octet quantize' reads checkpoints in BF16, F16 or F32 and GGUF "
      "files, 'octet compile' reads this one as it is [C5]";
  writeText("in/config.json", R"({"quantization_config":
                                   {"quant_method": "fp8"}})");
  EXPECT_EQ(run(), "in: is quantised already by 'fp8'" + hint);
  writeText("in/config.json", "{}");
  add("x", StoredType::F8_E4M3, {1}, "a");
  EXPECT_EQ(run(),
            "in: is quantised already: tensor 'x' is F8_E4M3 [1]" + hint);
  EXPECT_TRUE(leftOver().empty());
}

TEST_F(QuantizeTest, WeightsThatNoScaleHolds) {
  std::vector<float> w = random(300 * 300);
  w[299 * 300 + 7] = INFINITY;
  w[200 * 300 + 3] = NAN;
  addFloats(q(".weight"), {300, 300}, w);
  for (QuantizeTo to :
       {QuantizeTo::Block, QuantizeTo::Channel, QuantizeTo::Tensor}) {
    options.to = to;
    EXPECT_EQ(run(), "in/model.safetensors: tensor "
                     "'model.layers.0.self_attn.q_proj.weight': element [200, "
                     "3] is NaN or infinite; a weight to quantise is finite "
                     "[N3]");
    EXPECT_TRUE(leftOver().empty());
  }
}

TEST_F(QuantizeTest, Refusals) {
  EXPECT_EQ(run(), "in: has no weight of a linear to quantise: two sides, in "
                   "a layer, named *_proj.weight");
  add(q(".weight"), StoredType::I8, {2, 2}, "abcd");
  EXPECT_EQ(run(), "tensor 'model.layers.0.self_attn.q_proj.weight': is I8 "
                   "[2, 2]; a weight to quantise is BF16, F16, F32, F64 or a "
                   "packed type of GGUF");
  stored.clear();
  addFloats(q(".weight"), {4, 4}, random(16));
  addFloats(q(".weight_scale_inv"), {1, 1}, {1});
  EXPECT_EQ(run(), "in: has 'model.layers.0.self_attn.q_proj.weight_scale_inv' "
                   "beside 'model.layers.0.self_attn.q_proj.weight': is "
                   "quantised already [C5]");
  stored.pop_back();
  writeText("out", "");
  EXPECT_EQ(run(), "out: is there and no folder; the output is a new or an "
                   "empty folder");
  fs::remove(folder + "/out");
  fs::create_directories(folder + "/out/x");
  EXPECT_EQ(run(), "out: is a folder with something in it; the output is a new "
                   "or an empty folder");
  fs::remove(folder + "/out/x");
  options.output += "/";
  EXPECT_EQ(run(), "ok");
}

TEST_F(QuantizeTest, InterruptionLeavesNothing) {
  addFloats(q(".weight"), {400, 400}, random(400 * 400));
  addFloats("model.layers.1.self_attn.q_proj.weight", {400, 400},
            random(400 * 400));
  volatile std::sig_atomic_t stop = 0;
  int calls = 0;
  options.interrupted = &stop;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 2 * 400 * 400 * 4);
    EXPECT_LT(done, total);
    EXPECT_EQ(leftOver().size(), 1u); // the folder being written
    ++calls;
    stop = 1;
  };
  EXPECT_EQ(run(), "out: interrupted; nothing is left behind");
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(leftOver().empty());
}

TEST_F(QuantizeTest, FileThatIsTruncatedMeanwhile) {
  addFloats(q(".weight"), {400, 400}, random(400 * 400));
  addFloats("model.layers.1.self_attn.q_proj.weight", {400, 400},
            random(400 * 400));
  options.progress = [&](int64_t, int64_t) {
    installBusErrorHandler(OnTruncation::Remember);
    fs::resize_file(folder + "/in/model.safetensors", 4096);
  };
  EXPECT_EQ(run(), "in/model.safetensors: was truncated or changed while the "
                   "program read it");
  EXPECT_TRUE(leftOver().empty());
}

TEST(QuantizeOptionsTest, Block) {
  QuantizeOptions options;
  EXPECT_TRUE(parseBlock("32x64", options).ok());
  EXPECT_EQ(options.blockN, 32);
  EXPECT_EQ(options.blockK, 64);
  for (const char *bad : {"", "128", "x128", "128x", "0x1", "1x2x3", "-1x1",
                          "128 x128", "9999999x1"})
    EXPECT_EQ(parseBlock(bad, options).info().kind, ErrorKind::Usage) << bad;
}

} // namespace
