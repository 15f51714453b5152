//===- RuntimeProfileTest.cpp - What each operator takes ------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times are whatever they are; calls, bytes and operations are not.
//
//===----------------------------------------------------------------------===//

#include "FakeModel.h"
#include "TempFolder.h"
#include "runtime/core/Engine.h"
#include "runtime/core/Payload.h"
#include "runtime/core/Profile.h"
#include <cmath>
#include <filesystem>
#include <gtest/gtest.h>

using namespace octet;
using namespace octet::rt;
using namespace octet::test;
namespace fs = std::filesystem;

TEST(ProfileTest, MergesSitesOfOneName) {
  const int siteA = 0, siteB = 0, siteC = 0;
  Profile profile;
  profile.add(&siteA, OperatorKind::Product, "q", 10, 1, 2);
  profile.add(&siteB, OperatorKind::Product, "q", 20, 3, 4);
  profile.add(&siteB, OperatorKind::Product, "q", 30, 5, 6);
  profile.add(&siteC, OperatorKind::Rows, "q", 70, 7, 0);
  std::vector<OperatorProfile> entries = profile.entries();
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].kind, OperatorKind::Rows);
  EXPECT_EQ(entries[1].calls, 3);
  EXPECT_EQ(entries[1].nanoseconds, 60);
  EXPECT_EQ(entries[1].bytes, 9);
  EXPECT_EQ(entries[1].flops, 12);
}

namespace {
/// The program written by hand, with drawn weights: 2 layers, hidden 48, heads
/// 4 and 2 of 16, vocabulary 61, all F32.
class ProfiledModelTest : public ::testing::Test {
protected:
  void SetUp() override {
    folder = octet::test::makeTempFolder();
    ASSERT_FALSE(folder.empty());
    auto open = [&]() -> Result<std::unique_ptr<Model>> {
      OCTET_TRY(packProgram(OCTET_FAKE_DIR "/fake-program.so", "",
                            folder + "/program"));
      OCTET_TRY_ASSIGN(Payload payload, Payload::open(folder + "/program"));
      OCTET_TRY_ASSIGN(auto loaded, Program::load(payload));
      return Model::load(std::move(loaded), std::string(kRandomWeights),
                         {.threads = 2});
    };
    auto loaded = open();
    ASSERT_TRUE(loaded.ok()) << loaded.status().info().format();
    model = loaded.take();
    engine = std::make_unique<Engine>(*model);
  }
  void TearDown() override { fs::remove_all(folder); }

  const OperatorProfile *find(const std::vector<OperatorProfile> &entries,
                              OperatorKind kind, const std::string &name) {
    for (const OperatorProfile &entry : entries)
      if (entry.kind == kind && entry.name == name)
        return &entry;
    ADD_FAILURE() << operatorKindName(kind) << " " << name << " is missing";
    return nullptr;
  }

  std::string folder;
  std::unique_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};
} // namespace

TEST_F(ProfiledModelTest, CountsCallsBytesAndOperations) {
  Sequence sequence;
  std::vector<float> logits;
  sequence.tokens.assign(5, 1);
  ASSERT_TRUE(engine->prefill(sequence, /*outputs=*/1, logits).ok());

  // Two tokens after five, and one output.
  Profile profile;
  model->setProfile(&profile);
  sequence.tokens.assign(7, 1);
  logits.clear();
  ASSERT_TRUE(engine->prefill(sequence, /*outputs=*/1, logits).ok());
  model->setProfile(nullptr);
  std::vector<OperatorProfile> entries = profile.entries();

  auto expect = [&](OperatorKind kind, const char *name, int64_t calls,
                    int64_t bytes, int64_t flops) {
    const OperatorProfile *entry = find(entries, kind, name);
    if (!entry)
      return;
    EXPECT_EQ(entry->calls, calls) << name;
    EXPECT_EQ(entry->bytes, bytes) << name;
    EXPECT_EQ(entry->flops, flops) << name;
    EXPECT_GE(entry->nanoseconds, 0) << name;
  };
  for (const OperatorProfile &entry : entries)
    RecordProperty(entry.name, std::to_string(entry.nanoseconds));
  expect(OperatorKind::Product, "layers.{l}.o_proj", 2, 2 * 4 * 48 * 64,
         2 * 2 * 2 * 48 * 64);
  // Keys and values of 7 tokens, of 2 heads of 16; the rows see 6 and 7 keys.
  expect(OperatorKind::Attention, "layers.{l}.attn", 2, 2 * 2 * 4 * 7 * 2 * 16,
         2 * 4 * (6 + 7) * 4 * 16);
  expect(OperatorKind::Rows, "add", 2, 2 * 2 * 12 * 48, 0);
  expect(OperatorKind::Rows, "output", 1, 8 * 48, 0);
  for (float value : logits)
    EXPECT_TRUE(std::isfinite(value));

  // The plain table again: nothing more is added.
  sequence.tokens.assign(8, 1);
  ASSERT_TRUE(engine->prefill(sequence, /*outputs=*/1, logits).ok());
  expect(OperatorKind::Rows, "add", 2, 2 * 2 * 12 * 48, 0);
  EXPECT_EQ(profile.entries().size(), entries.size());
  engine->release(sequence);
}
