//===- Context.h - The state behind a program's octet_ctx -------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program sees an `octet_ctx`; the services of the table see this. `Model`
// fills it. Header-only, so that runtime/cpu (the services) and runtime/core
// (who fills it) need not link each other in a circle.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_CONTEXT_H
#define OCTET_RUNTIME_CORE_CONTEXT_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include "runtime/abi.h"
#include "runtime/core/WeightArena.h"
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace octet::rt {

class Profile;       // runtime/core/Profile.h
class RandomWeights; // runtime/core/RandomWeights.h
class ThreadPool;    // runtime/cpu/ThreadPool.h
namespace cu {
class CudaBackend; // runtime/cuda/CudaBackend.h
}

/// Receives what a program passes to `octet_runtime::trace`.
class TraceSink {
public:
  virtual ~TraceSink() = default;
  /// rows x cols elements of `type` (octet_dtype), row-major.
  virtual void trace(const char *name, int64_t index, int32_t type,
                     int64_t rows, int64_t cols, const void *data) = 0;
};

/// The runtime's state. `octet_ctx` is its base, so a service casts back with
/// `Context::from`.
struct Context : octet_ctx {
  static Context &from(octet_ctx *ctx) { return *static_cast<Context *>(ctx); }

  /// Runs `parallel_for`; never null while a program runs.
  ThreadPool *pool = nullptr;
  /// Of `trace`; null unless `tracing`.
  TraceSink *sink = nullptr;
  /// Where operators add what they take; null: nowhere.
  Profile *profile = nullptr;

  /// Of CUDA programs; null on the CPU.
  cu::CudaBackend *cuda = nullptr;

  // --- load ---

  /// The checkpoint's files mapped, and their table.
  const TensorTable *table = nullptr;
  const MappedCheckpoint *mapped = nullptr;
  /// In place of `mapped` if there is no checkpoint.
  const RandomWeights *random = nullptr;
  /// Row i of the program's tensor table, as found in this checkpoint (checked:
  /// same dtype and shape). A program names rows by this index.
  std::vector<const TensorInfo *> rows;
  /// Those that load has found since freeAllocated().
  std::vector<const TensorInfo *> touched;

  /// octet_dtype of the KV cache (P8 warns only if it is E4M3).
  int32_t kvType = OCTET_F32;

  /// The path of the file that holds a tensor, the subject of an error.
  const std::string &fileOf(const TensorInfo &tensor) const {
    return table->files[tensor.file];
  }

  /// Records the first error and returns non-zero, for `return ctx.fail(…)`.
  int32_t fail(Status status) {
    if (!error && !status.ok())
      error = status.takeInfo();
    return 1;
  }
  /// Something the user should know that is no error (P8): `warning: …`.
  void warn(std::string text) { warnings.push_back(std::move(text)); }

  /// `bytes` of memory at a 64-byte boundary that live as long as the model:
  /// for computed weights. nullptr after recording an error. Only from the
  /// thread that called the program.
  void *allocate(int64_t bytes) {
    void *p = bytes < 0 ? nullptr : owned.allocate(size_t(bytes));
    if (!p)
      fail(machineError("memory", "cannot allocate " + std::to_string(bytes) +
                                      " bytes for a weight"));
    return p;
  }

  /// Ends the life of what allocate() gave, where nobody reads it any more, and
  /// lets the machine have the memory of the tensors that were mapped for it.
  void freeAllocated() {
    owned.clear();
    if (mapped)
      for (const TensorInfo *tensor : touched)
        mapped->release(*tensor);
    touched.clear();
  }

  std::optional<ErrorInfo> error;
  std::vector<std::string> warnings;

private:
  WeightArena owned;
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_CONTEXT_H
