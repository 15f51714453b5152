// RUN: octet-opt %s -octet-materialize-weights -split-input-file -verify-diagnostics

// A weight that means nothing without its scale.
func.func private @w6_missing_scale(%l: index, %x: tensor<?x4096xbf16>) -> tensor<?x18432xbf16> {
  %w = model.weight ["model.layers.{l}.mlp.gate_proj"][%l] "weight" stored [#q.stored<{weight = tensor<18432x4096xf8E4M3FN>}, "">] : !q.tensor<18432x4096xf8E4M3FN, block<128x128>, f32>
  // expected-error @+2 {{model.layers.5.mlp.gate_proj: no 'weight_scale_inv' for its f8E4M3FN weight; expected tensor<144x32xf32> [W6]}}
  // expected-note @+1 {{the same in layer 6}}
  %y = model.linear %x, %w {module = "model.layers.{l}.mlp.gate_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x4096xbf16>, !q.tensor<18432x4096xf8E4M3FN, block<128x128>, f32> -> tensor<?x18432xbf16>
  return %y : tensor<?x18432xbf16>
}
func.func @step(%x: tensor<?x4096xbf16>) {
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c7 = arith.constant 7 : index
  scf.for %l = %c5 to %c7 step %c1 {
    %0 = func.call @w6_missing_scale(%l, %x) : (index, tensor<?x4096xbf16>) -> tensor<?x18432xbf16>
  }
  return
}

// -----

// The ragged last block of each side counts (W1): 576 x 192 has 5 x 2 blocks.
func.func @w1_scale_shape(%x: tensor<?x192xbf16>) -> tensor<?x576xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<576x192xf8E4M3FN>, weight_scale_inv = tensor<4x1xf32>}, "">] : !q.tensor<576x192xf8E4M3FN, block<128x128>, f32>
  // expected-error @+1 {{a: 'weight_scale_inv' is tensor<4x1xf32>, expected tensor<5x2xf32> for !q.tensor<576x192xf8E4M3FN, block<128x128>, f32> [W1]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x192xbf16>, !q.tensor<576x192xf8E4M3FN, block<128x128>, f32> -> tensor<?x576xbf16>
  return %y : tensor<?x576xbf16>
}

// -----

// A static scheme without its scale, in one of two shards.
func.func @w2_missing_input_scale(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">, #q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
  // expected-error @+1 {{a.up_proj: no 'input_scale', which a static activation scheme reads; expected one F32 [W2]}}
  %y = model.linear %x, %w {module = "a.gate_up_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

func.func @w2_input_scale_shape(%x: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<32xf32>}, "">] : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
  // expected-error @+1 {{a: 'input_scale' is tensor<32xf32>, expected one float [W2]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<32x32xf8E4M3FN, per_tensor, f32> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

func.func @w2_input_scale_dtypes(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.gate_proj", "a.up_proj"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">, #q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<bf16>}, "">] : !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]>
  // expected-error @+1 {{a.up_proj: 'input_scale' is tensor<bf16>, that of 'gate_proj' tensor<f32>; the shards of a fused module store one dtype [W2]}}
  %y = model.linear %x, %w {module = "a.gate_up_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<64x32xf8E4M3FN, per_tensor, f32, shards = [32, 32]> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}

// -----

// A contract that no loading rewrite reaches: a block grid is not one a channel.
func.func @w7_no_rewrite(%x: tensor<?x32xbf16>) -> tensor<?x32xbf16> {
  %w = model.weight ["a"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<1x1xf32>}, "">] : !q.tensor<32x32xf8E4M3FN, block<128x128>, f32>
  // expected-error @+1 {{a: stores !q.tensor<32x32xf8E4M3FN, block<128x128>, f32>, the contract is #q.contract<weight = per_channel, scale = f32, activation = per_token>; scales are only ever spread from one a tensor to one a channel [W7]}}
  %y = model.linear %x, %w {module = "a", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x32xbf16>, !q.tensor<32x32xf8E4M3FN, block<128x128>, f32> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}

// -----

// What a static scheme reads has to be there, for lm_head too.
func.func @w2_static_lm_head(%x: tensor<?x32xbf16>) -> tensor<?x32xf32> {
  %w = model.weight ["lm_head"] "weight" stored [#q.stored<{weight = tensor<32x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : !q.tensor<32x32xf8E4M3FN, per_tensor, f32>
  // expected-error @+1 {{lm_head: no 'input_scale', which a static activation scheme reads; expected one F32 [W2]}}
  %y = model.lm_head %x, %w {module = "lm_head", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>} : tensor<?x32xbf16>, !q.tensor<32x32xf8E4M3FN, per_tensor, f32> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// -----

// A KV layout that is none of ours.
module attributes {q.config = #q.config<{kv_cache_quant_algo = "NVFP4"}, "hf_quant_config.json: quantization">} {
  func.func @c4_kv_cache_layout(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
    %c0 = arith.constant 0 : index
    // expected-error @+1 {{a: hf_quant_config.json: quantization.kv_cache_quant_algo is 'NVFP4', expected FP8 or 8 bits of type 'float'; --kv-cache bf16 keeps the cache in the activation dtype [C4]}}
    %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a"} : tensor<?x8xbf16> -> tensor<?x8xbf16>
    return %a : tensor<?x8xbf16>
  }
}

// -----

func.func @w2_kv_scale_a_head(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: 'k_scale' is tensor<2xf32>, expected one float a layer [W2]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{k_scale = tensor<2xf32>, v_scale = tensor<2xf32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

func.func @w2_kv_scale_dtypes(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: 'v_scale' is tensor<bf16>, 'k_scale' tensor<f32>; a cache's scales have one dtype [W2]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{k_scale = tensor<f32>, v_scale = tensor<bf16>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

// Which layers a function stands for has to be known.
func.func @unknown_layer(%l: index, %x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %w = model.weight ["a.{l}.proj"][%l] "weight" stored [#q.stored<{weight = tensor<8x8xbf16>}, "">] : tensor<8x8xbf16>
  // expected-error @-1 {{a.{l}.proj: its layer number is neither a constant nor that of a loop with constant bounds}}
  %y = model.linear %x, %w {module = "a.{l}.proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

// -----

// expected-error @+1 {{there is a load function already, but weights are still named by their modules}}
module {
  func.func @load(%rank: index) {
    return
  }
  func.func @loaded_twice(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
    %w = model.weight ["a.proj"] "weight" stored [#q.stored<{weight = tensor<8x8xbf16>}, "">] : tensor<8x8xbf16>
    %y = model.linear %x, %w {module = "a.proj"} : tensor<?x8xbf16>, tensor<8x8xbf16> -> tensor<?x8xbf16>
    return %y : tensor<?x8xbf16>
  }
}

// -----

// One scale has one spelling; two could say two things (W2).
func.func @w2_two_spellings_of_k(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: has both 'k_scale' and 'k_proj.k_scale' for its KV cache; one of the two spellings [W2]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{k_scale = tensor<f32>, k_proj.k_scale = tensor<f32>, kv_scale = tensor<f32>, v_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

func.func @w2_two_spellings_of_v(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: has both 'v_scale' and 'v_proj.output_scale' for its KV cache; one of the two spellings [W2]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{k_scale = tensor<f32>, v_scale = tensor<f32>, v_proj.output_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}

// -----

func.func @w2_kv_scale_and_v_scale(%q: tensor<?x8xbf16>, %b: !model.batch) -> tensor<?x8xbf16> {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{a: has both 'kv_scale' and 'v_scale' for its KV cache; one of the two spellings [W2]}}
  %a = model.attention %q, %q : tensor<?x8xbf16>, v %q : tensor<?x8xbf16> of %b[%c0] {q_heads = 2 : i64, kv_heads = 2 : i64, head_dim = 4 : i64, scale = 0.5 : f32, module = "a", kv = #q.stored<{kv_scale = tensor<f32>, v_scale = tensor<f32>}, "">} : tensor<?x8xbf16> -> tensor<?x8xbf16>
  return %a : tensor<?x8xbf16>
}
