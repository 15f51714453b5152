// RUN: octet-opt %s -octet-resolve-quant-methods -split-input-file -verify-diagnostics

// MXFP8 has products on the CPU and from sm_100 on (B6).
// expected-error @below {{--numerics sm_90a: method 'mxfp8' needs compute capability 10.0 or higher, or the CPU; sm_90a is 9.0; --mxfp8-as block or --mxfp8-as weight-only runs it there [B6]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @b6_sm90(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale_inv = tensor<128x2xui8>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Per-channel FP8 products need FP8 tensor cores (C9).
// expected-error-re @below {{{{--numerics sm_80: method 'w8a8_fp8' needs compute capability 8.9 or higher, sm_80 is 8.0; .* \[C9\]}}}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "w8a8_fp8"}, "config.json: quantization_config">} {
func.func @c9_w8a8(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale = tensor<128x1xf32>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Float scales are no exponents (N7, W1).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @n7_float_scales(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale_inv = tensor<128x2xf32>}, "">] : tensor<128x64xf8E4M3FN>
  // expected-error @below {{a.b: 'weight_scale_inv' is F32 [128, 2]; expected U8 [128, 2] (128x64 in groups of 32) in U8 or F8_E8M0 [W1]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// K is whole groups (N7).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @n7_ragged(%x: tensor<?x48xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x48xf8E4M3FN>, weight_scale_inv = tensor<128x2xui8>}, "">] : tensor<128x48xf8E4M3FN>
  // expected-error @below {{a.b: K is 48, not a multiple of the group of 32 [W1]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x48xbf16>, tensor<128x48xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// INT8 codes are I8 (N7, C13).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "w8a8_int8"}, "config.json: quantization_config">} {
func.func @n7_int8_codes(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale = tensor<128x1xf32>}, "">] : tensor<128x64xf8E4M3FN>
  // expected-error @below {{a.b: 'weight' is F8_E4M3 [128, 64]; expected I8 [128, 64] [C13]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Other FP8 formats need a scale as any (N8, W6).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @n8_no_scale(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FNUZ>}, "">] : tensor<128x128xf8E4M3FNUZ>
  // expected-error @below {{a.b: no 'weight_scale_inv' for its F8_E4M3FNUZ weight; expected F32 [1, 1] (128x128 in 128x128 blocks) [W6]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FNUZ> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// A flag's word.
// expected-error @below {{scale_format is 'floor', expected auto or keep [W11]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, scale_format = "floor">,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w11_word(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// expected-error @below {{mxfp8_as is 'fp8', expected block, weight-only or nothing [B6]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mxfp8_as = "fp8">,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @b6_word(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale_inv = tensor<128x2xui8>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}
