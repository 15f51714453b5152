//===- KernelDialect.td - The kernel dialect ---------------*- tablegen -*-===//
//
// Part of the Octet project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OCTET_DIALECTS_KERNEL_KERNELDIALECT_TD
#define OCTET_DIALECTS_KERNEL_KERNELDIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def KernelDialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::octet::kernel";
  let summary = "Instances of device kernels with all their constants";
  let description = [{
    An operator of this dialect is one launch: a fused row kernel (`kernel.rowwise`, whose region is its only definition for every target), a
    product or an attention. Until plan-buffers results are tensors; after it every operator writes the `!kernel.buffer` destinations it was
    given, each a fixed place in the arena.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::octet::q::QuantDialect", "::octet::model::ModelDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def Kernel_BufferType : TypeDef<KernelDialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "place in the arena";
  let description = [{
    Room for a value of `type` (a tensor or `!q.tensor`, its leading dimension dynamic) of at most the program's rows a step.

    ```mlir
    !kernel.buffer<tensor<?x256xbf16>>
    !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
    ```
  }];
  let parameters = (ins "::mlir::Type":$type);
  let assemblyFormat = "`<` $type `>`";
  let genVerifyDecl = 1;
}

class Kernel_Enum<string name, string summary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::octet::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_Access : Kernel_Enum<"Access", "how a row reads an operand", [
  I32EnumAttrCase<"Row", 0, "row">,
  I32EnumAttrCase<"Uniform", 1, "uniform">,
  I32EnumAttrCase<"Indexed", 2, "indexed">,
]>;
def Kernel_AccessAttr : EnumAttr<KernelDialect, Kernel_Access, "access">;
def Kernel_Domain : Kernel_Enum<"Domain", "which rows of the batch", [
  I32EnumAttrCase<"Tokens", 0, "tokens">,
  I32EnumAttrCase<"Outputs", 1, "outputs">,
]>;
def Kernel_DomainAttr : EnumAttr<KernelDialect, Kernel_Domain, "domain"> { let assemblyFormat = "$value"; }
def Kernel_Reduction : Kernel_Enum<"Reduction", "associative operation", [
  I32EnumAttrCase<"Add", 0, "add">,
  I32EnumAttrCase<"Max", 1, "max">,
]>;
def Kernel_ReductionAttr : EnumAttr<KernelDialect, Kernel_Reduction, "reduction"> { let assemblyFormat = "$value"; }

#endif // OCTET_DIALECTS_KERNEL_KERNELDIALECT_TD
