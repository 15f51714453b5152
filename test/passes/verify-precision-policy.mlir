// RUN: octet-opt %s -octet-verify-precision-policy -split-input-file | FileCheck %s

// Everything section 5 allows: a quantised linear, an FP8 cache, a weight-only
// linear (B4), an unquantised lm_head. Nothing changes.
// CHECK-LABEL: func.func @load
//       CHECK:   q.dequantize
// CHECK-LABEL: func.func @ledger
//       CHECK:   model.rms_norm
//       CHECK:   q.quantize
//       CHECK:   model.linear
//       CHECK:   q.kv_write
//       CHECK:   model.attention
//       CHECK:   model.linear
//       CHECK:   model.lm_head
module {
  q.slot @head [1] : tensor<16x8xbf16>
  // Loading may do what W7 to W12 say; it is not section 5's matter.
  func.func @load(%w: !q.tensor<8x8xf8E4M3FN, per_channel, f32>, %head: tensor<16x8xbf16>) {
    %0 = q.dequantize %w : !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<8x8xbf16>
    %1 = model.add %0, %0 : tensor<8x8xbf16>
    q.store %head, @head : tensor<16x8xbf16>
    return
  }
  func.func @ledger(%x: tensor<?x8xbf16>, %g: tensor<8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, per_channel, f32>, %s: tensor<f32>, %slots: tensor<?xi32>, %b: !model.batch) -> tensor<?x16xf32> {
    %c0 = arith.constant 0 : index
    %n = model.rms_norm %x, %g {eps = 1.0e-06 : f32, module = "n"} : tensor<?x8xbf16>, tensor<8xbf16> -> tensor<?x8xbf16>
    %q = q.quantize %n : tensor<?x8xbf16> -> !q.tensor<?x8xf8E4M3FN, per_token, f32>
    %k = model.linear %q, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>} : !q.tensor<?x8xf8E4M3FN, per_token, f32>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
    %c = q.kv_cache[%c0] : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 8>
    q.kv_write %k, %k, %c at %slots scales(%s, %s : tensor<f32>, tensor<f32>) : tensor<?x8xbf16>, tensor<?x8xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 8>, tensor<?xi32>
    %a = model.attention %k cache(%c : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 8>) scales(%s, %s : tensor<f32>, tensor<f32>) of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    %o = model.linear %a, %w {module = "o", contract = #q.contract<weight = per_channel, scale = f32, activation = none>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_channel, f32> -> tensor<?x8xbf16>
    %h = model.add %x, %o : tensor<?x8xbf16>
    %v = q.weight @head : tensor<16x8xbf16>
    %y = model.lm_head %h, %v {module = "lm_head", contract = #q.contract<none>, method = #q.method<"unquantized">} : tensor<?x8xbf16>, tensor<16x8xbf16> -> tensor<?x16xf32>
    return %y : tensor<?x16xf32>
  }
}

// -----

// The checkpoint's own quantised lm_head (P16).
// CHECK-LABEL: func.func @p16_stored_lm_head
module {
  q.slot @lm_head [1] : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
  func.func @load(%rank: index) {
    %0 = q.load "lm_head" weight "weight" scale "weight_scale" : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    q.store %0, @lm_head : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    return
  }
  func.func @p16_stored_lm_head(%x: tensor<?x8xbf16>) -> tensor<?x16xf32> {
    %w = q.weight @lm_head : !q.tensor<16x8xf8E4M3FN, per_channel, f32>
    %q = q.quantize %x : tensor<?x8xbf16> -> !q.tensor<?x8xf8E4M3FN, per_token, f32>
    %y = model.lm_head %q, %w {module = "lm_head", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"compressed-tensors", weight = per_channel, scale = f32, activation = dynamic>} : !q.tensor<?x8xf8E4M3FN, per_token, f32>, !q.tensor<16x8xf8E4M3FN, per_channel, f32> -> tensor<?x16xf32>
    return %y : tensor<?x16xf32>
  }
}

// -----

// Logits reach whoever samples in FP32 (P17), and those of a draft layer
// whoever compares its probabilities with the model's (P18).
// CHECK-LABEL: func.func @step
//       CHECK:   model.output
// CHECK-LABEL: func.func @draft_0
//       CHECK:   model.output
module attributes {model.info = {kind = "model"}} {
  func.func @step(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: !model.batch) {
    %y = model.lm_head %x, %w {module = "lm_head"} : tensor<?x8xbf16>, tensor<16x8xbf16> -> tensor<?x16xf32>
    model.output %y to %b : tensor<?x16xf32>
    return
  }
  func.func @draft_0(%x: tensor<?x8xbf16>, %w: tensor<16x8xbf16>, %b: !model.batch) {
    %y = model.lm_head %x, %w {module = "lm_head"} : tensor<?x8xbf16>, tensor<16x8xbf16> -> tensor<?x16xf32>
    model.output %y to %b : tensor<?x16xf32>
    return
  }
}

// -----

// The result of one module is sampled by nobody (P17).
// CHECK-LABEL: func.func @step
//       CHECK:   model.output
module attributes {model.info = {kind = "module"}} {
  func.func @step(%x: tensor<?x8xbf16>, %b: !model.batch) {
    model.output %x to %b : tensor<?x8xbf16>
    return
  }
}
