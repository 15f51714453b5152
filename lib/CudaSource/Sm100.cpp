//===- Sm100.cpp - Products in tensor memory ------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "lib/CudaSource/Sm100.h"
#include "lib/CudaSource/GemmText.h"
#include <algorithm>

using namespace octet;
using namespace octet::cuda;

/// Sm100Gemm's shared memory, in bytes.
static int64_t countSharedBytes(const GemmProblem &p, int64_t tileM,
                                int64_t stages) {
  int64_t buffers = hasBlocks(p) ? 2 : 1;
  return stages * (128 + tileM) * 128 + 2 * tileM * 4 +
         (2 * stages + 2 * buffers + 1) * 8 + 1024;
}

/// What the template asserts, as an error; nothing for a problem that it makes.
static std::string reject(const GemmProblem &p) {
  if (std::string fault = rejectBulkCopied(p); !fault.empty())
    return fault;
  if ((p.xScaleMode == OCTET_SCALE_BLOCK) != hasBlocks(p))
    return "blocks scale both operands";
  if (hasBlocks(p) && (p.wScaleType != OCTET_E8M0 || p.blockN != p.blockK ||
                       (p.blockN != 128 && p.blockN != 32)))
    return "blocks are 128x128 or 32x32 with powers of two";
  if (!hasBlocks(p) && p.xType == OCTET_E4M3 && p.wScaleType != OCTET_F32)
    return "scales are F32";
  return "";
}

static KernelInstance makeInstance(const GemmProblem &p, int tileM) {
  constexpr int kMostShared = 227 * 1024, kMostStages = 8;
  int stages = kMostStages;
  while (countSharedBytes(p, tileM, stages) > kMostShared)
    --stages;
  KernelInstance instance;
  std::string tiles =
      "m" + std::to_string(tileM) + "n128s" + std::to_string(stages);
  instance.label = std::string(familyName(p)) + " " + tiles;
  instance.entry = "octet_kernel_sm100_" + problemName(p) + "_" + tiles;
  instance.threads = 192;
  instance.sharedBytes = int32_t(countSharedBytes(p, tileM, stages));
  instance.overlaps = true;
  instance.grid[0] = {int32_t(divideUp(p.n, 128)), 0, tileM, 0};

  bool isBlocked = hasBlocks(p), hasBias = p.biasType >= 0;
  GemmSignature signature;
  signature.addMap(p, GemmProblem::X, "x", -1, tileM);
  signature.add(GemmProblem::XScale,
                isBlocked ? "const octet::cuda::u32" : "const float", "xScale",
                p.xScaleMode != OCTET_SCALE_NONE);
  signature.addMap(p, GemmProblem::W, "w", p.n, 128);
  signature.add(GemmProblem::WScale, "const " + cppType(p.wScaleType), "wScale",
                p.wScaleMode != OCTET_SCALE_NONE);
  signature.add(GemmProblem::Bias, "const " + cppType(p.biasType), "bias",
                hasBias);
  signature.add(GemmProblem::Y, cppType(p.yType), "y", true);
  signature.addRowCount();
  instance.params = signature.params;

  auto number = [](int64_t value) { return std::to_string(value); };
  std::string &s = instance.source;
  s += "// Y[m," + number(p.n) + "] = X[m," + number(p.k) +
       "] W^T: " + instance.label + "\n";
  s += isBlocked ? "// Each block of K is scaled and added in FP32, rounded "
                   "once [N6, W5b].\n"
                 : "// All of K is summed in FP32, scaled and rounded once "
                   "[N6b].\n";
  s += "// Compile-only: no device of this family was at hand.\n";
  s += "#include \"gemm/sm100_gemm.cuh\"\n\n";
  s += "using Config = octet::cuda::Sm100Gemm<\n";
  s += "    /*X=*/" + cppType(p.xType) + ", /*Y=*/" + cppType(p.yType) +
       ", /*Bias=*/" + (hasBias ? cppType(p.biasType) : "void") + ",\n";
  s += "    /*kN=*/" + number(p.n) + ", /*kK=*/" + number(p.k) + ",\n";
  s += "    /*kXScaling=*/" + scalingText(p.xScaleMode) + ", /*kWScaling=*/" +
       scalingText(p.wScaleMode) + ",\n";
  s += "    /*kBlock=*/" + number(isBlocked ? p.blockK : 0) + ", /*kTileM=*/" +
       number(tileM) + ", /*kStages=*/" + number(stages) + ",\n    " +
       shardsText(p) + ">;\n";
  s += entryText(instance, "sm100Gemm", signature);
  return instance;
}

Result<KernelLaunch> octet::cuda::makeSm100Gemm(const GemmProblem &p,
                                                const Target &target) {
  std::string why = reject(p);
  if (why.empty() && (target.capability < 100 || target.capability >= 120))
    why = target.name + " has no tensor memory";
  if (!why.empty())
    return internalError(p.module, p.kernel + " is not made: " + why);
  KernelLaunch launch = startGemmLaunch(p);
  for (int tileM : {16, 32, 64})
    launch.variants.push_back({tileM, {makeInstance(p, tileM)}});
  launch.variants.push_back({-1, {makeInstance(p, 128)}});
  return launch;
}
