// RUN: octet-opt %s | octet-opt | FileCheck %s
// RUN: octet-opt %s --emit-bytecode | octet-opt | FileCheck %s

// CHECK:      module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
// CHECK-SAME: activation_quant = "auto", kv_cache = "fp8_e4m3", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "fp8_e4m3", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {

// CHECK-LABEL: func.func @fields
func.func @fields(%b: !model.batch) {
  // CHECK: model.field ids of %{{.+}} : tensor<?xi32>
  %ids = model.field ids of %b : tensor<?xi32>
  // CHECK: model.field positions of %{{.+}} : tensor<?xi32>
  %p = model.field positions of %b : tensor<?xi32>
  // CHECK: model.field slots of %{{.+}} : tensor<?xi32>
  %s = model.field slots of %b : tensor<?xi32>
  // CHECK: model.field output_rows of %{{.+}} : tensor<?xi32>
  %r = model.field output_rows of %b : tensor<?xi32>
  // CHECK: model.field input of %{{.+}} : tensor<?x256xbf16>
  %x = model.field input of %b : tensor<?x256xbf16>
  return
}

// CHECK-LABEL: func.func @weights
func.func @weights(%l: index) {
  // CHECK: model.weight ["model.layers.{l}.self_attn.o_proj"][%{{.+}}] "weight" stored [#q.stored<{weight = tensor<256x384xbf16>}, "">] : tensor<256x384xbf16>
  %w = model.weight ["model.layers.{l}.self_attn.o_proj"][%l] "weight" stored [#q.stored<{weight = tensor<256x384xbf16>}, "">] : tensor<256x384xbf16>
  // CHECK: model.weight ["a.q_proj", "a.k_proj"] "weight" stored [{{.+}}] : !q.tensor<512x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128]>
  %q = model.weight ["a.q_proj", "a.k_proj"] "weight" stored [
      #q.stored<{weight = tensor<384x256xf8E4M3FN>, weight_scale_inv = tensor<3x2xf32>}, "">,
      #q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : !q.tensor<512x256xf8E4M3FN, block<128x128>, f32, shards = [384, 128]>
  // CHECK: model.weight ["a.q_proj", "a.k_proj"] "bias" stored [{{.+}}] : tensor<512xbf16>
  %c = model.weight ["a.q_proj", "a.k_proj"] "bias" stored [#q.stored<{bias = tensor<384xbf16>}, "">, #q.stored<{bias = tensor<128xbf16>}, "">] : tensor<512xbf16>
  return
}

// CHECK-LABEL: func.func @decoder
func.func @decoder(%b: !model.batch, %ids: tensor<?xi32>, %p: tensor<?xi32>, %e: tensor<256x384xbf16>, %g: tensor<384xbf16>, %h: tensor<64xbf16>,
                   %w: tensor<640x384xbf16>, %bias: tensor<640xbf16>, %l: index) {
  // CHECK: model.rope_table {inv_freq = array<f32: 1.000000e+00, 1.000000e-01>, scale = 1.000000e+00 : f32} : tensor<4096x4xf32>
  %t = model.rope_table {inv_freq = array<f32: 1.0, 0.1>, scale = 1.0 : f32} : tensor<4096x4xf32>
  // CHECK: model.embedding %{{.+}}, %{{.+}} : tensor<?xi32>, tensor<256x384xbf16> -> tensor<?x384xbf16>
  %x = model.embedding %ids, %e : tensor<?xi32>, tensor<256x384xbf16> -> tensor<?x384xbf16>
  // CHECK: model.rms_norm %{{.+}}, %{{.+}} {eps = 9.99999997E-7 : f32, module = "a.norm"} : tensor<?x384xbf16>, tensor<384xbf16> -> tensor<?x384xbf16>
  %n = model.rms_norm %x, %g {eps = 1.0e-06 : f32, module = "a.norm"} : tensor<?x384xbf16>, tensor<384xbf16> -> tensor<?x384xbf16>
  // CHECK: model.rms_norm %{{.+}}, %{{.+}} {eps = 9.99999997E-7 : f32, heads = 6 : i64, module = "a.q_norm"} : tensor<?x384xbf16>, tensor<64xbf16> -> tensor<?x384xbf16>
  %m = model.rms_norm %x, %h {eps = 1.0e-06 : f32, heads = 6 : i64, module = "a.q_norm"} : tensor<?x384xbf16>, tensor<64xbf16> -> tensor<?x384xbf16>
  // CHECK: model.linear %{{.+}}, %{{.+}} bias(%{{.+}} : tensor<640xbf16>) {fused = "a.qkv_proj", module = "a.q_proj"} : tensor<?x384xbf16>, tensor<640x384xbf16> -> tensor<?x640xbf16>
  %y = model.linear %n, %w bias(%bias : tensor<640xbf16>) {fused = "a.qkv_proj", module = "a.q_proj"} : tensor<?x384xbf16>, tensor<640x384xbf16> -> tensor<?x640xbf16>
  // CHECK: model.split %{{.+}} : tensor<?x640xbf16> -> tensor<?x384xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
  %q, %k, %v = model.split %y : tensor<?x640xbf16> -> tensor<?x384xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
  // CHECK: model.rope %{{.+}}, %{{.+}} at %{{.+}} {head_dim = 64 : i64, module = "a"} : tensor<?x384xbf16>, tensor<4096x4xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  %r = model.rope %q, %t at %p {head_dim = 64 : i64, module = "a"} : tensor<?x384xbf16>, tensor<4096x4xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  // CHECK: model.rope %{{.+}}, %{{.+}} at %{{.+}} {head_dim = 64 : i64, interleaved, module = "a"}
  %i = model.rope %q, %t at %p {head_dim = 64 : i64, interleaved, module = "a"} : tensor<?x384xbf16>, tensor<4096x4xf32>, tensor<?xi32> -> tensor<?x384xbf16>
  // CHECK: model.attention %{{.+}}, %{{.+}} : tensor<?x128xbf16>, v %{{.+}} : tensor<?x128xbf16> of %{{.+}}[%{{.+}}] {{.*}} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  %o = model.attention %r, %k : tensor<?x128xbf16>, v %v : tensor<?x128xbf16> of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, window = 100 : i64, module = "a", kv = #q.stored<{k_scale = tensor<f32>}, "">} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  // CHECK: model.add %{{.+}}, %{{.+}} : tensor<?x384xbf16>
  %s = model.add %x, %o : tensor<?x384xbf16>
  // CHECK: model.swiglu %{{.+}}, %{{.+}} : tensor<?x384xbf16>
  %u = model.swiglu %s, %s : tensor<?x384xbf16>
  // CHECK: model.trace "hidden"[%{{.+}}] %{{.+}} : tensor<?x384xbf16>
  model.trace "hidden"[%l] %u : tensor<?x384xbf16>
  // CHECK: model.select_rows %{{.+}}, %{{.+}} : tensor<?x384xbf16>, tensor<?xi32> -> tensor<?x384xbf16>
  %z = model.select_rows %u, %p : tensor<?x384xbf16>, tensor<?xi32> -> tensor<?x384xbf16>
  // CHECK: model.lm_head %{{.+}}, %{{.+}} {module = "lm_head"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<?x256xf32>
  %logits = model.lm_head %z, %e {module = "lm_head"} : tensor<?x384xbf16>, tensor<256x384xbf16> -> tensor<?x256xf32>
  // CHECK: model.output %{{.+}} to %{{.+}} : tensor<?x256xf32>
  model.output %logits to %b : tensor<?x256xf32>
  return
}

// A weight is first as its method stores it, then as its contract wants it (W7).
// CHECK-LABEL: func.func @b3_method_then_contract
func.func @b3_method_then_contract(%x: tensor<?x128xbf16>, %w: !q.tensor<512x128xf8E4M3FN, per_tensor, bf16, shards = [256, 128, 128]>,
    %v: !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]>, %q: !q.tensor<?x128xf8E4M3FN, per_tensor, f32>, %s: tensor<f32>) {
  // CHECK: model.linear %{{.+}}, %{{.+}} {contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>
  // CHECK-SAME: method = #q.method<"fp8", weight = per_tensor, scale = bf16, activation = static>, module = "a"}
  %0 = model.linear %x, %w {contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = bf16, activation = static>, module = "a"}
      : tensor<?x128xbf16>, !q.tensor<512x128xf8E4M3FN, per_tensor, bf16, shards = [256, 128, 128]> -> tensor<?x512xbf16>
  // CHECK: model.linear %{{.+}}, %{{.+}} input_scale(%{{.+}} : tensor<f32>) {
  %1 = model.linear %x, %v input_scale(%s : tensor<f32>) {contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = bf16, activation = static>, module = "a"}
      : tensor<?x128xbf16>, !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]> -> tensor<?x512xbf16>
  // CHECK: model.linear {{.+}} : !q.tensor<?x128xf8E4M3FN, per_tensor, f32>, !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]> -> tensor<?x512xbf16>
  %2 = model.linear %q, %v {contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = bf16, activation = static>, module = "a"}
      : !q.tensor<?x128xf8E4M3FN, per_tensor, f32>, !q.tensor<512x128xf8E4M3FN, per_channel, f32, shards = [256, 128, 128]> -> tensor<?x512xbf16>
  return
}

// A quantised lm_head of the checkpoint, static (P16).
// CHECK-LABEL: func.func @p16_static_lm_head
func.func @p16_static_lm_head(%x: tensor<?x128xbf16>, %s: tensor<f32>, %w: !q.tensor<512x128xf8E4M3FN, per_tensor, f32>) {
  // CHECK: model.lm_head %{{.+}}, %{{.+}} input_scale(%{{.+}} : tensor<f32>) {
  %0 = model.lm_head %x, %w input_scale(%s : tensor<f32>) {contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>, module = "lm_head"}
      : tensor<?x128xbf16>, !q.tensor<512x128xf8E4M3FN, per_tensor, f32> -> tensor<?x512xf32>
  return
}

// After insert-quantization k and v are in the cache.
// CHECK-LABEL: func.func @p7_attention_on_a_cache
func.func @p7_attention_on_a_cache(%b: !model.batch, %q: tensor<?x384xbf16>, %c: !q.kv<bf16, page = 64, heads = 2, dim = 64>,
    %f: !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, %s: tensor<f32>, %l: index) {
  // CHECK: model.attention %{{.+}} cache(%{{.+}} : !q.kv<bf16, page = 64, heads = 2, dim = 64>) of %{{.+}}[%{{.+}}]
  %0 = model.attention %q cache(%c : !q.kv<bf16, page = 64, heads = 2, dim = 64>) of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  // CHECK: model.attention %{{.+}} cache(%{{.+}} : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>) scales(%{{.+}}, %{{.+}} : tensor<f32>, tensor<f32>) of
  %1 = model.attention %q cache(%f : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>) scales(%s, %s : tensor<f32>, tensor<f32>) of %b[%l]
      {q_heads = 6 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x384xbf16>
  return
}
}
