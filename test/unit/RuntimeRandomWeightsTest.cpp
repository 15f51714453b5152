//===- RuntimeRandomWeightsTest.cpp - A shape without a checkpoint --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include "runtime/core/RandomWeights.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace octet;
using namespace octet::rt;

namespace {
/// Linears as checkpoints name them, one with a ragged row, and a norm.
const std::vector<ProgramTensor> kTensors = {
    {"model.layers.0.mlp.up_proj.weight", StoredType::F8_E4M3, {301, 1023}},
    {"model.layers.0.mlp.up_proj.weight_scale_inv", StoredType::F32, {3, 8}},
    {"model.layers.0.mlp.up_proj.input_scale", StoredType::F32, {}},
    {"model.layers.0.mlp.down_proj.weight", StoredType::BF16, {64, 4096}},
    {"model.layers.0.mlp.gate_proj.weight", StoredType::F16, {64, 1024}},
    {"model.layers.0.self_attn.q_proj.bias", StoredType::BF16, {4096}},
    {"model.layers.0.self_attn.q_norm.weight", StoredType::BF16, {64}},
    {"model.layers.0.input_layernorm.weight", StoredType::F32, {33}},
    {"packed.qweight", StoredType::I32, {5, 7}},
    {"shape", StoredType::I64, {2}},
};

class RandomWeightsTest : public ::testing::Test {
protected:
  static RandomWeights draw(int threads,
                            std::span<const ProgramTensor> tensors = kTensors) {
    ThreadPool pool(threads);
    auto weights = RandomWeights::draw(tensors, pool, "--weights random");
    EXPECT_TRUE(weights.ok()) << weights.status().info().format();
    return weights.take();
  }

  static std::vector<float> values(const RandomWeights &weights,
                                   std::string_view name) {
    const TensorInfo *tensor = weights.table().find(name);
    EXPECT_TRUE(tensor) << name;
    const std::byte *data = weights.bytes(*tensor).data();
    const size_t width = size_t(byteWidth(tensor->type));
    std::vector<float> result(size_t(tensor->bytes) / width);
    for (size_t i = 0; i < result.size(); ++i, data += width) {
      uint32_t bits = 0;
      std::memcpy(&bits, data, width);
      result[i] = tensor->type == StoredType::BF16  ? decodeBF16(uint16_t(bits))
                  : tensor->type == StoredType::F16 ? decodeF16(uint16_t(bits))
                  : tensor->type == StoredType::F8_E4M3
                      ? decodeE4M3(uint8_t(bits))
                      : std::bit_cast<float>(bits);
    }
    return result;
  }

  /// Root mean square; NaN if a value is.
  static double size(const std::vector<float> &values) {
    double sum = 0;
    for (float v : values)
      sum += double(v) * v;
    return std::sqrt(sum / double(values.size()));
  }
};
} // namespace

// The sampling error of a root mean square of n values is 1 / sqrt(2 n); four
// of them and, for FP8, the 2^-4 of N5 on top.
TEST_F(RandomWeightsTest, ProductsKeepTheSizeOfTheirInput) {
  RandomWeights weights = draw(2);
  auto expectSize = [&](const char *name, double wanted, double rounding) {
    std::vector<float> v = values(weights, name);
    const double tolerance = 4 / std::sqrt(2.0 * double(v.size())) + rounding;
    EXPECT_NEAR(size(v) / wanted, 1, tolerance) << name;
  };
  expectSize("model.layers.0.mlp.down_proj.weight", 1 / 64.0, 0.004);
  expectSize("model.layers.0.mlp.gate_proj.weight", 1 / 32.0, 0.001);
  expectSize("model.layers.0.mlp.up_proj.weight", 32, 1 / 16.0);
  expectSize("model.layers.0.self_attn.q_proj.bias", 0.02, 0.004);
  for (float v : values(weights, "model.layers.0.mlp.up_proj.weight"))
    ASSERT_LE(std::abs(v), 448) << "an E4M3 code that saturates or is NaN (N1)";
}

// Blocks as a GGUF file packs them: of the same size, around 0.
TEST_F(RandomWeightsTest, PackedMatricesKeepTheSizeOfTheirInput) {
  std::vector<ProgramTensor> tensors;
  for (Packing packing : {Packing::Q8_0, Packing::Q4_0, Packing::Q4_1})
    tensors.push_back({std::string(packingName(packing)),
                       StoredType::F32,
                       {64, 1024},
                       packing});
  RandomWeights weights = draw(2, tensors), again = draw(3, tensors);
  for (const TensorInfo &tensor : weights.table().all()) {
    auto bytes = weights.bytes(tensor);
    EXPECT_TRUE(std::ranges::equal(bytes, again.bytes(tensor)));
    std::vector<float> v(64 * 1024);
    ASSERT_EQ(bytes.size(),
              v.size() / 32 * size_t(packedBlockBytes(tensor.packing)));
    unpackBlocks(tensor.packing, bytes, v);
    // Sampling, and the scale's own rounding to F16 (2^-11).
    EXPECT_NEAR(size(v) * 32, 1, 4 / std::sqrt(2.0 * 64 * 1024) + 0.001)
        << tensor.name;
    double sum = 0;
    for (float value : v)
      sum += value;
    // Q8_0 and Q4_0 have one code more below 0 than above.
    EXPECT_LT(std::fabs(sum / (64 * 1024)) * 32, 0.15) << tensor.name;
    EXPECT_NE(v[0], v[32]);
  }
}

TEST_F(RandomWeightsTest, W6ScalesArePositiveAndDiffer) {
  RandomWeights weights = draw(1);
  std::vector<float> scales =
      values(weights, "model.layers.0.mlp.up_proj.weight_scale_inv");
  const float largest = float(1 / (32 * std::sqrt(1023.0)));
  for (float s : scales) {
    EXPECT_GE(s, largest / 2);
    EXPECT_LE(s, largest);
  }
  EXPECT_NE(scales[0], scales[1]);
  EXPECT_EQ(values(weights, "model.layers.0.mlp.up_proj.input_scale"),
            std::vector<float>{0.02f});
}

TEST_F(RandomWeightsTest, NormsAreOneAndIntegersAreSet) {
  RandomWeights weights = draw(1);
  for (const char *name : {"model.layers.0.input_layernorm.weight",
                           "model.layers.0.self_attn.q_norm.weight"})
    for (float v : values(weights, name))
      EXPECT_EQ(v, 1) << name;
  auto bytes = [&](const char *name) {
    return weights.bytes(*weights.table().find(name));
  };
  EXPECT_TRUE(std::ranges::any_of(bytes("packed.qweight").last(4),
                                  [](std::byte b) { return b != std::byte(); }))
      << "the ragged end of the words was not drawn";
  for (std::byte b : bytes("shape"))
    EXPECT_EQ(b, std::byte());
}

TEST_F(RandomWeightsTest, ThreadsDoNotMatter) {
  RandomWeights one = draw(1), three = draw(3);
  for (const TensorInfo &tensor : one.table().all())
    EXPECT_TRUE(std::ranges::equal(one.bytes(tensor), three.bytes(tensor)))
        << tensor.name;
  // Neighbours in the table are not copies of each other.
  std::vector<ProgramTensor> twins = {{"a", StoredType::F32, {8, 8}},
                                      {"b", StoredType::F32, {8, 8}}};
  RandomWeights two = draw(1, twins);
  EXPECT_NE(values(two, "a"), values(two, "b"));
}

TEST_F(RandomWeightsTest, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  auto error = [&](std::vector<ProgramTensor> tensors) {
    auto weights = RandomWeights::draw(tensors, pool, "--weights random");
    EXPECT_FALSE(weights.ok());
    return weights.ok() ? "" : weights.status().info().format();
  };
  EXPECT_NE(error({{"a", StoredType::F32, {int64_t(1) << 50}}})
                .find("random weights of this shape take 4503599627370496 "
                      "bytes of memory, this machine has "),
            std::string::npos);
  EXPECT_NE(error({{"a", StoredType::F32, {int64_t(1) << 62}}})
                .find("more bytes than 64 bits can count"),
            std::string::npos);
  EXPECT_NE(error({{"a", StoredType::U8, {INT64_MAX - 100}},
                   {"b", StoredType::U8, {200}}})
                .find("error: "),
            std::string::npos);
  EXPECT_NE(error({{"a", StoredType::F32, {1}}, {"a", StoredType::F32, {2}}})
                .find("tensor 'a' is both F32 [1] and F32 [2]"),
            std::string::npos);
}

TEST_F(RandomWeightsTest, W15_ATensorThatIsLoadedTwiceIsDrawnOnce) {
  ThreadPool pool(1);
  const ProgramTensor tied{"a", StoredType::F32, {8}};
  auto weights =
      RandomWeights::draw(std::vector{tied, tied}, pool, "--weights random");
  ASSERT_TRUE(weights.ok());
  EXPECT_EQ(weights->table().tensors.size(), 1u);
}
