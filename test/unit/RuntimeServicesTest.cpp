//===- RuntimeServicesTest.cpp - What a program may call ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The load services on a checkpoint of a few tensors. The arithmetic has tests
// of its own; here it is which tensor, which error, whose memory.
//
//===----------------------------------------------------------------------===//

#include "TempFolder.h"
#include "octet/Numerics/Numerics.h"
#include "runtime/core/Context.h"
#include "runtime/core/Services.h"
#include "runtime/cpu/Level.h"
#include "runtime/cpu/ThreadPool.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

using namespace octet;
using namespace octet::rt;
namespace fs = std::filesystem;

namespace {
class ServicesTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = octet::test::makeTempFolder();
    ASSERT_FALSE(folder.empty());
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Adds a row of the tensor table; returns its number.
  template <typename T>
  int64_t add(StoredType type, std::vector<int64_t> shape,
              std::vector<T> values) {
    std::vector<std::byte> data(values.size() * sizeof(T));
    std::memcpy(data.data(), values.data(), data.size());
    contents.push_back(std::move(data));
    tensors.push_back(
        {"t" + std::to_string(tensors.size()), type, std::move(shape), {}});
    return int64_t(tensors.size()) - 1;
  }

  /// Writes and maps what was added. With `shift`, all data lies at odd
  /// addresses, as behind a header of odd length.
  void open(bool shift = false) {
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i].data = contents[i];
    const std::string path = folder + "/model.safetensors";
    ASSERT_TRUE(writeSafetensors(path, tensors).ok());
    if (shift)
      shiftData(path);
    auto read = readSafetensors(path);
    ASSERT_TRUE(read.ok()) << read.status().info().format();
    table = read.take();
    auto map = MappedCheckpoint::map(table);
    ASSERT_TRUE(map.ok());
    mapped.emplace(map.take());
    ctx.runtime = cpuServices();
    ctx.level = detectLevel();
    ctx.pool = &pool;
    ctx.table = &table;
    ctx.mapped = &*mapped;
    for (const TensorToWrite &t : tensors)
      ctx.rows.push_back(table.find(t.name));
  }

  static void shiftData(const std::string &path) {
    FILE *f = std::fopen(path.c_str(), "rb");
    std::string bytes(fs::file_size(path), '\0');
    ASSERT_EQ(std::fread(bytes.data(), 1, bytes.size(), f), bytes.size());
    std::fclose(f);
    uint64_t header;
    std::memcpy(&header, bytes.data(), 8);
    bytes.insert(8 + header, " ");
    ++header;
    std::memcpy(bytes.data(), &header, 8);
    f = std::fopen(path.c_str(), "wb");
    ASSERT_EQ(std::fwrite(bytes.data(), 1, bytes.size(), f), bytes.size());
    std::fclose(f);
  }

  octet_tensor_desc desc(int64_t rows, int64_t cols, int32_t type) {
    octet_tensor_desc d{};
    d.module = "layers.{l}.m";
    d.rows = rows, d.cols = cols;
    d.type = type;
    d.scale_type = OCTET_F32;
    return d;
  }
  octet_weight load(const octet_tensor_desc &d, int64_t tensor,
                    int64_t scale = -1) {
    octet_weight w{};
    EXPECT_EQ(rt->load(&ctx, &d, tensor, scale, &w), 0);
    return w;
  }
  octet_weight scalar(int64_t tensor, int32_t type = OCTET_F32) {
    return load(desc(1, 1, type), tensor);
  }
  static float value(const octet_weight &w) {
    return *static_cast<const float *>(w.parts[0].data);
  }
  std::string message() const { return ctx.error ? ctx.error->message : ""; }

  std::string folder;
  std::vector<TensorToWrite> tensors;
  std::vector<std::vector<std::byte>> contents;
  TensorTable table;
  std::optional<MappedCheckpoint> mapped;
  ThreadPool pool{2};
  Context ctx{};
  const octet_runtime *rt = cpuServices();
};
} // namespace

TEST_F(ServicesTest, LoadPointsIntoTheMapping) {
  int64_t t = add<float>(StoredType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  open();
  octet_weight w = load(desc(2, 3, OCTET_F32), t);
  EXPECT_EQ(w.num_parts, 1);
  EXPECT_EQ(w.parts[0].rows, 2);
  EXPECT_EQ(w.parts[0].tensor, t);
  EXPECT_EQ(w.parts[0].scale_tensor, -1);
  EXPECT_EQ(w.parts[0].data, mapped->bytes(*ctx.rows[t]).data());
}

TEST_F(ServicesTest, LoadCopiesWhatIsNotAligned) {
  int64_t t = add<float>(StoredType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  open(/*shift=*/true);
  octet_weight w = load(desc(2, 3, OCTET_F32), t);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(w.parts[0].data) % 4, 0u);
  EXPECT_EQ(static_cast<const float *>(w.parts[0].data)[5], 6);
}

TEST_F(ServicesTest, LoadRefusesWhatTheTableDoesNotSay) {
  int64_t t = add<float>(StoredType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  open();
  octet_weight w;
  octet_tensor_desc d = desc(2, 4, OCTET_F32);
  EXPECT_NE(rt->load(&ctx, &d, t, -1, &w), 0);
  EXPECT_EQ(message(), "internal error: the program loads tensor 't0' (F32 "
                       "[2, 3]) as 8 elements of type 0");
  ctx.error.reset();
  d = desc(2, 3, OCTET_BF16);
  EXPECT_NE(rt->load(&ctx, &d, t, -1, &w), 0);
  ctx.error.reset();
  d = desc(2, 3, OCTET_F32);
  EXPECT_NE(rt->load(&ctx, &d, 7, -1, &w), 0);
  EXPECT_EQ(ctx.error->exitCode(), 3);
}

TEST_F(ServicesTest, W6NamesFileTensorAndElement) {
  std::vector<uint8_t> ones(256 * 3, 0x38);
  std::vector<float> scales{1, 2, 3, 4, NAN, 6};
  int64_t w = add<uint8_t>(StoredType::F8_E4M3, {256, 3}, ones);
  int64_t s = add<float>(StoredType::F32, {2, 3}, scales);
  scales[4] = 5;
  int64_t good = add<float>(StoredType::F32, {2, 3}, scales);
  scales[5] = -1;
  int64_t negative = add<float>(StoredType::F32, {2, 3}, scales);
  open();
  octet_tensor_desc d = desc(256, 3, OCTET_E4M3);
  d.scale_mode = OCTET_SCALE_BLOCK;
  d.block_n = 128;
  d.block_k = 1;
  octet_weight x = load(d, w, good);
  EXPECT_EQ(rt->check_scales(&ctx, &d, &x), 0);
  x = load(d, w, s);
  EXPECT_NE(rt->check_scales(&ctx, &d, &x), 0);
  EXPECT_EQ(ctx.error->format(),
            "error: " + folder +
                "/model.safetensors: tensor 't1': element [1, 1] is NaN; a "
                "scale is finite and positive [W6]\n");
  ctx.error.reset();
  x = load(d, w, negative);
  EXPECT_NE(rt->check_scales(&ctx, &d, &x), 0);
  EXPECT_NE(message().find("element [1, 2] is negative"), std::string::npos);
}

TEST_F(ServicesTest, W7ScalesConvertAndExpand) {
  int64_t w = add<uint8_t>(StoredType::F8_E4M3, {3, 2},
                           {0x38, 0x38, 0x38, 0x38, 0x38, 0x38});
  int64_t s = add<uint16_t>(StoredType::BF16, {1}, {encodeBF16(0.5f)});
  open();
  octet_tensor_desc d = desc(3, 2, OCTET_E4M3);
  d.scale_mode = OCTET_SCALE_TENSOR;
  d.scale_type = OCTET_BF16;
  octet_weight x = load(d, w, s), y{}, z{};
  ASSERT_EQ(rt->convert_scales(&ctx, &d, &x, &y), 0);
  EXPECT_EQ(*static_cast<const float *>(y.parts[0].scale), 0.5f);
  d.scale_type = OCTET_F32;
  ASSERT_EQ(rt->expand_scales(&ctx, &d, &y, &z), 0);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(static_cast<const float *>(z.parts[0].scale)[i], 0.5f);
  EXPECT_EQ(z.parts[0].data, x.parts[0].data);
}

TEST_F(ServicesTest, W10QuantizesPerChannel) {
  std::vector<float> values;
  for (int i = 0; i < 4 * 40; ++i)
    values.push_back(std::sin(float(i)) * float(1 + i / 40));
  std::fill(values.begin() + 80, values.begin() + 120, 0.0f);
  int64_t w = add<float>(StoredType::F32, {4, 40}, values);
  open();
  octet_tensor_desc d = desc(4, 40, OCTET_F32);
  octet_weight x = load(d, w), y{};
  d.scale_mode = OCTET_SCALE_CHANNEL;
  ASSERT_EQ(rt->quantize_weight(&ctx, &d, &x, &y), 0);
  std::vector<uint8_t> codes(4 * 40);
  std::vector<float> scales(4);
  quantizeRows(values, 4, 40, 40, /*ue8m0=*/false, codes, scales);
  EXPECT_EQ(std::memcmp(y.parts[0].data, codes.data(), codes.size()), 0);
  EXPECT_EQ(std::memcmp(y.parts[0].scale, scales.data(), 16), 0);
}

TEST_F(ServicesTest, W9LargestScalar) {
  int64_t a = add<float>(StoredType::F32, {}, {0.25f});
  int64_t b = add<float>(StoredType::F32, {1}, {0.75f});
  int64_t nan = add<float>(StoredType::F32, {}, {NAN});
  int64_t half = add<uint16_t>(StoredType::F16, {1}, {encodeF16(1.5f)});
  open();
  octet_weight wa = scalar(a), wb = scalar(b), wn = scalar(nan), out{};
  const octet_weight *two[] = {&wa, &wb}, *bad[] = {&wa, &wn};
  ASSERT_EQ(rt->max_scalar(&ctx, 2, two, OCTET_F32, &out), 0);
  EXPECT_EQ(value(out), 0.75f);
  octet_weight wh = scalar(half, OCTET_F16);
  const octet_weight *one[] = {&wh};
  ASSERT_EQ(rt->max_scalar(&ctx, 1, one, OCTET_F16, &out), 0);
  EXPECT_EQ(value(out), 1.5f);
  EXPECT_NE(rt->max_scalar(&ctx, 2, bad, OCTET_F32, &out), 0);
  EXPECT_EQ(ctx.error->rule, "W6");
  EXPECT_EQ(message(),
            "tensor 't2': it is nan; a scale is finite and positive");
}

TEST_F(ServicesTest, P8KvScales) {
  int64_t a = add<float>(StoredType::F32, {1}, {0.25f});
  int64_t b = add<float>(StoredType::F32, {1}, {0.75f});
  int64_t none = add<float>(StoredType::F32, {1}, {-1.0f});
  open();
  octet_weight wa = scalar(a), wb = scalar(b), wn = scalar(none), k{}, v{};
  auto scales = [&](const octet_weight *x, const octet_weight *y) {
    EXPECT_EQ(
        rt->kv_scales(&ctx, "layers.{l}.self_attn", 3, x, y, OCTET_F32, &k, &v),
        0);
    return std::pair(value(k), value(v));
  };
  using P = std::pair<float, float>;
  EXPECT_EQ(scales(&wa, &wb), P(0.25f, 0.75f));
  EXPECT_EQ(scales(&wa, &wn), P(0.25f, 0.25f));
  EXPECT_EQ(scales(nullptr, &wb), P(0.75f, 0.75f));
  EXPECT_EQ(scales(nullptr, nullptr), P(1, 1));
  EXPECT_TRUE(ctx.warnings.empty()); // The cache is not FP8.
  ctx.kvType = OCTET_E4M3;
  EXPECT_EQ(scales(&wn, nullptr), P(1, 1));
  ASSERT_EQ(ctx.warnings.size(), 1u);
  EXPECT_EQ(ctx.warnings[0],
            "layers.3.self_attn: no positive k_scale or v_scale for its FP8 "
            "cache; both are 1.0 [P8]");
}

TEST_F(ServicesTest, ConcatHasItsLimit) {
  int64_t a = add<float>(StoredType::F32, {1}, {0.25f});
  open();
  octet_weight w = scalar(a), out{};
  const octet_weight *in[] = {&w, &w, &w, &w, &w};
  ASSERT_EQ(rt->concat(&ctx, 4, in, &out), 0);
  EXPECT_EQ(out.num_parts, 4);
  EXPECT_NE(rt->concat(&ctx, 5, in, &out), 0);
  EXPECT_EQ(ctx.error->exitCode(), 3);
}

TEST_F(ServicesTest, P6RopeTable) {
  add<float>(StoredType::F32, {1}, {1.0f});
  open();
  const float frequencies[] = {1.0f, 0.01f};
  octet_weight w{};
  ASSERT_EQ(rt->rope_table(&ctx, frequencies, 2, 5, 2.0f, &w), 0);
  EXPECT_EQ(w.parts[0].rows, 5);
  const float *row = static_cast<const float *>(w.parts[0].data) + 3 * 4;
  EXPECT_FLOAT_EQ(row[0], 2 * std::cos(3.0f));
  EXPECT_FLOAT_EQ(row[1], 2 * std::cos(0.03f));
  EXPECT_FLOAT_EQ(row[2], 2 * std::sin(3.0f));
  EXPECT_FLOAT_EQ(row[3], 2 * std::sin(0.03f));
  octet_weight absurd{};
  EXPECT_NE(rt->rope_table(&ctx, frequencies, int64_t(1) << 40,
                           int64_t(1) << 40, 1.0f, &absurd),
            0);
  EXPECT_EQ(ctx.error->kind, ErrorKind::Machine);
}
