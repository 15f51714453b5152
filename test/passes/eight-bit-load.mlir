// RUN: octet-opt %s -octet-materialize-weights -split-input-file | FileCheck %s

// The exponents of MXFP8 are stored as bytes and stay them (N7).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[W:.+]] = q.load "a" weight "weight" scale "weight_scale_inv" {scale_type = ui8} : !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU>
//  CHECK-NEXT:   q.check_scales %[[W]]
//  CHECK-NEXT:   q.store %[[W]], @a
func.func @n7_mxfp8(%x: tensor<?x96xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<64x96xf8E4M3FN>, weight_scale_inv = tensor<64x3xui8>}, "">] : !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU>
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>, method = #q.method<"mxfp8", weight = block<1x32>, scale = f8E8M0FNU, activation = dynamic>} : tensor<?x96xbf16>, !q.tensor<64x96xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// As blocks: each shard is merged by itself, then joined (B6, W5b).
// CHECK-LABEL: func.func @load
//       CHECK:   q.load "a.q"
//       CHECK:   q.merge_scales %{{.+}} : !q.tensor<192x128xf8E4M3FN, block<1x32>, f8E8M0FNU> -> !q.tensor<192x128xf8E4M3FN, block<128x128>, f32>
//       CHECK:   q.load "a.k"
//       CHECK:   q.merge_scales
//       CHECK:   q.concat {{.*}} -> !q.tensor<256x128xf8E4M3FN, block<128x128>, f32, shards = [192, 64]>
func.func @b6_block(%x: tensor<?x128xbf16>) -> tensor<?x256xbf16> {
  %w = model.weight ["a.q", "a.k"] "weight" stored [#q.stored<{weight = tensor<192x128xf8E4M3FN>, weight_scale_inv = tensor<192x4xui8>}, "">, #q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale_inv = tensor<64x4xui8>}, "">] : !q.tensor<256x128xf8E4M3FN, block<1x32>, f8E8M0FNU, shards = [192, 64]>
  %y = model.linear %x, %w {module = "a.qkv_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> ue8m0>, method = #q.method<"mxfp8", weight = block<1x32>, scale = f8E8M0FNU, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<256x128xf8E4M3FN, block<1x32>, f8E8M0FNU, shards = [192, 64]> -> tensor<?x256xbf16>
  return %y : tensor<?x256xbf16>
}

// -----

// E5M2 with BF16 scales: widened, then rounded again at its own granularity (N8).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[W:.+]] = q.load "a" {{.*}} : !q.tensor<64x96xf8E5M2, per_channel, bf16>
//  CHECK-NEXT:   q.check_scales %[[W]]
//  CHECK-NEXT:   %[[V:.+]] = q.convert_scales %[[W]] : {{.*}} -> !q.tensor<64x96xf8E5M2, per_channel, f32>
//  CHECK-NEXT:   %[[U:.+]] = q.requantize %[[V]] : {{.*}} -> !q.tensor<64x96xf8E4M3FN, per_channel, f32>
//  CHECK-NEXT:   q.store %[[U]], @a
func.func @n8_e5m2(%x: tensor<?x96xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<64x96xf8E5M2>, weight_scale = tensor<64x1xbf16>}, "">] : !q.tensor<64x96xf8E5M2, per_channel, bf16>
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_channel, scale = bf16, activation = dynamic>} : tensor<?x96xbf16>, !q.tensor<64x96xf8E5M2, per_channel, bf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// FNUZ in blocks, then powers of two: two rewrites, one after the other (N8, W11).
// CHECK-LABEL: func.func @load
//       CHECK:   q.requantize %{{.+}} : !q.tensor<64x96xf8E4M3FNUZ, block<32x32>, f32> -> !q.tensor<64x96xf8E4M3FN, block<32x32>, f32>
//  CHECK-NEXT:   q.requantize %{{.+}} : !q.tensor<64x96xf8E4M3FN, block<32x32>, f32> -> !q.tensor<64x96xf8E4M3FN, block<32x32>, f8E8M0FNU>
func.func @n8_w11(%x: tensor<?x96xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<64x96xf8E4M3FNUZ>, weight_scale_inv = tensor<2x3xf32>}, "">] : !q.tensor<64x96xf8E4M3FNUZ, block<32x32>, f32>
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<32x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>, method = #q.method<"fp8", weight = block<32x32>, scale = f32, activation = dynamic>} : tensor<?x96xbf16>, !q.tensor<64x96xf8E4M3FNUZ, block<32x32>, f32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// One scale for two shards, the largest: joined first (W8).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[C:.+]] = q.concat {{.*}} -> !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
//  CHECK-NEXT:   %[[R:.+]] = q.requantize %[[C]] : {{.*}} -> !q.tensor<64x32xf8E4M3FN, per_tensor, f32>
//  CHECK-NEXT:   q.store %[[R]], @a.gate_up_proj
func.func @w8_largest(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">, #q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
  %y = model.linear %x, %w {module = "a.gate_up_proj", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// What is stored fused has one scale, and nothing is requantised (W8).
// CHECK-LABEL: func.func @load
//   CHECK-NOT:   q.requantize
//       CHECK:   q.store %{{.+}}, @a.qkv_proj
func.func @w8_fused(%x: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  %w = model.weight ["a.qkv_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
  %y = model.linear %x, %w {module = "a.qkv_proj", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, !q.tensor<32x32xf8E4M3FN, per_tensor, f32> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

// Quantised while loading with one scale for all shards: --requant-max (W10).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[C:.+]] = q.concat %{{.+}}, %{{.+}} : tensor<32x32xbf16>, tensor<16x32xbf16> -> tensor<48x32xbf16>
//  CHECK-NEXT:   %[[Q:.+]] = q.quantize %[[C]] : tensor<48x32xbf16> -> !q.tensor<48x32xf8E4M3FN, per_tensor, f32>
//  CHECK-NEXT:   q.store %[[Q]], @a.kv_proj
func.func @w10_one_scale(%x: tensor<?x32xbf16>) -> tensor<?x48xbf16> {
  %w = model.weight ["a.k", "a.v"] "weight" stored [#q.stored<{weight = tensor<32x32xbf16>}, "">, #q.stored<{weight = tensor<16x32xbf16>}, "">] : tensor<48x32xbf16>
  %y = model.linear %x, %w {module = "a.kv_proj", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_channel, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, tensor<48x32xbf16> -> tensor<?x48xbf16>
  return %y : tensor<?x48xbf16>
}

// -----

// INT8 per tensor, fused: a scale a shard is spread over its rows, as for FP8 (W7).
// CHECK-LABEL: func.func @load
//       CHECK:   q.expand_scales %{{.+}} : !q.tensor<64x32xi8, per_tensor, f32, shards = [32, 32]> -> !q.tensor<64x32xi8, per_channel, f32, shards = [32, 32]>
func.func @w7_int8(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xi8>, weight_scale = tensor<f32>}, "">, #q.stored<{weight = tensor<32x32xi8>, weight_scale = tensor<f32>}, "">] : !q.tensor<64x32xi8, per_tensor, f32, shards = [32, 32]>
  %y = model.linear %x, %w {module = "a.gate_up_proj", contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>, method = #q.method<"w8a8_int8", weight = per_tensor, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, !q.tensor<64x32xi8, per_tensor, f32, shards = [32, 32]> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
