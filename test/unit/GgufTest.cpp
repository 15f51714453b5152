//===- GgufTest.cpp - Hostile and good GGUF files -------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Checkpoint/Gguf.h"
#include "octet/Checkpoint/TensorReader.h"
#include "octet/Numerics/Numerics.h"
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <random>
#include <unistd.h>

using namespace octet;
namespace fs = std::filesystem;

namespace {

/// The bytes of a GGUF header, piece by piece.
class Bytes {
public:
  Bytes &u8(uint8_t x) { return number(x); }
  Bytes &u32(uint32_t x) { return number(x); }
  Bytes &u64(uint64_t x) { return number(x); }
  Bytes &f32(float x) { return number(x); }
  Bytes &raw(std::string_view x) {
    data += x;
    return *this;
  }
  Bytes &text(std::string_view x) { return u64(x.size()).raw(x); }
  Bytes &magic(uint64_t tensors, uint64_t entries, uint32_t version = 3) {
    return raw("GGUF").u32(version).u64(tensors).u64(entries);
  }
  Bytes &integer(std::string_view key, uint32_t x) {
    return text(key).u32(4).u32(x);
  }
  Bytes &number(std::string_view key, float x) {
    return text(key).u32(6).f32(x);
  }
  Bytes &string(std::string_view key, std::string_view x) {
    return text(key).u32(8).text(x);
  }
  Bytes &tensor(std::string_view name, std::vector<uint64_t> sides,
                uint32_t type, uint64_t offset) {
    text(name).u32(uint32_t(sides.size()));
    for (uint64_t side : sides)
      u64(side);
    return u32(type).u64(offset);
  }
  /// Padding, then `count` bytes of data.
  Bytes &fill(size_t count, size_t alignment = 32) {
    data.resize((data.size() + alignment - 1) / alignment * alignment + count);
    return *this;
  }
  std::string data;

private:
  template <typename T>
  Bytes &number(T x) {
    data.append(reinterpret_cast<const char *>(&x), sizeof x);
    return *this;
  }
};

class GgufTest : public testing::Test {
protected:
  GgufTest() {
    std::string pattern = testing::TempDir() + "octet-gguf-XXXXXX";
    folder = ::mkdtemp(pattern.data());
    file = folder + "/x.gguf";
  }
  ~GgufTest() override { fs::remove_all(folder); }

  void write(std::string_view data) const {
    std::ofstream(file, std::ios::binary) << data;
  }
  /// The error after "error: FILE: ", or "ok".
  template <typename T>
  std::string textOf(const Result<T> &result) const {
    if (result.ok())
      return "ok";
    std::string text = result.status().info().format();
    std::string begin = "error: " + file + ": ";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    return text.substr(begin.size(), text.find('\n') - begin.size());
  }
  std::string read(const Bytes &bytes) const {
    write(bytes.data);
    return textOf(readGguf(file));
  }
  std::string open(const Bytes &bytes) const {
    write(bytes.data);
    return textOf(openGguf(file));
  }

  std::string folder, file;
};

/// The metadata of the smallest llama; `entries` more follow.
Bytes llama(uint64_t tensors, uint64_t entries) {
  Bytes b;
  b.magic(tensors, 8 + entries)
      .string("general.architecture", "llama")
      .integer("llama.block_count", 1)
      .integer("llama.context_length", 64)
      .integer("llama.embedding_length", 8)
      .integer("llama.feed_forward_length", 8)
      .integer("llama.attention.head_count", 2)
      .number("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .number("llama.rope.freq_base", 500000.0f);
  return b;
}

TEST_F(GgufTest, NoGguf) {
  EXPECT_EQ(read(Bytes().raw("GGUF")),
            "is 4 bytes; a GGUF file has at least 24");
  EXPECT_EQ(read(Bytes().raw("GGML").fill(32)),
            "is no GGUF file: it begins with 'GGML'");
  EXPECT_EQ(read(Bytes().magic(0, 0, 1)),
            "is GGUF version 1; versions 2 and 3 are read");
  EXPECT_EQ(read(Bytes().magic(0, 0, 3 << 24)),
            "is a big-endian GGUF file; only little-endian ones are read");
  EXPECT_EQ(read(Bytes().magic(0, 0, 2)), "ok");
}

TEST_F(GgufTest, CountsAreBounded) {
  EXPECT_EQ(read(Bytes().magic(~0ull, 0)),
            "the number of tensors is 18446744073709551615, over the limit of "
            "1048576");
  EXPECT_EQ(read(Bytes().magic(1000, 0)),
            "the number of tensors is 1000, more than the 8 bytes after it can "
            "hold");
  EXPECT_EQ(read(Bytes().magic(0, 65537)),
            "the number of metadata entries is 65537, over the limit of 65536");
  EXPECT_EQ(read(Bytes().magic(0, 1).u64(1ull << 40).u64(0)),
            "the length of a metadata key is 1099511627776, over the limit of "
            "65536");
  EXPECT_EQ(read(Bytes().magic(0, 1).text("k").u32(8).u64(50).raw("abc")),
            "metadata key 'k': the length of its text is 50, more than the 3 "
            "bytes after it can hold");
  EXPECT_EQ(read(Bytes().magic(0, 1).text("k").u32(9).u32(4).u64(~0ull)),
            "metadata key 'k': the length of its list is 18446744073709551615, "
            "over the limit of 8388608");
  EXPECT_EQ(
      read(Bytes().magic(0, 1).text("k").u32(9).u32(8).u64(3).u64(0).u64(0)),
      "metadata key 'k': the length of its list is 3, more than the 16 bytes "
      "after it can hold");
}

TEST_F(GgufTest, Values) {
  Bytes b;
  b.magic(0, 5)
      .text("u64")
      .u32(10)
      .u64(5)
      .text("i8")
      .u32(1)
      .u8(0xFF)
      .text("yes")
      .u32(7)
      .u8(1)
      .number("eps", 1e-5f)
      .text("nested")
      .u32(9)
      .u32(9)
      .u64(1)
      .u32(4)
      .u64(1)
      .u32(7);
  ASSERT_EQ(read(b), "ok");
  std::shared_ptr<const GgufMetadata> m = readGguf(file).take().metadata;
  EXPECT_EQ(**m->findInteger("u64"), 5);
  EXPECT_EQ(**m->findInteger("i8"), -1);
  EXPECT_EQ(**m->findBool("yes"), true);
  EXPECT_EQ(**m->findNumber("eps"), 1e-05); // the shortest decimal
  EXPECT_EQ(*m->findInteger("absent"), std::nullopt);
  EXPECT_EQ(textOf(m->findInteger("eps")),
            "metadata key 'eps': is a number; it must be an integer");
  EXPECT_EQ(textOf(m->findStrings("nested")),
            "metadata key 'nested': is a list of lists; it must be a list of "
            "texts");

  EXPECT_EQ(read(Bytes().magic(0, 1).text("k").u32(13)),
            "metadata key 'k': its value has the unknown type 13");
  EXPECT_EQ(read(Bytes().magic(0, 1).text("k").u32(10).u64(~0ull)),
            "metadata key 'k': its value 18446744073709551615 is above 2^63 - "
            "1");
  EXPECT_EQ(read(Bytes().magic(0, 1).text("k").u32(7).u8(2)),
            "metadata key 'k': its value is the boolean 2; one is 0 or 1");
  EXPECT_EQ(read(Bytes().magic(0, 2).integer("k", 1).integer("k", 1)),
            "metadata key 'k': is there twice");
  Bytes deep;
  deep.magic(0, 1).text("k").u32(9);
  for (int i = 0; i < 5; ++i)
    deep.u32(9).u64(1);
  EXPECT_EQ(read(deep.u32(4).u64(0)),
            "metadata key 'k': its lists nest deeper than 4 levels");
}

TEST_F(GgufTest, Truncated) {
  Bytes good = llama(1, 0).tensor("token_embd.weight", {8, 4}, 0, 0).fill(128);
  ASSERT_EQ(open(good), "ok");
  // Whatever is cut off, there is one error and no crash.
  for (size_t size = 0; size < good.data.size(); ++size) {
    write(std::string_view(good.data).substr(0, size));
    EXPECT_NE(textOf(openGguf(file)), "ok") << size;
  }
}

TEST_F(GgufTest, FlippedBytes) {
  Bytes good = llama(2, 1)
                   .integer("general.alignment", 32)
                   .tensor("token_embd.weight", {8, 4}, 0, 0)
                   .tensor("blk.0.attn_q.weight", {32, 8}, 2, 128)
                   .fill(128 + 8 * 18);
  ASSERT_EQ(open(good), "ok");
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string data = good.data;
    for (int flips = 1 + int(random() % 3); flips; --flips)
      data[random() % data.size()] = char(random());
    write(data);
    Result<Checkpoint> result = openGguf(file);
    if (!result.ok())
      EXPECT_EQ(result.status().info().kind, ErrorKind::Input);
  }
}

TEST_F(GgufTest, Tensors) {
  auto one = [&](std::vector<uint64_t> sides, uint32_t type, uint64_t offset,
                 size_t bytes) {
    return read(
        Bytes().magic(1, 0).tensor("t", sides, type, offset).fill(bytes));
  };
  EXPECT_EQ(one({64, 2}, 2, 0, 72), "ok");
  EXPECT_EQ(one({64, 2}, 2, 0, 71),
            "tensor 't': Q4_0 [2, 64] of 72 bytes at offset 0 ends beyond the "
            "71 bytes of data");
  EXPECT_EQ(one({48}, 8, 0, 100),
            "tensor 't': Q8_0 [48] has rows of 48, not a multiple of the block "
            "of 32");
  EXPECT_EQ(one({128}, 12, 0, 1000),
            "tensor 't': Q4_K [128] has rows of 128, not a multiple of the "
            "block of 256");
  EXPECT_EQ(one({256}, 10, 0, 1000),
            "tensor 't': has type Q2_K, which is not read; F32, F16, Q4_0, "
            "Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K, BF16 are");
  EXPECT_EQ(one({256}, 77, 0, 1000),
            "tensor 't': has the unknown type 77; F32, F16, Q4_0, Q4_1, Q5_0, "
            "Q5_1, Q8_0, Q4_K, Q6_K, BF16 are read");
  EXPECT_EQ(one({1, 1, 1, 1, 1}, 0, 0, 4),
            "tensor 't': has 5 sides; at most 4 are allowed");
  EXPECT_EQ(one({0}, 0, 0, 4),
            "tensor 't': side 0 is 0; a side is 1 to 2^63 - 1");
  EXPECT_EQ(one({1ull << 32, 1ull << 32}, 0, 0, 4),
            "tensor 't': F32 [4294967296, 4294967296] is more than 2^63 - 1 "
            "bytes");
  EXPECT_EQ(one({4}, 0, 8, 64),
            "tensor 't': its offset 8 is not a multiple of the alignment 32");
  EXPECT_EQ(one({4}, 0, 1ull << 63, 64).substr(0, 45),
            "tensor 't': its offset 9223372036854775808 is");
  EXPECT_EQ(read(Bytes()
                     .magic(2, 0)
                     .tensor("a", {16}, 0, 0)
                     .tensor("b", {16}, 0, 32)
                     .fill(128)),
            "tensor 'b': overlaps 'a'");
  EXPECT_EQ(read(Bytes()
                     .magic(2, 0)
                     .tensor("a", {8}, 0, 0)
                     .tensor("a", {8}, 0, 32)
                     .fill(64)),
            "tensor 'a' is there twice");
  EXPECT_EQ(read(Bytes().magic(0, 1).integer("general.alignment", 24)),
            "metadata key 'general.alignment': is 24; a power of two up to "
            "1048576 is needed");
}

TEST_F(GgufTest, ConfigOfTheMetadata) {
  Bytes b = llama(3, 3);
  b.integer("llama.attention.head_count_kv", 1)
      .integer("tokenizer.ggml.bos_token_id", 1)
      .integer("tokenizer.ggml.eos_token_id", 2)
      .tensor("token_embd.weight", {8, 4}, 0, 0)
      .tensor("blk.0.attn_q.weight", {8, 8}, 0, 128)
      .tensor("something.else", {8}, 0, 384)
      .fill(512);
  ASSERT_EQ(open(b), "ok");
  Checkpoint checkpoint = openGguf(file).take();
  EXPECT_EQ(checkpoint.config, nlohmann::json::parse(R"({
              "architectures": ["LlamaForCausalLM"], "model_type": "llama",
              "torch_dtype": "bfloat16", "hidden_act": "silu",
              "num_hidden_layers": 1, "hidden_size": 8, "intermediate_size": 8,
              "max_position_embeddings": 64, "num_attention_heads": 2,
              "num_key_value_heads": 1, "head_dim": 4, "rms_norm_eps": 1e-05,
              "rope_theta": 500000.0, "rope_scaling": null, "vocab_size": 4,
              "tie_word_embeddings": true, "attention_bias": false,
              "mlp_bias": false, "bos_token_id": 1, "eos_token_id": 2})"));
  EXPECT_EQ(checkpoint.generationConfig,
            nlohmann::json::parse(R"({"bos_token_id": 1, "eos_token_id": 2})"));
  const TensorTable &table = checkpoint.tensors;
  EXPECT_NE(table.find("model.embed_tokens.weight"), nullptr);
  EXPECT_NE(table.find("something.else"), nullptr); // W14: somebody says so
  const TensorInfo *q = table.find("model.layers.0.self_attn.q_proj.weight");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->headRows, 4); // W16
  EXPECT_FALSE(checkpoint.hasTokenizer);
}

TEST_F(GgufTest, ConfigRefusals) {
  EXPECT_EQ(open(Bytes().magic(0, 0)),
            "has no metadata key 'general.architecture'");
  EXPECT_EQ(open(Bytes().magic(0, 1).string("general.architecture", "bert")),
            "metadata key 'general.architecture': is 'bert'; GGUF files of "
            "llama, qwen2, qwen3 are read");
  EXPECT_EQ(open(Bytes().magic(0, 1).string("general.architecture", "llama")),
            "has no metadata key 'llama.block_count'");
  EXPECT_EQ(open(llama(0, 0)), "has no tensor 'token_embd.weight'");
  EXPECT_EQ(open(llama(0, 1).integer("llama.expert_count", 8)),
            "metadata key 'llama.expert_count': is 8; GGUF files of mixtures "
            "of experts are not read");
  EXPECT_EQ(open(llama(0, 1).string("llama.rope.scaling.type", "longrope")),
            "metadata key 'llama.rope.scaling.type': is 'longrope'; none, "
            "linear and yarn are read");
  EXPECT_EQ(open(llama(0, 1).integer("llama.attention.key_length", 0)),
            "metadata key 'llama.attention.key_length': is 0; 1 to 2^31 - 1 is "
            "needed");
  EXPECT_EQ(
      open(llama(1, 0).tensor("blk.0.attn_q.weight", {8, 6}, 0, 0).fill(192)),
      "tensor 'blk.0.attn_q.weight': F32 [6, 8] is not made of heads of "
      "4 rows [W16]");
  EXPECT_EQ(open(llama(1, 0).tensor("rope_freqs.weight", {3}, 0, 0).fill(12)),
            "tensor 'rope_freqs.weight': is F32 [3]; F32 [2] is needed for "
            "heads of 4");
}

/// A table of rope factors is what Llama 3.1's config says, or refused.
TEST_F(GgufTest, RopeFactors) {
  auto withFactors = [](std::vector<float> factors) {
    Bytes b = llama(2, 0)
                  .tensor("token_embd.weight", {8, 4}, 0, 0)
                  .tensor("rope_freqs.weight", {2}, 0, 128)
                  .fill(128);
    for (float factor : factors)
      b.f32(factor);
    return b;
  };
  // Wavelengths 2 pi and 2 pi sqrt(500000) = 4443 of theta 500000, 4 sides.
  double smooth = (8192 / (2 * M_PI * std::sqrt(500000.0)) - 1) / 3;
  float second = float(1 / ((1 - smooth) / 8 + smooth));
  EXPECT_EQ(open(withFactors({1, second})).substr(0, 48),
            "tensor 'rope_freqs.weight': factor 1 is " +
                std::to_string(second).substr(0, 8));
  ASSERT_EQ(open(withFactors({1, 1})), "ok");
  EXPECT_TRUE(openGguf(file).take().config["rope_scaling"].is_null());
}

TEST_F(GgufTest, Tokenizer) {
  auto tokens = [](std::vector<std::string> names) {
    Bytes b;
    b.text("tokenizer.ggml.tokens").u32(9).u32(8).u64(names.size());
    for (const std::string &name : names)
      b.text(name);
    return b;
  };
  auto readTokenizer = [&](const Bytes &entries, uint64_t count) {
    write(Bytes().magic(0, count).raw(entries.data).data);
    return readGgufTokenizer(*readGguf(file).take().metadata);
  };
  Result<std::optional<GgufTokenizer>> none = readTokenizer(Bytes(), 0);
  EXPECT_FALSE(none.take().has_value());
  Result<std::optional<GgufTokenizer>> good = readTokenizer(
      tokens({"a", "b"}).integer("tokenizer.ggml.eos_token_id", 1), 2);
  EXPECT_EQ((**good).eos, 1);
  EXPECT_EQ((**good).tokens, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(textOf(readTokenizer(
                tokens({"a"}).integer("tokenizer.ggml.eos_token_id", 1), 2)),
            "metadata key 'tokenizer.ggml.eos_token_id': is 1; there are 1 "
            "tokens");
  EXPECT_EQ(textOf(readTokenizer(tokens({"a", "\xFF"}), 1)),
            "metadata key 'tokenizer.ggml.tokens': token 1 '\\xff' is no "
            "UTF-8");
  Bytes types = tokens({"a", "b"});
  types.text("tokenizer.ggml.token_type").u32(9).u32(5).u64(1).u32(1);
  EXPECT_EQ(textOf(readTokenizer(types, 2)),
            "metadata key 'tokenizer.ggml.token_type': has 1 elements for 2 "
            "tokens");
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

std::vector<float> unpack(Packing packing, std::string_view bytes) {
  std::vector<float> out(size_t(packedBlockElements(packing)), -1000.0f);
  unpackBlocks(packing, std::as_bytes(std::span(bytes)), out);
  return out;
}

std::string half(float x) {
  uint16_t bits = encodeF16(x);
  return {char(bits & 0xFF), char(bits >> 8)};
}

TEST(GgufBlocks, NibblesOfBothHalves) {
  std::string codes;
  for (int i = 0; i < 16; ++i)
    codes += char(i | (15 - i) << 4);
  std::vector<float> q40 = unpack(Packing::Q4_0, half(0.5f) + codes);
  std::vector<float> q41 = unpack(Packing::Q4_1, half(0.5f) + half(-3) + codes);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(q40[i], 0.5f * float(i - 8));
    EXPECT_EQ(q40[i + 16], 0.5f * float(7 - i));
    EXPECT_EQ(q41[i], 0.5f * float(i) - 3);
    EXPECT_EQ(q41[i + 16], 0.5f * float(15 - i) - 3);
  }
}

TEST(GgufBlocks, FifthBits) {
  std::string codes(16, '\x21'); // low 1, high 2
  std::string bits = {'\x01', '\x00', '\x00', '\x80'};
  std::vector<float> q50 = unpack(Packing::Q5_0, half(1) + bits + codes);
  std::vector<float> q51 =
      unpack(Packing::Q5_1, half(1) + half(0.25f) + bits + codes);
  for (int i = 0; i < 32; ++i) {
    float code = (i < 16 ? 1 : 2) + (i == 0 || i == 31 ? 16 : 0);
    EXPECT_EQ(q50[i], code - 16) << i;
    EXPECT_EQ(q51[i], code + 0.25f) << i;
  }
}

TEST(GgufBlocks, EightBits) {
  std::string codes;
  for (int i = 0; i < 32; ++i)
    codes += char(i * 8 - 128);
  std::vector<float> out = unpack(Packing::Q8_0, half(2) + codes);
  for (int i = 0; i < 32; ++i)
    EXPECT_EQ(out[i], 2.0f * float(i * 8 - 128));
}

TEST(GgufBlocks, ScalesOfSixBits) {
  // Scales 1, 2, 3, 4, 33, 34, 35, 36, minima 9, 10, 11, 12, 41, 42, 43, 44.
  std::string packed;
  for (int i = 0; i < 4; ++i)
    packed += char((1 + i) | 2 << 6);
  for (int i = 0; i < 4; ++i)
    packed += char((9 + i) | 2 << 6);
  for (int i = 0; i < 4; ++i)
    packed += char((1 + i) | (9 + i) << 4);
  std::vector<float> out = unpack(Packing::Q4_K, half(1) + half(1) + packed +
                                                     std::string(128, '\x73'));
  for (int i = 0; i < 256; ++i) {
    int j = i / 32;
    int scale = j < 4 ? 1 + j : 33 + j - 4, minimum = scale + 8;
    EXPECT_EQ(out[i], float(scale * (j % 2 ? 7 : 3) - minimum)) << i;
  }
}

TEST(GgufBlocks, SixBitCodes) {
  std::string scales;
  for (int i = 0; i < 16; ++i)
    scales += char(i - 8);
  // Low nibbles 5 and 6, high bits 0, 1, 2, 3 of the runs.
  std::vector<float> out =
      unpack(Packing::Q6_K, std::string(128, '\x65') + std::string(64, '\xE4') +
                                scales + half(0.5f));
  for (int i = 0; i < 256; ++i) {
    int run = i / 32 % 4;
    int code = (run < 2 ? 5 : 6) + 16 * run - 32;
    EXPECT_EQ(out[i], 0.5f * float(i / 16 - 8) * float(code)) << i;
  }
}

/// The file's rows 0 1 2 3 of a head are rows 0 2 1 3 (W16).
TEST_F(GgufTest, RowsOfHeads) {
  Bytes b = llama(3, 0);
  b.tensor("token_embd.weight", {8, 4}, 0, 0)
      .tensor("blk.0.attn_q.weight", {8, 8}, 0, 128)
      .tensor("blk.0.attn_q.bias", {8}, 1, 384)
      .fill(128);
  for (int i = 0; i < 64; ++i)
    b.f32(float(i));
  for (int i = 0; i < 8; ++i)
    b.raw(half(float(i)));
  ASSERT_EQ(open(b), "ok");
  Checkpoint checkpoint = openGguf(file).take();
  MappedCheckpoint mapped = MappedCheckpoint::map(checkpoint.tensors).take();
  const std::string at = "model.layers.0.self_attn.q_proj.";
  TensorReader weight(mapped, *checkpoint.tensors.find(at + "weight"));
  TensorReader bias(mapped, *checkpoint.tensors.find(at + "bias"));
  ASSERT_EQ(weight.rows(), 8);
  ASSERT_EQ(weight.cols(), 8);
  ASSERT_EQ(bias.rows(), 8);
  const int order[] = {0, 2, 1, 3, 4, 6, 5, 7};
  for (int row = 0; row < 8; ++row) {
    std::vector<float> floats(8);
    weight.readFloats(row, 1, floats);
    EXPECT_EQ(floats[0], float(order[row] * 8));
    EXPECT_EQ(floats[7], float(order[row] * 8 + 7));
    bias.readFloats(row, 1, floats);
    EXPECT_EQ(floats[0], float(order[row]));
  }
  std::vector<uint16_t> elements(8);
  bias.readElements(0, 8, std::as_writable_bytes(std::span(elements)));
  for (int row = 0; row < 8; ++row)
    EXPECT_EQ(elements[row], encodeF16(float(order[row])));
}

} // namespace
