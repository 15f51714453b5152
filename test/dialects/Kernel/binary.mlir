// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --mlir-elide-resource-strings-if-larger=8 | FileCheck %s --check-prefix=ELIDED

// A function with its source, its machine code and, where the target has no
// suffix, PTX. A print may leave the machine code out and still be read.
// CHECK: kernel.binary @a for "sm_90a" {cubin = dense_resource<a> : tensor<4xi8>, source = "text"}
// CHECK: kernel.binary @b for "sm_80" {cubin = dense_resource<b> : tensor<2xi8>, ptx = ".version 9.0", source = "text"}
// CHECK: a: "0x100000007F454C46"
// CHECK: b: "0x100000000102"
// ELIDED: kernel.binary @a
// ELIDED-NOT: 7F454C46
kernel.binary @a for "sm_90a" {cubin = dense_resource<a> : tensor<4xi8>, source = "text"}
kernel.binary @b for "sm_80" {cubin = dense_resource<b> : tensor<2xi8>, source = "text", ptx = ".version 9.0"}

{-#
  dialect_resources: {
    builtin: {
      a: "0x100000007F454C46",
      b: "0x100000000102"
    }
  }
#-}
