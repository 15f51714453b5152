//===- ModelDialect.td - The model dialect -----------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELDIALECT_TD
#define OCTET_DIALECTS_MODEL_MODELDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def ModelDialect : Dialect {
  let name = "model";
  let cppNamespace = "::octet::model";
  let summary = "The operators of decoder models";
  let description = [{
    A value of this dialect is an activation `[rows, width]`, one row a token of the step, in the activation dtype (`--dtype`), or a
    weight as the checkpoint names it. An operator says *what* a decoder computes, in the arithmetic of SPEC section 5; nothing
    here says how it is tiled or where it lives.

    One function holds one kind of layer; its layer number is an operand, and module paths contain `{l}` for it. The step function loops over
    runs of equal layers. `!model.batch` is the step's batch of tokens, from which fields (ids, positions, …) are read.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let dependentDialects = ["::octet::q::QuantDialect", "::mlir::func::FuncDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect"];
}

def Model_BatchType : TypeDef<ModelDialect, "Batch"> {
  let mnemonic = "batch";
  let summary = "batch of tokens";
  let description = [{The tokens of one step: prefill chunks and decode rows of any mix.}];
}

def Model_SettingsAttr : AttrDef<ModelDialect, "Settings"> {
  let mnemonic = "settings";
  let summary = "what the user asked for";
  let description = [{
    The command line's choices that later passes need; a module attribute `model.settings`, so that no pass has a hidden input.

    ```mlir
    #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
      activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>
    ```
    Behind `batch_invariant` may stand `mla` (W12, default "auto"), `index_cache` (P9, "fp8"), `mtp` (draft layers that are built, W14, 0),
    `index_broadcast` (P10, true), `mxfp8_as` (B6, ""), `scale_format` (W11, "auto") and
    `split_blocks` (W3, "error").
  }];
  let parameters = (ins
    StringRefParameter<"cpu or sm_NN">:$target, StringRefParameter<"whose contracts">:$numerics, "::mlir::Type":$dtype,
    "int64_t":$tp, "int64_t":$ep, "int64_t":$dp, "int64_t":$max_context, "int64_t":$max_seqs, "int64_t":$max_step_tokens,
    StringRefParameter<"auto or off">:$activation_quant, StringRefParameter<"auto or a layout">:$kv_cache,
    StringRefParameter<"method named by the user">:$quantization, "bool":$unfuse_mixed, "bool":$requant_max, "bool":$batch_invariant,
    StringRefParameter<"auto, explicit or absorbed", "\"auto\"">:$mla, StringRefParameter<"fp8 or bf16", "\"fp8\"">:$index_cache,
    DefaultValuedParameter<"int64_t", "0">:$mtp, DefaultValuedParameter<"bool", "true">:$index_broadcast,
    StringRefParameter<"block, weight-only or empty", "\"\"">:$mxfp8_as, StringRefParameter<"auto or keep", "\"auto\"">:$scale_format,
    StringRefParameter<"error or pad", "\"error\"">:$split_blocks);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Model_Field : I32EnumAttr<"Field", "field of a batch", [
  I32EnumAttrCase<"Ids", 0, "ids">,
  I32EnumAttrCase<"Input", 1, "input">,
  I32EnumAttrCase<"Positions", 2, "positions">,
  I32EnumAttrCase<"Slots", 3, "slots">,
  I32EnumAttrCase<"OutputRows", 4, "output_rows">,
  I32EnumAttrCase<"DraftIds", 5, "draft_ids">,
  I32EnumAttrCase<"DraftHidden", 6, "draft_hidden">,
]> {
  let cppNamespace = "::octet::model";
  let genSpecializedAttr = 0;
}
def Model_FieldAttr : EnumAttr<ModelDialect, Model_Field, "field">;

def Model_Order : I32EnumAttr<"Order", "which rows stand together", [
  I32EnumAttrCase<"Token", 0, "token">,
  I32EnumAttrCase<"Expert", 1, "expert">,
]> {
  let cppNamespace = "::octet::model";
  let genSpecializedAttr = 0;
}

def Model_DispatchedType : TypeDef<ModelDialect, "Dispatched"> {
  let mnemonic = "dispatched";
  let summary = "rows on their way to experts";
  let description = [{
    ```
    dispatched ::= `!model.dispatched` `<` rows-type `,` `choices` `=` int `,` `by` (`token` | `expert`) `>`
    ```
    Each row of a step `choices` times, once for each expert of its token (P13): `by token` all of one token together, `by expert` all of one
    expert together, experts and then tokens ascending. A grouped product reads rows by expert, and the order is part of the type because the
    bytes do not say it (B7).

    Right: `!model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 8, by expert>`. Wrong: `choices = 0`; rows of a static number.
  }];
  let parameters = (ins "::mlir::Type":$rows, "int64_t":$choices, "::octet::model::Order":$order);
  let assemblyFormat = "`<` $rows `,` `choices` `=` $choices `,` `by` $order `>`";
  let genVerifyDecl = 1;
}

def Model_Score : I32EnumAttr<"Score", "what a router makes of its logits (P12)", [
  I32EnumAttrCase<"Softmax", 0, "softmax">,
  I32EnumAttrCase<"Sigmoid", 1, "sigmoid">,
  I32EnumAttrCase<"ChosenSoftmax", 2, "chosen_softmax">,
]> {
  let cppNamespace = "::octet::model";
  let genSpecializedAttr = 0;
}
def Model_ScoreAttr : EnumAttr<ModelDialect, Model_Score, "score">;

def Model_Gating : I32EnumAttr<"Gating", "the activation between an expert's matrices", [
  I32EnumAttrCase<"Swiglu", 0, "swiglu">,
  I32EnumAttrCase<"ClampedSwiglu", 1, "clamped_swiglu">,
]> {
  let cppNamespace = "::octet::model";
  let genSpecializedAttr = 0;
}
def Model_GatingAttr : EnumAttr<ModelDialect, Model_Gating, "gating">;

#endif // OCTET_DIALECTS_MODEL_MODELDIALECT_TD
