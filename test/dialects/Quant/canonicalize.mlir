// RUN: octet-opt %s -canonicalize | FileCheck %s

!w = !q.tensor<576x7168xf8E4M3FN, block<128x128>, f32>

// CHECK-LABEL: func.func @unpack_of_pack
//  CHECK-SAME: %[[CODES:.+]]: tensor<576x7168xf8E4M3FN>, %[[SCALE:.+]]: tensor<5x56xf32>
//  CHECK-NEXT:   return %[[CODES]], %[[SCALE]]
func.func @unpack_of_pack(%codes: tensor<576x7168xf8E4M3FN>, %scale: tensor<5x56xf32>) -> (tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>) {
  %w = q.pack %codes, %scale : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !w
  %c, %s = q.unpack %w : !w -> tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
  return %c, %s : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
}

// CHECK-LABEL: func.func @pack_of_unpack
//  CHECK-SAME: %[[W:.+]]: !q.tensor
//  CHECK-NEXT:   return %[[W]]
func.func @pack_of_unpack(%w: !w) -> !w {
  %c, %s = q.unpack %w : !w -> tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
  %v = q.pack %c, %s : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !w
  return %v : !w
}

// The same parts under another granularity are another matrix: 5 rows of scales
// are blocks of 128 rows here and of 120 there.
// CHECK-LABEL: func.func @pack_to_another_type
//       CHECK:   q.unpack
//       CHECK:   q.pack
func.func @pack_to_another_type(%w: !w) -> !q.tensor<576x7168xf8E4M3FN, block<120x128>, f32> {
  %c, %s = q.unpack %w : !w -> tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
  %v = q.pack %c, %s : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !q.tensor<576x7168xf8E4M3FN, block<120x128>, f32>
  return %v : !q.tensor<576x7168xf8E4M3FN, block<120x128>, f32>
}

// CHECK-LABEL: func.func @parts_of_two_matrices
//       CHECK:   q.pack
func.func @parts_of_two_matrices(%w: !w, %x: !w) -> !w {
  %c, %s = q.unpack %w : !w -> tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
  %d, %t = q.unpack %x : !w -> tensor<576x7168xf8E4M3FN>, tensor<5x56xf32>
  %v = q.pack %c, %t : tensor<576x7168xf8E4M3FN>, tensor<5x56xf32> -> !w
  return %v : !w
}

// CHECK-LABEL: func.func @convert_to_the_same
//  CHECK-SAME: %[[W:.+]]: !q.tensor
//  CHECK-NEXT:   return %[[W]]
func.func @convert_to_the_same(%w: !w) -> !w {
  %v = q.convert_scales %w : !w -> !w
  return %v : !w
}

// CHECK-LABEL: func.func @convert_that_widens
//       CHECK:   q.convert_scales
func.func @convert_that_widens(%w: !q.tensor<64x256xf8E4M3FN, per_channel, bf16>) -> !q.tensor<64x256xf8E4M3FN, per_channel, f32> {
  %v = q.convert_scales %w : !q.tensor<64x256xf8E4M3FN, per_channel, bf16> -> !q.tensor<64x256xf8E4M3FN, per_channel, f32>
  return %v : !q.tensor<64x256xf8E4M3FN, per_channel, f32>
}

// CHECK-LABEL: func.func @concat_of_one
//  CHECK-SAME: %[[W:.+]]: !q.tensor
//  CHECK-NEXT:   return %[[W]]
func.func @concat_of_one(%w: !w) -> !w {
  %v = q.concat %w : !w -> !w
  return %v : !w
}

// CHECK-LABEL: func.func @max_of_one
//  CHECK-SAME: %[[S:.+]]: tensor<f32>
//  CHECK-NEXT:   return %[[S]]
func.func @max_of_one(%s: tensor<f32>) -> tensor<f32> {
  %m = q.max %s : tensor<f32> -> tensor<f32>
  return %m : tensor<f32>
}

// Widening to F32 stays.
// CHECK-LABEL: func.func @max_of_one_bf16
//       CHECK:   q.max
func.func @max_of_one_bf16(%s: tensor<bf16>) -> tensor<f32> {
  %m = q.max %s : tensor<bf16> -> tensor<f32>
  return %m : tensor<f32>
}

// Rounding is no inverse of widening (N9).
// CHECK-LABEL: func.func @quantize_stays
//       CHECK:   q.quantize
//       CHECK:   q.dequantize
func.func @quantize_stays(%x: tensor<?x256xbf16>) -> tensor<?x256xbf16> {
  %q = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  %y = q.dequantize %q : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// A load may fail and a store is seen: both stay, and loads are not merged.
// CHECK-LABEL: func.func @load_stays
// CHECK-COUNT-2: q.load
//         CHECK: q.check_scales
q.slot @s[1] : !w
func.func @load_stays() {
  %a = q.load "a.b" weight "weight" scale "weight_scale_inv" : !w
  %b = q.load "a.b" weight "weight" scale "weight_scale_inv" : !w
  q.check_scales %a : !w
  q.store %b, @s : !w
  return
}
