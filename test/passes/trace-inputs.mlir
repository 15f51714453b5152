// RUN: octet-opt %s -octet-trace-inputs | FileCheck %s

// What each linear reads is traced under its path, with the number of the layer;
// linears that read one value have a trace each, as they have a scale each (W2).
// CHECK-LABEL: func.func @p3_inputs
//  CHECK-SAME:   %[[X:.+]]: tensor<?x32xbf16>, %[[L:.+]]: index
//       CHECK:   model.trace "input.layers.{l}.gate_proj"[%[[L]]] %[[X]] : tensor<?x32xbf16>
//  CHECK-NEXT:   model.linear %[[X]]
//       CHECK:   model.trace "input.layers.{l}.up_proj"[%[[L]]] %[[X]]
//       CHECK:   %[[Y:.+]] = model.swiglu
//       CHECK:   model.trace "input.layers.{l}.down_proj"[%[[L]]] %[[Y]] : tensor<?x64xbf16>
//  CHECK-NEXT:   model.linear %[[Y]]
func.func @p3_inputs(%x: tensor<?x32xbf16>, %l: index) -> tensor<?x32xbf16> {
  %g = model.weight ["layers.{l}.gate_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  %0 = model.linear %x, %g {module = "layers.{l}.gate_proj"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  %u = model.weight ["layers.{l}.up_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  %1 = model.linear %x, %u {module = "layers.{l}.up_proj"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  %y = model.swiglu %0, %1 : tensor<?x64xbf16>
  %d = model.weight ["layers.{l}.down_proj"][%l] "weight" stored [#q.stored<{weight = tensor<32x64xbf16>}, "">] : tensor<32x64xbf16>
  %z = model.linear %y, %d {module = "layers.{l}.down_proj"} : tensor<?x64xbf16>, tensor<32x64xbf16> -> tensor<?x32xbf16>
  return %z : tensor<?x32xbf16>
}

// A linear of no layer has the number 0. The input of lm_head is never quantised
// by us (P16).
// CHECK-LABEL: func.func @p16_no_layer
//       CHECK:   %[[C:.+]] = arith.constant 0 : index
//  CHECK-NEXT:   model.trace "input.a"[%[[C]]]
//   CHECK-NOT:   model.trace "input.lm_head"
func.func @p16_no_layer(%x: tensor<?x32xf32>) -> tensor<?x64xf32> {
  %a = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<32x32xbf16>}, "">] : tensor<32x32xbf16>
  %y = model.linear %x, %a {module = "a"} : tensor<?x32xf32>, tensor<32x32xbf16> -> tensor<?x32xf32>
  %h = model.weight ["lm_head"] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  %z = model.lm_head %y, %h {module = "lm_head"} : tensor<?x32xf32>, tensor<64x32xbf16> -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
