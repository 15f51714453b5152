//===- InstanceJson.cpp - Launches as JSON and as the ABI's structs -------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/CudaSource/InstanceJson.h"
#include "InstanceFields.h"

using namespace octet;
using namespace octet::cuda;
using nlohmann::json;

json octet::cuda::toJson(const KernelLaunch &launch) {
  return writeJson(launch);
}

Result<KernelLaunch> octet::cuda::launchFromJson(const json &from,
                                                 const std::string &subject) {
  KernelLaunch launch;
  std::string bad = readJson(from, launch);
  if (!bad.empty() || launch.variants.empty())
    return inputError(subject, "the description of a launch has no usable '" +
                                   (bad.empty() ? "variants" : bad) + "'");
  return launch;
}

//===----------------------------------------------------------------------===//
// The ABI's structs
//===----------------------------------------------------------------------===//

static octet_grid abiGrid(const Grid &grid) {
  return {grid.times, grid.fixed, grid.perRows, grid.perSequence};
}

AbiLaunch::AbiLaunch(const KernelLaunch &made,
                     const std::map<std::string, int32_t> &images)
    : source(made) {
  for (const KernelVariant &variant : source.variants) {
    std::vector<octet_kernel> &list = kernels.emplace_back();
    for (const KernelInstance &instance : variant.kernels) {
      std::vector<octet_param> &own = params.emplace_back();
      for (const Param &p : instance.params)
        own.push_back({p.kind, p.arg, p.type, p.swizzle, p.rows, p.cols,
                       p.pitchBytes, p.boxRows, p.boxCols});
      octet_kernel kernel{};
      kernel.entry = instance.entry.c_str();
      kernel.label = instance.label.c_str();
      kernel.image = images.at(instance.entry);
      kernel.threads = instance.threads;
      kernel.shared_bytes = instance.sharedBytes;
      kernel.cluster = instance.cluster;
      kernel.per_sm = instance.perSm;
      kernel.flags = instance.overlaps ? OCTET_KERNEL_OVERLAPS : 0;
      for (int i = 0; i < 3; ++i)
        kernel.grid[i] = abiGrid(instance.grid[i]);
      kernel.num_params = int64_t(own.size());
      kernel.params = own.data();
      kernel.workspace_bytes = instance.workspaceBytes;
      list.push_back(kernel);
    }
    variants.push_back({variant.maxRows, int64_t(list.size()), list.data()});
  }
  launch.module = source.module.c_str();
  launch.label = source.label.c_str();
  launch.by_longest = source.byLongest;
  launch.num_variants = int64_t(variants.size());
  launch.variants = variants.data();
  launch.bytes = source.bytes;
  launch.row_bytes = source.rowBytes;
  launch.row_flops = source.rowFlops;
}
