/*===- fake_program.c - A program written by hand -----------------*- C -*-===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* What the compiler would make of a small attention-only model in F32, so    *|
|* that the runtime is tested without the compiler:                           *|
|*                                                                            *|
|*   h = embed[id] + position / 64                                            *|
|*   for each layer: h += o_proj(attention(q_proj(h), k_proj(h), v_proj(h)))  *|
|*   logits = h / 16 * embed^T                                                *|
|*                                                                            *|
|* q, k and v are one fused weight of three parts. Compiled freestanding: a   *|
|* program has no imports. FAKE_MODULE makes layer 0's o_proj a module of its *|
|* own; FAKE_UNFILLED, FAKE_ABI, FAKE_ARENA and FAKE_STEP each break one      *|
|* promise. FakeModel.cpp writes the checkpoint.                              *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "test/unit/fake_model.h"

#ifdef FAKE_MODULE
enum { W_O, NUM_WEIGHTS };
#else
/* Weight slots: qkv and o of each layer follow. */
enum { W_EMBED, W_QUANTIZED, W_LAYER0, NUM_WEIGHTS = W_LAYER0 + 2 * LAYERS };
#endif

#ifdef FAKE_MODULE
#define KIND                                                                   \
  "\"kind\": \"module\", \"module\": {\"path\": \"layers.0.o_proj\", "         \
  "\"in\": 64, \"out\": 48}, "
#else
#define KIND MODEL_KIND
#endif

#ifndef FAKE_CHECKPOINT
#define FAKE_CHECKPOINT "" /* no default folder */
#endif

static const char info[] =
    "{\"octet\": \"test\", \"target\": \"cpu\", \"numerics\": \"cpu\", "
    "\"dtype\": \"f32\", \"architecture\": \"FakeForCausalLM\", "
    "\"checkpoint\": \"" FAKE_CHECKPOINT "\", \"hash\": \"" FAKE_HASH
    "\", " TENSORS KIND LIMITS "\"decisions\": [{\"module\": "
    "\"layers.{l}.o_proj\", \"method\": \"none\", \"weight\": \"f32\", "
    "\"activation\": \"f32\", \"kernel\": \"cpu.gemm\"}], " MEMORY;

static int32_t load(octet_ctx *ctx, int64_t rank) {
  const octet_runtime *rt = ctx->runtime;
  octet_weight *w = ctx->weights;
#ifdef FAKE_MODULE
  return rt->load(ctx, &o_proj, T_LAYER0 + T_O, -1, &w[W_O]);
#else
  TRY(rt->load(ctx, &embed, T_EMBED, -1, &w[W_EMBED]));
  TRY(rt->load(ctx, &extra, T_QUANTIZED, T_SCALE, &w[W_QUANTIZED]));
  TRY(rt->check_scales(ctx, &extra, &w[W_QUANTIZED]));
  for (int64_t l = 0; l < LAYERS; ++l) {
    octet_weight q, k, v;
    const octet_weight *parts[3] = {&q, &k, &v};
    int64_t row = T_LAYER0 + l * T_PER_LAYER;
    TRY(rt->load(ctx, &q_proj, row + T_Q, -1, &q));
    TRY(rt->load(ctx, &kv_proj, row + T_K, -1, &k));
    TRY(rt->load(ctx, &kv_proj, row + T_V, -1, &v));
    TRY(rt->concat(ctx, 3, parts, &w[W_LAYER0 + 2 * l]));
#ifdef FAKE_UNFILLED
    if (l == 1)
      break;
#endif
    TRY(rt->load(ctx, &o_proj, row + T_O, -1, &w[W_LAYER0 + 2 * l + 1]));
  }
  return 0;
#endif
}

#define F32_GEMM(name, module_, n_, k_)                                        \
  static const octet_gemm_desc name = {.module = module_,                      \
                                       .n = n_,                                \
                                       .k = k_,                                \
                                       .x_type = OCTET_F32,                    \
                                       .w_type = OCTET_F32,                    \
                                       .y_type = OCTET_F32,                    \
                                       .bias_type = -1}
F32_GEMM(o_gemm, "layers.{l}.o_proj", H, Q);

#ifdef FAKE_MODULE

static int32_t step(octet_ctx *ctx, const octet_batch *b) {
  ctx->runtime->gemm(ctx, &o_gemm, b->num_rows, b->input, 0, &ctx->weights[W_O],
                     0, b->output);
  return 0;
}

#else

F32_GEMM(qkv_gemm, "layers.{l}.qkv_proj", QKV, H);
F32_GEMM(head_gemm, "lm_head", V, H);
static const octet_attention_desc attention_desc = {
    "layers.{l}.attn", Q_HEADS,   KV_HEADS, HEAD_DIM, 0,
    OCTET_F32,         OCTET_F32, 0.25f,    0};

typedef struct {
  octet_ctx *ctx;
  const octet_batch *batch;
  arena *a;
  int64_t layer;
} row_arg;

static void embed_rows(void *p, int64_t begin, int64_t end) {
  const row_arg *arg = p;
  const float *table = arg->ctx->weights[W_EMBED].parts[0].data;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < H; ++j)
      arg->a->h[i * H + j] =
          table[(int64_t)arg->batch->ids[i] * H + j] +
          (j == 0 ? (float)arg->batch->positions[i] * 0.015625f : 0.0f);
}

/* Splits a row of q, k and v; keys and values go to their slot. */
static void split_rows(void *p, int64_t begin, int64_t end) {
  const row_arg *arg = p;
  float *k = arg->ctx->kv[arg->layer].k;
  float *v = arg->ctx->kv[arg->layer].v;
  for (int64_t i = begin; i < end; ++i) {
    const float *row = arg->a->qkv + i * QKV;
    int64_t slot = arg->batch->slots[i];
    for (int64_t j = 0; j < Q; ++j)
      arg->a->q[i * Q + j] = row[j];
    for (int64_t j = 0; j < KV; ++j) {
      k[slot * KV + j] = row[Q + j];
      v[slot * KV + j] = row[Q + KV + j];
    }
  }
}

static void add_rows(void *p, int64_t begin, int64_t end) {
  const row_arg *arg = p;
  for (int64_t i = begin * H; i < end * H; ++i)
    arg->a->h[i] += arg->a->o[i];
}

static void output_rows(void *p, int64_t begin, int64_t end) {
  const row_arg *arg = p;
  for (int64_t i = begin; i < end; ++i)
    for (int64_t j = 0; j < H; ++j)
      arg->a->o[i * H + j] =
          arg->a->h[arg->batch->output_rows[i] * H + j] * 0.0625f;
}

static const octet_rows_desc embed_desc = {"embed", 1, 8 * H};
static const octet_rows_desc split_desc = {"split", 1, 8 * H};
static const octet_rows_desc add_desc = {"add", 4, 12 * H};
static const octet_rows_desc output_desc = {"output", 1, 8 * H};

static int32_t step(octet_ctx *ctx, const octet_batch *b) {
#ifdef FAKE_STEP
  return 7;
#endif
  const octet_runtime *rt = ctx->runtime;
  arena *a = (arena *)ctx->arena;
  const int64_t rows = b->num_rows;
  row_arg arg = {ctx, b, a, 0};
  rt->parallel_for(ctx, &embed_desc, rows, embed_rows, &arg);
  if (ctx->tracing)
    rt->trace(ctx, "hidden", 0, OCTET_F32, rows, H, a->h);
  for (int64_t l = 0; l < LAYERS; ++l) {
    const octet_weight *w = ctx->weights + W_LAYER0 + 2 * l;
    arg.layer = l;
    rt->gemm(ctx, &qkv_gemm, rows, a->h, 0, &w[0], 0, a->qkv);
    rt->parallel_for(ctx, &split_desc, rows, split_rows, &arg);
    rt->attention(ctx, &attention_desc, l, b, a->q, 0, 0, a->y);
    rt->gemm(ctx, &o_gemm, rows, a->y, 0, &w[1], 0, a->o);
    rt->parallel_for(ctx, &add_desc, rows, add_rows, &arg);
    if (ctx->tracing)
      rt->trace(ctx, "hidden", l + 1, OCTET_F32, rows, H, a->h);
  }
  if (ctx->tracing)
    rt->trace(ctx, "hidden_norm", -1, OCTET_F32, rows, H, a->h);
  if (b->num_outputs) {
    rt->parallel_for(ctx, &output_desc, b->num_outputs, output_rows, &arg);
    rt->gemm(ctx, &head_gemm, b->num_outputs, a->o, 0, &ctx->weights[W_EMBED],
             0, b->output);
  }
  return 0;
}

#endif

#ifdef FAKE_ABI
#define VERSION (OCTET_ABI_VERSION + 1)
#else
#define VERSION OCTET_ABI_VERSION
#endif
#ifdef FAKE_ARENA
#define ARENA_BYTES (INT64_C(1) << 50)
#else
#define ARENA_BYTES sizeof(arena)
#endif

__attribute__((visibility("default"))) const octet_program_t octet_program = {
    VERSION, 0, info, sizeof(info) - 1, ARENA_BYTES, NUM_WEIGHTS, load, step,
    0,       0, 0};
