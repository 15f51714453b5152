// RUN: octet-opt %s -split-input-file -verify-diagnostics -octet-insert-quantization

// Without materialize-weights nobody has given the 576-byte cache its scale (P8).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "fp8_e4m3", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p8_no_scale(%q: tensor<?x384xbf16>, %c: tensor<?x128xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x128xbf16>, %b: !model.batch, %l: index) {
    // expected-error @+1 {{a: its cache is fp8_e4m3, but it has no scales of keys and values; materialize-weights gives it some [P8]}}
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x128xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
    return
  }
}

// -----

// The layout of an indexer's keys is none of latents (P7).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "fp8_indexer", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p7_layout_of_keys(%q: tensor<?x384xbf16>, %c: tensor<?x128xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x128xbf16>, %b: !model.batch, %l: index) {
    // expected-error @+1 {{a: --kv-cache is 'fp8_indexer', the cache of latent attention is auto, bf16, f16, f32, fp8_e4m3 or fp8_ds_mla [P7]}}
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x128xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
    return
  }
}

// -----

// What the config declares is none of ours (C4).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>, q.config = #q.config<{kv_cache_scheme = {num_bits = 4, type = "int"}}, "config.json: quantization_config">} {
  func.func @c4_other_scheme(%q: tensor<?x384xbf16>, %c: tensor<?x128xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x128xbf16>, %b: !model.batch, %l: index) {
    // expected-error @+1 {{a: config.json: quantization_config.kv_cache_scheme is {"num_bits":4,"type":"int"}, expected FP8 or 8 bits of type 'float'; --kv-cache bf16 keeps the cache in the activation dtype [C4]}}
    %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x128xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
    return
  }
}
