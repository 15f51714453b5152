//===- Step.cpp - Sequences and steps -------------------------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "octet/Numerics/Numerics.h"
#include "octet/Support/Escape.h"
#include "runtime/api/Guard.h"
#include "runtime/api/Handles.h"
#include <limits>

using namespace octet;
using namespace octet::rt;

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

/// \returns a usage error of `function` if the program is a module.
static Status wantWholeModel(const char *function, const LoadedModel &loaded) {
  const ProgramInfo &info = loaded.model->info();
  if (!info.isModule)
    return Status::success();
  return usageError(function, "this program is the module " +
                                  quoteName(info.modulePath) +
                                  "; octet_evaluate works on it");
}

octet_status octet_seq_create(octet_model *model, octet_seq **seq,
                              octet_error **error) {
  static constexpr char function[] = "octet_seq_create";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"model", model}, {"seq", seq}}));
    *seq = nullptr;
    OCTET_TRY(wantWholeModel(function, *model->loaded));
    *seq = new octet_seq{model->loaded, {}};
    return Status::success();
  });
}

octet_status octet_seq_fork(const octet_seq *seq, octet_seq **copy,
                            octet_error **error) {
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull("octet_seq_fork", {{"seq", seq}, {"copy", copy}}));
    *copy = nullptr;
    auto made = std::make_unique<octet_seq>(seq->loaded, Sequence());
    made->sequence = seq->loaded->engine.fork(seq->sequence);
    *copy = made.release();
    return Status::success();
  });
}

void octet_seq_free(octet_seq *seq) { delete seq; }

octet_status octet_seq_append(octet_seq *seq, const int32_t *ids, size_t count,
                              octet_error **error) {
  static constexpr char function[] = "octet_seq_append";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"seq", seq}}));
    if (count == 0)
      return Status::success();
    OCTET_TRY(notNull(function, {{"ids", ids}}));
    const Engine &engine = seq->loaded->engine;
    std::vector<int32_t> &tokens = seq->sequence.tokens;
    // No sum of the two can overflow: a context has less than 2^31 tokens.
    const int64_t added =
        int64_t(std::min<size_t>(count, std::numeric_limits<int32_t>::max()));
    OCTET_TRY(engine.checkLength(int64_t(tokens.size()) + added, function));
    OCTET_TRY(engine.checkIds(std::span(ids, count), function));
    tokens.insert(tokens.end(), ids, ids + count);
    return Status::success();
  });
}

octet_status octet_seq_truncate(octet_seq *seq, int64_t length,
                                octet_error **error) {
  static constexpr char function[] = "octet_seq_truncate";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"seq", seq}}));
    if (length < 0 || length > octet_seq_length(seq))
      return usageError(function, "to " + std::to_string(length) +
                                      " tokens; the sequence has " +
                                      std::to_string(octet_seq_length(seq)));
    seq->loaded->engine.truncate(seq->sequence, length);
    return Status::success();
  });
}

int64_t octet_seq_length(const octet_seq *seq) {
  return seq ? int64_t(seq->sequence.tokens.size()) : 0;
}

int64_t octet_seq_cached(const octet_seq *seq) {
  return seq ? seq->sequence.cached : 0;
}

int64_t octet_seq_pending(const octet_seq *seq) {
  return seq ? seq->sequence.pending() : 0;
}

const int32_t *octet_seq_tokens(const octet_seq *seq) {
  return seq ? seq->sequence.tokens.data() : nullptr;
}

//===----------------------------------------------------------------------===//
// Traces
//===----------------------------------------------------------------------===//

namespace {
/// Passes values on as floats or integers.
class TraceCall : public TraceSink {
public:
  TraceCall(octet_trace_fn fn, void *user) : fn(fn), user(user) {}

  void trace(const char *name, int64_t index, int32_t type, int64_t rows,
             int64_t cols, const void *data) override {
    octet_trace trace{
        sizeof(octet_trace), name, index, rows, cols, nullptr, nullptr};
    if (type == OCTET_I32) {
      trace.integers = static_cast<const int32_t *>(data);
    } else if (type == OCTET_F32) {
      trace.floats = static_cast<const float *>(data);
    } else {
      widen(type, size_t(rows * cols), data);
      trace.floats = floats.data();
    }
    fn(user, &trace);
  }

private:
  void widen(int32_t type, size_t count, const void *data) {
    floats.resize(count);
    for (size_t i = 0; i < count; ++i)
      floats[i] = type == OCTET_BF16
                      ? decodeBF16(static_cast<const uint16_t *>(data)[i])
                  : type == OCTET_F16
                      ? decodeF16(static_cast<const uint16_t *>(data)[i])
                      : decodeE4M3(static_cast<const uint8_t *>(data)[i]);
  }

  octet_trace_fn fn;
  void *user;
  std::vector<float> floats;
};
} // namespace

void octet_model_set_trace(octet_model *model, octet_trace_fn fn, void *user) {
  if (!model)
    return;
  model->loaded->trace = fn;
  model->loaded->traceUser = user;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// \returns a usage error of `function` that names the entry: without a
/// sequence, or with one of another model.
static Result<std::vector<Feed>> feedsOf(const char *function,
                                         const LoadedModel &loaded,
                                         const octet_entry *entries,
                                         size_t count) {
  std::vector<Feed> feeds;
  for (size_t i = 0; i < count; ++i) {
    const octet_entry &entry = entries[i];
    const std::string name = "entry " + std::to_string(i);
    if (!entry.sequence)
      return usageError(function, name + " has no sequence: it is NULL");
    if (entry.sequence->loaded.get() != &loaded)
      return usageError(function, name + " has a sequence of another model");
    feeds.push_back({&entry.sequence->sequence, entry.tokens, entry.outputs});
  }
  return feeds;
}

/// `count` of valid entries, or -1.
template <typename Count>
static int64_t countEntries(const octet_model *model,
                            const octet_entry *entries, size_t count,
                            Count value) {
  int64_t result = -1;
  (void)guard(nullptr, [&]() -> Status {
    OCTET_TRY(notNull("entries", {{"model", model}, {"entries", entries}}));
    const LoadedModel &loaded = *model->loaded;
    OCTET_TRY_ASSIGN(std::vector<Feed> feeds,
                     feedsOf("entries", loaded, entries, count));
    OCTET_TRY(loaded.engine.checkFeeds(feeds));
    result = value(loaded, feeds);
    return Status::success();
  });
  return result;
}

int64_t octet_step_size(const octet_model *model, const octet_entry *entries,
                        size_t count) {
  return countEntries(
      model, entries, count,
      [](const LoadedModel &loaded, std::span<const Feed> feeds) {
        return Engine::outputRows(feeds) * loaded.model->info().outputWidth();
      });
}

int64_t octet_step_pages(const octet_model *model, const octet_entry *entries,
                         size_t count) {
  return countEntries(
      model, entries, count,
      [](const LoadedModel &loaded, std::span<const Feed> feeds) {
        return loaded.engine.pagesNeeded(feeds);
      });
}

/// Runs `step(loaded, feeds, sink)`; a step without enough free pages has a
/// status of its own.
template <typename StepFn>
static octet_status runStep(const char *function, octet_model *model,
                            const octet_entry *entries, size_t count,
                            octet_error **error, StepFn step) {
  bool noPages = false;
  const octet_status status = guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"model", model}}));
    LoadedModel &loaded = *model->loaded;
    if (count)
      OCTET_TRY(notNull(function, {{"entries", entries}}));
    OCTET_TRY_ASSIGN(std::vector<Feed> feeds,
                     feedsOf(function, loaded, entries, count));
    TraceCall trace(loaded.trace, loaded.traceUser);
    Status done = step(loaded, feeds, loaded.trace ? &trace : nullptr);
    // A step that fails changes nothing, so the same is true still.
    noPages =
        !done.ok() && done.info().kind == ErrorKind::Machine &&
        loaded.engine.pagesNeeded(feeds) > loaded.model->cache().freePages();
    return done;
  });
  if (!noPages)
    return status;
  if (error && *error)
    (*error)->status = OCTET_ERROR_PAGES;
  return OCTET_ERROR_PAGES;
}

octet_status octet_step(octet_model *model, const octet_entry *entries,
                        size_t count, float *logits, int64_t capacity,
                        octet_error **error) {
  return runStep(
      "octet_step", model, entries, count, error,
      [&](LoadedModel &loaded, std::span<const Feed> feeds, TraceSink *sink) {
        const size_t room = logits && capacity > 0 ? size_t(capacity) : 0;
        return loaded.engine.step(feeds, {logits, room}, sink);
      });
}

octet_status octet_step_draw(octet_model *model, const octet_entry *entries,
                             size_t count, const octet_draw *draws,
                             size_t numDraws, int32_t *ids,
                             octet_error **error) {
  static constexpr char function[] = "octet_step_draw";
  return runStep(
      function, model, entries, count, error,
      [&](LoadedModel &loaded, std::span<const Feed> feeds,
          TraceSink *sink) -> Status {
        if (numDraws)
          OCTET_TRY(notNull(function, {{"draws", draws}, {"ids", ids}}));
        OCTET_TRY(wantWholeModel(function, loaded));
        OCTET_TRY(loaded.engine.checkFeeds(feeds));
        if (const int64_t rows = Engine::outputRows(feeds);
            rows != int64_t(numDraws))
          return usageError(function, std::to_string(numDraws) + " draws for " +
                                          std::to_string(rows) +
                                          " rows of outputs");
        std::vector<Draw> list;
        for (size_t i = 0; i < numDraws; ++i) {
          OCTET_TRY_ASSIGN(SamplerOptions options,
                           readSampler(function, draws[i].options));
          list.push_back({options, draws[i].stream, draws[i].index});
        }
        return loaded.engine.draw(feeds, list, {ids, numDraws}, sink);
      });
}

octet_status octet_evaluate(octet_model *model, const float *x, int64_t rows,
                            float *y, int64_t capacity, int64_t chunk,
                            octet_error **error) {
  static constexpr char function[] = "octet_evaluate";
  return guard(error, [&]() -> Status {
    OCTET_TRY(notNull(function, {{"model", model}, {"x", x}, {"y", y}}));
    Engine &engine = model->loaded->engine;
    const ProgramInfo &info = model->loaded->model->info();
    if (!info.isModule)
      return usageError(function, "this program is a whole model; octet_step "
                                  "runs it");
    if (rows < 1 || rows > info.maxContext)
      return usageError(function, std::to_string(rows) + " rows; 1 to " +
                                      std::to_string(info.maxContext) +
                                      " (max_context) are possible");
    if (chunk < 0)
      return usageError(function, "chunks of " + std::to_string(chunk) +
                                      " rows; 0 or more are possible");
    if (capacity < rows * info.moduleOut)
      return usageError(function,
                        "room for " + std::to_string(capacity) + " values; " +
                            std::to_string(rows * info.moduleOut) +
                            " are needed (" + std::to_string(rows) +
                            " rows of " + std::to_string(info.moduleOut) + ")");
    return engine.evaluate({x, size_t(rows * info.moduleIn)}, rows,
                           {y, size_t(capacity)}, chunk);
  });
}
