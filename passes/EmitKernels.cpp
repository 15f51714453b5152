//===- EmitKernels.cpp - Kernels as CUDA C++ and as cubins ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on plan-buffers. After it each row kernel, product and attention of a
// CUDA target has a `launch` (lib/CudaSource/LaunchAttr.h): the kernels that
// serve it, their grids and parameters; and the module one `kernel.binary` for
// each distinct source. Programs of the CPU are left as they are.
//
//   kernel.gemm "sm90.fp8_block_gemm" %x, %w into %p : … of %b tokens {…}
//     ──► the same with {launch = {variants = [{kernels = [{entry =
//     "octet_kernel_…", …}]}]}}, and kernel.binary @octet_kernel_… for "sm_90a"
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/LaunchAttr.h"
#include "lib/CudaSource/RowSource.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "octet/CudaSource/KernelCompiler.h"
#include "octet/CudaSource/Sampler.h"
#include "octet/Diagnostics/Diagnostics.h"
#include "octet/Support/File.h"
#include "passes/CudaProblems.h"
#include "passes/Passes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace octet {
#define GEN_PASS_DEF_EMITKERNELS
#include "passes/Passes.h.inc"
} // namespace octet

using namespace mlir;
using namespace octet;

namespace {
struct EmitKernels : octet::impl::EmitKernelsBase<EmitKernels> {
  using EmitKernelsBase::EmitKernelsBase;
  void runOnOperation() override;

private:
  FailureOr<cuda::KernelLaunch> makeLaunch(Operation *op);
  LogicalResult addSources(Operation *op, const cuda::KernelLaunch &launch);
  LogicalResult dumpSources();
  LogicalResult compile();

  Target parsed;
  model::SettingsAttr settings;
  llvm::MapVector<StringAttr, std::string> sources; ///< by entry
};
} // namespace

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

template <typename Family, typename Problem>
static FailureOr<cuda::KernelLaunch> callFamily(Operation *op, Family family,
                                                const Problem &problem,
                                                const Target &target) {
  if (!family)
    return op->emitError() << problem.module << ": no family makes "
                           << problem.kernel << "; select-kernels marks it so";
  Result<cuda::KernelLaunch> launch = family(problem, target);
  if (!launch) {
    (void)emitStatus(op, launch.status());
    return failure();
  }
  return launch.take();
}

FailureOr<cuda::KernelLaunch> EmitKernels::makeLaunch(Operation *op) {
  auto gemm = dyn_cast<kernel::GemmOp>(op);
  auto attention = dyn_cast<kernel::AttentionOp>(op);
  if ((gemm && !gemm.getOut()) || (attention && !attention.getOut()))
    return op->emitError() << "'" << op->getName()
                           << "' has no place for what it computes; "
                              "octet-plan-buffers gives it one";
  if (gemm)
    return callFamily(op, cuda::findGemmFamily(gemm.getKernel()),
                      makeProblem(gemm, parsed), parsed);
  if (attention)
    return callFamily(op, cuda::findAttentionFamily(attention.getKernel()),
                      makeProblem(attention, parsed, settings), parsed);
  return cuda::printRowwiseLaunch(cast<kernel::RowwiseOp>(op), parsed);
}

/// The text after the comments that it opens with, which name one operator.
static StringRef dropComments(StringRef source) {
  while (source.starts_with("//") || source.starts_with("\n"))
    source =
        source.drop_front(std::min(source.find('\n'), source.size() - 1) + 1);
  return source;
}

LogicalResult EmitKernels::addSources(Operation *op,
                                      const cuda::KernelLaunch &launch) {
  for (const cuda::KernelVariant &variant : launch.variants)
    for (const cuda::KernelInstance &kernel : variant.kernels) {
      auto entry = StringAttr::get(&getContext(), kernel.entry);
      auto [place, isNew] = sources.insert({entry, kernel.source});
      if (!isNew && dropComments(place->second) != dropComments(kernel.source))
        return op->emitError() << "internal error: two kernels have the name '"
                               << kernel.entry << "'";
    }
  return success();
}

//===----------------------------------------------------------------------===//
// Binaries
//===----------------------------------------------------------------------===//

LogicalResult EmitKernels::dumpSources() {
  if (dumpCuda.empty())
    return success();
  Operation *module = getOperation();
  if (std::error_code ec = llvm::sys::fs::create_directories(dumpCuda))
    return emitStatus(module, machineError(dumpCuda, ec.message()));
  for (const auto &[entry, source] : sources) {
    SmallString<128> path(dumpCuda);
    llvm::sys::path::append(path, entry.getValue() + ".cu");
    std::span<const std::byte> piece(
        reinterpret_cast<const std::byte *>(source.data()), source.size());
    if (Status written = writeFile(path.str().str(), {&piece, 1});
        !written.ok())
      return emitStatus(module, written);
  }
  return success();
}

LogicalResult EmitKernels::compile() {
  ModuleOp module = getOperation();
  SmallVector<cuda::KernelSource> list;
  for (const auto &[entry, source] : sources)
    list.push_back({entry.getValue(), source});
  cuda::CompilerOptions options;
  options.nvrtc = nvrtc;
  options.dumped = dumpCuda;
  options.jobs = jobs;
  options.cached = cache;
  if (progress)
    options.onCompile = [&](size_t count) {
      llvm::errs() << "  compiling " << count << " kernel"
                   << (count == 1 ? "" : "s") << " for " << parsed.name << '\n';
    };
  Result<cuda::CompiledKernels> made =
      cuda::compileKernels({list.data(), list.size()}, parsed.name, options);
  if (!made)
    return emitStatus(module, made.status());
  if (!made->cacheProblem.ok())
    module.emitWarning() << made->cacheProblem.info().subject << ": "
                         << made->cacheProblem.info().message
                         << "; kernels are not kept for the next time";
  numBinaries += list.size();
  numCompiled += made->numCompiled;

  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  for (auto [source, kernel] : llvm::zip(list, made->kernels)) {
    auto type = RankedTensorType::get({int64_t(kernel.cubin.size())},
                                      b.getIntegerType(8));
    auto cubin = DenseResourceElementsAttr::get(
        type, source.entry,
        HeapAsmResourceBlob::allocateAndCopyWithAlign(
            ArrayRef(kernel.cubin.data(), kernel.cubin.size()),
            /*align=*/16, /*dataIsMutable=*/false));
    kernel::BinaryOp::create(b, module.getLoc(), source.entry, parsed.name,
                             source.source, cubin, kernel.ptx);
  }
  if (!list.empty())
    module->setAttr("kernel.nvrtc", b.getStringAttr(made->version));
  return success();
}

void EmitKernels::runOnOperation() {
  ModuleOp module = getOperation();
  settings = model::getSettings(module);
  if (!settings || settings.getTarget() == "cpu")
    return;
  Result<Target> target = parseTarget(settings.getTarget(), "--target");
  if (!target) {
    (void)emitStatus(module, target.status());
    return signalPassFailure();
  }
  parsed = target.take();
  if (failed(refuseUnwritten(module)))
    return signalPassFailure();
  if (Status known = checkKernelTarget(parsed); !known.ok()) {
    (void)emitStatus(module, known);
    return signalPassFailure();
  }
  bool isGood = true;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    std::optional<cuda::LoadRewrite> rewrite = findLoadRewrite(op);
    if (!rewrite &&
        !isa<kernel::RowwiseOp, kernel::GemmOp, kernel::AttentionOp>(op))
      return WalkResult::advance();
    FailureOr<cuda::KernelLaunch> launch =
        rewrite ? cuda::makeLoadRewrite(*rewrite) : makeLaunch(op);
    if (failed(launch) || failed(addSources(op, *launch)))
      isGood = false;
    else
      op->setDiscardableAttr(cuda::kLaunchName,
                             cuda::toAttribute(&getContext(), *launch));
    return WalkResult::skip(); // a row kernel's region
  });
  // Logits become tokens where they are.
  auto facts = module->getAttrOfType<DictionaryAttr>("model.info");
  auto vocab =
      facts ? dyn_cast_or_null<IntegerAttr>(facts.get("vocab")) : IntegerAttr();
  if (isGood && vocab) {
    Result<cuda::KernelLaunch> launch = cuda::makeSampler(vocab.getInt());
    if (!launch) {
      (void)emitStatus(module, launch.status());
      isGood = false;
    } else if (failed(addSources(module, *launch)))
      isGood = false;
    else
      module->setDiscardableAttr(cuda::kSampleName,
                                 cuda::toAttribute(&getContext(), *launch));
  }
  // What does not compile is easier to look at where it was asked for.
  if (!isGood || failed(dumpSources()) || failed(compile()))
    signalPassFailure();
}
