// RUN: octet-opt %s -octet-resolve-quant-methods -split-input-file -verify-diagnostics

// An unknown method lists the valid ones (C2).
// expected-error @below {{config.json: quantization_config.quant_method: no method is called 'fp9'; valid for target cpu are 'auto-round', 'awq', 'awq_marlin', 'compressed-tensors', 'fbgemm_fp8', 'fp8', 'gguf', 'gptq', 'gptq_marlin', 'modelopt', 'modelopt_fp4', 'mxfp4', 'mxfp8', 'quark', 'w8a8_fp8' and 'w8a8_int8' [C2]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp9"}, "config.json: quantization_config">} {
func.func @c2_unknown_method(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// A number of bits that a method has and no kernel reads (C2).
// expected-error @below {{config.json: quantization_config.bits: is 3, which is not built; 4 and 8 are [C2]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "gptq", bits = 3}, "config.json: quantization_config">} {
func.func @c2_not_built(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// The user's method has to read the stored layout (C3).
// expected-error @below {{--quantization w8a8_fp8: cannot read this checkpoint's layout, which is 'fp8' (config.json: quantization_config); it reads per-channel FP8 of 'w8a8_fp8' and 'compressed-tensors' checkpoints [C3]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "w8a8_fp8", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c3_other_layout(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// A field of the wrong type (C4).
// expected-error @below {{config.json: quantization_config.weight_block_size: is [128,0], expected two positive integers [bn, bk] [C4]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 0]}, "config.json: quantization_config">} {
func.func @c4_block_size(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// One static scale cannot describe blocks (C5).
// expected-error @below {{config.json: quantization_config.weight_block_size: is [128, 128] and activation_scheme is 'static'; one static scale cannot describe per-block activations, activation_scheme 'dynamic' can [C5]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c5_static_block(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// A block size where nothing is stored in FP8 (C5).
// expected-error @below {{config.json: quantization_config.weight_block_size: is [128, 128] but no linear is stored in F8_E4M3; convert the checkpoint offline first with 'octet quantize CKPT -o DIR --to fp8-block', or drop the quantization_config [C5]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c5_not_serialised(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xbf16>}, "">] : tensor<128x128xbf16>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Targets (C9).
// expected-error-re @below {{--target sm_80: method 'w8a8_fp8' needs compute capability 8.9 or higher, sm_80 is 8.0; {{.*}}'compressed-tensors', {{.*}}'fp8', {{.*}} run there, FP8 with weights widened to BF16, and method 'w8a8_fp8' runs on cpu and from sm_89 on [C9]}}
module attributes {model.settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "w8a8_fp8", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{config_groups = {group_0 = {input_activations = {dynamic = true, num_bits = 8, strategy = "token", type = "float"}, targets = ["Linear"], weights = {num_bits = 8, strategy = "channel", type = "float"}}}, format = "float-quantized", quant_method = "compressed-tensors"}, "config.json: quantization_config">} {
func.func @c9_capability(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<64x1xbf16>}, "group: group_0">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// expected-error @below {{--target sm_70: method 'fp8' needs compute capability 8.0 or higher, sm_70 is 7.0; no method runs there, and method 'fp8' runs on cpu and from sm_80 on [C9]}}
module attributes {model.settings = #model.settings<target = "sm_70", numerics = "sm_70", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c9_old_target(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// expected-error @below {{--numerics sm_75: method 'fp8' needs compute capability 8.0 or higher, sm_75 is 7.5; no method runs there, and method 'fp8' runs on cpu and from sm_80 on [C9]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_75", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c9_numerics(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// expected-error @below {{--dtype f32: f32 activations run on the CPU target only, the target is sm_90a; bf16 and f16 run there [C9]}}
module attributes {model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = f32, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c9_dtype(%x: tensor<?x128xf32>) -> tensor<?x128xf32> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xf32>, tensor<128x128xf8E4M3FN> -> tensor<?x128xf32>
  return %y : tensor<?x128xf32>
}
}

// -----

// A linear for which the method has no answer (C11): no target names it, nothing
// is called `weight`, or methods were resolved before.
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{config_groups = {group_0 = {targets = ["re:.*up_proj"], weights = {num_bits = 8, strategy = "tensor", type = "float"}}}, format = "float-quantized", quant_method = "compressed-tensors"}, "config.json: quantization_config">} {
func.func @c11_no_group(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<1xf32>}, "no group">] : tensor<64x32xf8E4M3FN>
  // expected-error @below {{a.b: weight is F8_E4M3 and no target of config_groups names it; a group with target 'Linear', its path or a pattern [C11]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c11_packed(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight_packed = tensor<64x4xi32>}, "">] : tensor<64x32xbf16>
  // expected-error @below {{a.b: has no tensor 'weight'; no method built here has an answer for it [C11]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c11_twice(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  // expected-error @below {{'model.linear' op has a method already [C11]}}
  %y = model.linear %x, %w {contract = #q.contract<none>, method = #q.method<"unquantized">, module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// Config and headers contradict each other (C13).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
func.func @c13_no_config(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  // expected-error @below {{a.b: weight is F8_E4M3 but the checkpoint declares no quantisation method; a quantization_config, or '--quantization fp8' [C13]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @c13_scale_of_bf16(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xbf16>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xbf16>
  // expected-error @below {{a.b: has 'weight_scale_inv' F32 [1, 1] but its weight is BF16 [128, 128]; a scale belongs to a quantised weight, such as F8_E4M3 [C13]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xbf16> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c13_listed_without_scale(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>}, "ignored: modules_to_not_convert[2] 'b'">] : tensor<128x128xf8E4M3FN>
  // expected-error @below {{a.b: weight is F8_E4M3 without a scale, and modules_to_not_convert[2] 'b' says it is not quantised; a BF16 weight, or 'weight_scale' [C13]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Scales of another shape or dtype (W1), under both names at once (W2).
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w1_shape(%x: tensor<?x7168xbf16>) -> tensor<?x576xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<576x7168xf8E4M3FN>, weight_scale_inv = tensor<4x56xf32>}, "">] : tensor<576x7168xf8E4M3FN>
  // expected-error @below {{a.b: 'weight_scale_inv' is F32 [4, 56]; expected F32 [5, 56] (576x7168 in 128x128 blocks) [W1]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x7168xbf16>, tensor<576x7168xf8E4M3FN> -> tensor<?x576xbf16>
  return %y : tensor<?x576xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w1_dtype(%x: tensor<?x256xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xui8>}, "">] : tensor<128x256xf8E4M3FN>
  // expected-error @below {{a.b: 'weight_scale_inv' is U8 [1, 2]; expected F32, BF16 or F16, exponents belong to 'mxfp8' [W1]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w2_both(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale = tensor<f32>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  // expected-error @below {{a.b: has both 'weight_scale' F32 [] and 'weight_scale_inv' F32 [1, 1]; one of the two spellings [W2]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// Missing scales (W6), with the first layer of the kind and a note of the others.
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w6_missing(%l: index, %x: tensor<?x4096xbf16>) -> tensor<?x18432xbf16> {
  %w = model.weight ["a.{l}.b"][%l] "weight" stored [#q.stored<{weight = tensor<18432x4096xf8E4M3FN>}, "">] : tensor<18432x4096xf8E4M3FN>
  // expected-note @+2 {{the same in layer 6}}
  // expected-error @below {{a.5.b: no 'weight_scale_inv' for its F8_E4M3 weight; expected F32 [144, 32] (18432x4096 in 128x128 blocks) [W6]}}
  %y = model.linear %x, %w {module = "a.{l}.b"} : tensor<?x4096xbf16>, tensor<18432x4096xf8E4M3FN> -> tensor<?x18432xbf16>
  return %y : tensor<?x18432xbf16>
}
func.func @layers(%x: tensor<?x4096xbf16>) {
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c7 = arith.constant 7 : index
  scf.for %l = %c5 to %c7 step %c1 {
    %y = func.call @w6_missing(%l, %x) : (index, tensor<?x4096xbf16>) -> tensor<?x18432xbf16>
  }
  return
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @w6_other_scale(%x: tensor<?x4096xbf16>) -> tensor<?x18432xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<18432x4096xf8E4M3FN>, weight_scale = tensor<1xf32>}, "">] : tensor<18432x4096xf8E4M3FN>
  // expected-note @+2 {{has 'a.b.weight_scale' [1], a per-tensor scale}}
  // expected-error @below {{a.b: no 'weight_scale_inv' for its F8_E4M3 weight; expected F32 [144, 32] (18432x4096 in 128x128 blocks) [W6]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x4096xbf16>, tensor<18432x4096xf8E4M3FN> -> tensor<?x18432xbf16>
  return %y : tensor<?x18432xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @w6_no_input_scale(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<64x32xf8E4M3FN>
  // expected-error @below {{a.b: no 'input_scale', which a static activation scheme needs; expected F32 [] [W6]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @w1_input_scale(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{input_scale = tensor<2xf32>, weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<64x32xf8E4M3FN>
  // expected-error @below {{a.b: 'input_scale' is F32 [2]; expected F32 [] (one scale for the activation) [W1]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// What import writes is missing.
// expected-error @below {{'builtin.module' op has no model.settings; import writes it}}
module {}
