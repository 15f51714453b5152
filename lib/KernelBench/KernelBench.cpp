//===- KernelBench.cpp - Stand-alone kernels for measuring ----------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/KernelBench/KernelBench.h"
#include "Operators.h"
#include "dialects/AllDialects.h"
#include "dialects/Kernel/KernelOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "octet/CudaSource/BenchPlan.h"
#include "octet/CudaSource/Families.h"
#include "octet/CudaSource/KernelCompiler.h"
#include "octet/Diagnostics/Diagnostics.h"
#include "octet/HostCode/HostCode.h"
#include "octet/Pipeline/Pipelines.h"
#include "octet/Support/File.h"
#include "passes/CudaProblems.h"
#include "runtime/core/Payload.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <map>

using namespace mlir;
using namespace octet;
using cuda::BenchCase;
using cuda::BenchPlan;
using cuda::KernelInstance;
using cuda::KernelLaunch;

/// The functions of check/gemm_check.cuh under the names that the runner calls.
static constexpr char kCheckSource[] =
    R"(// Operands, reference and comparison of `octet kernel`.
#include "check/gemm_check.cuh"

using namespace octet::cuda;

extern "C" __global__ void __launch_bounds__(256)
octet_check_fill_elements(void *out, int type, u64 count, u64 seed) {
  fillElements(out, type, count, seed);
}

extern "C" __global__ void __launch_bounds__(256)
octet_check_fill_scales(float *out, u64 count, u64 seed) {
  fillScales(out, count, seed);
}

extern "C" __global__ void __launch_bounds__(256)
octet_check_dequantize(CheckedMatrix matrix, float *out) {
  dequantize(matrix, out);
}

extern "C" __global__ void __launch_bounds__(256)
octet_check_reference(const float *x, const float *w, const void *bias, int biasType, float *y,
                      int rows, int n, int k) {
  referenceProduct(x, w, bias, biasType, y, rows, n, k);
}

extern "C" __global__ void __launch_bounds__(256)
octet_check_compare(const void *y, int type, const float *reference, u64 count,
                    CheckErrors *errors) {
  compare(y, type, reference, count, errors);
}
)";

namespace {

/// Collects what the executable holds.
class PlanMaker {
public:
  explicit PlanMaker(const KernelBenchOptions &options) : options(options) {
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    plan.op = options.op;
    plan.target = options.target;
    plan.version = OCTET_VERSION;
    sources = {{cuda::kCheckImage, kCheckSource}};
  }

  Status addShapes();
  Status compile(std::string &images);
  Status dumpSources() const;

  BenchPlan plan;

private:
  Status addMatrix(int64_t n, int64_t k, const std::vector<int64_t> &rows);
  int64_t addLaunch(KernelLaunch launch);
  Status addCandidates(const cuda::GemmProblem &problem, const Target &target,
                       cuda::GemmFamily family, BenchCase c,
                       const std::vector<int64_t> &rows);

  const KernelBenchOptions &options;
  DialectRegistry registry;
  MLIRContext context;
  std::map<std::string, std::string> sources; ///< by entry
};

} // namespace

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static std::string shapeText(int64_t n, int64_t k) {
  return "N=" + std::to_string(n) + ", K=" + std::to_string(k);
}

/// Whether the scales of an activation lie along M (P3).
static BenchCase caseOf(const cuda::GemmProblem &problem) {
  BenchCase c;
  c.n = problem.n;
  c.k = problem.k;
  c.x.type = problem.xType;
  c.x.scaleMode = problem.xScaleMode;
  c.x.columnMajor = problem.columnMajorScales;
  c.x.blockN = 1;
  c.x.blockK = problem.blockK;
  c.w.type = problem.wType;
  c.w.scaleMode = problem.wScaleMode;
  c.w.blockN = problem.blockN;
  c.w.blockK = problem.blockK;
  c.w.shards =
      problem.shards.empty() ? std::vector<int64_t>{c.n} : problem.shards;
  c.yType = problem.yType;
  return c;
}

int64_t PlanMaker::addLaunch(KernelLaunch launch) {
  for (const cuda::KernelVariant &variant : launch.variants)
    for (const KernelInstance &kernel : variant.kernels)
      sources.try_emplace(kernel.entry, kernel.source);
  plan.launches.push_back(std::move(launch));
  return int64_t(plan.launches.size()) - 1;
}

/// The variant that select-kernels takes for `m` rows.
static std::string chosenVariant(const cuda::GemmProblem &problem, int64_t m) {
  for (size_t i = 0; i < problem.maxM.size(); ++i)
    if (problem.maxM[i] < 0 || m <= problem.maxM[i])
      return problem.variants[i];
  return problem.variants.back();
}

/// A launch of one variant each, shared by the numbers of rows that have it.
Status PlanMaker::addCandidates(const cuda::GemmProblem &problem,
                                const Target &target, cuda::GemmFamily family,
                                BenchCase c, const std::vector<int64_t> &rows) {
  std::map<std::string, int64_t> launchOf;
  for (int64_t m : rows) {
    std::vector<std::string> names =
        cuda::listGemmVariants(problem, m, size_t(options.candidates));
    if (names.empty())
      return inputError("--target " + options.target,
                        "shape " + std::to_string(m) + "," +
                            std::to_string(c.n) + "," + std::to_string(c.k) +
                            " runs on kernel '" + problem.kernel +
                            "', which no table chooses: there is nothing to "
                            "tune; one is there for sm_90a and a K that is "
                            "a multiple of 16");
    const std::string chosen = chosenVariant(problem, m);
    std::erase(names, chosen);
    names.insert(names.begin(), chosen);
    c.m = m;
    c.launches.clear();
    c.variants = names;
    for (const std::string &name : names) {
      auto [place, isNew] = launchOf.try_emplace(name, 0);
      if (isNew) {
        cuda::GemmProblem one = problem;
        one.maxM = {-1};
        one.variants = {name};
        OCTET_TRY_ASSIGN(KernelLaunch launch, family(one, target));
        place->second = addLaunch(std::move(launch));
      }
      c.launches.push_back(place->second);
    }
    plan.cases.push_back(c);
  }
  return Status::success();
}

/// The launch of one matrix, as the phases up to plan-buffers choose it.
Status PlanMaker::addMatrix(int64_t n, int64_t k,
                            const std::vector<int64_t> &rows) {
  GemmShape most{*std::max_element(rows.begin(), rows.end()), n, k};
  std::string text = printOperator(options, most);
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context));
  if (!module)
    return internalError("octet kernel",
                         "the program of " + options.op + " does not parse");
  PassManager manager(&context);
  buildPhases(manager, 1, *findPhase("plan-buffers"));
  if (failed(manager.run(*module)))
    return ErrorInfo{ErrorKind::Input, "", "", "", {}}; // printed already
  kernel::GemmOp gemm;
  module->walk([&](kernel::GemmOp op) { gemm = op; });
  if (!gemm)
    return internalError("octet kernel", "the program has no product");
  OCTET_TRY_ASSIGN(Target target, parseTarget(options.target, "--target"));
  OCTET_TRY(checkKernelTarget(target));
  cuda::GemmFamily family = cuda::findGemmFamily(gemm.getKernel());
  if (!family)
    return inputError("--target " + options.target,
                      "kernel '" + gemm.getKernel().str() + "' for " +
                          shapeText(n, k) + " is not written yet",
                      "C9");
  cuda::GemmProblem problem = makeProblem(gemm, target);
  if (problem.wScaleType != OCTET_F32)
    return inputError("--target " + options.target,
                      "scales of " + options.op +
                          " are exponents there, which the executable does "
                          "not fill in; sm_90a and sm_89 have F32",
                      "B1");
  BenchCase c = caseOf(problem);
  if (options.candidates)
    return addCandidates(problem, target, family, c, rows);
  OCTET_TRY_ASSIGN(KernelLaunch launch, family(problem, target));
  c.launches = {addLaunch(std::move(launch))};
  for (int64_t m : rows) {
    c.m = m;
    plan.cases.push_back(c);
  }
  return Status::success();
}

Status PlanMaker::addShapes() {
  // Equal matrices share their kernels; cases stay in the order given.
  std::vector<std::pair<int64_t, int64_t>> order;
  std::map<std::pair<int64_t, int64_t>, std::vector<int64_t>> rows;
  for (const GemmShape &shape : options.shapes) {
    std::vector<int64_t> &list = rows[{shape.n, shape.k}];
    if (list.empty())
      order.push_back({shape.n, shape.k});
    list.push_back(shape.m);
  }
  DiagnosticPrinter printer(&context, llvm::errs());
  for (auto [n, k] : order)
    OCTET_TRY(addMatrix(n, k, rows[{n, k}]));
  return Status::success();
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

Status PlanMaker::dumpSources() const {
  if (options.dumpCuda.empty())
    return Status::success();
  if (std::error_code ec = llvm::sys::fs::create_directories(options.dumpCuda))
    return machineError(options.dumpCuda, ec.message());
  for (const auto &[entry, source] : sources) {
    llvm::SmallString<128> path(options.dumpCuda);
    llvm::sys::path::append(path, entry + ".cu");
    std::span<const std::byte> piece(
        reinterpret_cast<const std::byte *>(source.data()), source.size());
    OCTET_TRY(writeFile(path.str().str(), {&piece, 1}));
  }
  return Status::success();
}

Status PlanMaker::compile(std::string &images) {
  std::vector<cuda::KernelSource> list;
  for (const auto &[entry, source] : sources)
    list.push_back({entry, source});
  cuda::CompilerOptions compiler;
  compiler.jobs = unsigned(options.jobs);
  compiler.nvrtc = options.nvrtc;
  compiler.dumped = options.dumpCuda;
  if (options.progress)
    compiler.onCompile = [&](size_t count) {
      llvm::errs() << "  compiling " << count << " kernels for "
                   << options.target << '\n';
    };
  OCTET_TRY_ASSIGN(cuda::CompiledKernels made,
                   cuda::compileKernels(list, options.target, compiler));
  if (!made.cacheProblem.ok())
    llvm::errs() << "warning: " << made.cacheProblem.info().subject << ": "
                 << made.cacheProblem.info().message
                 << "; kernels are not kept for the next time\n";
  // Cubins of any 13.x load on the drivers of 13.0.
  int32_t major = 0;
  llvm::StringRef(made.version).split('.').first.getAsInteger(10, major);
  plan.driver = 1000 * major;
  auto append = [&](const std::string &bytes, int64_t &offset, int64_t &size) {
    images.resize((images.size() + 63) / 64 * 64);
    offset = int64_t(images.size());
    size = int64_t(bytes.size());
    images += bytes;
  };
  for (size_t i = 0; i < list.size(); ++i) {
    cuda::BenchImage image;
    image.entry = list[i].entry;
    append(made.kernels[i].cubin, image.cubinOffset, image.cubinBytes);
    append(made.kernels[i].ptx, image.ptxOffset, image.ptxBytes);
    plan.images.push_back(std::move(image));
  }
  return Status::success();
}

Status octet::writeKernelBench(const KernelBenchOptions &options) {
  PlanMaker maker(options);
  OCTET_TRY(maker.addShapes());
  OCTET_TRY(maker.dumpSources());
  std::string images;
  OCTET_TRY(maker.compile(images));
  std::string text = writeBenchPlan(maker.plan);
  std::vector<PayloadSection> sections;
  sections.push_back({rt::kKernelsSection, {text.begin(), text.end()}});
  sections.push_back(
      {cuda::kBenchImagesSection, {images.begin(), images.end()}});
  return writeExecutable(options.output, {}, sections);
}
