//===- RuntimeEngineTest.cpp - A hand-written program, run ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeModel.h"
#include "TempFolder.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Payload.h"
#include <cmath>
#include <cstring>
#include <filesystem>
#include <gtest/gtest.h>

using namespace octet;
using namespace octet::rt;
using namespace octet::test;
namespace fs = std::filesystem;

namespace {
class EngineTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = octet::test::makeTempFolder();
    ASSERT_FALSE(folder.empty());
    ASSERT_TRUE(writeFakeCheckpoint(folder, fakeTensors()).ok());
  }
  void TearDown() override { fs::remove_all(folder); }

  Result<std::unique_ptr<Model>> load(const char *program = "fake-program",
                                      LoadOptions options = {.threads = 2}) {
    const std::string file = folder + "/program";
    OCTET_TRY(packProgram(std::string(OCTET_FAKE_DIR "/") + program + ".so", "",
                          file));
    OCTET_TRY_ASSIGN(Payload payload, Payload::open(file));
    OCTET_TRY_ASSIGN(auto loaded, Program::load(payload));
    return Model::load(std::move(loaded), folder, options);
  }

  /// The error of loading with these tensors as the checkpoint.
  ErrorInfo loadError(const std::vector<FakeTensor> &tensors,
                      const char *program = "fake-program") {
    EXPECT_TRUE(writeFakeCheckpoint(folder, tensors).ok());
    auto model = load(program);
    EXPECT_FALSE(model.ok());
    return model.ok() ? ErrorInfo() : model.status().info();
  }

  std::string folder;
};

std::vector<int32_t> somePrompt(int64_t length, int seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(int32_t((i * i * 7 + i * 13 + seed * 29) % kFakeVocab));
  return ids;
}

Sequence sequenceOf(std::vector<int32_t> ids) {
  Sequence s;
  s.tokens = std::move(ids);
  return s;
}

const float *floats(const FakeTensor &t) {
  return reinterpret_cast<const float *>(t.data.data());
}

/// What fake_program.c computes, in FP64 and without a cache.
std::vector<double> reference(std::span<const int32_t> ids) {
  const int H = 48, QH = 4, D = 16, KV = 32;
  const int64_t S = int64_t(ids.size());
  std::vector<FakeTensor> t = fakeTensors();
  auto product = [](const std::vector<double> &x, const FakeTensor &w) {
    int64_t n = w.shape[0], k = w.shape[1], m = int64_t(x.size()) / k;
    std::vector<double> y(m * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t l = 0; l < k; ++l)
          y[i * n + j] += x[i * k + l] * double(floats(w)[j * k + l]);
    return y;
  };
  std::vector<double> h(S * H);
  for (int64_t i = 0; i < S; ++i)
    for (int j = 0; j < H; ++j)
      h[i * H + j] = floats(t[0])[ids[i] * H + j] + (j == 0 ? i / 64.0 : 0);
  for (int layer = 0; layer < 2; ++layer) {
    const FakeTensor *w = &t[3 + 4 * layer]; // k, o, q, v
    auto k = product(h, w[0]), q = product(h, w[2]), v = product(h, w[3]);
    std::vector<double> y(S * QH * D);
    for (int64_t s = 0; s < S; ++s)
      for (int head = 0; head < QH; ++head) {
        const int kvHead = head / 2;
        std::vector<double> p(s + 1);
        double largest = -INFINITY, sum = 0;
        for (int64_t c = 0; c <= s; ++c) {
          for (int d = 0; d < D; ++d)
            p[c] +=
                0.25 * q[(s * QH + head) * D + d] * k[c * KV + kvHead * D + d];
          largest = std::max(largest, p[c]);
        }
        for (double &value : p)
          sum += value = std::exp(value - largest);
        for (int64_t c = 0; c <= s; ++c)
          for (int d = 0; d < D; ++d)
            y[(s * QH + head) * D + d] +=
                p[c] / sum * v[c * KV + kvHead * D + d];
      }
    auto o = product(y, w[1]);
    for (size_t i = 0; i < h.size(); ++i)
      h[i] += o[i];
  }
  for (double &value : h)
    value /= 16;
  return product(h, t[0]);
}

/// Bit for bit, with the first difference in the message.
void expectSame(std::span<const float> a, std::span<const float> b,
                const std::string &what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << what << ": element " << i << ", " << a[i] << " and " << b[i];
}
} // namespace

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

TEST_F(EngineTest, LoadsAndComputes) {
  auto model = load();
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  Engine engine(**model);
  auto ids = somePrompt(100, 1);
  Sequence s = sequenceOf(ids);
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, /*outputs=*/100, logits).ok());
  auto expected = reference(ids);
  ASSERT_EQ(logits.size(), expected.size());
  // FP32 sums of at most 200 terms: 200 * 2^-24 of the operands' size, twice
  // over for the two layers, is below 1e-4 of the largest logit.
  double above = 0, below = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    above += (logits[i] - expected[i]) * (logits[i] - expected[i]);
    below += expected[i] * expected[i];
  }
  EXPECT_LT(std::sqrt(above / below), 1e-4);
}

// A table that spells shapes with or without sides of 1 is the same table (W2);
// a side that is really another is not.
TEST_F(EngineTest, W2SidesOfOneDoNotMatter) {
  auto read = readSafetensors(folder + "/model.safetensors");
  ASSERT_TRUE(read.ok());
  ProgramInfo info;
  info.hash = read->hash();
  info.tensors = {{"extra_scale", StoredType::F32, {}},
                  {"extra", StoredType::F8_E4M3, {4, 1, 8, 1}}};
  EXPECT_TRUE(checkTensorTable(info, *read, folder).ok());
  info.tensors[1].shape = {8, 4};
  EXPECT_FALSE(checkTensorTable(info, *read, folder).ok());
}

TEST_F(EngineTest, WrongCheckpointIsNamed) {
  const auto good = fakeTensors();
  auto t = good;
  t.erase(t.begin() + 5);
  EXPECT_EQ(loadError(t).message,
            "not the checkpoint that was compiled: it has no tensor "
            "'layers.0.q_proj', expected F32 [64, 48]");
  t = good;
  t[5].shape = {48, 64};
  ErrorInfo error = loadError(t);
  EXPECT_EQ(error.message,
            "not the checkpoint that was compiled: tensor 'layers.0.q_proj' is "
            "F32 [48, 64], expected F32 [64, 48]");
  EXPECT_EQ(error.subject, folder);
  EXPECT_EQ(error.exitCode(), 1);
  t = good;
  t[5].type = StoredType::I32;
  EXPECT_EQ(loadError(t).message,
            "not the checkpoint that was compiled: tensor 'layers.0.q_proj' is "
            "I32 [64, 48], expected F32 [64, 48]");
  t = good;
  t.push_back(good[2]);
  t.back().name = "other";
  error = loadError(t);
  EXPECT_NE(error.message.find("it has other tensors"), std::string::npos);
  ASSERT_EQ(error.notes.size(), 2u);
  EXPECT_EQ(error.notes[1],
            "tensor 'other' is there, which the program does not read");
}

// A service's error ends the load and reaches the user with its rule.
TEST_F(EngineTest, W6ScaleOfZeroIsNamed) {
  auto t = fakeTensors();
  const float zero = 0;
  std::memcpy(t[2].data.data(), &zero, sizeof(zero));
  ErrorInfo error = loadError(t);
  EXPECT_EQ(error.rule, "W6");
  EXPECT_EQ(error.exitCode(), 1);
  EXPECT_NE(error.format().find("extra_scale"), std::string::npos)
      << error.format();
}

TEST_F(EngineTest, W6UnfilledSlot) {
  ErrorInfo error = loadError(fakeTensors(), "fake-unfilled");
  EXPECT_EQ(error.rule, "W6");
  EXPECT_EQ(error.exitCode(), 3);
  EXPECT_NE(error.message.find("left weight 5 of 6 empty"), std::string::npos)
      << error.message;
}

TEST_F(EngineTest, AbsurdArena) {
  ErrorInfo error = loadError(fakeTensors(), "fake-arena");
  EXPECT_EQ(error.kind, ErrorKind::Machine);
  EXPECT_NE(error.message.find("need 1125899906842624 bytes of memory"),
            std::string::npos)
      << error.message;
}

TEST_F(EngineTest, StepWithoutAnErrorIsOurs) {
  auto model = load("fake-step");
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  Sequence s = sequenceOf({1});
  std::vector<float> logits;
  Status status = engine.prefill(s, /*outputs=*/1, logits);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().exitCode(), 3);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST_F(EngineTest, ChecksIds) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  auto message = [&](std::vector<int64_t> ids) {
    Status checked = engine.checkIds<int64_t>(ids, "p");
    return checked.ok() ? "no error" : checked.info().message;
  };
  EXPECT_EQ(message({}), "no error");
  EXPECT_EQ(message({0, 60}), "no error");
  EXPECT_EQ(message({0, 61}),
            "token 1 is id 61, the vocabulary has ids 0 to 60");
  EXPECT_EQ(message({-1}), "token 0 is id -1, the vocabulary has ids 0 to 60");
  EXPECT_EQ(message({int64_t(1) << 32}), "token 0 is id 4294967296, the "
                                         "vocabulary has ids 0 to 60");
  EXPECT_TRUE(engine.checkLength(200, "p").ok());
  EXPECT_EQ(engine.checkLength(201, "p").info().message,
            "201 tokens are more than the context of 200 that was compiled; "
            "compile with --max-context 201 or more");
}

TEST_F(EngineTest, AnyChunkingAndThreadsGiveTheSameBits) {
  std::vector<float> expected;
  auto ids = somePrompt(150, 2);
  for (int threads : {1, 2, 5})
    for (int64_t chunk : {0, 1, 7, 32}) {
      auto model = load("fake-program", {.threads = threads});
      ASSERT_TRUE(model.ok());
      Engine engine(**model);
      Sequence s = sequenceOf(ids);
      std::vector<float> logits;
      ASSERT_TRUE(
          engine.prefill(s, /*outputs=*/150, logits, /*sink=*/nullptr, chunk)
              .ok());
      if (expected.empty())
        expected = logits;
      expectSame(logits, expected,
                 "threads " + std::to_string(threads) + ", chunk " +
                     std::to_string(chunk));
    }
}

TEST_F(EngineTest, BatchOfSevenGivesTheSameBitsAsOneByOne) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  std::vector<std::vector<float>> expected(7);
  std::vector<Sequence> batch;
  for (int i = 0; i < 7; ++i) {
    auto ids = somePrompt(3 + 11 * i, i);
    Sequence alone = sequenceOf(ids);
    ASSERT_TRUE(engine.prefill(alone, alone.pending(), expected[i]).ok());
    engine.release(alone);
    batch.push_back(sequenceOf(ids));
  }
  // Prefill chunks of different lengths and decode rows in the same steps.
  std::vector<std::vector<float>> got(7);
  std::vector<float> logits;
  for (int round = 0;; ++round) {
    std::vector<Feed> feeds;
    std::vector<int> owners;
    int64_t left = 32;
    for (int i = 0; i < 7; ++i) {
      int64_t count =
          std::min({batch[i].pending(), int64_t(1 + (i + round) % 5), left});
      if (count == 0)
        continue;
      feeds.push_back({&batch[i], count, count});
      owners.push_back(i);
      left -= count;
    }
    if (feeds.empty())
      break;
    logits.resize(size_t(Engine::outputRows(feeds) * kFakeVocab));
    ASSERT_TRUE(engine.step(feeds, logits).ok());
    size_t at = 0;
    for (size_t f = 0; f < feeds.size(); ++f) {
      size_t n = size_t(feeds[f].count * kFakeVocab);
      got[owners[f]].insert(got[owners[f]].end(), logits.begin() + at,
                            logits.begin() + at + n);
      at += n;
    }
    ASSERT_EQ(at, logits.size());
  }
  for (int i = 0; i < 7; ++i)
    expectSame(got[i], expected[i], "prompt " + std::to_string(i));
}

TEST_F(EngineTest, TracesEveryRow) {
  struct Sink : TraceSink {
    void trace(const char *name, int64_t index, int32_t type, int64_t rows,
               int64_t cols, const void *) override {
      seen[std::string(name) + std::to_string(index)] += rows;
      EXPECT_EQ(type, OCTET_F32);
      EXPECT_EQ(cols, kFakeHidden);
    }
    std::map<std::string, int64_t> seen;
  } sink;
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model);
  Sequence s = sequenceOf(somePrompt(70, 3));
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, /*outputs=*/1, logits, &sink).ok());
  EXPECT_EQ(logits.size(), size_t(kFakeVocab));
  EXPECT_EQ(sink.seen, (std::map<std::string, int64_t>{{"hidden0", 70},
                                                       {"hidden1", 70},
                                                       {"hidden2", 70},
                                                       {"hidden_norm-1", 70}}));
}

TEST_F(EngineTest, ModuleRows) {
  auto model = load("fake-module");
  ASSERT_TRUE(model.ok()) << model.status().info().format();
  const int64_t rows = 70; // Three steps of at most 32.
  std::vector<float> x(rows * 64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(int(i * 37 % 101) - 50) / 50;
  Engine engine(**model);
  std::vector<float> y(rows * 48), z(rows * 48);
  ASSERT_TRUE(engine.evaluate(x, rows, y).ok());
  ASSERT_TRUE(engine.evaluate(x, rows, z, /*chunk=*/1).ok());
  EXPECT_EQ((*model)->cache().freePages(), (*model)->cache().numPages());
  expectSame(y, z, "one row at a time");
  auto t = fakeTensors();
  double sum = 0;
  for (int l = 0; l < 64; ++l)
    sum += double(x[69 * 64 + l]) * double(floats(t[4])[47 * 64 + l]);
  EXPECT_NEAR(y.back(), sum, 1e-5);
}
