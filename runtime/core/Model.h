//===- Model.h - A program with its weights ---------------------*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CORE_MODEL_H
#define OCTET_RUNTIME_CORE_MODEL_H

#include "octet/Checkpoint/Checkpoint.h"
#include "octet/Support/Status.h"
#include "runtime/core/Backend.h"
#include "runtime/core/Context.h"
#include "runtime/core/KvCache.h"
#include "runtime/core/Profile.h"
#include "runtime/core/Program.h"
#include "runtime/core/RandomWeights.h"
#include <memory>
#include <string>

namespace octet::rt {

struct LoadOptions {
  /// Threads of the pool; 0: one for each processor this process may use.
  int threads = 0;
  /// An octet_level; -1: the highest this machine has.
  int level = -1;
  /// The driver's library for a CUDA program; empty: the system's.
  std::string driver = {};
  /// libnvrtc for a CUDA program that has to be compiled for the device; empty:
  /// where it is found.
  std::string nvrtc = {};
};

/// Compares a checkpoint's headers with the program's table.
/// \param weights  the folder, the subject of the error.
/// \returns an input error that names the first difference: a tensor missing,
/// another dtype or shape; if those agree but the hash does not, that the
/// folder has other tensors than the one compiled.
Status checkTensorTable(const ProgramInfo &info, const TensorTable &table,
                        const std::string &weights);

/// A loaded model: the program, the mapped checkpoint, the weight slots, the
/// arena, the KV cache, the threads and where it runs. Does not move: a program
/// keeps its address.
class Model {
public:
  /// Maps `weights` (a folder; "" for the one that was compiled; kRandomWeights
  /// draws them instead, and then nothing is compared) and runs the program's
  /// load function.
  /// \returns the checkpoint's errors, those of checkTensorTable, what a
  /// load service recorded (W6 and others), or that memory is too small.
  static Result<std::unique_ptr<Model>>
  load(std::shared_ptr<const Program> program, const std::string &weights,
       const LoadOptions &options);
  ~Model();
  Model(const Model &) = delete;
  Model &operator=(const Model &) = delete;

  const ProgramInfo &info() const { return program->info; }
  /// The program's file, the subject of errors.
  const std::string &path() const { return program->path; }
  KvCache &cache() { return *kv; }
  /// What load services had to say (P8).
  std::span<const std::string> warnings() const { return ctx.warnings; }
  int threads() const;
  int level() const { return ctx.level; }

  /// Runs the program on one batch. With a sink, it gets the traces.
  Status step(const octet_batch &batch, TraceSink *sink = nullptr);

  /// Whether draw() is there.
  bool draws() const { return backend->draws(); }
  /// Backend::draw.
  Status draw(const octet_batch &batch, std::span<const octet_sample_row> rows,
              std::span<int32_t> tokens);

  /// From now on steps add what their operators take to `profile`; null ends
  /// that.
  void setProfile(Profile *profile);
  /// The weights of kRandomWeights, else null.
  const RandomWeights *randomWeights() const {
    return random ? &*random : nullptr;
  }
  ThreadPool &threadPool() { return *pool; }
  /// Of a CUDA program; else null.
  cu::CudaBackend *cuda() { return ctx.cuda; }

private:
  Model() = default;
  Status takeError(const char *function, int32_t result);
  /// \param isDefault  the folder is the one compiled, not one given.
  Status openWeights(const std::string &folder, bool isDefault);
  Status chooseBackend(const LoadOptions &options);
  Status allocateArena();
  Status runLoad();
  void dropWeights();

  std::shared_ptr<const Program> program; ///< destroyed last: threads run it
  TensorTable table;
  std::optional<MappedCheckpoint> mapped;
  std::optional<RandomWeights> random;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Backend> backend;
  std::optional<KvCache> kv;
  std::vector<octet_weight> weights;
  int64_t arenaBytes = 0;
  Context ctx{};
};

} // namespace octet::rt

#endif // OCTET_RUNTIME_CORE_MODEL_H
