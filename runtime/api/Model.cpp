//===- Model.cpp - Models -------------------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Support/Escape.h"
#include "runtime/api/Guard.h"
#include "runtime/api/Handles.h"
#include "runtime/api/Limits.h"
#include "runtime/cpu/Level.h"

using namespace octet;
using namespace octet::rt;

static_assert(kRandomWeights == OCTET_RANDOM_WEIGHTS);

/// Size of octet_model_options in the first version of octet.h.
static constexpr size_t kModelOptionsBytes = 32;
static_assert(sizeof(octet_model_options) >= kModelOptionsBytes);
static constexpr int32_t kMaxThreads = 4096;

void octet_model_options_init(octet_model_options *options, size_t size) {
  writeStruct(options, size, octet_model_options{});
}

/// The octet_level of a name of `--simd`; of "", the highest.
static Result<int> chooseLevel(std::string_view name) {
  const int highest = detectLevel();
  if (highest < 0)
    return machineError("this machine", "its processor is below x86-64-v3 "
                                        "(AVX2, FMA, F16C), the least that "
                                        "runs");
  if (name.empty())
    return highest;
  std::string names;
  for (int level = 0; level <= highest; ++level)
    names += (level ? ", " : "") + std::string(levelName(level));
  std::optional<int> level = parseLevel(name);
  if (!level)
    return usageError("--simd", "no level " + quoteName(name) +
                                    "; this machine runs " + names);
  if (*level > highest)
    return inputError("--simd", "level " + quoteName(name) +
                                    " does not run here; this machine runs " +
                                    names);
  return *level;
}

octet_status octet_model_load(const octet_file *file,
                              const octet_model_options *given,
                              octet_model **model, octet_error **error) {
  static constexpr char function[] = "octet_model_load";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"file", file}, {"model", model}}));
    *model = nullptr;
    octet_model_options options{};
    OCTET_TRY(readOptions(function, given, kModelOptionsBytes, options));
    if (options.threads < 0 || options.threads > kMaxThreads)
      return usageError("--threads",
                        std::to_string(options.threads) + " threads; 1 to " +
                            std::to_string(kMaxThreads) + " are possible");
    if (options.reserved)
      return usageError(function, "'reserved' is " +
                                      std::to_string(options.reserved) +
                                      "; it must be 0");
    OCTET_TRY_ASSIGN(int level, chooseLevel(options.simd ? options.simd : ""));
    OCTET_TRY_ASSIGN(std::shared_ptr<const Program> program, file->program());
    OCTET_TRY_ASSIGN(std::unique_ptr<Model> loaded,
                     Model::load(std::move(program),
                                 options.weights ? options.weights : "",
                                 {.threads = options.threads, .level = level}));
    auto shared = std::make_shared<LoadedModel>(std::move(loaded));
    const ProgramInfo &info = shared->model->info();
    shared->bos.assign(info.bos.begin(), info.bos.end());
    shared->eos.assign(info.eos.begin(), info.eos.end());
    *model = new octet_model{std::move(shared)};
    return Status::success();
  });
}

void octet_model_free(octet_model *model) { delete model; }

octet_status octet_model_limits(const octet_model *model, octet_limits *limits,
                                octet_error **error) {
  static constexpr char function[] = "octet_model_limits";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"model", model}, {"limits", limits}}));
    return writeLimits(function, model->loaded->model->info(), limits);
  });
}

int32_t octet_model_threads(const octet_model *model) {
  return model ? model->loaded->model->threads() : 0;
}

const char *octet_model_simd(const octet_model *model) {
  return model ? levelName(model->loaded->model->level()).data() : "";
}

int64_t octet_model_pages(const octet_model *model) {
  return model ? model->loaded->model->cache().numPages() : 0;
}

int64_t octet_model_free_pages(const octet_model *model) {
  return model ? model->loaded->model->cache().freePages() : 0;
}

static size_t idsOf(const std::vector<int32_t> *from, const int32_t **ids) {
  if (ids)
    *ids = from ? from->data() : nullptr;
  return from ? from->size() : 0;
}

size_t octet_model_bos(const octet_model *model, const int32_t **ids) {
  return idsOf(model ? &model->loaded->bos : nullptr, ids);
}

size_t octet_model_eos(const octet_model *model, const int32_t **ids) {
  return idsOf(model ? &model->loaded->eos : nullptr, ids);
}

size_t octet_model_warnings(const octet_model *model) {
  return model ? model->loaded->model->warnings().size() : 0;
}

const char *octet_model_warning(const octet_model *model, size_t index) {
  return index < octet_model_warnings(model)
             ? model->loaded->model->warnings()[index].c_str()
             : "";
}

octet_status octet_model_check_ids(const octet_model *model, const int64_t *ids,
                                   size_t count, octet_error **error) {
  static constexpr char function[] = "octet_model_check_ids";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"model", model}}));
    if (count == 0)
      return inputError(function, "no token ids; at least one is needed");
    OCTET_TRY(notNull(function, {{"ids", ids}}));
    return model->loaded->engine.checkIds(std::span(ids, count), function);
  });
}

octet_status octet_model_check_length(const octet_model *model, int64_t tokens,
                                      octet_error **error) {
  static constexpr char function[] = "octet_model_check_length";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"model", model}}));
    return model->loaded->engine.checkLength(tokens, function);
  });
}
