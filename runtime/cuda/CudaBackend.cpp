//===- CudaBackend.cpp - Programs of the targets sm_NN --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaBackend.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "runtime/core/KvCache.h"
#include "runtime/cpu/Types.h"
#include "runtime/cuda/CudaServices.h"
#include <algorithm>
#include <cstring>

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

/// Logits of more bytes go to the caller without a pinned buffer between.
static constexpr int64_t kMostPinned = int64_t(64) << 20;
/// Smaller tensors are read ahead of all others.
static constexpr int64_t kPrefetched = int64_t(1) << 20;

//===----------------------------------------------------------------------===//
// Start
//===----------------------------------------------------------------------===//

/// An integer of the info's object `memory`, or 0.
static int64_t memoryOf(const ProgramInfo &info, const char *key) {
  auto memory = info.json.find("memory");
  if (memory == info.json.end() || !memory->is_object())
    return 0;
  auto it = memory->find(key);
  return it != memory->end() && it->is_number_integer() ? it->get<int64_t>()
                                                        : 0;
}

/// What a user can change is said before anything is copied.
static Status checkMemory(const Program &program, const DeviceInfo &device) {
  const ProgramInfo &info = program.info;
  const int64_t weights = memoryOf(info, "weights");
  const int64_t arena = program.abi->arena_bytes;
  const int64_t sides[] = {info.kv.layers,
                           2,
                           info.kv.kvHeads,
                           info.kv.headDim,
                           info.maxSeqs,
                           info.maxContext,
                           elementBytes(info.kv.type)};
  const auto cache = checkedProduct(sides);
  auto sum = checkedAdd(weights, arena);
  if (sum && cache)
    sum = checkedAdd(*sum, *cache);
  if (cache && sum && *sum <= device.freeBytes)
    return Status::success();
  auto text = [](std::optional<int64_t> bytes) {
    return bytes ? std::to_string(*bytes) : "more than 64 bits of";
  };
  return machineError(
      program.path, "needs " + text(cache ? sum : cache) +
                        " bytes of device memory (weights " + text(weights) +
                        ", KV cache " + text(cache) + ", intermediate values " +
                        text(arena) + "), " + std::to_string(device.freeBytes) +
                        " of " + std::to_string(device.memoryBytes) +
                        " are free on " + quoteName(device.name) +
                        "; compile with a smaller --max-context or --max-seqs");
}

Result<std::unique_ptr<CudaBackend>>
CudaBackend::create(const Program &program, ThreadPool &pool,
                    const std::string &library, const std::string &nvrtc) {
  const std::string &subject = program.path;
  const std::string held = program.heldTargets();
  std::unique_ptr<CudaBackend> backend(new CudaBackend(program));
  Driver::Needs needs{subject, held,
                      std::max(kLeastDriver, program.info.driver)};
  OCTET_TRY_ASSIGN(
      backend->cuda,
      Driver::open(library.empty() ? kDriverLibrary : library, needs));
  const Driver &driver = *backend->cuda;
  const octet_program_t &abi = *program.abi;
  std::span<const octet_image> list{abi.images, size_t(abi.num_images)};
  std::string target = program.info.target;
  if (needsSources(list, target, driver.device().capability)) {
    OCTET_TRY_ASSIGN(
        backend->compiled,
        compileSources(list, target, held, driver.device(), subject, nvrtc));
    list = backend->compiled->images;
    target = backend->compiled->target;
  }
  OCTET_TRY_ASSIGN(Images images,
                   Images::load(driver, list, target, subject, pool, held));
  backend->images.emplace(std::move(images));
  OCTET_TRY(checkMemory(program, driver.device()));
  OCTET_TRY(backend->stream.create(driver, subject));
  backend->arenaMemory.emplace(driver, backend->stream.handle());
  backend->uploader.emplace(driver, pool, subject);
  backend->timer.emplace(driver);
  return backend;
}

CudaBackend::~CudaBackend() {
  if (!cuda)
    return;
  cuda->makeCurrent();
  if (stream.handle())
    (void)cuda->api.cuStreamSynchronize(stream.handle());
  for (auto [rows, graph] : graphs)
    (void)cuda->api.cuGraphExecDestroy(graph);
}

const octet_runtime *CudaBackend::services(bool) const {
  return cudaServices();
}

Status CudaBackend::prepare(Context &ctx, const KvCache &cache) {
  ctx.cuda = this;
  spare = cache.firstSpare();
  kv = program.info.kv;
  uploader->readFrom(ctx.mapped);
  // Scales are looked at one after the other, each a wait for the disk.
  if (ctx.mapped)
    for (const TensorInfo *tensor : ctx.rows)
      if (tensor && tensor->bytes <= kPrefetched)
        ctx.mapped->prefetch(*tensor);
  OCTET_TRY(inputs.allocate(*cuda, program.info));
  buckets =
      bucketsUpTo(std::min(program.info.maxSeqs, program.info.maxStepTokens));
  return decodeOutput.allocate(*cuda,
                               buckets.back() * program.info.outputWidth() *
                                   int64_t(sizeof(float)),
                               program.path);
}

Status CudaBackend::finishLoad(Context &ctx) {
  OCTET_TRY_ASSIGN(weights, uploader->finish());
  uploaded = uploader->times();
  uploader.reset();
  // The arena and the cache are zeros from here on.
  return synchronize();
}

//===----------------------------------------------------------------------===//
// The table's functions
//===----------------------------------------------------------------------===//

int32_t CudaBackend::upload(Context &ctx, const octet_tensor_desc &desc,
                            const octet_weight &in, octet_weight &out) {
  std::vector<int64_t> elements;
  for (int64_t i = 0; i < std::min<int64_t>(in.num_parts, OCTET_MAX_PARTS);
       ++i) {
    const int32_t tensor = in.parts[i].tensor;
    const bool known = tensor >= 0 && size_t(tensor) < ctx.rows.size();
    elements.push_back(
        known ? checkedProduct(ctx.rows[size_t(tensor)]->shape).value_or(-1)
              : -1);
  }
  Result<UploadPlan> plan = planUpload(desc, in, elements);
  if (!plan.ok())
    return ctx.fail(plan.takeStatus());
  if (!uploader)
    return ctx.fail(internalError(desc.module, "an upload after load"));
  if (Status done = uploader->upload(desc, *plan, out); !done.ok())
    return ctx.fail(std::move(done));
  return 0;
}

/// The shards as one matrix, which stays on the device until forget().
Status CudaBackend::rewriteWeight(const octet_tensor_desc &from,
                                  const octet_tensor_desc &to,
                                  const octet_launch &kernels,
                                  const octet_weight &in, octet_weight &out) {
  if (from.rows <= 1 || to.scale_type != OCTET_F32 ||
      (to.scale_mode != OCTET_SCALE_TENSOR &&
       to.scale_mode != OCTET_SCALE_CHANNEL))
    return internalError(from.module, "the program rewrites " +
                                          std::to_string(from.rows) +
                                          " rows to scales of mode " +
                                          std::to_string(to.scale_mode));
  OCTET_TRY_ASSIGN(UploadPlan plan, planUpload(from, in, {}));
  const bool perRow = to.scale_mode == OCTET_SCALE_CHANNEL;
  const int64_t codeBytes = rowBytes(to.type, to.cols);
  const int64_t scaleBytes = (perRow ? plan.rows : 2) * int64_t(sizeof(float));
  Uploader &u = *uploader;
  OCTET_TRY_ASSIGN(CUdeviceptr data, u.stage(plan.data, from.module));
  OCTET_TRY_ASSIGN(CUdeviceptr old, u.stage(plan.scales, from.module));
  OCTET_TRY_ASSIGN(CUdeviceptr codes,
                   u.takeTemporary(plan.rows * codeBytes, from.module));
  OCTET_TRY_ASSIGN(CUdeviceptr scale, u.takeTemporary(scaleBytes, from.module));
  OCTET_TRY(u.send());
  OCTET_TRY(OCTET_CUDA(*cuda, from.module, cuMemsetD8Async, scale, 0,
                       size_t(scaleBytes), u.handle()));
  const void *args[OCTET_REWRITE_TO_SCALE + 1];
  args[OCTET_REWRITE_FROM] = reinterpret_cast<const void *>(data);
  args[OCTET_REWRITE_FROM_SCALE] = reinterpret_cast<const void *>(old);
  args[OCTET_REWRITE_TO] = reinterpret_cast<const void *>(codes);
  args[OCTET_REWRITE_TO_SCALE] = reinterpret_cast<const void *>(scale);
  OCTET_TRY(launchOn(u.handle(), *cuda, *images, kernels, octet_batch{},
                     plan.rows, StepFrame(), args, params));
  out = in;
  int64_t row = 0;
  for (int64_t i = 0; i < in.num_parts; ++i) {
    octet_part &part = out.parts[i];
    part.data = reinterpret_cast<const void *>(codes + row * codeBytes);
    part.scale = reinterpret_cast<const void *>(
        scale + (perRow ? row * int64_t(sizeof(float)) : 0));
    part.scale_tensor = -1;
    row += part.rows;
  }
  return Status::success();
}

int32_t CudaBackend::rewrite(Context &ctx, const octet_tensor_desc &from,
                             const octet_tensor_desc &to,
                             const octet_launch &kernels,
                             const octet_weight &in, octet_weight &out) {
  if (!uploader)
    return ctx.fail(internalError(from.module, "a rewrite after load"));
  Status done = rewriteWeight(from, to, kernels, in, out);
  return done.ok() ? 0 : ctx.fail(std::move(done));
}

void CudaBackend::forget() {
  if (uploader)
    uploader->forgetTemporaries();
}

void CudaBackend::launch(Context &ctx, const octet_launch &desc,
                         const octet_batch &batch, int64_t rows,
                         const void *const *args) {
  if (ctx.error)
    return;
  Status done = launchOn(stream.handle(), *cuda, *images, desc, batch, rows,
                         frame, args, params);
  if (done.ok() && ctx.tracing) // One at a time: an error is this one's.
    done = OCTET_CUDA(*cuda, desc.module, cuStreamSynchronize, stream.handle());
  if (done.ok() && ctx.profile && rows)
    done =
        timer->add(stream.handle(), desc,
                   workOf(desc, batch, rows,
                          2 * kv.kvHeads * kv.headDim * elementBytes(kv.type)));
  if (!done.ok())
    ctx.fail(std::move(done));
}

void CudaBackend::trace(Context &ctx, const char *name, int64_t index,
                        int32_t type, int64_t rows, int64_t cols,
                        const void *data) {
  if (ctx.error || !ctx.sink)
    return;
  // Rows that only fill a step up are nobody's.
  rows = std::min(rows, rowsGiven);
  const int64_t sides[] = {rows, cols, elementBytes(type)};
  std::vector<std::byte> copy(size_t(checkedProduct(sides).value_or(0)));
  Status done = OCTET_CUDA(*cuda, name, cuMemcpyDtoHAsync, copy.data(),
                           reinterpret_cast<CUdeviceptr>(data), copy.size(),
                           stream.handle());
  if (done.ok())
    done = OCTET_CUDA(*cuda, name, cuStreamSynchronize, stream.handle());
  if (!done.ok()) {
    ctx.fail(std::move(done));
    return;
  }
  ctx.sink->trace(name, index, type, rows, cols, copy.data());
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// One row and one output for each sequence: what graphs are for.
static bool isDecode(const octet_batch &batch) {
  return batch.ids && batch.num_rows == batch.num_sequences &&
         batch.num_outputs == batch.num_rows;
}

Status CudaBackend::synchronize() {
  Status done =
      OCTET_CUDA(*cuda, program.path, cuStreamSynchronize, stream.handle());
  if (!done.ok())
    done.note("the kernel is not known: a step runs all of them without "
              "waiting; `logits --trace hidden` waits for each and names it");
  return done;
}

Status CudaBackend::placeOutput(octet_batch &batch) {
  const int64_t bytes =
      batch.num_outputs * program.info.outputWidth() * int64_t(sizeof(float));
  DeviceBuffer &buffer = bytes <= decodeOutput.size() ? decodeOutput : output;
  if (buffer.size() < bytes)
    OCTET_TRY(buffer.allocate(*cuda, bytes, program.path));
  batch.output = buffer.pointer<float>();
  return Status::success();
}

Status CudaBackend::fetchOutput(const octet_batch &from,
                                const octet_batch &to) {
  const int64_t bytes =
      to.num_outputs * program.info.outputWidth() * int64_t(sizeof(float));
  if (bytes == 0)
    return synchronize();
  const bool isPinned = bytes <= kMostPinned;
  if (isPinned && pinnedOutput.size() < bytes)
    OCTET_TRY(pinnedOutput.allocate(*cuda, bytes, program.path));
  void *place = isPinned ? static_cast<void *>(pinnedOutput.data()) : to.output;
  OCTET_TRY(OCTET_CUDA(*cuda, program.path, cuMemcpyDtoHAsync, place,
                       reinterpret_cast<CUdeviceptr>(from.output),
                       size_t(bytes), stream.handle()));
  OCTET_TRY(synchronize());
  if (isPinned)
    std::memcpy(to.output, place, size_t(bytes));
  return Status::success();
}

Status CudaBackend::capture(Context &ctx, const octet_batch &batch,
                            int32_t &result, CUgraphExec &exec) {
  // Relaxed: a kernel's first launch may take memory for its workspace.
  OCTET_TRY(OCTET_CUDA(*cuda, program.path, cuStreamBeginCapture,
                       stream.handle(), kCaptureRelaxed));
  Status started = ctx.profile ? timer->start(stream.handle()) : Status();
  if (started.ok())
    result = program.abi->step(&ctx, &batch);
  CUgraph graph = nullptr;
  Status ended = OCTET_CUDA(*cuda, program.path, cuStreamEndCapture,
                            stream.handle(), &graph);
  // An error of a launch says more than that the capture broke off.
  if (started.ok() && !ctx.error && result == 0 && ended.ok())
    ended = OCTET_CUDA(*cuda, program.path, cuGraphInstantiate, &exec, graph,
                       /*flags=*/0);
  if (graph)
    (void)cuda->api.cuGraphDestroy(graph);
  OCTET_TRY(started);
  return ctx.error || result ? Status::success() : std::move(ended);
}

/// Of one row.
static int64_t scratchBytes(const octet_launch &sample) {
  int64_t bytes = 1;
  for (int64_t v = 0; v < sample.num_variants; ++v)
    for (int64_t k = 0; k < sample.variants[v].num_kernels; ++k) {
      const octet_kernel &kernel = sample.variants[v].kernels[k];
      for (int64_t p = 0; p < kernel.num_params; ++p)
        if (kernel.params[p].kind == OCTET_PARAM_ADDRESS &&
            kernel.params[p].arg == OCTET_SAMPLE_SCRATCH)
          bytes = std::max(bytes, kernel.params[p].pitch_bytes);
    }
  return bytes;
}

Status CudaBackend::finish(Context &ctx, const octet_batch &there,
                           const octet_batch &given, const Sampling *sampling,
                           CUdeviceptr options) {
  if (!sampling)
    return fetchOutput(there, given);
  const octet_launch &sample = *program.abi->sample;
  const int64_t rows = there.num_outputs;
  const int64_t scratch = rows * scratchBytes(sample);
  if (sampleScratch.size() < scratch)
    OCTET_TRY(sampleScratch.allocate(*cuda, scratch, sample.module));
  const int64_t bytes = rows * int64_t(sizeof(int32_t));
  if (sampledTokens.size() < bytes)
    OCTET_TRY(sampledTokens.allocate(*cuda, bytes, sample.module));
  const void *args[OCTET_SAMPLE_SCRATCH + 1];
  args[OCTET_SAMPLE_LOGITS] = there.output;
  args[OCTET_SAMPLE_OPTIONS] = reinterpret_cast<const void *>(options);
  args[OCTET_SAMPLE_TOKENS] = sampledTokens.pointer();
  args[OCTET_SAMPLE_SCRATCH] = sampleScratch.pointer();
  OCTET_TRY(launchOn(stream.handle(), *cuda, *images, sample, there, rows,
                     frame, args, params));
  const int64_t wanted = given.num_outputs * int64_t(sizeof(int32_t));
  if (pinnedOutput.size() < wanted)
    OCTET_TRY(pinnedOutput.allocate(*cuda, wanted, program.path));
  if (wanted)
    OCTET_TRY(OCTET_CUDA(*cuda, program.path, cuMemcpyDtoHAsync,
                         pinnedOutput.data(), sampledTokens.address(),
                         size_t(wanted), stream.handle()));
  OCTET_TRY(synchronize());
  if (wanted)
    std::memcpy(sampling->tokens.data(), pinnedOutput.data(), size_t(wanted));
  return Status::success();
}

Status CudaBackend::run(Context &ctx, const octet_batch &batch,
                        const Sampling *sampling, int32_t &result) {
  cuda->makeCurrent();
  OCTET_TRY(arenaMemory->takeError());
  const bool decodes = isDecode(batch);
  // The same kernels whether the step is traced, profiled or replayed.
  const int64_t rows = decodes
                           ? *std::ranges::lower_bound(buckets, batch.num_rows)
                           : batch.num_rows;
  rowsGiven = batch.num_rows;
  DeviceBatch there = inputs.write(batch, rows, spare);
  frame = there.frame;
  // Of a decode step it is always the same, as a graph has it.
  OCTET_TRY(placeOutput(there.batch));
  const CUdeviceptr options =
      sampling ? inputs.addSampling(sampling->rows, there.batch.num_outputs)
               : 0;
  OCTET_TRY(inputs.send(*cuda, stream.handle(), program.path));

  if (ctx.profile) {
    CUgraphExec graph = nullptr;
    OCTET_TRY(capture(ctx, there.batch, result, graph));
    if (!graph)
      return Status::success();
    Status done =
        OCTET_CUDA(*cuda, program.path, cuGraphLaunch, graph, stream.handle());
    if (done.ok())
      done = finish(ctx, there.batch, batch, sampling, options);
    if (done.ok())
      done = timer->addTo(*ctx.profile);
    (void)cuda->api.cuGraphExecDestroy(graph);
    return done;
  }
  if (!decodes || ctx.tracing) {
    result = program.abi->step(&ctx, &there.batch);
    if (result || ctx.error) {
      (void)cuda->api.cuStreamSynchronize(stream.handle());
      return Status::success();
    }
    return finish(ctx, there.batch, batch, sampling, options);
  }
  auto it = graphs.find(rows);
  if (it == graphs.end()) {
    CUgraphExec graph = nullptr;
    OCTET_TRY(capture(ctx, there.batch, result, graph));
    if (!graph)
      return Status::success();
    it = graphs.emplace(rows, graph).first;
  }
  OCTET_TRY(OCTET_CUDA(*cuda, program.path, cuGraphLaunch, it->second,
                       stream.handle()));
  return finish(ctx, there.batch, batch, sampling, options);
}

int32_t CudaBackend::step(Context &ctx, const octet_batch &batch) {
  int32_t result = 0;
  if (Status done = run(ctx, batch, /*sampling=*/nullptr, result); !done.ok())
    return ctx.fail(std::move(done));
  return result;
}

int32_t CudaBackend::draw(Context &ctx, const octet_batch &batch,
                          std::span<const octet_sample_row> rows,
                          std::span<int32_t> tokens) {
  int32_t result = 0;
  const Sampling sampling{rows, tokens};
  if (Status done = run(ctx, batch, &sampling, result); !done.ok())
    return ctx.fail(std::move(done));
  return result;
}
