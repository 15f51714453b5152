// RUN: octet-opt %s -split-input-file -verify-diagnostics

func.func @w13_router_weight(%x: tensor<?x256xbf16>, %w: tensor<8x256xf8E4M3FN>) {
  // expected-error @+1 {{'model.moe_router' op weight is 'tensor<8x256xf8E4M3FN>', expected a matrix in f32, bf16 or f16: a router is never quantised [W13]}}
  %i, %s = model.moe_router %x, %w {score = #model<score softmax>, top_k = 3 : i64, scale = 1.0 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xf8E4M3FN> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// -----

func.func @p12_too_many(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>, %c: tensor<8xf32>) {
  // expected-error @+1 {{'model.moe_router' op chooses 3 experts of 2 [P12]}}
  %i, %s = model.moe_router %x, %w {score = #model<score sigmoid>, top_k = 3 : i64, groups = 4 : i64, scale = 1.0 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// -----

func.func @p12_groups(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>, %c: tensor<8xf32>) {
  // expected-error @+1 {{'model.moe_router' op 1 of 3 groups of 8 experts cannot be chosen [P12]}}
  %i, %s = model.moe_router %x, %w {score = #model<score sigmoid>, top_k = 3 : i64, groups = 3 : i64, scale = 1.0 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// -----

func.func @p12_scale(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>, %c: tensor<8xf32>) {
  // expected-error @+1 {{'model.moe_router' op scale 0 is not positive and finite}}
  %i, %s = model.moe_router %x, %w {score = #model<score softmax>, top_k = 3 : i64, scale = 0.0 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// -----

func.func @p12_ids(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>, %c: tensor<8xf32>) {
  // expected-error @+1 {{'model.moe_router' op ids is 'tensor<?x2xi32>', expected [rows, 3] in i32 [P12]}}
  %i, %s = model.moe_router %x, %w {score = #model<score softmax>, top_k = 3 : i64, scale = 1.0 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x3xf32>
  return
}

// -----

func.func @p12_correction(%x: tensor<?x256xbf16>, %w: tensor<8x256xbf16>, %c: tensor<8xf32>) {
  // expected-error @+1 {{'model.moe_router' op has a correction, which scores of chosen_softmax do not have [P12]}}
  %i, %s = model.moe_router %x, %w correction(%c : tensor<8xf32>) {score = #model<score chosen_softmax>, top_k = 3 : i64, scale = 1.0 : f32, module = "g"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x3xi32>, tensor<?x3xf32>
  return
}

// -----

func.func @w5_up(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %u: tensor<8x60x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{'model.experts' op gate_up is 'tensor<8x60x256xbf16>', expected 8 x 64 x 256 [W5]}}
  %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<8x64x256xbf16>, tensor<8x60x256xbf16>) down(%d : tensor<8x256x64xbf16>) {experts = 8 : i64, gating = #model<gating swiglu>, module = "e"} : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @w3c_groups(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %u: tensor<8x60x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{'model.experts' op 8 experts over ep=3 groups of ranks are no whole number each [W3c]}}
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>) {experts = 8 : i64, ep = 3 : i64, gating = #model<gating swiglu>, module = "e"} : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @w5_local(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %u: tensor<8x60x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{'model.experts' op down is 'tensor<8x256x64xbf16>', expected 4 x 256 x 64 [W5]}}
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>) {experts = 8 : i64, ep = 2 : i64, gating = #model<gating swiglu>, module = "e"} : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @no_limit(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %u: tensor<8x60x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{'model.experts' op has no limit for clamped_swiglu}}
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>) {experts = 8 : i64, gating = #model<gating clamped_swiglu>, module = "e"} : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @interleaved_apart(%x: tensor<?x256xbf16>, %i: tensor<?x3xi32>, %s: tensor<?x3xf32>, %g: tensor<8x64x256xbf16>, %u: tensor<8x60x256xbf16>, %d: tensor<8x256x64xbf16>) {
  // expected-error @+1 {{'model.experts' op is interleaved, but gate and up are two matrices}}
  %y = model.experts %x, %i, %s gate_up(%g, %g : tensor<8x64x256xbf16>, tensor<8x64x256xbf16>) down(%d : tensor<8x256x64xbf16>) {experts = 8 : i64, interleaved, gating = #model<gating swiglu>, module = "e"} : tensor<?x256xbf16>, tensor<?x3xi32>, tensor<?x3xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p11_q(%b: !model.batch, %l: index, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x64xbf16>) {
  // expected-error @+1 {{'model.mla_attention' op q is 'tensor<?x384xbf16>', expected rows of 480 [P11]}}
  %y = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x64xbf16>) of %b[%l] {heads = 5 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @w12_kv_b(%b: !model.batch, %l: index, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x64xbf16>) {
  // expected-error @+1 {{'model.mla_attention' op kv_b is 'tensor<512x64xbf16>', expected 512 x 32 [W12]}}
  %y = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x64xbf16>) of %b[%l] {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 32 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p7_no_latent(%b: !model.batch, %l: index, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x64xbf16>) {
  // expected-error @+1 {{'model.mla_attention' op has no latent [P7]}}
  %y = model.mla_attention %q kv_b(%w : tensor<512x64xbf16>) of %b[%l] {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p11_scale(%b: !model.batch, %l: index, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x64xbf16>) {
  // expected-error @+1 {{'model.mla_attention' op scale -1 is not positive and finite}}
  %y = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x64xbf16>) of %b[%l] {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = -1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @absurd_heads(%b: !model.batch, %l: index, %q: tensor<?x384xbf16>, %c: tensor<?x64xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x64xbf16>) {
  // expected-error @+1 {{'model.mla_attention' op heads is 9223372036854775807, expected at least 1 and less than 2^31}}
  %y = model.mla_attention %q, %c, %r : tensor<?x64xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x64xbf16>) of %b[%l] {heads = 9223372036854775807 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 64 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p9_head_weights(%b: !model.batch, %l: index, %q: tensor<?x256xbf16>, %k: tensor<?x128xbf16>, %w: tensor<?x3xf32>) {
  // expected-error @+1 {{'model.indexer' op weights is 'tensor<?x3xf32>', expected rows of 2 [P9]}}
  %y = model.indexer %q, %k : tensor<?x128xbf16> weights(%w : tensor<?x3xf32>) of %b[%l] {heads = 2 : i64, head_dim = 128 : i64, top_k = 8 : i64, scale = 1.0 : f32, module = "i"} : tensor<?x256xbf16> -> tensor<?x8xi32>
  return
}

// -----

func.func @p9_precise(%x: tensor<?x256xbf16>, %w: !q.tensor<8x256xf8E4M3FN, per_tensor, f32>) {
  // expected-error @+1 {{'model.linear' op is precise, its weight is '!q.tensor<8x256xf8E4M3FN, per_tensor, f32>'; it is never quantised [P9]}}
  %y = model.linear %x, %w {precise, module = "i"} : tensor<?x256xbf16>, !q.tensor<8x256xf8E4M3FN, per_tensor, f32> -> tensor<?x8xf32>
  return
}

// -----

func.func @p6_offset(%x: tensor<?x384xbf16>, %t: tensor<16x64xf32>, %p: tensor<?xi32>) {
  // expected-error @+1 {{'model.rope' op table rotates 64 values of a head, expected an even number of at most 32 [P6]}}
  %y = model.rope %x, %t at %p {head_dim = 96 : i64, offset = 64 : i64, module = "a"} : tensor<?x384xbf16>, tensor<16x64xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  return
}

// -----

func.func @p11_sinks(%b: !model.batch, %q: tensor<?x384xbf16>, %k: tensor<?x128xbf16>, %s: tensor<2xbf16>, %l: index) {
  // expected-error @+1 {{'model.attention' op sinks is 'tensor<2xbf16>', expected 6 values in f32, bf16 or f16 [P11]}}
  %y = model.attention %q, %k : tensor<?x128xbf16>, v %k : tensor<?x128xbf16> sinks(%s : tensor<2xbf16>) of %b[%l] {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 1.0 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}

// -----

func.func @w5_expert_count(%l: index) {
  // expected-error @+1 {{'model.weight' op result is 'tensor<4x64x256xbf16>', expected 8 experts [W5]}}
  %w = model.weight ["m.{l}.{e}.up"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">] {experts = 8 : i64} : tensor<4x64x256xbf16>
  return
}

// -----

func.func @experts_without_place(%l: index) {
  // expected-error @+1 {{'model.weight' op path 'm.{l}.up' has no {e} for the experts}}
  %w = model.weight ["m.{l}.up"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">] {experts = 8 : i64} : tensor<8x64x256xbf16>
  return
}

// -----

func.func @place_without_experts(%l: index) {
  // expected-error @+1 {{'model.weight' op path 'm.{l}.{e}.up' has a {e} and no experts}}
  %w = model.weight ["m.{l}.{e}.up"][%l] "weight" stored [#q.stored<{weight = tensor<64x256xbf16>}, "">] : tensor<64x256xbf16>
  return
}

// -----

func.func @p16_gather(%h: tensor<?x32xf32>) {
  // expected-error @+1 {{'model.all_gather' op result is 'tensor<?x300xf32>', 8 ranks have rows of 'tensor<?x32xf32>' [P16]}}
  %z = model.all_gather %h {ranks = 8 : i64, module = "h"} : tensor<?x32xf32> -> tensor<?x300xf32>
  return
}

// -----

func.func @p5_layer_norm(%x: tensor<?x128xbf16>, %g: tensor<64xbf16>) {
  // expected-error @+1 {{'model.layer_norm' op weight is 'tensor<64xbf16>', expected 128 values in f32, bf16 or f16 [P5]}}
  %k = model.layer_norm %x, %g, %g {eps = 1.0e-06 : f32, module = "n"} : tensor<?x128xbf16>, tensor<64xbf16>, tensor<64xbf16> -> tensor<?x128xbf16>
  return
}
