// RUN: octet-opt %s -octet-materialize-weights -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-materialize-weights -octet-materialize-weights -split-input-file | FileCheck %s

// A weight of the model and a loop over the layers of a kind; the load function
// has the order of the step. The path keeps {l}, the index is the layer.
// CHECK-LABEL: module {
//   CHECK-DAG:   q.slot @embed_tokens[1] : tensor<64x128xbf16>
//   CHECK-DAG:   q.slot @layers.mlp.down_proj[5] used [3, 4] : !q.tensor<128x192xf8E4M3FN, block<128x128>, f32>
//       CHECK:   func.func @load(%{{.+}}: index)
//       CHECK:     %[[E:.+]] = q.load "model.embed_tokens" weight "weight" : tensor<64x128xbf16>
//       CHECK:     q.store %[[E]], @embed_tokens :
//       CHECK:     scf.for %[[L:.+]] = %c3 to %c5 step %c1
//       CHECK:       %[[W:.+]] = q.load "model.layers.{l}.mlp.down_proj"[%[[L]]] weight "weight" scale "weight_scale_inv" : !q.tensor<128x192xf8E4M3FN, block<128x128>, f32>
//  CHECK-NEXT:       q.check_scales %[[W]]
//  CHECK-NEXT:       q.store %[[W]], @layers.mlp.down_proj[%[[L]]]
// CHECK-LABEL: func.func private @layer(
//  CHECK-SAME:     %[[I:.+]]: index
//       CHECK:     q.weight @layers.mlp.down_proj[%[[I]]]
// CHECK-LABEL: func.func @step(
//       CHECK:     q.weight @embed_tokens :
//   CHECK-NOT:   model.weight
module {
  func.func private @layer(%l: index, %x: tensor<?x192xbf16>) -> tensor<?x128xbf16> {
    %w = model.weight ["model.layers.{l}.mlp.down_proj"][%l] "weight" stored [#q.stored<{weight = tensor<128x192xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : !q.tensor<128x192xf8E4M3FN, block<128x128>, f32>
    %y = model.linear %x, %w {module = "model.layers.{l}.mlp.down_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x192xbf16>, !q.tensor<128x192xf8E4M3FN, block<128x128>, f32> -> tensor<?x128xbf16>
    return %y : tensor<?x128xbf16>
  }
  func.func @step(%ids: tensor<?xi32>, %x: tensor<?x192xbf16>) {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c5 = arith.constant 5 : index
    %we = model.weight ["model.embed_tokens"] "weight" stored [#q.stored<{weight = tensor<64x128xbf16>}, "">] : tensor<64x128xbf16>
    %h = model.embedding %ids, %we : tensor<?xi32>, tensor<64x128xbf16> -> tensor<?x128xbf16>
    scf.for %l = %c3 to %c5 step %c1 {
      %0 = func.call @layer(%l, %x) : (index, tensor<?x192xbf16>) -> tensor<?x128xbf16>
    }
    return
  }
}

// -----

// Scales stored in BF16, in a grid [a, 1, b, 1] (W2), are widened to the
// contract's F32 after the check (W6).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[W:.+]] = q.load "a" weight "weight" scale "weight_scale" {scale_shape = array<i64: 5, 1, 2, 1>} : !q.tensor<576x256xf8E4M3FN, block<128x128>, bf16>
//  CHECK-NEXT:   q.check_scales %[[W]]
//  CHECK-NEXT:   %[[V:.+]] = q.convert_scales %[[W]] : !q.tensor<576x256xf8E4M3FN, block<128x128>, bf16> -> !q.tensor<576x256xf8E4M3FN, block<128x128>, f32>
//  CHECK-NEXT:   q.store %[[V]], @a :
func.func @w1_w2_scale_dtype(%x: tensor<?x256xbf16>) -> tensor<?x576xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<576x256xf8E4M3FN>, weight_scale = tensor<5x1x2x1xbf16>}, "">] : !q.tensor<576x256xf8E4M3FN, block<128x128>, bf16>
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = bf16, activation = dynamic>} : tensor<?x256xbf16>, !q.tensor<576x256xf8E4M3FN, block<128x128>, bf16> -> tensor<?x576xbf16>
  return %y : tensor<?x576xbf16>
}

// -----

// Fused, per-tensor, static: a scale a shard is spread over its rows (W7), the
// input scale is the largest (W9), of whatever shape each is stored in.
// CHECK-LABEL: module {
//   CHECK-DAG:   q.slot @a.gate_up_proj[1] : !q.tensor<64x32xf8E4M3FN, per_channel, f32, shards = [32, 32]>
//   CHECK-DAG:   q.slot @a.gate_up_proj.input_scale[1] : tensor<f32>
//       CHECK:   %[[G:.+]] = q.load "a.gate_proj" weight "weight" scale "weight_scale" {scale_shape = array<i64>} : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
//       CHECK:   %[[U:.+]] = q.load "a.up_proj" weight "weight" scale "weight_scale" : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
//       CHECK:   %[[C:.+]] = q.concat %[[G]], %[[U]] : {{.*}} -> !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
//       CHECK:   %[[P:.+]] = q.expand_scales %[[C]] : {{.*}} -> !q.tensor<64x32xf8E4M3FN, per_channel, f32, shards = [32, 32]>
//       CHECK:   q.store %[[P]], @a.gate_up_proj :
//       CHECK:   %[[SG:.+]] = q.load "a.gate_proj" weight "input_scale" : tensor<f32>
//       CHECK:   %[[SU:.+]] = q.load "a.up_proj" weight "input_scale" : tensor<1xf32>
//       CHECK:   %[[S:.+]] = q.max %[[SG]], %[[SU]] : tensor<f32>, tensor<1xf32> -> tensor<f32>
//       CHECK:   q.store %[[S]], @a.gate_up_proj.input_scale :
// CHECK-LABEL: func.func @w7_w9_fused_static
//       CHECK:   %[[I:.+]] = q.weight @a.gate_up_proj.input_scale : tensor<f32>
//       CHECK:   model.linear %{{.+}}, %{{.+}} input_scale(%[[I]] : tensor<f32>)
module {
  func.func @w7_w9_fused_static(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
    %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">, #q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<1xf32>, input_scale = tensor<1xf32>}, "">] : !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
    %y = model.linear %x, %w {module = "a.gate_up_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]> -> tensor<?x64xbf16>
    return %y : tensor<?x64xbf16>
  }
}

// -----

// One module's scale goes through q.max too, which refuses what is no scale (W6).
// CHECK-LABEL: func.func @load
//       CHECK:   %[[S:.+]] = q.load "a" weight "input_scale" : tensor<f32>
//  CHECK-NEXT:   %[[M:.+]] = q.max %[[S]] : tensor<f32> -> tensor<f32>
//  CHECK-NEXT:   q.store %[[M]], @a.input_scale :
func.func @w6_static_unfused(%x: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">] : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<32x32xf8E4M3FN, per_tensor, f32> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

// A checkpoint that quantises its lm_head with a static scale (P16, W2).
// CHECK-LABEL: module {
//   CHECK-DAG:   q.slot @lm_head[1] : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
//   CHECK-DAG:   q.slot @lm_head.input_scale[1] : tensor<f32>
//       CHECK:   %[[S:.+]] = q.load "lm_head" weight "input_scale" : tensor<f32>
//       CHECK:   %[[M:.+]] = q.max %[[S]] :
//  CHECK-NEXT:   q.store %[[M]], @lm_head.input_scale :
// CHECK-LABEL: func.func @p16_static_lm_head
//       CHECK:   %[[I:.+]] = q.weight @lm_head.input_scale : tensor<f32>
//       CHECK:   model.lm_head %{{.+}}, %{{.+}} input_scale(%[[I]] : tensor<f32>)
func.func @p16_static_lm_head(%x: tensor<?x32xbf16>) -> tensor<?x32xf32> {
  %w = model.weight ["lm_head"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">] : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
  %y = model.lm_head %x, %w {module = "lm_head", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<32x32xf8E4M3FN, per_tensor, f32> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// A BF16 checkpoint with --quantization fp8: each shard is quantised while it
// loads, one scale an output channel (W10). The smallest weight has one element.
// CHECK-LABEL: module {
//   CHECK-DAG:   q.slot @ab[1] : !q.tensor<2x1xf8E4M3FN, per_channel, f32, shards = [1, 1]>
//       CHECK:   %[[A:.+]] = q.load "a" weight "weight" : tensor<1x1xbf16>
//  CHECK-NEXT:   %[[QA:.+]] = q.quantize %[[A]] : tensor<1x1xbf16> -> !q.tensor<1x1xf8E4M3FN, per_channel, f32>
//       CHECK:   %[[B:.+]] = q.load "b" weight "weight" : tensor<1x1xbf16>
//  CHECK-NEXT:   %[[QB:.+]] = q.quantize %[[B]]
//  CHECK-NEXT:   q.concat %[[QA]], %[[QB]] :
//   CHECK-NOT:   q.check_scales
// CHECK-LABEL: func.func @w10_quantize_while_loading
//       CHECK:   model.linear {{.*}} : tensor<?x1xbf16>, !q.tensor<2x1xf8E4M3FN, per_channel, f32, shards = [1, 1]> -> tensor<?x2xbf16>
module {
  func.func @w10_quantize_while_loading(%x: tensor<?x1xbf16>) -> tensor<?x2xbf16> {
    %w = model.weight ["a", "b"] "weight" stored [#q.stored<{weight = tensor<1x1xbf16>}, "">, #q.stored<{weight = tensor<1x1xbf16>}, "">] : tensor<2x1xbf16>
    %y = model.linear %x, %w {module = "ab", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_channel, scale = f32, activation = dynamic>} : tensor<?x1xbf16>, tensor<2x1xbf16> -> tensor<?x2xbf16>
    return %y : tensor<?x2xbf16>
  }
}

// -----

// Tied embeddings are one slot, loaded once (W15). A bias has a slot of its own.
// CHECK-LABEL: module {
//       CHECK:   q.slot @model_embed[1] : tensor<64x8xbf16>
//       CHECK:   q.slot @a.bias[1] : tensor<8xf32>
//   CHECK-NOT:   q.slot @model_embed
//       CHECK:   q.load "model_embed" weight "weight"
//   CHECK-NOT:   q.load "model_embed"
//       CHECK:   q.load "a" weight "bias" : tensor<8xf32>
//   CHECK-NOT:   q.load "model_embed"
// CHECK-LABEL: func.func @w15_tied
//       CHECK:   %[[E:.+]] = q.weight @model_embed
//       CHECK:   model.embedding %{{.+}}, %[[E]]
//       CHECK:   %[[H:.+]] = q.weight @model_embed
//       CHECK:   model.lm_head %{{.+}}, %[[H]]
module {
  func.func @w15_tied(%ids: tensor<?xi32>, %w0: tensor<8x8xbf16>) -> tensor<?x64xf32> {
    %e = model.weight ["model_embed"] "weight" stored [#q.stored<{weight = tensor<64x8xbf16>}, "">] : tensor<64x8xbf16>
    %x = model.embedding %ids, %e : tensor<?xi32>, tensor<64x8xbf16> -> tensor<?x8xbf16>
    %b = model.weight ["a"] "bias" stored [#q.stored<{bias = tensor<8xf32>}, "">] : tensor<8xf32>
    %n = model.linear %x, %w0 bias(%b : tensor<8xf32>) {module = "a"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    %h = model.weight ["model_embed"] "weight" stored [#q.stored<{weight = tensor<64x8xbf16>}, "">] : tensor<64x8xbf16>
    %y = model.lm_head %n, %h {module = "lm_head"} : tensor<?x8xbf16>, tensor<64x8xbf16> -> tensor<?x64xf32>
    return %y : tensor<?x64xf32>
  }
}

// -----

// Kinds of layers share a slot where their types agree, and get one each, named
// by the kind, where they do not. Each run of layers has its own loop.
// CHECK-LABEL: module {
//       CHECK:   q.slot @layers.norm[3] : tensor<8xbf16>
//       CHECK:   q.slot @layers.proj.kind0[3] used [0] : tensor<8x8xbf16>
//       CHECK:   q.slot @layers.proj.kind1[3] used [1, 2] : tensor<8x8xf32>
//       CHECK:   scf.for %[[L:.+]] = %c0 to %c1 step %c1
//       CHECK:     q.store %{{.+}}, @layers.norm[%[[L]]]
//       CHECK:     q.store %{{.+}}, @layers.proj.kind0[%[[L]]]
//       CHECK:   scf.for %[[M:.+]] = %c1 to %c3 step %c1
//       CHECK:     q.store %{{.+}}, @layers.norm[%[[M]]]
//       CHECK:     q.store %{{.+}}, @layers.proj.kind1[%[[M]]]
module {
  func.func private @layer_0(%l: index, %x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %g = model.weight ["model.layers.{l}.norm"][%l] "weight" stored [#q.stored<{weight = tensor<8xbf16>}, "">] : tensor<8xbf16>
    %n = model.rms_norm %x, %g {eps = 1.0e-06 : f32, module = "model.layers.{l}.norm"} : tensor<?x8xbf16>, tensor<8xbf16> -> tensor<?x8xbf16>
    %w = model.weight ["model.layers.{l}.proj"][%l] "weight" stored [#q.stored<{weight = tensor<8x8xbf16>}, "">] : tensor<8x8xbf16>
    %y = model.linear %n, %w {module = "model.layers.{l}.proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    return %y : tensor<?x8xbf16>
  }
  func.func private @layer_1(%l: index, %x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %g = model.weight ["model.layers.{l}.norm"][%l] "weight" stored [#q.stored<{weight = tensor<8xbf16>}, "">] : tensor<8xbf16>
    %n = model.rms_norm %x, %g {eps = 1.0e-06 : f32, module = "model.layers.{l}.norm"} : tensor<?x8xbf16>, tensor<8xbf16> -> tensor<?x8xbf16>
    %w = model.weight ["model.layers.{l}.proj"][%l] "weight" stored [#q.stored<{weight = tensor<8x8xf32>}, "">] : tensor<8x8xf32>
    %y = model.linear %n, %w {module = "model.layers.{l}.proj"} : tensor<?x8xbf16>, tensor<8x8xf32> -> tensor<?x8xbf16>
    return %y : tensor<?x8xbf16>
  }
  func.func @step(%x: tensor<?x8xbf16>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    scf.for %l = %c0 to %c1 step %c1 {
      %0 = func.call @layer_0(%l, %x) : (index, tensor<?x8xbf16>) -> tensor<?x8xbf16>
    }
    scf.for %l = %c1 to %c3 step %c1 {
      %0 = func.call @layer_1(%l, %x) : (index, tensor<?x8xbf16>) -> tensor<?x8xbf16>
    }
    return
  }
}

// -----

// One module of one layer (--extract): the slot needs no index, the checkpoint's
// tensor does.
// CHECK-LABEL: module {
//       CHECK:   q.slot @layers.proj[1] : tensor<8x8xbf16>
//       CHECK:   %[[W:.+]] = q.load "model.layers.{l}.proj"[%c7] weight "weight"
//       CHECK:   q.store %[[W]], @layers.proj :
// CHECK-LABEL: func.func @extracted
//       CHECK:   q.weight @layers.proj :
module {
  func.func @extracted(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %c7 = arith.constant 7 : index
    %w = model.weight ["model.layers.{l}.proj"][%c7] "weight" stored [#q.stored<{weight = tensor<8x8xbf16>}, "">] : tensor<8x8xbf16>
    %y = model.linear %x, %w {module = "model.layers.{l}.proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    return %y : tensor<?x8xbf16>
  }
}

// -----

// Equal rope tables are one slot, different ones two.
// CHECK-LABEL: module {
//       CHECK:   q.slot @rope_table.kind0[1] : tensor<16x2xf32>
//       CHECK:   q.slot @rope_table.kind1[1] : tensor<16x2xf32>
//   CHECK-NOT:   q.slot
//       CHECK:   %[[A:.+]] = model.rope_table {inv_freq = array<f32: 1.000000e+00>
//  CHECK-NEXT:   q.store %[[A]], @rope_table.kind0
//       CHECK:   %[[B:.+]] = model.rope_table {inv_freq = array<f32: 5.000000e-01>
//  CHECK-NEXT:   q.store %[[B]], @rope_table.kind1
//   CHECK-NOT:   model.rope_table
// CHECK-LABEL: func.func @rope_tables
//       CHECK:   return
module {
  func.func @rope_tables(%x: tensor<?x8xbf16>, %p: tensor<?xi32>) -> tensor<?x8xbf16> {
    %t = model.rope_table {inv_freq = array<f32: 1.0>, scale = 1.0 : f32} : tensor<16x2xf32>
    %0 = model.rope %x, %t at %p {head_dim = 4 : i64, module = "a"} : tensor<?x8xbf16>, tensor<16x2xf32>, tensor<?xi32> -> tensor<?x8xbf16>
    %u = model.rope_table {inv_freq = array<f32: 1.0>, scale = 1.0 : f32} : tensor<16x2xf32>
    %1 = model.rope %0, %u at %p {head_dim = 4 : i64, module = "a"} : tensor<?x8xbf16>, tensor<16x2xf32>, tensor<?xi32> -> tensor<?x8xbf16>
    %v = model.rope_table {inv_freq = array<f32: 0.5>, scale = 1.0 : f32} : tensor<16x2xf32>
    %2 = model.rope %1, %v at %p {head_dim = 4 : i64, module = "a"} : tensor<?x8xbf16>, tensor<16x2xf32>, tensor<?xi32> -> tensor<?x8xbf16>
    return %2 : tensor<?x8xbf16>
  }
}

// -----

// Nothing to load, nothing changes; a weight that nobody reads is not loaded.
// CHECK-NOT: @load
// CHECK-LABEL: func.func @unchanged
//  CHECK-NEXT: model.add
func.func @unchanged(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<8x8xbf16>}, "">] : tensor<8x8xbf16>
  %y = model.add %x, %x : tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}
