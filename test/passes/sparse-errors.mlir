// RUN: octet-opt %s -split-input-file -verify-diagnostics -octet-resolve-quant-methods -octet-fuse-projections -octet-shard

// A scale is missing for the matrices of every expert (W6).
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x256xbf16>
    %gw = model.weight ["m.0.gate"] "weight" stored [#q.stored<{weight = tensor<8x256xbf16>}, "">] : tensor<8x256xbf16>
    %i, %s = model.moe_router %x, %gw {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.0.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %g = model.weight ["m.0.experts.{e}.gate_proj"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] {experts = 8 : i64} : tensor<8x128x256xf8E4M3FN>
    %u = model.weight ["m.0.experts.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] {experts = 8 : i64} : tensor<8x128x256xf8E4M3FN>
    %d = model.weight ["m.0.experts.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x128xf8E4M3FN>}, "">] {experts = 8 : i64} : tensor<8x256x128xf8E4M3FN>
    // expected-error @+1 {{m.0.experts.0.down_proj: no 'weight_scale_inv' for its F8_E4M3 weight; expected F32 [2, 1] (256x128 in 128x128 blocks) [W6]}}
    %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<8x128x256xf8E4M3FN>, tensor<8x128x256xf8E4M3FN>) down(%d : tensor<8x256x128xf8E4M3FN>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "m.0.experts"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    model.output %y to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// The matrices of an expert have one method (C8).
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x256xbf16>
    %gw = model.weight ["m.0.gate"] "weight" stored [#q.stored<{weight = tensor<8x256xbf16>}, "">] : tensor<8x256xbf16>
    %i, %s = model.moe_router %x, %gw {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.0.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %g = model.weight ["m.0.experts.{e}.gate_proj"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] {experts = 8 : i64} : tensor<8x128x256xf8E4M3FN>
    %u = model.weight ["m.0.experts.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<128x256xbf16>}, "">] {experts = 8 : i64} : tensor<8x128x256xbf16>
    %d = model.weight ["m.0.experts.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x128xf8E4M3FN>, weight_scale_inv = tensor<2x1xf32>}, "">] {experts = 8 : i64} : tensor<8x256x128xf8E4M3FN>
    // expected-error @+1 {{m.0.experts.0.up_proj: is #q.method<"unquantized">, 'm.0.experts.0.gate_proj' is #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>; the matrices of an expert have one method [C8]}}
    %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<8x128x256xf8E4M3FN>, tensor<8x128x256xbf16>) down(%d : tensor<8x256x128xf8E4M3FN>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "m.0.experts"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    model.output %y to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// Gate and up are split each on its own (W3, W5).
// expected-note @+1 {{for the whole model tp=1 or 2 would work}}
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 4, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x256xbf16>
    %gw = model.weight ["m.0.gate"] "weight" stored [#q.stored<{weight = tensor<8x256xbf16>}, "">] : tensor<8x256xbf16>
    %i, %s = model.moe_router %x, %gw {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.0.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %g = model.weight ["m.0.experts.{e}.gate_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 8 : i64} : tensor<8x256x256xf8E4M3FN>
    %u = model.weight ["m.0.experts.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 8 : i64} : tensor<8x256x256xf8E4M3FN>
    %d = model.weight ["m.0.experts.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 8 : i64} : tensor<8x256x256xf8E4M3FN>
    // expected-error @+2 {{m.0.experts.gate_up_proj: output dimension 256 over tp=4 is 64 per rank, not a multiple of the block (bn=128); tp=1 or 2 would work, or ep=4, which keeps each expert whole [W3]}}
    // expected-error @+1 {{m.0.experts.down_proj: input dimension 256 over tp=4 is 64 per rank, not a multiple of the block (bk=128); tp=1 or 2 would work, or ep=4, which keeps each expert whole [W3]}}
    %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<8x256x256xf8E4M3FN>, tensor<8x256x256xf8E4M3FN>) down(%d : tensor<8x256x256xf8E4M3FN>)
      {experts = 8 : i64, gating = #model<gating swiglu>, module = "m.0.experts"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    model.output %y to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// Inside a group of ranks each expert is split tp / ep ways (W3c): 4 / 2 works for
// what 4 ways do not, but the groups do not divide 9 experts.
// expected-note @+1 {{no tp works for the whole model with ep=2}}
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 4, ep = 2, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x256xbf16>
    %gw = model.weight ["m.0.gate"] "weight" stored [#q.stored<{weight = tensor<9x256xbf16>}, "">] : tensor<9x256xbf16>
    %i, %s = model.moe_router %x, %gw {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.0.gate"} : tensor<?x256xbf16>, tensor<9x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %g = model.weight ["m.0.experts.{e}.gate_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 9 : i64} : tensor<9x256x256xf8E4M3FN>
    %u = model.weight ["m.0.experts.{e}.up_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 9 : i64} : tensor<9x256x256xf8E4M3FN>
    %d = model.weight ["m.0.experts.{e}.down_proj"] "weight" stored [#q.stored<{weight = tensor<256x256xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] {experts = 9 : i64} : tensor<9x256x256xf8E4M3FN>
    // expected-error @+1 {{m.0.experts: 9 experts over ep=2 is not a whole number per group; ep=1 would work [W3c]}}
    %y = model.experts %x, %i, %s gate_up(%g, %u : tensor<9x256x256xf8E4M3FN>, tensor<9x256x256xf8E4M3FN>) down(%d : tensor<9x256x256xf8E4M3FN>)
      {experts = 9 : i64, gating = #model<gating swiglu>, module = "m.0.experts"} : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    model.output %y to %b : tensor<?x256xbf16>
    return
  }
}

// -----

// The head weights of an indexer are never quantised (P9).
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x256xbf16>
    %w = model.weight ["i.weights_proj"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
    // expected-error @+1 {{i.weights_proj: weight is F8_E4M3 [128, 256]; it decides which keys are read and is BF16, F16 or F32 [P9]}}
    %p = model.linear %x, %w {precise, module = "i.weights_proj"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xf32>
    model.output %p to %b : tensor<?x128xf32>
    return
  }
}

// -----

// Heads of latent attention (W3b).
// expected-note @+1 {{for the whole model tp=1, 2 or 4 would work}}
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 3, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @step(%b: !model.batch) {
    %l = arith.constant 0 : index
    %q = model.field input of %b : tensor<?x384xbf16>
    %c = model.field input of %b : tensor<?x128xbf16>
    %r = model.field input of %b : tensor<?x32xbf16>
    %w = model.weight ["a.kv_b_proj"] "weight" stored [#q.stored<{weight = tensor<512x128xbf16>}, "">] : tensor<512x128xbf16>
    // expected-error @+1 {{a: 4 heads and 4 KV heads over tp=3: heads are split evenly; tp=1, 2 or 4 would work [W3b]}}
    %y = model.mla_attention %q, %c, %r : tensor<?x128xbf16>, tensor<?x32xbf16> kv_b(%w : tensor<512x128xbf16>) of %b[%l]
      {heads = 4 : i64, nope_dim = 64 : i64, rope_dim = 32 : i64, value_dim = 64 : i64, rank = 128 : i64, scale = 0.1 : f32, module = "a"} : tensor<?x384xbf16> -> tensor<?x256xbf16>
    model.output %y to %b : tensor<?x256xbf16>
    return
  }
}
