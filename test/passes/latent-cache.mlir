// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy | FileCheck %s

// Nothing is declared: latents are kept in the activation dtype, 2 * (128 + 32) bytes a token (P7, P7b).
// CHECK-LABEL: module attributes {{.*}}kv_cache = "auto"
//       CHECK:   %[[C:.+]] = q.kv_cache[%{{.+}}] : !q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 32>
//       CHECK:   model.mla_attention {{.*}} cache(%[[C]] : !q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 32>) kv_b
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %q = model.field input of %b : tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// The 656-byte layout has a scale for each 128 of the latent, in the cache itself (P7).
// CHECK-LABEL: module attributes {{.*}}kv_cache = "fp8_ds_mla"
//   CHECK-NOT:   q.kv_scales
//       CHECK:   model.mla_attention {{.*}} cache(%{{.+}} : !q.kv<fp8_ds_mla, page = 64, heads = 1, dim = 128, rope = 32>) kv_b
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "fp8_ds_mla", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %q = model.field input of %b : tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// The 576-byte layout has one scale a layer; none is stored, so it is 1.0 (P7, P8).
// CHECK-LABEL: module attributes {{.*}}kv_cache = "fp8_e4m3"
//       CHECK:   q.slot @layers.self_attn.k_scale[1] : tensor<f32>
//       CHECK:   %[[K:.+]], %{{.+}} = q.kv_scales "model.layers.{{.*}}.self_attn"[%{{.+}}] : tensor<f32>, tensor<f32>
//       CHECK:   q.store %[[K]], @layers.self_attn.k_scale
//       CHECK:   %[[S:.+]] = q.weight @layers.self_attn.k_scale
//       CHECK:   model.mla_attention {{.*}} cache(%{{.+}} : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 128, rope = 32>) scale(%[[S]] : tensor<f32>) kv_b
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "fp8_e4m3", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %q = model.field input of %b : tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// A stored scale declares that layout (W2, P7b).
// CHECK-LABEL: module attributes {{.*}}kv_cache = "auto"
//       CHECK:   %[[K:.+]] = q.load "model.layers.{{.*}}.self_attn"[%{{.+}}] weight "k_scale" : tensor<f32>
//       CHECK:   q.kv_scales "model.layers.{{.*}}.self_attn"[%{{.+}}] k(%[[K]] : tensor<f32>) : tensor<f32>, tensor<f32>
//       CHECK:   model.mla_attention {{.*}} cache(%{{.+}} : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 128, rope = 32>) scale(
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %q = model.field input of %b : tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn", kv = #q.stored<{k_scale = tensor<f32>}, "">} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// So does the config (C4); a flag wins over both (P7b).
// CHECK-LABEL: module attributes {{.*}}kv_cache = "auto"
//       CHECK:   model.mla_attention {{.*}} cache(%{{.+}} : !q.kv<fp8_e4m3, page = 64, heads = 1, dim = 128, rope = 32>) scale(
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128], kv_cache_quant_algo = "FP8"}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %q = model.field input of %b : tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// CHECK-LABEL: module attributes {{.*}}kv_cache = "bf16"
//   CHECK-NOT:   q.kv_scales
//       CHECK:   model.mla_attention {{.*}} cache(%{{.+}} : !q.kv<bf16, page = 64, heads = 1, dim = 128, rope = 32>) kv_b
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "bf16", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 1 : index
    %q = model.field input of %b : tensor<?x320xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["model.layers.{l}.self_attn.kv_b_proj"][%l] "weight" stored [#q.stored<{weight = tensor<448x128xf8E4M3FN>, weight_scale_inv = tensor<4x1xbf16>}, "">] : tensor<448x128xf8E4M3FN>
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<448x128xf8E4M3FN>) of %b[%l]
      {heads = 4 : i64, nope_dim = 48 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "model.layers.{l}.self_attn", kv = #q.stored<{k_scale = tensor<f32>}, "">} : tensor<?x320xbf16> -> tensor<?x256xbf16>
    model.output %o to %b : tensor<?x256xbf16>
    return
  }
}
