// RUN: octet-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @round_of_round
//       CHECK:   %[[R:.+]] = kernel.round
//  CHECK-NEXT:   kernel.yield %[[R]] : tensor<64xf32>
func.func @round_of_round(%b: !model.batch, %x: tensor<?x64xf32>) -> tensor<?x64xbf16> {
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xf32>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %0 = kernel.round %r to bf16 : tensor<64xf32>
    %1 = kernel.round %0 to bf16 : tensor<64xf32>
    kernel.yield %1 : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// A value that was read as BF16, or moved after it was rounded, is exact in it.
// CHECK-LABEL: func.func @round_of_what_is_exact
//   CHECK-NOT:   kernel.round
//       CHECK:   return
func.func @round_of_what_is_exact(%b: !model.batch, %x: tensor<?x64xbf16>) -> tensor<?x32xbf16> {
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %0 = kernel.slice %r at 32 : tensor<64xf32> -> tensor<32xf32>
    %1 = kernel.round %0 to bf16 : tensor<32xf32>
    kernel.yield %1 : tensor<32xf32>
  } -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// F16 holds values that BF16 does not, and the reverse: both stay (N9).
// CHECK-LABEL: func.func @n9_round_to_another_type
//       CHECK:   kernel.round %{{.+}} to f16
//       CHECK:   kernel.round %{{.+}} to bf16
func.func @n9_round_to_another_type(%b: !model.batch, %x: tensor<?x64xf32>) -> tensor<?x64xbf16> {
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xf32>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %0 = kernel.round %r to f16 : tensor<64xf32>
    %1 = kernel.round %0 to bf16 : tensor<64xf32>
    kernel.yield %1 : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// The sum of two rounded values is not rounded (N9).
// CHECK-LABEL: func.func @n9_round_of_a_sum
//       CHECK:   arith.addf
//       CHECK:   kernel.round
func.func @n9_round_of_a_sum(%b: !model.batch, %x: tensor<?x64xbf16>) -> tensor<?x64xbf16> {
  %y = kernel.rowwise "r" tokens of %b ins(%x : tensor<?x64xbf16>) access [row] {
  ^bb0(%r: tensor<64xf32>):
    %0 = arith.addf %r, %r : tensor<64xf32>
    %1 = kernel.round %0 to bf16 : tensor<64xf32>
    kernel.yield %1 : tensor<64xf32>
  } -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
