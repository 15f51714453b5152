// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

// MXFP8 (N7), INT8 (N7), what checkpoints store and loading converts (N8), and
// the layouts of kernels: scales along rows, four exponents in a word, codes in
// the order of a weight-only kernel (B1, B4).
// CHECK-LABEL: func.func private @types
//  CHECK-SAME: !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>
//  CHECK-SAME: !q.tensor<64x256xi8, per_channel, f32>
//  CHECK-SAME: !q.tensor<?x256xi8, per_token, f32>
//  CHECK-SAME: !q.tensor<64x256xf8E5M2, block<128x128>, f32>
//  CHECK-SAME: !q.tensor<64x256xf8E4M3FNUZ, per_tensor, bf16>
//  CHECK-SAME: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>
//  CHECK-SAME: !q.tensor<64x256xf8E4M3FN, block<128x128>, f8E8M0FNU, layout = ue8m0_packed>
//  CHECK-SAME: !q.tensor<64x256xf8E4M3FN, block<128x128>, f32, layout = weight_only>
func.func private @types(
  !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>,
  !q.tensor<64x256xi8, per_channel, f32>,
  !q.tensor<?x256xi8, per_token, f32>,
  !q.tensor<64x256xf8E5M2, block<128x128>, f32>,
  !q.tensor<64x256xf8E4M3FNUZ, per_tensor, bf16>,
  !q.tensor<?x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>,
  !q.tensor<64x256xf8E4M3FN, block<128x128>, f8E8M0FNU, layout = ue8m0_packed>,
  !q.tensor<64x256xf8E4M3FN, block<128x128>, f32, layout = weight_only>)

// CHECK-LABEL: func.func private @contracts
//  CHECK-SAME: along_rows = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>
//  CHECK-SAME: bound = #q.contract<weight = per_channel, scale = f32, activation = per_token bound 1.200000e+03>
//  CHECK-SAME: exponents = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>
//  CHECK-SAME: in_words = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0 ue8m0_packed>
//  CHECK-SAME: int8 = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>
//  CHECK-SAME: repacked = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = none, layout = weight_only>
func.func private @contracts() attributes {
  along_rows = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> column_major_scales>,
  in_words = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0 ue8m0_packed>,
  bound = #q.contract<weight = per_channel, scale = f32, activation = per_token bound 1.2e3>,
  exponents = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>,
  int8 = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>,
  repacked = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = none, layout = weight_only>}

// A scale's shape in each layout follows from the type (W1): along rows, the
// rows rounded up to 4; four exponents of K in a word of each row.
// CHECK-LABEL: func.func @scale_shapes
//       CHECK:   tensor<70x256xf8E4M3FN>, tensor<2x72xf32>
//       CHECK:   tensor<70x1100xf8E4M3FN>, tensor<3x72xi32>
//       CHECK:   tensor<70x96xf8E4M3FN>, tensor<70x3xf8E8M0FNU>
func.func @scale_shapes(%a: !q.tensor<70x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales>,
                        %b: !q.tensor<70x1100xf8E4M3FN, block<128x128>, f8E8M0FNU, layout = ue8m0_packed>,
                        %c: !q.tensor<70x96xf8E4M3FN, block<1x32>, f8E8M0FNU>) {
  %0, %1 = q.unpack %a : !q.tensor<70x256xf8E4M3FN, block<1x128>, f32, layout = column_major_scales> -> tensor<70x256xf8E4M3FN>, tensor<2x72xf32>
  %2, %3 = q.unpack %b : !q.tensor<70x1100xf8E4M3FN, block<128x128>, f8E8M0FNU, layout = ue8m0_packed> -> tensor<70x1100xf8E4M3FN>, tensor<3x72xi32>
  %4, %5 = q.unpack %c : !q.tensor<70x96xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<70x96xf8E4M3FN>, tensor<70x3xf8E8M0FNU>
  return
}

// The exponents of MXFP8 are stored as bytes (N7).
// CHECK-LABEL: func.func @load_mxfp8
//       CHECK:   q.load "a" weight "weight" scale "weight_scale_inv" {scale_type = ui8} : !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU>
//       CHECK:   q.merge_scales {{.*}} -> !q.tensor<64x96xf8E4M3FN, block<32x64>, f32>
func.func @load_mxfp8() {
  %w = q.load "a" weight "weight" scale "weight_scale_inv" {scale_type = ui8} : !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU>
  %b = q.merge_scales %w : !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU> -> !q.tensor<64x96xf8E4M3FN, block<32x64>, f32>
  return
}

// N8, W8, W11: the three rewrites of q.requantize.
// CHECK-LABEL: func.func @requantize
// CHECK-COUNT-4: q.requantize
//       CHECK:   q.repack
func.func @requantize(%e5m2: !q.tensor<64x256xf8E5M2, per_channel, f32>, %fnuz: !q.tensor<64x256xf8E4M3FNUZ, block<128x128>, f32>,
                      %fused: !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 256]>,
                      %block: !q.tensor<256x384xf8E4M3FN, block<128x128>, f32>) {
  %0 = q.requantize %e5m2 : !q.tensor<64x256xf8E5M2, per_channel, f32> -> !q.tensor<64x256xf8E4M3FN, per_channel, f32>
  %1 = q.requantize %fnuz : !q.tensor<64x256xf8E4M3FNUZ, block<128x128>, f32> -> !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  %2 = q.requantize %fused : !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 256]> -> !q.tensor<512x128xf8E4M3FN, per_tensor, f32>
  %3 = q.requantize %block : !q.tensor<256x384xf8E4M3FN, block<128x128>, f32> -> !q.tensor<256x384xf8E4M3FN, block<128x128>, f8E8M0FNU>
  %4 = q.repack %3 : !q.tensor<256x384xf8E4M3FN, block<128x128>, f8E8M0FNU> -> !q.tensor<256x384xf8E4M3FN, block<128x128>, f8E8M0FNU, layout = ue8m0_packed>
  return
}

// INT8 activations (N7) and a bounded scale (P3).
// CHECK-LABEL: func.func @activations
//       CHECK:   q.quantize %{{.*}} : tensor<?x256xbf16> -> !q.tensor<?x256xi8, per_token, f32>
//       CHECK:   q.quantize %{{.*}} bound 1.200000e+03 : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, per_token, f32>
func.func @activations(%x: tensor<?x256xbf16>) {
  %0 = q.quantize %x : tensor<?x256xbf16> -> !q.tensor<?x256xi8, per_token, f32>
  %1 = q.quantize %x bound 1.2e3 : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, per_token, f32>
  return
}
