//===- Backend.h - Where a program runs ----------------------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The processor or a device: whose memory holds the arena, the cache and the
// weights, which table of functions a program gets, and how a step is run.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_BACKEND_H
#define OCTET_RUNTIME_CORE_BACKEND_H

#include "octet/Support/Status.h"
#include "runtime/core/Context.h"
#include "runtime/core/Memory.h"
#include "runtime/core/Program.h"
#include <memory>

namespace octet::rt {

class KvCache;

class Backend {
public:
  virtual ~Backend() = default;

  virtual Memory &memory() = 0;
  /// The table for load and step; with a profile, that which fills it.
  virtual const octet_runtime *services(bool profiled) const = 0;
  /// Pages of the cache that belong to no sequence, behind the others.
  virtual int64_t sparePages() const { return 0; }
  /// Whether weights are copied while loading, so that the checkpoint and what
  /// load computed are not read afterwards.
  virtual bool copiesWeights() const { return false; }
  /// Once, when ctx has its arena and cache and before load runs.
  virtual Status prepare(Context &ctx, const KvCache &cache) {
    return Status::success();
  }
  /// Once, after load has run.
  virtual Status finishLoad(Context &ctx) { return Status::success(); }
  /// Runs the program's step on a batch in the processor's memory; `batch.
  /// output` is complete afterwards.
  /// \returns what the program returned; errors are in ctx.
  virtual int32_t step(Context &ctx, const octet_batch &batch) = 0;

  /// Whether draw() is there: tokens are drawn where the logits are.
  virtual bool draws() const { return false; }
  /// A step whose logits stay where they are; `batch.output` is not used.
  /// \param rows    [num_outputs] how each is drawn.
  /// \param tokens  [out] [num_outputs]; -1 where no logit is above -inf.
  virtual int32_t draw(Context &ctx, const octet_batch &batch,
                       std::span<const octet_sample_row> rows,
                       std::span<int32_t> tokens) {
    return 1;
  }
};

/// Runs programs of the target `cpu`.
std::unique_ptr<Backend> makeCpuBackend(const Program &program);

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_BACKEND_H
