// FLAGS: --octet-shard --octet-materialize-weights --octet-insert-quantization --octet-verify-precision-policy
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "fp8_e4m3", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mla = "explicit">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 9223372036854775807 : index
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
