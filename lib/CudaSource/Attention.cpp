//===- Attention.cpp - kernel.attention to CUDA C++ -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Attention.h"
#include "lib/CudaSource/DeviceLimits.h"
#include "lib/CudaSource/GemmText.h"
#include "octet/Support/Checked.h"
#include <algorithm>
#include <bit>
#include <cstdio>

using namespace octet;
using namespace octet::cuda;

//===----------------------------------------------------------------------===//
// Sizes, as the templates have them: the emitted text asserts that they agree
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t kPageTokens = OCTET_PAGE, kChunk = 16;
/// Rows that a sequence of the decoding kernel has at most.
constexpr int64_t kMaxRows = 1;
constexpr int64_t kDecodeWarps = 4, kLanes = 32;

/// pitchOf of attention/kv.cuh.
int64_t pitchOf(int64_t rowBytes) {
  return rowBytes + (rowBytes / kChunk % 2 == 0 ? kChunk : 0);
}

struct Decode {
  int64_t tiles = 1, productTiles = 1; // of queries
  int64_t stages = 2, perSm = 1;
  int64_t splits = 1;
  int64_t stageBytes = 0, sharedBytes = 0, workspaceBytes = 0;
  static constexpr int64_t kSplitPages = 4;
};

struct Prefill {
  int64_t warps, rowTiles, keys;
  int64_t sharedBytes = 0;
  int64_t stages = 0; ///< of Sm90Prefill; 0: PagedPrefill
  int64_t queries() const { return warps * 16 * rowTiles; }
};

} // namespace

static bool isScaled(const AttentionProblem &p) {
  return p.kvType == OCTET_E4M3;
}
static int64_t groupOf(const AttentionProblem &p) {
  return p.qHeads / p.kvHeads;
}

static int64_t decodeShared(const AttentionProblem &p, const Decode &d) {
  return kDecodeWarps * d.stages * d.stageBytes + p.maxSeqs * 20 +
         4 * kDecodeWarps;
}

static Decode chooseDecode(const AttentionProblem &p,
                           const DeviceLimits &device) {
  Decode d;
  const int64_t rows = kMaxRows * groupOf(p);
  d.productTiles = rows > 8 ? 2 : 1;
  d.tiles = cdiv(rows, 8 * d.productTiles);
  const int64_t padded = alignTo(p.headDim, isScaled(p) ? 32 : 16);
  d.stageBytes = 2 * 16 * pitchOf(padded * (isScaled(p) ? 1 : 2));

  // Two CTAs with pages under way keep the memory busy, more do not. A thread's
  // registers are the result, the queries and about 72.
  const int64_t registers = 72 + 3 * padded * d.productTiles / 8;
  const int64_t threads = kDecodeWarps * kLanes;
  d.perSm = std::clamp<int64_t>(device.registers / (threads * registers), 1, 2);
  for (;; --d.perSm) {
    const int64_t each =
        std::min(device.sharedPerSm / d.perSm - device.reservedShared,
                 device.sharedPerCta);
    d.stages = 0;
    d.stages = std::clamp<int64_t>(
        (each - decodeShared(p, d)) / (kDecodeWarps * d.stageBytes), 1, 8);
    d.sharedBytes = decodeShared(p, d);
    if (d.stages >= 2 || d.perSm == 1)
      break;
  }

  // Enough splits of one long sequence to occupy the device (its size is a
  // constant of the target, so results do not depend on the batch, B5).
  constexpr int64_t kMostSplits = 64;
  const int64_t keys = p.window > 0
                           ? std::min(p.maxContext, p.window + kPageTokens)
                           : p.maxContext;
  const int64_t pages = cdiv(keys, kPageTokens) + 1;
  // A sequence that is alone has a place of its own.
  const int64_t splitBytes = (p.maxSeqs + 1) * p.kvHeads * rows *
                             (p.headDim + 2) * int64_t(sizeof(float));
  constexpr int64_t kMostBytes = int64_t(256) << 20;
  d.splits = std::clamp<int64_t>(
      d.perSm * p.multiprocessors / (p.kvHeads * d.tiles), 1,
      std::min({kMostSplits, cdiv(pages, Decode::kSplitPages),
                std::max<int64_t>(1, kMostBytes / splitBytes)}));
  d.workspaceBytes =
      d.splits * splitBytes + p.kvHeads * d.tiles * int64_t(sizeof(uint32_t));
  return d;
}

/// Products of warp groups take parts of 64 columns of a head.
static bool takesWarpGroups(const AttentionProblem &p, const Target &target) {
  return target.capability == 90 && p.kernel == "sm90.paged_attention" &&
         p.headDim % 64 == 0;
}

static Prefill chooseSm90Prefill(const AttentionProblem &p) {
  constexpr int64_t kNarrowDim = 128, kStages = 2, kBarrierBytes = 32;
  constexpr int64_t kMathWarps = 8, kAlignment = 1024;
  Prefill c{kMathWarps, 1, p.headDim <= kNarrowDim ? 128 : 64};
  c.stages = kStages;
  const int64_t rawBytes = isScaled(p) ? c.keys * p.headDim : 0;
  c.sharedBytes = kAlignment +
                  (c.queries() + 2 * c.stages * c.keys) * p.headDim * 2 +
                  2 * rawBytes + kBarrierBytes * c.stages + kBarrierBytes / 2;
  return c;
}

/// The first that fits; none where 0 warps.
static Prefill choosePrefill(const AttentionProblem &p, const Target &target,
                             const DeviceLimits &device) {
  if (takesWarpGroups(p, target))
    return chooseSm90Prefill(p);
  static constexpr Prefill kNarrow[] = {{4, 2, 64}, {4, 1, 64}, {4, 1, 32}};
  static constexpr Prefill kWide[] = {{8, 1, 64}, {4, 1, 64}, {4, 1, 32}};
  const int64_t pitch = pitchOf(alignTo(p.headDim, 16) * 2);
  const int64_t rawPitch = isScaled(p) ? alignTo(p.headDim, 16) + 16 : 0;
  constexpr int64_t kNarrowDim = 128;
  for (Prefill c : p.headDim <= kNarrowDim ? kNarrow : kWide) {
    c.sharedBytes = c.queries() * pitch + 2 * c.keys * (pitch + rawPitch);
    if (c.sharedBytes <= device.sharedPerCta)
      return c;
  }
  return {0, 0, 0};
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string className(int32_t type) {
  return type == OCTET_BF16  ? "octet::cuda::Bf16"
         : type == OCTET_F16 ? "octet::cuda::F16"
                             : "octet::cuda::E4m3";
}

static std::string hex(uint32_t bits) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08x", bits);
  return text;
}

static uint32_t scaleBits(const AttentionProblem &p) {
  return std::bit_cast<uint32_t>(p.scale);
}

/// "bf16_e4m3_q32_kv8_d128_w0_s3db504f3"
static std::string shapeName(const AttentionProblem &p) {
  return std::string(typeName(p.type)) + "_" + std::string(typeName(p.kvType)) +
         "_q" + std::to_string(p.qHeads) + "_kv" + std::to_string(p.kvHeads) +
         "_d" + std::to_string(p.headDim) + "_w" + std::to_string(p.window) +
         "_s" + hex(scaleBits(p));
}

static std::string shapeText(const AttentionProblem &p) {
  return "    octet::cuda::AttentionShape</*T=*/" + className(p.type) +
         ", /*Kv=*/" + className(p.kvType) + ",\n        /*kQHeads=*/" +
         std::to_string(p.qHeads) + ", /*kKvHeads=*/" +
         std::to_string(p.kvHeads) + ", /*kHeadDim=*/" +
         std::to_string(p.headDim) + ",\n        /*kWindow=*/" +
         std::to_string(p.window) + ", /*kScaleBits=*/0x" + hex(scaleBits(p)) +
         "u>,\n";
}

namespace {
/// An argument of a kernel: C++ type and name, and where it comes from.
struct Arg {
  std::string declaration;
  std::string name;
  Param param;
};
} // namespace

/// Keys or values as a tensor map over the rows of the cache: a page by 128
/// bytes of a head, or by all its codes. How many rows the cache has is known
/// to the runtime only; none behind them is ever named.
static Arg mapArg(const AttentionProblem &p, const char *name, int arg) {
  constexpr int64_t kMostRows = int64_t(1) << 30;
  constexpr int32_t kSwizzle = 128, kBoxColumns = 64;
  Param map;
  map.kind = OCTET_PARAM_TENSOR_MAP;
  map.arg = arg;
  map.type = p.kvType;
  map.swizzle = isScaled(p) ? 0 : kSwizzle;
  map.rows = kMostRows;
  map.cols = p.kvHeads * p.headDim;
  map.boxRows = int32_t(kPageTokens);
  map.boxCols = isScaled(p) ? int32_t(p.headDim) : kBoxColumns;
  return {"const __grid_constant__ octet::cuda::TensorMap " + std::string(name),
          name, map};
}

static std::vector<Arg> operandArgs(const AttentionProblem &p) {
  const std::string type = className(p.type), kv = className(p.kvType);
  std::vector<Arg> args = {
      {"const " + type + " *q", "q", Param::address(AttentionProblem::Q)},
      {"const " + kv + " *k", "k", Param::address(AttentionProblem::K)},
      {"const " + kv + " *v", "v", Param::address(AttentionProblem::V)},
  };
  return args;
}

/// A scale of an FP8 cache; nullptr is passed on where there is none.
static Arg scaleArg(const AttentionProblem &p, const char *name, int arg) {
  if (!isScaled(p))
    return {"", "nullptr", {}};
  return {"const float *" + std::string(name), name, Param::address(arg)};
}
static Arg kScaleArg(const AttentionProblem &p) {
  return scaleArg(p, "kScale", AttentionProblem::KScale);
}
static Arg vScaleArg(const AttentionProblem &p) {
  return scaleArg(p, "vScale", AttentionProblem::VScale);
}
static Arg outputArg(const AttentionProblem &p) {
  return {className(p.type) + " *y", "y", Param::address(AttentionProblem::Y)};
}
static Arg sequencesArg() {
  return {"const octet::cuda::Sequence *sequences", "sequences",
          Param::sequences()};
}
static Arg numSequencesArg() {
  return {"int numSequences", "numSequences", Param::numSequences()};
}
static Arg pagesArg() { return {"const int *pages", "pages", Param::pages()}; }
static Arg workspaceArg() {
  return {"void *workspace", "workspace", Param::workspace()};
}

/// The function `kernel.entry`, which calls `function<Config>` with `args`;
/// sets the kernel's text and parameters.
/// \param config  PagedDecode or PagedPrefill
/// \param sizes   what the text asserts of Config
static void writeSource(KernelInstance &kernel, const AttentionProblem &p,
                        std::string_view header, std::string_view about,
                        std::string_view config, std::string_view constants,
                        std::string_view sizes, std::string_view function,
                        const std::vector<Arg> &args) {
  auto join = [&](auto &&pick, std::string_view separator) {
    std::string text;
    for (const Arg &arg : args)
      if (std::string each = pick(arg); !each.empty())
        text.append(text.empty() ? "" : separator).append(each);
    return text;
  };
  std::string &text = kernel.source;
  text.append("// ").append(p.module).append(": softmax(q k^T * scale) v over");
  text.append(" a cache of ").append(typeName(p.kvType)).append(" (P11)\n// ");
  text.append(about).append("\n\n#include \"attention/").append(header);
  text.append("\"\n\nusing Config = octet::cuda::").append(config);
  text.append("<\n").append(shapeText(p)).append("    ").append(constants);
  text.append(">;\nstatic_assert(").append(sizes);
  text.append(",\n              \"the sizes that the launch has\");\n\n");
  text.append("extern \"C\" __global__ void __launch_bounds__(");
  text.append(std::to_string(kernel.threads));
  if (kernel.perSm > 1)
    text.append(", ").append(std::to_string(kernel.perSm));
  text.append(")\n").append(kernel.entry).append("(\n    ");
  text.append(join([](const Arg &a) { return a.declaration; }, ",\n    "));
  text.append(") {\n");
  text.append(wrapList(std::string("  octet::cuda::") + std::string(function) +
                           "<Config>(",
                       join([](const Arg &a) { return a.name; }, ", ")));
  text.append(");\n}\n");
  for (const Arg &arg : args)
    if (!arg.declaration.empty())
      kernel.params.push_back(arg.param);
}

//===----------------------------------------------------------------------===//
// Instances
//===----------------------------------------------------------------------===//

/// The decoding kernel and, where there are splits, the one that adds them for
/// several sequences.
static std::vector<KernelInstance> makeDecode(const AttentionProblem &p,
                                              const Decode &d) {
  const std::string rows = std::to_string(kMaxRows);
  const std::string sequences = std::to_string(p.maxSeqs);
  const std::string splits = std::to_string(d.splits);
  const std::string pages = std::to_string(Decode::kSplitPages);
  const std::string stages = std::to_string(d.stages);
  const std::string constants =
      "/*kMaxRows=*/" + rows + ", /*kMaxSequences=*/" + sequences +
      ", /*kMaxSplits=*/" + splits + ", /*kSplitPages=*/" + pages +
      ",\n    /*kStages=*/" + stages;
  const std::string sizes =
      "Config::kSharedBytes == " + std::to_string(d.sharedBytes) +
      " && Config::kWorkspaceBytes == " + std::to_string(d.workspaceBytes);
  const std::string name = shapeName(p) + "_r" + rows + "_n" + sequences +
                           "_p" + splits + "x" + pages + "_t" + stages;
  const std::string about = "sequences of up to " + rows + " row";

  std::vector<KernelInstance> kernels(d.splits > 1 ? 2 : 1);
  KernelInstance &decode = kernels[0];
  decode.label = "paged_decode d" + std::to_string(p.headDim) + "_split" +
                 splits + "x" + pages;
  decode.entry =
      "octet_kernel_paged_decode_" + name + "_o" + std::to_string(d.perSm);
  decode.threads = int32_t(kDecodeWarps * kLanes);
  decode.sharedBytes = int32_t(d.sharedBytes);
  decode.perSm = int32_t(d.perSm);
  decode.grid[0] = {int32_t(d.splits * p.kvHeads * d.tiles), 0, 0, 1};
  decode.workspaceBytes = d.workspaceBytes;
  std::vector<Arg> args = operandArgs(p);
  for (Arg arg : {kScaleArg(p), vScaleArg(p), outputArg(p), sequencesArg(),
                  numSequencesArg(), pagesArg(), workspaceArg()})
    args.push_back(std::move(arg));
  writeSource(decode, p, "paged_decode.cuh", about, "PagedDecode", constants,
              sizes, "pagedDecode", args);
  if (d.splits == 1)
    return kernels;

  KernelInstance &join = kernels[1];
  join.label = "join_splits d" + std::to_string(p.headDim);
  join.entry = "octet_kernel_join_splits_" + name;
  join.threads = decode.threads;
  // 2 (n - 1) is none for a sequence that is alone, and otherwise n or more.
  join.grid[0] = {int32_t(2 * p.kvHeads * groupOf(p) * kMaxRows), -1, 0, 1};
  writeSource(join, p, "paged_decode.cuh", about + ": their splits",
              "PagedDecode", constants, sizes, "joinSplits",
              {vScaleArg(p), outputArg(p), sequencesArg(), numSequencesArg(),
               workspaceArg()});
  return kernels;
}

/// A sequence's last tile may be a part of one.
static Grid prefillGrid(const AttentionProblem &p, const Prefill &c) {
  const int64_t group = groupOf(p);
  return {int32_t(p.kvHeads * cdiv(group, c.queries())), 0,
          int32_t(std::max<int64_t>(1, c.queries() / group)), 1};
}

static KernelInstance makeSm90Prefill(const AttentionProblem &p,
                                      const Prefill &c) {
  constexpr int64_t kCopyWarps = 4;
  const std::string keys = std::to_string(c.keys);
  const std::string stages = std::to_string(c.stages);
  const std::string rows = std::to_string(kMaxRows);
  KernelInstance kernel;
  kernel.label = "sm90_prefill d" + std::to_string(p.headDim) + "_q" +
                 std::to_string(c.queries()) + "k" + keys;
  kernel.entry = "octet_kernel_sm90_prefill_" + shapeName(p) + "_k" + keys +
                 "_t" + stages + "_r" + rows;
  kernel.threads = int32_t((kCopyWarps + c.warps) * kLanes);
  kernel.sharedBytes = int32_t(c.sharedBytes);
  kernel.grid[0] = prefillGrid(p, c);
  std::vector<Arg> args = operandArgs(p);
  args[1] = mapArg(p, "k", AttentionProblem::K);
  args[2] = mapArg(p, "v", AttentionProblem::V);
  for (Arg arg : {kScaleArg(p), vScaleArg(p), outputArg(p), sequencesArg(),
                  numSequencesArg(), pagesArg()})
    args.push_back(std::move(arg));
  writeSource(kernel, p, "sm90_prefill.cuh",
              "sequences of more than " + rows + " row", "Sm90Prefill",
              "/*kKeys=*/" + keys + ", /*kStages=*/" + stages +
                  ", /*kSkipRows=*/" + rows,
              "Config::kSharedBytes == " + std::to_string(c.sharedBytes),
              "sm90Prefill", args);
  return kernel;
}

static KernelInstance makePrefill(const AttentionProblem &p, const Prefill &c) {
  const std::string warps = std::to_string(c.warps);
  const std::string rowTiles = std::to_string(c.rowTiles);
  const std::string keys = std::to_string(c.keys);
  const std::string rows = std::to_string(kMaxRows);
  KernelInstance kernel;
  kernel.label = "paged_prefill d" + std::to_string(p.headDim) + "_q" +
                 std::to_string(c.queries()) + "k" + keys;
  kernel.entry = "octet_kernel_paged_prefill_" + shapeName(p) + "_w" + warps +
                 "x" + rowTiles + "_k" + keys + "_r" + rows;
  kernel.threads = int32_t(c.warps * kLanes);
  kernel.sharedBytes = int32_t(c.sharedBytes);
  kernel.grid[0] = prefillGrid(p, c);
  std::vector<Arg> args = operandArgs(p);
  for (Arg arg : {kScaleArg(p), vScaleArg(p), outputArg(p), sequencesArg(),
                  numSequencesArg(), pagesArg()})
    args.push_back(std::move(arg));
  writeSource(kernel, p, "paged_prefill.cuh",
              "sequences of more than " + rows + " row", "PagedPrefill",
              "/*kWarps=*/" + warps + ", /*kRowTiles=*/" + rowTiles +
                  ", /*kKeys=*/" + keys + ", /*kSkipRows=*/" + rows,
              "Config::kSharedBytes == " + std::to_string(c.sharedBytes),
              "pagedPrefill", args);
  return kernel;
}

/// What the templates assert; "" if it holds.
static std::string findFault(const AttentionProblem &p) {
  constexpr int64_t kMostDim = 256;
  if (p.type != OCTET_BF16 && p.type != OCTET_F16)
    return "q is " + std::string(typeName(p.type)) + ", not bf16 or f16";
  if (p.kvType != p.type && p.kvType != OCTET_E4M3)
    return "the cache is " + std::string(typeName(p.kvType)) + ", not " +
           std::string(typeName(p.type)) + " or e4m3";
  if (p.kvHeads < 1 || p.qHeads % p.kvHeads)
    return std::to_string(p.qHeads) + " query heads over " +
           std::to_string(p.kvHeads) + " KV heads";
  if (p.headDim < 8 || p.headDim % 8 || p.headDim > kMostDim)
    return "heads of " + std::to_string(p.headDim) +
           ", not a multiple of 8 up to 256";
  if (p.maxSeqs < 1 || p.maxContext < 1)
    return std::to_string(p.maxSeqs) + " sequences of " +
           std::to_string(p.maxContext) + " tokens";
  return "";
}

Result<KernelLaunch>
octet::cuda::makePagedAttention(const AttentionProblem &problem,
                                const Target &target) {
  if (std::string fault = findFault(problem); !fault.empty())
    return internalError(problem.module, problem.kernel + ": " + fault);
  const DeviceLimits device = limitsOf(target);
  const Decode decode = chooseDecode(problem, device);
  const Prefill prefill = choosePrefill(problem, target, device);
  if (decode.sharedBytes > device.sharedPerCta || prefill.warps == 0)
    return internalError(problem.module,
                         problem.kernel + ": " +
                             std::to_string(decode.sharedBytes) +
                             " bytes of shared memory, " + target.name +
                             " has " + std::to_string(device.sharedPerCta));
  KernelLaunch launch;
  launch.module = problem.module;
  launch.label = problem.kernel;
  launch.byLongest = true;
  launch.variants.resize(2);
  launch.variants[0].maxRows = kMaxRows;
  for (KernelVariant &variant : launch.variants)
    variant.kernels = makeDecode(problem, decode);
  launch.variants[1].kernels.push_back(prefill.stages
                                           ? makeSm90Prefill(problem, prefill)
                                           : makePrefill(problem, prefill));
  // Code for older targets does not wait for the kernel before it.
  for (KernelVariant &variant : launch.variants)
    for (KernelInstance &kernel : variant.kernels)
      kernel.overlaps = target.capability >= 90;
  // Keys and values are not counted: how many there are is in the context.
  launch.rowBytes = 2 * problem.qHeads * problem.headDim * 2;
  return launch;
}
