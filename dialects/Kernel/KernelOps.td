//===- KernelOps.td - Operators of kernel ------------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_KERNEL_KERNELOPS_TD
#define OCTET_DIALECTS_KERNEL_KERNELOPS_TD

include "dialects/Kernel/KernelDialect.td"
include "dialects/Model/ModelDialect.td"
include "dialects/Quant/QuantTypes.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"

class Kernel_Op<string mnem, list<Trait> traits = []> : Op<KernelDialect, mnem, traits>;

/// What a kernel reads or writes: a value before plan-buffers, a place after it.
def Kernel_Operand : AnyTypeOf<[Q_TensorType, AnyRankedTensor, Kernel_BufferType], "tensor, quantised tensor or buffer">;
def Kernel_Result : AnyTypeOf<[Q_TensorType, AnyRankedTensor, Model_DispatchedType], "tensor, quantised tensor or dispatched rows">;
/// A row inside a region: f32 values.
def Kernel_Row : 1DTensorOf<[F32]>;

//===----------------------------------------------------------------------===//
// Row kernels
//===----------------------------------------------------------------------===//

def Kernel_RowwiseOp : Kernel_Op<"rowwise", [AttrSizedOperandSegments, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let summary = "One fused kernel over the rows of the step";
  let description = [{
    The region computes one row; rows never see each other (B5). Its arguments are the operands' rows as f32 (`tensor<Kxf32>`; loads widen
    exactly): of a `row` operand `[rows, K]` row i, of a `uniform` operand `[K]` (or a scalar) the whole of it, of an `indexed`
    operand `[R, K]` row `index[i]`, its index being the next of `indices` (`tensor<?xi32>`, one a row of the domain). An `indexed` operand may
    be a table as a GGUF file packs it (`layout = gguf`): scale * code, plus the minimum, in f32.

    It yields one value a destination, in order: first the results (before plan-buffers) or `outs` (after), then, with a `cache`, the key and
    the value that go to row `slots[i]` of it. An f32 row that goes to a BF16 or F16 destination has been through `kernel.round`; a row of
    codes comes from `q.quantize` and is `!q.tensor<1xK…>`.

    Only `kernel.round` and `q.quantize` round (N9). `domain` says which rows: the step's `tokens`, or the `outputs`. `modules` are the paths it
    stands for, for diagnostics and profiles; `label` names it in profiles.

    ```mlir
    %y = kernel.rowwise "rms_norm" tokens of %b ins(%x, %g : tensor<?x256xbf16>, tensor<256xbf16>) access [row, uniform] {
    ^bb0(%r: tensor<256xf32>, %w: tensor<256xf32>):
      %sq = arith.mulf %r, %r : tensor<256xf32>
      %sum = kernel.reduce add %sq : tensor<256xf32> -> tensor<1xf32>
      …
      %o = kernel.round %n to bf16 : tensor<256xf32>
      kernel.yield %o : tensor<256xf32>
    } -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$label, Kernel_DomainAttr:$domain, Model_BatchType:$batch,
                       Variadic<Kernel_Operand>:$inputs, TypedArrayAttrBase<Kernel_AccessAttr, "array of access">:$access,
                       Variadic<Kernel_Operand>:$indices, Variadic<Kernel_BufferType>:$outs,
                       Optional<Q_KvType>:$cache, Optional<Kernel_Operand>:$slots,
                       DefaultValuedAttr<StrArrayAttr, "{}">:$modules);
  let results = (outs Variadic<Kernel_Operand>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Kernel_YieldOp : Kernel_Op<"yield", [Pure, Terminator, HasParent<"RowwiseOp">]> {
  let summary = "The rows a row kernel writes";
  let description = [{`kernel.yield %o : tensor<256xf32>`}];
  let arguments = (ins Variadic<AnyType>:$values);
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Kernel_ReduceOp : Kernel_Op<"reduce", [Pure]> {
  let summary = "Sum or maximum of a row or of its groups";
  let description = [{
    One value for each `group` consecutive elements (the last group may be short, W4), or one for the row without `group`. FP32, in an order that
    depends on the width alone.

    ```mlir
    %s = kernel.reduce add %x : tensor<256xf32> -> tensor<1xf32>
    %m = kernel.reduce max %x group 64 : tensor<384xf32> -> tensor<6xf32>
    ```
  }];
  let arguments = (ins Kernel_ReductionAttr:$kind, Kernel_Row:$input, OptionalAttr<I64Attr>:$group);
  let results = (outs Kernel_Row:$result);
  let assemblyFormat = "`` $kind $input (`group` $group^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_BroadcastOp : Kernel_Op<"broadcast", [Pure]> {
  let summary = "A value for each element of a group";
  let description = [{
    `y[i] = x[i / group]`: the inverse direction of `kernel.reduce`; one value for all without `group`.

    ```mlir
    %y = kernel.broadcast %s group 64 : tensor<6xf32> -> tensor<384xf32>
    ```
  }];
  let arguments = (ins Kernel_Row:$input, OptionalAttr<I64Attr>:$group);
  let results = (outs Kernel_Row:$result);
  let assemblyFormat = "$input (`group` $group^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_TileOp : Kernel_Op<"tile", [Pure]> {
  let summary = "A short row repeated";
  let description = [{
    `y[i] = x[i mod width(x)]`: a head's norm weight for all heads.

    ```mlir
    %y = kernel.tile %g : tensor<64xf32> -> tensor<384xf32>
    ```
  }];
  let arguments = (ins Kernel_Row:$input);
  let results = (outs Kernel_Row:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_SliceOp : Kernel_Op<"slice", [Pure]> {
  let summary = "Consecutive elements of a row";
  let description = [{
    `y[i] = x[offset + i]`.

    ```mlir
    %k = kernel.slice %x at 384 : tensor<640xf32> -> tensor<128xf32>
    ```
  }];
  let arguments = (ins Kernel_Row:$input, I64Attr:$offset);
  let results = (outs Kernel_Row:$result);
  let assemblyFormat = "$input `at` $offset attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Kernel_RoundOp : Kernel_Op<"round", [Pure, SameOperandsAndResultType]> {
  let summary = "Round a row to a narrower float type";
  let description = [{
    Round to nearest even to BF16 or F16; the value stays f32 in the region. NaN stays NaN.

    ```mlir
    %y = kernel.round %x to bf16 : tensor<256xf32>
    ```
  }];
  let arguments = (ins Kernel_Row:$input, TypeAttr:$type);
  let results = (outs Kernel_Row:$result);
  let assemblyFormat = "$input `to` $type attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Kernel_RopeOp : Kernel_Op<"rope", [Pure]> {
  let summary = "Rotate pairs of a row's heads";
  let description = [{
    In each head of `head_dim` elements, pair i of the 2 * half from `offset` on becomes `(a c - b s, b c + a s)` with c, s element i of the table's cosines
    and sines; pairs are (i, i + half), or (2i, 2i + 1) with `interleaved`. The rest of the head is unchanged (P6).

    ```mlir
    %y = kernel.rope %x, %t head_dim 64 : tensor<384xf32>, tensor<64xf32> -> tensor<384xf32>
    ```
  }];
  let arguments = (ins Kernel_Row:$input, Kernel_Row:$table, I64Attr:$head_dim, UnitAttr:$interleaved, DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs Kernel_Row:$result);
  let assemblyFormat = "$input `,` $table `head_dim` $head_dim (`interleaved` $interleaved^)? attr-dict `:` type($input) `,` type($table) `->` type($result)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Products and attention
//===----------------------------------------------------------------------===//

def Kernel_GemmOp : Kernel_Op<"gemm", [AttrSizedOperandSegments]> {
  let summary = "A matrix product by a named kernel";
  let description = [{
    `Y = X W^T (+ bias)` by `kernel`, a kernel of exactly the operands' contract (select-kernels); `choices` maps ranges of M to variants of it
    that compute the same number, or, without `--batch-invariant`, one that differs by the order of a split sum (B5): entry i serves M up to
    `max_m[i]`, the last has -1. `unwritten` as for `kernel.launch`.

    ```mlir
    %y = kernel.gemm "cpu.fp8_block_gemm" %x, %w of %b tokens {module = "a.b", max_m = array<i64: -1>, variants = ["stream"]}
        : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<640x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x640xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$kernel, Kernel_Operand:$input, Kernel_Operand:$weight, Optional<Kernel_Operand>:$bias, Optional<Kernel_BufferType>:$out,
                       Model_BatchType:$batch, Kernel_DomainAttr:$domain, StrAttr:$module, DenseI64ArrayAttr:$max_m, StrArrayAttr:$variants,
                       UnitAttr:$unwritten);
  let results = (outs Optional<Kernel_Operand>:$result);
  let assemblyFormat = [{
    $kernel $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? (`into` $out^ `:` qualified(type($out)))? `of` $batch `` $domain attr-dict
    `:` type($input) `,` type($weight) (`->` type($result)^)?
  }];
  let hasVerifier = 1;
}

def Kernel_AttentionOp : Kernel_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "Attention by a named kernel";
  let description = [{
    The arithmetic of `model.attention` (P11) by `kernel`, over the paged cache whose layout is its type; `reads`, if it is there, is the layout
    that the kernel reads, and another one does not verify (P7).

    ```mlir
    %y = kernel.attention "cpu.paged_attention" %q, %c of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"}
        : tensor<?x384xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64> -> tensor<?x384xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$kernel, Kernel_Operand:$q, Q_KvType:$cache, Optional<Kernel_Operand>:$k_scale, Optional<Kernel_Operand>:$v_scale,
                       Optional<Kernel_BufferType>:$out, Model_BatchType:$batch, Index:$layer,
                       I64Attr:$q_heads, I64Attr:$kv_heads, I64Attr:$head_dim, F32Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window, StrAttr:$module,
                       OptionalAttr<StrAttr>:$reads, UnitAttr:$unwritten);
  let results = (outs Optional<Kernel_Operand>:$result);
  let assemblyFormat = [{
    $kernel $q `,` $cache (`scales` `(` $k_scale^ `,` $v_scale `:` type($k_scale) `,` type($v_scale) `)`)? (`into` $out^ `:` qualified(type($out)))?
    `of` $batch `[` $layer `]` attr-dict `:` type($q) `,` qualified(type($cache)) (`->` type($result)^)?
  }];
  let hasVerifier = 1;
}

def Kernel_LaunchOp : Kernel_Op<"launch", [AttrSizedOperandSegments]> {
  let summary = "Another operator by a named kernel";
  let description = [{
    Routing, experts, latent attention, the indexer and collectives by `kernel`; `source` is the operator of `model` whose operands `inputs` are, in its
    order, and `params` are its constants. A cache among the inputs is written and read, in the layout `reads` (P7). `unwritten` marks a kernel that is in the table of
    contracts but not in this version: plan-buffers still plans it, and nothing is compiled of it.

    ```mlir
    %y = kernel.launch "cpu.mla_attention" "model.mla_attention"(%q, %c, %w) of %b[%l] {module = "a", params = {heads = 4 : i64}, unwritten}
        : (tensor<?x384xbf16>, tensor<?x64xbf16>, tensor<512x64xbf16>) -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins StrAttr:$kernel, StrAttr:$source, Variadic<AnyType>:$inputs, Variadic<Kernel_BufferType>:$outs, Model_BatchType:$batch, Optional<Index>:$layer,
                       StrAttr:$module, DictionaryAttr:$params, UnitAttr:$unwritten, OptionalAttr<StrAttr>:$reads);
  let results = (outs Variadic<Kernel_Result>:$results);
  let assemblyFormat = [{
    $kernel $source `(` $inputs `)` (`into` `(` $outs^ `:` qualified(type($outs)) `)`)? `of` $batch (`[` $layer^ `]`)? attr-dict
    `:` `(` type($inputs) `)` (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def Kernel_PlaceOp : Kernel_Op<"place", [Pure]> {
  let summary = "A fixed place in the arena";
  let description = [{
    `offset` is in bytes from the arena's start; codes of a quantised tensor stand there and its scales at `scale_offset`.

    ```mlir
    %p = kernel.place 4096 : !kernel.buffer<tensor<?x256xbf16>>
    %r = kernel.place 8192 scales 16384 : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
    ```
  }];
  let arguments = (ins I64Attr:$offset, OptionalAttr<I64Attr>:$scale_offset);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "$offset (`scales` $scale_offset^)? attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Kernel_OutputOp : Kernel_Op<"output", [Pure]> {
  let summary = "The batch's output as a destination";
  let description = [{
    `%o = kernel.output of %b : !kernel.buffer<tensor<?x256xf32>>`
  }];
  let arguments = (ins Model_BatchType:$batch);
  let results = (outs Kernel_BufferType:$result);
  let assemblyFormat = "`of` $batch attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Kernel_TraceOp : Kernel_Op<"trace", []> {
  let summary = "A buffer for --trace";
  let description = [{`kernel.trace "hidden"[%i] %p of %b tokens : !kernel.buffer<tensor<?x256xbf16>>`}];
  let arguments = (ins StrAttr:$name, Index:$index, Kernel_Operand:$input, Model_BatchType:$batch, Kernel_DomainAttr:$domain);
  let assemblyFormat = "$name `[` $index `]` $input `of` $batch `` $domain attr-dict `:` type($input)";
}

//===----------------------------------------------------------------------===//
// Binaries
//===----------------------------------------------------------------------===//

def Kernel_BinaryOp : Kernel_Op<"binary", [Symbol]> {
  let summary = "A device function, compiled";
  let description = [{
    What emit-kernels makes of one source for the module's target: the function that `source` defines has the symbol's name. `cubin` is a blob
    (`--mlir-elide-resource-strings-if-larger` leaves it out of a print); `ptx` is there where the target has no suffix, for newer devices.

    ```mlir
    kernel.binary @octet_kernel_rms_norm for "sm_90a" {cubin = dense_resource<octet_kernel_rms_norm> : tensor<4xi8>, ptx = "", source = "…"}
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target, StrAttr:$source, ElementsAttr:$cubin, DefaultValuedAttr<StrAttr, "\"\"">:$ptx);
  let assemblyFormat = "$sym_name `for` $target attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The bytes; nothing if a print has left them out.
    ::std::optional<::llvm::ArrayRef<char>> getCubinBytes();
  }];
}

#endif // OCTET_DIALECTS_KERNEL_KERNELOPS_TD
