// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

// Weights whose codes share words, as checkpoints store them: AWQ, GPTQ with
// act-order, pack-quantized, MXFP4 and NVFP4 (N7, W1).
// CHECK-LABEL: func.func private @types
//  CHECK-SAME: !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>
//  CHECK-SAME: !q.tensor<64x256xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>
//  CHECK-SAME: !q.tensor<64x256xi8, per_channel, f16, zero_points, layout = packed_k>
//  CHECK-SAME: !q.tensor<96x130xi4, group<32>, bf16, zero_points, act_order, shards = [64, 32], layout = packed>
//  CHECK-SAME: !q.tensor<64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
//  CHECK-SAME: !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
//  CHECK-SAME: !q.tensor<8x64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
func.func private @types(
  !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>,
  !q.tensor<64x256xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>,
  !q.tensor<64x256xi8, per_channel, f16, zero_points, layout = packed_k>,
  !q.tensor<96x130xi4, group<32>, bf16, zero_points, act_order, shards = [64, 32], layout = packed>,
  !q.tensor<64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>,
  !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>,
  !q.tensor<8x64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>)

// They are weights only (B4).
// CHECK-LABEL: func.func private @contract
//  CHECK-SAME: #q.contract<weight = group<128>, codes = i4, scale = f16, activation = none, layout = tiled>
func.func private @contract() attributes {
  contract = #q.contract<weight = group<128>, codes = i4, scale = f16, activation = none, layout = tiled>}

// Each part has the shape that the type implies: AWQ along N, GPTQ along K, and
// groups first in both (W1).
// CHECK-LABEL: func.func @load
//       CHECK:   q.pack {{.*}} zeros({{.*}} : tensor<2x8xi32>) : tensor<256x8xi32>, tensor<2x64xf16> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>
//       CHECK:   q.repack {{.*}} -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = tiled>
//       CHECK:   q.pack {{.*}} zeros({{.*}} : tensor<2x8xi32>) order({{.*}} : tensor<256xi32>) : tensor<32x64xi32>, tensor<2x64xf16>
//       CHECK:   q.repack {{.*}} -> !q.tensor<64x256xi4, group<128>, f16, zero_points, act_order, layout = tiled>
//       CHECK:   q.pack {{.*}} zeros({{.*}} : tensor<8x5xi32>) : tensor<64x17xi32>, tensor<64x5xbf16>
//       CHECK:   q.repack {{.*}} -> !q.tensor<64x130xi4, group<32>, f32, zero_points, layout = tiled>
//       CHECK:   q.pack {{.*}} global({{.*}} : tensor<1xf32>) : tensor<64x128xui8>, tensor<64x16xf8E4M3FN>
//       CHECK:   q.repack {{.*}} -> !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = tiled>
//       CHECK:   q.pack {{.*}} : tensor<64x128xi8>, tensor<64x8xui8> -> !q.tensor<64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
func.func @load() {
  %c = q.load "a" weight "qweight" : tensor<256x8xi32>
  %s = q.load "a" weight "scales" : tensor<2x64xf16>
  %z = q.load "a" weight "qzeros" : tensor<2x8xi32>
  %awq = q.pack %c, %s zeros(%z : tensor<2x8xi32>) : tensor<256x8xi32>, tensor<2x64xf16> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>
  q.check_scales %awq : !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq>
  %t = q.repack %awq : !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = awq> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, layout = tiled>
  %ck = q.load "b" weight "qweight" : tensor<32x64xi32>
  %o = q.load "b" weight "g_idx" : tensor<256xi32>
  %gptq = q.pack %ck, %s zeros(%z : tensor<2x8xi32>) order(%o : tensor<256xi32>) : tensor<32x64xi32>, tensor<2x64xf16> -> !q.tensor<64x256xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>
  %tk = q.repack %gptq : !q.tensor<64x256xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k> -> !q.tensor<64x256xi4, group<128>, f16, zero_points, act_order, layout = tiled>
  %cr = q.load "c" weight "weight_packed" : tensor<64x17xi32>
  %sr = q.load "c" weight "weight_scale" : tensor<64x5xbf16>
  %zr = q.load "c" weight "weight_zero_point" : tensor<8x5xi32>
  %rows = q.pack %cr, %sr zeros(%zr : tensor<8x5xi32>) : tensor<64x17xi32>, tensor<64x5xbf16> -> !q.tensor<64x130xi4, group<32>, bf16, zero_points, layout = packed>
  %tr = q.repack %rows : !q.tensor<64x130xi4, group<32>, bf16, zero_points, layout = packed> -> !q.tensor<64x130xi4, group<32>, f32, zero_points, layout = tiled>
  %cn = q.load "d" weight "weight_packed" : tensor<64x128xui8>
  %sn = q.load "d" weight "weight_scale" : tensor<64x16xf8E4M3FN>
  %g = q.load "d" weight "weight_global_scale" : tensor<1xf32>
  %nv = q.pack %cn, %sn global(%g : tensor<1xf32>) : tensor<64x128xui8>, tensor<64x16xf8E4M3FN> -> !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = divides, layout = packed>
  %tn = q.repack %nv : !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = divides, layout = packed> -> !q.tensor<64x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = tiled>
  %cm = q.load "e" weight "weight" : tensor<64x128xi8>
  %sm = q.load "e" weight "weight_scale" : tensor<64x8xui8>
  %mx = q.pack %cm, %sm : tensor<64x128xi8>, tensor<64x8xui8> -> !q.tensor<64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
  return
}

// Of GGUF's blocks, 4-bit ones become tiles.
// CHECK-LABEL: func.func @gguf
//       CHECK:   q.repack {{.*}} -> !q.tensor<64x64xi4, group<32>, f16, minimums, layout = tiled>
func.func @gguf() {
  %q = q.load "a.q" weight "weight" : !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf>
  %t = q.repack %q : !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf> -> !q.tensor<64x64xi4, group<32>, f16, minimums, layout = tiled>
  return
}
