// RUN: octet-opt %s | octet-opt | FileCheck %s

// A function with its source, its machine code and, where the target has no
// suffix, PTX.
// CHECK: kernel.binary @a for "sm_90a" {cubin = dense_resource<a> : tensor<4xi8>, source = "text"}
// CHECK: kernel.binary @b for "sm_80" {cubin = dense_resource<b> : tensor<2xi8>, ptx = ".version 9.0", source = "text"}
// CHECK: a: "0x100000007F454C46"
// CHECK: b: "0x100000000102"
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
