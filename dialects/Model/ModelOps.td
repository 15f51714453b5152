//===- ModelOps.td - Operators of model --------------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELOPS_TD
#define OCTET_DIALECTS_MODEL_MODELOPS_TD

include "dialects/Model/ModelDialect.td"
include "dialects/Quant/QuantTypes.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Model_Op<string mnem, list<Trait> traits = []> : Op<ModelDialect, mnem, traits>;

def Model_Weight : AnyTypeOf<[Q_TensorType, AnyRankedTensor], "quantised or plain tensor">;
def Model_Activation : AnyTypeOf<[Q_TensorType, RankedTensorOf<[AnyFloat]>], "activation">;
def Model_Plain : RankedTensorOf<[AnyFloat]>;

//===----------------------------------------------------------------------===//
// Where values come from
//===----------------------------------------------------------------------===//

def Model_FieldOp : Model_Op<"field", [Pure]> {
  let summary = "A field of the batch";
  let description = [{
    `ids`, `positions`, `slots` (the cache row of each token): `tensor<?xi32>`, one a row; `output_rows`: the rows whose logits are wanted;
    `input`: the rows of an extracted module, F32 rounded to the result's dtype. For draft layers (W14) `draft_ids` are the tokens behind each
    row's, and `draft_hidden` what the model's last norm, or the draft layer before, made of the row.

    ```mlir
    %p = model.field positions of %b : tensor<?xi32>
    ```
  }];
  let arguments = (ins Model_FieldAttr:$field, Model_BatchType:$batch);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`` $field `of` $batch attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Model_WeightOp : Model_Op<"weight", [Pure]> {
  let summary = "A parameter of one module, by its path";
  let description = [{
    `paths` are the modules whose matrices it holds, more than one for a fused matrix (C8), each with `{l}` for the layer; `name` is the last
    component of the tensors' names (`weight`, `bias`), and `stored` says per path what the checkpoint holds. Until resolve-quant-methods
    the type is the stored one; then a quantised weight has the `!q.tensor` type of its method (W1). With `experts` a path contains `{e}` for
    0 .. experts - 1, all of which store what `stored` says, and the type has the experts first (W5).
    Since shard the type is that of one rank, `slices` says per path which part of what is stored that is, and `first_expert` which of the experts
    is its first (W3c); both are functions of the rank.

    ```mlir
    %w = model.weight ["model.layers.{l}.self_attn.o_proj"][%l] "weight" stored [#q.stored<{weight = tensor<256x384xbf16>}, "">] : tensor<256x384xbf16>
    %e = model.weight ["model.layers.{l}.mlp.experts.{e}.up_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">] {experts = 8 : i64} : tensor<8x64x256xbf16>
    %r = model.weight ["model.layers.{l}.self_attn.o_proj"][%l] "weight" stored [#q.stored<{weight = tensor<256x384xbf16>}, "">]
        {slices = [#q.slice<cols 192 at affine_map<(d0) -> (d0 * 192)>>]} : tensor<256x192xbf16>
    ```
  }];
  let arguments = (ins StrArrayAttr:$paths, Optional<Index>:$layer, StrAttr:$name, TypedArrayAttrBase<Q_StoredAttr, "array of stored">:$stored,
                       OptionalAttr<I64Attr>:$experts, OptionalAttr<TypedArrayAttrBase<Q_SliceAttr, "array of slices">>:$slices,
                       OptionalAttr<AffineMapAttr>:$first_expert);
  let results = (outs Model_Weight:$result);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::ArrayAttr":$paths, "::mlir::Value":$layer, "::mlir::StringAttr":$name, "::mlir::ArrayAttr":$stored,
                  CArg<"::mlir::IntegerAttr", "{}">:$experts), [{
      build($_builder, $_state, result, paths, layer, name, stored, experts, ::mlir::ArrayAttr(), ::mlir::AffineMapAttr());
    }]>
  ];
  let assemblyFormat = "$paths (`[` $layer^ `]`)? $name `stored` $stored attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Model_RopeTableOp : Model_Op<"rope_table", [Pure]> {
  let summary = "Cosines and sines of every position";
  let description = [{
    Row p holds `cos(p * inv_freq[i]) * scale` for all i, then the sines (P6, C15); angles in FP32. Shape `[positions, 2 * half]`.

    ```mlir
    %t = model.rope_table {inv_freq = array<f32: 1.0, 0.1>, scale = 1.0 : f32} : tensor<4096x4xf32>
    ```
  }];
  let arguments = (ins DenseF32ArrayAttr:$inv_freq, F32Attr:$scale);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The decoder
//===----------------------------------------------------------------------===//

def Model_EmbeddingOp : Model_Op<"embedding", [Pure]> {
  let summary = "Rows of the embedding table";
  let description = [{
    `y[t] = w[ids[t]]` (P1); rounded to the activation dtype, never quantised. A table that a GGUF file packs stays as it is stored, and the rows
    that are read are widened in FP32. With `parts` > 1 the table is one rank's part of the vocabulary, and ids of another's give rows of zeros, which
    a `model.all_reduce` completes (W3b).

    ```mlir
    %h = model.embedding %ids, %w : tensor<?xi32>, tensor<256x64xbf16> -> tensor<?x64xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$ids, Model_Weight:$weight, DefaultValuedAttr<I64Attr, "1">:$parts);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$ids `,` $weight attr-dict `:` type($ids) `,` type($weight) `->` type($result)";
  let hasVerifier = 1;
}

def Model_RmsNormOp : Model_Op<"rms_norm", [Pure]> {
  let summary = "Root-mean-square norm of each row";
  let description = [{
    `y = round(x / sqrt(mean(x^2) + eps) * w)` in FP32, rounded once (P2, P5). With `heads` > 1 the row is that many equal parts, each normed on
    its own with the same weight (q/k norm).

    ```mlir
    %y = model.rms_norm %x, %w {eps = 1.0e-06 : f32, heads = 6 : i64, module = "model.layers.{l}.self_attn.q_norm"} : tensor<?x384xbf16>, tensor<64xbf16> -> tensor<?x384xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, Model_Plain:$weight, F32Attr:$eps, DefaultValuedAttr<I64Attr, "1">:$heads, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input `,` $weight attr-dict `:` type($input) `,` type($weight) `->` type($result)";
  let hasVerifier = 1;
}

def Model_LinearOp : Model_Op<"linear", [Pure, AttrSizedOperandSegments]> {
  let summary = "Linear layer";
  let description = [{
    `Y[M,N] = X[M,K] * W[N,K]^T + bias[N]` (P4, N6, N6b), accumulated in FP32, rounded once to the result's dtype. `module` is the path of the
    layer. `fused` names the run-time module that this one is a shard of (C8), if any; a `precise` one is never quantised (P9). `method` and `contract` come with
    resolve-quant-methods, `input_scale` (the static activation scale) with materialize-weights; after insert-quantization x is what the
    contract asks for. A fused layer has the shards of its weight's type.

    ```mlir
    %y = model.linear %x, %w {module = "model.layers.{l}.self_attn.o_proj"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<?x256xbf16>
    %z = model.linear %x, %w bias(%b : tensor<256xbf16>) {module = "a.b"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Activation:$input, Model_Weight:$weight, Optional<Model_Plain>:$bias, Optional<Model_Plain>:$input_scale, StrAttr:$module,
                       OptionalAttr<StrAttr>:$fused, OptionalAttr<Q_MethodAttr>:$method, OptionalAttr<Q_ContractAttr>:$contract, UnitAttr:$precise);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? (`input_scale` `(` $input_scale^ `:` type($input_scale) `)`)? attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Model_SplitOp : Model_Op<"split", [Pure]> {
  let summary = "The parts of a row";
  let description = [{
    Columns 0 .. w0-1 of x, then the next w1, …; the widths are those of the results.

    ```mlir
    %q, %k, %v = model.split %x : tensor<?x640xbf16> -> tensor<?x384xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input);
  let results = (outs Variadic<Model_Plain>:$results);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($results)";
  let hasVerifier = 1;
}

def Model_JoinOp : Model_Op<"join", [Pure]> {
  let summary = "Rows side by side";
  let description = [{
    The inverse of `model.split`: the columns of the first input, then those of the next. What a draft layer reads (W14).

    ```mlir
    %y = model.join %e, %h : tensor<?x256xbf16>, tensor<?x256xbf16> -> tensor<?x512xbf16>
    ```
  }];
  let arguments = (ins Variadic<Model_Plain>:$inputs, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
}

def Model_RopeOp : Model_Op<"rope", [Pure]> {
  let summary = "Rotary position embedding of each head";
  let description = [{
    From value `offset` of each head's `head_dim` on, 2 * half values are pairs rotated by the angles of the row's position: (i, i + half), or neighbours (2i, 2i + 1)
    with `interleaved`; FP32, rounded once (P6). Table `[positions, 2 * half]`: cosines, then sines.

    ```mlir
    %y = model.rope %x, %t at %p {head_dim = 64 : i64, module = "model.layers.{l}.self_attn"} : tensor<?x384xbf16>, tensor<4096x64xf32>, tensor<?xi32> -> tensor<?x384xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, Model_Plain:$table, AnyRankedTensor:$positions, I64Attr:$head_dim, UnitAttr:$interleaved, StrAttr:$module,
                       DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input `,` $table `at` $positions attr-dict `:` type($input) `,` type($table) `,` type($positions) `->` type($result)";
  let hasVerifier = 1;
}

def Model_AttentionOp : Model_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "Causal attention with a KV cache";
  let description = [{
    Before insert-quantization `k` and `v` are the step's keys and values and the cache is implied (P7b decides its layout); after, they are
    gone, `cache` is the layer's `!q.kv`, and a `q.kv_write` stands before.

    ```
    p = softmax(q k^T * scale) over the keys 0 .. position, or the last `window` of them; FP32 scores, running max and sum
    y = round(p) v                                                                       (P11)
    ```
    Shapes: q, y `[T, q_heads * head_dim]`, k, v `[T, kv_heads * head_dim]`. `kv` is what the checkpoint says of the cache's scales (C4, W2).
    `sinks` are one logit a head that joins the softmax and is dropped after it (gpt-oss).
  }];
  let arguments = (ins Model_Plain:$q, Optional<Model_Plain>:$k, Optional<Model_Plain>:$v, Optional<Q_KvType>:$cache, Model_BatchType:$batch, Index:$layer,
                       Optional<Model_Plain>:$k_scale, Optional<Model_Plain>:$v_scale, Optional<Model_Plain>:$sinks,
                       I64Attr:$q_heads, I64Attr:$kv_heads, I64Attr:$head_dim, F32Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                       StrAttr:$module, OptionalAttr<Q_StoredAttr>:$kv);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = [{
    $q (`,` $k^ `:` type($k))? (`,` `v` $v^ `:` type($v))? (`cache` `(` $cache^ `:` qualified(type($cache)) `)`)? (`scales` `(` $k_scale^ `,` $v_scale `:` type($k_scale) `,` type($v_scale) `)`)?
    (`sinks` `(` $sinks^ `:` type($sinks) `)`)? `of` $batch `[` $layer `]` attr-dict `:` type($q) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Model_AddOp : Model_Op<"add", [Pure, SameOperandsAndResultType]> {
  let summary = "Residual addition";
  let description = [{
    `y = round(a + b)` in FP32 (P2, N9).

    ```mlir
    %h1 = model.add %h, %o : tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$lhs, Model_Plain:$rhs);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Model_SwigluOp : Model_Op<"swiglu", [Pure, SameOperandsAndResultType]> {
  let summary = "Gated activation";
  let description = [{
    `y = round(gate / (1 + exp(-gate)) * up)` in FP32 (N9).

    ```mlir
    %s = model.swiglu %gate, %up : tensor<?x320xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$gate, Model_Plain:$up);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($result)";
}

def Model_SelectRowsOp : Model_Op<"select_rows", [Pure]> {
  let summary = "The rows whose logits are wanted";
  let description = [{
    `y[i] = x[rows[i]]`.

    ```mlir
    %y = model.select_rows %x, %r : tensor<?x256xbf16>, tensor<?xi32> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, AnyRankedTensor:$rows);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input `,` $rows attr-dict `:` type($input) `,` type($rows) `->` type($result)";
  let hasVerifier = 1;
}

def Model_LmHeadOp : Model_Op<"lm_head", [Pure]> {
  let summary = "Logits";
  let description = [{
    `y = x w^T`, FP32 accumulation and result (P16); w is the checkpoint's `lm_head` or its tied embedding (W15). Quantised only where the
    checkpoint itself is; then `method`, `contract` and `input_scale` are those of a `model.linear`.

    ```mlir
    %y = model.lm_head %x, %w {module = "lm_head"} : tensor<?x256xbf16>, tensor<256x256xbf16> -> tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Model_Activation:$input, Model_Weight:$weight, Optional<Model_Plain>:$input_scale, StrAttr:$module,
                       OptionalAttr<Q_MethodAttr>:$method, OptionalAttr<Q_ContractAttr>:$contract);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = [{
    $input `,` $weight (`input_scale` `(` $input_scale^ `:` type($input_scale) `)`)? attr-dict `:` type($input) `,` type($weight) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Model_TraceOp : Model_Op<"trace", []> {
  let summary = "A value for --trace";
  let description = [{
    Hands the rows to the run-time's trace if one listens; free otherwise.

    ```mlir
    model.trace "hidden"[%i] %h : tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$name, Index:$index, Model_Plain:$input);
  let assemblyFormat = "$name `[` $index `]` $input attr-dict `:` type($input)";
}

def Model_OutputOp : Model_Op<"output", []> {
  let summary = "What the step returns";
  let description = [{
    Writes the rows to the batch's output in F32: logits, or the result of an extracted module.

    ```mlir
    model.output %y to %b : tensor<?x256xf32>
    ```
  }];
  let arguments = (ins Model_Plain:$input, Model_BatchType:$batch);
  let assemblyFormat = "$input `to` $batch attr-dict `:` type($input)";
}

include "dialects/Model/ModelSparseOps.td"
include "dialects/Model/ModelRankOps.td"

#endif // OCTET_DIALECTS_MODEL_MODELOPS_TD
