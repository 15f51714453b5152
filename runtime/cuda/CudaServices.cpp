//===- CudaServices.cpp - What a CUDA program may call --------------------===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/cuda/CudaServices.h"
#include "runtime/core/Context.h"
#include "runtime/core/Services.h"
#include "runtime/cuda/CudaBackend.h"

using namespace octet;
using namespace octet::rt;
using namespace octet::rt::cu;

static void refuse(octet_ctx *ctx, const char *subject, const char *function) {
  Context::from(ctx).fail(internalError(
      subject, std::string("a CUDA program calls ") + function +
                   ", which only programs of the target 'cpu' do"));
}

static void parallelFor(octet_ctx *ctx, const octet_rows_desc *desc, int64_t,
                        octet_row_fn, void *) {
  refuse(ctx, desc->name, "parallel_for");
}

static void gemm(octet_ctx *ctx, const octet_gemm_desc *desc, int64_t,
                 const void *, const float *, const octet_weight *,
                 const octet_weight *, void *) {
  refuse(ctx, desc->module, "gemm");
}

static void attention(octet_ctx *ctx, const octet_attention_desc *desc, int64_t,
                      const octet_batch *, const void *, const float *,
                      const float *, void *) {
  refuse(ctx, desc->module, "attention");
}

static void trace(octet_ctx *ctx, const char *name, int64_t index, int32_t type,
                  int64_t rows, int64_t cols, const void *data) {
  Context &c = Context::from(ctx);
  c.cuda->trace(c, name, index, type, rows, cols, data);
}

static int32_t upload(octet_ctx *ctx, const octet_tensor_desc *desc,
                      const octet_weight *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  return c.cuda->upload(c, *desc, *in, *out);
}

static int32_t rewrite(octet_ctx *ctx, const octet_tensor_desc *from,
                       const octet_tensor_desc *to, const octet_launch *kernels,
                       const octet_weight *in, octet_weight *out) {
  Context &c = Context::from(ctx);
  return c.cuda->rewrite(c, *from, *to, *kernels, *in, *out);
}

static void forget(octet_ctx *ctx) {
  Context &c = Context::from(ctx);
  c.freeAllocated();
  if (c.cuda)
    c.cuda->forget();
}

static void launch(octet_ctx *ctx, const octet_launch *desc,
                   const octet_batch *batch, int64_t rows,
                   const void *const *args) {
  Context &c = Context::from(ctx);
  c.cuda->launch(c, *desc, *batch, rows, args);
}

const octet_runtime *octet::rt::cu::cudaServices() {
  static const octet_runtime table = [] {
    octet_runtime t = *cpuServices();
    t.parallel_for = parallelFor;
    t.gemm = gemm;
    t.attention = attention;
    t.trace = trace;
    t.upload = upload;
    t.rewrite = rewrite;
    t.forget = forget;
    t.launch = launch;
    return t;
  }();
  return &table;
}
