//===- ModelSparseOps.td - Experts, latent attention, indexer *- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELSPARSEOPS_TD
#define OCTET_DIALECTS_MODEL_MODELSPARSEOPS_TD

// ModelOps.td includes this file at its end.

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

def Model_MoeRouterOp : Model_Op<"moe_router", [Pure, AttrSizedOperandSegments]> {
  let summary = "The experts of each token, and their weights";
  let description = [{
    ```
    logits = x w^T (+ bias), accumulated in FP32                                            (P12)
    softmax:         s = softmax(logits); the top_k largest
    sigmoid:         s = sigmoid(logits); the top_k largest of s + correction
    chosen_softmax:  the top_k largest logits; s = softmax over those
    ```
    With `groups` > 1 the experts are that many equal groups, of which the best `top_groups` stay: a group's score is the sum of its two best
    biased scores if there is a correction, its best score without. The weight is the score without the correction, divided by the sum of the
    chosen ones (+ 1e-20) with `normalize`, times `scale`. Ids ascend; ties go to the lower id.
    Shapes: x `[T, H]`, w `[E, H]`, ids and weights `[T, top_k]`. Weight and correction have their own dtypes and are never quantised (W13).

    ```mlir
    %i, %s = model.moe_router %x, %w correction(%c : tensor<8xf32>) {score = #model<score sigmoid>, top_k = 3 : i64, groups = 4 : i64, top_groups = 2 : i64, normalize,
        scale = 2.5 : f32, module = "model.layers.{l}.mlp.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
    ```
  }];
  let arguments = (ins Model_Plain:$input, Model_Plain:$weight, Optional<Model_Plain>:$bias, Optional<Model_Plain>:$correction,
                       Model_ScoreAttr:$score, I64Attr:$top_k, DefaultValuedAttr<I64Attr, "1">:$groups, DefaultValuedAttr<I64Attr, "1">:$top_groups,
                       UnitAttr:$normalize, F32Attr:$scale, StrAttr:$module);
  let results = (outs AnyRankedTensor:$ids, AnyRankedTensor:$weights);
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? (`correction` `(` $correction^ `:` type($correction) `)`)? attr-dict
    `:` type($input) `,` type($weight) `->` type($ids) `,` type($weights)
  }];
  let hasVerifier = 1;
}

def Model_DispatchOp : Model_Op<"dispatch", [Pure]> {
  let summary = "Rows moved to their experts";
  let description = [{
    Row t of x once for each id of row t that is one of this rank's experts, in the order of the result's type; codes travel with their scales
    (P13). Nothing is rounded. `module` is the path of the experts.

    ```mlir
    %d = model.dispatch %x, %i {experts = 8 : i64, module = "model.layers.{l}.mlp.experts"}
        : tensor<?x256xbf16>, tensor<?x3xi32> -> !model.dispatched<tensor<?x256xbf16>, choices = 3, by expert>
    ```
  }];
  let arguments = (ins Model_Activation:$input, AnyRankedTensor:$ids, I64Attr:$experts, DefaultValuedAttr<I64Attr, "1">:$ep, StrAttr:$module);
  let results = (outs Model_DispatchedType:$result);
  let assemblyFormat = "$input `,` $ids attr-dict `:` type($input) `,` type($ids) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Model_ExpertsInput : AnyTypeOf<[Q_TensorType, RankedTensorOf<[AnyFloat]>, Model_DispatchedType], "activation or dispatched rows">;

def Model_ExpertsOp : Model_Op<"experts", [Pure, AttrSizedOperandSegments]> {
  let summary = "The routed experts";
  let description = [{
    ```
    y[t] = round(sum over the token's experts e, ascending, of weights[t, e] * down_e(act(gate_e(x[t]), up_e(x[t]))))   (N9, P14, P15)
    swiglu:          act(g, u) = round(g / (1 + exp(-g)) * u)
    clamped_swiglu:  g = min(g, limit), u = clamp(u, -limit, limit); act = round((u + 1) * g / (1 + exp(-1.702 g)))
    ```
    `gate_up` is gate `[E, I, H]` and up `[E, I, H]`, or both in one matrix `[E, 2 I, H]` (shards, W5), whose rows alternate with `interleaved`;
    `down` is `[E, H, I]`. Products are accumulated in FP32 and each rounded to the activation dtype. A method that packs several codes into a
    byte keeps its weights as they are stored; their shapes are the method's. `module` is the path of the experts. The number of experts of
    the model is `experts`; `ep` groups of ranks hold an equal part each (W3c), and ids that are another's add nothing. Since
    insert-quantization x is dispatched, by expert (B7).
    `method`, `contract` and the static scales (one a matrix of each local expert, W9) as for `model.linear`.

    ```mlir
    %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>)
        {experts = 8 : i64, gating = #model<gating swiglu>, module = "model.layers.{l}.mlp.experts"}
        : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_ExpertsInput:$input, AnyRankedTensor:$ids, AnyRankedTensor:$weights, Variadic<Model_Weight>:$gate_up, Model_Weight:$down,
                       Optional<Model_Plain>:$gate_up_bias, Optional<Model_Plain>:$down_bias,
                       Optional<Model_Plain>:$input_scale, Optional<Model_Plain>:$down_input_scale,
                       I64Attr:$experts, DefaultValuedAttr<I64Attr, "1">:$ep, Model_GatingAttr:$gating, OptionalAttr<F32Attr>:$limit, UnitAttr:$interleaved,
                       StrAttr:$module, OptionalAttr<Q_MethodAttr>:$method, OptionalAttr<Q_ContractAttr>:$contract);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = [{
    $input `,` $ids `,` $weights `gate_up` `(` $gate_up `:` type($gate_up) `)` `down` `(` $down `:` type($down) `)`
    (`biases` `(` $gate_up_bias^ `,` $down_bias `:` type($gate_up_bias) `,` type($down_bias) `)`)?
    (`input_scales` `(` $input_scale^ `,` $down_input_scale `:` type($input_scale) `,` type($down_input_scale) `)`)? attr-dict
    `:` type($input) `,` type($ids) `,` type($weights) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Latent attention
//===----------------------------------------------------------------------===//

def Model_MlaAttentionOp : Model_Op<"mla_attention", [AttrSizedOperandSegments]> {
  let summary = "Multi-head latent attention with a cache of latents";
  let description = [{
    ```
    k_nope, v = the heads of round(latent kv_b^T)       explicit: kv_b is one matrix [heads * (nope_dim + value_dim), rank], a linear like any (P4)
    q_nope w_kc, (P latent) w_vc^T                      absorbed: kv_b is w_kc [heads, nope_dim, rank] and w_vc [heads, value_dim, rank] (W12)
    p = softmax((q_nope k_nope + q_rope k_rope) * scale) over the keys 0 .. position, or those that `selected` lists
    y = round(p) v                                                                       (P11)
    ```
    Shapes: q `[T, heads * (nope_dim + rope_dim)]`, a head's rotated part last; latent (normed) `[T, rank]`, k_rope (rotated) `[T, rope_dim]`; selected
    `[T, top_k]` rows of the sequence, -1 for none; y `[T, heads * value_dim]`. Since insert-quantization `cache` is the layer's `!q.kv`, to which latent and
    k_rope are written first, in its layout (P7); `fp8_e4m3` has one scale, `scale`. `kv` is what the checkpoint says of that (C4, W2). `module` is the
    path of the attention; `method` and `contract` are those of kv_b. With three matrices, kv_b, w_kc and w_vc, the kernel may take either form
    by the number of rows (`--mla auto` without `--batch-invariant`, B5). Where a rank's heads cut a block (`--split-blocks pad`, W3), `kv_b_rows` is the
    slice of kv_b that it holds: of rank r's rows those from `first(r) mod block` on are of its heads, the others are zero. w_kc and w_vc are never padded.

    ```mlir
    %y = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x64xbf16>) of %b[%l]
        {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"}
        : tensor<?x384xbf16> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$q, Optional<Model_Plain>:$latent, Optional<Model_Plain>:$k_rope, Optional<Q_KvType>:$cache,
                       Optional<Model_Plain>:$cache_scale, Variadic<Model_Weight>:$kv_b, Optional<Model_Plain>:$input_scale, Optional<AnyRankedTensor>:$selected, Model_BatchType:$batch, Index:$layer,
                       I64Attr:$heads, I64Attr:$nope_dim, I64Attr:$rope_dim, I64Attr:$value_dim, I64Attr:$rank, F32Attr:$scale,
                       StrAttr:$module, OptionalAttr<Q_MethodAttr>:$method, OptionalAttr<Q_ContractAttr>:$contract, OptionalAttr<Q_StoredAttr>:$kv,
                       OptionalAttr<Q_SliceAttr>:$kv_b_rows);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = [{
    $q (`,` $latent^ `,` $k_rope `:` type($latent) `,` type($k_rope))? (`cache` `(` $cache^ `:` qualified(type($cache)) `)`)?
    (`scale` `(` $cache_scale^ `:` type($cache_scale) `)`)?
    `kv_b` `(` $kv_b `:` type($kv_b) `)` (`input_scale` `(` $input_scale^ `:` type($input_scale) `)`)? (`selected` `(` $selected^ `:` type($selected) `)`)?
    `of` $batch `[` $layer `]` attr-dict `:` type($q) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Model_LayerNormOp : Model_Op<"layer_norm", [Pure]> {
  let summary = "Layer norm of each row";
  let description = [{
    `y = round((x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * w + bias)` in FP32, rounded once (P5).

    ```mlir
    %y = model.layer_norm %x, %w, %b {eps = 1.0e-06 : f32, module = "model.layers.{l}.self_attn.indexer.k_norm"} : tensor<?x128xbf16>, tensor<128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, Model_Plain:$weight, Model_Plain:$bias, F32Attr:$eps, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input `,` $weight `,` $bias attr-dict `:` type($input) `,` type($weight) `,` type($bias) `->` type($result)";
  let hasVerifier = 1;
}

def Model_IndexerOp : Model_Op<"indexer", []> {
  let summary = "The keys that sparse attention reads";
  let description = [{
    ```
    score(s, t) = sum over heads h of w[s, h] * scale * relu(q[s, h] k[t])           (P9)
    ```
    and the `top_k` keys of the largest scores among 0 .. position, ties to the lower position; all of them if there are no more, then -1. `scale` holds
    the softmax scale and that of the heads. Shapes: q `[T, heads * head_dim]`, k `[T, head_dim]`, w `[T, heads]`, rows `[T, top_k]`. Since
    insert-quantization `cache` is the layer's `!q.kv` of keys, to which k is written first; its layout says how q and k are rounded.

    ```mlir
    %r = model.indexer %q, %k : tensor<?x128xbf16> weights(%w : tensor<?x2xf32>) of %b[%l] {heads = 2 : i64, head_dim = 128 : i64, top_k = 8 : i64, scale = 0.0625 : f32,
        module = "model.layers.{l}.self_attn.indexer"} : tensor<?x256xbf16> -> tensor<?x8xi32>
    ```
  }];
  let arguments = (ins Model_Plain:$q, Model_Plain:$k, Optional<Q_KvType>:$cache, Model_Plain:$weights, Model_BatchType:$batch, Index:$layer,
                       I64Attr:$heads, I64Attr:$head_dim, I64Attr:$top_k, F32Attr:$scale, StrAttr:$module);
  let results = (outs AnyRankedTensor:$rows);
  let assemblyFormat = [{
    $q `,` $k `:` type($k) (`cache` `(` $cache^ `:` qualified(type($cache)) `)`)? `weights` `(` $weights `:` type($weights) `)`
    `of` $batch `[` $layer `]` attr-dict `:` type($q) `->` type($rows)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

def Model_AllReduceOp : Model_Op<"all_reduce", [SameOperandsAndResultType]> {
  let summary = "The sum of all ranks' rows";
  let description = [{
    `y = round(sum over ranks of x)`, in FP32 and rank order; never in FP8 (P15). `module` is the layer whose parts it joins.

    ```mlir
    %y = model.all_reduce %x {ranks = 8 : i64, module = "model.layers.{l}.self_attn.o_proj"} : tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, I64Attr:$ranks, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Model_BroadcastOp : Model_Op<"broadcast", [SameOperandsAndResultType]> {
  let summary = "Rank 0's choice on all ranks";
  let description = [{
    `y` is rank 0's x, in i32: all ranks read the rows that it chose (P10). `module` is the indexer whose choice it is.

    ```mlir
    %y = model.broadcast %r {ranks = 8 : i64, module = "model.layers.{l}.self_attn.indexer"} : tensor<?x8xi32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, I64Attr:$ranks, StrAttr:$module);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Model_AllGatherOp : Model_Op<"all_gather", []> {
  let summary = "The columns of all ranks' rows";
  let description = [{
    Row t is the row t of rank 0, then of rank 1, …: `[T, W]` of each of `ranks` becomes `[T, N]`; the last ranks may be short (P16, W3b).

    ```mlir
    %y = model.all_gather %x {ranks = 8 : i64, module = "lm_head"} : tensor<?x32xf32> -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Model_Plain:$input, I64Attr:$ranks, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif // OCTET_DIALECTS_MODEL_MODELSPARSEOPS_TD
