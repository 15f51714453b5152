//===- CudaBackend.h - Programs of the targets sm_NN ---------- -*- C++ -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One stream does everything in order: inputs to the device, the program's
// kernels, logits back. A decode step (one row a sequence) is padded to a
// number of rows of a short list; the first step of each is captured as a graph
// and the later ones replay it.
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_RUNTIME_CUDA_CUDABACKEND_H
#define OCTET_RUNTIME_CUDA_CUDABACKEND_H

#include "runtime/core/Backend.h"
#include "runtime/cuda/Images.h"
#include "runtime/cuda/Launch.h"
#include "runtime/cuda/Recompile.h"
#include "runtime/cuda/StepInputs.h"
#include "runtime/cuda/StepTimer.h"
#include "runtime/cuda/Upload.h"
#include <map>
#include <optional>

namespace octet::rt::cu {

class CudaBackend : public Backend {
public:
  /// Opens the driver and puts the program's kernels on its device.
  /// \param library  libcuda; empty for kDriverLibrary.
  /// \param nvrtc    libnvrtc, if it is needed; empty: where it is found.
  /// \returns the errors of Driver::open, Images::load and compileSources; a
  /// machine error if the device's memory is too small for the program, with
  /// both values.
  static Result<std::unique_ptr<CudaBackend>> create(const Program &program,
                                                     ThreadPool &pool,
                                                     const std::string &library,
                                                     const std::string &nvrtc);
  ~CudaBackend() override;

  Memory &memory() override { return *arenaMemory; }
  const octet_runtime *services(bool profiled) const override;
  int64_t sparePages() const override { return 1; }
  bool copiesWeights() const override { return true; }
  Status prepare(Context &ctx, const KvCache &cache) override;
  Status finishLoad(Context &ctx) override;
  int32_t step(Context &ctx, const octet_batch &batch) override;
  bool draws() const override { return program.abi->sample != nullptr; }
  int32_t draw(Context &ctx, const octet_batch &batch,
               std::span<const octet_sample_row> rows,
               std::span<int32_t> tokens) override;

  const Driver &driver() const { return *cuda; }
  /// The kernels, if they had to be compiled for this device.
  const Recompiled *recompiled() const {
    return compiled ? &*compiled : nullptr;
  }
  /// Of weights.
  const UploadTimes &uploadTimes() const { return uploaded; }
  /// Graphs that are there.
  size_t numGraphs() const { return graphs.size(); }

  // Behind the table of functions; errors go to the context.
  int32_t upload(Context &ctx, const octet_tensor_desc &desc,
                 const octet_weight &in, octet_weight &out);
  int32_t rewrite(Context &ctx, const octet_tensor_desc &from,
                  const octet_tensor_desc &to, const octet_launch &kernels,
                  const octet_weight &in, octet_weight &out);
  void forget();
  void launch(Context &ctx, const octet_launch &desc, const octet_batch &batch,
              int64_t rows, const void *const *args);
  void trace(Context &ctx, const char *name, int64_t index, int32_t type,
             int64_t rows, int64_t cols, const void *data);

private:
  explicit CudaBackend(const Program &program) : program(program) {}
  Status rewriteWeight(const octet_tensor_desc &from,
                       const octet_tensor_desc &to, const octet_launch &kernels,
                       const octet_weight &in, octet_weight &out);
  /// What a draw adds to a step.
  struct Sampling {
    std::span<const octet_sample_row> rows;
    std::span<int32_t> tokens;
  };
  /// \param sampling  null: the logits are fetched.
  Status run(Context &ctx, const octet_batch &batch, const Sampling *sampling,
             int32_t &result);
  /// Ends a step whose kernels are on the stream.
  Status finish(Context &ctx, const octet_batch &there,
                const octet_batch &given, const Sampling *sampling,
                CUdeviceptr options);
  Status placeOutput(octet_batch &batch);
  Status fetchOutput(const octet_batch &from, const octet_batch &to);
  /// Runs the program's step into a graph.
  Status capture(Context &ctx, const octet_batch &batch, int32_t &result,
                 CUgraphExec &graph);
  Status synchronize();

  const Program &program;
  // Destroyed in the reverse order: the driver last.
  std::unique_ptr<Driver> cuda;
  Stream stream;
  std::optional<Recompiled> compiled; ///< the images' names stay in use
  std::optional<Images> images;
  std::optional<DeviceMemory> arenaMemory;
  std::optional<Uploader> uploader;
  std::vector<DeviceBuffer> weights;
  UploadTimes uploaded;

  StepInputs inputs;
  DeviceBuffer decodeOutput; ///< of captured steps: it never moves
  DeviceBuffer output;       ///< of others, grown when needed
  PinnedBuffer pinnedOutput;
  DeviceBuffer sampleScratch, sampledTokens;
  std::vector<int64_t> buckets;
  std::map<int64_t, CUgraphExec> graphs; ///< by rows
  int32_t spare = 0;
  KvInfo kv;

  // Of the step that runs.
  StepFrame frame;
  int64_t rowsGiven = 0; ///< without padding
  LaunchParams params;
  std::optional<StepTimer> timer;
};

} // namespace octet::rt::cu

#endif // OCTET_RUNTIME_CUDA_CUDABACKEND_H
