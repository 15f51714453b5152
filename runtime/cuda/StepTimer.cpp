//===- StepTimer.cpp - What each launch of a step takes -------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/StepTimer.h"
#include "octet/Support/Checked.h"

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

static bool readsCache(const octet_launch &launch) {
  for (int64_t v = 0; v < launch.num_variants; ++v)
    for (int64_t k = 0; k < launch.variants[v].num_kernels; ++k) {
      const octet_kernel &kernel = launch.variants[v].kernels[k];
      for (int64_t p = 0; p < kernel.num_params; ++p)
        if (kernel.params[p].kind == OCTET_PARAM_SEQUENCES)
          return true;
    }
  return false;
}

/// Operations a byte of a row, above which a launch is a product: rows of its
/// operands meet all of its weight, those of a row kernel are used a few times.
static constexpr int64_t kProductReuse = 12;

LaunchWork octet::rt::cu::workOf(const octet_launch &launch,
                                 const octet_batch &batch, int64_t rows,
                                 int64_t keyBytes) {
  LaunchWork work{OperatorKind::Rows, launch.bytes + rows * launch.row_bytes,
                  rows * launch.row_flops, ""};
  // As OperatorProfile::bytes has it on the processor.
  if (readsCache(launch)) {
    work.kind = OperatorKind::Attention;
    work.bytes = 0;
    for (int64_t i = 0; i < batch.num_sequences; ++i)
      work.bytes += batch.sequences[i].context * keyBytes;
  } else if (launch.row_flops > kProductReuse * launch.row_bytes) {
    work.kind = OperatorKind::Product;
    work.bytes = launch.bytes;
  }
  const octet_variant *variant =
      chooseVariant(launch, rows, launch.by_longest ? longestOf(batch) : rows);
  for (int64_t k = 0; variant && k < variant->num_kernels; ++k)
    work.detail += (k ? " + " : "") + std::string(variant->kernels[k].label);
  return work;
}

Status StepTimer::record(CUstream stream) {
  if (used == events.size()) {
    Event event;
    OCTET_TRY(event.create(driver, /*timing=*/true, "profile"));
    events.push_back(std::move(event));
  }
  return OCTET_CUDA(driver, "profile", cuEventRecordWithFlags,
                    events[used++].handle(), stream, kEventRecordExternal);
}

Status StepTimer::start(CUstream stream) {
  entries.clear();
  used = 0;
  return record(stream);
}

Status StepTimer::add(CUstream stream, const octet_launch &launch,
                      LaunchWork work) {
  entries.push_back({&launch, work});
  return record(stream);
}

Status StepTimer::addTo(Profile &profile) {
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry &entry = entries[i];
    float milliseconds = 0;
    OCTET_TRY(OCTET_CUDA(driver, entry.launch->module, cuEventElapsedTime,
                         &milliseconds, events[i].handle(),
                         events[i + 1].handle()));
    const bool hasModule = entry.launch->module && *entry.launch->module;
    profile.add(entry.launch, entry.work.kind,
                hasModule ? entry.launch->module : entry.launch->label,
                int64_t(double(milliseconds) * 1e6), entry.work.bytes,
                entry.work.flops, entry.work.detail);
  }
  entries.clear();
  return Status::success();
}
