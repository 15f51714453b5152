// RUN: octet-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{'kernel.binary' op cubin is 'tensor<4xi8>', expected a resource of i8 [bytes]}}
kernel.binary @a for "sm_90a" {cubin = dense<0> : tensor<4xi8>, source = "text"}

// -----

// expected-error @+1 {{'kernel.binary' op cubin is 'tensor<2x2xi8>', expected a resource of i8 [bytes]}}
kernel.binary @a for "sm_90a" {cubin = dense_resource<a> : tensor<2x2xi8>, source = "text"}

// -----

// expected-error @+1 {{'kernel.binary' op cubin has 2 bytes, its type says 4}}
kernel.binary @a for "sm_90a" {cubin = dense_resource<a> : tensor<4xi8>, source = "text"}

{-#
  dialect_resources: {
    builtin: {
      a: "0x100000000102"
    }
  }
#-}
