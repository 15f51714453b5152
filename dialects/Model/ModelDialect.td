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
  }];
  let parameters = (ins
    StringRefParameter<"cpu or sm_NN">:$target, StringRefParameter<"whose contracts">:$numerics, "::mlir::Type":$dtype,
    "int64_t":$tp, "int64_t":$ep, "int64_t":$dp, "int64_t":$max_context, "int64_t":$max_seqs, "int64_t":$max_step_tokens,
    StringRefParameter<"auto or off">:$activation_quant, StringRefParameter<"auto or a layout">:$kv_cache,
    StringRefParameter<"method named by the user">:$quantization, "bool":$unfuse_mixed, "bool":$requant_max, "bool":$batch_invariant);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Model_Field : I32EnumAttr<"Field", "field of a batch", [
  I32EnumAttrCase<"Ids", 0, "ids">,
  I32EnumAttrCase<"Input", 1, "input">,
  I32EnumAttrCase<"Positions", 2, "positions">,
  I32EnumAttrCase<"Slots", 3, "slots">,
  I32EnumAttrCase<"OutputRows", 4, "output_rows">,
]> {
  let cppNamespace = "::octet::model";
  let genSpecializedAttr = 0;
}
def Model_FieldAttr : EnumAttr<ModelDialect, Model_Field, "field">;

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
