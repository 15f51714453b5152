// RUN: octet-opt %s -octet-fuse-projections -split-input-file -verify-diagnostics

module attributes {q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
  // The path names the first layer of the kind, a note the others.
  func.func private @c8_mixed(%l: index, %x: tensor<?x128xbf16>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>) {
    %wq = model.weight ["model.layers.{l}.self_attn.q_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : !q.tensor<64x128xf8E4M3FN, block<128x128>, f32>
    // expected-error @+2 {{model.layers.3.self_attn.qkv_proj: q_proj and k_proj are quantised but v_proj is on the ignore list; a fused module is skipped whole or not at all [C8]}}
    // expected-note @+1 {{the same in layers 4 to 6}}
    %q = model.linear %x, %wq {module = "model.layers.{l}.self_attn.q_proj", fused = "model.layers.{l}.self_attn.qkv_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
    %wk = model.weight ["model.layers.{l}.self_attn.k_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : !q.tensor<64x128xf8E4M3FN, block<128x128>, f32>
    %k = model.linear %x, %wk {module = "model.layers.{l}.self_attn.k_proj", fused = "model.layers.{l}.self_attn.qkv_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
    %wv = model.weight ["model.layers.{l}.self_attn.v_proj"][%l] "weight" stored [#q.stored<{weight = tensor<64x128xbf16>}, "ignored: modules_to_not_convert[7] 'self_attn.v_proj'">] : tensor<64x128xbf16>
    // expected-note @+1 {{config.json: quantization_config.modules_to_not_convert[7] is 'self_attn.v_proj'}}
    %v = model.linear %x, %wv {module = "model.layers.{l}.self_attn.v_proj", fused = "model.layers.{l}.self_attn.qkv_proj", contract = #q.contract<none>, method = #q.method<"unquantized">} : tensor<?x128xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
    return %q, %k, %v : tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>
  }
  func.func @step(%x: tensor<?x128xbf16>) {
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %c7 = arith.constant 7 : index
    scf.for %l = %c3 to %c7 step %c1 {
      %0:3 = func.call @c8_mixed(%l, %x) : (index, tensor<?x128xbf16>) -> (tensor<?x64xbf16>, tensor<?x64xbf16>, tensor<?x64xbf16>)
    }
    return
  }
}

// -----

// Stored plain and listed nowhere (C13): the other half of the sentence.
func.func @c8_stored_plain(%x: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
  %wg = model.weight ["a.gate_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : !q.tensor<64x128xf8E4M3FN, block<128x128>, f32>
  // expected-error @+1 {{a.gate_up_proj: gate_proj is quantised but up_proj is stored without scales; a fused module is skipped whole or not at all [C8]}}
  %g = model.linear %x, %wg {module = "a.gate_proj", fused = "a.gate_up_proj", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
  %wu = model.weight ["a.up_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xbf16>}, "">] : tensor<64x128xbf16>
  %u = model.linear %x, %wu {module = "a.up_proj", fused = "a.gate_up_proj", contract = #q.contract<none>, method = #q.method<"unquantized">} : tensor<?x128xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
  %s = model.swiglu %g, %u : tensor<?x64xbf16>
  return %s : tensor<?x64xbf16>
}

// -----

// A group of a compressed-tensors config that leaves one shard out.
func.func @c8_in_no_group(%x: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
  %wg = model.weight ["a.gate_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xbf16>}, "no group">] : tensor<64x128xbf16>
  // expected-error @+1 {{a.gate_up_proj: up_proj is quantised but gate_proj is in no group of the config; a fused module is skipped whole or not at all [C8]}}
  %g = model.linear %x, %wg {module = "a.gate_proj", fused = "a.gate_up_proj", contract = #q.contract<none>, method = #q.method<"unquantized">} : tensor<?x128xbf16>, tensor<64x128xbf16> -> tensor<?x64xbf16>
  %wu = model.weight ["a.up_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale = tensor<64x1xf32>}, "group: group_0">] : !q.tensor<64x128xf8E4M3FN, per_channel, f32>
  %u = model.linear %x, %wu {module = "a.up_proj", fused = "a.gate_up_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"compressed-tensors", weight = per_channel, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  %s = model.swiglu %g, %u : tensor<?x64xbf16>
  return %s : tensor<?x64xbf16>
}

// -----

// Two methods in one fused module.
func.func @c8_two_methods(%x: tensor<?x128xbf16>) -> tensor<?x64xbf16> {
  %wg = model.weight ["a.gate_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale = tensor<f32>}, "group: group_0">] : !q.tensor<64x128xf8E4M3FN, per_tensor, f32>
  // expected-error @+1 {{a.gate_up_proj: gate_proj is #q.method<"compressed-tensors", weight = per_tensor, scale = f32, activation = dynamic> but up_proj is #q.method<"compressed-tensors", weight = per_channel, scale = f32, activation = dynamic>; the shards of a fused module have one method [C8]}}
  %g = model.linear %x, %wg {module = "a.gate_proj", fused = "a.gate_up_proj", contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>, method = #q.method<"compressed-tensors", weight = per_tensor, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, per_tensor, f32> -> tensor<?x64xbf16>
  %wu = model.weight ["a.up_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xf8E4M3FN>, weight_scale = tensor<64x1xf32>}, "group: group_1">] : !q.tensor<64x128xf8E4M3FN, per_channel, f32>
  %u = model.linear %x, %wu {module = "a.up_proj", fused = "a.gate_up_proj", contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, method = #q.method<"compressed-tensors", weight = per_channel, scale = f32, activation = dynamic>} : tensor<?x128xbf16>, !q.tensor<64x128xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  %s = model.swiglu %g, %u : tensor<?x64xbf16>
  return %s : tensor<?x64xbf16>
}
