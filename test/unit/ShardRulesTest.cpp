//===- ShardRulesTest.cpp - The arithmetic of splits ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Sharding/ShardRules.h"
#include "gtest/gtest.h"

using namespace octet;

static SplitDimension row(int64_t k, int64_t bk) {
  return {.name = "input", .size = k, .block = bk, .blockName = "bk"};
}
static SplitDimension column(int64_t n, int64_t bn, int64_t heads = 0) {
  return {.name = "output",
          .size = n,
          .block = bn,
          .blockName = "bn",
          .heads = heads};
}

// W3: K % tp == 0 and (K / tp) % bk == 0.
TEST(ShardRules, W3RowParallel) {
  EXPECT_TRUE(splits(row(3072, 128), 8));
  EXPECT_FALSE(splits(row(3072, 128), 16)); // 192 per rank cuts a block
  EXPECT_FALSE(splits(row(3072, 128), 5));  // not a whole number per rank
  EXPECT_TRUE(splits(row(3072, 1), 16));    // without blocks any divisor works
  EXPECT_TRUE(splits(row(128, 128), 1));    // smallest block
}

// W3: a module that is not split is not checked, its last block may be ragged.
TEST(ShardRules, W3OneRankMayBeRagged) {
  EXPECT_TRUE(splits(row(576, 128), 1));
  EXPECT_FALSE(splits(row(576, 128), 2));
}

// W3: "the tp values that would work for it", for every shard at once.
TEST(ShardRules, W3Degrees) {
  EXPECT_EQ(findDegrees({row(3072, 128)}),
            (std::vector<int64_t>{1, 2, 3, 4, 6, 8, 12, 24}));
  EXPECT_EQ(findDegrees({column(512, 128), column(256, 128)}),
            (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(findDegrees({row(100, 128)}), (std::vector<int64_t>{1}));
}

TEST(ShardRules, W3Text) {
  EXPECT_EQ(describeSplit({row(3072, 128)}, 8), "");
  EXPECT_EQ(describeSplit({row(3072, 128)}, 16),
            "input dimension 3072 over tp=16 is 192 per rank, not a multiple "
            "of the block (bk=128); tp=1, 2, 3, 4, 6, 8, 12 or 24 would work "
            "[W3]");
  EXPECT_EQ(describeSplit({row(100, 128)}, 3),
            "input dimension 100 over tp=3 is not a whole number per rank; "
            "tp=1 would work [W3]");
}

// W3, W3c: an expert is split over the ranks of its group.
TEST(ShardRules, W3Experts) {
  const std::vector<SplitDimension> w13 = {column(320, 128), column(320, 128)};
  EXPECT_EQ(describeExpertSplit(w13, {.tp = 2, .ep = 2}, 4), "");
  EXPECT_EQ(describeExpertSplit(w13, {.tp = 1, .ep = 2, .dp = 2}, 4), "");
  EXPECT_EQ(describeExpertSplit(w13, {.tp = 2}, 4),
            "output dimension 320 over tp=2 is 160 per rank, not a multiple of "
            "the block (bn=128); tp=1 would work, or ep=2, which keeps each "
            "expert whole [W3]");
  EXPECT_EQ(describeExpertSplit({row(768, 128)}, {.tp = 8, .ep = 2}, 128),
            "input dimension 768 over tp=8, ep=2 (4 ranks an expert) is 192 "
            "per rank, not a multiple of the block (bk=128); tp=2, 4, 6 or 12 "
            "would work, or ep=8, which keeps each expert whole [W3]");
}

// W3, W3c: three experts cannot be kept whole on two ranks.
TEST(ShardRules, W3ExpertsWithoutWayOut) {
  EXPECT_EQ(describeExpertSplit({row(192, 128)}, {.tp = 2}, 3),
            "input dimension 192 over tp=2 is 96 per rank, not a multiple of "
            "the block (bk=128); tp=1 would work [W3]");
}

TEST(ShardRules, W3cGroups) {
  EXPECT_EQ(describeGroups(128, {.tp = 8, .ep = 8}), "");
  EXPECT_EQ(describeGroups(4, {.tp = 8, .ep = 8}),
            "4 experts over ep=8 is not a whole number per group; ep=1, 2 or 4 "
            "would work [W3c]");
}

// --split-blocks pad: 576 rows per rank touch five blocks on either rank, 160
// touch two.
TEST(ShardRules, W3Padding) {
  EXPECT_EQ(padSplit(row(1152, 128), 2), 640);
  EXPECT_EQ(padSplit(row(320, 128), 2), 256);
  EXPECT_EQ(padSplit(row(3072, 128), 8), 384); // whole blocks already
  EXPECT_EQ(padSplit(row(576, 128), 1), 576);  // not split, stays ragged
}

TEST(ShardRules, W3PaddingIsSaid) {
  EXPECT_EQ(describePadding(row(1152, 128), 2),
            "input dimension 1152 is 576 per rank, which cuts a block "
            "(bk=128); each rank holds 640, whole blocks, with zeros in place "
            "of what is another rank's [W3]");
  EXPECT_EQ(describePadding(row(3072, 128), 8), "");
  EXPECT_EQ(describePadding(row(576, 128), 1), "");
}

// W3: one line for the modules of a kind that are padded alike.
TEST(ShardRules, W3PaddingNotes) {
  PaddingNotes paddings;
  std::string rows = describePadding(row(1152, 128), 2);
  std::string columns = describePadding(column(448, 128), 2);
  EXPECT_TRUE(paddings.add("a.0.down_proj", rows));
  EXPECT_TRUE(paddings.add("a.0.kv_b_proj", columns, 2));
  EXPECT_FALSE(paddings.add("a.1.down_proj", rows, 3));
  EXPECT_TRUE(paddings.add("a.1.o_proj", rows));
  ASSERT_EQ(paddings.notes.size(), 3u);
  EXPECT_EQ(paddings.notes[0].subject, "a.0.down_proj");
  EXPECT_EQ(paddings.notes[0].getText(),
            "input dimension 1152 is 576 per rank, which cuts a block "
            "(bk=128); each rank holds 640, whole blocks, with zeros in place "
            "of what is another rank's; so in 3 other modules of that name "
            "[W3]");
  EXPECT_EQ(paddings.notes[1].getText(),
            "output dimension 448 is 224 per rank, which cuts a block "
            "(bn=128); each rank holds 384, whole blocks, with zeros in place "
            "of what is another rank's; so in 1 other module of that name "
            "[W3]");
  EXPECT_EQ(paddings.notes[2].getText(), rows);
}

// W3b: two KV heads over four ranks stand on two ranks each, so a rank has half
// the rows, as if there were two; the N_i of W3 are those.
TEST(ShardRules, W3bReplicatedKvHeads) {
  EXPECT_TRUE(splits(column(256, 128, /*heads=*/2), 2));
  EXPECT_TRUE(splits(column(256, 128, /*heads=*/2), 4));
  EXPECT_FALSE(splits(column(256, 128, /*heads=*/0), 4));
  EXPECT_FALSE(splits(column(128, 128, /*heads=*/2), 4)); // half a block each
  EXPECT_FALSE(splits(column(384, 128, /*heads=*/3), 2));
  EXPECT_TRUE(splits(column(96, 128, /*heads=*/1), 8)); // whole on every rank
}

TEST(ShardRules, W3bHeads) {
  EXPECT_EQ(describeHeads(32, 8, 8), "");
  EXPECT_EQ(describeHeads(32, 8, 16), "");
  EXPECT_EQ(describeHeads(6, 2, 4),
            "6 heads and 2 KV heads over tp=4: heads are split evenly; tp=1, 2 "
            "or 6 would work [W3b]");
  EXPECT_EQ(describeHeads(12, 3, 2),
            "12 heads and 3 KV heads over tp=2: KV heads are split evenly, or "
            "each stands on equally many ranks; tp=1, 3, 6 or 12 would work "
            "[W3b]");
}

TEST(ShardRules, W3cRanks) {
  EXPECT_EQ(describeRanks({.tp = 4, .ep = 8, .dp = 2}), "");
  EXPECT_EQ(describeRanks({.tp = 4, .ep = 3, .dp = 2}),
            "--ep 3: does not divide the 8 ranks of tp=4 and dp=2 [W3c]");
  EXPECT_EQ(describeRanks({.tp = 0}), "--tp 0: expected 1 or more [W3c]");
  EXPECT_EQ(describeRanks({.dp = -1}), "--dp -1: expected 1 or more [W3c]");
}
// W3: what works for all of a model. 24 heads and 8 KV heads leave 1, 2, 4, 8
// and 24 ranks, 3072 columns in blocks of 128 the divisors of 24, experts of
// six blocks those of 6.
TEST(ShardRules, W3WholeModel) {
  SplitModel model;
  model.heads = {{24, 8}};
  model.linears = {row(3072, 128)};
  EXPECT_EQ(describeWholeModel(model, {}),
            "for the whole model tp=1, 2, 4, 8 or 24 would work");
  model.experts = {row(768, 128)};
  model.numExperts = 32;
  EXPECT_EQ(describeWholeModel(model, {}),
            "for the whole model tp=1 or 2 would work");
  // Eight groups: of one rank each, or of three with two blocks each.
  EXPECT_EQ(describeWholeModel(model, {.tp = 4, .ep = 8}),
            "for the whole model with ep=8 tp=8 or 24 would work");
  model.heads = {{5, 5}};
  model.linears = {row(3072, 3072)};
  EXPECT_EQ(describeWholeModel(model, {.tp = 8, .ep = 8, .dp = 3}),
            "no tp works for the whole model with ep=8, dp=3");
}
