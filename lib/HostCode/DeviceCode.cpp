//===- DeviceCode.cpp - Constants of a CUDA program -----------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceCode.h"
#include "lib/CudaSource/LaunchAttr.h"
#include "runtime/abi.h"

using namespace mlir;
using namespace octet;
using namespace octet::host;

// An array is written as one struct with the fields of all its elements: none
// of these has padding.
static_assert(sizeof(octet_param) == 6 * 4 + 3 * 8);
static_assert(sizeof(octet_kernel) == 2 * 8 + 6 * 4 + 3 * 16 + 3 * 8);
static_assert(sizeof(octet_variant) == 3 * 8);
static_assert(sizeof(octet_launch) == 2 * 8 + 2 * 4 + 5 * 8);
static_assert(sizeof(octet_image) == 7 * 8);

DeviceCode::DeviceCode(HostModule &host) : host(host) {
  for (kernel::BinaryOp binary : host.module.getOps<kernel::BinaryOp>()) {
    rows[binary.getSymName()] = binaries.size();
    binaries.push_back(binary);
  }
}

FailureOr<std::string> DeviceCode::addImages() {
  ConstantFields fields;
  for (kernel::BinaryOp binary : binaries) {
    std::optional<ArrayRef<char>> cubin = binary.getCubinBytes();
    if (!cubin)
      return binary.emitError() << "the bytes of @" << binary.getSymName()
                                << " are not in this text; a print without "
                                   "--mlir-elide-resource-strings-if-larger "
                                   "has them";
    StringRef bytes(cubin->data(), cubin->size());
    fields.append({host.addString(binary.getSymName()),
                   host.addBytes("octet.cubin", bytes), int64_t(bytes.size()),
                   host.addString(binary.getPtx()),
                   int64_t(binary.getPtx().size()),
                   host.addString(binary.getSource()),
                   int64_t(binary.getSource().size())});
  }
  return fields.empty() ? std::string()
                        : host.addStruct("octet.images", fields);
}

FailureOr<std::string> DeviceCode::addLaunch(Operation *op, int64_t numArgs) {
  FailureOr<cuda::KernelLaunch> launch = cuda::getLaunch(op);
  return failed(launch) ? FailureOr<std::string>(failure())
                        : addLaunch(op, *launch, numArgs);
}

FailureOr<std::string> DeviceCode::addSampler() {
  if (!host.module->hasAttr(cuda::kSampleName))
    return std::string();
  FailureOr<cuda::KernelLaunch> launch =
      cuda::getLaunch(host.module, cuda::kSampleName);
  return failed(launch)
             ? FailureOr<std::string>(failure())
             : addLaunch(host.module, *launch, OCTET_SAMPLE_SCRATCH + 1);
}

FailureOr<std::string> DeviceCode::addLaunch(Operation *op,
                                             const cuda::KernelLaunch &launch,
                                             int64_t numArgs) {
  ConstantFields variants;
  for (const cuda::KernelVariant &variant : launch.variants) {
    ConstantFields kernels;
    for (const cuda::KernelInstance &instance : variant.kernels) {
      auto image = rows.find(instance.entry);
      if (image == rows.end())
        return op->emitError() << "its launch names '" << instance.entry
                               << "', and no kernel.binary is called so";
      ConstantFields params;
      for (const cuda::Param &p : instance.params) {
        if (p.arg < 0 || p.arg >= numArgs)
          return op->emitError()
                 << "a parameter of '" << instance.entry << "' is argument "
                 << p.arg << "; the operator has " << numArgs;
        params.append({p.kind, p.arg, p.type, p.swizzle, p.rows, p.cols,
                       p.pitchBytes, p.boxRows, p.boxCols});
      }
      kernels.append({host.addString(instance.entry),
                      host.addString(instance.label), image->second,
                      instance.threads, instance.sharedBytes, instance.cluster,
                      instance.perSm,
                      int32_t(instance.overlaps ? OCTET_KERNEL_OVERLAPS : 0)});
      for (const cuda::Grid &grid : instance.grid)
        kernels.append(
            {grid.times, grid.fixed, grid.perRows, grid.perSequence});
      kernels.append({int64_t(instance.params.size()),
                      params.empty() ? std::string()
                                     : host.addStruct("octet.params", params),
                      instance.workspaceBytes});
    }
    variants.append({variant.maxRows, int64_t(variant.kernels.size()),
                     host.addStruct("octet.kernels", kernels)});
  }
  return host.addStruct(
      "octet.launch",
      {host.addString(launch.module), host.addString(launch.label),
       int32_t(launch.byLongest), int32_t(0), int64_t(launch.variants.size()),
       host.addStruct("octet.variants", variants), launch.bytes,
       launch.rowBytes, launch.rowFlops});
}
