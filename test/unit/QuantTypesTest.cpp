//===- QuantTypesTest.cpp - What follows from a type of q -----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantDialect.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace octet;

namespace {

class QuantTypesTest : public ::testing::Test {
protected:
  QuantTypesTest() { context.loadDialect<q::QuantDialect>(); }

  q::GranularityAttr block(int64_t n, int64_t k) {
    return q::GranularityAttr::get(&context, q::GranularityKind::Block, n, k);
  }
  q::GranularityAttr granularity(q::GranularityKind kind) {
    return q::GranularityAttr::get(&context, kind);
  }
  q::TensorType type(ArrayRef<int64_t> shape, q::GranularityAttr granularity,
                     ArrayRef<int64_t> shards = {}) {
    return q::TensorType::get(&context, shape, Float8E4M3FNType::get(&context),
                              granularity, builder.getF32Type(), shards,
                              q::Offset::None, q::Layout::Plain);
  }

  using Shape = SmallVector<int64_t>;
  MLIRContext context;
  Builder builder{&context};
};

TEST_F(QuantTypesTest, W1ScaleShapes) {
  constexpr int64_t kDynamic = ShapedType::kDynamic;
  EXPECT_EQ(type({7168, 2048}, block(128, 128)).getScaleShape(),
            (Shape{56, 16}));
  EXPECT_EQ(type({1, 1}, block(128, 128)).getScaleShape(), (Shape{1, 1}));
  EXPECT_EQ(type({129, 127}, block(128, 128)).getScaleShape(), (Shape{2, 1}));
  EXPECT_EQ(type({64, 32}, granularity(q::GranularityKind::PerChannel))
                .getScaleShape(),
            (Shape{64, 1}));
  EXPECT_EQ(type({64, 32}, granularity(q::GranularityKind::PerTensor))
                .getScaleShape(),
            (Shape{1}));
  EXPECT_EQ(type({kDynamic, 200}, block(1, 128)).getScaleShape(),
            (Shape{kDynamic, 2}));
  EXPECT_EQ(type({kDynamic, 200}, granularity(q::GranularityKind::PerToken))
                .getScaleShape(),
            (Shape{kDynamic, 1}));
}

TEST_F(QuantTypesTest, W5bEachShardStartsItsOwnScaleRows) {
  EXPECT_EQ(type({2624, 7168}, block(128, 128), {2048, 576}).getScaleShape(),
            (Shape{21, 56}));
  // 1 + 1 + 1 rows, though all 130 fit two blocks.
  EXPECT_EQ(type({130, 64}, block(128, 128), {100, 20, 10}).getScaleShape(),
            (Shape{3, 1}));
  EXPECT_EQ(
      type({130, 64}, granularity(q::GranularityKind::PerTensor), {100, 20, 10})
          .getScaleShape(),
      (Shape{3}));
  // Experts come first (W5).
  EXPECT_EQ(type({8, 600, 200}, block(128, 128), {300, 300}).getScaleShape(),
            (Shape{8, 6, 2}));
  EXPECT_EQ(type({8, 600, 200}, granularity(q::GranularityKind::PerTensor),
                 {300, 300})
                .getScaleShape(),
            (Shape{8, 2}));
}

TEST_F(QuantTypesTest, BytesOfCodesAndScales) {
  EXPECT_EQ(type({7168, 2048}, block(128, 128)).getBytes(),
            7168 * 2048 + 56 * 16 * 4);
  EXPECT_EQ(type({64, 32}, granularity(q::GranularityKind::PerChannel))
                .withScaleType(builder.getBF16Type())
                .getBytes(),
            64 * 32 + 64 * 2);
}

TEST_F(QuantTypesTest, ChangesOfOneProperty) {
  q::TensorType fused = type({130, 64}, block(128, 128), {100, 30});
  EXPECT_EQ(fused.withShards({}), type({130, 64}, block(128, 128)));
  // One shard is no shard, so that equal matrices have equal types.
  EXPECT_EQ(fused.withShards({130}), fused.withShards({}));
  EXPECT_EQ(fused.withGranularity(block(32, 32)),
            type({130, 64}, block(32, 32), {100, 30}));
  EXPECT_EQ(fused.withShape({130, 128}).getK(), 128);
  EXPECT_EQ(fused.getShardRows(), (Shape{100, 30}));
  EXPECT_EQ(fused.withShards({}).getShardRows(), (Shape{130}));
  EXPECT_EQ(fused.getDataTensorType(),
            RankedTensorType::get({130, 64}, Float8E4M3FNType::get(&context)));
  EXPECT_EQ(fused.getScaleTensorType(),
            RankedTensorType::get({2, 1}, builder.getF32Type()));
}

// W1: 34, 18 and 20 bytes for 32 elements, from the type alone.
TEST_F(QuantTypesTest, GgufBytes) {
  const std::pair<StringRef, int64_t> formats[] = {
      {"Q8_0", 34}, {"Q4_0", 18}, {"Q4_1", 20}};
  for (auto [name, bytes] : formats) {
    auto type = q::TensorType::getGguf(&context, name, {576, 1536});
    ASSERT_TRUE(type) << name.str();
    EXPECT_EQ(type.getGgufName(), name);
    EXPECT_EQ(type.getBytes(), 576 * 1536 / 32 * bytes);
    EXPECT_EQ(type.getScaleShape(), (Shape{576, 48}));
    auto fused = type.withShards({384, 192});
    EXPECT_EQ(fused.getGgufName(), name);
    EXPECT_EQ(fused.getBytes(), type.getBytes());
    EXPECT_EQ(fused.withShards({}), type);
  }
  EXPECT_FALSE(q::TensorType::getGguf(&context, "Q4_K", {256, 256}));
  EXPECT_EQ(type({64, 64}, block(32, 32)).getGgufName(), "");
}

// N7, W1: codes, scales, zero points, order and the scale above of 64 x 256
// weights; two shards round their words up on their own.
TEST_F(QuantTypesTest, BytesOfCodesThatShareWords) {
  auto parse = [&](StringRef text) {
    return cast<q::TensorType>(parseType(text, &context));
  };
  q::TensorType gptq = parse("!q.tensor<64x256xi4, group<128>, f16, "
                             "zero_points_minus_one, act_order, layout = "
                             "packed_k>");
  EXPECT_EQ(gptq.getBytes(), 64 * 128 + 2 * 64 * 2 + 2 * 8 * 4 + 256 * 4);
  EXPECT_EQ(gptq.getScaleShape(), (Shape{2, 64}));
  EXPECT_EQ(gptq.getZeroTensorType().getShape(), (ArrayRef<int64_t>{2, 8}));
  q::TensorType nvfp4 = parse("!q.tensor<64x256xf4E2M1FN, group<16>, "
                              "f8E4M3FN, global = divides, layout = packed>");
  EXPECT_EQ(nvfp4.getBytes(), 64 * 128 + 64 * 16 + 4);
  q::TensorType rows = parse("!q.tensor<12x20xi4, group<16>, bf16, "
                             "zero_points, shards = [9, 3], layout = packed>");
  EXPECT_EQ(rows.getBytes(), 12 * 12 + 12 * 2 * 2 + (2 + 1) * 2 * 4);

  // Tiles have 64 rows: scales, zero points, then codes of whole vectors.
  EXPECT_EQ(gptq.getTiled().getBytes(), 2 * (64 * 2 + 64 + 64 * 64) + 256 * 4);
  EXPECT_EQ(nvfp4.getTiled().getBytes(), 16 * (64 + 64 * 8) + 4);
  EXPECT_EQ(rows.getTiled().getBytes(),
            2 * ((64 * 5 + 64 * 8) + (64 * 5 + 64 * 4)));
  EXPECT_EQ(rows.getTiled().getOffset(), q::Offset::ZeroPoints);
  EXPECT_TRUE(rows.getTiled().getScaleType().isF32());
  EXPECT_EQ(nvfp4.getTiled().getGlobal(), q::GlobalScale::Multiplies);
  EXPECT_FALSE(nvfp4.getTiled().getTiled());
}

TEST_F(QuantTypesTest, KvCacheBytes) {
  auto kv = [&](q::KvLayout layout) {
    return q::KvType::get(&context, layout, /*page=*/64, /*heads=*/8,
                          /*dim=*/128);
  };
  EXPECT_EQ(kv(q::KvLayout::F32).getBytesPerToken(), 2 * 8 * 128 * 4);
  EXPECT_EQ(kv(q::KvLayout::BF16).getBytesPerToken(), 2 * 8 * 128 * 2);
  EXPECT_EQ(kv(q::KvLayout::FP8E4M3).getBytesPerToken(), 2 * 8 * 128);
  EXPECT_TRUE(isa<Float8E4M3FNType>(kv(q::KvLayout::FP8E4M3).getElementType()));
}

// Other sides of a matrix keep its granularity; one shard is not fused (W5b).
TEST_F(QuantTypesTest, W5b_OtherSides) {
  auto type = q::TensorType::get(
      &context, {640, 512}, Float8E4M3FNType::get(&context), block(128, 128),
      builder.getF32Type(), {384, 256}, q::Offset::None, q::Layout::Plain);
  EXPECT_EQ(type.withColumns(256).getScaleShape(),
            (SmallVector<int64_t>{5, 2}));
  EXPECT_EQ(type.withShardRows({256, 128}).getShards(),
            (ArrayRef<int64_t>{256, 128}));
  EXPECT_EQ(type.withShardRows({100}).getShards().size(), 0u);
}

// Scales and bytes of the 8-bit formats and of kernels' layouts (N7, W1).
TEST_F(QuantTypesTest, N7_W1_ScalesOfLayouts) {
  Type codes = Float8E4M3FNType::get(&context);
  Type exponents = Float8E8M0FNUType::get(&context);
  auto mx = q::TensorType::get({70, 96}, codes, block(1, 32), exponents);
  EXPECT_EQ(mx.getScaleShape(), (SmallVector<int64_t>{70, 3}));
  EXPECT_EQ(mx.getBytes(), 70 * 96 + 70 * 3);
  auto powers =
      q::TensorType::get({70, 1100}, codes, block(128, 128), exponents);
  EXPECT_EQ(powers.getBytes(), 70 * 1100 + 9);
  // Nine groups in three words of four, for 72 rows.
  q::TensorType packed = powers.withLayout(q::Layout::Ue8m0Packed);
  EXPECT_EQ(packed.getScaleShape(), (SmallVector<int64_t>{3, 72}));
  EXPECT_TRUE(packed.getScaleTensorType().getElementType().isInteger(32));
  EXPECT_EQ(packed.getBytes(), 70 * 1100 + 3 * 72 * 4);
  auto rows =
      q::TensorType::get({70, 256}, codes, block(1, 128), builder.getF32Type())
          .withLayout(q::Layout::ColumnMajorScales);
  EXPECT_EQ(rows.getScaleShape(), (SmallVector<int64_t>{2, 72}));
  auto int8 = q::TensorType::get({64, 100}, builder.getI8Type(),
                                 granularity(q::GranularityKind::PerChannel),
                                 builder.getF32Type());
  EXPECT_EQ(int8.getBytes(), 64 * 100 + 64 * 4);
}

// A vector a token: latents and the keys of an indexer (P7, P9).
TEST_F(QuantTypesTest, P7_P9_LatentBytes) {
  auto kv = [&](q::KvLayout layout, int64_t dim, int64_t rope) {
    return q::KvType::get(&context, layout, 64, 1, dim, rope)
        .getBytesPerToken();
  };
  EXPECT_EQ(kv(q::KvLayout::FP8DsMla, 512, 64), 512 + 4 * 4 + 64 * 2);
  EXPECT_EQ(kv(q::KvLayout::BF16, 512, 64), 1152);
  EXPECT_EQ(kv(q::KvLayout::FP8E4M3, 512, 64), 576);
  EXPECT_EQ(kv(q::KvLayout::FP8Indexer, 128, 0), 132);
}

TEST_F(QuantTypesTest, CheckedConstructionRefuses) {
  std::string text;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    text = diagnostic.str();
    return success();
  });
  auto emitUnknown = [&] { return emitError(UnknownLoc::get(&context)); };
  function_ref<InFlightDiagnostic()> emit = emitUnknown;
  int64_t huge = int64_t(1) << 62;
  Type codes = Float8E4M3FNType::get(&context), f32 = builder.getF32Type();
  EXPECT_FALSE(q::TensorType::getChecked(
      emit, &context, ArrayRef<int64_t>{huge, 2}, codes, block(128, 128), f32,
      ArrayRef<int64_t>{}, q::Offset::None, q::Layout::Plain));
  EXPECT_EQ(text, "codes and scales have more bytes than an int64_t holds");
  EXPECT_FALSE(q::GranularityAttr::getChecked(
      emit, &context, q::GranularityKind::PerTensor, int64_t(1), int64_t(1)));
  EXPECT_EQ(text,
            "only a block granularity has sides, per_tensor has 1x1 [W1]");
  EXPECT_FALSE(
      q::MethodAttr::getChecked(emit, &context, StringRef("fp8"),
                                granularity(q::GranularityKind::PerTensor),
                                Type(), q::ActivationScheme::Dynamic));
  EXPECT_EQ(text, "a quantised weight has a granularity and a scale type, this "
                  "one only one of them [W1]");
  EXPECT_FALSE(q::MethodAttr::getChecked(
      emit, &context, StringRef("unquantized"), q::GranularityAttr(), Type(),
      q::ActivationScheme::Dynamic));
  EXPECT_EQ(text, "the activation of an unquantised weight is dynamic, "
                  "expected none [C11]");
  EXPECT_FALSE(q::ContractAttr::getChecked(
      emit, &context, q::GranularityAttr(), Type(), q::GranularityAttr(),
      /*isStatic=*/false, /*ue8m0=*/true, /*codes=*/Type(),
      /*bound=*/FloatAttr(), q::Layout::Plain));
  EXPECT_EQ(text,
            "the activation of an unquantised weight is not quantised [B1]");
}

TEST_F(QuantTypesTest, ScalarTensors) {
  auto tensor = [&](ArrayRef<int64_t> shape, Type element) {
    return q::isScalarTensor(RankedTensorType::get(shape, element));
  };
  EXPECT_TRUE(tensor({}, builder.getF32Type()));
  EXPECT_TRUE(tensor({1}, builder.getBF16Type()));
  EXPECT_TRUE(tensor({1, 1}, builder.getF32Type()));
  EXPECT_FALSE(tensor({2}, builder.getF32Type()));
  EXPECT_FALSE(tensor({ShapedType::kDynamic}, builder.getF32Type()));
  EXPECT_FALSE(tensor({1}, builder.getI32Type()));
  EXPECT_FALSE(q::isScalarTensor(builder.getF32Type()));
}

} // namespace
