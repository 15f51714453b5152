/*===- abi.h - The seam between a program and the runtime ---------*- C -*-===*\
|*                                                                            *|
|* Part of the Octet project, under the Apache License v2.0 with LLVM         *|
|* Exceptions. See LICENSE for license information.                           *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* A compiled program is a shared object without imports. It exports one      *|
|* constant, `octet_program`, and reaches the runtime only through the table  *|
|* of functions in its context. Every struct here is laid out by the compiler *|
|* too (passes/LowerToHost.cpp): change both and OCTET_ABI_VERSION together.  *|
|*                                                                            *|
|* Functions that return int32_t return 0, or non-zero after the runtime has  *|
|* recorded an error; the program then returns that value at once.            *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef OCTET_RUNTIME_ABI_H
#define OCTET_RUNTIME_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OCTET_ABI_VERSION 6

/* Rows of the KV cache come in pages of this many tokens. */
#define OCTET_PAGE 64

enum octet_dtype {
  OCTET_F32 = 0,
  OCTET_BF16 = 1,
  OCTET_F16 = 2,
  OCTET_E4M3 = 3, /* E4M3FN (N1) */
  OCTET_I32 = 4,
  /* Weights only: GGUF's blocks of 34, 18 and 20 bytes for 32 elements along K,
     scales inside. 32 divides K; of any alignment. */
  OCTET_Q8_0 = 5,
  OCTET_Q4_0 = 6,
  OCTET_Q4_1 = 7,
  OCTET_I8 = 8,
  /* Scales: 2^(code - 127), 0xFF is NaN (N4). */
  OCTET_E8M0 = 9,
  /* Codes that load turns into E4M3 (N8). */
  OCTET_E5M2 = 10,
  OCTET_E4M3FNUZ = 11,
  OCTET_E5M2FNUZ = 12,
  /* Weights only: codes of 4 or 8 bits in tiles of 64 rows with their scales
     (runtime/cpu/TileLayout.h); octet_groups says what they mean. */
  OCTET_TILES = 13,
  /* Activations only: two codes a byte, the low nibble first (N7). */
  OCTET_E2M1 = 14,
};

/* What 4- and 8-bit codes in groups along K mean:
     value = (number(code) - zero) * scale * global, or number * scale + minimum
 */
enum octet_code {
  OCTET_CODE_UNSIGNED = 0, /* the code itself */
  OCTET_CODE_BIASED = 1,   /* code - 2^(bits - 1) */
  OCTET_CODE_E2M1 = 2,     /* N7 */
};
enum octet_offset {
  OCTET_OFFSET_NONE = 0,
  OCTET_OFFSET_MINIMUMS = 1,        /* F16, added */
  OCTET_OFFSET_ZEROS = 2,           /* codes, subtracted */
  OCTET_OFFSET_ZEROS_MINUS_ONE = 3, /* stored as zero - 1 */
};
enum octet_global {
  OCTET_GLOBAL_NONE = 0,
  OCTET_GLOBAL_MULTIPLIES = 1,
  OCTET_GLOBAL_DIVIDES = 2,
};
/* How a checkpoint packs codes into words (FORMATS.md). */
enum octet_packing {
  OCTET_PACKING_ROWS = 0, /* [N, K bits/32], lowest bits first; bytes alike */
  OCTET_PACKING_K = 1,    /* [K bits/32, N], lowest bits first (GPTQ) */
  OCTET_PACKING_AWQ = 2,  /* [K, N/8], nibbles 0 2 4 6 1 3 5 7 */
  OCTET_PACKING_GGUF = 3, /* desc->type says it; scales are inside */
};
typedef struct octet_groups {
  int64_t size;       /* elements along K with one scale, 1..K */
  int32_t bits;       /* 4 or 8; 0: not such a weight */
  int32_t code;       /* octet_code */
  int32_t scale_type; /* F32, BF16, F16, E4M3 or E8M0; not BF16 in tiles */
  int32_t offset;     /* octet_offset; in tiles NONE, MINIMUMS or ZEROS */
  int32_t global;     /* octet_global; in tiles part.scale multiplies */
  int32_t ordered;    /* columns are not in the order of their groups */
  int32_t packing;    /* octet_packing of what is stored */
  int32_t reserved;
} octet_groups;

/* How the scales of an operand are laid out (W1, P3). */
enum octet_scale_mode {
  OCTET_SCALE_NONE = 0,
  OCTET_SCALE_TENSOR = 1,  /* one value */
  OCTET_SCALE_CHANNEL = 2, /* weight: [rows]; activation: one a token, [M] */
  OCTET_SCALE_BLOCK = 3,   /* weight: [cdiv(rows, block_n), cdiv(K, block_k)];
                              activation: [M, cdiv(K, block_k)] */
  OCTET_SCALE_GROUP = 4,   /* activation in E2M1: [M, K / groups.size] of
                              groups.scale_type. The F32 above those of E4M3
                              stands in the 4 bytes before them (N7) */
};

/* One shard of a weight, and where it came from. */
typedef struct octet_part {
  const void *data;     /* [rows, K], K contiguous; often inside the mapping of
                           the checkpoint, so only aligned to its element */
  const void *scale;    /* F32 or E8M0 when a kernel sees it; NULL: none */
  int64_t rows;         /* N of this shard; 1 for vectors and scalars */
  int32_t tensor;       /* its row in the tensor table, -1 if computed */
  int32_t scale_tensor; /* the same for the scale */
} octet_part;

#define OCTET_MAX_PARTS 4

/* A weight as kernels see it: shards one after the other along N, each with
   scale rows of its own (W5b). Fusing costs no copy. */
typedef struct octet_weight {
  int64_t num_parts;
  octet_part parts[OCTET_MAX_PARTS];
} octet_weight;

/* One sequence of a step. */
typedef struct octet_sequence {
  int64_t first_row;    /* its first row among the rows of the step */
  int64_t num_rows;     /* new tokens in this step, >= 1 */
  int64_t context;      /* tokens in its cache after this step */
  const int32_t *pages; /* page numbers, cdiv(context, OCTET_PAGE) of them */
} octet_sequence;

/* What one step computes: prefill chunks and decode rows of any mix. */
typedef struct octet_batch {
  int64_t num_rows;         /* T: tokens in this step, 1..max_step_tokens */
  const int32_t *ids;       /* [T]; NULL for an extracted module */
  const float *input;       /* [T, K] of an extracted module, else NULL */
  const int32_t *positions; /* [T], from 0 in each sequence */
  const int32_t *slots;     /* [T]: page * OCTET_PAGE + offset, where the row's
                               key and value are written */
  int64_t num_sequences;
  const octet_sequence *sequences;
  int64_t num_outputs;        /* rows whose logits are wanted */
  const int32_t *output_rows; /* [num_outputs], ascending */
  float *output; /* logits [num_outputs, V], or [T, N] of a module */
} octet_batch;

/* Keys and values of one layer: [pages, OCTET_PAGE, kv_heads, head_dim]. */
typedef struct octet_kv_layer {
  void *k;
  void *v;
} octet_kv_layer;

/* A fused row kernel, for chunks and profiles. */
typedef struct octet_rows_desc {
  const char *name;  /* of the fusion: "rms_norm" */
  int64_t grain;     /* fewest rows worth a thread */
  int64_t row_bytes; /* of its operands, a row of each */
} octet_rows_desc;

/* Y[M,N] = X[M,K] * W[N,K]^T (+ bias[N]); N6, N6b. */
typedef struct octet_gemm_desc {
  const char *module; /* module path pattern, for profiles and errors */
  int64_t n;
  int64_t k;
  int64_t block_n;      /* of the weight's scales; 0 unless SCALE_BLOCK */
  int64_t block_k;      /* and of the activation's groups along K */
  int32_t x_type;       /* F32, BF16, F16, E4M3 or I8 */
  int32_t w_type;       /* F32, BF16, F16, E4M3 or I8; GGUF's blocks */
  int32_t y_type;       /* F32, BF16 or F16: rounded once */
  int32_t bias_type;    /* -1: none */
  int32_t w_scale_mode; /* octet_scale_mode */
  int32_t x_scale_mode; /* octet_scale_mode; NONE if x has no codes */
  int32_t w_scale_type; /* F32, or E8M0 of blocks */
  int32_t reserved;
  octet_groups groups; /* of OCTET_TILES */
} octet_gemm_desc;

/* softmax(q k^T * scale) v over a paged cache (P11). */
typedef struct octet_attention_desc {
  const char *module;
  int64_t q_heads;
  int64_t kv_heads; /* divides q_heads */
  int64_t head_dim;
  int64_t window;  /* keys a query sees, its own included; 0: all */
  int32_t type;    /* of q and the result: F32, BF16 or F16. Probabilities are
                      rounded to it before P*V (F32: not rounded) */
  int32_t kv_type; /* F32, BF16, F16 or E4M3 (P7a) */
  float scale;
  int32_t reserved;
} octet_attention_desc;

/* Shape and scales of a tensor that the load function works on. */
typedef struct octet_tensor_desc {
  const char *module;
  int64_t rows; /* 1 for a vector or scalar */
  int64_t cols;
  int64_t block_n;
  int64_t block_k;
  int32_t type;       /* octet_dtype of the elements */
  int32_t scale_mode; /* octet_scale_mode */
  int32_t scale_type; /* F32, BF16, F16 or E8M0 */
  int32_t head_rows;  /* rows of a head whose halves the file interleaves, which
                         load undoes (W16); 0: they lie in order */
  octet_groups groups; /* of codes that share words */
} octet_tensor_desc;

/* The tensors of such a weight; NULL: it has none. */
typedef struct octet_grouped {
  const octet_weight *codes;
  const octet_weight *scales; /* NULL of GGUF's blocks */
  const octet_weight *zeros;  /* packed as the codes are */
  const octet_weight *global; /* one F32 */
  const octet_weight *order;  /* I32 [K]: the group of each column */
} octet_grouped;

/* --- CUDA programs ---

   Everything below is constant data of the program: the runtime builds nothing
   but tensor maps and knows no kernel by name. Addresses are of the device. */

/* What one parameter of a kernel is made of. */
enum octet_param_kind {
  OCTET_PARAM_ADDRESS = 0,       /* argument `arg` of the launch */
  OCTET_PARAM_ROWS = 1,          /* int32: the launch's rows */
  OCTET_PARAM_TENSOR_MAP = 2,    /* a CUtensorMap (128 bytes) over `arg` */
  OCTET_PARAM_SEQUENCES = 3,     /* const octet_device_sequence * */
  OCTET_PARAM_NUM_SEQUENCES = 4, /* int32 */
  OCTET_PARAM_PAGES = 5,         /* const int32_t *, of all sequences */
  OCTET_PARAM_WORKSPACE = 6,     /* octet_kernel::workspace_bytes, zero when
                                    first used; a kernel leaves counters zero.
                                    Of a kernel with 0 bytes: that of the kernel
                                    before it in the variant */
};
typedef struct octet_param {
  int32_t kind;
  int32_t arg;
  /* The map: a row-major matrix [rows, cols] of `type`; what lies outside of it
     reads as zeros. */
  int32_t type;        /* octet_dtype */
  int32_t swizzle;     /* bytes: 0, 32, 64 or 128 */
  int64_t rows;        /* -1: the launch's rows */
  int64_t cols;        /* the same */
  int64_t pitch_bytes; /* 0: cols, rounded up to 16 bytes */
  int32_t box_rows;
  int32_t box_cols;
} octet_param;

/* times * (fixed + cdiv(rows, per_rows) + per_sequence * sequences); per_rows
   0: rows do not count. */
typedef struct octet_grid {
  int32_t times;
  int32_t fixed;
  int32_t per_rows;
  int32_t per_sequence;
} octet_grid;

enum octet_kernel_flags {
  OCTET_KERNEL_OVERLAPS = 1, /* may start before the one before it has ended
                                (programmatic dependent launch) */
};

typedef struct octet_kernel {
  const char *entry; /* extern "C" function in its image */
  const char *label; /* for profiles: "fp8_block m16n64k128_split2" */
  int32_t image;     /* row of octet_program.images */
  int32_t threads;
  int32_t shared_bytes; /* dynamic */
  int32_t cluster;      /* CTAs along x; 1: none */
  int32_t per_sm;       /* > 0: as many CTAs a multiprocessor in all, along x,
                           but no more than the grid has, which is flattened */
  int32_t flags;        /* octet_kernel_flags */
  octet_grid grid[3];
  int64_t num_params;
  const octet_param *params;
  int64_t workspace_bytes; /* 0: that of the kernel before it in the variant */
} octet_kernel;

typedef struct octet_variant {
  int64_t max_rows; /* serves up to so many rows; -1: any */
  int64_t num_kernels;
  const octet_kernel *kernels; /* one after the other */
} octet_variant;

/* One operator. */
typedef struct octet_launch {
  const char *module; /* module path pattern, for profiles and errors */
  const char *label;
  int32_t by_longest; /* variants are chosen by the most rows that a sequence
                         has in this step, not by all rows */
  int32_t reserved;
  int64_t num_variants;
  const octet_variant *variants;
  /* Of memory and arithmetic, for profiles. */
  int64_t bytes;     /* however many rows: weights and scales */
  int64_t row_bytes; /* and for each row */
  int64_t row_flops;
} octet_launch;

/* One source compiled for the program's target. */
typedef struct octet_image {
  const char *name;
  const void *cubin;
  int64_t cubin_bytes;
  const char *ptx; /* for newer devices; empty where the target has a suffix */
  int64_t ptx_bytes;
  const char *source;
  int64_t source_bytes;
} octet_image;

/* octet_sequence as kernels read it. */
typedef struct octet_device_sequence {
  int32_t first_row;
  int32_t num_rows;
  int32_t context;
  int32_t first_page; /* of the pages of all sequences */
} octet_device_sequence;

/* How the token after one row is drawn (P17). */
typedef struct octet_sample_row {
  float temperature; /* <= 0: the largest logit */
  float top_p;       /* >= 1: all */
  float min_p;
  float uniform; /* in [0, 1), a multiple of 2^-24 */
  int32_t top_k; /* <= 0: all */
} octet_sample_row;
/* Arguments of octet_program.sample. */
enum octet_sample_arg {
  OCTET_SAMPLE_LOGITS = 0,  /* F32 [rows, V] */
  OCTET_SAMPLE_OPTIONS = 1, /* octet_sample_row [rows] */
  OCTET_SAMPLE_TOKENS = 2,  /* int32_t [rows]; -1: no logit above -inf */
  OCTET_SAMPLE_SCRATCH = 3, /* 16-byte aligned; its octet_param has the bytes
                               of a row as pitch_bytes */
};

/* Arguments of a launch that rewrites a weight while it is loaded: all shards
   as one matrix. */
enum octet_rewrite_arg {
  OCTET_REWRITE_FROM = 0,       /* [rows, cols] of from->type */
  OCTET_REWRITE_FROM_SCALE = 1, /* F32, one after the other, or NULL */
  OCTET_REWRITE_TO = 2,         /* [rows, cols] of to->type */
  OCTET_REWRITE_TO_SCALE = 3,   /* F32 [rows] of CHANNEL; of TENSOR [2], whose
                                   first is the scale. Zeros before */
};

typedef struct octet_ctx octet_ctx;

/* Row code made by the compiler: rows [begin, end). */
typedef void (*octet_row_fn)(void *arg, int64_t begin, int64_t end);

/* What a program may call. */
typedef struct octet_runtime {
  /* --- step --- */

  /* Runs fn over [0, n) on the pool's threads in chunks of at least
     `desc->grain` rows. The chunks never change a row's result. */
  void (*parallel_for)(octet_ctx *ctx, const octet_rows_desc *desc, int64_t n,
                       octet_row_fn fn, void *arg);
  /* x [m, k] of x_type with x_scale as x_scale_mode says, y [m, n] row-major.
     bias has the parts of w; a part without bias has data NULL. */
  void (*gemm)(octet_ctx *ctx, const octet_gemm_desc *desc, int64_t m,
               const void *x, const float *x_scale, const octet_weight *w,
               const octet_weight *bias, void *y);
  /* q, y [T, q_heads * head_dim]. k_scale and v_scale are read only for E4M3
     (P8), each one F32. */
  void (*attention)(octet_ctx *ctx, const octet_attention_desc *desc,
                    int64_t layer, const octet_batch *batch, const void *q,
                    const float *k_scale, const float *v_scale, void *y);
  /* A value for --trace; called only if ctx->tracing. rows x cols of `type`. */
  void (*trace)(octet_ctx *ctx, const char *name, int64_t index, int32_t type,
                int64_t rows, int64_t cols, const void *data);

  /* --- load --- */

  /* Row `tensor` of the table (and `scale`, or -1) as a weight of one part that
     points into the mapping (or a copy where its address is not aligned). */
  int32_t (*load)(octet_ctx *ctx, const octet_tensor_desc *desc, int64_t tensor,
                  int64_t scale, octet_weight *out);
  /* W6: no scale is NaN, infinite, negative, or zero with a non-zero block;
     those inside of blocks are finite. */
  int32_t (*check_scales)(octet_ctx *ctx, const octet_tensor_desc *desc,
                          const octet_weight *w);
  /* Scales of `desc->scale_type` to F32. */
  int32_t (*convert_scales)(octet_ctx *ctx, const octet_tensor_desc *desc,
                            const octet_weight *in, octet_weight *out);
  /* W7: one F32 scale a part to one a row. */
  int32_t (*expand_scales)(octet_ctx *ctx, const octet_tensor_desc *desc,
                           const octet_weight *in, octet_weight *out);
  /* W10: F32, BF16 or F16 [rows, cols] to E4M3 with desc's scales (TENSOR: one
     for all parts; CHANNEL; N2, N3). desc->type is the type of `in`. */
  int32_t (*quantize_weight)(octet_ctx *ctx, const octet_tensor_desc *desc,
                             const octet_weight *in, octet_weight *out);
  /* The parts of `count` weights one after the other; no copy. */
  int32_t (*concat)(octet_ctx *ctx, int64_t count,
                    const octet_weight *const *in, octet_weight *out);
  /* W9: the largest of `count` scalars of `type`, as one F32. */
  int32_t (*max_scalar)(octet_ctx *ctx, int64_t count,
                        const octet_weight *const *in, int32_t type,
                        octet_weight *out);
  /* P8 on scalars of `type`; k or v may be NULL (not stored). */
  int32_t (*kv_scales)(octet_ctx *ctx, const char *module, int64_t layer,
                       const octet_weight *k, const octet_weight *v,
                       int32_t type, octet_weight *out_k, octet_weight *out_v);
  /* N8, W8, W11: other codes or scales for the same numbers; the rewrite is
     that of the two types (q.requantize). */
  int32_t (*requantize)(octet_ctx *ctx, const octet_tensor_desc *from,
                        const octet_tensor_desc *to, const octet_weight *in,
                        octet_weight *out);
  /* B6: groups whose scales are equal over each block of `to` as blocks with
     F32 scales; an error where they are not. */
  int32_t (*merge_scales)(octet_ctx *ctx, const octet_tensor_desc *from,
                          const octet_tensor_desc *to, const octet_weight *in,
                          octet_weight *out);
  /* One F32 value. */
  int32_t (*constant)(octet_ctx *ctx, float value, octet_weight *out);
  /* cos and sin of position * inv_freq[i] in F32, times `scale`:
     [positions, 2 * half] F32, the cosines of a row first (P6). */
  int32_t (*rope_table)(octet_ctx *ctx, const float *inv_freq, int64_t half,
                        int64_t positions, float scale, octet_weight *out);
  /* W6 of codes that share words: scales and minimums are finite, scales not
     negative, nor zero with a non-zero group (GGUF's may be both), and `order`
     puts groups.size columns into each group. */
  int32_t (*check_groups)(octet_ctx *ctx, const octet_tensor_desc *desc,
                          const octet_grouped *in);
  /* W9: one scale above the groups of `count` shards, the largest of `globals`
     (the smallest, if they divide), and the E4M3 group scales of one of them,
     `in`, below it. */
  int32_t (*share_global)(octet_ctx *ctx, const octet_tensor_desc *desc,
                          const octet_grouped *in, int64_t count,
                          const octet_weight *const *globals,
                          octet_weight *out_scales, octet_weight *out_global);
  /* 1 / x of one F32: a stored scale that divides, as a factor. */
  int32_t (*reciprocal)(octet_ctx *ctx, const octet_weight *in,
                        octet_weight *out);
  /* The same numbers in tiles (B4, C10); `in` has been checked. */
  int32_t (*tile_weight)(octet_ctx *ctx, const octet_tensor_desc *desc,
                         const octet_grouped *in, octet_weight *out);

  /* --- CUDA programs --- */

  /* Copies a weight that is complete into memory of the device: one part, its
     shards' data one after the other and so their scales (W5b), each at a
     256-byte boundary. */
  int32_t (*upload)(octet_ctx *ctx, const octet_tensor_desc *desc,
                    const octet_weight *in, octet_weight *out);
  /* quantize_weight and requantize by a kernel: `in` is of the host, `out` of
     the device, for upload or concat only. `to` has one scale (TENSOR) or one a
     row (CHANNEL). */
  int32_t (*rewrite)(octet_ctx *ctx, const octet_tensor_desc *from,
                     const octet_tensor_desc *to, const octet_launch *kernels,
                     const octet_weight *in, octet_weight *out);
  /* Ends the life of all that load has made so far but for what upload gave. */
  void (*forget)(octet_ctx *ctx);

  /* Puts the kernels of the variant that serves `rows` on the stream. */
  void (*launch)(octet_ctx *ctx, const octet_launch *desc,
                 const octet_batch *batch, int64_t rows,
                 const void *const *args);
} octet_runtime;

/* SIMD levels of the CPU target, ascending. */
enum octet_level {
  OCTET_LEVEL_V3 = 0,     /* x86-64-v3: AVX2, FMA, F16C */
  OCTET_LEVEL_AVX512 = 1, /* x86-64-v4 */
  OCTET_LEVEL_BF16 = 2,   /* x86-64-v4 with AVX512-BF16 and AVX512-VBMI */
  OCTET_LEVEL_AMX = 3,    /* and with AMX tiles and AMX-BF16 */
};
#define OCTET_NUM_LEVELS 4

/* What a program sees of a loaded model. The runtime's own state follows. In a
   CUDA program arena, kv and the data of weights and batch are addresses of the
   device. */
struct octet_ctx {
  const octet_runtime *runtime;
  uint8_t *arena;           /* arena_bytes, 64-byte aligned */
  octet_weight *weights;    /* num_weights slots */
  const octet_kv_layer *kv; /* one a layer */
  int32_t level;            /* octet_level of the generated row code to call */
  int32_t tracing;          /* non-zero: call runtime->trace */
};

typedef struct octet_program {
  int32_t abi_version; /* OCTET_ABI_VERSION */
  int32_t reserved;
  const char *info; /* JSON, see runtime/README.md */
  int64_t info_bytes;
  int64_t arena_bytes;
  int64_t num_weights;
  int32_t (*load)(octet_ctx *ctx, int64_t rank);
  int32_t (*step)(octet_ctx *ctx, const octet_batch *batch);
  int64_t num_images; /* 0: a CPU program */
  const octet_image *images;
  const octet_launch *sample; /* of a CUDA program's logits; NULL: tokens are
                                 drawn on the processor */
} octet_program_t;

#ifdef __cplusplus
}
#endif

#endif /* OCTET_RUNTIME_ABI_H */
