//===- QuantTypes.td - Types and attributes of q -----------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_QUANTTYPES_TD
#define OCTET_DIALECTS_QUANT_QUANTTYPES_TD

include "dialects/Quant/QuantDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Q_Attr<string name, string mnem> : AttrDef<QuantDialect, name> {
  let mnemonic = mnem;
}
class Q_Type<string name, string mnem> : TypeDef<QuantDialect, name> {
  let mnemonic = mnem;
}

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

class Q_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::octet::q";
  let genSpecializedAttr = 0;
}

def Q_GranularityKind : Q_Enum<"GranularityKind", "which elements share a scale", [
  I32EnumAttrCase<"PerTensor", 0, "per_tensor">,
  I32EnumAttrCase<"PerChannel", 1, "per_channel">,
  I32EnumAttrCase<"PerToken", 2, "per_token">,
  I32EnumAttrCase<"Block", 3, "block">,
  I32EnumAttrCase<"Group", 4, "group">,
]>;
def Q_Offset : Q_Enum<"Offset", "what a weight's groups add to their values", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Minimums", 1, "minimums">,
  I32EnumAttrCase<"ZeroPoints", 2, "zero_points">,
  I32EnumAttrCase<"ZeroPointsMinusOne", 3, "zero_points_minus_one">,
]>;
def Q_GlobalScale : Q_Enum<"GlobalScale", "what the scale above those of groups does", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Multiplies", 1, "multiplies">,
  I32EnumAttrCase<"Divides", 2, "divides">,
]>;
def Q_Layout : Q_Enum<"Layout", "how codes and scales lie in memory", [
  I32EnumAttrCase<"Plain", 0, "plain">,
  I32EnumAttrCase<"Gguf", 1, "gguf">,
  I32EnumAttrCase<"ColumnMajorScales", 2, "column_major_scales">,
  I32EnumAttrCase<"Ue8m0Packed", 3, "ue8m0_packed">,
  I32EnumAttrCase<"WeightOnly", 4, "weight_only">,
  I32EnumAttrCase<"Packed", 5, "packed">,
  I32EnumAttrCase<"PackedK", 6, "packed_k">,
  I32EnumAttrCase<"Awq", 7, "awq">,
  I32EnumAttrCase<"Tiled", 8, "tiled">,
]>;
def Q_ActivationScheme : Q_Enum<"ActivationScheme", "where an activation's scale comes from", [
  I32EnumAttrCase<"None", 0, "none">,
  I32EnumAttrCase<"Static", 1, "static">,
  I32EnumAttrCase<"Dynamic", 2, "dynamic">,
]>;
def Q_KvLayout : Q_Enum<"KvLayout", "layout of a KV cache", [
  I32EnumAttrCase<"F32", 0, "f32">,
  I32EnumAttrCase<"BF16", 1, "bf16">,
  I32EnumAttrCase<"F16", 2, "f16">,
  I32EnumAttrCase<"FP8E4M3", 3, "fp8_e4m3">,
  I32EnumAttrCase<"FP8DsMla", 4, "fp8_ds_mla">,
  I32EnumAttrCase<"FP8Indexer", 5, "fp8_indexer">,
]>;

//===----------------------------------------------------------------------===//
// Granularity
//===----------------------------------------------------------------------===//

def Q_GranularityAttr : Q_Attr<"Granularity", "granularity"> {
  let summary = "which elements share a scale";
  let description = [{
    ```
    granularity ::= `per_tensor` | `per_channel` | `per_token`
                  | `block` `<` int `x` int `>` | `group` `<` int `>`
    ```
    `per_channel` is one scale a row of a weight, `per_token` one a row of an
    activation. `block<1x128>` is the activation's group of 128 along K;
    `group<32>` are the 32 elements of a weight's row along K that share a scale
    where codes are integers.

    Right: `block<128x128>`. Wrong: `block<0x128>` (sides are positive, W1).
  }];
  let parameters = (ins "::octet::q::GranularityKind":$kind, "int64_t":$blockN, "int64_t":$blockK);
  let builders = [
    AttrBuilder<(ins "GranularityKind":$kind), [{ return Base::get($_ctxt, kind, 0, 0); }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isBlock() const { return getKind() == GranularityKind::Block; }
    /// `blockN` is 1 then, `blockK` the group.
    bool isGroup() const { return getKind() == GranularityKind::Group; }
    /// Parses and prints without the dialect prefix, as inside !q.tensor.
    static ::mlir::FailureOr<GranularityAttr> parseBare(::mlir::AsmParser &parser);
    void printBare(::mlir::AsmPrinter &printer) const;
  }];
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Q_TensorType : Q_Type<"Tensor", "tensor"> {
  let summary = "quantised tensor";
  let description = [{
    ```
    tensor ::= `!q.tensor` `<` dims `x` storage `,` granularity `,` scale-type
               (`,` offset)? (`,` `global` `=` (`multiplies` | `divides`))?
               (`,` `act_order`)? (`,` `shards` `=` `[` int (`,` int)* `]`)?
               (`,` `layout` `=` layout)? `>`
    offset ::= `minimums` | `zero_points` | `zero_points_minus_one`
    layout ::= `gguf` | `column_major_scales` | `ue8m0_packed` | `weight_only`
             | `packed` | `packed_k` | `awq` | `tiled`
    ```

    ```
    !q.tensor<7168x2048xf8E4M3FN, block<128x128>, f32>
    !q.tensor<2624x7168xf8E4M3FN, block<128x128>, f32, shards = [2048, 576]>
    !q.tensor<?x7168xf8E4M3FN, block<1x128>, f32>
    !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>
    !q.tensor<4096x4096xi8, per_channel, f32>
    !q.tensor<576x576xi4, group<32>, f16, minimums, layout = gguf>
    !q.tensor<?x7168xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
    !q.tensor<4096x4096xi4, group<128>, f16, zero_points, layout = awq>
    !q.tensor<4096x4096xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>
    !q.tensor<4096x4096xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
    !q.tensor<4096x4096xf4E2M1FN, group<16>, f8E4M3FN, global = divides, layout = packed>
    ```

    `f8E8M0FNU` scales are powers of two in a byte (N4), of blocks of f8E4M3FN;
    with `block<1x32>` that is MXFP8 (N7). Codes of i8 are symmetric, one scale a
    tensor, a channel or a token (N7). f8E5M2 and the FNUZ formats are what
    checkpoints store; loading converts them (N8).

    `layout` says how codes and scales lie where it is not row by row:
    `column_major_scales` has an activation's F32 scales along its rows, `[cdiv(K,
    bk), M]` with M rounded up to 4 for 16-byte loads; `ue8m0_packed` the
    exponents of four groups in a word, `[cdiv(cdiv(K, bk), 4), N]` i32 with N
    rounded up to 4 and a word a row, as block-scaled products read them (B1);
    `weight_only` has the codes in the order of a kernel that widens them (B4).

    Weights whose codes share words (FORMATS) are weights only (B4):

    | layout | codes | scales, zero points |
    | --- | --- | --- |
    | `packed` | i4, i8: `[N, cdiv(K bits, 32)]` i32, lowest bits first, code + 2^(bits-1); f4E2M1FN: `[N, cdiv(K, 2)]` ui8, low nibble first | `[N, groups]`, `[cdiv(N bits, 32), groups]` i32 |
    | `packed_k` | i4, i8: `[K bits/32, N]` i32, lowest bits first (GPTQ) | `[groups, N]`, `[groups, N bits/32]` i32 |
    | `awq` | i4: `[K, N/8]` i32, nibble i is column 0 2 4 6 1 3 5 7 | `[groups, N]`, `[groups, N/8]` i32 |
    | `tiled` | what `q.repack` makes of these and of `gguf`: 64 rows a tile (runtime/cpu/TileLayout.h) | in the tile |

    `group<g>` are g elements along K with a scale, `per_channel` is all of K. A
    zero point is subtracted from the code; `zero_points_minus_one` are stored as
    z - 1 (`gptq`, not `gptq_v2`). With `act_order` the group of column k is what
    a tensor of K indices says. f4E2M1FN has group<32> and f8E8M0FNU (MXFP4), or
    group<16> and f8E4M3FN below one f32 scale of the matrix, which `multiplies`
    or `divides` (NVFP4, N7).

    In `layout = gguf` codes, scales and minimums lie together, a group of 32
    after the other, as GGUF's Q8_0 (i8), Q4_0 (i4) and Q4_1 (i4, minimums)
    have them: one tensor that no `q.pack` makes. A code of Q4_0 is stored plus
    8; the value is scale * code, plus the minimum if there are some.

    The scale's shape follows from the type, in `getScaleShape` alone (W1):
    per-tensor one a shard, per-channel and per-token `[N, 1]`, block
    `[sum of cdiv(N_i, bn), cdiv(K, bk)]`, because each shard starts its own
    scale rows (W5b): 2048 + 576 rows need 16 + 5.

    The rank is 2, or 3 with experts first (W5); only the leading dimension may
    be dynamic. Storage is an FP8 format, f4E2M1FN, i8 or i4, a scale f32, bf16,
    f16, f8E8M0FNU or f8E4M3FN; codes and scales together have a size that fits 64 bits.

    Right: shards that add up to N. Wrong: `shards = [2048, 512]` on 2624 rows
    (W5b); shards of a `per_token` tensor, which is an activation; a block
    granularity on i8; `tensor<64xf8E4M3FN, …>`, which is no matrix (W1);
    f8E8M0FNU scales of channels (N4) or of f8E5M2 codes (N7); `ue8m0_packed`
    with f32 scales (N4); `weight_only` of a `per_token` tensor (B4);
    `group<64>` in `layout = gguf`, or a K that 32 does not divide there (W1).
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType,
                        "::octet::q::GranularityAttr":$granularity, "::mlir::Type":$scaleType,
                        ArrayRefParameter<"int64_t">:$shards, "::octet::q::Offset":$offset, "::octet::q::Layout":$layout,
                        "::octet::q::GlobalScale":$global, "bool":$actOrder);
  let builders = [
    TypeBuilderWithInferredContext<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType,
                     "GranularityAttr":$granularity, "::mlir::Type":$scaleType), [{
      return Base::get(elementType.getContext(), shape, elementType, granularity, scaleType,
                       ::llvm::ArrayRef<int64_t>(), Offset::None, Layout::Plain, GlobalScale::None, false);
    }]>,
    TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$elementType, "GranularityAttr":$granularity, "::mlir::Type":$scaleType,
                     "::llvm::ArrayRef<int64_t>":$shards, "Offset":$offset, "Layout":$layout), [{
      return $_get($_ctxt, shape, elementType, granularity, scaleType, shards, offset, layout, GlobalScale::None, false);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
    /// N and K of a matrix: the last two dimensions; N may be dynamic.
    int64_t getN() const { return getShape()[getRank() - 2]; }
    int64_t getK() const { return getShape()[getRank() - 1]; }
    /// The shards, or {N} for an unfused matrix.
    ::llvm::SmallVector<int64_t> getShardRows() const;
    /// The shape of the scale that belongs to this type (W1, W5b).
    ::llvm::SmallVector<int64_t> getScaleShape() const;
    /// tensor<scale shape x scale type>; words of four exponents are i32.
    ::mlir::RankedTensorType getScaleTensorType() const;
    /// tensor<shape x storage type>.
    ::mlir::RankedTensorType getDataTensorType() const;
    /// Bytes of codes, scales and minimums of a static type.
    int64_t getBytes() const;
    /// Codes and scales are one tensor, which only kernels take apart.
    bool isGguf() const { return getLayout() == Layout::Gguf; }
    /// Codes that share words, as a checkpoint stores them beside their scales.
    bool isPacked() const { return getLayout() == Layout::Packed || getLayout() == Layout::PackedK || getLayout() == Layout::Awq; }
    /// What q.repack makes of those and of `layout = gguf`.
    bool isTiled() const { return getLayout() == Layout::Tiled; }
    /// The type that q.repack makes of this one, or null.
    TensorType getTiled() const;
    /// Stored beside codes and scales: zero points, the indices of act_order and
    /// the scale above those of groups. Null where there are none.
    ::mlir::RankedTensorType getZeroTensorType() const;
    ::mlir::RankedTensorType getOrderTensorType() const;
    ::mlir::RankedTensorType getGlobalTensorType() const;
    /// "Q4_1" in that layout, else "".
    ::llvm::StringRef getGgufName() const;
    /// The type of that name, or null for a name without one.
    static TensorType getGguf(::mlir::MLIRContext *context, ::llvm::StringRef name, ::llvm::ArrayRef<int64_t> shape);
    TensorType withShape(::llvm::ArrayRef<int64_t> shape) const;
    TensorType withScaleType(::mlir::Type scaleType) const;
    TensorType withGranularity(GranularityAttr granularity) const;
    TensorType withShards(::llvm::ArrayRef<int64_t> shards) const;
    TensorType withOffset(Offset offset) const;
    TensorType withGlobal(GlobalScale global) const;
    TensorType withElementType(::mlir::Type elementType) const;
    TensorType withLayout(Layout layout) const;
    /// The same matrix with these rows in each shard (one: unfused).
    TensorType withShardRows(::llvm::ArrayRef<int64_t> rows) const;
    /// The same matrix with `k` columns.
    TensorType withColumns(int64_t k) const;
  }];
}

def Q_KvType : Q_Type<"Kv", "kv"> {
  let summary = "paged KV cache of one layer";
  let description = [{
    ```
    kv ::= `!q.kv` `<` (`f32` | `bf16` | `f16` | `fp8_e4m3` | `fp8_ds_mla` | `fp8_indexer`) `,` `page` `=` int `,` `heads` `=` int `,` `dim` `=` int (`,` `rope` `=` int)? `>`
    ```
    Keys and values of one layer in pages of `page` tokens: `[pages, page, heads, dim]` each. `fp8_e4m3` holds
    `e4m3(k / k_scale)` and `e4m3(v / v_scale)` (P7a). The layout is part of the type: an attention that reads another does not verify (P7).

    With `rope` a token has one vector of `dim + rope` values in place of keys and values: the latent and the rotated key of latent attention, or
    with `rope = 0` the key of an indexer. `fp8_ds_mla` has the latent in E4M3 with an F32 scale for each 128 and the rotated key in BF16: 512 + 16 + 128
    = 656 bytes (P7); `fp8_indexer` a key of 128 in E4M3 with its F32 scale: 132 bytes (P9).

    Right: `!q.kv<bf16, page = 64, heads = 2, dim = 64>`, `!q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 512, rope = 64>`. Wrong: `page = 0`; `fp8_ds_mla` without `rope`.
  }];
  let parameters = (ins "::octet::q::KvLayout":$layout, "int64_t":$page, "int64_t":$heads, "int64_t":$dim, DefaultValuedParameter<"int64_t", "-1">:$rope);
  let builders = [
    TypeBuilder<(ins "::octet::q::KvLayout":$layout, "int64_t":$page, "int64_t":$heads, "int64_t":$dim), [{
      return Base::get($_ctxt, layout, page, heads, dim, -1);
    }]>
  ];
  let assemblyFormat = "`<` $layout `,` `page` `=` $page `,` `heads` `=` $heads `,` `dim` `=` $dim (`,` `rope` `=` $rope^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The element type in the cache: f32, bf16, f16 or f8E4M3FN.
    ::mlir::Type getElementType() const;
    /// One vector a token in place of keys and values.
    bool isLatent() const { return getRope() >= 0; }
    /// Bytes of one token: keys and values of all heads, or its vector.
    int64_t getBytesPerToken() const;
  }];
}

//===----------------------------------------------------------------------===//
// Attributes that carry what the checkpoint and the rules say
//===----------------------------------------------------------------------===//

def Q_ConfigAttr : Q_Attr<"Config", "config"> {
  let summary = "the checkpoint's quantisation config, as read";
  let description = [{
    The fields of the JSON object that C1 found, unchanged (`null` is `unit`; absent, `null` and `[]` are three things, C7), and where it stood, for notes.

    ```mlir
    #q.config<{activation_scheme = "dynamic", quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">
    ```
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$fields, StringRefParameter<"where it stood">:$source);
  let assemblyFormat = "`<` $fields `,` $source `>`";
}

def Q_StoredAttr : Q_Attr<"Stored", "stored"> {
  let summary = "what the checkpoint stores and declares for one module";
  let description = [{
    `tensors` maps the last component of each stored tensor's name to its type, a `!q.tensor` for one that holds codes and scales
    (`layout = gguf`); `declared` says what the config says of this module: empty (the
    config's default applies), `ignored: FIELD[i] 'ENTRY'` (C7) or `group: NAME` of a compressed-tensors config. `head_rows` is the number of
    rows of a head whose halves the file interleaves, in weight and bias (W16). The same for every layer that shares the function.

    ```mlir
    #q.stored<{weight = tensor<384x256xf8E4M3FN>, weight_scale_inv = tensor<3x2xf32>}, "">
    #q.stored<{weight = !q.tensor<576x576xi4, group<32>, f16, layout = gguf>}, "", head_rows = 64>
    ```
  }];
  let parameters = (ins "::mlir::DictionaryAttr":$tensors, StringRefParameter<"the config's word">:$declared,
                        DefaultValuedParameter<"int64_t", "0">:$headRows);
  let builders = [
    AttrBuilder<(ins "::mlir::DictionaryAttr":$tensors, "::llvm::StringRef":$declared), [{
      return Base::get($_ctxt, tensors, declared, 0);
    }]>
  ];
  let assemblyFormat = "`<` $tensors `,` $declared (`,` `head_rows` `=` $headRows^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The type of the tensor of that last name component, or null; null also
    /// for codes and scales in one.
    ::mlir::RankedTensorType getTensor(::llvm::StringRef name) const;
    /// The same, with those.
    ::mlir::Type getTensorType(::llvm::StringRef name) const;
    bool isIgnored() const { return getDeclared().starts_with("ignored"); }
  }];
}

def Q_MethodAttr : Q_Attr<"Method", "method"> {
  let summary = "the quantisation method of one operator, as stored";
  let description = [{
    What the checkpoint's codes mean (C1-C15): the registry name, the granularity and dtype of the stored scales and the activation scheme
    (`none`, `static` or `dynamic`). Wrong: `activation = static` with a block granularity (C5), `weight = per_token`.

    ```mlir
    #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>
    #q.method<"unquantized">
    ```
  }];
  let parameters = (ins StringRefParameter<"registry name">:$name, OptionalParameter<"::octet::q::GranularityAttr">:$weight,
                        OptionalParameter<"::mlir::Type">:$scale, "::octet::q::ActivationScheme":$activation);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isQuantized() const { return bool(getWeight()); }
    static MethodAttr getUnquantized(::mlir::MLIRContext *context);
  }];
}

def Q_ContractAttr : Q_Attr<"Contract", "contract"> {
  let summary = "operand contract of one operator: what its kernel reads";
  let description = [{
    Follows from method x target (B1-B4, B6), before any kernel is chosen: granularity of the weight, its codes (where they are not f8E4M3FN), scale
    dtype, and granularity of the quantised activation (`none`: the activation stays as it is, weight-only), static or dynamic, power-of-two scales or
    not, the largest amax that a scale follows (`bound`, of fbgemm_fp8), and the layout that loading brings the weight into. The activation's
    codes are i8 beside i8, f4E2M1FN beside NVFP4, f8E4M3FN otherwise. `group<16> static` is NVFP4's: groups below a stored scale (N7).

    A kernel may read the activation's scales in another order than row by row (B1): `column_major_scales`, f32, for bulk copies on sm_90;
    `ue8m0_packed`, four exponents a word, for block-scaled products on sm_100. The CPU reads rows, whichever target's numbers it follows.

    A static scale goes with `per_tensor` and nothing else (B5), blocks of the weight with blocks of the activation along the same K
    (P3, N6). Wrong: `weight = block<128x128>, … activation = per_token`; `activation = block<1x64>` for it; `activation = per_tensor`
    without `static`.

    ```mlir
    #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
    #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> ue8m0>
    #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>
    #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0 ue8m0_packed>
    #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>
    #q.contract<weight = per_channel, scale = f32, activation = per_token>
    #q.contract<weight = block<128x128>, scale = f32, activation = none>
    #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>
    #q.contract<weight = per_channel, scale = f32, activation = per_token bound 1.2e+03>
    #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = none, layout = weight_only>
    #q.contract<weight = group<16>, codes = f4E2M1FN, scale = f8E4M3FN, activation = group<16> static, layout = packed>
    #q.contract<none>
    ```
  }];
  let parameters = (ins OptionalParameter<"::octet::q::GranularityAttr">:$weight, OptionalParameter<"::mlir::Type">:$scale,
                        OptionalParameter<"::octet::q::GranularityAttr">:$activation, "bool":$isStatic, "bool":$ue8m0,
                        OptionalParameter<"::mlir::Type">:$codes, OptionalParameter<"::mlir::FloatAttr">:$bound,
                        DefaultValuedParameter<"::octet::q::Layout", "::octet::q::Layout::Plain">:$layout,
                        DefaultValuedParameter<"::octet::q::Layout", "::octet::q::Layout::Plain">:$activationLayout);
  let builders = [
    AttrBuilder<(ins "GranularityAttr":$weight, "::mlir::Type":$scale, "GranularityAttr":$activation, "bool":$isStatic, "bool":$ue8m0), [{
      return $_get($_ctxt, weight, scale, activation, isStatic, ue8m0, ::mlir::Type(), ::mlir::FloatAttr(), Layout::Plain, Layout::Plain);
    }]>,
    AttrBuilder<(ins "GranularityAttr":$weight, "::mlir::Type":$scale, "GranularityAttr":$activation, "bool":$isStatic, "bool":$ue8m0, "::mlir::Type":$codes,
                     "::mlir::FloatAttr":$bound, "Layout":$layout), [{
      return $_get($_ctxt, weight, scale, activation, isStatic, ue8m0, codes, bound, layout, Layout::Plain);
    }]>
  ];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isQuantized() const { return bool(getWeight()); }
    bool quantizesActivation() const { return bool(getActivation()); }
    /// The weight's codes: f8E4M3FN where the contract names no others; null of
    /// groups of integers, which are as they are stored.
    ::mlir::Type getStorage() const;
    /// The activation's codes: i8 beside i8, f8E4M3FN otherwise.
    ::mlir::Type getActivationStorage() const;
    /// A weight of that type is what the kernel reads.
    bool accepts(TensorType weight) const;
    ContractAttr withWeight(GranularityAttr weight) const;
    ContractAttr withActivationLayout(Layout layout) const;
  }];
}

//===----------------------------------------------------------------------===//
// What one rank holds
//===----------------------------------------------------------------------===//

def Q_Side : Q_Enum<"Side", "what a slice cuts", [
  I32EnumAttrCase<"Experts", 0, "experts">,
  I32EnumAttrCase<"Rows", 1, "rows">,
  I32EnumAttrCase<"Cols", 2, "cols">,
]>;
def Q_Fit : Q_Enum<"Fit", "how a slice lies in its tensor", [
  I32EnumAttrCase<"Exact", 0, "exact">,
  I32EnumAttrCase<"Padded", 1, "padded">,
  I32EnumAttrCase<"Short", 2, "short">,
]>;

def Q_SliceAttr : Q_Attr<"Slice", "slice"> {
  let summary = "the part of a tensor that one rank holds";
  let description = [{
    ```
    slice ::= `#q.slice` `<` (`experts` | `rows` | `cols`) int `at` affine-map (`,` (`padded` | `short`))? (`,` `own` `=` int `of` int)? `>`
    ```

    Of the rank r it is `size` experts, rows or columns from `first(r)` on. It begins and ends on edges of scale blocks, groups and packed words
    (W3), unless it is the whole tensor. `short`: what lies behind the tensor's end is zero, so that the last ranks have less (W3b). `padded`: `own`
    rows or columns from `first(r)` on are the rank's own; the slice begins where the block (`own = … of BLOCK`) of the first of them does, has whole
    blocks, and what is not the rank's own is zero (`--split-blocks pad`, W3).

    ```mlir
    #q.slice<rows 512 at affine_map<(d0) -> (d0 * 512)>>
    #q.slice<rows 128 at affine_map<(d0) -> (d0 floordiv 2 * 128)>>             two ranks a KV head (W3b)
    #q.slice<rows 16032 at affine_map<(d0) -> (d0 * 16032)>, short>             a vocabulary
    #q.slice<cols 640 at affine_map<(d0) -> (d0 * 576)>, padded, own = 576 of 128>
    ```
  }];
  let parameters = (ins "::octet::q::Side":$side, "int64_t":$size, "::mlir::AffineMapAttr":$first,
                        DefaultValuedParameter<"::octet::q::Fit", "::octet::q::Fit::Exact">:$fit, DefaultValuedParameter<"int64_t", "0">:$own,
                        DefaultValuedParameter<"int64_t", "0">:$block);
  let assemblyFormat = "`<` $side $size `at` $first (`,` $fit^)? (`,` `own` `=` $own^ `of` $block)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Of what a rank has, how much is its own.
    int64_t getOwnSize() const { return getFit() == Fit::Padded ? getOwn() : getSize(); }
  }];
}

#endif // OCTET_DIALECTS_QUANT_QUANTTYPES_TD
