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
    OCTET_TRY_ASSIGN(Program loaded, Program::load(payload));
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
  Engine engine(**model, {});
  auto ids = somePrompt(100, 1);
  Sequence s = sequenceOf(ids);
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, Outputs::All, logits).ok());
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
  Engine engine(**model, {});
  Sequence s = sequenceOf({1});
  std::vector<float> logits;
  Status status = engine.prefill(s, Outputs::Last, logits);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().exitCode(), 3);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST_F(EngineTest, ChecksIds) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model, {});
  auto message = [&](std::vector<int64_t> ids) {
    auto checked = engine.checkIds(ids, "p");
    return checked.ok() ? "no error" : checked.status().info().message;
  };
  EXPECT_EQ(message({0, 60}), "no error");
  EXPECT_EQ(message({0, 61}),
            "token 1 is id 61, the vocabulary has ids 0 to 60");
  EXPECT_EQ(message({-1}), "token 0 is id -1, the vocabulary has ids 0 to 60");
  EXPECT_EQ(message({int64_t(1) << 32}), "token 0 is id 4294967296, the "
                                         "vocabulary has ids 0 to 60");
  EXPECT_EQ(message({}), "no token ids; at least one is needed");
  EXPECT_EQ(message(std::vector<int64_t>(200)), "no error");
  EXPECT_EQ(message(std::vector<int64_t>(201)),
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
      Engine engine(**model, {.chunk = chunk});
      Sequence s = sequenceOf(ids);
      std::vector<float> logits;
      ASSERT_TRUE(engine.prefill(s, Outputs::All, logits).ok());
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
  Engine engine(**model, {});
  std::vector<std::vector<float>> expected(7);
  std::vector<Sequence> batch;
  for (int i = 0; i < 7; ++i) {
    auto ids = somePrompt(3 + 11 * i, i);
    Sequence alone = sequenceOf(ids);
    ASSERT_TRUE(engine.prefill(alone, Outputs::All, expected[i]).ok());
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
      feeds.push_back({&batch[i], count, Outputs::All});
      owners.push_back(i);
      left -= count;
    }
    if (feeds.empty())
      break;
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
  Engine engine(**model, {});
  Sequence s = sequenceOf(somePrompt(70, 3));
  std::vector<float> logits;
  ASSERT_TRUE(engine.prefill(s, Outputs::Last, logits, &sink).ok());
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
  Engine whole(**model, {}), one(**model, {.chunk = 1});
  auto y = whole.evaluate(x, rows), z = one.evaluate(x, rows);
  ASSERT_TRUE(y.ok() && z.ok());
  ASSERT_EQ(y->size(), size_t(rows * 48));
  expectSame(*y, *z, "one row at a time");
  auto t = fakeTensors();
  double sum = 0;
  for (int l = 0; l < 64; ++l)
    sum += double(x[69 * 64 + l]) * double(floats(t[4])[47 * 64 + l]);
  EXPECT_NEAR(y->back(), sum, 1e-5);
}

//===----------------------------------------------------------------------===//
// Generation
//===----------------------------------------------------------------------===//

static std::vector<Completion>
generateAll(Engine &engine, std::span<const std::vector<int32_t>> prompts,
            const GenerateOptions &options) {
  std::vector<Completion> all(prompts.size());
  std::vector<int> times(prompts.size());
  Status status =
      engine.generate(prompts, options, [&](size_t i, const Completion &c) {
        all[i] = c;
        ++times[i];
      });
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.info().format());
  for (int n : times)
    EXPECT_EQ(n, 1);
  return all;
}

TEST_F(EngineTest, GreedyEqualsRecomputation) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model, {});
  std::vector<std::vector<int32_t>> prompts{somePrompt(60, 4)};
  auto done =
      generateAll(engine, prompts, {.maxTokens = 10, .ignoreEos = true});
  ASSERT_EQ(done[0].ids.size(), 10u);
  auto ids = prompts[0];
  for (int32_t id : done[0].ids) {
    Sequence s = sequenceOf(ids);
    std::vector<float> logits;
    ASSERT_TRUE(engine.prefill(s, Outputs::Last, logits).ok());
    engine.release(s);
    EXPECT_EQ(argmax(logits), id);
    ids.push_back(id);
  }
  EXPECT_EQ((*model)->cache().freePages(), (*model)->cache().numPages());
}

// More prompts than sequences, greedy and sampled, at any batch and chunk.
TEST_F(EngineTest, GenerationDoesNotDependOnTheBatch) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 12; ++i)
    prompts.push_back(somePrompt(1 + 9 * i, i));
  for (float temperature : {0.0f, 0.8f}) {
    std::vector<Completion> expected;
    for (EngineOptions o : {EngineOptions{.chunk = 0, .batch = 1},
                            {.chunk = 0, .batch = 0},
                            {.chunk = 3, .batch = 5},
                            {.chunk = 32, .batch = 2}}) {
      Engine engine(**model, o);
      GenerateOptions g{.maxTokens = 20, .ignoreEos = true, .logProbs = 2};
      g.sampler = {.temperature = temperature, .topP = 0.95f, .seed = 11};
      auto done = generateAll(engine, prompts, g);
      if (expected.empty())
        expected = done;
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(done[i].ids, expected[i].ids) << "prompt " << i;
        ASSERT_EQ(done[i].logProbs.size(), 20u);
        for (size_t j = 0; j < 20; ++j)
          EXPECT_EQ(done[i].logProbs[j].logProb,
                    expected[i].logProbs[j].logProb);
      }
    }
  }
}

TEST_F(EngineTest, Finishes) {
  auto model = load();
  ASSERT_TRUE(model.ok());
  Engine engine(**model, {});
  std::vector<std::vector<int32_t>> prompts{somePrompt(20, 5)};
  auto free =
      generateAll(engine, prompts, {.maxTokens = 8, .ignoreEos = true})[0];
  ASSERT_EQ(free.ids.size(), 8u);
  EXPECT_STREQ(free.finish, "length");

  // A stop id ends before itself.
  const int32_t third = free.ids[2];
  size_t first = size_t(std::ranges::find(free.ids, third) - free.ids.begin());
  auto stopped =
      generateAll(engine, prompts,
                  {.maxTokens = 8, .ignoreEos = true, .stopIds = {third}})[0];
  EXPECT_STREQ(stopped.finish, "stop");
  EXPECT_EQ(stopped.ids,
            std::vector<int32_t>(free.ids.begin(), free.ids.begin() + first));

  // Everything but eos (5) forbidden: the first token is eos, and it is kept.
  std::vector<int32_t> others;
  for (int32_t id = 0; id < kFakeVocab; ++id)
    if (id != 5)
      others.push_back(id);
  auto ended =
      generateAll(engine, prompts, {.maxTokens = 8, .forbidden = others})[0];
  EXPECT_STREQ(ended.finish, "eos");
  EXPECT_EQ(ended.ids, (std::vector<int32_t>{5}));
  auto ignored =
      generateAll(engine, prompts,
                  {.maxTokens = 3, .ignoreEos = true, .forbidden = others})[0];
  EXPECT_STREQ(ignored.finish, "length");
  EXPECT_EQ(ignored.ids, (std::vector<int32_t>{5, 5, 5}));

  // The context fills up: 200 tokens in all.
  std::vector<std::vector<int32_t>> lengths{somePrompt(195, 6),
                                            somePrompt(200, 6)};
  auto full =
      generateAll(engine, lengths, {.maxTokens = 50, .ignoreEos = true});
  EXPECT_EQ(full[0].ids.size(), 5u);
  EXPECT_STREQ(full[0].finish, "length");
  EXPECT_EQ(full[1].ids.size(), 0u);
  EXPECT_STREQ(full[1].finish, "length");
}
