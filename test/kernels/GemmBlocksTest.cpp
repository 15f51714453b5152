//===- GemmBlocksTest.cpp - Products on GGUF's blocks ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "octet/Checkpoint/TensorReader.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/Types.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace octet;
using namespace octet::test;

namespace {

constexpr uint32_t kSeed = 20261130;

struct Format {
  int32_t type;
  Packing packing;
};
constexpr Format kFormats[] = {{OCTET_Q8_0, Packing::Q8_0}};

/// Rows of blocks that end where a page ends that may not be read, so that a
/// byte read behind them is a crash; their values are lib/Checkpoint's.
class Blocks {
public:
  Blocks(const Format &format, int64_t rows, int64_t k, std::mt19937 &random)
      : bytes(static_cast<size_t>(rows * rt::rowBytes(format.type, k))) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size = (bytes + page - 1) / page * page + page;
    base = static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base == MAP_FAILED)
      std::abort();
    mprotect(base + size - page, page, PROT_NONE);
    begin = base + size - page - bytes;
    for (size_t i = 0; i < bytes; ++i)
      begin[i] = static_cast<uint8_t>(random());
    // Scales of either sign, and now and then 0.
    std::uniform_real_distribution<float> scales(-0.1f, 0.1f);
    const size_t block = static_cast<size_t>(rt::blockBytes(format.type));
    for (size_t at = 0; at < bytes; at += block)
      for (int64_t f = 0; f < rt::blockFields(format.type); ++f) {
        const uint16_t bits = random() % 16 ? encodeF16(scales(random)) : 0;
        std::memcpy(begin + at + 2 * static_cast<size_t>(f), &bits, 2);
      }
    values.resize(static_cast<size_t>(rows * k));
    unpackBlocks(format.packing,
                 {reinterpret_cast<const std::byte *>(begin), bytes}, values);
  }
  ~Blocks() { munmap(base, size); }
  Blocks(const Blocks &) = delete;

  uint8_t *begin = nullptr;
  std::vector<float> values;

private:
  size_t bytes, size = 0;
  uint8_t *base = nullptr;
};

struct Case {
  int64_t m, k;
  std::vector<int64_t> parts;
  int32_t x, y, bias;
};

std::vector<Case> cases() {
  constexpr int32_t F32 = OCTET_F32, B = OCTET_BF16, H = OCTET_F16;
  std::vector<Case> all;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {1, 32},   {1, 64},  {2, 96},   {3, 576},  {4, 128},
      {5, 1056}, {16, 64}, {17, 160}, {33, 992}, {70, 2080}};
  const std::vector<std::vector<int64_t>> parts = {
      {1}, {16}, {33, 7}, {50, 3, 5}, {97}};
  const std::tuple<int32_t, int32_t, int32_t> types[] = {
      {F32, F32, F32}, {B, B, F32}, {B, F32, -1}, {H, H, H}};
  size_t turn = 0;
  for (auto [x, y, bias] : types)
    for (auto [m, k] : sizes)
      all.push_back({m, k, parts[turn++ % parts.size()], x, y, bias});
  return all;
}

/// Operands of a case.
struct Operands {
  Operands(const Case &c, const Format &format, std::mt19937 &random)
      : c(c), x(c.x, c.m * c.k) {
    x.randomize(random, 1.5f);
    weight.num_parts = biasWeight.num_parts =
        static_cast<int64_t>(c.parts.size());
    bias.reserve(c.parts.size());
    for (size_t p = 0; p < c.parts.size(); ++p) {
      w.push_back(std::make_unique<Blocks>(format, c.parts[p], c.k, random));
      bias.emplace_back(c.bias < 0 ? OCTET_F32 : c.bias, c.parts[p])
          .randomize(random, 1);
      weight.parts[p] = {w[p]->begin, nullptr, c.parts[p], -1, -1};
      biasWeight.parts[p] = {p == 1 ? nullptr : bias[p].data(), nullptr,
                             c.parts[p], -1, -1};
      n += c.parts[p];
    }
    desc.module = "test";
    desc.n = n, desc.k = c.k;
    desc.x_type = c.x, desc.w_type = format.type, desc.y_type = c.y;
    desc.bias_type = c.bias;
  }

  Tensor run(rt::ThreadPool &pool, const rt::KernelTable &kernels,
             int64_t first, int64_t rows) const {
    Tensor y(c.y, rows * n);
    for (int64_t i = 0; i < y.count; ++i)
      y.set(i, 12345); // everything must be written
    const char *data = static_cast<const char *>(x.data()) +
                       first * c.k * static_cast<int64_t>(bytesOf(c.x));
    kernels.gemm(pool, desc, rows, data, nullptr, weight,
                 c.bias < 0 ? nullptr : &biasWeight, y.data());
    return y;
  }

  /// y = x w^T + bias in double, w rounded to the type of x (B4). The kernel
  /// adds in F32: k/16 additions to a lane, those of lanes and segments, and
  /// the final ones; each is off by half a unit.
  void check(const Tensor &y) const {
    const double roundings = 2.0 * (c.k / 16.0 + c.k / 1024.0 + 16) * 0x1p-24;
    int64_t column = 0;
    for (size_t p = 0; p < c.parts.size(); ++p)
      for (int64_t row = 0; row < c.parts[p]; ++row, ++column)
        for (int64_t i = 0; i < c.m; ++i) {
          double sum = 0, magnitude = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            const float value = w[p]->values[row * c.k + k];
            const double term =
                double(x.value(i * c.k + k)) * decode(c.x, encode(c.x, value));
            sum += term;
            magnitude += std::fabs(term);
          }
          if (c.bias >= 0 && p != 1) {
            sum += bias[p].value(row);
            magnitude += std::fabs(bias[p].value(row));
          }
          const double bound =
              roundings * magnitude +
              roundingError(c.y, std::fabs(sum) + roundings * magnitude);
          ASSERT_LE(std::fabs(y.value(i * n + column) - sum), bound)
              << "at [" << i << ", " << column
              << "]: " << y.value(i * n + column) << " and " << sum;
        }
  }

  Case c;
  octet_gemm_desc desc{};
  Tensor x;
  std::vector<std::unique_ptr<Blocks>> w;
  std::vector<Tensor> bias;
  octet_weight weight{}, biasWeight{};
  int64_t n = 0;
};

class GemmBlocks : public EveryLevel {};
OCTET_EVERY_LEVEL(GemmBlocks);

TEST_P(GemmBlocks, B4_MatchesDouble) {
  std::mt19937 random(kSeed);
  rt::ThreadPool pool(2);
  for (const Format &format : kFormats)
    for (const Case &c : cases()) {
      SCOPED_TRACE(::testing::Message()
                   << packingName(format.packing) << " m " << c.m << " k "
                   << c.k << " x " << nameOf(c.x) << ", seed " << kSeed);
      Operands operands(c, format, random);
      operands.check(operands.run(pool, kernels(), 0, c.m));
      if (HasFatalFailure())
        return;
    }
}

TEST_P(GemmBlocks, B5_RowsAndThreadsDoNotMatter) {
  std::mt19937 random(kSeed + 1);
  rt::ThreadPool one(1), three(3);
  for (const Format &format : kFormats)
    for (const Case &c : cases()) {
      SCOPED_TRACE(::testing::Message() << packingName(format.packing) << " m "
                                        << c.m << " k " << c.k);
      Operands operands(c, format, random);
      const Tensor whole = operands.run(one, kernels(), 0, c.m);
      ASSERT_TRUE(
          sameBits(whole, operands.run(three, kernels(), 0, c.m), operands.n));
      for (int64_t rows : {1, 3, 4, 16})
        for (int64_t first = 0; first < c.m; first += rows) {
          const int64_t count = std::min(rows, c.m - first);
          const Tensor part = operands.run(three, kernels(), first, count);
          for (int64_t i = 0; i < part.count; ++i)
            ASSERT_EQ(part.bits(i), whole.bits(first * operands.n + i))
                << "row " << first + i / operands.n << " in a batch of "
                << count;
        }
    }
}

TEST_P(GemmBlocks, EveryElementAndCode) {
  // x is 1 at one element and 0 elsewhere: y is the weight itself, rounded to
  // the type of x, by the paths of one and of many rows.
  constexpr int64_t kK = 96, kRows = 256;
  std::mt19937 random(kSeed + 2);
  rt::ThreadPool pool(1);
  for (const Format &format : kFormats)
    for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16}) {
      SCOPED_TRACE(::testing::Message()
                   << packingName(format.packing) << ' ' << nameOf(type));
      Operands operands({kK, kK, {kRows}, type, OCTET_F32, -1}, format, random);
      for (int64_t i = 0; i < operands.x.count; ++i)
        operands.x.set(i, i / kK == i % kK ? 1 : 0);
      for (bool alone : {false, true})
        for (int64_t k = 0; k < kK; k += alone ? 1 : kK) {
          const Tensor y = operands.run(pool, kernels(), k, alone ? 1 : kK);
          for (int64_t i = 0; i < y.count; ++i) {
            const float value =
                operands.w[0]->values[i % kRows * kK + k + i / kRows];
            ASSERT_EQ(y.value(i), decode(type, encode(type, value)))
                << "element " << k + i / kRows << " of row " << i % kRows;
          }
        }
    }
}

TEST(GemmBlocksLevels, FmaFamilyIsEqualAtV3AndAVX512) {
  if (rt::detectLevel() < OCTET_LEVEL_AVX512)
    GTEST_SKIP() << "this machine has no SIMD level avx512";
  std::mt19937 random(kSeed + 3);
  rt::ThreadPool pool(2);
  for (const Format &format : kFormats)
    for (const Case &c : cases()) {
      Operands operands(c, format, random);
      ASSERT_TRUE(sameBits(
          operands.run(pool, rt::kernelTable(OCTET_LEVEL_V3), 0, c.m),
          operands.run(pool, rt::kernelTable(OCTET_LEVEL_AVX512), 0, c.m),
          operands.n));
    }
}

} // namespace
