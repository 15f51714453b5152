// RUN: octet-opt %s -split-input-file -octet-materialize-weights -octet-insert-quantization | FileCheck %s

// Quark says of an FP8 cache in fields of its own (C4, P7b), and stores its scales as the outputs of the projections (W2).
// CHECK: q.load "a.k_proj" weight "output_scale" : tensor<f32>
// CHECK: q.load "a.v_proj" weight "output_scale" : tensor<f32>
// CHECK: q.kv_write {{.*}}!q.kv<fp8_e4m3, page = 64, heads = 1, dim = 8>
module attributes {q.config = #q.config<{quant_method = "quark", export = {kv_cache_group = ["*k_proj", "*v_proj"]}}, "config.json: quantization_config">} {
  func.func @exported(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a",
      kv = #q.stored<{k_proj.output_scale = tensor<f32>, v_proj.output_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

// Declared, and no scales: 1.0 (P8).
// CHECK: q.kv_scales "a"
// CHECK: q.kv_write {{.*}}!q.kv<fp8_e4m3,
module attributes {q.config = #q.config<{quant_method = "quark", kv_cache_quant_config = {"*k_proj" = {output_tensors = {dtype = "fp8_e4m3"}}}}, "config.json: quantization_config">} {
  func.func @configured(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

// Empty fields declare nothing (P7b).
// CHECK: q.kv_write {{.*}}!q.kv<bf16,
module attributes {q.config = #q.config<{quant_method = "quark", export = {kv_cache_group = []}, kv_cache_quant_config = {}}, "config.json: quantization_config">} {
  func.func @empty(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}
