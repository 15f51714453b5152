//===- GemmTilesTest.cpp - Products on weights in tiles -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Weights are packed here as FORMATS.md says, made into tiles by the runtime,
// and multiplied; what comes out is compared with the numbers they stand for.
//
//===----------------------------------------------------------------------===//

#include "TestSupport.h"
#include "runtime/cpu/Grouped.h"
#include <sys/mman.h>
#include <unistd.h>

using namespace octet;
using namespace octet::test;

namespace {

constexpr uint32_t kSeed = 20261130;

struct Spec {
  const char *name;
  int32_t packing, bits, code, scale, offset, global;
  bool ordered;
  int64_t group; ///< 0: all of K
  int32_t type = 0;
};
constexpr Spec kSpecs[] = {
    {"q4_0", OCTET_PACKING_GGUF, 4, OCTET_CODE_BIASED, OCTET_F16,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_NONE, false, 32, OCTET_Q4_0},
    {"q4_1", OCTET_PACKING_GGUF, 4, OCTET_CODE_UNSIGNED, OCTET_F16,
     OCTET_OFFSET_MINIMUMS, OCTET_GLOBAL_NONE, false, 32, OCTET_Q4_1},
    {"awq", OCTET_PACKING_AWQ, 4, OCTET_CODE_UNSIGNED, OCTET_F16,
     OCTET_OFFSET_ZEROS, OCTET_GLOBAL_NONE, false, 32},
    {"gptq", OCTET_PACKING_K, 4, OCTET_CODE_UNSIGNED, OCTET_F16,
     OCTET_OFFSET_ZEROS_MINUS_ONE, OCTET_GLOBAL_NONE, false, 128},
    {"gptq act-order", OCTET_PACKING_K, 4, OCTET_CODE_UNSIGNED, OCTET_F16,
     OCTET_OFFSET_ZEROS_MINUS_ONE, OCTET_GLOBAL_NONE, true, 64},
    {"gptq_v2 8 bits", OCTET_PACKING_K, 8, OCTET_CODE_UNSIGNED, OCTET_F16,
     OCTET_OFFSET_ZEROS, OCTET_GLOBAL_NONE, false, 32},
    {"gptq 8 bits of a channel", OCTET_PACKING_K, 8, OCTET_CODE_UNSIGNED,
     OCTET_F16, OCTET_OFFSET_ZEROS_MINUS_ONE, OCTET_GLOBAL_NONE, false, 0},
    {"packed", OCTET_PACKING_ROWS, 4, OCTET_CODE_BIASED, OCTET_BF16,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_NONE, false, 32},
    {"packed, odd groups with zeros", OCTET_PACKING_ROWS, 4,
     OCTET_CODE_UNSIGNED, OCTET_F32, OCTET_OFFSET_ZEROS, OCTET_GLOBAL_NONE,
     true, 20},
    {"packed of a channel", OCTET_PACKING_ROWS, 4, OCTET_CODE_BIASED, OCTET_F16,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_NONE, false, 0},
    {"packed 8 bits", OCTET_PACKING_ROWS, 8, OCTET_CODE_BIASED, OCTET_BF16,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_NONE, false, 128},
    {"mxfp4", OCTET_PACKING_ROWS, 4, OCTET_CODE_E2M1, OCTET_E8M0,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_NONE, false, 32},
    {"nvfp4", OCTET_PACKING_ROWS, 4, OCTET_CODE_E2M1, OCTET_E4M3,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_MULTIPLIES, false, 16},
    {"nvfp4 divided", OCTET_PACKING_ROWS, 4, OCTET_CODE_E2M1, OCTET_E4M3,
     OCTET_OFFSET_NONE, OCTET_GLOBAL_DIVIDES, false, 16},
};

bool isFp4(const Spec &s) { return s.code == OCTET_CODE_E2M1; }

/// Sides that the packing has a place for.
int64_t fitK(const Spec &s, int64_t k) {
  if (s.packing == OCTET_PACKING_GGUF || s.packing == OCTET_PACKING_AWQ ||
      isFp4(s))
    return ceilDiv(k, s.group) * s.group;
  return s.packing == OCTET_PACKING_K ? ceilDiv(k, 8) * 8 : k;
}
int64_t fitN(const Spec &s, int64_t n) {
  return s.packing == OCTET_PACKING_AWQ || s.packing == OCTET_PACKING_K
             ? ceilDiv(n, 8) * 8
             : n;
}

/// Little-endian words of `bits`-bit fields.
struct Words {
  std::vector<uint8_t> bytes;
  void set(int64_t word, int64_t place, int bits, uint32_t value) {
    const int64_t bit = word * 32 + place * bits;
    if (bytes.size() < size_t(word + 1) * 4)
      bytes.resize(size_t(word + 1) * 4);
    for (int b = 0; b < bits; ++b)
      if (value >> b & 1)
        bytes[size_t((bit + b) / 8)] |= uint8_t(1 << (bit + b) % 8);
  }
};

/// One part: random codes, packed, and the value of each.
class Part {
public:
  Part(const Spec &s, int64_t rows, int64_t k, std::mt19937 &random)
      : spec(s), rows(rows), k(k) {
    const int64_t size = s.group ? std::min(s.group, k) : k;
    groups = ceilDiv(k, size);
    m.groups = {size,     s.bits,    s.code,    s.scale, s.offset,
                s.global, s.ordered, s.packing, 0};
    m.type = s.type;
    m.rows = rows;
    m.cols = k;
    order.resize(size_t(k));
    for (int64_t i = 0; i < k; ++i)
      order[size_t(i)] = int32_t(i / size);
    if (s.ordered)
      std::shuffle(order.begin(), order.end(), random);
    std::uniform_real_distribution<float> scales(0.01f, 0.1f);
    for (int64_t i = 0; i < rows * groups; ++i) {
      scale.push_back(scaleOf(scales(random), random));
      minimum.push_back(decodeF16(encodeF16(scales(random) - 0.05f)));
      zero.push_back(s.offset == OCTET_OFFSET_NONE
                         ? 0
                         : 1 + random() % ((1u << s.bits) - 1));
    }
    global = s.global == OCTET_GLOBAL_NONE ? 1.0f : 0.37f;
    for (int64_t i = 0; i < rows * k; ++i)
      code.push_back(random() & ((1u << s.bits) - 1));
    pack();
    tile();
  }
  ~Part() { munmap(base, size); }
  Part(const Part &) = delete;

  double number(uint32_t c) const {
    if (isFp4(spec))
      return decodeE2M1(uint8_t(c));
    return spec.code == OCTET_CODE_BIASED ? double(c) - (1 << (spec.bits - 1))
                                          : double(c);
  }
  double value(int64_t row, int64_t col) const {
    return weigh(row, col, number(code[size_t(row * k + col)]), -1);
  }
  /// The sum of what the kernel adds for one element, without its signs.
  double magnitude(int64_t row, int64_t col) const {
    return weigh(row, col, std::fabs(number(code[size_t(row * k + col)])), 1);
  }

  octet_part part() const { return {begin, &factor, rows, -1, -1}; }

  rt::GroupedMatrix m;
  std::vector<int32_t> order;
  Words words, zeros;
  std::vector<uint8_t> scaleBytes;
  float global;

private:
  static float decodeE2M1(uint8_t c) {
    const float values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    return c & 8 ? -values[c & 7] : values[c & 7];
  }
  double weigh(int64_t row, int64_t col, double n, int sign) const {
    const size_t at = size_t(row * groups + order[size_t(col)]);
    const double factors =
        spec.global == OCTET_GLOBAL_DIVIDES ? 1 / double(global) : global;
    if (spec.offset == OCTET_OFFSET_MINIMUMS)
      return n * scale[at] + (sign > 0 ? std::fabs(minimum[at]) : minimum[at]);
    return (n + sign * double(zero[at])) * scale[at] * factors;
  }
  float scaleOf(float wanted, std::mt19937 &random) const {
    switch (spec.scale) {
    case OCTET_E8M0:
      return std::ldexp(1.0f, int(random() % 5) - 4);
    case OCTET_E4M3:
      return decodeE4M3(uint8_t(1 + random() % 0x40)); // subnormal ones too
    default:
      return decode(spec.scale, encode(spec.scale, wanted));
    }
  }
  void pushScale(float value) {
    if (spec.scale == OCTET_E8M0) {
      scaleBytes.push_back(uint8_t(std::ilogb(value) + 127));
      return;
    }
    const uint32_t bits = encode(spec.scale, value);
    for (size_t b = 0; b < bytesOf(spec.scale); ++b)
      scaleBytes.push_back(uint8_t(bits >> 8 * b));
  }
  void pack();
  void tile();

  Spec spec;
  int64_t rows, k, groups = 0;
  std::vector<float> scale, minimum;
  std::vector<uint32_t> zero, code;
  float factor = 1;
  uint8_t *base = nullptr, *begin = nullptr;
  size_t size = 0;
};

void Part::pack() {
  const int perWord = 32 / spec.bits;
  const int kAwq[8] = {0, 2, 4, 6, 1, 3, 5, 7};
  auto nibbleOf = [&](int64_t column) {
    return std::find(kAwq, kAwq + 8, column % 8) - kAwq;
  };
  if (spec.packing == OCTET_PACKING_GGUF) {
    for (int64_t b = 0; b < rows * groups; ++b) {
      for (float field : {scale[size_t(b)], minimum[size_t(b)]}) {
        if (spec.type == OCTET_Q4_0 && field == minimum[size_t(b)] &&
            words.bytes.size() % 18 == 2)
          break;
        const uint16_t bits = uint16_t(encodeF16(field));
        words.bytes.push_back(uint8_t(bits));
        words.bytes.push_back(uint8_t(bits >> 8));
      }
      for (int64_t i = 0; i < 16; ++i)
        words.bytes.push_back(uint8_t(code[size_t(b * 32 + i)] |
                                      code[size_t(b * 32 + 16 + i)] << 4));
    }
    m.codes = words.bytes.data();
    return;
  }
  const int64_t minus = spec.offset == OCTET_OFFSET_ZEROS_MINUS_ONE;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < k; ++c) {
      const uint32_t v = code[size_t(r * k + c)];
      if (spec.packing == OCTET_PACKING_K)
        words.set(c / perWord * rows + r, c % perWord, spec.bits, v);
      else if (spec.packing == OCTET_PACKING_AWQ)
        words.set(c * (rows / 8) + r / 8, nibbleOf(r), spec.bits, v);
      else if (isFp4(spec)) // bytes: K is even
        words.set((r * k / 2 + c / 2) / 4, (r * k / 2 + c / 2) % 4 * 2 + c % 2,
                  4, v);
      else
        words.set(r * ceilDiv(k, perWord) + c / perWord, c % perWord, spec.bits,
                  v);
    }
  for (int64_t r = 0; spec.offset != OCTET_OFFSET_NONE && r < rows; ++r)
    for (int64_t g = 0; g < groups; ++g) {
      const auto z = uint32_t(zero[size_t(r * groups + g)] - minus);
      if (spec.packing == OCTET_PACKING_ROWS)
        zeros.set(r / perWord * groups + g, r % perWord, spec.bits, z);
      else
        zeros.set(g * ceilDiv(rows, perWord) + r / perWord,
                  spec.packing == OCTET_PACKING_AWQ ? nibbleOf(r) : r % perWord,
                  spec.bits, z);
    }
  if (spec.packing == OCTET_PACKING_ROWS) {
    for (float s : scale)
      pushScale(s);
  } else {
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t r = 0; r < rows; ++r)
        pushScale(scale[size_t(r * groups + g)]);
  }
  m.codes = words.bytes.data();
  m.scales = scaleBytes.data();
  m.zeros = spec.offset == OCTET_OFFSET_NONE ? nullptr : zeros.bytes.data();
  m.global = spec.global == OCTET_GLOBAL_NONE ? nullptr : &global;
  m.order = spec.ordered ? order.data() : nullptr;
}

/// Tiles that end where a page begins that may not be read.
void Part::tile() {
  rt::ThreadPool pool(2);
  const rt::BadGroup bad = rt::checkGroups(pool, m);
  if (bad)
    ADD_FAILURE() << "good weight refused: " << bad.what;
  const size_t bytes = size_t(ceilDiv(rt::tiledBytes(m), 64) * 64);
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  size = (bytes + page - 1) / page * page + page;
  base = static_cast<uint8_t *>(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (base == MAP_FAILED)
    std::abort();
  mprotect(base + size - page, page, PROT_NONE);
  begin = base + size - page - bytes;
  rt::tileWeight(pool, m, begin);
  factor = rt::globalFactor(m);
}

struct Case {
  int64_t m, k;
  std::vector<int64_t> parts;
  int32_t x, y, bias;
};

std::vector<Case> cases() {
  constexpr int32_t F32 = OCTET_F32, B = OCTET_BF16, H = OCTET_F16;
  std::vector<Case> all;
  const std::vector<std::pair<int64_t, int64_t>> sizes = {
      {1, 32},  {1, 576}, {2, 96},   {3, 130},
      {4, 128}, {5, 300}, {17, 160}, {70, 257}};
  const std::vector<std::vector<int64_t>> parts = {
      {1}, {16}, {33, 7}, {65, 3, 5}, {130}};
  const std::tuple<int32_t, int32_t, int32_t> types[] = {
      {F32, F32, F32}, {B, B, F32}, {B, F32, -1}, {H, H, H}};
  size_t turn = 0;
  for (auto [x, y, bias] : types)
    for (auto [m, k] : sizes)
      all.push_back({m, k, parts[turn++ % parts.size()], x, y, bias});
  return all;
}

struct Operands {
  Operands(Case given, const Spec &spec, std::mt19937 &random)
      : c(fit(std::move(given), spec)), x(c.x, c.m * c.k) {
    x.randomize(random, 1.5f);
    weight.num_parts = biasWeight.num_parts = int64_t(c.parts.size());
    bias.reserve(c.parts.size());
    for (size_t p = 0; p < c.parts.size(); ++p) {
      w.push_back(std::make_unique<Part>(spec, c.parts[p], c.k, random));
      bias.emplace_back(c.bias < 0 ? OCTET_F32 : c.bias, c.parts[p])
          .randomize(random, 1);
      weight.parts[p] = w[p]->part();
      biasWeight.parts[p] = {p == 1 ? nullptr : bias[p].data(), nullptr,
                             c.parts[p], -1, -1};
      n += c.parts[p];
    }
    desc.module = "test";
    desc.n = n;
    desc.k = c.k;
    desc.x_type = c.x;
    desc.w_type = OCTET_TILES;
    desc.y_type = c.y;
    desc.bias_type = c.bias;
    desc.w_scale_mode = spec.global == OCTET_GLOBAL_NONE ? OCTET_SCALE_NONE
                                                         : OCTET_SCALE_TENSOR;
    desc.groups = w[0]->m.groups;
    if (spec.scale == OCTET_BF16)
      desc.groups.scale_type = OCTET_F32;
    if (spec.offset == OCTET_OFFSET_ZEROS_MINUS_ONE)
      desc.groups.offset = OCTET_OFFSET_ZEROS;
  }
  static Case fit(Case c, const Spec &spec) {
    c.k = fitK(spec, c.k);
    for (int64_t &rows : c.parts)
      rows = fitN(spec, rows);
    return c;
  }

  Tensor run(rt::ThreadPool &pool, const rt::KernelTable &kernels,
             int64_t first, int64_t rows) const {
    Tensor y(c.y, rows * n);
    for (int64_t i = 0; i < y.count; ++i)
      y.set(i, 12345); // everything must be written
    const char *data = static_cast<const char *>(x.data()) +
                       first * c.k * int64_t(bytesOf(c.x));
    kernels.gemm(pool, desc, rows, data, nullptr, weight,
                 c.bias < 0 ? nullptr : &biasWeight, y.data());
    return y;
  }

  /// y = x w^T + bias in double. The kernel adds a group's products one after
  /// the other, then the groups, each sum off by half a unit.
  void check(const Tensor &y) const {
    const double roundings = 0x1p-24 * double(2 * c.k + 16);
    int64_t column = 0;
    for (size_t p = 0; p < c.parts.size(); ++p)
      for (int64_t row = 0; row < c.parts[p]; ++row, ++column) {
        std::vector<double> value, magnitude;
        for (int64_t k = 0; k < c.k; ++k) {
          value.push_back(w[p]->value(row, k));
          magnitude.push_back(w[p]->magnitude(row, k));
        }
        for (int64_t i = 0; i < c.m; ++i) {
          double sum = 0, sizes = 0;
          for (int64_t k = 0; k < c.k; ++k) {
            const double factor = x.value(i * c.k + k);
            sum += factor * value[size_t(k)];
            sizes += std::fabs(factor) * magnitude[size_t(k)];
          }
          if (c.bias >= 0 && p != 1) {
            sum += bias[p].value(row);
            sizes += std::fabs(bias[p].value(row));
          }
          const double bound =
              roundings * sizes +
              roundingError(c.y, std::fabs(sum) + roundings * sizes);
          ASSERT_LE(std::fabs(y.value(i * n + column) - sum), bound)
              << "at [" << i << ", " << column
              << "]: " << y.value(i * n + column) << " and " << sum;
        }
      }
  }

  Case c;
  octet_gemm_desc desc{};
  Tensor x;
  std::vector<std::unique_ptr<Part>> w;
  std::vector<Tensor> bias;
  octet_weight weight{}, biasWeight{};
  int64_t n = 0;
};

class GemmTiles : public EveryLevel {};
OCTET_EVERY_LEVEL(GemmTiles);

TEST_P(GemmTiles, B4_N7_MatchesDouble) {
  std::mt19937 random(kSeed);
  rt::ThreadPool pool(2);
  for (const Spec &spec : kSpecs)
    for (const Case &c : cases()) {
      SCOPED_TRACE(::testing::Message()
                   << spec.name << " m " << c.m << " k " << c.k << " x "
                   << nameOf(c.x) << ", seed " << kSeed);
      Operands operands(c, spec, random);
      operands.check(operands.run(pool, kernels(), 0, c.m));
      if (HasFatalFailure())
        return;
    }
}

TEST_P(GemmTiles, B5_RowsAndThreadsDoNotMatter) {
  std::mt19937 random(kSeed + 1);
  rt::ThreadPool one(1), three(3);
  for (const Spec &spec : kSpecs)
    for (const Case &c : cases()) {
      SCOPED_TRACE(::testing::Message()
                   << spec.name << " m " << c.m << " k " << c.k);
      Operands operands(c, spec, random);
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

TEST_P(GemmTiles, EveryElementAndCode) {
  // x is 1 at one element and 0 elsewhere: y is the weight itself, by the paths
  // of one and of many rows.
  std::mt19937 random(kSeed + 2);
  rt::ThreadPool pool(1);
  for (const Spec &spec : kSpecs)
    for (int32_t type : {OCTET_F32, OCTET_BF16, OCTET_F16}) {
      SCOPED_TRACE(::testing::Message() << spec.name << ' ' << nameOf(type));
      const int64_t k = fitK(spec, 72);
      Operands operands({k, k, {256}, type, OCTET_F32, -1}, spec, random);
      for (int64_t i = 0; i < operands.x.count; ++i)
        operands.x.set(i, i / k == i % k ? 1 : 0);
      for (bool alone : {false, true})
        for (int64_t e = 0; e < k; e += alone ? 1 : k) {
          const Tensor y = operands.run(pool, kernels(), e, alone ? 1 : k);
          for (int64_t i = 0; i < y.count; ++i) {
            const double value = operands.w[0]->value(i % 256, e + i / 256);
            // Scale, minimum and global scale are rounded once each.
            ASSERT_NEAR(y.value(i), value,
                        3 * 0x1p-24 *
                            operands.w[0]->magnitude(i % 256, e + i / 256))
                << "element " << e + i / 256 << " of row " << i % 256;
          }
        }
    }
}

TEST(GemmTilesLevels, FmaFamilyIsEqualAtV3AndAVX512) {
  if (rt::detectLevel() < OCTET_LEVEL_AVX512)
    GTEST_SKIP() << "this machine has no SIMD level avx512";
  std::mt19937 random(kSeed + 3);
  rt::ThreadPool pool(2);
  for (const Spec &spec : kSpecs)
    for (const Case &c : cases()) {
      Operands operands(c, spec, random);
      ASSERT_TRUE(sameBits(
          operands.run(pool, rt::kernelTable(OCTET_LEVEL_V3), 0, c.m),
          operands.run(pool, rt::kernelTable(OCTET_LEVEL_AVX512), 0, c.m),
          operands.n));
    }
}

//===----------------------------------------------------------------------===//
// Hostile values
//===----------------------------------------------------------------------===//

const Spec &specOf(const char *name) {
  for (const Spec &spec : kSpecs)
    if (std::string_view(spec.name) == name)
      return spec;
  std::abort();
}

/// What checkGroups says after `change`.
rt::BadGroup check(const char *name, auto &&change) {
  std::mt19937 random(kSeed + 4);
  rt::ThreadPool pool(2);
  Part part(specOf(name), 24, 256, random);
  change(part);
  return rt::checkGroups(pool, part.m);
}

void setHalf(std::vector<uint8_t> &bytes, int64_t index, float value) {
  const uint16_t bits = uint16_t(encodeF16(value));
  std::memcpy(bytes.data() + 2 * index, &bits, 2);
}

TEST(GroupedCheck, W6_Scales) {
  const float kNaN = std::numeric_limits<float>::quiet_NaN();
  const std::pair<float, const char *> values[] = {
      {kNaN, "NaN"},
      {INFINITY, "infinite"},
      {-INFINITY, "negative"},
      {-0.5f, "negative"},
      {0, "zero with a non-zero group"}};
  for (auto [value, what] : values) {
    // Groups first: [1, 5] of 8 groups and 24 rows.
    rt::BadGroup bad =
        check("awq", [&](Part &p) { setHalf(p.scaleBytes, 29, value); });
    EXPECT_EQ(bad.part, rt::BadGroup::Scales);
    EXPECT_EQ(bad.index, 29);
    EXPECT_EQ(bad.what, std::string(what) + "; a scale is finite and positive");
  }
  rt::BadGroup bad = check("mxfp4", [](Part &p) { p.scaleBytes[13] = 0xFF; });
  EXPECT_EQ(bad.index, 13);
  EXPECT_EQ(bad.what, "NaN; a scale is finite and positive");
  bad = check("nvfp4", [](Part &p) { p.scaleBytes[7] = 0xFF; });
  EXPECT_EQ(bad.index, 7);
  bad = check("nvfp4", [](Part &p) { p.scaleBytes[7] = 0x80 | 0x38; });
  EXPECT_EQ(bad.what, "negative; a scale is finite and positive");
  for (float value : {0.0f, -1.0f, INFINITY, kNaN}) {
    bad = check("nvfp4 divided", [&](Part &p) { p.global = value; });
    EXPECT_EQ(bad.part, rt::BadGroup::Global) << value;
  }
}

TEST(GroupedCheck, W6_ZeroScaleOfAZeroGroup) {
  // All codes of row 0, group 0 are the zero point: the group is zero.
  rt::BadGroup bad = check("gptq", [](Part &p) {
    setHalf(p.scaleBytes, 0, 0);
    std::fill_n(p.zeros.bytes.begin(), 1, uint8_t(0x77));
    for (int64_t word = 0; word < 16; ++word)
      std::fill_n(p.words.bytes.begin() + word * 24 * 4, 4, uint8_t(0x88));
  });
  EXPECT_FALSE(bad) << bad.what;
}

TEST(GroupedCheck, W1_Order) {
  rt::BadGroup bad = check("gptq act-order", [](Part &p) { p.order[3] = 4; });
  EXPECT_EQ(bad.part, rt::BadGroup::Order);
  EXPECT_EQ(bad.index, 3);
  EXPECT_STREQ(bad.rule, "W1");
  EXPECT_EQ(bad.what, "4; expected a group from 0 to 3");
  bad = check("gptq act-order", [](Part &p) { p.order[0] = -1; });
  EXPECT_EQ(bad.index, 0);
  bad = check("gptq act-order",
              [](Part &p) { p.order.back() = (p.order.back() + 1) % 4; });
  EXPECT_EQ(bad.part, rt::BadGroup::Order);
  EXPECT_NE(bad.what.find("a group has 64"), std::string::npos) << bad.what;
}

TEST(GroupedCheck, W1_ZeroPointsHaveTheRoomOfACode) {
  rt::BadGroup bad = check("gptq 8 bits of a channel", [](Part &p) {
    p.zeros.bytes[5] = 0xFF; // word 1: rows 4 to 7
  });
  EXPECT_EQ(bad.part, rt::BadGroup::Zeros);
  EXPECT_EQ(bad.index, 1);
  EXPECT_NE(bad.what.find("row 5"), std::string::npos) << bad.what;
}

TEST(GroupedCheck, W6_FieldsOfBlocksAreFinite) {
  rt::BadGroup bad = check("q4_1", [](Part &p) {
    const uint16_t bits = 0x7C00; // the minimum of the second block
    std::memcpy(p.words.bytes.data() + 22, &bits, 2);
  });
  EXPECT_EQ(bad.part, rt::BadGroup::Blocks);
  EXPECT_EQ(bad.index, 3);
  EXPECT_EQ(bad.what, "infinite");
}

TEST(TileLayout, BytesAreWhatTheGroupsHave) {
  // 64 rows of 576 columns in groups of 32: 64 F16 scales, 64 minimums and
  // 64 * 16 bytes of codes each.
  rt::TileLayout layout;
  layout.cols = 576;
  layout.group = 32;
  layout.offsetBytes = 2;
  EXPECT_EQ(layout.groupBytes(0), 128 + 128 + 1024);
  EXPECT_EQ(layout.bytes(65), 2 * 18 * 1280);
  // Groups of 20 take three vectors, the last one of 17 columns too.
  layout.cols = 57;
  layout.group = 20;
  layout.planes = 2;
  layout.scaleBytes = 4;
  layout.offsetBytes = 0;
  EXPECT_EQ(layout.groupBytes(0), 256 + 3 * 2 * 256);
  EXPECT_EQ(layout.tileBytes(), 3 * 1792);
  EXPECT_EQ(layout.paddedColumns(), 72);
}

} // namespace
