// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

// Experts, latent attention, the indexer and collectives print as they parse.

// CHECK-LABEL: func.func @weights
//       CHECK:   model.weight ["m.{l}.experts.{e}.up_proj"][%{{.+}}] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">] {experts = 8 : i64} : tensor<8x64x256xbf16>
//       CHECK:   {experts = 8 : i64} : !q.tensor<8x128x256xf8E4M3FN, block<128x128>, f32, shards = [64, 64]>
func.func @weights(%l: index) {
  %u = model.weight ["m.{l}.experts.{e}.up_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">] {experts = 8 : i64} : tensor<8x64x256xbf16>
  %f = model.weight ["m.{l}.experts.{e}.gate_proj", "m.{l}.experts.{e}.up_proj"][%l] "weight" stored [
         #q.stored<{weight = tensor<64x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">,
         #q.stored<{weight = tensor<64x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] {experts = 8 : i64}
       : !q.tensor<8x128x256xf8E4M3FN, block<128x128>, f32, shards = [64, 64]>
  return
}

// CHECK-LABEL: func.func @router
//       CHECK:   model.moe_router %{{.+}}, %{{.+}} correction(%{{.+}} : tensor<8xf32>) {groups = 4 : i64, module = "g", normalize, scale = 2.500000e+00 : f32, score = #model<score sigmoid>, top_groups = 2 : i64, top_k = 3 : i64}
//       CHECK:   model.moe_router %{{.+}}, %{{.+}} bias(%{{.+}} : tensor<8xf32>) {module = "g", scale = 1.000000e+00 : f32, score = #model<score chosen_softmax>, top_k = 3 : i64}
func.func @router(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>, %c: tensor<8xf32>) {
  %i, %s = model.moe_router %x, %w correction(%c : tensor<8xf32>) {score = #model<score sigmoid>, top_k = 3 : i64, groups = 4 : i64, top_groups = 2 : i64,
      normalize, scale = 2.5 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
  %j, %t = model.moe_router %x, %w bias(%c : tensor<8xf32>) {score = #model<score chosen_softmax>, top_k = 3 : i64, scale = 1.0 : f32, module = "g"}
      : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// CHECK-LABEL: func.func @experts
//       CHECK:   model.experts %{{.+}}, %{{.+}}, %{{.+}} gate_up(%{{.+}}, %{{.+}} : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%{{.+}} : tensor<8x256x64xbf16>) {experts = 8 : i64, gating = #model<gating swiglu>, module = "e"}
//       CHECK:   model.experts {{.*}} gate_up(%{{.+}} : tensor<8x128x256xbf16>) {{.*}} biases(%{{.+}}, %{{.+}} : tensor<8x128xbf16>, tensor<8x256xbf16>) {{{.*}}ep = 2 : i64, experts = 16 : i64, gating = #model<gating clamped_swiglu>, interleaved, limit = 7.000000e+00 : f32
func.func @experts(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %d: tensor<8x256x64xbf16>,
                   %gu: tensor<8x128x256xbf16>, %b: tensor<8x128xbf16>, %c: tensor<8x256xbf16>) {
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "e"} : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  %z = model.experts %x, %i, %s gate_up(%gu : tensor<8x128x256xbf16>) down(%d : tensor<8x256x64xbf16>) biases(%b, %c : tensor<8x128xbf16>, tensor<8x256xbf16>)
      {experts = 16 : i64, ep = 2 : i64, gating = #model<gating clamped_swiglu>, limit = 7.0 : f32, interleaved, module = "e"}
      : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// CHECK-LABEL: func.func @latent
//       CHECK:   model.layer_norm
//       CHECK:   model.rope {{.*}}interleaved{{.*}}offset = 64 : i64
//       CHECK:   %[[R:.+]] = model.indexer %{{.+}}, %{{.+}} : tensor<?x128xbf16> weights(%{{.+}} : tensor<?x2xf32>)
//       CHECK:   model.mla_attention %{{.+}}, %{{.+}}, %{{.+}} : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%{{.+}} : tensor<512x64xbf16>) selected(%[[R]] : tensor<?x8xi32>)
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}}, %{{.+}} : tensor<4x64x64xbf16>, tensor<4x64x64xbf16>) of
func.func @latent(%b: !model.batch, %l: index, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x64xbf16>,
                  %kc: tensor<4x64x64xbf16>, %iq: tensor<?x256xbf16>, %ik: tensor<?x128xbf16>, %g: tensor<128xbf16>, %hw: tensor<?x2xf32>,
                  %t: tensor<16x32xf32>, %p: tensor<?xi32>) {
  %k = model.layer_norm %ik, %g, %g {eps = 1.0e-06 : f32, module = "n"} : tensor<?x128xbf16>, tensor<128xbf16>, tensor<128xbf16> -> tensor<?x128xbf16>
  %qr = model.rope %q, %t at %p {head_dim = 96 : i64, offset = 64 : i64, interleaved, module = "a"} : tensor<?x384xbf16>, tensor<16x32xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  %s = model.indexer %iq, %k : tensor<?x128xbf16> weights(%hw : tensor<?x2xf32>) of %b[%l] {heads = 2 : i64, head_dim = 128 : i64, top_k = 8 : i64, scale = 0.0625 : f32,
      module = "i"} : tensor<?x256xbf16> -> tensor<?x8xi32>
  %y = model.mla_attention %qr, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x64xbf16>) selected(%s : tensor<?x8xi32>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x384xbf16> -> tensor<?x256xbf16>
  %z = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%kc, %kc : tensor<4x64x64xbf16>, tensor<4x64x64xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "a"}
      : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}

// CHECK-LABEL: func.func @sinks
//       CHECK:   sinks(%{{.+}} : tensor<6xbf16>) of
func.func @sinks(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %s: tensor<6xbf16>, %l: index) {
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> sinks(%s : tensor<6xbf16>) of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// CHECK-LABEL: func.func @ranks
//       CHECK:   model.all_reduce %{{.+}} {module = "o", ranks = 8 : i64} : tensor<?x256xbf16>
//       CHECK:   model.all_gather %{{.+}} {module = "h", ranks = 8 : i64} : tensor<?x32xf32> -> tensor<?x250xf32>
func.func @ranks(%x: tensor<?x256xbf16>, %h: tensor<?x32xf32>) {
  %y = model.all_reduce %x {ranks = 8 : i64, module = "o"} : tensor<?x256xbf16>
  %z = model.all_gather %h {ranks = 8 : i64, module = "h"} : tensor<?x32xf32> -> tensor<?x250xf32>
  return
}
