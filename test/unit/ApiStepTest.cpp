//===- ApiStepTest.cpp - octet.h: sequences and steps ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The fake program: pages of 64 tokens, a context of 200, 7 sequences and 32
// tokens a step, 28 pages.
//
//===----------------------------------------------------------------------===//

#include "ApiFixture.h"
#include <algorithm>
#include <bit>
#include <map>
#include <thread>

using namespace octet::test;

namespace {
std::vector<int32_t> someTokens(int64_t length, int seed) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < length; ++i)
    ids.push_back(int32_t((i * i * 7 + i * 13 + seed * 29) % kFakeVocab));
  return ids;
}

class ApiStepTest : public ApiTest {
protected:
  void SetUp() override {
    ApiTest::SetUp();
    model = loadModel();
    ASSERT_TRUE(model);
  }

  Owned<octet_seq> create(const std::vector<int32_t> &ids) {
    octet_seq *seq = nullptr;
    EXPECT_EQ(errorOf(octet_seq_create, model.get(), &seq), "");
    append(seq, ids);
    return Owned<octet_seq>(seq);
  }
  static void append(octet_seq *seq, const std::vector<int32_t> &ids) {
    EXPECT_EQ(errorOf(octet_seq_append, seq, ids.data(), ids.size()), "");
  }
  static Owned<octet_seq> fork(const octet_seq *seq) {
    octet_seq *copy = nullptr;
    EXPECT_EQ(errorOf(octet_seq_fork, seq, &copy), "");
    return Owned<octet_seq>(copy);
  }
  static void truncate(octet_seq *seq, int64_t length) {
    EXPECT_EQ(errorOf(octet_seq_truncate, seq, length), "");
  }

  std::string stepError(std::vector<octet_entry> entries,
                        int64_t capacity = 1 << 20) {
    logits.assign(1 << 20, 0);
    return errorOf(octet_step, model.get(),
                   static_cast<const octet_entry *>(entries.data()),
                   entries.size(), logits.data(), capacity);
  }
  /// The rows of one step.
  std::vector<float> step(std::vector<octet_entry> entries) {
    const int64_t size =
        octet_step_size(model.get(), entries.data(), entries.size());
    EXPECT_GE(size, 0);
    const int64_t pages =
        octet_step_pages(model.get(), entries.data(), entries.size());
    const int64_t before = freePages();
    std::vector<float> rows(size_t(std::max<int64_t>(size, 0)));
    EXPECT_EQ(errorOf(octet_step, model.get(),
                      static_cast<const octet_entry *>(entries.data()),
                      entries.size(), rows.data(), size),
              "");
    EXPECT_EQ(before - freePages(), pages);
    return rows;
  }
  /// The rows of all pending tokens of a sequence, `chunk` at a time.
  std::vector<float> run(octet_seq *seq, int64_t chunk = 32) {
    std::vector<float> all;
    while (int64_t pending = octet_seq_pending(seq)) {
      const int64_t count = std::min(pending, chunk);
      std::vector<float> rows = step({{seq, count, count}});
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }
  /// The rows of `ids` from `begin` on, computed in a sequence of its own.
  std::vector<float> fresh(const std::vector<int32_t> &ids, int64_t begin = 0) {
    auto seq = create(ids);
    std::vector<float> rows = run(seq.get(), /*chunk=*/29);
    rows.erase(rows.begin(), rows.begin() + begin * kFakeVocab);
    return rows;
  }

  int64_t freePages() { return octet_model_free_pages(model.get()); }
  int64_t usedPages() { return octet_model_pages(model.get()) - freePages(); }

  Owned<octet_model> model;
  std::vector<float> logits;
};

/// Bit for bit, with the first difference in the message.
void expectSame(const std::vector<float> &a, const std::vector<float> &b,
                const std::string &what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i]))
        << what << ": row " << i / kFakeVocab << ", element " << i % kFakeVocab
        << ", " << a[i] << " and " << b[i];
}

std::vector<int32_t> joined(std::vector<int32_t> a,
                            const std::vector<int32_t> &b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
} // namespace

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

TEST_F(ApiStepTest, TokensOfASequence) {
  auto seq = create({});
  EXPECT_EQ(octet_seq_length(seq.get()), 0);
  const std::vector<int32_t> ids{1, 60};
  append(seq.get(), ids);
  append(seq.get(), {});
  EXPECT_EQ(octet_seq_length(seq.get()), 2);
  EXPECT_EQ(octet_seq_pending(seq.get()), 2);
  EXPECT_EQ(octet_seq_cached(seq.get()), 0);
  EXPECT_EQ(octet_seq_tokens(seq.get())[1], 60);
  auto error = [&](const std::vector<int32_t> &added) {
    return errorOf(octet_seq_append, seq.get(), added.data(), added.size());
  };
  EXPECT_EQ(error({7, 61}), "1 octet_seq_append: token 1 is id 61, the "
                            "vocabulary has ids 0 to 60");
  EXPECT_EQ(error({-1}), "1 octet_seq_append: token 0 is id -1, the vocabulary "
                         "has ids 0 to 60");
  EXPECT_EQ(error(someTokens(199, 1)),
            "1 octet_seq_append: 201 tokens are more than the context of 200 "
            "that was compiled; compile with --max-context 201 or more");
  EXPECT_EQ(errorOf(octet_seq_append, seq.get(), ids.data(), SIZE_MAX),
            "1 octet_seq_append: 2147483649 tokens are more than the context "
            "of 200 that was compiled; compile with --max-context 2147483649 "
            "or more");
  EXPECT_EQ(octet_seq_length(seq.get()), 2);
  EXPECT_EQ(errorOf(octet_seq_truncate, seq.get(), int64_t(3)),
            "2 octet_seq_truncate: to 3 tokens; the sequence has 2");
  EXPECT_EQ(errorOf(octet_seq_truncate, seq.get(), int64_t(-1)),
            "2 octet_seq_truncate: to -1 tokens; the sequence has 2");
  truncate(seq.get(), 1);
  EXPECT_EQ(octet_seq_length(seq.get()), 1);
}

TEST_F(ApiStepTest, TruncateGivesPagesBack) {
  const auto ids = someTokens(150, 3), other = someTokens(60, 4);
  const auto expected = fresh(ids);
  auto seq = create(ids);
  run(seq.get());
  EXPECT_EQ(usedPages(), 3);
  truncate(seq.get(), 128);
  EXPECT_EQ(usedPages(), 2);
  EXPECT_EQ(octet_seq_cached(seq.get()), 128);
  truncate(seq.get(), 70);
  // The rest once more, then something else from there.
  append(seq.get(), {ids.begin() + 70, ids.end()});
  expectSame(run(seq.get()),
             {expected.begin() + 70 * kFakeVocab, expected.end()},
             "the same tokens again");
  truncate(seq.get(), 65);
  append(seq.get(), other);
  const std::vector<int32_t> changed =
      joined({ids.begin(), ids.begin() + 65}, other);
  expectSame(run(seq.get()), fresh(changed, 65), "other tokens");
  truncate(seq.get(), 0);
  EXPECT_EQ(usedPages(), 0);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST_F(ApiStepTest, StepsThatCannotBe) {
  auto a = create(someTokens(40, 1)), b = create(someTokens(40, 2));
  octet_seq *s = a.get(), *t = b.get();
  EXPECT_EQ(stepError({}), "2 step: no sequences; at least one is needed");
  EXPECT_EQ(stepError({{nullptr, 1, 1}}),
            "2 octet_step: entry 0 has no sequence: it is NULL");
  EXPECT_EQ(stepError({{s, 41, 0}}),
            "2 step: entry 0 runs 41 tokens of a sequence that has 40 to run; "
            "1 to that many are possible");
  EXPECT_NE(stepError({{s, 0, 0}}), "");
  EXPECT_NE(stepError({{s, INT64_MAX, 0}}), "");
  EXPECT_NE(stepError({{s, INT64_MIN, 0}}), "");
  EXPECT_EQ(stepError({{s, 2, 3}}),
            "2 step: entry 0 wants logits of 3 of its 2 tokens");
  EXPECT_NE(stepError({{s, 2, -1}}), "");
  EXPECT_EQ(stepError({{s, 1, 1}, {s, 1, 1}}),
            "2 step: a sequence is in two entries; each may be in one");
  EXPECT_EQ(stepError({{s, 20, 0}, {t, 13, 0}}),
            "2 step: 33 tokens are more than the 32 of max_step_tokens that "
            "was compiled");
  EXPECT_EQ(stepError({{s, 2, 2}, {t, 1, 1}}, 182),
            "2 step: room for 182 logits; 183 are needed (3 rows of 61)");
  EXPECT_NE(stepError({{s, 1, 1}}, -5), "");
  octet_entry entry{s, 1, 1};
  EXPECT_EQ(errorOf(octet_step, model.get(),
                    static_cast<const octet_entry *>(&entry), size_t(1),
                    static_cast<float *>(nullptr), int64_t(61)),
            "2 step: room for 0 logits; 61 are needed (1 rows of 61)");
  entry.tokens = 99;
  EXPECT_EQ(octet_step_size(model.get(), &entry, 1), -1);
  EXPECT_EQ(octet_step_pages(model.get(), &entry, 1), -1);
  std::vector<Owned<octet_seq>> many;
  std::vector<octet_entry> entries;
  for (int i = 0; i < 8; ++i) {
    many.push_back(create({1}));
    entries.push_back({many.back().get(), 1, 0});
  }
  EXPECT_EQ(stepError(entries), "2 step: 8 sequences are more than the 7 of "
                                "max_seqs that was compiled");
  auto other = loadModel();
  octet_seq *foreign = nullptr;
  ASSERT_EQ(errorOf(octet_seq_create, other.get(), &foreign), "");
  Owned<octet_seq> owner(foreign);
  append(foreign, {1});
  EXPECT_EQ(stepError({{s, 1, 1}, {foreign, 1, 1}}),
            "2 octet_step: entry 1 has a sequence of another model");
  // Nothing has happened.
  EXPECT_EQ(octet_seq_cached(s), 0);
  EXPECT_EQ(usedPages(), 0);
  expectSame(run(s), fresh(someTokens(40, 1)), "after all errors");
}

// A program that fails leaves the sequences as they were.
TEST_F(ApiStepTest, AStepThatFails) {
  model = loadModel(openFile("fake-step").get());
  auto seq = create({1, 2});
  EXPECT_EQ(stepError({{seq.get(), 2, 1}}).substr(0, 2), "3 ");
  EXPECT_EQ(octet_seq_cached(seq.get()), 0);
  EXPECT_EQ(octet_seq_pending(seq.get()), 2);
  seq.reset();
  EXPECT_EQ(usedPages(), 0);
}

// Prefill chunks and decode rows in the same steps, any number of rows wanted.
TEST_F(ApiStepTest, B5MixedBatchesGiveTheSameBits) {
  std::vector<std::vector<float>> expected(7), got(7);
  std::vector<Owned<octet_seq>> seqs;
  for (int i = 0; i < 7; ++i) {
    const auto ids = someTokens(3 + 11 * i, i);
    expected[i] = fresh(ids);
    seqs.push_back(create(ids));
  }
  for (int round = 0;; ++round) {
    std::vector<octet_entry> entries;
    std::vector<int> owners;
    int64_t left = 32;
    for (int i = 0; i < 7; ++i) {
      const int64_t count = std::min({octet_seq_pending(seqs[i].get()),
                                      int64_t(1 + (i + round) % 5), left});
      if (count == 0)
        continue;
      entries.push_back({seqs[i].get(), count, (i + round) % (count + 1)});
      owners.push_back(i);
      left -= count;
    }
    if (entries.empty())
      break;
    std::vector<float> rows = step(entries);
    size_t at = 0;
    for (size_t e = 0; e < entries.size(); ++e) {
      const size_t n = size_t(entries[e].outputs * kFakeVocab);
      const size_t end =
          size_t(octet_seq_cached(entries[e].sequence) * kFakeVocab);
      const std::vector<float> &all = expected[owners[e]];
      expectSame({rows.begin() + at, rows.begin() + at + n},
                 {all.begin() + end - n, all.begin() + end},
                 "sequence " + std::to_string(owners[e]) + ", round " +
                     std::to_string(round));
      at += n;
    }
    ASSERT_EQ(at, rows.size());
  }
}

TEST_F(ApiStepTest, Traces) {
  std::map<std::string, int64_t> rows;
  auto collect = [](void *user, const octet_trace *trace) {
    EXPECT_EQ(trace->size, sizeof(octet_trace));
    EXPECT_EQ(trace->cols, kFakeHidden);
    EXPECT_NE(trace->floats, nullptr);
    EXPECT_EQ(trace->integers, nullptr);
    (*static_cast<std::map<std::string, int64_t> *>(
        user))[std::string(trace->name) + std::to_string(trace->index)] +=
        trace->rows;
  };
  octet_model_set_trace(model.get(), collect, &rows);
  auto seq = create(someTokens(40, 1));
  run(seq.get());
  EXPECT_EQ(rows, (std::map<std::string, int64_t>{{"hidden0", 40},
                                                  {"hidden1", 40},
                                                  {"hidden2", 40},
                                                  {"hidden_norm-1", 40}}));
  octet_model_set_trace(model.get(), nullptr, nullptr);
  truncate(seq.get(), 0);
  append(seq.get(), {1});
  run(seq.get());
  EXPECT_EQ(rows["hidden0"], 40);
}

//===----------------------------------------------------------------------===//
// Shared pages
//===----------------------------------------------------------------------===//

// At each place in a page: the fork shares it, both go on, and each says what
// it would have said alone.
TEST_F(ApiStepTest, ForksGiveTheSameBits) {
  for (int64_t length : {1, 63, 64, 65, 100, 128, 130}) {
    const std::string what = "after " + std::to_string(length);
    const auto prefix = someTokens(length, 5);
    const auto x = someTokens(40, 6), y = someTokens(30, 7);
    const auto expectX = fresh(joined(prefix, x), length);
    const auto expectY = fresh(joined(prefix, y), length);
    auto base = create(prefix);
    run(base.get());
    const int64_t pages = usedPages();
    auto copy = fork(base.get());
    EXPECT_EQ(usedPages(), pages) << what;
    EXPECT_EQ(octet_seq_cached(copy.get()), length);
    append(base.get(), x);
    append(copy.get(), y);
    // Turn by turn, then the rest.
    std::vector<float> gotX, gotY;
    for (int i = 0; i < 5; ++i) {
      auto rows = step({{base.get(), 1, 1}, {copy.get(), 2, 2}});
      gotX.insert(gotX.end(), rows.begin(), rows.begin() + kFakeVocab);
      gotY.insert(gotY.end(), rows.begin() + kFakeVocab, rows.end());
    }
    for (float value : run(base.get()))
      gotX.push_back(value);
    for (float value : run(copy.get()))
      gotY.push_back(value);
    expectSame(gotX, expectX, "source " + what);
    expectSame(gotY, expectY, "fork " + what);
    // Full pages of the prefix are there once.
    const int64_t full = length / 64;
    EXPECT_EQ(usedPages(),
              (length + 40 + 63) / 64 + (length + 30 + 63) / 64 - full)
        << what;
  }
  EXPECT_EQ(usedPages(), 0);
}

TEST_F(ApiStepTest, ForksOfForksInAnyOrder) {
  const auto prefix = someTokens(90, 1);
  std::vector<int> order{0, 1, 2, 3, 4};
  for (int round = 0; round < 6; ++round) {
    std::vector<Owned<octet_seq>> seqs;
    std::vector<std::vector<int32_t>> tokens;
    seqs.push_back(create(prefix));
    tokens.push_back(prefix);
    run(seqs[0].get());
    for (int i = 1; i < 5; ++i) {
      // Of the last one, some tokens later; the first stays as it is.
      seqs.push_back(fork(seqs.back().get()));
      tokens.push_back(joined(tokens.back(), someTokens(17, i)));
      append(seqs.back().get(), someTokens(17, i));
      run(seqs.back().get());
    }
    std::ranges::rotate(order, order.begin() + 1);
    if (round == 3)
      std::ranges::reverse(order);
    for (size_t n = 0; n < order.size(); ++n) {
      // Who is left still says the same.
      for (size_t m = n; m < order.size(); ++m) {
        octet_seq *seq = seqs[size_t(order[m])].get();
        auto ids = tokens[size_t(order[m])];
        truncate(seq, int64_t(ids.size()) - 1);
        append(seq, {ids.back()});
        expectSame(run(seq), fresh(ids, int64_t(ids.size()) - 1),
                   "round " + std::to_string(round) + ", sequence " +
                       std::to_string(order[m]));
      }
      seqs[size_t(order[n])].reset();
    }
    EXPECT_EQ(usedPages(), 0);
  }
}

// Cut back into a page that another has too, then written: the other's page is
// not touched.
TEST_F(ApiStepTest, WritingBehindACutCopies) {
  const auto ids = someTokens(140, 2), other = someTokens(50, 3);
  const auto expected = fresh(ids);
  auto base = create(ids);
  run(base.get());
  auto copy = fork(base.get());
  truncate(copy.get(), 30);
  append(copy.get(), other);
  const std::vector<int32_t> cut{ids.begin(), ids.begin() + 30};
  expectSame(run(copy.get()), fresh(joined(cut, other), 30), "the cut fork");
  truncate(base.get(), 139);
  append(base.get(), {ids[139]});
  expectSame(run(base.get()), {expected.end() - kFakeVocab, expected.end()},
             "the source");
}

// A fork before anything has run shares nothing, and pending tokens are copied.
TEST_F(ApiStepTest, ForkOfPendingTokens) {
  const auto ids = someTokens(50, 8);
  const auto expected = fresh(ids);
  auto base = create(ids);
  step({{base.get(), 20, 0}});
  auto copy = fork(base.get());
  EXPECT_EQ(octet_seq_pending(copy.get()), 30);
  const std::vector<float> rest{expected.begin() + 20 * kFakeVocab,
                                expected.end()};
  expectSame(run(copy.get()), rest, "fork");
  expectSame(run(base.get()), rest, "source");
}

TEST_F(ApiStepTest, PagesRunOut) {
  const auto ids = someTokens(200, 1);
  std::vector<Owned<octet_seq>> seqs;
  for (int i = 0; i < 7; ++i) {
    seqs.push_back(create(ids));
    run(seqs.back().get());
  }
  EXPECT_EQ(freePages(), 0);
  auto more = create({1, 2, 3});
  EXPECT_EQ(stepError({{more.get(), 3, 1}}),
            "5 step: needs 1 free pages of the KV cache, there are 0 of 28; "
            "freeing or truncating sequences gives some back");
  EXPECT_EQ(octet_seq_cached(more.get()), 0);
  // A copy needs a page too. Both entries write into it, and one stays.
  truncate(seqs[0].get(), 195);
  auto copy = fork(seqs[0].get());
  append(seqs[0].get(), {1});
  append(copy.get(), {2});
  const std::vector<octet_entry> both{{seqs[0].get(), 1, 1},
                                      {copy.get(), 1, 1}};
  EXPECT_EQ(octet_step_pages(model.get(), both.data(), 2), 1);
  EXPECT_EQ(stepError(both).substr(0, 2), "5 ");
  truncate(seqs[1].get(), 192);
  EXPECT_EQ(freePages(), 1);
  auto rows = step(both);
  std::vector<int32_t> kept(ids.begin(), ids.begin() + 195);
  seqs.erase(seqs.begin() + 1, seqs.end());
  expectSame(
      rows,
      [&] {
        auto a = fresh(joined(kept, {1}), 195);
        auto b = fresh(joined(kept, {2}), 195);
        a.insert(a.end(), b.begin(), b.end());
        return a;
      }(),
      "after a page was free");
  step({{more.get(), 3, 1}});
}

//===----------------------------------------------------------------------===//
// Several models, modules
//===----------------------------------------------------------------------===//

// Two programs and two instances of one, each in a thread of its own.
TEST_F(ApiStepTest, ModelsAtOnce) {
  const auto ids = someTokens(90, 4);
  const auto expected = fresh(ids);
  auto file = openFile();
  auto first = loadModel(file.get(), 1), second = loadModel(file.get(), 2);
  auto module = loadModel(openFile("fake-module").get());
  std::vector<float> x(40 * 64), y(40 * 48), again(40 * 48);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i % 37) - 18;
  ASSERT_EQ(errorOf(octet_evaluate, module.get(),
                    static_cast<const float *>(x.data()), int64_t(40), y.data(),
                    int64_t(y.size()), int64_t(0)),
            "");
  auto drive = [&](octet_model *one, std::vector<float> &rows) {
    octet_seq *seq = nullptr;
    octet_seq_create(one, &seq, nullptr);
    octet_seq_append(seq, ids.data(), ids.size(), nullptr);
    while (int64_t pending = octet_seq_pending(seq)) {
      octet_entry entry{seq, std::min<int64_t>(pending, 7), 0};
      entry.outputs = entry.tokens;
      rows.resize(rows.size() + size_t(entry.outputs * kFakeVocab));
      octet_step(one, &entry, 1,
                 rows.data() + rows.size() - entry.outputs * kFakeVocab,
                 entry.outputs * kFakeVocab, nullptr);
    }
    octet_seq_free(seq);
  };
  for (int round = 0; round < 5; ++round) {
    std::vector<float> a, b;
    std::thread one(drive, first.get(), std::ref(a));
    std::thread two(drive, second.get(), std::ref(b));
    octet_evaluate(module.get(), x.data(), 40, again.data(),
                   int64_t(again.size()), 3, nullptr);
    one.join();
    two.join();
    expectSame(a, expected, "first");
    expectSame(b, expected, "second");
    ASSERT_EQ(again, y);
  }
  // The first goes, the others stay.
  first.reset();
  std::vector<float> b;
  drive(second.get(), b);
  expectSame(b, expected, "second alone");
}

TEST_F(ApiStepTest, ModulesAndModels) {
  auto module = loadModel(openFile("fake-module").get());
  octet_limits limits;
  octet_limits_init(&limits, sizeof(limits));
  ASSERT_EQ(errorOf(octet_model_limits, module.get(), &limits), "");
  EXPECT_EQ(limits.module_in, 64);
  EXPECT_EQ(limits.module_out, 48);
  EXPECT_EQ(limits.vocab, 0);
  octet_seq *seq = nullptr;
  EXPECT_EQ(errorOf(octet_seq_create, module.get(), &seq),
            "2 octet_seq_create: this program is the module 'layers.0.o_proj'; "
            "octet_evaluate works on it");
  std::vector<float> x(201 * 64), y(200 * 48);
  auto error = [&](octet_model *one, int64_t rows, int64_t capacity,
                   int64_t chunk) {
    return errorOf(octet_evaluate, one, static_cast<const float *>(x.data()),
                   rows, y.data(), capacity, chunk);
  };
  EXPECT_EQ(error(model.get(), 1, 48, 0),
            "2 octet_evaluate: this program is a whole model; octet_step runs "
            "it");
  EXPECT_EQ(error(module.get(), 0, 48, 0),
            "2 octet_evaluate: 0 rows; 1 to 200 (max_context) are possible");
  EXPECT_NE(error(module.get(), 201, 201 * 48, 0), "");
  EXPECT_EQ(error(module.get(), 2, 95, 0),
            "2 octet_evaluate: room for 95 values; 96 are needed (2 rows of "
            "48)");
  EXPECT_NE(error(module.get(), 2, 96, -1), "");
  EXPECT_EQ(error(module.get(), 200, 200 * 48, 0), "");
  EXPECT_EQ(octet_model_free_pages(module.get()),
            octet_model_pages(module.get()));
}

//===----------------------------------------------------------------------===//
// Tokens in place of logits
//===----------------------------------------------------------------------===//

TEST_F(ApiStepTest, DrawsWhatSampleDraws) {
  octet_sampler_options warm;
  octet_sampler_options_init(&warm, sizeof(warm));
  warm.temperature = 0.9f;
  warm.seed = 11;
  auto a = create(someTokens(20, 1)), b = create(someTokens(9, 2));
  auto c = fork(a.get()), d = fork(b.get());
  const octet_entry first[] = {{a.get(), 20, 1}, {b.get(), 9, 2}};
  // Rows: one of the first sequence, two of the second.
  const octet_draw draws[] = {{nullptr, 0, 0}, {&warm, 1, 4}, {&warm, 2, 5}};
  int32_t ids[3] = {-7, -7, -7};
  EXPECT_EQ(errorOf(octet_step_draw, model.get(), first, size_t(2), draws,
                    size_t(3), ids),
            "");
  EXPECT_EQ(octet_seq_cached(a.get()), 20);
  std::vector<float> rows = step({{c.get(), 20, 1}, {d.get(), 9, 2}});
  for (int i = 0; i < 3; ++i) {
    int32_t id = -1;
    EXPECT_EQ(errorOf(octet_sample, rows.data() + i * kFakeVocab, kFakeVocab,
                      draws[i].options, draws[i].stream, draws[i].index,
                      static_cast<const int32_t *>(nullptr), size_t(0), &id),
              "");
    EXPECT_EQ(ids[i], id) << "row " << i;
  }
}

TEST_F(ApiStepTest, DrawsThatCannotBe) {
  auto a = create(someTokens(5, 1));
  const octet_entry entry[] = {{a.get(), 5, 1}};
  octet_sampler_options wrong;
  octet_sampler_options_init(&wrong, sizeof(wrong));
  wrong.top_p = 2;
  const octet_draw draws[] = {{&wrong, 0, 0}, {nullptr, 0, 0}};
  int32_t ids[2];
  EXPECT_EQ(errorOf(octet_step_draw, model.get(), entry, size_t(1), draws,
                    size_t(2), ids),
            "2 octet_step_draw: 2 draws for 1 rows of outputs");
  EXPECT_EQ(errorOf(octet_step_draw, model.get(), entry, size_t(1), draws,
                    size_t(1), ids),
            "2 octet_step_draw: 'top_p' is 2; 0 to 1 would work");
  EXPECT_EQ(octet_seq_cached(a.get()), 0);
}
