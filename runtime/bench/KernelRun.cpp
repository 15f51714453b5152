//===- KernelRun.cpp - Checks and times kernels on the device -------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/bench/KernelRun.h"
#include "octet/CudaSource/Families.h"
#include "octet/CudaSource/InstanceJson.h"
#include "octet/Support/Checked.h"
#include "runtime/bench/KernelClock.h"
#include "runtime/bench/KernelOperands.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cpu/Types.h"
#include "runtime/cuda/Images.h"
#include "runtime/cuda/Launch.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <deque>
#include <optional>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;
using cuda::BenchCase;
using cuda::BenchPlan;

/// Operands of at least so many bytes are rotated, more than any L2 holds.
static constexpr int64_t kRotatedBytes = 256 << 20;

/// Root mean square of the relative error of one rounding (N5): 2^-(p+1) /
/// sqrt(3) at the lower end of a binade, half of that at the upper one; over
/// products that are about normal 0.72 of the former. Sums add less than a
/// tenth to that (N6), so 1.2 of it is what a right kernel stays under.
static double toleranceOf(int32_t type) {
  const int places = type == OCTET_BF16 ? 7 : type == OCTET_F16 ? 10 : 17;
  return 1.2 * 0.735 * std::ldexp(1.0, -places - 1) / std::sqrt(3.0);
}

namespace {

class KernelRunner {
public:
  KernelRunner(const BenchPlan &plan, std::span<const std::byte> images,
               const KernelRunOptions &options)
      : plan(plan), bytes(images), options(options) {}

  Result<KernelReport> run();

private:
  Status open();
  Status runCase(const BenchCase &c, KernelReport &report);
  Status prepareCase(const BenchCase &c);
  Status fill(const BenchCase &c, CUdeviceptr base, uint64_t seed);
  Status makeReference(const BenchCase &c);
  Status check(const BenchCase &c, int64_t launch, KernelResult &result);
  Status time(const BenchCase &c, int64_t launch, KernelResult &result,
              Effort effort);
  bool stops() const { return options.stops && options.stops(); }
  Status enqueue(const BenchCase &c, int64_t launch, int64_t set);
  /// One of the functions of check/, with parameters of its own types.
  template <typename... Args>
  Status call(const char *entry, int64_t gridX, int64_t gridY, Args... args);

  const BenchPlan &plan;
  std::span<const std::byte> bytes;
  const KernelRunOptions &options;

  std::unique_ptr<Driver> driver;
  Stream stream;
  std::vector<octet_image> imageTable;
  std::map<std::string, int32_t> imageOf;
  std::deque<cuda::AbiLaunch> launches;
  std::optional<Images> images;
  LaunchParams params;
  std::map<std::string, octet_kernel> checkKernels;
  DeviceBuffer sets, reference, errors;
  int64_t numSets = 0;
  OperandLayout layout;
};

} // namespace

//===----------------------------------------------------------------------===//
// The device
//===----------------------------------------------------------------------===//

Status KernelRunner::open() {
  OCTET_TRY_ASSIGN(
      driver, Driver::open(options.driver,
                           {.subject = options.subject,
                            .target = plan.target,
                            .version = std::max(plan.driver, kLeastDriver)}));
  driver->makeCurrent();
  OCTET_TRY(stream.create(*driver, options.subject));
  auto slice = [&](int64_t offset, int64_t size) -> const std::byte * {
    if (offset < 0 || size < 0 || offset > int64_t(bytes.size()) ||
        size > int64_t(bytes.size()) - offset)
      return nullptr;
    return bytes.data() + offset;
  };
  for (const cuda::BenchImage &image : plan.images) {
    octet_image row{};
    row.name = image.entry.c_str();
    row.cubin = slice(image.cubinOffset, image.cubinBytes);
    row.cubin_bytes = image.cubinBytes;
    row.ptx =
        reinterpret_cast<const char *>(slice(image.ptxOffset, image.ptxBytes));
    row.ptx_bytes = image.ptxBytes;
    row.source = "";
    if (!row.cubin || !row.ptx)
      return inputError(options.subject,
                        "kernel " + image.entry + " lies outside of the file");
    imageOf[image.entry] = int32_t(imageTable.size());
    imageTable.push_back(row);
  }
  for (const cuda::KernelLaunch &launch : plan.launches) {
    for (const cuda::KernelVariant &variant : launch.variants)
      for (const cuda::KernelInstance &kernel : variant.kernels)
        if (!imageOf.count(kernel.entry))
          return inputError(options.subject,
                            "it has no code of kernel " + kernel.entry);
    launches.emplace_back(launch, imageOf);
  }
  ThreadPool pool(ThreadPool::defaultThreads());
  OCTET_TRY_ASSIGN(Images loaded, Images::load(*driver, imageTable, plan.target,
                                               options.subject, pool));
  images.emplace(std::move(loaded));
  return Status::success();
}

template <typename... Args>
Status KernelRunner::call(const char *entry, int64_t gridX, int64_t gridY,
                          Args... args) {
  auto [found, isNew] = checkKernels.try_emplace(entry);
  if (isNew) {
    auto image = imageOf.find(cuda::kCheckImage);
    if (image == imageOf.end())
      return inputError(options.subject,
                        std::string("it has no image ") + cuda::kCheckImage);
    found->second.entry = entry;
    found->second.image = image->second;
    found->second.threads = 256;
  }
  OCTET_TRY_ASSIGN(const Kernel *kernel, images->find(found->second, entry));
  void *parameters[] = {&args...};
  CUlaunchConfig config{};
  config.gridDimX = unsigned(gridX);
  config.gridDimY = unsigned(gridY);
  config.gridDimZ = 1;
  config.blockDimX = 256;
  config.blockDimY = config.blockDimZ = 1;
  config.hStream = stream.handle();
  return OCTET_CUDA(*driver, entry, cuLaunchKernelEx, &config, kernel->function,
                    parameters, nullptr);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Blocks of a grid that strides over its elements.
static int64_t strideBlocks(int64_t count) {
  return std::clamp<int64_t>(cdiv(count, 256), 1, 4096);
}

Status KernelRunner::fill(const BenchCase &c, CUdeviceptr base, uint64_t seed) {
  auto elements = [&](int64_t offset, int32_t type, int64_t count) {
    return call("octet_check_fill_elements", strideBlocks(count), 1,
                uint64_t(base + uint64_t(offset)), type, uint64_t(count),
                seed++);
  };
  auto scales = [&](int64_t offset, int64_t count) -> Status {
    if (count == 0)
      return Status::success();
    return call("octet_check_fill_scales", strideBlocks(count), 1,
                uint64_t(base + uint64_t(offset)), uint64_t(count), seed++);
  };
  OCTET_TRY(elements(layout.x, c.x.type, layout.xCount));
  OCTET_TRY(scales(layout.xScale, layout.xScales));
  OCTET_TRY(elements(layout.w, c.w.type, layout.wCount));
  return scales(layout.wScale, layout.wScales);
}

Status KernelRunner::prepareCase(const BenchCase &c) {
  layout = OperandLayout::of(c);
  numSets = options.checkOnly
                ? 1
                : std::max<int64_t>(2, cdiv(kRotatedBytes, layout.bytes));
  sets = DeviceBuffer();
  OCTET_TRY(sets.allocate(*driver, numSets * layout.bytes, options.subject));
  for (int64_t i = 0; i < numSets; ++i)
    OCTET_TRY(
        fill(c, sets.address() + uint64_t(i * layout.bytes), uint64_t(i) * 8));
  return Status::success();
}

Status KernelRunner::makeReference(const BenchCase &c) {
  DeviceBuffer x, w;
  OCTET_TRY(x.allocate(*driver, layout.xCount * 4, options.subject));
  OCTET_TRY(w.allocate(*driver, layout.wCount * 4, options.subject));
  reference = DeviceBuffer();
  OCTET_TRY(reference.allocate(*driver, layout.yCount * 4, options.subject));
  OCTET_TRY(call("octet_check_dequantize", strideBlocks(layout.xCount), 1,
                 CheckedMatrix::ofX(c, sets.address()), uint64_t(x.address())));
  OCTET_TRY(call("octet_check_dequantize", strideBlocks(layout.wCount), 1,
                 CheckedMatrix::ofW(c, sets.address()), uint64_t(w.address())));
  OCTET_TRY(call("octet_check_reference", cdiv(c.n, 64), cdiv(c.m, 64),
                 uint64_t(x.address()), uint64_t(w.address()), uint64_t(0),
                 int32_t(0), uint64_t(reference.address()), int32_t(c.m),
                 int32_t(c.n), int32_t(c.k)));
  return OCTET_CUDA(*driver, options.subject, cuStreamSynchronize,
                    stream.handle());
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

Status KernelRunner::enqueue(const BenchCase &c, int64_t launch, int64_t set) {
  const uint64_t base = sets.address() + uint64_t(set * layout.bytes);
  auto at = [&](int64_t offset) {
    return reinterpret_cast<const void *>(base + uint64_t(offset));
  };
  const void *args[6] = {};
  args[cuda::GemmProblem::X] = at(layout.x);
  args[cuda::GemmProblem::XScale] = at(layout.xScale);
  args[cuda::GemmProblem::W] = at(layout.w);
  args[cuda::GemmProblem::WScale] = at(layout.wScale);
  args[cuda::GemmProblem::Y] = at(layout.y);
  return launchOn(stream.handle(), *driver, *images,
                  launches[size_t(launch)].get(), octet_batch{}, c.m,
                  StepFrame{}, args, params);
}

/// Runs the first set over a result of NaN and compares.
Status KernelRunner::check(const BenchCase &c, int64_t launch,
                           KernelResult &result) {
  const CUdeviceptr y = sets.address() + uint64_t(layout.y);
  OCTET_TRY(OCTET_CUDA(*driver, options.subject, cuMemsetD8Async, y, 0xff,
                       size_t(layout.yBytes), stream.handle()));
  OCTET_TRY(enqueue(c, launch, 0));
  CheckErrors found;
  OCTET_TRY(OCTET_CUDA(*driver, options.subject, cuMemcpyHtoDAsync,
                       errors.address(), &found, sizeof found,
                       stream.handle()));
  OCTET_TRY(call("octet_check_compare", strideBlocks(layout.yCount), 1,
                 uint64_t(y), c.yType, uint64_t(reference.address()),
                 uint64_t(layout.yCount), uint64_t(errors.address())));
  OCTET_TRY(OCTET_CUDA(*driver, options.subject, cuMemcpyDtoHAsync, &found,
                       errors.address(), sizeof found, stream.handle()));
  OCTET_TRY(
      OCTET_CUDA(*driver, result.kernel, cuStreamSynchronize, stream.handle()));
  float largest;
  static_assert(sizeof largest == sizeof found.largest);
  std::memcpy(&largest, &found.largest, sizeof largest);
  double error = found.squaredReference > 0
                     ? std::sqrt(found.squaredError / found.squaredReference)
                     : std::sqrt(found.squaredError);
  result.relativeError = std::max(result.relativeError, error);
  result.largestError = std::max(result.largestError, double(largest));
  if (found.notANumber && !result.notANumber)
    result.firstBad = found.firstBad;
  result.notANumber += found.notANumber;
  result.passed =
      result.notANumber == 0 && result.relativeError <= result.tolerance;
  return Status::success();
}

/// The label of the kernels that serve m rows.
static std::string labelOf(const octet_launch &launch, int64_t m) {
  for (int64_t i = 0; i < launch.num_variants; ++i) {
    const octet_variant &variant = launch.variants[i];
    if (variant.max_rows >= 0 && m > variant.max_rows)
      continue;
    std::string label;
    for (int64_t j = 0; j < variant.num_kernels; ++j)
      label += (j ? "+" : "") + std::string(variant.kernels[j].label);
    return label;
  }
  return "";
}

/// Checks again after the timing.
Status KernelRunner::time(const BenchCase &c, int64_t launch,
                          KernelResult &result, Effort effort) {
  OCTET_TRY_ASSIGN(result.us,
                   timeLaunches(
                       *driver, stream.handle(), numSets, result.kernel,
                       [&](int64_t set) { return enqueue(c, launch, set); },
                       effort));
  result.atLength = effort != Effort::Quick;
  return check(c, launch, result);
}

Status KernelRunner::runCase(const BenchCase &c, KernelReport &report) {
  constexpr size_t kFinalists = 3;
  OCTET_TRY(prepareCase(c));
  OCTET_TRY(makeReference(c));
  const size_t count = options.candidates ? c.launches.size() : 1;
  const size_t first = report.results.size();
  for (size_t i = 0; i < count && !stops(); ++i) {
    const int64_t launch = c.launches[i];
    KernelResult result;
    result.m = c.m;
    result.n = c.n;
    result.k = c.k;
    result.chosen = i == 0;
    result.kernel = labelOf(launches[size_t(launch)].get(), c.m);
    if (!c.variants.empty())
      result.variant = c.variants[i];
    result.tolerance = toleranceOf(c.yType);
    result.flops = 2.0 * double(c.m) * double(c.n) * double(c.k);
    result.bytes = double(layout.movedBytes);
    result.floorUs = 1e6 * std::max(result.flops / report.peak,
                                    result.bytes / report.copyBandwidth);
    OCTET_TRY(check(c, launch, result));
    if (!options.checkOnly && result.passed)
      OCTET_TRY(
          time(c, launch, result, count > 1 ? Effort::Quick : Effort::Whole));
    report.results.push_back(std::move(result));
  }
  std::span<KernelResult> results = std::span(report.results).subspan(first);
  if (count > 1 && !options.checkOnly)
    for (size_t i : chooseFinalists(results, kFinalists)) {
      if (stops())
        break;
      OCTET_TRY(time(c, c.launches[i], results[i], Effort::Final));
    }
  report.casesDone += !stops();
  return Status::success();
}

Result<KernelReport> KernelRunner::run() {
  OCTET_TRY(open());
  OCTET_TRY(errors.allocate(*driver, sizeof(CheckErrors), options.subject));
  KernelReport report;
  report.op = plan.op;
  report.target = plan.target;
  report.version = plan.version;
  const DeviceInfo &device = driver->device();
  report.device = device.name;
  report.driver = versionText(device.driverVersion);
  report.multiprocessors = device.multiprocessors;
  char date[32];
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  report.date = date;
  report.peak =
      peakOperations(device, plan.cases.empty() ? int32_t(OCTET_BF16)
                                                : plan.cases.front().x.type);
  OCTET_TRY_ASSIGN(report.copyBandwidth,
                   measureCopy(*driver, stream.handle(), options.subject));
  report.cases = int64_t(plan.cases.size());
  for (size_t i = 0; i < plan.cases.size() && !stops(); ++i) {
    if (options.progress)
      options.progress(i, plan.cases.size());
    OCTET_TRY(runCase(plan.cases[i], report));
  }
  return report;
}

Result<KernelReport> octet::rt::runKernels(const BenchPlan &plan,
                                           std::span<const std::byte> images,
                                           const KernelRunOptions &options) {
  return KernelRunner(plan, images, options).run();
}
