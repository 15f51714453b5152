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
#include "octet/CudaSource/Families.h"
#include "octet/Diagnostics/Diagnostics.h"
#include "passes/CudaProblems.h"
#include "passes/ModulePaths.h"
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

static std::string str(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
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
  VariantTable chooseVariants(const Product &product, StringRef kernel) const;
  LogicalResult report(Operation *op, StringRef module, StringRef does,
                       const KernelChoice &choice);

  Target target;
  bool batchInvariant = true;
};
} // namespace

static constexpr llvm::StringLiteral kFlag = "octet-select-kernels";

/// What was chosen, and each preference that was not followed; an error if
/// there is no kernel (C11).
LogicalResult SelectKernels::report(Operation *op, StringRef module,
                                    StringRef does,
                                    const KernelChoice &choice) {
  StringRef family = target.isCpu() ? StringRef("the CPU") : target.name;
  if (choice.name.empty()) {
    InFlightDiagnostic diagnostic = op->emitError()
                                    << module << ": no kernel of " << family
                                    << " " << does << " [C11]";
    for (const RejectedKernel &each : choice.rejected)
      diagnostic.attachNote() << each.name << ": " << each.why;
    return failure();
  }
  if (!choice.rejected.empty())
    emitMissed(op, kFlag, "preferred-kernel",
               llvm::formatv("{0}: uses {1}, not {2}: {3} [{4}]", module,
                             choice.name, choice.rejected[0].name,
                             choice.rejected[0].why, choice.rule));
  return success();
}

/// The CPU has one variant for every M, since a row's result may not depend on
/// the other rows.
VariantTable SelectKernels::chooseVariants(const Product &product,
                                           StringRef kernel) const {
  if (target.isCpu())
    return {{-1}, {"any"}, {}};
  if (cuda::hasTileTable(kernel))
    return chooseSm90Variants(makeProblem(product, kernel, "", target),
                              batchInvariant);
  // Products of warps and in tensor memory never split K: any tiles give the
  // same numbers, and their family takes them by N.
  if (cuda::findGemmFamily(kernel))
    if (std::optional<VariantTable> table = chooseFamilyVariants(
            makeProblem(product, kernel, "", target), target))
      return *table;
  return chooseCudaVariants(product, target, batchInvariant);
}

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
  KernelChoice kernel =
      target.isCpu() ? chooseCpuGemm(product) : chooseCudaGemm(product, target);
  if (failed(report(op, module,
                    "multiplies " + str(product.input) + " by " +
                        str(product.weight),
                    kernel)))
    return failure();
  remark::passed(op->getLoc(),
                 remark::RemarkOpts::name("kernel").category(kFlag))
      << remark::add("{0}: uses {1} [{2}]", module, kernel.name, kernel.rule);
  VariantTable variants = chooseVariants(product, kernel.name);
  if (!variants.missed.empty())
    emitMissed(op, kFlag, "variant",
               (module + ": " + variants.missed + " [B5]").str());

  OpBuilder b(op);
  SmallVector<StringRef> names(variants.names.begin(), variants.names.end());
  bool unwritten = !target.isCpu() && !cuda::findGemmFamily(kernel.name);
  auto gemm = kernel::GemmOp::create(
      b, op->getLoc(), TypeRange{result.getType()}, kernel.name, input, weight,
      bias, Value(), findBatch(op->getParentOfType<func::FuncOp>()),
      getRowDomain(input), module, variants.maxM, b.getStrArrayAttr(names),
      unwritten);
  numUnwritten += unwritten;
  if (method)
    gemm->setDiscardableAttr("method", *method);
  op->replaceAllUsesWith(gemm);
  op->erase();
  ++numKernels;
  return success();
}

/// The layout that the kernel of a cache reads (P7); null without one.
static StringAttr nameLayout(Value cache) {
  if (!cache)
    return {};
  auto type = cast<q::KvType>(cache.getType());
  return StringAttr::get(type.getContext(),
                         q::stringifyKvLayout(type.getLayout()));
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
  KernelChoice kernel{"cpu.paged_attention", "P11", {}};
  if (!target.isCpu())
    kernel = chooseCudaKernel(op, target);
  if (failed(report(op, op.getModule(), "attends", kernel)))
    return failure();
  OpBuilder b(op);
  bool unwritten = !target.isCpu() && !cuda::findAttentionFamily(kernel.name);
  auto attention = kernel::AttentionOp::create(
      b, op.getLoc(), TypeRange{op.getType()}, kernel.name, op.getQ(),
      op.getCache(), op.getKScale(), op.getVScale(), Value(), op.getBatch(),
      op.getLayer(), op.getQHeads(), op.getKvHeads(), op.getHeadDim(),
      op.getScale(), op.getWindow(), op.getModule(), nameLayout(op.getCache()),
      unwritten);
  numUnwritten += unwritten;
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
  if (isa<model::DispatchOp>(op))
    return "cpu.dispatch_rows";
  if (isa<model::JoinOp>(op))
    return "cpu.join_rows";
  if (isa<model::BroadcastOp>(op))
    return "cpu.broadcast";
  if (isa<model::AllReduceOp>(op))
    return "cpu.all_reduce";
  if (isa<model::AllGatherOp>(op))
    return "cpu.all_gather";
  if (isa<model::GatherTokensOp>(op))
    return "cpu.gather_tokens";
  if (isa<model::ScatterSumOp>(op))
    return "cpu.scatter_sum";
  if (isa<model::OwnColumnsOp>(op))
    return "cpu.own_columns";
  if (isa<model::PlaceColumnsOp>(op))
    return "cpu.place_columns";
  return "";
}

LogicalResult SelectKernels::selectOther(Operation *op) {
  auto module = op->getAttrOfType<StringAttr>("module");
  KernelChoice choice = target.isCpu()
                            ? KernelChoice{nameKernel(op).str(), "C11", {}}
                            : chooseCudaKernel(op, target);
  if (failed(report(op, module.getValue(), "runs it", choice)))
    return failure();
  StringRef kernel = choice.name;
  Value batch = findBatch(op->getParentOfType<func::FuncOp>());
  Value layer, cache;
  SmallVector<Value> inputs;
  for (Value operand : op->getOperands()) {
    if (isa<q::KvType>(operand.getType()))
      cache = operand;
    if (isa<IndexType>(operand.getType()))
      layer = operand;
    else if (!isa<model::BatchType>(operand.getType()))
      inputs.push_back(operand);
  }
  NamedAttrList params(op->getAttrDictionary());
  for (StringRef name : {"module", "operandSegmentSizes", "resultSegmentSizes"})
    params.erase(name);
  remark::passed(op->getLoc(),
                 remark::RemarkOpts::name("kernel").category(kFlag))
      << remark::add("{0}: needs {1}, which is not written yet [C9]",
                     module.getValue(), kernel);
  OpBuilder b(op);
  auto launch = kernel::LaunchOp::create(
      b, op->getLoc(), op->getResultTypes(), kernel,
      op->getName().getStringRef(), inputs, ValueRange(), batch, layer,
      module.getValue(), params.getDictionary(op->getContext()),
      /*unwritten=*/true, nameLayout(cache));
  op->replaceAllUsesWith(launch);
  op->erase();
  ++numKernels;
  ++numUnwritten;
  return success();
}

void SelectKernels::runOnOperation() {
  if (model::SettingsAttr settings = model::getSettings(getOperation())) {
    Result<Target> parsed = parseTarget(settings.getTarget(), "--target");
    if (!parsed) {
      (void)emitStatus(getOperation(), parsed.status());
      return signalPassFailure();
    }
    target = parsed.take();
    batchInvariant = settings.getBatchInvariant();
  }
  SmallVector<Operation *> ops;
  getOperation().walk([&](Operation *op) {
    if (isa<model::LinearOp, model::LmHeadOp, model::AttentionOp,
            model::TraceOp, model::MoeRouterOp, model::ExpertsOp,
            model::MlaAttentionOp, model::IndexerOp, model::AllReduceOp,
            model::AllGatherOp, model::DispatchOp, model::JoinOp,
            model::BroadcastOp, model::GatherTokensOp, model::ScatterSumOp,
            model::OwnColumnsOp, model::PlaceColumnsOp>(op))
      ops.push_back(op);
  });
  // Every product without a kernel is reported, not only the first.
  bool isGood = true;
  for (Operation *op : ops) {
    LogicalResult selected = success();
    if (!findBatch(op->getParentOfType<func::FuncOp>()))
      selected = op->emitOpError() << "computes rows of no batch; its function "
                                      "takes a !model.batch";
    else if (auto linear = dyn_cast<model::LinearOp>(op)) {
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
