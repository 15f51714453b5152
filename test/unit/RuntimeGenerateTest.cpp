//===- RuntimeGenerateTest.cpp - Prompts, continued -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeModel.h"
#include "TempFolder.h"
#include "runtime/cli/Generate.h"
#include "runtime/cli/Session.h"
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

using namespace octet;
using namespace octet::rt;
using namespace octet::test;

namespace {
class GenerateTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = makeTempFolder();
    ASSERT_FALSE(folder.empty());
    ASSERT_TRUE(writeFakeCheckpoint(folder, fakeTensors()).ok());
    const std::string program = folder + "/program";
    ASSERT_TRUE(
        packProgram(OCTET_FAKE_DIR "/fake-program.so", "", program).ok());
    octet_file *opened = nullptr;
    ASSERT_EQ(octet_file_open(program.c_str(), &opened, nullptr), OCTET_OK);
    file.reset(opened);
    common.file = opened;
    octet_limits_init(&common.limits, sizeof(common.limits));
    ASSERT_EQ(octet_file_limits(opened, &common.limits, nullptr), OCTET_OK);
    common.weights = folder;
    common.threads = 2;
    auto made = openSession(common, "run", /*wantsModule=*/false);
    ASSERT_TRUE(made.ok()) << made.status().info().format();
    session = made.take();
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// What becomes of each prompt; each is reported once, and all pages are
  /// free afterwards.
  std::vector<Completion>
  generateAll(std::span<const std::vector<int32_t>> prompts,
              const GenerateOptions &options) {
    std::vector<Completion> all(prompts.size());
    std::vector<int> times(prompts.size());
    Status status =
        generate(session, prompts, options, [&](size_t i, const Completion &c) {
          all[i] = c;
          ++times[i];
        });
    EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.info().format());
    EXPECT_EQ(std::ranges::count(times, 1), int64_t(prompts.size()));
    EXPECT_EQ(octet_model_free_pages(session.model.get()),
              octet_model_pages(session.model.get()));
    return all;
  }

  std::string folder;
  Owned<octet_file> file;
  CommonOptions common;
  Session session;
};

std::vector<int32_t> somePrompt(int64_t length, int seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(int32_t((i * i * 7 + i * 13 + seed * 29) % kFakeVocab));
  return ids;
}

GenerateOptions withTokens(int64_t maxTokens, bool ignoreEos = true) {
  GenerateOptions options;
  options.maxTokens = maxTokens;
  options.ignoreEos = ignoreEos;
  return options;
}
} // namespace

TEST_F(GenerateTest, GreedyEqualsRecomputation) {
  std::vector<std::vector<int32_t>> prompts{somePrompt(60, 4)};
  auto done = generateAll(prompts, withTokens(10));
  ASSERT_EQ(done[0].ids.size(), 10u);
  std::vector<int32_t> ids = prompts[0];
  std::vector<float> logits(kFakeVocab);
  for (int32_t id : done[0].ids) {
    octet_seq *seq = nullptr;
    ASSERT_EQ(octet_seq_create(session.model.get(), &seq, nullptr), OCTET_OK);
    ASSERT_EQ(octet_seq_append(seq, ids.data(), ids.size(), nullptr), OCTET_OK);
    while (int64_t pending = octet_seq_pending(seq)) {
      const int64_t count = std::min<int64_t>(pending, 32);
      octet_entry entry{seq, count, count == pending};
      ASSERT_EQ(octet_step(session.model.get(), &entry, 1, logits.data(),
                           kFakeVocab, nullptr),
                OCTET_OK);
    }
    octet_seq_free(seq);
    EXPECT_EQ(std::ranges::max_element(logits) - logits.begin(), id);
    ids.push_back(id);
  }
}

// More prompts than sequences, greedy and sampled, at any batch and chunk.
TEST_F(GenerateTest, DoesNotDependOnTheBatch) {
  std::vector<std::vector<int32_t>> prompts;
  for (int i = 0; i < 12; ++i)
    prompts.push_back(somePrompt(1 + 9 * i, i));
  const std::pair<int64_t, int64_t> cuts[] = {{32, 1}, {32, 7}, {3, 5}, {1, 2}};
  for (float temperature : {0.0f, 0.8f}) {
    std::vector<Completion> expected;
    for (auto [chunk, batch] : cuts) {
      session.chunk = chunk;
      session.batch = batch;
      GenerateOptions options = withTokens(20);
      options.logProbs = 2;
      options.sampler.temperature = temperature;
      options.sampler.top_p = 0.95f;
      options.sampler.seed = 11;
      auto done = generateAll(prompts, options);
      if (expected.empty())
        expected = done;
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(done[i].ids, expected[i].ids) << "prompt " << i;
        ASSERT_EQ(done[i].logProbs.size(), 20u);
        for (size_t j = 0; j < 20; ++j) {
          EXPECT_EQ(done[i].logProbs[j].logProb,
                    expected[i].logProbs[j].logProb);
          EXPECT_EQ(done[i].logProbs[j].top, expected[i].logProbs[j].top);
        }
      }
    }
  }
}

TEST_F(GenerateTest, Finishes) {
  std::vector<std::vector<int32_t>> prompts{somePrompt(20, 5)};
  auto free = generateAll(prompts, withTokens(8))[0];
  ASSERT_EQ(free.ids.size(), 8u);
  EXPECT_STREQ(free.finish, "length");

  // A stop id ends before itself.
  const int32_t third = free.ids[2];
  size_t first = size_t(std::ranges::find(free.ids, third) - free.ids.begin());
  GenerateOptions options = withTokens(8);
  options.stopIds = {third};
  auto stopped = generateAll(prompts, options)[0];
  EXPECT_STREQ(stopped.finish, "stop");
  EXPECT_EQ(stopped.ids,
            std::vector<int32_t>(free.ids.begin(), free.ids.begin() + first));

  // Everything but eos (5) forbidden: the first token is eos, and it is kept.
  options = withTokens(8, /*ignoreEos=*/false);
  for (int32_t id = 0; id < kFakeVocab; ++id)
    if (id != 5)
      options.forbidden.push_back(id);
  auto ended = generateAll(prompts, options)[0];
  EXPECT_STREQ(ended.finish, "eos");
  EXPECT_EQ(ended.ids, (std::vector<int32_t>{5}));
  options.ignoreEos = true;
  options.maxTokens = 3;
  auto ignored = generateAll(prompts, options)[0];
  EXPECT_STREQ(ignored.finish, "length");
  EXPECT_EQ(ignored.ids, (std::vector<int32_t>{5, 5, 5}));

  // The context fills up: 200 tokens in all.
  std::vector<std::vector<int32_t>> lengths{somePrompt(195, 6),
                                            somePrompt(200, 6)};
  auto full = generateAll(lengths, withTokens(50));
  EXPECT_EQ(full[0].ids.size(), 5u);
  EXPECT_STREQ(full[0].finish, "length");
  EXPECT_EQ(full[1].ids.size(), 0u);
  EXPECT_STREQ(full[1].finish, "length");
}

TEST_F(GenerateTest, EveryTokenForbidden) {
  std::vector<std::vector<int32_t>> prompts{somePrompt(5, 5)};
  GenerateOptions options = withTokens(2);
  for (int32_t id = 0; id < kFakeVocab; ++id)
    options.forbidden.push_back(id);
  Status status = generate(session, prompts, options, [](auto, auto &) {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.info().message, "prompt 0: token 0 cannot be chosen, every "
                                   "logit is NaN or -inf");
  EXPECT_EQ(status.info().subject, folder + "/program");
}
