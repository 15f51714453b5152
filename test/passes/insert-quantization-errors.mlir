// RUN: octet-opt %s -octet-insert-quantization -split-input-file -verify-diagnostics

func.func @p3_no_static_scale(%x: tensor<?x8xbf16>, %w: !q.tensor<8x8xf8E4M3FN, per_tensor, f32>) -> tensor<?x8xbf16> {
  // expected-error @+1 {{a: its contract has a static activation scale, but it has no input_scale; materialize-weights gives it one [P3]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>} : tensor<?x8xbf16>, !q.tensor<8x8xf8E4M3FN, per_tensor, f32> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

module attributes {q.config = #q.config<{kv_cache_scheme = "FP8"}, "config.json: quantization_config">} {
  func.func @p8_no_scales(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c2 = arith.constant 2 : index
    // expected-error @+1 {{model.layers.2.self_attn: its cache is fp8_e4m3, but it has no scales of keys and values; materialize-weights gives it some [P8]}}
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c2] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "model.layers.{l}.self_attn"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

module attributes {q.config = #q.config<{kv_cache_scheme = {num_bits = 4, type = "float"}}, "config.json: quantization_config">} {
  func.func @c4_four_bits(%q: tensor<?x8xf16>, %b: !model.batch) -> tensor<?x8xf16> {
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a: config.json: quantization_config.kv_cache_scheme is {"num_bits":4,"type":"float"}, expected FP8 or 8 bits of type 'float'; --kv-cache f16 keeps the cache in the activation dtype [C4]}}
    %a = model.attention %q, %q : tensor<?x8xf16>, v %q : tensor<?x8xf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xf16> -> tensor<?x8xf16>
    return %a : tensor<?x8xf16>
  }
}

// -----

module attributes {q.config = #q.config<{kv_cache_scheme = [8]}, "config.json: quantization_config">} {
  func.func @c4_neither_word_nor_object(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a: config.json: quantization_config.kv_cache_scheme is [8], expected FP8 or 8 bits of type 'float'; --kv-cache bf16 keeps the cache in the activation dtype [C4]}}
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 1 : i64, kv_heads = 1 : i64, head_dim = 8 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}
