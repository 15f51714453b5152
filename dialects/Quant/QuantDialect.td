//===- QuantDialect.td - The q dialect ---------------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_QUANT_QUANTDIALECT_TD
#define OCTET_DIALECTS_QUANT_QUANTDIALECT_TD

include "mlir/IR/OpBase.td"

def QuantDialect : Dialect {
  let name = "q";
  let cppNamespace = "::octet::q";
  let summary = "Quantised tensors with scales that are values of the program";
  let description = [{
    A value of this dialect *means* a matrix of real numbers that is stored as codes and scales:

    ```
    value[i, j] = decode(code[i, j]) * scale[row(i), col(j)]
    ```

    where the granularity of the type says which scale belongs to an element:
    `per_tensor` one for the matrix (one slot a shard), `per_channel` and
    `per_token` one a row, `block<bn x bk>` one for each block, edge blocks
    being short (W1, W4, W5b). The scale multiplies, whatever its name (W2).

    The dialect is called `q` because MLIR's `quant` keeps constant scales
    inside its types and refuses FP8 storage; a checkpoint's scales are tensors
    known at run time. One SSA value carries codes, scales and zero points;
    only `q.pack` and `q.unpack` join and split them.

    Operators of the load function (`q.load`, `q.check_scales`,
    `q.convert_scales`, `q.expand_scales`, `q.concat`, `q.max`,
    `q.kv_scales`, `q.store`) show line by line how a weight comes from the
    checkpoint into the slot that the step function reads with `q.weight`.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = [{
    /// Adds the types; their definitions are in QuantTypes.cpp.
    void registerTypes();
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // OCTET_DIALECTS_QUANT_QUANTDIALECT_TD
