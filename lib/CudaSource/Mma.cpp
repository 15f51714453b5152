//===- Mma.cpp - Products by mma.sync -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Mma.h"
#include "lib/CudaSource/GemmText.h"
#include <algorithm>
#include <limits>
#include <numeric>

using namespace octet;
using namespace octet::cuda;

namespace {

/// What every target from sm_80 on gives a CTA, so that its code also runs on
/// the smaller devices of its generation.
constexpr int kMostShared = 99 * 1024;
constexpr int kMostStages = 8;

/// K as KTiles in gemm/mma_tile.cuh cuts it.
struct KShape {
  int64_t tile, groups, count;
};

} // namespace

static bool isE4m3(int32_t type) { return type == OCTET_E4M3; }

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static KShape cutK(const GemmProblem &p) {
  int64_t plain = isE4m3(p.wType) ? 128 : 64, step = isE4m3(p.wType) ? 32 : 16;
  int64_t bk = hasBlocks(p) ? p.blockK : 0;
  if (bk == 0)
    return {plain, 1, divideUp(p.k, plain)};
  if (bk % step == 0 && (plain % bk == 0 || bk % plain == 0))
    return {plain, plain / std::min(bk, plain), divideUp(p.k, plain)};
  int64_t parts = divideUp(bk, plain);
  int64_t part = alignUp(divideUp(bk, parts), 16);
  return {alignUp(part, step), 1, divideUp(p.k, bk) * parts};
}

static bool isAligned(const GemmProblem &p, int64_t span) {
  bool aligned = p.blockN % span == 0;
  int64_t begin = 0;
  for (int64_t rows : p.shards) {
    aligned &= begin % span == 0;
    begin += rows;
  }
  return aligned;
}

/// MmaGemm::kStageBytes.
static int64_t countStageBytes(const GemmProblem &p, int64_t m, int64_t n) {
  KShape k = cutK(p);
  int64_t bytes = m * alignUp(k.tile * elementBytes(p.xType), 128) +
                  n * alignUp(k.tile * elementBytes(p.wType), 128);
  if (p.xScaleMode == OCTET_SCALE_BLOCK)
    bytes += k.groups * m * 4;
  if (hasBlocks(p))
    bytes += k.groups * 4 * (isAligned(p, n) ? 1 : isAligned(p, 8) ? n / 8 : n);
  return alignUp(bytes, 128);
}

MmaTiles octet::cuda::chooseMmaTiles(const GemmProblem &p, int64_t rows) {
  constexpr int64_t kMany = 8192;
  // Warps so that each has eight columns and more, and 64 by 32 at the most
  // where sums are kept twice (N6).
  static const MmaTiles kTiles[] = {
      {16, 32, 1, 4},  {16, 64, 1, 4},  {16, 128, 1, 4},
      {32, 64, 1, 4},  {64, 32, 2, 2},  {64, 64, 2, 2},
      {64, 128, 2, 2}, {128, 64, 2, 2}, {128, 128, 2, 4}};
  MmaTiles best;
  double least = std::numeric_limits<double>::infinity();
  int64_t m = rows < 0 ? kMany : rows;
  for (MmaTiles tiles : kTiles) {
    int64_t stage = countStageBytes(p, tiles.m, tiles.n);
    tiles.stages = int(std::min<int64_t>(
        kMostStages, kMostShared / std::max<int64_t>(stage, 1)));
    if (tiles.stages < 2)
      continue;
    // Large tiles hide latency by their size; the rest is room for a second
    // CTA.
    if (tiles.m * tiles.n >= 64 * 128)
      tiles.stages = std::min(tiles.stages, 4);
    tiles.sharedBytes = int(tiles.stages * stage);
    // A step has a fixed part, of latency, and one that grows with the tile.
    double step = 0.2 + 0.55 * double(tiles.m * tiles.n) / (128 * 128);
    int64_t ctas = divideUp(m, tiles.m) * divideUp(p.n, tiles.n);
    double time = step * double(divideUp(ctas, p.multiprocessors));
    if (time < least) {
      least = time;
      best = tiles;
    }
  }
  return best;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string nameTiles(const GemmProblem &p, const MmaTiles &t) {
  return "m" + std::to_string(t.m) + "n" + std::to_string(t.n) + "k" +
         std::to_string(cutK(p).tile) + "s" + std::to_string(t.stages);
}

KernelInstance octet::cuda::makeMmaInstance(const GemmProblem &p,
                                            const MmaTiles &t,
                                            const Target &target) {
  KernelInstance instance;
  std::string tiles = nameTiles(p, t);
  instance.label = std::string(familyName(p)) + " " + tiles;
  instance.entry = "octet_kernel_mma_" + problemName(p) + "_" + tiles;
  instance.threads = 32 * t.warpsM * t.warpsN;
  instance.sharedBytes = t.sharedBytes;
  // Before sm_90 nothing in the text waits for the kernel before.
  instance.overlaps = target.capability >= 90;
  instance.grid[0] = {int32_t(divideUp(p.n, t.n)), 0, t.m, 0};

  std::string wScale = cppType(p.wScaleType);
  bool hasBias = p.biasType >= 0;
  GemmSignature signature;
  signature.add(GemmProblem::X, "const " + cppType(p.xType), "x", true);
  signature.add(GemmProblem::XScale, "const float", "xScale",
                p.xScaleMode != OCTET_SCALE_NONE);
  signature.add(GemmProblem::W, "const " + cppType(p.wType), "w", true);
  signature.add(GemmProblem::WScale, "const " + wScale, "wScale",
                p.wScaleMode != OCTET_SCALE_NONE);
  signature.add(GemmProblem::Bias, "const " + cppType(p.biasType), "bias",
                hasBias);
  signature.add(GemmProblem::Y, cppType(p.yType), "y", true);
  signature.addRowCount();
  instance.params = signature.params;

  auto number = [](int64_t value) { return std::to_string(value); };
  bool isBlocked = hasBlocks(p);
  std::string &s = instance.source;
  s += "// Y[m," + number(p.n) + "] = X[m," + number(p.k) +
       "] W^T: " + instance.label + "\n";
  s += isBlocked ? "// Each block of K is scaled and added in FP32, rounded "
                   "once [N6, W5b].\n"
                 : "// All of K is summed in FP32, scaled and rounded once "
                   "[N6b].\n";
  s += "#include \"gemm/mma_gemm.cuh\"\n\n";
  s += "using Config = octet::cuda::MmaGemm<\n";
  s += "    /*X=*/" + cppType(p.xType) + ", /*W=*/" + cppType(p.wType) +
       ", /*Y=*/" + cppType(p.yType) + ",\n";
  s += "    /*Bias=*/" + (hasBias ? cppType(p.biasType) : "void") +
       ", /*WScale=*/" + wScale + ",\n";
  s += "    /*kN=*/" + number(p.n) + ", /*kK=*/" + number(p.k) + ",\n";
  s += "    /*kXScaling=*/" + scalingText(p.xScaleMode) + ", /*kWScaling=*/" +
       scalingText(p.wScaleMode) + ",\n";
  s += std::string("    /*kXScaleByColumns=*/") +
       (p.columnMajorScales ? "true" : "false") + ", /*kBlockN=*/" +
       number(isBlocked ? p.blockN : 0) + ", /*kBlockK=*/" +
       number(isBlocked ? p.blockK : 0) + ",\n";
  s += "    /*kTileM=*/" + number(t.m) + ", /*kTileN=*/" + number(t.n) +
       ", /*kWarpsM=*/" + number(t.warpsM) + ", /*kWarpsN=*/" +
       number(t.warpsN) + ", /*kStages=*/" + number(t.stages) + ",\n";
  s += "    " + shardsText(p) + ">;\n";
  s += entryText(instance, "mmaGemm", signature);
  return instance;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

/// What the template asserts, as an error; nothing for a problem that it makes.
static std::string reject(const GemmProblem &p) {
  auto is16 = [](int32_t type) {
    return type == OCTET_BF16 || type == OCTET_F16;
  };
  auto isFloat = [&](int32_t type) { return is16(type) || type == OCTET_F32; };
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  if (p.n <= 0 || p.k <= 0 || p.n > kMost || p.k > kMost)
    return "N=" + std::to_string(p.n) + " and K=" + std::to_string(p.k) +
           " have to be from 1 to 2^31 - 1";
  if (p.shards.empty() ||
      std::accumulate(p.shards.begin(), p.shards.end(), int64_t(0)) != p.n)
    return "the shards are not the rows of the weight, N=" +
           std::to_string(p.n);
  if (!(is16(p.xType) && (p.wType == p.xType || isE4m3(p.wType))) &&
      !(isE4m3(p.xType) && isE4m3(p.wType)))
    return "it multiplies BF16, F16 or E4M3, or E4M3 widened to the type of "
           "x, not " +
           std::string(typeName(p.xType)) + " and " +
           std::string(typeName(p.wType));
  if (!isFloat(p.yType) || (p.biasType >= 0 && !isFloat(p.biasType)))
    return "y and bias are F32, BF16 or F16";
  if ((p.xScaleMode != OCTET_SCALE_NONE) != isE4m3(p.xType))
    return "x has scales where it is E4M3";
  if (p.xScaleMode == OCTET_SCALE_BLOCK && !hasBlocks(p))
    return "x has blocks where w has";
  if (hasBlocks(p) &&
      (p.blockN <= 0 || p.blockK <= 0 || p.blockN > kMost || p.blockK > kMost))
    return "a block of " + std::to_string(p.blockN) + "x" +
           std::to_string(p.blockK) + " has no rows or columns";
  if (p.wScaleMode != OCTET_SCALE_NONE && p.wScaleType != OCTET_F32 &&
      p.wScaleType != OCTET_E8M0)
    return "scales are F32 or powers of two";
  return "";
}

Result<KernelLaunch> octet::cuda::makeMmaGemm(const GemmProblem &p,
                                              const Target &target) {
  std::string why = reject(p);
  if (why.empty() && isE4m3(p.xType) && target.capability < 89)
    why = target.name + " has no FP8 products";
  if (!why.empty())
    return internalError(p.module, p.kernel + " is not made: " + why);

  KernelLaunch launch = startGemmLaunch(p);
  // Ranges of select-kernels, or those that it takes from here; neighbours with
  // equal tiles are one.
  std::vector<int64_t> ends = p.maxM;
  if (ends.size() == 1)
    ends = {16, 32, 64, 128, 256, 1024, -1};
  MmaTiles last;
  for (int64_t end : ends) {
    MmaTiles tiles = chooseMmaTiles(p, end);
    if (tiles.stages == 0)
      return internalError(p.module, p.kernel + " has no tile that fits " +
                                         std::to_string(kMostShared) +
                                         " bytes of shared memory");
    if (!launch.variants.empty() && tiles == last)
      launch.variants.back().maxRows = end;
    else
      launch.variants.push_back({end, {makeMmaInstance(p, tiles, target)}});
    last = tiles;
  }
  return launch;
}
