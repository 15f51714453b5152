// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-materialize-weights | FileCheck %s

// Absorbed: the whole matrix is dequantised, block by block of its own rows, and then split by heads of 48 + 64 rows, none of which but the first
// starts on the edge of a block. Nothing of it is quantised any more (W12).
// CHECK-LABEL: module attributes {{.*}}mla = "absorbed"
//       CHECK:   q.slot @layers.self_attn.kv_b_proj.w_kc[1] : tensor<4x48x128xbf16>
//       CHECK:   q.slot @layers.self_attn.kv_b_proj.w_vc[1] : tensor<4x64x128xbf16>
//       CHECK:   %[[W:.+]] = q.load "model.layers.{{.*}}.self_attn.kv_b_proj"[%{{.+}}] weight "weight" scale "weight_scale_inv" : !q.tensor<448x128xf8E4M3FN, block<128x128>, bf16>
//       CHECK:   q.check_scales %[[W]]
//       CHECK:   %[[F:.+]] = q.convert_scales %[[W]]
//       CHECK:   %[[M:.+]] = q.dequantize %[[F]] : !q.tensor<448x128xf8E4M3FN, block<128x128>, f32> -> tensor<448x128xbf16>
//       CHECK:   %[[K:.+]], %[[V:.+]] = q.split_heads %[[M]] : tensor<448x128xbf16> -> tensor<4x48x128xbf16>, tensor<4x64x128xbf16>
//       CHECK:   q.store %[[K]], @layers.self_attn.kv_b_proj.w_kc
//       CHECK:   q.store %[[V]], @layers.self_attn.kv_b_proj.w_vc
//       CHECK:   %[[KC:.+]] = q.weight @layers.self_attn.kv_b_proj.w_kc
//       CHECK:   %[[VC:.+]] = q.weight @layers.self_attn.kv_b_proj.w_vc
//       CHECK:   model.mla_attention {{.*}} kv_b(%[[KC]], %[[VC]] : tensor<4x48x128xbf16>, tensor<4x64x128xbf16>) {{.*}}contract = #q.contract<none>, {{.*}}method = #q.method<"fp8"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "absorbed">,
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

// Explicit: kv_b_proj stays a linear whose input is quantised (P3, W12).
// CHECK-LABEL: module attributes {{.*}}mla = "explicit"
//       CHECK:   q.slot @layers.self_attn.kv_b_proj[1] : !q.tensor<448x128xf8E4M3FN, block<128x128>, f32>
//   CHECK-NOT:   q.dequantize
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}} : !q.tensor<448x128xf8E4M3FN, block<128x128>, f32>) {{.*}}contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
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

// `auto` is absorbed where a row's result may not depend on how many there are.
// CHECK-LABEL: module attributes {{.*}}batch_invariant = true>
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}}, %{{.+}} : tensor<4x48x128xbf16>, tensor<4x64x128xbf16>)
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
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

// Elsewhere the kernel has both (B5).
// CHECK-LABEL: module attributes {{.*}}batch_invariant = false>
//       CHECK:   q.slot @layers.self_attn.kv_b_proj[1]
//       CHECK:   q.slot @layers.self_attn.kv_b_proj.w_kc[1]
//       CHECK:   q.slot @layers.self_attn.kv_b_proj.w_vc[1]
//       CHECK:   %[[F:.+]] = q.convert_scales
//       CHECK:   q.store %[[F]], @layers.self_attn.kv_b_proj :
//       CHECK:   model.mla_attention {{.*}} kv_b(%{{.+}}, %{{.+}}, %{{.+}} : !q.tensor<448x128xf8E4M3FN, block<128x128>, f32>, tensor<4x48x128xbf16>, tensor<4x64x128xbf16>) {{.*}}contract = #q.contract<weight = block<128x128>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>,
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
