//===- CpuKernels.cpp - Which kernel of the CPU takes a product -----------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table of kernels with their legality. One that cannot run a product says
// why; those for other codes are not asked.
//
//===----------------------------------------------------------------------===//

#include "passes/KernelTable.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace octet;
using q::GranularityKind;

namespace {

/// What a weight's codes are: a kernel reads one kind.
enum class Codes { Plain, Fp8, Int8, Gguf, Tiles };

/// A kernel and its legality. `reject` says why it cannot run a product of its
/// codes, or nothing; it is the only place that knows.
struct GemmKernel {
  Codes codes;
  const char *name;
  /// The rule that makes this kernel the one of its contract.
  const char *rule;
  std::string (*reject)(const Product &);
};

} // namespace

static std::string str(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static Codes codesOf(const Product &p) {
  if (!p.qWeight)
    return Codes::Plain;
  if (p.qWeight.isGguf())
    return Codes::Gguf;
  if (p.qWeight.isTiled() || p.qWeight.isPacked())
    return Codes::Tiles;
  return p.qWeight.getElementType().isSignlessInteger(8) ? Codes::Int8
                                                         : Codes::Fp8;
}

/// At most this many shards (OCTET_MAX_PARTS of runtime/abi.h).
static constexpr size_t kMaxShards = 4;

/// Longest K of an exact INT32 sum: K * 127^2 < 2^31 (N6b).
static constexpr int64_t kMaxInt8K = 1 << 17;
static_assert(kMaxInt8K * 127 * 127 < INT64_C(1) << 31);

/// What every CPU kernel needs.
static std::string rejectCommon(const Product &p, bool isInt8 = false) {
  StringRef codes = isInt8 ? "i8" : "f8E4M3FN";
  auto isWanted = [&](Type type) {
    return isInt8 ? type.isSignlessInteger(8) : isa<Float8E4M3FNType>(type);
  };
  if (p.qWeight) {
    if (!isWanted(p.qWeight.getElementType()))
      return ("its weight must be " + codes + ", this one is " +
              str(p.qWeight.getElementType()))
          .str();
    bool isExponents = isa<Float8E8M0FNUType>(p.qWeight.getScaleType());
    if (!p.qWeight.getScaleType().isF32() && !isExponents)
      return "its scales must be f32 or f8E8M0FNU, these are " +
             str(p.qWeight.getScaleType());
    if (p.qWeight.getLayout() != q::Layout::Plain)
      return "it reads rows of codes, these are in layout " +
             q::stringifyLayout(p.qWeight.getLayout()).str();
    if (p.qWeight.getShardRows().size() > kMaxShards)
      return llvm::formatv("it joins at most {0} shards, this weight has {1}",
                           kMaxShards, p.qWeight.getShardRows().size());
  }
  if (p.qInput && !isWanted(p.qInput.getElementType()))
    return ("its input must be " + codes + ", this one is " +
            str(p.qInput.getElementType()))
        .str();
  if (p.qInput && !p.qInput.getScaleType().isF32())
    return "its input's scales must be f32, these are " +
           str(p.qInput.getScaleType());
  return "";
}

static std::string rejectQuantized(const Product &p, GranularityKind weight) {
  std::string why = rejectCommon(p);
  if (!why.empty())
    return why;
  if (p.qWeight.getGranularity().getKind() != weight)
    return llvm::formatv(
        "it reads a {0} weight, this one is {1}",
        q::stringifyGranularityKind(weight),
        q::stringifyGranularityKind(p.qWeight.getGranularity().getKind()));
  if (!p.qInput)
    return "it needs a quantised input, this one is " + str(p.input);
  return "";
}

/// Blocks along K on both sides.
static std::string rejectBlocks(const Product &p, bool isMx) {
  std::string why = rejectQuantized(p, GranularityKind::Block);
  if (!why.empty())
    return why;
  q::GranularityAttr x = p.qInput.getGranularity();
  q::GranularityAttr w = p.qWeight.getGranularity();
  bool isGroup32 = w.getBlockN() == 1 && w.getBlockK() == 32 &&
                   isa<Float8E8M0FNUType>(p.qWeight.getScaleType());
  if (isMx != isGroup32)
    return isMx ? "it reads groups of 32 with f8E8M0FNU scales, this weight "
                  "is " +
                      str(p.qWeight)
                : std::string("it reads blocks, this weight is MXFP8");
  if (!x.isBlock() || x.getBlockN() != 1 || x.getBlockK() != w.getBlockK())
    return llvm::formatv("it reads an input in groups of bk={0}, this one is "
                         "{1}",
                         w.getBlockK(), str(p.input));
  return "";
}

/// One scale of the input for all of K (N6b).
static std::string rejectGroups(const Product &p, GranularityKind weight) {
  std::string why = rejectQuantized(p, weight);
  if (why.empty() && p.qInput.getGranularity().isBlock())
    why = "it reads an input with one scale a token or one in all, this one "
          "is " +
          str(p.input);
  return why;
}

/// INT8 on both sides, exact (N6b).
static std::string rejectInt8(const Product &p) {
  std::string why = rejectCommon(p, /*isInt8=*/true);
  if (!why.empty())
    return why;
  if (!p.qInput)
    return "it needs a quantised input, this one is " + str(p.input);
  if (p.qWeight.getK() > kMaxInt8K)
    return llvm::formatv("it sums at most {0} products exactly in INT32, K is "
                         "{1}",
                         kMaxInt8K, p.qWeight.getK());
  return "";
}

static std::string rejectWeightOnly(const Product &p, bool isInt8) {
  std::string why = rejectCommon(p, isInt8);
  if (!why.empty())
    return why;
  if (p.qInput)
    return "it reads a plain input, this one is " + str(p.input);
  return "";
}

static const GemmKernel kGemmKernels[] = {
    {Codes::Fp8, "cpu.mxfp8_gemm", "B6",
     [](const Product &p) { return rejectBlocks(p, /*isMx=*/true); }},
    {Codes::Int8, "cpu.int8_gemm", "N6b", rejectInt8},
    {Codes::Int8, "cpu.int8_weight_only_gemm", "B4",
     [](const Product &p) { return rejectWeightOnly(p, /*isInt8=*/true); }},
    {Codes::Fp8, "cpu.fp8_block_gemm", "B1",
     [](const Product &p) { return rejectBlocks(p, /*isMx=*/false); }},
    {Codes::Fp8, "cpu.fp8_channel_gemm", "B3",
     [](const Product &p) {
       return rejectGroups(p, GranularityKind::PerChannel);
     }},
    {Codes::Fp8, "cpu.fp8_tensor_gemm", "B3",
     [](const Product &p) {
       return rejectGroups(p, GranularityKind::PerTensor);
     }},
    {Codes::Gguf, "cpu.gguf_gemm", "B4",
     [](const Product &p) -> std::string {
       if (p.qWeight.getShardRows().size() > kMaxShards)
         return llvm::formatv(
             "it joins at most {0} shards, this weight has {1}", kMaxShards,
             p.qWeight.getShardRows().size());
       if (p.qInput)
         return "it reads a plain input, this one is " + str(p.input);
       return "";
     }},
    {Codes::Tiles, "cpu.fp4_gemm", "N7",
     [](const Product &p) -> std::string {
       if (!p.qWeight.isTiled() ||
           !isa<Float4E2M1FNType>(p.qWeight.getElementType()))
         return "it reads f4E2M1FN in layout tiled, this weight is " +
                str(p.qWeight);
       if (!p.qInput || p.qInput.getElementType() != p.qWeight.getElementType())
         return "it needs an input in f4E2M1FN, this one is " + str(p.input);
       if (p.qInput.getGranularity() != p.qWeight.getGranularity() ||
           p.qInput.getScaleType() != p.qWeight.getScaleType())
         return "its input has the weight's groups, these are " + str(p.input) +
                " and " + str(p.qWeight);
       return "";
     }},
    {Codes::Tiles, "cpu.tiled_gemm", "B4",
     [](const Product &p) -> std::string {
       if (!p.qWeight.isTiled())
         return "it reads layout tiled, this weight is in layout " +
                q::stringifyLayout(p.qWeight.getLayout()).str();
       if (p.qWeight.getShardRows().size() > kMaxShards)
         return llvm::formatv(
             "it joins at most {0} shards, this weight has {1}", kMaxShards,
             p.qWeight.getShardRows().size());
       if (p.qInput)
         return "it reads a plain input, this one is " + str(p.input);
       return "";
     }},
    {Codes::Fp8, "cpu.fp8_weight_only_gemm", "B4",
     [](const Product &p) { return rejectWeightOnly(p, /*isInt8=*/false); }},
    {Codes::Plain, "cpu.gemm", "C11",
     [](const Product &p) -> std::string {
       if (p.qInput)
         return "it reads plain operands, these are " + str(p.input) + " and " +
                str(p.weight);
       return "";
     }},
};

KernelChoice octet::chooseCpuGemm(const Product &product) {
  KernelChoice choice;
  for (const GemmKernel &kernel : kGemmKernels) {
    if (kernel.codes != codesOf(product))
      continue;
    std::string why = kernel.reject(product);
    if (why.empty())
      return {kernel.name, kernel.rule, {}};
    choice.rejected.push_back({kernel.name, std::move(why), kernel.rule});
  }
  return choice;
}
