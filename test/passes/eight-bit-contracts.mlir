// RUN: octet-opt %s -octet-resolve-quant-methods -split-input-file | FileCheck %s

// MXFP8 (N7): exponents are stored as bytes, and the CPU multiplies by them (B6).
// CHECK-LABEL: func.func @b6_native
//       CHECK:   model.weight {{.*}} : !q.tensor<128x64xf8E4M3FN, block<1x32>, f8E8M0FNU>
//       CHECK:   contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>
//  CHECK-SAME:   method = #q.method<"mxfp8", weight = block<1x32>, scale = f8E8M0FNU, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @b6_native(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale_inv = tensor<128x2xui8>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Elsewhere as blocks, whose exactness is checked while loading (B6).
// CHECK-LABEL: func.func @b6_block
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128> ue8m0>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mxfp8_as = "block">,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @b6_block(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale_inv = tensor<128x2xui8>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Or with the weight widened in the kernel (B4, B6).
// CHECK-LABEL: func.func @b6_weight_only
//       CHECK:   contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = none>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mxfp8_as = "weight-only">,
                   q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @b6_weight_only(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale_inv = tensor<128x2xui8>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// INT8 (N7, N6b): codes of both sides are in the contract.
// CHECK-LABEL: func.func @n7_int8
//       CHECK:   contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "w8a8_int8"}, "config.json: quantization_config">} {
func.func @n7_int8(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xi8>, weight_scale = tensor<128x1xbf16>}, "">] : tensor<128x64xi8>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xi8> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// INT8 has products from sm_80 on; only FP8 is widened there (B4).
// CHECK-LABEL: func.func @b4_int8
//       CHECK:   contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "w8a8_int8"}, "config.json: quantization_config">} {
func.func @b4_int8(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xi8>, weight_scale = tensor<128x1xf32>}, "">] : tensor<128x64xi8>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xi8> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// No FP8 products: weight-only, and the stored input_scale is dropped (B4).
// CHECK-LABEL: func.func @b4_fp8
//       CHECK:   contract = #q.contract<weight = per_tensor, scale = f32, activation = none>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_86", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", activation_scheme = "static"}, "config.json: quantization_config">} {
func.func @b4_fp8(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale = tensor<f32>, input_scale = tensor<f32>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// fbgemm_fp8: a scale follows the token no further than its bound (P3).
// CHECK-LABEL: func.func @p3_bound
//       CHECK:   contract = #q.contract<weight = per_channel, scale = f32, activation = per_token bound 1.200000e+03>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fbgemm_fp8", activation_scale_ub = 1200.0}, "config.json: quantization_config">} {
func.func @p3_bound(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale = tensor<128x1xf32>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// E5M2 and FNUZ: the type says what is stored, the contract wants f8E4M3FN (N8).
// CHECK-LABEL: func.func @n8_e5m2
//       CHECK:   model.weight {{.*}} : !q.tensor<128x128xf8E5M2, block<128x128>, f32>
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @n8_e5m2(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E5M2>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E5M2>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E5M2> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// CHECK-LABEL: func.func @n8_fnuz
//       CHECK:   model.weight {{.*}} : !q.tensor<128x128xf8E4M3FNUZ, block<128x128>, f32>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @n8_fnuz(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FNUZ>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FNUZ>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FNUZ> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// sm_100 reads power-of-two scales (B1, W11), of activations too (P3).
// CHECK-LABEL: func.func @w11_sm100
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f8E8M0FNU, activation = block<1x128> ue8m0>
//  CHECK-SAME:   method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w11_sm100(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// --scale-format keep: the next kernel, which reads the stored ones (W11).
// CHECK-LABEL: func.func @w11_keep
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, scale_format = "keep">,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w11_keep(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// A block whose K side is not 128 takes the generic kernel with float scales on
// sm_100, but [32, 32] the fast one (B2).
// CHECK-LABEL: func.func @b2_generic
//       CHECK:   contract = #q.contract<weight = block<64x64>, scale = f32, activation = block<1x64>>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [64, 64]}, "config.json: quantization_config">} {
func.func @b2_generic(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<2x2xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// CHECK-LABEL: func.func @b2_32
//       CHECK:   contract = #q.contract<weight = block<32x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "fp8", weight_block_size = [32, 32]}, "config.json: quantization_config">} {
func.func @b2_32(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<4x4xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// --requant-max while loading: one scale a tensor (W10).
// CHECK-LABEL: func.func @w10_requant_max
//       CHECK:   model.weight {{.*}} : tensor<64x32xbf16>
//       CHECK:   contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "fp8", unfuse_mixed = false, requant_max = true, batch_invariant = true>} {
func.func @w10_requant_max(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// ModelOpt's words for the same things (C14).
// CHECK-LABEL: func.func @c14_modelopt_channel
//       CHECK:   contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>
//  CHECK-SAME:   #q.method<"modelopt", weight = per_channel, scale = f32, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "modelopt", quant_algo = "FP8_PER_CHANNEL_PER_TOKEN"}, "config.json: quantization_config">} {
func.func @c14_modelopt_channel(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale = tensor<128xf32>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// CHECK-LABEL: func.func @c14_modelopt_mxfp8
//       CHECK:   #q.method<"mxfp8", weight = block<1x32>, scale = f8E8M0FNU, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                   q.config = #q.config<{quant_method = "modelopt", quant_algo = "MXFP8"}, "config.json: quantization_config">} {
func.func @c14_modelopt_mxfp8(%x: tensor<?x64xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x64xf8E4M3FN>, weight_scale = tensor<128x2xui8>}, "">] : tensor<128x64xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x64xbf16>, tensor<128x64xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}
