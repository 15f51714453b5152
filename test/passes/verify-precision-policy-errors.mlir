// RUN: octet-opt %s -octet-verify-precision-policy -split-input-file -verify-diagnostics

// A table whose slot is filled from codes.
module {
  q.slot @embed_tokens [1] : tensor<16x8xbf16>
  func.func @load(%rank: index) {
    %0 = q.load "model.embed_tokens" weight "weight" scale "weight_scale" : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    %1 = q.dequantize %0 : !q.tensor<16x8xf8E4M3FN, per_channel, f32> -> tensor<16x8xbf16>
    q.store %1, @embed_tokens : tensor<16x8xbf16>
    return
  }
  func.func @p1_embedding(%ids: tensor<?xi32>) -> tensor<?x8xbf16> {
    %w = q.weight @embed_tokens : tensor<16x8xbf16>
    // expected-error @+1 {{model.embedding: operand 1 is loaded from !q.tensor<16x8xf8E4M3FN, per_channel, f32>; the embedding is never quantised [P1]}}
    %h = model.embedding %ids, %w : tensor<?xi32>, tensor<16x8xbf16> -> tensor<?x8xbf16>
    return %h : tensor<?x8xbf16>
  }
}

// -----

func.func @p2_residual_sum(%x: tensor<?x8xbf16>, %q: !q.tensor<?x8xf8E4M3FN, per_token, f32>) -> tensor<?x8xbf16> {
  %d = q.dequantize %q : !q.tensor<?x8xf8E4M3FN, per_token, f32> -> tensor<?x8xbf16>
  // expected-error @+1 {{model.add: operand 1 was rounded to !q.tensor<?x8xf8E4M3FN, per_token, f32>; a residual sum is in the activation dtype [P2]}}
  %y = model.add %x, %d : tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

func.func @p5_norm(%q: !q.tensor<?x8xf8E4M3FN, per_token, f32>, %g: tensor<8xbf16>) -> tensor<?x8xbf16> {
  %c5 = arith.constant 5 : index
  %d = q.dequantize %q : !q.tensor<?x8xf8E4M3FN, per_token, f32> -> tensor<?x8xbf16>
  // expected-error @+1 {{model.norm: operand 0 was rounded to !q.tensor<?x8xf8E4M3FN, per_token, f32>; a norm and its weight are never quantised [P5]}}
  %y = model.rms_norm %d, %g {eps = 1.0e-06 : f32, module = "model.norm"} : tensor<?x8xbf16>, tensor<8xbf16> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

// A norm's weight that came through codes.
func.func @p5_norm_weight(%x: tensor<?x8xbf16>, %w: !q.tensor<1x8xf8E4M3FN, per_tensor, f32>) -> tensor<?x8xbf16> {
  %g = q.dequantize %w : !q.tensor<1x8xf8E4M3FN, per_tensor, f32> -> tensor<8xbf16>
  // expected-error @+1 {{model.norm: operand 1 was rounded to !q.tensor<1x8xf8E4M3FN, per_tensor, f32>; a norm and its weight are never quantised [P5]}}
  %y = model.rms_norm %x, %g {eps = 1.0e-06 : f32, module = "model.norm"} : tensor<?x8xbf16>, tensor<8xbf16> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

func.func @p6_rope(%q: !q.tensor<?x8xf8E4M3FN, per_token, f32>, %t: tensor<16x2xf32>, %p: tensor<?xi32>) -> tensor<?x8xbf16> {
  %d = q.dequantize %q : !q.tensor<?x8xf8E4M3FN, per_token, f32> -> tensor<?x8xbf16>
  // expected-error @+1 {{a: operand 0 was rounded to !q.tensor<?x8xf8E4M3FN, per_token, f32>; rotary embedding is in the activation dtype [P6]}}
  %y = model.rope %d, %t at %p {head_dim = 4 : i64, module = "a"} : tensor<?x8xbf16>, tensor<16x2xf32>, tensor<?xi32> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

func.func @p7a_keys_rounded_twice(%q: !q.tensor<?x8xf8E4M3FN, per_token, f32>, %v: tensor<?x8xbf16>, %slots: tensor<?xi32>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c3 = arith.constant 3 : index
  %d = q.dequantize %q : !q.tensor<?x8xf8E4M3FN, per_token, f32> -> tensor<?x8xbf16>
  %c = q.kv_cache[%c3] : !q.kv<bf16, page = 64, heads = 1, dim = 8>
  // expected-error @+1 {{model.layers.3.self_attn: k was rounded to !q.tensor<?x8xf8E4M3FN, per_token, f32>; keys and values are rounded once, in the cache's layout [P7a]}}
  q.kv_write %d, %v, %c at %slots : tensor<?x8xbf16>, tensor<?x8xbf16>, !q.kv<bf16, page = 64, heads = 1, dim = 8>, tensor<?xi32>
  %a = model.attention %v cache(%c : !q.kv<bf16, page = 64, heads = 1, dim = 8>) of %b[%c3] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

func.func @p7b_no_cache(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: reads keys and values without a cache, so their layout is not decided [P7b]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

func.func @p11_query(%q: !q.tensor<?x8xf8E4M3FN, per_token, f32>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  %c = q.kv_cache[%c0] : !q.kv<bf16, page = 64, heads = 1, dim = 8>
  %d = q.dequantize %q : !q.tensor<?x8xf8E4M3FN, per_token, f32> -> tensor<?x8xbf16>
  // expected-error @+1 {{a: operand 0 was rounded to !q.tensor<?x8xf8E4M3FN, per_token, f32>; attention reads q in the activation dtype [P11]}}
  %a = model.attention %d cache(%c : !q.kv<bf16, page = 64, heads = 1, dim = 8>) of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

// The rounding that the contract asks for is missing; the path names a layer.
func.func private @layer(%l: index, %x: tensor<?x8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, per_channel, f32>) -> tensor<?x8xbf16> {
  // expected-error @+2 {{model.layers.0.o_proj: reads tensor<?x8xbf16>, its contract is #q.contract<weight = per_channel, scale = f32, activation = per_token>; the activation has to be quantised before it [P3]}}
  // expected-note @+1 {{the same in layers 1 to 2}}
  %y = model.linear %x, %w {module = "model.layers.{l}.o_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}
func.func @p3_not_rounded(%x: tensor<?x8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, per_channel, f32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  scf.for %l = %c0 to %c3 step %c1 {
    %0 = func.call @layer(%l, %x, %w) : (index, tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32>) -> tensor<?x8xbf16>
  }
  return
}

// -----

// Rounded, then widened again before a linear that reads it as it is.
func.func @p3_rounded_for_nobody(%x: tensor<?x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<?x8xbf16> {
  %q = q.quantize %x : tensor<?x8xbf16> -> !q.tensor<?x8xf8E4M3FN, per_token, f32>
  %d = q.dequantize %q : !q.tensor<?x8xf8E4M3FN, per_token, f32> -> tensor<?x8xbf16>
  // expected-error @+1 {{a: its input was rounded to !q.tensor<?x8xf8E4M3FN, per_token, f32>, which no contract asks for [P3]}}
  %y = model.linear %d, %w {module = "a", contract = #q.contract<none>} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

// The weight was never brought to the contract.
func.func @b3_weight_not_rewritten(%x: !q.tensor<?x8xf8E4M3FN, per_token, f32>, %w: !q.tensor<8x8xf8E4M3FN, per_tensor, f32>) -> tensor<?x8xbf16> {
  // expected-error @+1 {{a: its weight is !q.tensor<8x8xf8E4M3FN, per_tensor, f32>, its contract is #q.contract<weight = per_channel, scale = f32, activation = per_token> [B3]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = dynamic>} : !q.tensor<?x8xf8E4M3FN, per_token, f32>, !q.tensor<8x8xf8E4M3FN, per_tensor, f32> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

// Quantised by us while loading, not by the checkpoint (W10).
module {
  q.slot @lm_head [1] : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
  func.func @load(%rank: index) {
    %0 = q.load "lm_head" weight "weight" : tensor<16x8xbf16>
    %1 = q.quantize %0 : tensor<16x8xbf16> -> !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    q.store %1, @lm_head : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    return
  }
  func.func @p16_lm_head(%x: !q.tensor<?x8xf8E4M3FN, per_token, f32>) -> tensor<?x16xf32> {
    %w = q.weight @lm_head : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    // expected-error @+1 {{lm_head: its weight is !q.tensor<16x8xf8E4M3FN, per_channel, f32>, which the checkpoint does not store; lm_head is quantised only if the checkpoint says so [P16]}}
    %y = model.lm_head %x, %w {module = "lm_head", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = per_channel, scale = f32, activation = dynamic>} : !q.tensor<?x8xf8E4M3FN, per_token, f32>, !q.tensor<16x8xf8E4M3FN, per_channel, f32> -> tensor<?x16xf32>
    return %y : tensor<?x16xf32>
  }
}

// -----

// A weight that nothing loads would be read as it was left.
module {
  // expected-error @+1 {{@lm_head is filled by no q.store of @load; expected one for each weight [W6]}}
  q.slot @lm_head [1] : tensor<16x8xbf16>
  func.func @load(%rank: index) {
    return
  }
}

// -----

// Layers 0 and 2 to 3 are loaded, layer 1 is used as well.
module {
  // expected-error @+1 {{@layers.norm[1] is filled by no q.store of @load; expected one for each weight [W6]}}
  q.slot @layers.norm [4] : tensor<8xbf16>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %0 = q.load "model.layers.{l}.norm"[%c0] weight "weight" : tensor<8xbf16>
    q.store %0, @layers.norm[%c0] : tensor<8xbf16>
    scf.for %l = %c2 to %c4 step %c1 {
      %1 = q.load "model.layers.{l}.norm"[%l] weight "weight" : tensor<8xbf16>
      q.store %1, @layers.norm[%l] : tensor<8xbf16>
    }
    return
  }
}

// -----

// The loop has loaded layer 1 already; which of the two stays is nobody's
// decision.
module {
  q.slot @layers.norm [2] : tensor<8xbf16>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.for %l = %c0 to %c2 step %c1 {
      %0 = q.load "model.layers.{l}.norm"[%l] weight "weight" : tensor<8xbf16>
      q.store %0, @layers.norm[%l] : tensor<8xbf16>
    }
    %1 = q.load "model.layers.{l}.norm"[%c1] weight "weight" : tensor<8xbf16>
    // expected-error @+1 {{@layers.norm[1] is stored twice; expected one q.store for each weight [W6]}}
    q.store %1, @layers.norm[%c1] : tensor<8xbf16>
    return
  }
}

// -----

module attributes {model.info = {kind = "model"}} {
  func.func @step(%x: tensor<?x16xbf16>, %b: !model.batch) {
    // expected-error @+1 {{model.output: @step returns logits in bf16; a token is sampled in FP32, expected f32 [P17]}}
    model.output %x to %b : tensor<?x16xbf16>
    return
  }
  func.func @draft_0(%x: tensor<?x16xbf16>, %b: !model.batch) {
    // expected-error @+1 {{model.output: @draft_0 returns logits in bf16; a draft is accepted by a ratio of FP32 probabilities, expected f32 [P18]}}
    model.output %x to %b : tensor<?x16xbf16>
    return
  }
}
