//===- HostProgram.cpp - Programs compiled and run in a test --------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostProgram.h"
#include "dialects/AllDialects.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "octet/HostCode/HostCode.h"
#include "passes/Passes.h"
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace octet;
using namespace octet::test;

std::string test::fill(std::string text,
                       const std::map<std::string, std::string> &values) {
  for (auto &[name, value] : values)
    for (size_t at; (at = text.find("$" + name)) != std::string::npos;)
      text.replace(at, name.size() + 1, value);
  return text;
}

std::string test::makeModule(const std::string &step, int64_t arenaBytes,
                             const std::string &slots) {
  return R"(module attributes {
    model.info = {hash = "0", kind = "model", vocab = 1 : i64, layers = 2 : i64},
    model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1,
      max_context = 64, max_seqs = 4, max_step_tokens = 32, activation_quant = "auto", kv_cache = "auto",
      quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
    kernel.arena_bytes = )" +
         std::to_string(arenaBytes) + " : i64} {\n" + slots + R"(
  func.func @load(%rank: index) { return }
  func.func @step(%b: !model.batch) {
)" + step +
         "\n    return\n  }\n}\n";
}

std::vector<int> test::levels() {
  std::vector<int> found;
  if (__builtin_cpu_supports("x86-64-v3"))
    found.push_back(OCTET_LEVEL_V3);
  if (__builtin_cpu_supports("x86-64-v4"))
    // Row code of the levels above is that of AVX-512.
    for (int level = OCTET_LEVEL_AVX512; level < OCTET_NUM_LEVELS; ++level)
      found.push_back(level);
  return found;
}

HostProgram::HostProgram(const std::string &ir, const std::string &pipeline) {
  compile(ir, pipeline);
}

void HostProgram::compile(const std::string &ir, const std::string &pipeline) {
  static const bool registered = (registerPasses(), true);
  (void)registered;
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.loadAllAvailableDialects();
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) {
    text += d.str() + "\n";
    return mlir::success();
  });
  auto module = mlir::parseSourceString<mlir::ModuleOp>(ir, &context);
  ASSERT_TRUE(module) << text;
  mlir::PassManager passes(&context);
  ASSERT_TRUE(mlir::succeeded(mlir::parsePassPipeline(pipeline, passes)));
  if (mlir::failed(passes.run(*module)))
    return;
  auto object = emitObject(*module);
  ASSERT_TRUE(object.ok()) << object.status().info().format();
  auto image = linkProgram(*object);
  ASSERT_TRUE(image.ok()) << image.status().info().format();
  // Open until the end: dlopen takes a path that it has seen for the same file.
  fd = memfd_create("program", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(fd, image->data(), image->size()), ssize_t(image->size()));
  handle = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW);
  ASSERT_TRUE(handle) << dlerror();
  entry = static_cast<const octet_program_t *>(dlsym(handle, "octet_program"));
  ASSERT_TRUE(entry);
}

HostProgram::~HostProgram() {
  if (handle)
    dlclose(handle);
  if (fd >= 0)
    close(fd);
}

//===----------------------------------------------------------------------===//
// The runtime of a test
//===----------------------------------------------------------------------===//

static void parallelFor(octet_ctx *ctx, const octet_rows_desc *desc, int64_t n,
                        octet_row_fn fn, void *arg) {
  EXPECT_STRNE(desc->name, "");
  EXPECT_GE(desc->grain, 1);
  EXPECT_GE(desc->row_bytes, 1);
  int64_t chunk = static_cast<HostRun *>(ctx)->chunk;
  if (chunk == 0)
    return fn(arg, 0, n);
  for (int64_t end = n; end > 0; end -= chunk)
    fn(arg, std::max<int64_t>(end - chunk, 0), end);
}

static size_t bytesOf(int32_t type) {
  return type == OCTET_F32 ? 4 : type == OCTET_E4M3 ? 1 : 2;
}

/// Small values that depend on every bit: a hash as a float in [-1, 1).
static void scramble(uint64_t seed, const void *data, size_t bytes, float *out,
                     int64_t n) {
  auto *p = static_cast<const uint8_t *>(data);
  for (size_t i = 0; i < bytes; ++i)
    seed = (seed ^ p[i]) * 1099511628211u;
  for (int64_t i = 0; i < n; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    out[i] = float(int32_t(seed >> 33)) * 0x1p-30f - 1.0f;
  }
}

static void store(void *y, int32_t type, int64_t at, float value) {
  if (type == OCTET_F32) {
    static_cast<float *>(y)[at] = value;
  } else { // truncated: exact in BF16; as F16 some finite number
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    static_cast<uint16_t *>(y)[at] = uint16_t(bits >> 16);
  }
}

static void gemm(octet_ctx *, const octet_gemm_desc *desc, int64_t m,
                 const void *x, const float *scale, const octet_weight *,
                 const octet_weight *, void *y) {
  size_t row = desc->k * bytesOf(desc->x_type);
  int64_t groups = desc->x_scale_mode == OCTET_SCALE_BLOCK
                       ? (desc->k + desc->block_k - 1) / desc->block_k
                       : 1;
  std::vector<float> out(desc->n);
  for (int64_t i = 0; i < m; ++i) {
    uint64_t seed = 14695981039346656037u;
    if (desc->x_scale_mode != OCTET_SCALE_NONE) {
      bool one = desc->x_scale_mode == OCTET_SCALE_TENSOR;
      scramble(seed, scale + (one ? 0 : i * groups), groups * 4, out.data(), 1);
      std::memcpy(&seed, out.data(), 4);
    }
    scramble(seed, static_cast<const char *>(x) + i * row, row, out.data(),
             desc->n);
    for (int64_t j = 0; j < desc->n; ++j)
      store(y, desc->y_type, i * desc->n + j, out[j]);
  }
}

static void attention(octet_ctx *, const octet_attention_desc *desc, int64_t,
                      const octet_batch *batch, const void *q, const float *,
                      const float *, void *y) {
  std::memcpy(y, q,
              batch->num_rows * desc->q_heads * desc->head_dim *
                  bytesOf(desc->type));
}

static void trace(octet_ctx *ctx, const char *, int64_t, int32_t type,
                  int64_t rows, int64_t cols, const void *data) {
  auto *p = static_cast<const uint8_t *>(data);
  static_cast<HostRun *>(ctx)->traces.emplace_back(p, p + rows * cols *
                                                              bytesOf(type));
}

static const octet_runtime *makeTable() {
  static octet_runtime table = [] {
    octet_runtime t{};
    t.parallel_for = parallelFor;
    t.gemm = gemm;
    t.attention = attention;
    t.trace = trace;
    return t;
  }();
  return &table;
}

HostRun::HostRun(const octet_program_t *program, int level) : entry(program) {
  memory.assign(program->arena_bytes + 64, 0xCD);
  slots.resize(program->num_weights);
  runtime = makeTable();
  arena = reinterpret_cast<uint8_t *>(
      (reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  weights = slots.data();
  kv = nullptr;
  this->level = level;
  tracing = 0;
}

void HostRun::setWeight(int64_t slot, const void *data, const void *scale,
                        int64_t rows) {
  slots[slot] = {1, {{data, scale, rows, -1, -1}}};
}
