//===- QuantOps.td - Operators of q ------------------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_QUANTOPS_TD
#define OCTET_DIALECTS_QUANT_QUANTOPS_TD

include "dialects/Quant/QuantTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Q_Op<string mnem, list<Trait> traits = []> : Op<QuantDialect, mnem, traits>;

def Q_AnyTensor : AnyTypeOf<[Q_TensorType, AnyRankedTensor], "quantised or plain tensor">;
def Q_Scalar : Type<CPred<"::octet::q::isScalarTensor($_self)">, "tensor of one float", "::mlir::RankedTensorType">;

//===----------------------------------------------------------------------===//
// Where values are rounded
//===----------------------------------------------------------------------===//

def Q_QuantizeOp : Q_Op<"quantize", [Pure]> {
  let summary = "Round a tensor to codes and scales";
  let description = [{
    ```
    s = max(amax, 1e-10) / 448 over each group of the result type (N3), or the given scale
    code = rne(clamp(x / s, -448, 448))                          (N2)
    ```
    With `ue8m0` the scale is rounded up to a power of two (N4). A `scale` operand is a static per-tensor scale (P3). `bound` is the largest
    amax that a scale follows, `s = min(max(amax, 1e-10), bound) / 448`; what lies beyond saturates (fbgemm_fp8). Codes of i8 are
    `rne(clamp(x / s, -127, 127))` with `s = max(amax, 1e-10) / 127` (N7). NVFP4 has a scale `e4m3(amax / 6 / g)` for each 16, below
    the given g, and codes `e2m1(x / (scale * g))` (N7).
    Shapes: x `[M, K]`, or a row `[K]` with a result `[1, K]` inside `kernel.rowwise`.

    ```mlir
    %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
    %r = q.quantize %x, %s : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf8E4M3FN, per_tensor, f32>
    %b = q.quantize %x bound 1.2e+03 : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, per_token, f32>
    %n = q.quantize %x, %g : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, Optional<Q_Scalar>:$scale, UnitAttr:$ue8m0, OptionalAttr<F32Attr>:$bound);
  let results = (outs Q_TensorType:$result);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$input, "::mlir::Value":$scale, "bool":$ue8m0), [{
      build($_builder, $_state, result, input, scale, ue8m0, ::mlir::FloatAttr());
    }]>
  ];
  let assemblyFormat = "$input (`,` $scale^)? (`ue8m0` $ue8m0^)? (`bound` $bound^)? attr-dict `:` type($input) (`,` type($scale)^)? `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Q_DequantizeOp : Q_Op<"dequantize", [Pure]> {
  let summary = "The real numbers that codes and scales mean";
  let description = [{
    `y[i, j] = code[i, j] * scale` of its group (N2), rounded once to the result's element type.

    ```mlir
    %x = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` type($result)";
  let hasVerifier = 1;
}

def Q_PackOp : Q_Op<"pack", [Pure, AttrSizedOperandSegments]> {
  let summary = "Join codes and scales";
  let description = [{
    The types of scale, zero points, `order` (the group of each of K) and the scale above those of groups must be the ones that the result type
    implies, and each is there exactly if the type says so (W1).

    ```mlir
    %w = q.pack %codes, %scale : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !q.tensor<576x7168xf8E4M3FN, block<128x128>, f32>
    %g = q.pack %qweight, %scales zeros(%qzeros : tensor<32x512xi32>) order(%g_idx : tensor<4096xi32>) : tensor<512x4096xi32>, tensor<32x4096xf16>
        -> !q.tensor<4096x4096xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$data, AnyRankedTensor:$scale, Optional<AnyRankedTensor>:$zeros, Optional<AnyRankedTensor>:$global,
                       Optional<AnyRankedTensor>:$order);
  let results = (outs Q_TensorType:$result);
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$data, "::mlir::Value":$scale), [{
      build($_builder, $_state, result, data, scale, ::mlir::Value(), ::mlir::Value(), ::mlir::Value());
    }]>
  ];
  let assemblyFormat = [{
    $data `,` $scale (`zeros` `(` $zeros^ `:` type($zeros) `)`)? (`global` `(` $global^ `:` type($global) `)`)?
    (`order` `(` $order^ `:` type($order) `)`)? attr-dict `:` type($data) `,` type($scale) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Q_UnpackOp : Q_Op<"unpack", [Pure]> {
  let summary = "Split a quantised tensor into codes and scales";
  let description = [{
    The inverse of `q.pack`.

    ```mlir
    %codes, %scale = q.unpack %w : !q.tensor<576x7168xf8E4M3FN, block<128x128>, f32> -> tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs AnyRankedTensor:$data, AnyRankedTensor:$scale);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` type($data) `,` type($scale)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Weights: slots, and the load function that fills them
//===----------------------------------------------------------------------===//

def Q_SlotOp : Q_Op<"slot", [Symbol]> {
  let summary = "Room for the weights of one module, one a layer";
  let description = [{
    Declares `count` instances of a weight that the load function stores and the step function reads, at index 0 .. count - 1.
    Where layers differ, a slot serves some of them: only the indices of `used` are ever stored and read.

    ```mlir
    q.slot @layers.self_attn.qkv_proj[2] : !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
    q.slot @layers.mlp.down_proj.kind1[3] used [1] : tensor<128x192xbf16>
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$count, OptionalAttr<DenseI64ArrayAttr>:$used, TypeAttr:$type);
  let assemblyFormat = "$sym_name `[` $count `]` (`used` $used^)? `:` $type attr-dict";
  let extraClassDeclaration = [{
    /// How many of the instances are used.
    int64_t countUsed();
  }];
  let hasVerifier = 1;
}

def Q_WeightOp : Q_Op<"weight", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A loaded weight";
  let description = [{
    Reads a slot in the step function.

    ```mlir
    %w = q.weight @layers.self_attn.o_proj[%l] : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>
    %g = q.weight @norm : tensor<256xbf16>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$slot, Optional<Index>:$index);
  let results = (outs Q_AnyTensor:$result);
  let assemblyFormat = "$slot (`[` $index^ `]`)? attr-dict `:` type($result)";
}

def Q_StoreOp : Q_Op<"store", [AttrSizedOperandSegments, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Fill a weight's slot";
  let description = [{
    With `expert` the value is one of those that the slot's first dimension counts (W5).

    ```mlir
    q.store %w, @layers.self_attn.o_proj[%l] : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>
    q.store %d, @layers.mlp.experts.down_proj[%l] expert(%e) : tensor<256x192xbf16>
    ```
  }];
  let arguments = (ins Q_AnyTensor:$value, FlatSymbolRefAttr:$slot, Optional<Index>:$index, Optional<Index>:$expert);
  let assemblyFormat = "$value `,` $slot (`[` $index^ `]`)? (`expert` `(` $expert^ `)`)? attr-dict `:` type($value)";
}

def Q_LoadOp : Q_Op<"load", [AttrSizedOperandSegments]> {
  let summary = "A tensor of the checkpoint, with its scales";
  let description = [{
    `path` is a module path in which `{l}` stands for the index operand and `{e}` for `expert`; `weight` is the last component of the tensor's name and `scale` that of
    its scale (W2), present exactly if the result is quantised and does not hold its scales itself (`layout = gguf`). The result has the types that
    are stored; elements in blocks that no kernel reads (GGUF's Q4_K) are f32. `head_rows` undoes the file's order of the rows of a head: row 2 i + j of
    it is row j * head_rows / 2 + i (W16). A scale that is stored in another shape of
    the same elements than the type implies (`[]`, `[N]`, `[a, 1, b, 1]`) has it in `scale_shape` (W1, W2), and one that is stored in another dtype of the
    same bits (exponents as `ui8`, N7) in `scale_type`.

    ```mlir
    %w = q.load "model.layers.{l}.self_attn.o_proj"[%l] weight "weight" scale "weight_scale_inv" : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>
    %s = q.load "model.layers.{l}.self_attn.o_proj"[%l] weight "input_scale" : tensor<f32>
    %g = q.load "model.norm" weight "weight" : tensor<256xbf16>
    %q = q.load "model.layers.{l}.self_attn.q_proj"[%l] weight "weight" head_rows 64 : !q.tensor<576x576xi4, group<32>, f16, layout = gguf>
    ```
  }];
  let arguments = (ins StrAttr:$path, Optional<Index>:$index, StrAttr:$weight, OptionalAttr<StrAttr>:$scale,
                       OptionalAttr<DenseI64ArrayAttr>:$scale_shape, OptionalAttr<I64Attr>:$head_rows, Optional<Index>:$expert,
                       OptionalAttr<TypeAttr>:$scale_type);
  let results = (outs Q_AnyTensor:$result);
  let assemblyFormat = "$path (`[` $index^ `]`)? (`expert` `(` $expert^ `)`)? `weight` $weight (`scale` $scale^)? (`head_rows` $head_rows^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Q_SliceOp : Q_Op<"slice", [Pure]> {
  let summary = "The part of a tensor that one rank holds";
  let description = [{
    The experts, rows or columns that `#q.slice` says of rank `rank`, with the scales that belong to them; the result's type follows from the
    input's (W4, W5).

    ```mlir
    %s = q.slice %w of %rank <rows 512 at affine_map<(d0) -> (d0 * 512)>> : !q.tensor<4096x7168xf8E4M3FN, block<128x128>, f32> -> !q.tensor<512x7168xf8E4M3FN, block<128x128>, f32>
    %t = q.slice %g of %rank <cols 640 at affine_map<(d0) -> (d0 * 576)>, padded, own = 576 of 128>
        : !q.tensor<512x1152xf8E4M3FN, block<128x128>, f32> -> !q.tensor<512x640xf8E4M3FN, block<128x128>, f32>
    ```
  }];
  let arguments = (ins Q_AnyTensor:$input, Index:$rank, Q_SliceAttr:$slice);
  let results = (outs Q_AnyTensor:$result);
  let assemblyFormat = "$input `of` $rank $slice attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Q_CheckScalesOp : Q_Op<"check_scales", []> {
  let summary = "Refuse scales that cannot be";
  let description = [{
    Ends loading with an error that names the tensor and the index if a scale is NaN, infinite, negative, or zero where its block holds a value (W6).
    In `layout = gguf` a scale may have any sign and be zero, and minimums are finite too. Of codes that share words the indices of `act_order` and
    the scale above those of groups are checked as well.

    ```mlir
    q.check_scales %w : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}

def Q_ConvertScalesOp : Q_Op<"convert_scales", [Pure]> {
  let summary = "The same codes with scales of another dtype";
  let description = [{
    Widens BF16 or F16 scales to F32; exact.

    ```mlir
    %v = q.convert_scales %w : !q.tensor<64x256xf8E4M3FN, per_channel, bf16> -> !q.tensor<64x256xf8E4M3FN, per_channel, f32>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs Q_TensorType:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Q_ExpandScalesOp : Q_Op<"expand_scales", [Pure]> {
  let summary = "One scale a matrix to one a channel";
  let description = [{
    Repeats each shard's scale over the shard's rows (W7). The numbers do not change.

    ```mlir
    %v = q.expand_scales %w : !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 128, 128]>
                           -> !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs Q_TensorType:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Q_RequantizeOp : Q_Op<"requantize", [Pure]> {
  let summary = "The same numbers in other codes or scales, rounded again";
  let description = [{
    Dequantises and quantises with the storage, granularity and scales of the result. Three rewrites of loading need it:

    - N8: `f8E5M2`, `f8E5M2FNUZ` and `f8E4M3FNUZ` to `f8E4M3FN`, and `f8E4M3FN` to `f8E4M3FNUZ`, at their own granularity. From FNUZ the bits stay and
      the scale is halved, but for a group that holds +-240, which is rounded again; NaN codes end loading with an error. To FNUZ the scale is doubled.
    - W8: `per_tensor` with a scale a shard to one scale, the largest of them. One that is stored fused has one scale already.
    - W11: blocks with float scales to f8E8M0FNU. A block whose scale is a power of two keeps its codes; of another, `s = 2^ceil(log2(amax / 448))`
      over the block's values (N4).

    ```mlir
    %v = q.requantize %w : !q.tensor<64x256xf8E5M2, per_channel, f32> -> !q.tensor<64x256xf8E4M3FN, per_channel, f32>
    %v = q.requantize %w : !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 256]> -> !q.tensor<512x128xf8E4M3FN, per_tensor, f32>
    %v = q.requantize %w : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32> -> !q.tensor<256x384xf8E4M3FN, block<128x128>, f8E8M0FNU>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs Q_TensorType:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The rule of the rewrite, "N8", "W8" or "W11"; empty if it is none.
    static ::llvm::StringRef findRule(TensorType from, TensorType to);
  }];
}

def Q_MergeScalesOp : Q_Op<"merge_scales", [Pure]> {
  let summary = "Groups that share one scale as blocks";
  let description = [{
    MXFP8 as block FP8 (`--mxfp8-as block`, B6): the codes stay, and a block takes the scale of its groups. Exact: scales that differ inside of a block
    end loading with an error that names the tensor and both places.

    ```mlir
    %v = q.merge_scales %w : !q.tensor<256x384xf8E4M3FN, block<1x32>, f8E8M0FNU> -> !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs Q_TensorType:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Q_ShareGlobalOp : Q_Op<"share_global", [Pure]> {
  let summary = "One scale above the groups of all shards";
  let description = [{
    NVFP4 stores a scale above those of the groups for each matrix; a product of both operands in FP4 has one for a fused matrix (W9). It is the largest
    of the shards' (of those that divide: the smallest), and a shard's group scales become `e4m3(scale * own / shared)`, rounded to nearest even; codes
    stay. A shard that has the shared one already keeps its bits.

    ```mlir
    %v = q.share_global %w : !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, shards = [64, 32], layout = packed>
                          -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs Q_TensorType:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Q_RepackOp : Q_Op<"repack", [Pure]> {
  let summary = "The same codes and scales in another layout";
  let description = [{
    Brings a weight into the order that its kernel reads (B1, B4, C10); no number changes. To `layout = tiled` codes, scales, zero points and minimums
    of 64 rows come together; with `act_order` the columns are sorted by group, which the product does to its input as well, zero points become whole
    numbers, BF16 scales F32, and a scale that `divides` its reciprocal.

    ```mlir
    %t = q.repack %w : !q.tensor<4096x4096xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>
                    -> !q.tensor<4096x4096xi4, group<128>, f16, zero_points, act_order, layout = tiled>
    %v = q.repack %w : !q.tensor<256x384xf8E4M3FN, block<128x128>, f8E8M0FNU> -> !q.tensor<256x384xf8E4M3FN, block<128x128>, f8E8M0FNU, layout = ue8m0_packed>
    ```
  }];
  let arguments = (ins Q_TensorType:$input);
  let results = (outs Q_TensorType:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Q_ConcatOp : Q_Op<"concat", [Pure]> {
  let summary = "The shards of a fused matrix";
  let description = [{
    Matrices of equal K one after the other along N; each keeps its own scale rows (W5b). Nothing is copied.

    ```mlir
    %w = q.concat %q, %k, %v : !q.tensor<384x256xf8E4M3FN, block<128x128>, f32>, !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>, !q.tensor<128x256xf8E4M3FN, block<128x128>, f32>
        -> !q.tensor<640x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128, 128]>
    %p = q.concat %a, %b : tensor<320x192xbf16>, tensor<320x192xbf16> -> tensor<640x192xbf16>
    ```
  }];
  let arguments = (ins Variadic<Q_AnyTensor>:$inputs);
  let results = (outs Q_AnyTensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Q_SplitHeadsOp : Q_Op<"split_heads", [Pure]> {
  let summary = "The two halves of each head's rows";
  let description = [{
    Row `h * (A + B) + i` of the matrix is `first[h, i]` for i < A, else `second[h, i - A]`: kv_b_proj becomes w_kc and w_vc (W12). The matrix is plain:
    a head's rows need not start on an edge of a scale block, so codes are dequantised by the whole matrix's rows before.

    ```mlir
    %m = q.dequantize %w : !q.tensor<448x64xf8E4M3FN, block<128x128>, f32> -> tensor<448x64xbf16>
    %kc, %vc = q.split_heads %m : tensor<448x64xbf16> -> tensor<4x48x64xbf16>, tensor<4x64x64xbf16>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$first, AnyRankedTensor:$second);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($first) `,` type($second)";
  let hasVerifier = 1;
}

def Q_MaxOp : Q_Op<"max", [Pure]> {
  let summary = "The largest of some scalars";
  let description = [{
    A fused module's static `input_scale` is the maximum of its shards' (W9). The result is F32.

    ```mlir
    %s = q.max %a, %b : tensor<f32>, tensor<f32> -> tensor<f32>
    ```
  }];
  let arguments = (ins Variadic<Q_Scalar>:$inputs);
  let results = (outs Q_Scalar:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Q_KvScalesOp : Q_Op<"kv_scales", [AttrSizedOperandSegments]> {
  let summary = "The cache scales of one layer";
  let description = [{
    Both positive: as given; one positive: copied to both; none stored or positive: 1.0 with a warning that names the layer (P8).

    ```mlir
    %ks, %vs = q.kv_scales "model.layers.{l}.self_attn"[%l] k(%k : tensor<f32>) v(%v : tensor<f32>) : tensor<f32>, tensor<f32>
    ```
  }];
  let arguments = (ins StrAttr:$path, Optional<Index>:$index, Optional<Q_Scalar>:$k, Optional<Q_Scalar>:$v);
  let results = (outs Q_Scalar:$kScale, Q_Scalar:$vScale);
  let assemblyFormat = "$path (`[` $index^ `]`)? (`k` `(` $k^ `:` type($k) `)`)? (`v` `(` $v^ `:` type($v) `)`)? attr-dict `:` type($kScale) `,` type($vScale)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// KV cache
//===----------------------------------------------------------------------===//

def Q_KvCacheOp : Q_Op<"kv_cache", [Pure]> {
  let summary = "The KV cache of one layer";
  let description = [{
    ```mlir
    %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 64>
    ```
  }];
  let arguments = (ins Index:$layer);
  let results = (outs Q_KvType:$result);
  let assemblyFormat = "`[` $layer `]` attr-dict `:` qualified(type($result))";
}

def Q_KvWriteOp : Q_Op<"kv_write", [AttrSizedOperandSegments]> {
  let summary = "Write keys and values of the step's tokens to the cache";
  let description = [{
    Row t of `k` and `v` goes to row `slots[t]` of the cache, in the cache's element type; for `fp8_e4m3` as `e4m3(k / k_scale)`,
    `e4m3(v / v_scale)` (P7a). Shapes: k, v `[T, heads * dim]`, slots `[T]`.

    ```mlir
    q.kv_write %k, %v, %c at %slots : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi32>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$k, AnyRankedTensor:$v, Q_KvType:$cache, AnyRankedTensor:$slots,
                       Optional<Q_Scalar>:$kScale, Optional<Q_Scalar>:$vScale);
  let assemblyFormat = [{
    $k `,` $v `,` $cache `at` $slots (`scales` `(` $kScale^ `,` $vScale `:` type($kScale) `,` type($vScale) `)`)? attr-dict
    `:` type($k) `,` type($v) `,` qualified(type($cache)) `,` type($slots)
  }];
  let hasVerifier = 1;
}

#endif // OCTET_DIALECTS_QUANT_QUANTOPS_TD
