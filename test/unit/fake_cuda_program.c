/*===- fake_cuda_program.c - fake_program.c on CUDA ---------------*- C -*-===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* The same model, launched instead of called. Its kernels are those of       *|
|* fake_kernels.cu; without FAKE_CUBIN (a file made of that by nvcc) the *|
|* image is a word that fake_cuda.cpp knows, which runs them on the           *|
|* processor. FAKE_TARGET is the target it claims, FAKE_NO_PTX leaves out the *|
|* PTX, FAKE_ENTRY breaks the name of one kernel, FAKE_SIZE and FAKE_COUNT    *|
|* its last parameter.                                                        *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#include "test/unit/fake_model.h"

#ifndef FAKE_TARGET
#define FAKE_TARGET "sm_90a"
#endif
#ifndef FAKE_ENTRY
#define FAKE_ENTRY "fake_add"
#endif

enum { W_EMBED, W_QUANTIZED, W_LAYER0, NUM_WEIGHTS = W_LAYER0 + 2 * LAYERS };

static const char info[] =
    "{\"octet\": \"test\", \"target\": \"" FAKE_TARGET
    "\", \"numerics\": \"" FAKE_TARGET "\", "
    "\"dtype\": \"f32\", \"architecture\": \"FakeForCausalLM\", "
    "\"checkpoint\": \"\", \"hash\": \"" FAKE_HASH
    "\", " TENSORS MODEL_KIND LIMITS "\"driver\": 12040, " MEMORY;

/* --- load --- */

F32_DESC(qkv_proj, QKV, H);

static int32_t load(octet_ctx *ctx, int64_t rank) {
  const octet_runtime *rt = ctx->runtime;
  octet_weight *w = ctx->weights;
  octet_weight made;
  TRY(rt->load(ctx, &embed, T_EMBED, -1, &made));
  TRY(rt->upload(ctx, &embed, &made, &w[W_EMBED]));
  TRY(rt->load(ctx, &extra, T_QUANTIZED, T_SCALE, &made));
  TRY(rt->check_scales(ctx, &extra, &made));
  TRY(rt->upload(ctx, &extra, &made, &w[W_QUANTIZED]));
  for (int64_t l = 0; l < LAYERS; ++l) {
    octet_weight q, k, v;
    const octet_weight *parts[3] = {&q, &k, &v};
    int64_t row = T_LAYER0 + l * T_PER_LAYER;
    TRY(rt->load(ctx, &q_proj, row + T_Q, -1, &q));
    TRY(rt->load(ctx, &kv_proj, row + T_K, -1, &k));
    TRY(rt->load(ctx, &kv_proj, row + T_V, -1, &v));
    TRY(rt->concat(ctx, 3, parts, &made));
    TRY(rt->upload(ctx, &qkv_proj, &made, &w[W_LAYER0 + 2 * l]));
    TRY(rt->load(ctx, &o_proj, row + T_O, -1, &made));
    TRY(rt->upload(ctx, &o_proj, &made, &w[W_LAYER0 + 2 * l + 1]));
    rt->forget(ctx);
  }
  return 0;
}

/* --- kernels --- */

#define ADDRESS(i) {.kind = OCTET_PARAM_ADDRESS, .arg = i}
#define ROWS {.kind = OCTET_PARAM_ROWS}
#if defined(FAKE_SIZE)
#define FAKE_LAST ADDRESS(0)
#elif defined(FAKE_COUNT)
#define FAKE_LAST ROWS, ROWS
#else
#define FAKE_LAST ROWS
#endif
#define ONE {.times = 1, .fixed = 1}
#define EACH_ROW {.times = 1, .per_rows = 1}

#define KERNEL(symbol, entry_, params_, ...)                                   \
  static const octet_kernel symbol[] = {                                       \
      {.entry = entry_,                                                        \
       .label = #symbol,                                                       \
       .threads = 128,                                                         \
       .flags = OCTET_KERNEL_OVERLAPS,                                         \
       .num_params = sizeof(params_) / sizeof(params_[0]),                     \
       .params = params_,                                                      \
       __VA_ARGS__}};
#define LAUNCH(symbol, module_, kernels_, ...)                                 \
  static const octet_variant symbol##_variants[] = {{-1, 1, kernels_}};        \
  static const octet_launch symbol = {.module = module_,                       \
                                      .label = #symbol,                        \
                                      .num_variants = 1,                       \
                                      .variants = symbol##_variants,           \
                                      __VA_ARGS__};

static const octet_param embed_params[] = {ADDRESS(0), ADDRESS(1), ADDRESS(2),
                                           ADDRESS(3), ROWS};
KERNEL(embed_kernel, "fake_embed", embed_params, .grid = {EACH_ROW, ONE, ONE})
LAUNCH(embed_launch, "embed", embed_kernel, .row_bytes = 8 * H)

/* Rows in a grid of two dimensions, or in as many CTAs as there is room for. */
static const octet_param gemm_params[] = {ADDRESS(0), ADDRESS(1), ADDRESS(2),
                                          ROWS};
KERNEL(qkv_kernel, "fake_gemm_128_48", gemm_params, .cluster = 2,
       .grid = {{.times = 2, .fixed = 1}, EACH_ROW, ONE})
KERNEL(qkv_few_kernel, "fake_gemm_128_48", gemm_params, .per_sm = 1,
       .cluster = 2, .grid = {{.times = 2, .fixed = 1}, EACH_ROW, ONE})
static const octet_variant qkv_variants[] = {{4, 1, qkv_few_kernel},
                                             {-1, 1, qkv_kernel}};
static const octet_launch qkv_launch = {.module = "layers.{l}.qkv_proj",
                                        .label = "qkv_launch",
                                        .num_variants = 2,
                                        .variants = qkv_variants,
                                        .bytes = 4 * QKV * H,
                                        .row_bytes = 4 * (QKV + H),
                                        .row_flops = 2 * QKV * H};
KERNEL(head_kernel, "fake_gemm_61_48", gemm_params,
       .grid = {ONE, EACH_ROW, ONE})
LAUNCH(head_launch, "lm_head", head_kernel, .bytes = 4 * V * H,
       .row_flops = 2 * V * H)

/* Activations through a tensor map: tiles of 8 rows. */
static const octet_param map_params[] = {{.kind = OCTET_PARAM_TENSOR_MAP,
                                          .arg = 0,
                                          .type = OCTET_F32,
                                          .rows = -1,
                                          .cols = Q,
                                          .box_rows = 8,
                                          .box_cols = Q},
                                         ADDRESS(1),
                                         ADDRESS(2),
                                         ROWS};
KERNEL(o_kernel, "fake_map_gemm_48_64", map_params, .shared_bytes = 8 * Q * 4,
       .grid = {{.times = 1, .per_rows = 8}, ONE, ONE})
LAUNCH(o_launch, "layers.{l}.o_proj", o_kernel, .bytes = 4 * Q * H,
       .row_flops = 2 * Q * H)

static const octet_param split_params[] = {ADDRESS(0), ADDRESS(1), ADDRESS(2),
                                           ADDRESS(3), ADDRESS(4), ROWS};
KERNEL(split_kernel, "fake_split", split_params, .grid = {EACH_ROW, ONE, ONE})
LAUNCH(split_launch, "split", split_kernel, .row_bytes = 8 * QKV)

static const octet_param attention_params[] = {
    ADDRESS(0),
    ADDRESS(1),
    ADDRESS(2),
    ADDRESS(3),
    {.kind = OCTET_PARAM_SEQUENCES},
    {.kind = OCTET_PARAM_PAGES},
    {.kind = OCTET_PARAM_NUM_SEQUENCES}};
KERNEL(decode_kernel, "fake_attention", attention_params,
       .grid = {{.times = 1, .per_sequence = 1}, ONE, ONE})
KERNEL(prefill_kernel, "fake_attention", attention_params, .shared_bytes = 64,
       .grid = {{.times = 1, .per_sequence = 1}, ONE, ONE})
static const octet_variant attention_variants[] = {{1, 1, decode_kernel},
                                                   {-1, 1, prefill_kernel}};
static const octet_launch attention_launch = {.module = "layers.{l}.attn",
                                              .label = "attention_launch",
                                              .by_longest = 1,
                                              .num_variants = 2,
                                              .variants = attention_variants,
                                              .row_bytes = 8 * Q};

static const octet_param add_params[] = {
    ADDRESS(0), ADDRESS(1), {.kind = OCTET_PARAM_WORKSPACE}, FAKE_LAST};
KERNEL(add_kernel, FAKE_ENTRY, add_params, .workspace_bytes = 64,
       .grid = {EACH_ROW, ONE, ONE})
LAUNCH(add_launch, "layers.{l}.add", add_kernel, .row_bytes = 12 * H)

static const octet_param output_params[] = {ADDRESS(0), ADDRESS(1), ADDRESS(2),
                                            ROWS};
KERNEL(output_kernel, "fake_output", output_params,
       .grid = {EACH_ROW, ONE, ONE})
LAUNCH(output_launch, "norm", output_kernel, .row_bytes = 8 * H)

static const octet_param sample_params[] = {ADDRESS(OCTET_SAMPLE_LOGITS),
                                            ADDRESS(OCTET_SAMPLE_OPTIONS),
                                            ADDRESS(OCTET_SAMPLE_TOKENS),
                                            {.kind = OCTET_PARAM_ADDRESS,
                                             .arg = OCTET_SAMPLE_SCRATCH,
                                             .pitch_bytes = 256},
                                            ROWS};
KERNEL(sample_kernel, "fake_sample_61", sample_params,
       .grid = {EACH_ROW, ONE, ONE})
LAUNCH(sample_launch, "sample", sample_kernel, .row_bytes = 4 * V)

/* --- step --- */

static int32_t step(octet_ctx *ctx, const octet_batch *b) {
  const octet_runtime *rt = ctx->runtime;
  arena *a = (arena *)ctx->arena; /* of the device: only for addresses */
  const int64_t rows = b->num_rows;
  const void *table = ctx->weights[W_EMBED].parts[0].data;
  {
    const void *args[] = {table, b->ids, b->positions, a->h};
    rt->launch(ctx, &embed_launch, b, rows, args);
  }
  if (ctx->tracing)
    rt->trace(ctx, "hidden", 0, OCTET_F32, rows, H, a->h);
  for (int64_t l = 0; l < LAYERS; ++l) {
    const octet_weight *w = ctx->weights + W_LAYER0 + 2 * l;
    const void *qkv[] = {a->h, w[0].parts[0].data, a->qkv};
    rt->launch(ctx, &qkv_launch, b, rows, qkv);
    const void *split[] = {a->qkv, b->slots, ctx->kv[l].k, ctx->kv[l].v, a->q};
    rt->launch(ctx, &split_launch, b, rows, split);
    const void *attention[] = {a->q, ctx->kv[l].k, ctx->kv[l].v, a->y};
    rt->launch(ctx, &attention_launch, b, rows, attention);
    const void *o[] = {a->y, w[1].parts[0].data, a->o};
    rt->launch(ctx, &o_launch, b, rows, o);
    const void *add[] = {a->h, a->o};
    rt->launch(ctx, &add_launch, b, rows, add);
    if (ctx->tracing)
      rt->trace(ctx, "hidden", l + 1, OCTET_F32, rows, H, a->h);
  }
  if (ctx->tracing)
    rt->trace(ctx, "hidden_norm", -1, OCTET_F32, rows, H, a->h);
  const void *output[] = {a->h, b->output_rows, a->o};
  rt->launch(ctx, &output_launch, b, b->num_outputs, output);
  const void *head[] = {a->o, table, b->output};
  rt->launch(ctx, &head_launch, b, b->num_outputs, head);
  return 0;
}

/* --- images --- */

#ifdef FAKE_CUBIN
__asm__(".section .rodata\n"
        ".balign 64\n"
        "fake_cubin: .incbin \"" FAKE_CUBIN "\"\n"
        "fake_cubin_end:\n"
        ".text\n");
extern const char fake_cubin[], fake_cubin_end[];
#define CUBIN fake_cubin
#define CUBIN_BYTES 1
#else
static const char fake_cubin[] = "fake cubin";
#define CUBIN fake_cubin
#define CUBIN_BYTES (sizeof(fake_cubin) - 1)
#endif
/* What fake_nvrtc.c compiles. */
static const char source[] = "// fake source\n";
#ifdef FAKE_NO_PTX
#define PTX ""
#else
#define PTX "fake ptx"
#endif

static const octet_image images[] = {{.name = "fake_kernels.cu",
                                      .cubin = CUBIN,
                                      .cubin_bytes = CUBIN_BYTES,
                                      .ptx = PTX,
                                      .ptx_bytes = sizeof(PTX) - 1,
                                      .source = source,
                                      .source_bytes = sizeof(source) - 1}};

__attribute__((visibility("default")))
const octet_program_t octet_program = {.abi_version = OCTET_ABI_VERSION,
                                       .info = info,
                                       .info_bytes = sizeof(info) - 1,
                                       .arena_bytes = sizeof(arena),
                                       .num_weights = NUM_WEIGHTS,
                                       .load = load,
                                       .step = step,
                                       .num_images = 1,
                                       .images = images,
                                       .sample = &sample_launch};
