//===- SelectKernels.cpp - A kernel for each product and attention --------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on fuse-rowwise: operands are what the contract asks for. After it
// each product and attention names a kernel of exactly that contract, or the
// compilation has ended with an error that names the module (C11). No choice
// here changes a number: what may vary is written as variants by ranges of M
// (B5), and the CPU has one variant for every M, since a row's result may not
// depend on the other rows (--batch-invariant).
//
//   %y = model.linear %x, %w {contract = …, module = "a.b", …} : …
//     ──► %y = kernel.gemm "cpu.fp8_block_gemm" %x, %w of %b tokens {module =
//     "a.b", …} : …
//
//===----------------------------------------------------------------------===//

#include "dialects/Quant/QuantOps.h"
#include "mlir/IR/Remarks.h"
#include "passes/Passes.h"
#include "passes/RowDomain.h"
#include "llvm/Support/FormatVariadic.h"

namespace octet {
#define GEN_PASS_DEF_SELECTKERNELS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;
using q::GranularityKind;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {

/// What a product reads and writes.
struct Product {
  Type input, weight, result, bias; ///< bias may be null
  q::TensorType qInput, qWeight;    ///< null if plain
};

/// A kernel and its legality. `reject` says why it cannot run a product, or
/// nothing; it is the only place that knows.
struct GemmKernel {
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

/// At most this many shards (OCTET_MAX_PARTS of runtime/abi.h).
static constexpr size_t kMaxShards = 4;

/// What every CPU kernel needs.
static std::string rejectCommon(const Product &p) {
  if (p.qWeight) {
    if (!isa<Float8E4M3FNType>(p.qWeight.getElementType()))
      return "its weight must be f8E4M3FN, this one is " +
             str(p.qWeight.getElementType());
    if (!p.qWeight.getScaleType().isF32())
      return "its scales must be f32, these are " +
             str(p.qWeight.getScaleType());
    if (p.qWeight.getShardRows().size() > kMaxShards)
      return llvm::formatv("it joins at most {0} shards, this weight has {1}",
                           kMaxShards, p.qWeight.getShardRows().size());
  }
  if (p.qInput && !isa<Float8E4M3FNType>(p.qInput.getElementType()))
    return "its input must be f8E4M3FN, this one is " +
           str(p.qInput.getElementType());
  if (p.qInput && !p.qInput.getScaleType().isF32())
    return "its input's scales must be f32, these are " +
           str(p.qInput.getScaleType());
  return "";
}

static std::string rejectQuantized(const Product &p, GranularityKind weight) {
  std::string why = rejectCommon(p);
  if (!why.empty())
    return why;
  if (!p.qWeight)
    return "it needs a quantised weight, this one is " + str(p.weight);
  if (p.qWeight.getGranularity().getKind() != weight)
    return llvm::formatv(
        "it reads a {0} weight, this one is {1}",
        q::stringifyGranularityKind(weight),
        q::stringifyGranularityKind(p.qWeight.getGranularity().getKind()));
  if (!p.qInput)
    return "it needs a quantised input, this one is " + str(p.input);
  return "";
}

static const GemmKernel kGemmKernels[] = {
    {"cpu.fp8_block_gemm", "B1",
     [](const Product &p) -> std::string {
       std::string why = rejectQuantized(p, GranularityKind::Block);
       if (!why.empty())
         return why;
       q::GranularityAttr x = p.qInput.getGranularity();
       q::GranularityAttr w = p.qWeight.getGranularity();
       if (!x.isBlock() || x.getBlockN() != 1 || x.getBlockK() != w.getBlockK())
         return llvm::formatv("it reads an input in groups of bk={0}, this one "
                              "is {1}",
                              w.getBlockK(), str(p.input));
       return "";
     }},
    {"cpu.fp8_channel_gemm", "B3",
     [](const Product &p) -> std::string {
       std::string why = rejectQuantized(p, GranularityKind::PerChannel);
       if (why.empty() && p.qInput.getGranularity().isBlock())
         why = "it reads an input with one scale a token or one in all, this "
               "one is " +
               str(p.input);
       return why;
     }},
    {"cpu.fp8_tensor_gemm", "B3",
     [](const Product &p) -> std::string {
       std::string why = rejectQuantized(p, GranularityKind::PerTensor);
       if (why.empty() && p.qInput.getGranularity().isBlock())
         why = "it reads an input with one scale a token or one in all, this "
               "one is " +
               str(p.input);
       return why;
     }},
    {"cpu.gguf_gemm", "B4",
     [](const Product &p) -> std::string {
       if (!p.qWeight || !p.qWeight.isGguf())
         return "it needs a weight in layout gguf, this one is " +
                str(p.weight);
       if (p.qWeight.getShardRows().size() > kMaxShards)
         return llvm::formatv(
             "it joins at most {0} shards, this weight has {1}", kMaxShards,
             p.qWeight.getShardRows().size());
       if (p.qInput)
         return "it reads a plain input, this one is " + str(p.input);
       return "";
     }},
    {"cpu.fp8_weight_only_gemm", "B4",
     [](const Product &p) -> std::string {
       std::string why = rejectCommon(p);
       if (!why.empty())
         return why;
       if (!p.qWeight)
         return "it needs a quantised weight, this one is " + str(p.weight);
       if (p.qInput)
         return "it reads a plain input, this one is " + str(p.input);
       return "";
     }},
    {"cpu.gemm", "C11",
     [](const Product &p) -> std::string {
       if (p.qWeight || p.qInput)
         return "it reads plain operands, these are " + str(p.input) + " and " +
                str(p.weight);
       return "";
     }},
};

/// The first kernel that takes the product; null with all reasons if none.
static const GemmKernel *
chooseGemm(const Product &product,
           SmallVectorImpl<std::pair<StringRef, std::string>> &rejected) {
  for (const GemmKernel &kernel : kGemmKernels) {
    std::string why = kernel.reject(product);
    if (why.empty())
      return &kernel;
    rejected.push_back({kernel.name, std::move(why)});
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct SelectKernels : octet::impl::SelectKernelsBase<SelectKernels> {
  void runOnOperation() override;

private:
  LogicalResult selectGemm(Operation *op, Value input, Value weight, Value bias,
                           StringRef module,
                           std::optional<q::MethodAttr> method);
  LogicalResult selectAttention(model::AttentionOp op);
  LogicalResult selectOther(Operation *op);
};
} // namespace

LogicalResult SelectKernels::selectGemm(Operation *op, Value input,
                                        Value weight, Value bias,
                                        StringRef module,
                                        std::optional<q::MethodAttr> method) {
  Value result = op->getResult(0);
  Product product{input.getType(),
                  weight.getType(),
                  result.getType(),
                  bias ? bias.getType() : Type(),
                  dyn_cast<q::TensorType>(input.getType()),
                  dyn_cast<q::TensorType>(weight.getType())};
  SmallVector<std::pair<StringRef, std::string>> rejected;
  const GemmKernel *kernel = chooseGemm(product, rejected);
  if (!kernel) {
    InFlightDiagnostic diagnostic =
        op->emitError() << module << ": no kernel of the CPU multiplies "
                        << product.input << " by " << product.weight
                        << " [C11]";
    for (auto &[name, why] : rejected)
      diagnostic.attachNote() << name << ": " << why;
    return failure();
  }
  remark::passed(op->getLoc(), remark::RemarkOpts::name("kernel").category(
                                   "octet-select-kernels"))
      << remark::add("{0}: uses {1} [{2}]", module, kernel->name, kernel->rule);

  OpBuilder b(op);
  auto gemm = kernel::GemmOp::create(
      b, op->getLoc(), TypeRange{result.getType()}, kernel->name, input, weight,
      bias, Value(), findBatch(op->getParentOfType<func::FuncOp>()),
      getRowDomain(input), module, ArrayRef<int64_t>{-1},
      b.getStrArrayAttr({"any"}));
  if (method)
    gemm->setDiscardableAttr("method", *method);
  op->replaceAllUsesWith(gemm);
  op->erase();
  ++numKernels;
  return success();
}

LogicalResult SelectKernels::selectAttention(model::AttentionOp op) {
  if (!op.getCache())
    return op.emitError() << op.getModule()
                          << ": attention without a cache; "
                             "octet-insert-quantization gives it one [P7b]";
  if (op.getQHeads() % op.getKvHeads())
    return op.emitError() << op.getModule() << ": " << op.getQHeads()
                          << " query heads over " << op.getKvHeads()
                          << " KV heads; cpu.paged_attention needs a multiple";
  OpBuilder b(op);
  auto attention = kernel::AttentionOp::create(
      b, op.getLoc(), TypeRange{op.getType()}, "cpu.paged_attention", op.getQ(),
      op.getCache(), op.getKScale(), op.getVScale(), Value(), op.getBatch(),
      op.getLayer(), op.getQHeads(), op.getKvHeads(), op.getHeadDim(),
      op.getScale(), op.getWindow(), op.getModule());
  op->replaceAllUsesWith(attention);
  op->erase();
  ++numKernels;
  return success();
}

//===----------------------------------------------------------------------===//
// Kernels that are named and not written yet
//===----------------------------------------------------------------------===//

/// Experts by the contract of their weights (B3, B4, B7).
static StringRef nameExperts(model::ExpertsOp op) {
  q::ContractAttr contract = op.getContractAttr();
  if (!contract || !contract.isQuantized())
    return "cpu.experts";
  if (!contract.quantizesActivation())
    return "cpu.fp8_weight_only_experts";
  switch (contract.getWeight().getKind()) {
  case GranularityKind::Block:
    return "cpu.fp8_block_experts";
  case GranularityKind::PerChannel:
    return "cpu.fp8_channel_experts";
  case GranularityKind::PerTensor:
    return "cpu.fp8_tensor_experts";
  default:
    return "";
  }
}

/// The kernel of an operator that is no product and no plain attention; empty
/// if there is none.
static StringRef nameKernel(Operation *op) {
  if (auto experts = dyn_cast<model::ExpertsOp>(op))
    return nameExperts(experts);
  if (auto latent = dyn_cast<model::MlaAttentionOp>(op))
    return latent.getSelected() ? "cpu.sparse_mla_attention"
                                : "cpu.mla_attention";
  if (isa<model::MoeRouterOp>(op))
    return "cpu.moe_router";
  if (isa<model::IndexerOp>(op))
    return "cpu.indexer";
  if (isa<model::AttentionOp>(op))
    return "cpu.paged_attention_with_sinks";
  if (isa<model::AllReduceOp>(op))
    return "cpu.all_reduce";
  if (isa<model::AllGatherOp>(op))
    return "cpu.all_gather";
  return "";
}

LogicalResult SelectKernels::selectOther(Operation *op) {
  auto module = op->getAttrOfType<StringAttr>("module");
  StringRef kernel = nameKernel(op);
  if (kernel.empty())
    return op->emitError() << module.getValue()
                           << ": no kernel of the CPU runs it [C11]";
  Value batch = findBatch(op->getParentOfType<func::FuncOp>());
  Value layer;
  SmallVector<Value> inputs;
  for (Value operand : op->getOperands()) {
    if (isa<IndexType>(operand.getType()))
      layer = operand;
    else if (!isa<model::BatchType>(operand.getType()))
      inputs.push_back(operand);
  }
  NamedAttrList params(op->getAttrDictionary());
  for (StringRef name : {"module", "operandSegmentSizes", "resultSegmentSizes"})
    params.erase(name);
  remark::passed(op->getLoc(), remark::RemarkOpts::name("kernel").category(
                                   "octet-select-kernels"))
      << remark::add("{0}: needs {1}, which is not written yet [C11]",
                     module.getValue(), kernel);
  OpBuilder b(op);
  auto launch = kernel::LaunchOp::create(
      b, op->getLoc(), op->getResultTypes(), kernel,
      op->getName().getStringRef(), inputs, ValueRange(), batch, layer,
      module.getValue(), params.getDictionary(op->getContext()),
      /*unwritten=*/true);
  op->replaceAllUsesWith(launch);
  op->erase();
  ++numKernels;
  ++numUnwritten;
  return success();
}

void SelectKernels::runOnOperation() {
  SmallVector<Operation *> ops;
  getOperation().walk([&](Operation *op) {
    if (isa<model::LinearOp, model::LmHeadOp, model::AttentionOp,
            model::TraceOp, model::MoeRouterOp, model::ExpertsOp,
            model::MlaAttentionOp, model::IndexerOp, model::AllReduceOp,
            model::AllGatherOp>(op))
      ops.push_back(op);
  });
  // Every product without a kernel is reported, not only the first.
  bool isGood = true;
  for (Operation *op : ops) {
    LogicalResult selected = success();
    if (auto linear = dyn_cast<model::LinearOp>(op)) {
      selected =
          selectGemm(op, linear.getInput(), linear.getWeight(),
                     linear.getBias(), linear.getModule(), linear.getMethod());
    } else if (auto head = dyn_cast<model::LmHeadOp>(op)) {
      selected = selectGemm(op, head.getInput(), head.getWeight(), Value(),
                            head.getModule(), head.getMethod());
    } else if (auto attention = dyn_cast<model::AttentionOp>(op);
               attention && (!attention.getSinks() || !attention.getCache())) {
      selected = selectAttention(attention);
    } else if (auto trace = dyn_cast<model::TraceOp>(op)) {
      OpBuilder b(op);
      kernel::TraceOp::create(b, op->getLoc(), trace.getName(),
                              trace.getIndex(), trace.getInput(),
                              findBatch(op->getParentOfType<func::FuncOp>()),
                              getRowDomain(trace.getInput()));
      op->erase();
    } else {
      selected = selectOther(op);
    }
    isGood &= succeeded(selected);
  }
  if (!isGood)
    signalPassFailure();
}
