//===- Sm90.cpp - Products by wgmma ---------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Sm90.h"
#include "lib/CudaSource/GemmText.h"
#include <algorithm>

using namespace octet;
using namespace octet::cuda;

static constexpr int64_t kRowBytes = 128; ///< of a tile: one step of K
static constexpr int64_t kMostShared = 227 * 1024;

//===----------------------------------------------------------------------===//
// Legality
//===----------------------------------------------------------------------===//

/// Every shard starts at a multiple of `rows`, which divides a block's.
static bool isAligned(const GemmProblem &p, int64_t rows) {
  int64_t begin = 0;
  for (int64_t shard : p.shards) {
    if (begin % rows != 0)
      return false;
    begin += shard;
  }
  return true;
}

std::string octet::cuda::rejectSm90(const GemmProblem &p) {
  if (std::string fault = rejectBulkCopied(p); !fault.empty())
    return fault;
  if (p.xType == OCTET_E4M3 && p.wScaleType != OCTET_F32)
    return "scales are F32";
  if ((p.xScaleMode == OCTET_SCALE_BLOCK) != hasBlocks(p))
    return "blocks scale both operands";
  if (!hasBlocks(p))
    return "";
  if (p.blockN != p.blockK || (p.blockN != 128 && p.blockN != 32))
    return "blocks are 128x128 or 32x32, not " + std::to_string(p.blockN) +
           "x" + std::to_string(p.blockK);
  if (!p.columnMajorScales)
    return "scales of x lie along its rows (P3)";
  if (!isAligned(p, 8))
    return "shards with block scales start at multiples of 8 rows";
  return "";
}

/// Lanes of WeightScales: scales of `rows` rows of w for a step of K.
static int64_t countScales(const GemmProblem &p, int64_t rows) {
  if (!hasBlocks(p))
    return 0;
  int64_t granule = p.blockN;
  while (granule > 1 && (rows % granule != 0 || !isAligned(p, granule)))
    granule /= 2;
  return rows / granule * (128 / p.blockK);
}

int64_t octet::cuda::countSm90SharedBytes(const GemmProblem &p,
                                          const Sm90Tiles &t) {
  int64_t xScales = hasBlocks(p) ? alignUp(128 / p.blockK * t.m * 4, 128) : 0;
  int64_t end = t.stages * ((t.m + t.n) * kRowBytes + xScales);
  if (!t.isSwapped)
    return end + 4 * t.warpgroups * 16 * kRowBytes + 16 * t.stages;
  int64_t warps = t.n / 16;
  int64_t parts =
      t.splits > 1 ? divideUp(warps, t.splits) * t.splits * t.m * 16 * 4 : 0;
  return (parts > 16384 ? std::max(end, parts) : end + parts) + 16 * t.stages +
         8;
}

std::string octet::cuda::rejectSm90Tiles(const GemmProblem &p,
                                         const Sm90Tiles &t) {
  int64_t steps = divideUp(p.k, kRowBytes / elementBytes(p.xType));
  bool isFp8 = p.xType == OCTET_E4M3;
  if (t.stages < 1 || t.buffers > 2)
    return "there are stages, and one or two buffers of sums";
  if (t.isSwapped) {
    if (t.m % (8 * t.share) != 0 || t.m > 128)
      return "a tile has a multiple of 8 rows of x for each CTA that shares "
             "them, up to 128";
    if (t.n % 64 != 0 || t.n > 256)
      return "a tile has a multiple of 64 rows of w up to 256";
    if (t.splits * t.share > 8 || t.splits > t.n / 16)
      return "a cluster has at most 8 CTAs, a split no more than warps";
    if (divideUp(steps, t.splits) * (t.splits - 1) >= steps)
      return "every part of K has a step";
  } else {
    int64_t pass = 64 * int64_t(t.warpgroups);
    if (t.warpgroups > 3 || (t.m != pass && t.m != 2 * pass))
      return "a tile has 64 or 128 rows of x for each of up to three "
             "warpgroups";
    if (t.n % 8 != 0 || t.n > 256 || (t.n > 128 && t.n % 16 != 0))
      return "a tile has a multiple of 8 rows of w, of 16 above 128, up to 256";
    if (t.m % (8 * t.clusterN) != 0 || t.n % (8 * t.clusterM) != 0 ||
        t.clusterM * t.clusterN > 8)
      return "CTAs of a cluster copy whole groups of 8 rows";
    if (isFp8 && t.buffers == 2 && t.m != pass)
      return "two buffers are for one pass";
  }
  if (!t.isSwapped && countScales(p, t.n) > 32)
    return "a tile of w has at most 32 scales for a step of K";
  if (countSm90SharedBytes(p, t) > kMostShared)
    return "the stages fit in 227 KiB";
  return "";
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string productText(const GemmProblem &p) {
  auto number = [](int64_t value) { return std::to_string(value); };
  std::string shape = "/*kN=*/" + number(p.n) + ", /*kK=*/" + number(p.k);
  std::string types = "/*Output=*/" + cppType(p.yType) + ", /*Bias=*/" +
                      (p.biasType >= 0 ? cppType(p.biasType) : "void");
  std::string ns = "octet::cuda::";
  if (hasBlocks(p))
    return ns + "Sm90Fp8Block<\n    " + types + ",\n    " + shape + ", " +
           shardsText(p) + ", /*kBlock=*/" + number(p.blockK) + ">";
  if (p.xType == OCTET_E4M3)
    return ns + "Sm90Fp8Scaled<\n    " + types + ",\n    /*kXScaling=*/" +
           scalingText(p.xScaleMode) + ", /*kWScaling=*/" +
           scalingText(p.wScaleMode) + ",\n    " + shape + ", " +
           shardsText(p) + ">";
  return ns + "Sm90Dense<\n    /*Input=*/" + cppType(p.xType) + ", " + types +
         ",\n    " + shape + ">";
}

static std::string configText(const Sm90Tiles &t) {
  std::string text = t.isSwapped
                         ? "octet::cuda::Sm90SwappedConfig<\n    Product"
                         : "octet::cuda::Sm90TiledConfig<\n    Product";
  auto add = [&](const char *name, int value) {
    text += std::string(", /*") + name + "=*/" + std::to_string(value);
  };
  add("kTileM", t.m);
  add("kTileN", t.n);
  add("kStages", t.stages);
  text += ",\n    ";
  std::string rest;
  std::swap(text, rest);
  if (t.isSwapped) {
    add("kSplits", t.splits);
    add("kShare", t.share);
    add("kBuffers", t.buffers);
  } else {
    add("kMathWarpgroups", t.warpgroups);
    add("kClusterM", t.clusterM);
    add("kClusterN", t.clusterN);
    add("kBuffers", t.buffers);
    add("kGroup", t.group);
  }
  return rest + text.substr(2) + ">";
}

std::string octet::cuda::nameSm90Tiles(const GemmProblem &p,
                                       const Sm90Tiles &tiles) {
  return tiles.name(int(kRowBytes / elementBytes(p.xType)));
}

static KernelInstance makeInstance(const GemmProblem &p, const Sm90Tiles &t) {
  std::string tiles = nameSm90Tiles(p, t);
  KernelInstance instance;
  instance.label = std::string(familyName(p)) + " " + tiles;
  instance.entry = "octet_kernel_sm90_" + problemName(p) + "_" + tiles;
  instance.sharedBytes = int32_t(countSm90SharedBytes(p, t));
  instance.overlaps = true;
  if (t.isSwapped) {
    instance.threads = 128 * (t.n / 64) + 128;
    instance.cluster = t.splits * t.share;
    instance.grid[0] = Grid::constant(divideUp(p.n, int64_t(t.n) * t.share) *
                                      instance.cluster);
    instance.grid[1] = {1, 0, t.m, 0};
  } else {
    instance.threads = 128 * t.warpgroups + 128;
    instance.cluster = t.clusterM * t.clusterN;
    instance.grid[0] = {
        int32_t(divideUp(p.n, int64_t(t.n) * t.clusterN) * instance.cluster), 0,
        t.m * t.clusterM, 0};
    instance.perSm = 1;
  }

  GemmSignature signature;
  signature.addMap(p, GemmProblem::X, "x", -1,
                   t.m / (t.isSwapped ? t.share : t.clusterN));
  if (hasBlocks(p))
    signature.addScaleMap(p, "xScale", t.m);
  else
    signature.add(GemmProblem::XScale, "const float", "xScale",
                  p.xScaleMode != OCTET_SCALE_NONE);
  signature.addMap(p, GemmProblem::W, "w", p.n,
                   t.n / (t.isSwapped ? 1 : t.clusterM));
  signature.add(GemmProblem::WScale, "const float", "wScale",
                p.wScaleMode != OCTET_SCALE_NONE);
  signature.add(GemmProblem::Bias, "const " + cppType(p.biasType), "bias",
                p.biasType >= 0);
  signature.add(GemmProblem::Y, cppType(p.yType), "y", true);
  signature.addRowCount();
  instance.params = signature.params;

  bool isFp8 = p.xType == OCTET_E4M3;
  const char *file = hasBlocks(p) ? "fp8_block"
                     : isFp8      ? "fp8_scaled"
                                  : "dense";
  std::string &s = instance.source;
  s += "// Y[m," + std::to_string(p.n) + "] = X[m," + std::to_string(p.k) +
       "] W^T: " + instance.label + "\n";
  s += hasBlocks(p) ? "// Each block of K is scaled and added in FP32, rounded "
                      "once [N6, W5b].\n"
                    : "// All of K is summed in FP32" +
                          std::string(isFp8 ? ", scaled" : "") +
                          " and rounded once [N6b].\n";
  s += std::string("#include \"gemm/sm90_") + file + ".cuh\"\n\n";
  s += "using Product = " + productText(p) + ";\n";
  s += "using Config = " + configText(t) + ";\n";
  s += entryText(instance, t.isSwapped ? "sm90Swapped" : "sm90Tiled", signature,
                 t.isSwapped ? t.perSm : 1);
  return instance;
}

Result<KernelLaunch> octet::cuda::makeSm90Gemm(const GemmProblem &p,
                                               const Target &target) {
  std::string why = rejectSm90(p);
  if (why.empty() && (target.capability < 90 || target.capability >= 100))
    why = target.name + " has no warp-group products";
  std::vector<Sm90Variant> variants;
  if (why.empty() && p.variants.size() == 1 && p.variants[0].empty())
    variants = chooseSm90Tiles(p, /*splitsK=*/true);
  else if (why.empty())
    for (size_t i = 0; i < p.variants.size() && why.empty(); ++i) {
      std::optional<Sm90Tiles> tiles = parseSm90Tiles(p.variants[i]);
      why = tiles ? rejectSm90Tiles(p, *tiles)
                  : "'" + p.variants[i] + "' names no tiles";
      if (why.empty())
        variants.push_back({p.maxM[i], *tiles});
    }
  if (!why.empty())
    return internalError(p.module, p.kernel + " is not made: " + why);
  KernelLaunch launch = startGemmLaunch(p);
  for (const Sm90Variant &variant : variants)
    launch.variants.push_back({variant.maxM, {makeInstance(p, variant.tiles)}});
  return launch;
}
