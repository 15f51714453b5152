//===- LedgerTest.cpp - The precision ledger ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Ledger/Ledger.h"

#include "dialects/Quant/QuantDialect.h"
#include "lib/Ledger/Values.h"
#include "mlir/IR/MLIRContext.h"
#include "octet/Numerics/Numerics.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace octet;
using namespace mlir;

namespace {

struct LedgerTest : testing::Test {
  LedgerTest() { context.loadDialect<q::QuantDialect>(); }
  q::KvType makeCache(q::KvLayout layout, int64_t heads, int64_t dim,
                      int64_t rope) {
    return q::KvType::get(&context, layout, 64, heads, dim, rope);
  }
  int64_t sumBytes(q::KvType type) {
    int64_t sum = 0;
    for (const LedgerPart &part : makeCacheParts(type))
      sum += part.getBytes();
    return sum;
  }
  MLIRContext context;
};

/// Errors of rounding Gaussian values, group by group, as N2 to N4 say.
struct Measured {
  double relative = 0; ///< largest, of values that are normal
  double absolute = 0; ///< largest of the others, as a part of the largest
  double rms = 0;      ///< of all, as a part of their root mean square
};

Measured measureE4M3(bool ue8m0) {
  constexpr int64_t kRows = 4096, kGroup = 128;
  std::mt19937 random(7);
  std::normal_distribution<float> gauss(0, 1);
  std::vector<float> x(kRows * kGroup), scale(kRows);
  for (float &value : x)
    value = gauss(random);
  // Small ones, too, so that some are below what is normal.
  for (size_t i = 0; i < x.size(); i += 16)
    x[i] *= std::ldexp(1.0f, -int(i / 16 % 24));
  std::vector<uint8_t> q(x.size());
  quantizeRows(x, kRows, kGroup, kGroup, ue8m0, q, scale);
  Measured measured;
  double error = 0, all = 0;
  for (int64_t i = 0; i < kRows * kGroup; ++i) {
    double s = scale[i / kGroup];
    double largest = 0;
    for (int64_t k = 0; k < kGroup; ++k)
      largest = std::max(largest, std::abs(double(x[i / kGroup * kGroup + k])));
    double wrong = std::abs(double(decodeE4M3(q[i])) * s - double(x[i]));
    error += wrong * wrong;
    all += double(x[i]) * double(x[i]);
    if (std::abs(x[i]) >= s * 0x1p-6)
      measured.relative = std::max(measured.relative, wrong / std::abs(x[i]));
    else
      measured.absolute = std::max(measured.absolute, wrong / largest);
  }
  measured.rms = std::sqrt(error / all);
  return measured;
}

// N5: 2^-4 of a normal value at most, 2^-4/sqrt(6) on average, 2^-10 s below
// 2^-6 s. What the reference arithmetic does stays inside and comes close.
TEST_F(LedgerTest, BoundsHoldForE4M3) {
  Type e4m3 = Float8E4M3FNType::get(&context);
  for (bool ue8m0 : {false, true}) {
    std::optional<LedgerError> bound = describeRounding(e4m3, ue8m0);
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->relative, 0x1p-4);
    EXPECT_DOUBLE_EQ(bound->rms, 0x1p-4 / std::sqrt(6));
    // 448 is the largest, or up to twice what the largest value needs (N4).
    double room = ue8m0 ? 2 : 1;
    EXPECT_DOUBLE_EQ(bound->normalFrom, room * 0x1p-6 / 448);
    EXPECT_DOUBLE_EQ(bound->absolute, room * 0x1p-10 / 448);
    Measured measured = measureE4M3(ue8m0);
    EXPECT_LE(measured.relative, bound->relative * (1 + 1e-6));
    EXPECT_GE(measured.relative, bound->relative * 0.9);
    EXPECT_LE(measured.absolute, bound->absolute * (1 + 1e-6));
    EXPECT_GE(measured.absolute, bound->absolute * 0.4);
    EXPECT_NEAR(measured.rms, bound->rms, 0.1 * bound->rms) << ue8m0;
  }
}

// One rounding of FP32 to BF16: 8 bits of precision.
TEST_F(LedgerTest, BoundsHoldForBF16) {
  std::optional<LedgerError> bound =
      describeRounding(BFloat16Type::get(&context));
  ASSERT_TRUE(bound);
  EXPECT_EQ(bound->relative, 0x1p-8);
  EXPECT_EQ(bound->normalFrom, 0);
  std::mt19937 random(3);
  std::normal_distribution<float> gauss(0, 1);
  double largest = 0, error = 0, all = 0;
  for (int i = 0; i < 200000; ++i) {
    double x = gauss(random);
    double wrong = std::abs(double(decodeBF16(encodeBF16(float(x)))) - x);
    largest = std::max(largest, wrong / std::abs(x));
    error += wrong * wrong;
    all += x * x;
  }
  EXPECT_LE(largest, bound->relative * (1 + 1e-6));
  EXPECT_GE(largest, bound->relative * 0.9);
  EXPECT_NEAR(std::sqrt(error / all), bound->rms, 0.1 * bound->rms);
}

TEST_F(LedgerTest, BoundsOfOtherFormats) {
  // F16 has 11 bits; F32 is not rounded again.
  EXPECT_EQ(describeRounding(Float16Type::get(&context))->relative, 0x1p-11);
  EXPECT_FALSE(describeRounding(Float32Type::get(&context)));
  // Half a step of 1/127 of the largest value (N7).
  std::optional<LedgerError> i8 =
      describeRounding(IntegerType::get(&context, 8));
  EXPECT_TRUE(i8->ofLargest);
  EXPECT_DOUBLE_EQ(i8->relative, 1.0 / 254);
  EXPECT_DOUBLE_EQ(i8->rms, 1 / (127 * std::sqrt(12)));
  // Two mantissa bits.
  EXPECT_EQ(describeRounding(Float8E5M2Type::get(&context))->relative, 0x1p-3);
  EXPECT_EQ(boundSum(6144), 6144 * 0x1p-24);
}

// Per token and layer (P7, P7a, P9). 656 = 512 E4M3 + 4 scales of 4 bytes (one
// for each 128) + 64 of BF16; 132 = 128 + 4; 1152 = 2 (512 + 64).
TEST_F(LedgerTest, CachesAddUp) {
  auto dsMla = makeCacheParts(makeCache(q::KvLayout::FP8DsMla, 1, 512, 64));
  ASSERT_EQ(dsMla.size(), 2u);
  EXPECT_EQ(dsMla[0].codeBytes, 512);
  EXPECT_EQ(dsMla[0].scales->count, 4);
  EXPECT_EQ(dsMla[0].scales->bytes, 16);
  EXPECT_EQ(dsMla[1].codeBytes, 128);
  EXPECT_EQ(sumBytes(makeCache(q::KvLayout::FP8DsMla, 1, 512, 64)), 656);
  EXPECT_EQ(sumBytes(makeCache(q::KvLayout::FP8Indexer, 1, 128, 0)), 132);
  EXPECT_EQ(sumBytes(makeCache(q::KvLayout::BF16, 1, 512, 64)), 1152);
  EXPECT_EQ(sumBytes(makeCache(q::KvLayout::FP8E4M3, 1, 512, 64)), 576);
  // Keys and values of 8 heads of 128.
  EXPECT_EQ(sumBytes(makeCache(q::KvLayout::BF16, 8, 128, -1)), 4096);
  EXPECT_EQ(sumBytes(makeCache(q::KvLayout::FP8E4M3, 8, 128, -1)), 2048);
  for (q::KvLayout layout : {q::KvLayout::F32, q::KvLayout::F16})
    for (auto [heads, dim, rope] :
         {std::tuple(1, 96, 32), std::tuple(3, 80, -1), std::tuple(1, 64, 0)}) {
      q::KvType type = makeCache(layout, heads, dim, rope);
      EXPECT_EQ(sumBytes(type), type.getBytesPerToken());
    }
}

TEST_F(LedgerTest, PartsFollowTypes) {
  Type e4m3 = Float8E4M3FNType::get(&context), f32 = Float32Type::get(&context);
  auto block =
      q::GranularityAttr::get(&context, q::GranularityKind::Block, 1, 128);
  // A row of 6144: 48 groups; the rows of the step count as one.
  LedgerPart row = makeTokenPart(
      q::TensorType::get({ShapedType::kDynamic, 6144}, e4m3, block, f32));
  EXPECT_EQ(row.shape, (std::vector<int64_t>{6144}));
  EXPECT_EQ(row.scales->shape, (std::vector<int64_t>{48}));
  EXPECT_EQ(row.getBytes(), 6336);
  // Exponents in a byte are 48 bytes in place of 192, 0.8 % of the codes, and
  // the layout of a product's scales is no row's own (B1).
  for (q::Layout layout : {q::Layout::Plain, q::Layout::Ue8m0Packed}) {
    LedgerPart bytes = makeTokenPart(
        q::TensorType::get({ShapedType::kDynamic, 6144}, e4m3, block,
                           Float8E8M0FNUType::get(&context))
            .withLayout(layout));
    EXPECT_EQ(bytes.scales->bytes, 48);
    EXPECT_TRUE(bytes.scales->powerOfTwo);
  }
  // A ragged row of 200 has a short group.
  EXPECT_EQ(makeTokenPart(q::TensorType::get({ShapedType::kDynamic, 200}, e4m3,
                                             block, f32))
                .scales->count,
            2);
  // One scale of all tokens is no byte of one.
  LedgerPart fixed = makeTokenPart(q::TensorType::get(
      {ShapedType::kDynamic, 64}, e4m3,
      q::GranularityAttr::get(&context, q::GranularityKind::PerTensor), f32));
  EXPECT_TRUE(fixed.scales->isStatic);
  EXPECT_EQ(fixed.getBytes(), 64);
  // Sizes that no machine has do not overflow.
  LedgerPart huge = makeWeightPart(
      RankedTensorType::get({int64_t(1) << 40, int64_t(1) << 40}, f32), "w");
  EXPECT_EQ(huge.codeBytes, INT64_MAX);
}

/// A ledger in which a file chose the names. \param ours  what no file chooses.
Ledger makeHostile(const std::string &name, const std::string &ours) {
  Ledger ledger;
  ledger.facts = {{"architecture", name}, {name, name}};
  LedgerEntry entry;
  entry.rules = {"P3", ours};
  entry.module = name;
  entry.op = entry.arithmetic = ours;
  LedgerPart part;
  part.name = name;
  part.dtype = ours;
  part.scales.emplace();
  part.scales->granularity = part.scales->dtype = ours;
  entry.in = entry.out = entry.weights = {part};
  entry.notes = {name};
  entry.error = LedgerError{ours, 1, 1, 1, 1, false};
  LedgerSection section;
  section.kind = section.title = ours;
  section.layers = {{0, 2}, {5, 5}};
  section.entries = {entry};
  section.totals = sumEntries(section.entries);
  ledger.sections = {section};
  LedgerWeight weight;
  weight.slot = name;
  weight.tensors = {name};
  weight.part = part;
  weight.rewrites = {{{"W6", ours}, ours, entry.error}};
  ledger.weights = {weight};
  ledger.weightBytes[ours] = 1;
  ledger.weightScales = 1;
  return ledger;
}

TEST_F(LedgerTest, NamesAreTextInThePage) {
  const std::string hostile = "\"><script>alert('x')&\x1b";
  std::string page = formatLedgerHtml(makeHostile(hostile, hostile));
  EXPECT_EQ(page.find("<script"), page.npos);
  EXPECT_EQ(page.find("\x1b"), page.npos);
  EXPECT_NE(page.find("&lt;script&gt;"), page.npos);
  EXPECT_NE(page.find("layers 0 to 2 and 5 (4)"), page.npos);
  // No name ends an attribute: the same page with a harmless one has as many.
  std::string plain = formatLedgerHtml(makeHostile("name", "name"));
  EXPECT_EQ(std::count(page.begin(), page.end(), '"'),
            std::count(plain.begin(), plain.end(), '"'));
  EXPECT_EQ(std::count(page.begin(), page.end(), '<'),
            std::count(plain.begin(), plain.end(), '<'));
}

TEST_F(LedgerTest, NamesAreTextOnATerminal) {
  std::string text = formatLedgerText(makeHostile("a\x1b[2J\nb", "BF16"));
  EXPECT_EQ(text.find('\x1b'), text.npos);
  EXPECT_EQ(text.find("\nb"), text.npos);
  std::string json = formatLedgerJson(makeHostile("\xff\"\n", "BF16"));
  EXPECT_EQ(json.find('\xff'), json.npos);
}

TEST_F(LedgerTest, Sums) {
  LedgerEntry entry;
  LedgerPart codes{"slot", "F8_E4M3", {256}, 256, 256, LedgerScales{}};
  codes.scales->dtype = "F32";
  codes.scales->count = 2;
  codes.scales->bytes = 8;
  LedgerPart plain{"", "BF16", {256}, 256, 512, std::nullopt};
  entry.in = {plain};
  entry.out = entry.weights = {codes};
  entry.error = describeRounding(Float8E4M3FNType::get(&context));
  entry.isCache = true;
  // Twice the same: what is written counts twice, a weight once.
  LedgerTotals totals = sumEntries({entry, entry});
  EXPECT_EQ(totals.roundings, 2);
  EXPECT_EQ(totals.switches, 2);
  EXPECT_EQ(totals.writtenBytes, 528);
  EXPECT_EQ(totals.written["F8_E4M3"], 512);
  EXPECT_EQ(totals.written["F32"], 16);
  EXPECT_EQ(totals.cacheBytes, 528);
  EXPECT_EQ(totals.movedBytes, 0);
  EXPECT_EQ(totals.weightBytes, 264);
  EXPECT_EQ(totals.weightScales, 2);
  // A rounding to BF16 is none of 8 bits.
  entry.error = describeRounding(BFloat16Type::get(&context));
  EXPECT_EQ(sumEntries({entry}).roundings, 0);
}

} // namespace
