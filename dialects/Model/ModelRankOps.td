//===- ModelRankOps.td - What ranks do with their rows -----*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_MODEL_MODELRANKOPS_TD
#define OCTET_DIALECTS_MODEL_MODELRANKOPS_TD

// ModelOps.td includes this file at its end. Sums and broadcasts over ranks
// stand with the sparse operators (all_reduce, all_gather, broadcast).
//
// Rank r is rank r mod tp of data-parallel group r / tp (W3c).

def Model_GatherTokensOp : Model_Op<"gather_tokens", [AllTypesMatch<["input", "result"]>]> {
  let summary = "The rows of all data-parallel groups";
  let description = [{
    The rows of group 0, then of group 1, …: experts stand on all ranks, tokens on those of their group (W3c). Codes travel with their scales (P13); nothing
    is rounded. `groups` is dp.

    ```mlir
    %y = model.gather_tokens %x {groups = 2 : i64, module = "model.layers.{l}.mlp.experts"} : tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Q_TensorType, AnyRankedTensor]>:$input, I64Attr:$groups, StrAttr:$module);
  let results = (outs AnyTypeOf<[Q_TensorType, AnyRankedTensor]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Model_ScatterSumOp : Model_Op<"scatter_sum", [SameOperandsAndResultType]> {
  let summary = "The own group's rows of the sum of all ranks' rows";
  let description = [{
    `y = round(sum over ranks of x)`, in FP32 and rank order, of which each rank keeps the rows of its group: the inverse of `model.gather_tokens`. Never in FP8
    (P15). `ranks` are all, `groups` is dp.

    ```mlir
    %y = model.scatter_sum %x {ranks = 16 : i64, groups = 2 : i64, module = "model.layers.{l}.mlp.experts"} : tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, I64Attr:$ranks, I64Attr:$groups, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Model_OwnColumnsOp : Model_Op<"own_columns", [Pure]> {
  let summary = "A row without what a padded weight added to it";
  let description = [{
    A weight whose rows are padded to whole blocks gives columns that are zero (`--split-blocks pad`, W3). Of rank r's row the columns from
    `first(r) mod block` on are its own: as many as the result has.

    ```mlir
    %y = model.own_columns %x {first = affine_map<(d0) -> (d0 * 192)>, block = 128 : i64, module = "a.q_proj"} : tensor<?x256xbf16> -> tensor<?x192xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, AffineMapAttr:$first, I64Attr:$block, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def Model_PlaceColumnsOp : Model_Op<"place_columns", [Pure]> {
  let summary = "A row with zeros where a padded weight has them";
  let description = [{
    The inverse of `model.own_columns`: rank r's row stands in the result from column `first(r) mod block` on, with zeros before and behind.

    ```mlir
    %y = model.place_columns %x {first = affine_map<(d0) -> (d0 * 192)>, block = 128 : i64, module = "a.o_proj"} : tensor<?x192xbf16> -> tensor<?x256xbf16>
    ```
  }];
  let arguments = (ins Model_Plain:$input, AffineMapAttr:$first, I64Attr:$block, StrAttr:$module);
  let results = (outs Model_Plain:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif // OCTET_DIALECTS_MODEL_MODELRANKOPS_TD
