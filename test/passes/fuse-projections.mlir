// RUN: octet-opt %s -octet-fuse-projections -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-fuse-projections=unfuse-mixed -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-fuse-projections -mlir-print-debuginfo -split-input-file | FileCheck %s --check-prefix=LOC

// Shards keep their widths, in the order of the operators, and each its stored
// facts (C8, W5b). 192 rows leave a ragged block (W4).
// CHECK-LABEL: func.func @block_qkv
//       CHECK:   %[[W:.+]] = model.weight ["a.{l}.q_proj", "a.{l}.k_proj", "a.{l}.v_proj"][%{{.+}}] "weight" stored
//  CHECK-SAME:     [#q.stored<{weight = tensor<192x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">, #q.stored<{weight = tensor<64x256xf8E4M3FN>
//  CHECK-SAME:     !q.tensor<320x256xf8E4M3FN, block<128x128>, f32, shards = [192, 64, 64]>
//       CHECK:   %[[Y:.+]] = model.linear %{{.+}}, %[[W]] {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>, module = "a.{l}.qkv_proj"}
//  CHECK-SAME:     -> tensor<?x320xbf16>
//       CHECK:   %[[P:.+]]:3 = model.split %[[Y]] : tensor<?x320xbf16> -> tensor<?x192xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>
//       CHECK:   return %[[P]]#0, %[[P]]#1, %[[P]]#2
//   CHECK-NOT:   model.weight
// LOC: model.split {{.*}} loc(#[[LOC:.+]])
// LOC: #[[LOC]] = loc(fused[#{{.+}}, #{{.+}}, #{{.+}}])
func.func @block_qkv(%l: index, %x: tensor<?x256xbf16>) -> (tensor<?x192xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>) {
  %wq = model.weight ["a.{l}.q_proj"][%l] "weight" stored [#q.stored<{weight = tensor<192x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] : !q.tensor<192x256xf8E4M3FN, block<128x128>, f32>
  %q = model.linear %x, %wq {module = "a.{l}.q_proj", fused = "a.{l}.qkv_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x256xbf16>, !q.tensor<192x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x192xbf16>
  %wk = model.weight ["a.{l}.k_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  %k = model.linear %x, %wk {module = "a.{l}.k_proj", fused = "a.{l}.qkv_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x256xbf16>, !q.tensor<64x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
  %wv = model.weight ["a.{l}.v_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  %v = model.linear %x, %wv {module = "a.{l}.v_proj", fused = "a.{l}.qkv_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x256xbf16>, !q.tensor<64x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
  return %q, %k, %v : tensor<?x192xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>
}

// -----

// One scale a shard becomes one a channel in the contract; the weight still has
// the stored granularity, W7 comes with loading (B3).
// CHECK-LABEL: func.func @b3_per_tensor_becomes_per_channel
//       CHECK:   model.linear {{.*}} {contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>, module = "a.gate_up_proj"}
//  CHECK-SAME:     !q.tensor<512x128xf8E4M3FN, per_tensor, f32, shards = [256, 256]>
func.func @b3_per_tensor_becomes_per_channel(%x: tensor<?x128xbf16>) -> tensor<?x256xbf16> {
  %wg = model.weight ["a.gate_proj"] "weight" stored [#q.stored<{weight = tensor<256x128xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">] : !q.tensor<256x128xf8E4M3FN, per_tensor, f32>
  %g = model.linear %x, %wg {module = "a.gate_proj", fused = "a.gate_up_proj", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x128xbf16>, !q.tensor<256x128xf8E4M3FN, per_tensor, f32> -> tensor<?x256xbf16>
  %wu = model.weight ["a.up_proj"] "weight" stored [#q.stored<{weight = tensor<256x128xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">] : !q.tensor<256x128xf8E4M3FN, per_tensor, f32>
  %u = model.linear %x, %wu {module = "a.up_proj", fused = "a.gate_up_proj", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x128xbf16>, !q.tensor<256x128xf8E4M3FN, per_tensor, f32> -> tensor<?x256xbf16>
  %s = model.swiglu %g, %u : tensor<?x256xbf16>
  return %s : tensor<?x256xbf16>
}

// -----

// Unquantised shards are fused too, and their biases with them; one row each is
// the smallest there is.
// CHECK-LABEL: func.func @plain_with_biases
//   CHECK-DAG:   %[[W:.+]] = model.weight ["a.gate_proj", "a.up_proj"] "weight" {{.*}} : tensor<2x8xbf16>
//   CHECK-DAG:   %[[B:.+]] = model.weight ["a.gate_proj", "a.up_proj"] "bias" {{.*}} : tensor<2xbf16>
//       CHECK:   model.linear %{{.+}}, %[[W]] bias(%[[B]] : tensor<2xbf16>) {module = "a.gate_up_proj"}
func.func @plain_with_biases(%x: tensor<?x8xbf16>) -> tensor<?x1xbf16> {
  %wg = model.weight ["a.gate_proj"] "weight" stored [#q.stored<{weight = tensor<1x8xbf16>, bias = tensor<1xbf16>}, "">] : tensor<1x8xbf16>
  %bg = model.weight ["a.gate_proj"] "bias" stored [#q.stored<{weight = tensor<1x8xbf16>, bias = tensor<1xbf16>}, "">] : tensor<1xbf16>
  %g = model.linear %x, %wg bias(%bg : tensor<1xbf16>) {module = "a.gate_proj", fused = "a.gate_up_proj"} : tensor<?x8xbf16>, tensor<1x8xbf16> -> tensor<?x1xbf16>
  %wu = model.weight ["a.up_proj"] "weight" stored [#q.stored<{weight = tensor<1x8xbf16>, bias = tensor<1xbf16>}, "">] : tensor<1x8xbf16>
  %bu = model.weight ["a.up_proj"] "bias" stored [#q.stored<{weight = tensor<1x8xbf16>, bias = tensor<1xbf16>}, "">] : tensor<1xbf16>
  %u = model.linear %x, %wu bias(%bu : tensor<1xbf16>) {module = "a.up_proj", fused = "a.gate_up_proj"} : tensor<?x8xbf16>, tensor<1x8xbf16> -> tensor<?x1xbf16>
  %s = model.swiglu %g, %u : tensor<?x1xbf16>
  return %s : tensor<?x1xbf16>
}

// -----

// Nothing changes: no fused module, a shard by itself (--extract), shards of
// different inputs.
// CHECK-LABEL: func.func @unchanged
//       CHECK:   model.linear {{.*}} {module = "a.o_proj"}
//       CHECK:   model.linear {{.*}} {fused = "a.qkv_proj", module = "a.q_proj"}
//       CHECK:   model.linear {{.*}} {fused = "b.qkv_proj", module = "b.q_proj"}
//       CHECK:   model.linear {{.*}} {fused = "b.qkv_proj", module = "b.k_proj"}
//   CHECK-NOT:   model.split
func.func @unchanged(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %o = model.linear %x, %w {module = "a.o_proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  %q = model.linear %o, %w {module = "a.q_proj", fused = "a.qkv_proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  %r = model.linear %q, %w {module = "b.q_proj", fused = "b.qkv_proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  %k = model.linear %r, %w {module = "b.k_proj", fused = "b.qkv_proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  return %k : tensor<?x8xbf16>
}
