//===- CudaKernels.cpp - The kernels of CUDA targets ----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two tables, one line a kernel, in the order of preference: name, targets, the
// contract that it is for, the rule that makes it the one, and its legality. A
// kernel of the contract that may not run the operator says why; select-kernels
// makes a remark of that where a later one is taken.
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/PackedTypes.h"
#include "octet/Support/Checked.h"
#include "passes/KernelTable.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace octet;
using q::GranularityKind;

namespace {

/// What a product's operands are, as its contract has them.
enum class Form {
  Plain,
  Fp8Block,
  Fp8Channel,
  Fp8Tensor,
  Mxfp8,
  Int8,
  Fp4,
  Fp8WeightOnly,
  Int8WeightOnly,
  Fp4WeightOnly,
  WordsWeightOnly, ///< AWQ, GPTQ, compressed-tensors pack-quantized
  Gguf,
};

struct GemmKernel {
  const char *name; ///< without `_gemm`, which is `_experts` where grouped
  Form form;
  int from, below; ///< compute capabilities times ten
  const char *rule;
  std::string (*reject)(const Product &);
};

} // namespace

static std::string str(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

static std::string acceptAll(const Product &) { return ""; }

/// Rows of 16 bytes, as bulk copies move them.
static std::string rejectUnaligned(const Product &p, int64_t elements) {
  int64_t k = *q::getSideSize(p.weight, q::Side::Cols);
  if (k % elements == 0)
    return "";
  return llvm::formatv("that kernel copies rows of a multiple of {0} elements, "
                       "this weight has K={1}",
                       elements, k);
}

/// Of scales of another dtype the bits would be read as something else.
template <typename Scale>
static std::string rejectScales(const Product &p, StringRef reads) {
  if (isa<Scale>(p.qWeight.getScaleType()))
    return "";
  return llvm::formatv("that kernel reads {0} scales, these are {1}", reads,
                       str(p.qWeight.getScaleType()));
}

static std::string rejectBlocks(const Product &p, bool takes32) {
  q::GranularityAttr block = p.qWeight.getGranularity();
  if (takes32 && block.getBlockN() == 32 && block.getBlockK() == 32)
    return rejectUnaligned(p, 16);
  if (block.getBlockK() != 128)
    return llvm::formatv("that kernel reads bk=128, this weight has {0}",
                         block.getBlockK());
  if (block.getBlockN() != 128)
    return llvm::formatv("that kernel reads bn=128, this weight has {0}",
                         block.getBlockN());
  return rejectUnaligned(p, 16);
}

/// Rows for experts stand as they were moved (P13), so only the input of a
/// linear has the order that its kernel reads.
static std::string rejectOrder(const Product &p, q::Layout wanted) {
  if (p.isGrouped || p.qInput.getLayout() == wanted)
    return "";
  auto name = [](q::Layout order) {
    return order == q::Layout::Plain ? StringRef("rows")
                                     : q::stringifyLayout(order);
  };
  return llvm::formatv("that kernel reads the input's scales in {0}, these are "
                       "in {1}",
                       name(wanted), name(p.qInput.getLayout()));
}

/// The first reason, or none.
static std::string firstOf(std::initializer_list<std::string> reasons) {
  for (const std::string &why : reasons)
    if (!why.empty())
      return why;
  return "";
}

/// Scales of eight rows of a shard are the same, wherever it starts (W5b).
static std::string rejectShards(const Product &p) {
  int64_t begin = 0;
  for (int64_t rows : p.qWeight.getShards()) {
    if (begin % 8 != 0)
      return llvm::formatv("that kernel has shards that start at multiples of "
                           "8 rows, this weight has one at {0}",
                           begin);
    begin += rows;
  }
  return "";
}

/// Warp-group products of sm_90, which take [32,32] too (B1, B2).
static std::string rejectSm90Block(const Product &p) {
  return firstOf({rejectScales<Float32Type>(p, "f32"),
                  rejectBlocks(p, /*takes32=*/true), rejectShards(p),
                  rejectOrder(p, q::Layout::ColumnMajorScales)});
}

/// Block-scaled products of sm_100, whose scales are powers of two (B1, B2).
static std::string rejectSm100Block(const Product &p) {
  return firstOf({rejectScales<Float8E8M0FNUType>(p, "f8E8M0FNU"),
                  rejectBlocks(p, /*takes32=*/true),
                  rejectOrder(p, q::Layout::Ue8m0Packed)});
}

static std::string rejectMmaBlock(const Product &p) {
  return firstOf({rejectScales<Float32Type>(p, "f32"),
                  rejectBlocks(p, /*takes32=*/false),
                  rejectOrder(p, q::Layout::Plain)});
}

/// Any block, of rows of any length (B2).
static std::string rejectGeneric(const Product &p) {
  return rejectOrder(p, q::Layout::Plain);
}

static std::string rejectSm100Mx(const Product &p) {
  return rejectOrder(p, q::Layout::Ue8m0Packed);
}

/// One 16-bit type for both operands: no instruction has two.
static std::string rejectMixed(const Product &p) {
  Type x = getElementTypeOrSelf(p.input), w = getElementTypeOrSelf(p.weight);
  if (x == w)
    return "";
  return llvm::formatv("that kernel multiplies operands of one type, these are "
                       "{0} and {1}; {2}",
                       str(x), str(w),
                       w.isF16()    ? "--dtype f16 has the weight's"
                       : w.isBF16() ? "--dtype bf16 has the weight's"
                                    : "--target cpu multiplies any two");
}

static std::string rejectDense(const Product &p) {
  return firstOf({rejectMixed(p), rejectUnaligned(p, 8)});
}

static std::string rejectFp8Rows(const Product &p) {
  return rejectUnaligned(p, 16);
}

static std::string rejectFp4Rows(const Product &p) {
  return rejectUnaligned(p, 32);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static constexpr int kAny = 1000; ///< above every capability

static const GemmKernel kGemmKernels[] = {
    {"sm90.fp8_block", Form::Fp8Block, 90, 100, "B1", rejectSm90Block},
    {"sm100.fp8_block", Form::Fp8Block, 100, 120, "B1", rejectSm100Block},
    {"mma.fp8_block", Form::Fp8Block, 89, 90, "B1", rejectMmaBlock},
    {"mma.fp8_block", Form::Fp8Block, 120, kAny, "B1", rejectMmaBlock},
    // Any block, with scales of f32 or powers of two: where bk is no multiple
    // of the 32 elements of one instruction, the rest of the last is zeros
    // (B2).
    {"cuda.fp8_generic", Form::Fp8Block, 89, kAny, "B2", rejectGeneric},
    {"sm90.fp8_channel", Form::Fp8Channel, 90, 100, "B3", rejectFp8Rows},
    {"sm100.fp8_channel", Form::Fp8Channel, 100, 120, "B3", rejectFp8Rows},
    {"mma.fp8_channel", Form::Fp8Channel, 89, kAny, "B3", acceptAll},
    {"sm90.fp8_tensor", Form::Fp8Tensor, 90, 100, "B3", rejectFp8Rows},
    {"sm100.fp8_tensor", Form::Fp8Tensor, 100, 120, "B3", rejectFp8Rows},
    {"mma.fp8_tensor", Form::Fp8Tensor, 89, kAny, "B3", acceptAll},
    {"sm100.mxfp8", Form::Mxfp8, 100, 120, "B6", rejectSm100Mx},
    {"mma.mxfp8", Form::Mxfp8, 120, kAny, "B6", rejectGeneric},
    {"mma.int8", Form::Int8, 80, kAny, "B3", acceptAll},
    {"sm100.fp4", Form::Fp4, 100, 120, "B4", rejectFp4Rows},
    {"mma.fp4", Form::Fp4, 120, kAny, "B4", rejectFp4Rows},
    {"cuda.fp8_weight_only", Form::Fp8WeightOnly, 80, kAny, "B4", acceptAll},
    {"cuda.int8_weight_only", Form::Int8WeightOnly, 80, kAny, "B4", acceptAll},
    {"cuda.fp4_weight_only", Form::Fp4WeightOnly, 80, kAny, "B4", acceptAll},
    {"cuda.int4_weight_only", Form::WordsWeightOnly, 80, kAny, "B4", acceptAll},
    {"cuda.gguf", Form::Gguf, 80, kAny, "B4", acceptAll},
    {"sm90.dense", Form::Plain, 90, 100, "C11", rejectDense},
    {"sm100.dense", Form::Plain, 100, 120, "C11", rejectDense},
    {"mma.dense", Form::Plain, 80, kAny, "C11", rejectMixed},
};

/// The form of the operands; nothing for a pair that no contract has.
static std::optional<Form> findForm(const Product &p) {
  if (!p.qWeight)
    return p.qInput ? std::nullopt : std::optional(Form::Plain);
  Type codes = p.qWeight.getElementType();
  q::GranularityAttr granularity = p.qWeight.getGranularity();
  bool isFp4 = isa<Float4E2M1FNType>(codes);
  if (!p.qInput) {
    if (p.qWeight.isGguf())
      return Form::Gguf;
    if (isFp4)
      return Form::Fp4WeightOnly;
    if (granularity.isGroup() || codes.isInteger(4) || p.qWeight.isPacked() ||
        p.qWeight.isTiled())
      return Form::WordsWeightOnly;
    return codes.isInteger(8) ? Form::Int8WeightOnly : Form::Fp8WeightOnly;
  }
  if (isFp4)
    return Form::Fp4;
  if (codes.isInteger(8))
    return Form::Int8;
  switch (granularity.getKind()) {
  case GranularityKind::Block:
    // Groups of 32 with f32 scales are blocks like others (N7).
    return granularity.getBlockN() == 1 && granularity.getBlockK() == 32 &&
                   isa<Float8E8M0FNUType>(p.qWeight.getScaleType())
               ? Form::Mxfp8
               : Form::Fp8Block;
  case GranularityKind::PerChannel:
    return Form::Fp8Channel;
  case GranularityKind::PerTensor:
    return Form::Fp8Tensor;
  default:
    return std::nullopt;
  }
}

static KernelChoice choose(const Product &product, const Target &target,
                           StringRef suffix) {
  KernelChoice choice;
  std::optional<Form> form = findForm(product);
  if (!form)
    return choice;
  for (const GemmKernel &kernel : kGemmKernels) {
    if (kernel.form != *form || target.capability < kernel.from ||
        target.capability >= kernel.below)
      continue;
    std::string name = (kernel.name + suffix).str();
    std::string why = kernel.reject(product);
    if (why.empty()) {
      choice.name = std::move(name);
      choice.rule = kernel.rule;
      return choice;
    }
    choice.rejected.push_back({std::move(name), std::move(why), kernel.rule});
  }
  return choice;
}

KernelChoice octet::chooseCudaGemm(const Product &product,
                                   const Target &target) {
  return choose(product, target, "_gemm");
}

/// Multiprocessors of the largest device of a capability: a table, because the
/// device is not there when compiling.
int64_t octet::countMultiprocessors(int capability) {
  if (capability < 86)
    return 108;
  if (capability < 89)
    return 84;
  if (capability < 90)
    return 142;
  if (capability < 100)
    return 132;
  return capability < 120 ? 148 : 188;
}

VariantTable octet::chooseCudaVariants(const Product &product,
                                       const Target &target,
                                       bool batchInvariant) {
  constexpr int64_t kTileN = 128, kTileK = 128, kMostSplits = 8;
  int64_t n = *q::getSideSize(product.weight, q::Side::Rows);
  int64_t k = *q::getSideSize(product.weight, q::Side::Cols);
  // Few rows leave multiprocessors idle where N is short; parts of K, in whole
  // tiles, occupy them.
  int64_t splits = 1;
  while (splits < kMostSplits && k % (kTileK * splits * 2) == 0 &&
         cdiv(n, kTileN) * splits * 2 <=
             countMultiprocessors(target.capability))
    splits *= 2;
  VariantTable table;
  auto add = [&](int64_t maxM, int64_t tile, int64_t parts) {
    table.maxM.push_back(maxM);
    std::string name = llvm::formatv("m{0}n{1}k{2}", tile, kTileN, kTileK);
    if (parts > 1)
      name += llvm::formatv("_split{0}", parts);
    table.names.push_back(std::move(name));
  };
  if (splits > 1 && batchInvariant)
    table.missed = llvm::formatv(
        "K is not split {0} ways for few rows: the order of a row's sum would "
        "depend on how many there are, which --batch-invariant forbids",
        splits);
  add(16, 16, batchInvariant ? 1 : splits);
  add(64, 64, 1);
  add(-1, 128, 1);
  return table;
}

//===----------------------------------------------------------------------===//
// Other operators
//===----------------------------------------------------------------------===//

namespace {
struct OtherKernel {
  StringRef op; ///< as in IR
  const char *name;
  int from, below;
  const char *rule;
  std::string (*reject)(Operation *);
};
} // namespace

static std::string acceptOp(Operation *) { return ""; }

/// FlashAttention of sm_90 and sm_100.
static std::string rejectHeads(Operation *op) {
  auto attention = cast<model::AttentionOp>(op);
  int64_t dim = attention.getHeadDim();
  if (attention.getSinks())
    return "that kernel has no sinks, these heads have some";
  if (dim % 16 != 0 || dim > 256)
    return llvm::formatv("that kernel takes heads of a multiple of 16 up to "
                         "256, these have {0}",
                         dim);
  return "";
}

static std::string rejectGenericHeads(Operation *op) {
  int64_t dim = cast<model::AttentionOp>(op).getHeadDim();
  if (dim % 8 == 0 && dim <= 256)
    return "";
  return llvm::formatv("it takes heads of a multiple of 8 up to 256, these "
                       "have {0}",
                       dim);
}

static std::string rejectLatents(Operation *op) {
  auto latent = cast<model::MlaAttentionOp>(op);
  if (latent.getRank() == 512 && latent.getRopeDim() == 64)
    return "";
  return llvm::formatv("that kernel takes latents of 512 + 64, these have {0} "
                       "+ {1}",
                       int64_t(latent.getRank()), int64_t(latent.getRopeDim()));
}

static std::string rejectIndexer(Operation *op) {
  auto indexer = cast<model::IndexerOp>(op);
  if (indexer.getHeadDim() != 128)
    return llvm::formatv("that kernel takes keys of 128, these have {0}",
                         int64_t(indexer.getHeadDim()));
  if (indexer.getCache() &&
      indexer.getCache().getType().getLayout() != q::KvLayout::FP8Indexer)
    return "that kernel reads fp8_indexer keys, these are " +
           q::stringifyKvLayout(indexer.getCache().getType().getLayout()).str();
  return "";
}

static const OtherKernel kOtherKernels[] = {
    {"model.attention", "sm90.paged_attention", 90, 100, "P11", rejectHeads},
    {"model.attention", "sm100.paged_attention", 100, 120, "P11", rejectHeads},
    {"model.attention", "cuda.paged_attention", 80, kAny, "P11",
     rejectGenericHeads},
    {"model.mla_attention", "sm90.mla_attention", 90, 100, "P11",
     rejectLatents},
    {"model.mla_attention", "sm100.mla_attention", 100, 120, "P11",
     rejectLatents},
    {"model.mla_attention", "cuda.mla_attention", 80, kAny, "P11", acceptOp},
    {"model.indexer", "sm90.indexer", 90, 100, "P9", rejectIndexer},
    {"model.indexer", "sm100.indexer", 100, 120, "P9", rejectIndexer},
    {"model.indexer", "cuda.indexer", 80, kAny, "P9", acceptOp},
    {"model.moe_router", "cuda.moe_router", 80, kAny, "P12", acceptOp},
    {"model.dispatch", "cuda.dispatch_rows", 80, kAny, "P13", acceptOp},
    {"model.join", "cuda.join_rows", 80, kAny, "W14", acceptOp},
    {"model.own_columns", "cuda.own_columns", 80, kAny, "W3", acceptOp},
    {"model.place_columns", "cuda.place_columns", 80, kAny, "W3", acceptOp},
    {"model.all_reduce", "nccl.all_reduce", 80, kAny, "P15", acceptOp},
    {"model.all_gather", "nccl.all_gather", 80, kAny, "P16", acceptOp},
    {"model.broadcast", "nccl.broadcast", 80, kAny, "P10", acceptOp},
    {"model.gather_tokens", "nccl.all_gather_rows", 80, kAny, "P13", acceptOp},
    {"model.scatter_sum", "nccl.reduce_scatter_rows", 80, kAny, "P15",
     acceptOp},
};

/// The grouped product of an expert's matrices, in the form of their contract;
/// static scales are applied by the kernel itself, so the input's type does not
/// say it.
static KernelChoice chooseExperts(model::ExpertsOp op, const Target &target) {
  Type weight = op.getDown().getType(), input = op.getInput().getType();
  if (auto dispatched = dyn_cast<model::DispatchedType>(input))
    input = dispatched.getRows();
  Product product{input,
                  weight,
                  op.getResult().getType(),
                  Type(),
                  dyn_cast<q::TensorType>(input),
                  dyn_cast<q::TensorType>(weight),
                  /*isGrouped=*/true};
  q::ContractAttr contract = op.getContractAttr();
  if (!product.qInput && product.qWeight && contract &&
      contract.quantizesActivation())
    product.qInput =
        q::getActivationType(contract, {ShapedType::kDynamic,
                                        *q::getSideSize(input, q::Side::Cols)});
  return choose(product, target, "_experts");
}

KernelChoice octet::chooseCudaKernel(Operation *op, const Target &target) {
  if (auto experts = dyn_cast<model::ExpertsOp>(op))
    return chooseExperts(experts, target);
  KernelChoice choice;
  StringRef source = op->getName().getStringRef();
  for (const OtherKernel &kernel : kOtherKernels) {
    if (kernel.op != source || target.capability < kernel.from ||
        target.capability >= kernel.below)
      continue;
    std::string name = kernel.name;
    if (auto latent = dyn_cast<model::MlaAttentionOp>(op);
        latent && latent.getSelected())
      name.replace(name.find(".mla"), 1, ".sparse_");
    std::string why = kernel.reject(op);
    if (why.empty()) {
      choice.name = std::move(name);
      choice.rule = kernel.rule;
      return choice;
    }
    choice.rejected.push_back({std::move(name), std::move(why), kernel.rule});
  }
  return choice;
}
