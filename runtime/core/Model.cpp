//===- Model.cpp - A program with its weights -----------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/core/Model.h"
#include "octet/Support/Checked.h"
#include "octet/Support/Escape.h"
#include "runtime/cpu/Level.h"
#include "runtime/cpu/ThreadPool.h"
#include "runtime/cuda/CudaBackend.h"
#include <set>
#include <unistd.h>

using namespace octet;
using namespace octet::rt;

/// W6: what a slot holds until the program's load function fills it.
static constexpr int64_t kEmptySlot = -1;
/// More weights than any model has; a program that asks for more is damaged.
static constexpr int64_t kMaxWeights = int64_t(1) << 24;

/// Whether two shapes differ in nothing but sides of 1: the compiler writes a
/// scalar as [1] and a grid [a, 1, b, 1] as [a, b] (W2).
static bool sameShape(std::span<const int64_t> a, std::span<const int64_t> b) {
  auto squeeze = [](std::span<const int64_t> shape) {
    std::vector<int64_t> sides;
    for (int64_t side : shape)
      if (side != 1)
        sides.push_back(side);
    return sides;
  };
  return squeeze(a) == squeeze(b);
}

Status rt::checkTensorTable(const ProgramInfo &info, const TensorTable &table,
                            const std::string &weights) {
  const std::string compiled =
      "the program was compiled for " + quoteName(info.checkpoint);
  for (const ProgramTensor &tensor : info.tensors) {
    const TensorInfo *found = table.find(tensor.name);
    if (!found)
      return inputError(weights, "not the checkpoint that was compiled: it has "
                                 "no tensor " +
                                     quoteName(tensor.name) + ", expected " +
                                     tensor.describe())
          .note(compiled);
    // What becomes F32 while loading may be packed in any way.
    bool samePacking =
        tensor.packing == Packing::None || found->packing == tensor.packing;
    if (found->type != tensor.type || !samePacking ||
        !sameShape(found->shape, tensor.shape))
      return inputError(weights,
                        "not the checkpoint that was compiled: tensor " +
                            quoteName(tensor.name) + " is " +
                            found->describe() + ", expected " +
                            tensor.describe())
          .note(compiled);
  }
  if (info.hash == table.hash())
    return Status::success();
  Status error =
      inputError(weights, "not the checkpoint that was compiled: it "
                          "has other tensors; its header hash is " +
                              table.hash() + ", expected " + info.hash)
          .note(compiled);
  std::set<std::string_view> known;
  for (const ProgramTensor &tensor : info.tensors)
    known.insert(tensor.name);
  for (const TensorInfo &tensor : table.all())
    if (!known.count(tensor.name))
      return std::move(error).note("tensor " + quoteName(tensor.name) +
                                   " is there, which the program does not "
                                   "read");
  return error;
}

Model::~Model() {
  if (ctx.arena)
    backend->memory().release(ctx.arena, arenaBytes);
}

int Model::threads() const { return pool->size(); }

Status Model::allocateArena() {
  const int64_t bytes = program->abi->arena_bytes;
  auto tooLarge = [&](const std::string &why) {
    return machineError(path(),
                        "its intermediate values need " +
                            std::to_string(bytes) + " bytes of memory, " + why +
                            "; compile with a smaller --max-step-tokens");
  };
  // An untouched mapping costs nothing, so ask the machine before the kernel
  // kills the process half-way through a step.
  auto physical = checkedMul(sysconf(_SC_PHYS_PAGES), sysconf(_SC_PAGESIZE));
  Memory &memory = backend->memory();
  if (&memory == &hostMemory() && physical && *physical > 0 &&
      bytes > *physical)
    return tooLarge("this machine has " + std::to_string(*physical));
  arenaBytes = alignTo(bytes ? bytes : 1, 4096);
  std::string why;
  ctx.arena = static_cast<uint8_t *>(memory.reserve(arenaBytes, why));
  return ctx.arena ? Status::success() : tooLarge(why);
}

/// The error that made a program's function return `result`.
Status Model::takeError(const char *function, int32_t result) {
  if (ctx.error) {
    ErrorInfo error = std::move(*ctx.error);
    ctx.error.reset();
    return error;
  }
  if (result != 0)
    return internalError(path(), std::string("the program's ") + function +
                                     " function returned " +
                                     std::to_string(result) +
                                     " without an error");
  return Status::success();
}

Status Model::runLoad() {
  const int64_t count = program->abi->num_weights;
  if (count > kMaxWeights)
    return inputError(path(), "the program asks for " + std::to_string(count) +
                                  " weights; at most " +
                                  std::to_string(kMaxWeights) +
                                  " are possible");
  octet_weight empty{};
  empty.num_parts = kEmptySlot;
  weights.assign(size_t(count), empty);
  ctx.weights = weights.data();
  OCTET_TRY(takeError("load", program->abi->load(&ctx, /*rank=*/0)));
  for (int64_t i = 0; i < count; ++i)
    if (weights[i].num_parts < 0 || weights[i].num_parts > OCTET_MAX_PARTS) {
      ErrorInfo error =
          internalError(path(), "the program's load function left weight " +
                                    std::to_string(i) + " of " +
                                    std::to_string(count) + " empty")
              .takeInfo();
      error.rule = "W6";
      return error;
    }
  return Status::success();
}

Status Model::openWeights(const std::string &folder, bool isDefault) {
  if (folder == kRandomWeights) {
    OCTET_TRY_ASSIGN(
        random, RandomWeights::draw(info().tensors, *pool, "--weights random"));
    table = random->table();
    ctx.random = &*random;
  } else {
    auto opened = openCheckpoint(folder, {.needConfig = false});
    if (!opened.ok()) {
      Status error = opened.takeStatus();
      if (isDefault)
        error.note("it is the checkpoint that was compiled; --weights DIR "
                   "names another");
      return error;
    }
    table = std::move(opened->tensors);
    OCTET_TRY(checkTensorTable(info(), table, folder));
    OCTET_TRY_ASSIGN(mapped, MappedCheckpoint::map(table));
    ctx.mapped = &*mapped;
  }
  ctx.table = &table;
  for (const ProgramTensor &tensor : info().tensors)
    ctx.rows.push_back(table.find(tensor.name));
  return Status::success();
}

/// Of the processor's memory, what only load reads.
void Model::dropWeights() {
  ctx.freeAllocated();
  ctx.mapped = nullptr;
  mapped.reset();
  if (random)
    random->drop();
}

void Model::setProfile(Profile *profile) {
  ctx.profile = profile;
  ctx.runtime = backend->services(profile != nullptr);
}

Status Model::chooseBackend(const LoadOptions &options) {
  const std::string &target = info().target;
  if (target == "cpu") {
    backend = makeCpuBackend(*program);
    return Status::success();
  }
  if (!target.starts_with("sm_") || program->abi->num_images <= 0 ||
      !program->abi->images)
    return inputError(path(), "compiled for target " + quoteName(target) +
                                  (target.starts_with("sm_")
                                       ? " without kernels"
                                       : "; this runner has 'cpu' and sm_NN"));
  OCTET_TRY_ASSIGN(
      std::unique_ptr<cu::CudaBackend> device,
      cu::CudaBackend::create(*program, *pool, options.driver, options.nvrtc));
  if (const cu::Recompiled *made = device->recompiled()) {
    if (const size_t count = made->kernels.numCompiled)
      ctx.warnings.push_back(
          "compiled for " + program->heldTargets() + "; " +
          std::to_string(count) + " kernels were compiled for " + made->target +
          (made->kernels.cacheProblem.ok()
               ? ", once, and are kept for the next start"
               : ", and cannot be kept for the next start: " +
                     made->kernels.cacheProblem.info().subject + ": " +
                     made->kernels.cacheProblem.info().message));
  }
  backend = std::move(device);
  return Status::success();
}

Result<std::unique_ptr<Model>>
Model::load(std::shared_ptr<const Program> program, const std::string &weights,
            const LoadOptions &options) {
  std::unique_ptr<Model> model(new Model());
  model->program = std::move(program);
  const ProgramInfo &info = model->info();
  Context &ctx = model->ctx;
  const std::string &folder = weights.empty() ? info.checkpoint : weights;
  if (folder.empty())
    return usageError("--weights", "the program names no default folder; give "
                                   "the checkpoint's");

  ctx.level = options.level >= 0 ? options.level : detectLevel();
  model->pool = std::make_unique<ThreadPool>(
      options.threads > 0 ? options.threads : ThreadPool::defaultThreads());
  ctx.pool = model->pool.get();
  OCTET_TRY(model->chooseBackend(options));
  Backend &backend = *model->backend;
  ctx.runtime = backend.services(/*profiled=*/false);
  OCTET_TRY(model->openWeights(folder, /*isDefault=*/weights.empty()));

  OCTET_TRY_ASSIGN(model->kv,
                   KvCache::create(info.kv, info.maxSeqs, info.maxContext,
                                   model->path(), backend.memory(),
                                   backend.sparePages()));
  ctx.kv = model->kv->layers();
  ctx.kvType = info.kv.type;
  OCTET_TRY(model->allocateArena());
  OCTET_TRY(backend.prepare(ctx, *model->kv));
  OCTET_TRY(model->runLoad());
  OCTET_TRY(backend.finishLoad(ctx));
  if (backend.copiesWeights())
    model->dropWeights();
  return model;
}

Status Model::step(const octet_batch &batch, TraceSink *sink) {
  ctx.sink = sink;
  ctx.tracing = sink != nullptr;
  int32_t result = backend->step(ctx, batch);
  ctx.sink = nullptr;
  ctx.tracing = 0;
  return takeError("step", result);
}

Status Model::draw(const octet_batch &batch,
                   std::span<const octet_sample_row> rows,
                   std::span<int32_t> tokens) {
  return takeError("step", backend->draw(ctx, batch, rows, tokens));
}
