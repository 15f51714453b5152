//===- LoadRewrite.cpp - Kernels that rewrite weights ---------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/LoadRewrite.h"
#include "lib/CudaSource/GemmText.h"
#include "octet/CudaSource/Families.h"
#include "runtime/abi.h"

using namespace octet;
using namespace octet::cuda;

static constexpr int32_t kThreads = 256;

namespace {
struct RewriteArg {
  int arg;
  std::string type;
  const char *name;
};
} // namespace

/// A kernel `function<Config, constants…>` with a CTA for each row.
static KernelInstance makeKernel(const LoadRewrite &r, const char *function,
                                 const std::string &name,
                                 const std::string &constants,
                                 const std::vector<RewriteArg> &args) {
  KernelInstance kernel;
  kernel.label = "load." + name;
  kernel.entry = "octet_kernel_load_" + name + "_k" + std::to_string(r.k);
  kernel.threads = kThreads;
  kernel.grid[0] = {1, 0, /*perRows=*/1, 0};
  std::string parameters, names;
  for (const RewriteArg &each : args) {
    kernel.params.push_back(Param::address(each.arg));
    parameters +=
        (parameters.empty() ? "" : ", ") + each.type + " *" + each.name;
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  }
  kernel.source = "// Weights rewritten while they are loaded.\n"
                  "#include \"load/rewrite.cuh\"\n\n"
                  "using Config = octet::cuda::LoadedRows<" +
                  cppType(r.type) + ", /*kK=*/" + std::to_string(r.k) +
                  ", /*kThreads=*/" + std::to_string(kThreads) +
                  ">;\n\nextern \"C\" __global__ void __launch_bounds__(" +
                  std::to_string(kThreads) + ")\n" +
                  wrapList(kernel.entry + "(", parameters) +
                  ") {\n  octet::cuda::" + function + "<Config" + constants +
                  ">(" + names + ");\n}\n";
  return kernel;
}

KernelLaunch octet::cuda::makeLoadRewrite(const LoadRewrite &r) {
  const RewriteArg in{OCTET_REWRITE_FROM, "const " + cppType(r.type), "in"};
  const RewriteArg old{OCTET_REWRITE_FROM_SCALE, "const float", "old"};
  const RewriteArg out{OCTET_REWRITE_TO, cppType(OCTET_E4M3), "out"};
  const RewriteArg scale{OCTET_REWRITE_TO_SCALE, "float", "scale"};
  const std::string type(typeName(r.type));
  KernelLaunch launch;
  launch.module = r.module;
  launch.variants.resize(1);
  std::vector<KernelInstance> &kernels = launch.variants[0].kernels;
  if (r.type == OCTET_E4M3) {
    launch.label = "load.requantize";
    std::string name = "requantize", rows;
    for (int64_t each : r.shards) {
      name += "_" + std::to_string(each);
      rows += ", " + std::to_string(each);
    }
    kernels.push_back(
        makeKernel(r, "useLargestScale", name, rows, {in, old, out, scale}));
    return launch;
  }
  launch.label = "load.quantize";
  if (r.perRow) {
    kernels.push_back(makeKernel(r, "quantizeRows", "quantize_rows_" + type, "",
                                 {in, out, scale}));
    return launch;
  }
  kernels.push_back(makeKernel(r, "findAmax", "amax_" + type, "", {in, scale}));
  kernels.push_back(makeKernel(r, "quantizeAll", "quantize_all_" + type, "",
                               {in, out, scale}));
  return launch;
}
