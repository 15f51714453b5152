// RUN: octet-opt %s -octet-verify-precision-policy -split-input-file -verify-diagnostics

func.func @p12_router_reads_codes(%c: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %gate: tensor<8x256xbf16>) {
  %dq = q.dequantize %c : !q.tensor<?x256xf8E4M3FN, per_token, f32> -> tensor<?x256xbf16>
  // expected-error @+1 {{m.gate: operand 0 was rounded to !q.tensor<?x256xf8E4M3FN, per_token, f32>; a router decides in high precision [P12]}}
  %i, %s = model.moe_router %dq, %gate {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

func.func @p12_router_weight_from_codes(%x: tensor<?x256xbf16>, %w: !q.tensor<8x256xf8E4M3FN, per_channel, f32>) {
  %gate = q.dequantize %w : !q.tensor<8x256xf8E4M3FN, per_channel, f32> -> tensor<8x256xbf16>
  // expected-error @+1 {{m.gate: operand 1 was rounded to !q.tensor<8x256xf8E4M3FN, per_channel, f32>; a router decides in high precision [P12]}}
  %i, %s = model.moe_router %x, %gate {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

func.func @b7_rows_in_token_order(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {
  // expected-error @+1 {{m.experts: operand 0 is in token order, the grouped product reads rows sorted by expert; insert-quantization dispatches them [B7]}}
  %y = model.experts %q, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p13_rows_where_codes_are_read(%x: tensor<?x256xbf16>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {
  %r = model.dispatch %x, %i {experts = 8 : i64, module = "m.experts"} : tensor<?x256xbf16>, tensor<?x2xi32> -> !model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>
  // expected-error @+1 {{m.experts: its rows arrive as tensor<?x256xbf16>, its contract is #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>; rows move as the product reads them [P13]}}
  %y = model.experts %r, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !model.dispatched<tensor<?x256xbf16>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  return
}

// -----

func.func @p13_codes_of_other_groups(%q: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {
  %r = model.dispatch %q, %i {experts = 8 : i64, module = "m.experts"} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, tensor<?x2xi32> -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, per_token, f32>, choices = 2, by expert>
  // expected-error @+1 {{m.experts: its rows arrive as !q.tensor<?x256xf8E4M3FN, per_token, f32>, its contract is #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>; rows move as the product reads them [P13]}}
  %y = model.experts %r, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !model.dispatched<!q.tensor<?x256xf8E4M3FN, per_token, f32>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
  return
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p14_result_in_f32(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {
    %r = model.dispatch %q, %i {experts = 8 : i64, module = "m.experts"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, tensor<?x2xi32> -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>
    // expected-error @+1 {{m.experts: its result is in f32, the activation dtype is bf16 [P14]}}
    %y = model.experts %r, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xf32>
    return
  }
}

// -----

func.func @p9_head_weights_from_codes(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %x: tensor<?x256xbf16>, %w: !q.tensor<2x256xf8E4M3FN, per_channel, f32>, %b: !model.batch, %l: index) {
  %c = q.kv_cache[%l] : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>
  // expected-error @+1 {{i.weights_proj: its weight is !q.tensor<2x256xf8E4M3FN, per_channel, f32>; the head weights of an indexer are never quantised [P9]}}
  %h = model.linear %x, %w {module = "i.weights_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = none>} : tensor<?x256xbf16>, !q.tensor<2x256xf8E4M3FN, per_channel, f32> -> tensor<?x2xf32>
  %r = model.indexer %q, %k : tensor<?x64xbf16> cache(%c : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>) weights(%h : tensor<?x2xf32>) of %b[%l]
    {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
  return
}

// -----

func.func @p9_norm_from_codes(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %h: tensor<?x2xf32>, %n: tensor<64xbf16>, %w: !q.tensor<1x64xf8E4M3FN, per_tensor, f32>, %b: !model.batch, %l: index) {
  %c = q.kv_cache[%l] : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>
  %g = q.dequantize %w : !q.tensor<1x64xf8E4M3FN, per_tensor, f32> -> tensor<64xbf16>
  // expected-error @+2 {{i.k_norm: operand 1 was rounded to !q.tensor<1x64xf8E4M3FN, per_tensor, f32>; a norm and its weight are never quantised [P5]}}
  // expected-error @+1 {{i.k_norm: its weight was rounded to !q.tensor<1x64xf8E4M3FN, per_tensor, f32>; the norm of an indexer's keys is never quantised [P9]}}
  %kn = model.layer_norm %k, %g, %n {eps = 1.0e-06 : f32, module = "i.k_norm"} : tensor<?x64xbf16>, tensor<64xbf16>, tensor<64xbf16> -> tensor<?x64xbf16>
  %r = model.indexer %q, %kn : tensor<?x64xbf16> cache(%c : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>) weights(%h : tensor<?x2xf32>) of %b[%l]
    {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
  return
}

// -----

func.func @p9_keys_rounded_before_the_cache(%q: tensor<?x128xbf16>, %c: !q.tensor<?x64xf8E4M3FN, per_token, f32>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) {
  %dq = q.dequantize %c : !q.tensor<?x64xf8E4M3FN, per_token, f32> -> tensor<?x64xbf16>
  %k = q.kv_cache[%l] : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>
  // expected-error @+1 {{i: operand 1 was rounded to !q.tensor<?x64xf8E4M3FN, per_token, f32>; what chooses keys is rounded by its cache alone [P9]}}
  %r = model.indexer %q, %dq : tensor<?x64xbf16> cache(%k : !q.kv<fp8_indexer, page = 64, heads = 1, dim = 64, rope = 0>) weights(%h : tensor<?x2xf32>) of %b[%l]
    {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
  return
}

// -----

func.func @p9_no_cache(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{i: has no cache, so how its keys are rounded is not decided [P9]}}
  %r = model.indexer %q, %k : tensor<?x64xbf16> weights(%h : tensor<?x2xf32>) of %b[%l]
    {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
  return
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 8, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p10_each_rank_its_own(%q: tensor<?x128xbf16>, %k: tensor<?x64xbf16>, %h: tensor<?x2xf32>, %b: !model.batch, %l: index) -> tensor<?x8xi32> {
    %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 1, dim = 64, rope = 0>
    // expected-error @+1 {{i: with tp=8 each rank reads the keys that it chose itself; rank 0's choice is broadcast, or --no-index-broadcast [P10]}}
    %r = model.indexer %q, %k : tensor<?x64xbf16> cache(%c : !q.kv<bf16, page = 64, heads = 1, dim = 64, rope = 0>) weights(%h : tensor<?x2xf32>) of %b[%l]
      {heads = 2 : i64, head_dim = 64 : i64, top_k = 8 : i64, scale = 0.1 : f32, module = "i"} : tensor<?x128xbf16> -> tensor<?x8xi32>
    return %r : tensor<?x8xi32>
  }
}

// -----

func.func @p15_sum_of_codes(%c: !q.tensor<?x256xf8E4M3FN, per_token, f32>) {
  %dq = q.dequantize %c : !q.tensor<?x256xf8E4M3FN, per_token, f32> -> tensor<?x256xbf16>
  // expected-error @+1 {{o_proj: operand 0 was rounded to !q.tensor<?x256xf8E4M3FN, per_token, f32>; a sum over ranks is never in FP8 [P15]}}
  %s = model.all_reduce %dq {ranks = 8 : i64, module = "o_proj"} : tensor<?x256xbf16>
  return
}

// -----

func.func @p7b_latents_without_a_cache(%q: tensor<?x384xbf16>, %c: tensor<?x128xbf16>, %r: tensor<?x32xbf16>, %w: tensor<512x128xbf16>, %b: !model.batch, %l: index) {
  // expected-error @+1 {{a: reads latents without a cache, so their layout is not decided [P7b]}}
  %o = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x128xbf16>) of %b[%l]
    {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
  return
}
