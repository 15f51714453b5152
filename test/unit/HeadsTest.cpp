//===- HeadsTest.cpp - kv_b_proj by heads (W12) ---------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Heads.h"
#include "octet/Numerics/Numerics.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>
#include <vector>

using namespace octet;

namespace {

/// Random codes without NaN; scales of neighbouring blocks differ by a factor
/// of two and more, so that a shifted one shows.
struct Matrix {
  LatentHeads shape;
  int64_t bn, bk, rows, scaleCols;
  std::vector<uint8_t> codes;
  std::vector<float> scale;

  Matrix(LatentHeads shape, int64_t bn, int64_t bk, unsigned seed)
      : shape(shape), bn(bn), bk(bk),
        rows(shape.heads * (shape.nope + shape.value)),
        scaleCols((shape.rank + bk - 1) / bk), codes(rows * shape.rank),
        scale((rows + bn - 1) / bn * scaleCols) {
    std::mt19937 random(seed);
    for (uint8_t &code : codes)
      do
        code = uint8_t(random());
      while ((code & 0x7F) == 0x7F);
    for (size_t i = 0; i < scale.size(); ++i)
      scale[i] = std::ldexp(1.0f + float(random() % 64) / 64,
                            int(i % 5) * 2 - 6 + int(i / scaleCols % 3));
  }

  /// One element by its row of the whole matrix.
  float at(int64_t row, int64_t column) const {
    return decodeE4M3(codes[row * shape.rank + column]) *
           scale[row / bn * scaleCols + column / bk];
  }
};

struct Halves {
  std::vector<float> keys, values;
  explicit Halves(const LatentHeads &shape)
      : keys(shape.heads * shape.nope * shape.rank),
        values(shape.heads * shape.value * shape.rank) {}
};

/// Every element against the definition of W12.
void expectSplit(const Matrix &matrix, const Halves &halves) {
  const LatentHeads &s = matrix.shape;
  const int64_t each = s.nope + s.value;
  for (int64_t h = 0; h < s.heads; ++h)
    for (int64_t i = 0; i < each; ++i)
      for (int64_t k = 0; k < s.rank; ++k) {
        float found =
            i < s.nope ? halves.keys[(h * s.nope + i) * s.rank + k]
                       : halves.values[(h * s.value + i - s.nope) * s.rank + k];
        ASSERT_EQ(found, matrix.at(h * each + i, k))
            << "head " << h << ", row " << i << ", column " << k;
      }
}

TEST(Heads, EdgesOfBlocks) {
  // 64 + 64 rows a head: each head is a block.
  Matrix matrix({3, 64, 64, 96}, 128, 128, 1);
  Halves halves(matrix.shape);
  absorbBlocks(matrix.codes, matrix.scale, matrix.shape, 128, 128, halves.keys,
               halves.values);
  expectSplit(matrix, halves);
}

TEST(Heads, HeadsThatStartInsideABlock) {
  // GLM-5: 192 + 256 rows a head, blocks of 128. Head 1 starts at row 448, in
  // the middle of block 3; the last block has 64 rows.
  Matrix matrix({5, 192, 256, 200}, 128, 128, 2);
  ASSERT_NE((192 + 256) % 128, 0);
  Halves halves(matrix.shape);
  absorbBlocks(matrix.codes, matrix.scale, matrix.shape, 128, 128, halves.keys,
               halves.values);
  expectSplit(matrix, halves);
  // Counting rows from each head's start instead gives other numbers, so the
  // test can tell.
  const LatentHeads &s = matrix.shape;
  float wrong = decodeE4M3(matrix.codes[448 * s.rank]) * matrix.scale[0];
  EXPECT_NE(halves.keys[192 * s.rank], wrong);
}

TEST(Heads, OddSizesAndBlocks) {
  unsigned seed = 3;
  for (LatentHeads shape : {LatentHeads{1, 1, 1, 1}, LatentHeads{4, 3, 5, 7},
                            LatentHeads{7, 33, 1, 65}})
    for (auto [bn, bk] :
         {std::pair<int64_t, int64_t>{1, 32}, {32, 32}, {128, 128}, {5, 3}}) {
      Matrix matrix(shape, bn, bk, seed++);
      Halves halves(shape);
      absorbBlocks(matrix.codes, matrix.scale, shape, bn, bk, halves.keys,
                   halves.values);
      expectSplit(matrix, halves);
    }
}

// Scores and results of both forms are the same numbers, apart from the order
// of sums: q . (w_kc c) = (q w_kc) . c, and sum_t p_t (w_vc c_t) = w_vc (sum_t
// p_t c_t).
TEST(Heads, AbsorbedAttentionIsTheExplicitOne) {
  Matrix matrix({3, 24, 40, 32}, 16, 16, 4);
  const LatentHeads &s = matrix.shape;
  const int64_t each = s.nope + s.value, tokens = 9;
  Halves halves(s);
  absorbBlocks(matrix.codes, matrix.scale, s, 16, 16, halves.keys,
               halves.values);
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<double> latents(tokens * s.rank), query(s.heads * s.nope),
      weights(tokens);
  for (std::vector<double> *list : {&latents, &query, &weights})
    for (double &value : *list)
      value = normal(random);

  auto expectNear = [](double a, double b, double size) {
    // Doubles over a few hundred terms of at most `size`.
    EXPECT_LE(std::abs(a - b), 1e-12 * size);
  };
  for (int64_t h = 0; h < s.heads; ++h) {
    std::vector<double> absorbed(s.rank), mixed(s.rank);
    for (int64_t k = 0; k < s.rank; ++k)
      for (int64_t i = 0; i < s.nope; ++i)
        absorbed[k] +=
            query[h * s.nope + i] * halves.keys[(h * s.nope + i) * s.rank + k];
    for (int64_t t = 0; t < tokens; ++t) {
      double direct = 0, through = 0, size = 0;
      for (int64_t k = 0; k < s.rank; ++k) {
        through += absorbed[k] * latents[t * s.rank + k];
        mixed[k] += weights[t] * latents[t * s.rank + k];
      }
      for (int64_t i = 0; i < s.nope; ++i) {
        double key = 0;
        for (int64_t k = 0; k < s.rank; ++k) {
          double term = matrix.at(h * each + i, k) * latents[t * s.rank + k];
          key += term;
          size += std::abs(query[h * s.nope + i] * term);
        }
        direct += query[h * s.nope + i] * key;
      }
      expectNear(direct, through, size);
    }
    for (int64_t i = 0; i < s.value; ++i) {
      double direct = 0, through = 0, size = 0;
      for (int64_t k = 0; k < s.rank; ++k)
        through += halves.values[(h * s.value + i) * s.rank + k] * mixed[k];
      for (int64_t t = 0; t < tokens; ++t)
        for (int64_t k = 0; k < s.rank; ++k) {
          double term = weights[t] * matrix.at(h * each + s.nope + i, k) *
                        latents[t * s.rank + k];
          direct += term;
          size += std::abs(term);
        }
      expectNear(direct, through, size);
    }
  }
}

} // namespace
