/*===- fake_model.h - The model of the fake programs --------------*- C -*-===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Its shapes, its tensors and the arena: fake_program.c runs it on the       *|
|* processor, fake_cuda_program.c on a device.                                *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef OCTET_TEST_UNIT_FAKE_MODEL_H
#define OCTET_TEST_UNIT_FAKE_MODEL_H

#include "runtime/abi.h"

enum {
  V = 61,
  H = 48,
  LAYERS = 2,
  Q_HEADS = 4,
  KV_HEADS = 2,
  HEAD_DIM = 16,
  Q = Q_HEADS * HEAD_DIM,
  KV = KV_HEADS * HEAD_DIM,
  QKV = Q + 2 * KV,
  MAX_STEP = 32,
};

/* Rows of the tensor table, in the order of the info below. */
enum { T_EMBED, T_QUANTIZED, T_SCALE, T_LAYER0 };
enum { T_K, T_O, T_Q, T_V, T_PER_LAYER };

#define LAYER_TENSORS(L)                                                       \
  "[\"layers." L ".k_proj\", \"F32\", [32, 48]], "                             \
  "[\"layers." L ".o_proj\", \"F32\", [48, 64]], "                             \
  "[\"layers." L ".q_proj\", \"F32\", [64, 48]], "                             \
  "[\"layers." L ".v_proj\", \"F32\", [32, 48]]"

/* The list of tensors in the info. */
#define TENSORS                                                                \
  "\"tensors\": [[\"embed\", \"F32\", [61, 48]], "                             \
  "[\"extra\", \"F8_E4M3\", [4, 8]], [\"extra_scale\", \"F32\", "              \
  "[1]], " LAYER_TENSORS("0") ", " LAYER_TENSORS("1") "], "
#define LIMITS                                                                 \
  "\"limits\": {\"max_context\": 200, \"max_seqs\": 7, "                       \
  "\"max_step_tokens\": 32}, "
#define MODEL_KIND                                                             \
  "\"kind\": \"model\", \"vocab\": 61, \"hidden\": 48, \"layers\": 2, "        \
  "\"bos\": 1, \"eos\": [5], \"kv\": {\"layers\": 2, \"kv_heads\": 2, "        \
  "\"head_dim\": 16, \"type\": \"f32\"}, \"traces\": [\"hidden\"], "
#define MEMORY                                                                 \
  "\"memory\": {\"arena\": 0, \"weights\": 60000, \"kv_per_token\": 512}}"

/* The arena, one array after the other. */
typedef struct {
  float h[MAX_STEP * H];
  float qkv[MAX_STEP * QKV];
  float q[MAX_STEP * Q];
  float y[MAX_STEP * Q];
  float o[MAX_STEP * H];
} arena;

#define F32_DESC(name, rows_, cols_)                                           \
  static const octet_tensor_desc name = {.module = #name,                      \
                                         .rows = rows_,                        \
                                         .cols = cols_,                        \
                                         .type = OCTET_F32,                    \
                                         .scale_type = OCTET_F32}
F32_DESC(o_proj, H, Q);
F32_DESC(embed, V, H);
F32_DESC(q_proj, Q, H);
F32_DESC(kv_proj, KV, H);
static const octet_tensor_desc extra = {.module = "extra",
                                        .rows = 4,
                                        .cols = 8,
                                        .type = OCTET_E4M3,
                                        .scale_mode = OCTET_SCALE_TENSOR,
                                        .scale_type = OCTET_F32};

#define TRY(expr)                                                              \
  do {                                                                         \
    int32_t result = (expr);                                                   \
    if (result)                                                                \
      return result;                                                           \
  } while (0)

#endif /* OCTET_TEST_UNIT_FAKE_MODEL_H */
