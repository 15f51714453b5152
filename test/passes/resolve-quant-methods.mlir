// RUN: octet-opt %s -octet-resolve-quant-methods -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-resolve-quant-methods -split-input-file -verify-diagnostics -o %t

// A block grid with a ragged last row of blocks (W1, W4) and its contract (B1).
// CHECK-LABEL: func.func @block
//       CHECK:   model.weight ["a.b"] {{.*}} : !q.tensor<320x256xf8E4M3FN, block<128x128>, f32>
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
//  CHECK-SAME:   method = #q.method<"fp8", weight = block<128x128>, scale = f32, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @block(%x: tensor<?x256xbf16>) -> tensor<?x320xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<320x256xf8E4M3FN>, weight_scale_inv = tensor<3x2xf32>}, "">] : tensor<320x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<320x256xf8E4M3FN> -> tensor<?x320xbf16>
  return %y : tensor<?x320xbf16>
}
}

// -----

// The other spelling, the grid as [a, 1, b, 1], BF16 scales (W2): the type says
// what is stored, the contract what the kernel reads.
// CHECK-LABEL: func.func @block_other_spelling
//       CHECK:   !q.tensor<320x256xf8E4M3FN, block<128x128>, bf16>
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>
//  CHECK-SAME:   scale = bf16
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @block_other_spelling(%x: tensor<?x256xbf16>) -> tensor<?x320xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<320x256xf8E4M3FN>, weight_scale = tensor<3x1x2x1xbf16>}, "">] : tensor<320x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<320x256xf8E4M3FN> -> tensor<?x320xbf16>
  return %y : tensor<?x320xbf16>
}
}

// -----

// The checkpoint asks for power-of-two activation scales, on every target (P3).
// CHECK-LABEL: func.func @ue8m0
//       CHECK:   activation = block<1x128> ue8m0>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", scale_fmt = "ue8m0", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @ue8m0(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// One static scale each for weight and activation (B3: a single matrix).
// CHECK-LABEL: func.func @per_tensor_static
//       CHECK:   !q.tensor<64x32xf8E4M3FN, per_tensor, f32>
//       CHECK:   contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>
//  CHECK-SAME:   method = #q.method<"fp8", weight = per_tensor, scale = f32, activation = static>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @per_tensor_static(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{input_scale = tensor<1xf32>, weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// Dynamic per-tensor activations are one scale a token (P3).
// CHECK-LABEL: func.func @per_tensor_dynamic
//       CHECK:   contract = #q.contract<weight = per_tensor, scale = f32, activation = per_token>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @per_tensor_dynamic(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<1xf32>}, "">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// `fp8` without a block size reads the granularity off the stored scale (C3).
// CHECK-LABEL: func.func @c3_per_channel
//       CHECK:   !q.tensor<64x32xf8E4M3FN, per_channel, f32>
//       CHECK:   contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c3_per_channel(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<64x1xf32>}, "">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// compressed-tensors, read by its own name and by one that the user gave (C3).
// CHECK-LABEL: func.func @ct_channel
//       CHECK:   method = #q.method<"compressed-tensors", weight = per_channel, scale = bf16, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{config_groups = {group_0 = {input_activations = {dynamic = true, num_bits = 8, strategy = "token", type = "float"}, targets = ["Linear"], weights = {num_bits = 8, strategy = "channel", type = "float"}}}, format = "float-quantized", quant_method = "compressed-tensors"}, "config.json: quantization_config">} {
func.func @ct_channel(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<64x1xbf16>}, "group: group_0">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// CHECK-LABEL: func.func @c3_user_method
//       CHECK:   method = #q.method<"w8a8_fp8", weight = per_channel, scale = bf16, activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "w8a8_fp8", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{config_groups = {group_0 = {input_activations = {dynamic = true, num_bits = 8, strategy = "token", type = "float"}, targets = ["Linear"], weights = {num_bits = 8, strategy = "channel", type = "float"}}}, format = "float-quantized", quant_method = "compressed-tensors"}, "config.json: quantization_config">} {
func.func @c3_user_method(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<64x1xbf16>}, "group: group_0">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// A group whose activations are not quantised is weight-only.
// CHECK-LABEL: func.func @ct_weight_only
//       CHECK:   contract = #q.contract<weight = per_channel, scale = f32, activation = none>
//  CHECK-SAME:   activation = none>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{config_groups = {group_0 = {input_activations, targets = ["Linear"], weights = {num_bits = 8, strategy = "channel", type = "float"}}}, format = "float-quantized", quant_method = "compressed-tensors"}, "config.json: quantization_config">} {
func.func @ct_weight_only(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<64xbf16>}, "group: group_0">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// No config: nothing changes but the two attributes (C1).
// CHECK-LABEL: func.func @unquantized
//       CHECK:   model.weight {{.*}} : tensor<64x32xbf16>
//       CHECK:   contract = #q.contract<none>, method = #q.method<"unquantized">
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
func.func @unquantized(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// A listed module stored in BF16 (C7).
// CHECK-LABEL: func.func @c7_ignored
//       CHECK:   contract = #q.contract<none>, method = #q.method<"unquantized">
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c7_ignored(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "ignored: modules_to_not_convert[0] 'a.b'">] : tensor<64x32xbf16>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// In no list, but stored in BF16 without scales (C13): a note, per kind of layer.
// CHECK-LABEL: func.func @c13_plain
//       CHECK:   method = #q.method<"unquantized">
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c13_plain(%l: index, %x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.{l}.b"][%l] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  // expected-remark @below {{a.7.b: is stored in BF16 without scales and stays unquantised, though no list names it [C13]}}
  %y = model.linear %x, %w {module = "a.{l}.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
func.func @layers(%x: tensor<?x32xbf16>) {
  %c7 = arith.constant 7 : index
  %y = func.call @c13_plain(%c7, %x) : (index, tensor<?x32xbf16>) -> tensor<?x64xbf16>
  return
}
}

// -----

// Listed, but stored in FP8 with scales: used as stored, with a note (C13).
// CHECK-LABEL: func.func @c13_listed_but_stored
//       CHECK:   method = #q.method<"fp8", weight = per_tensor
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @c13_listed_but_stored(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "ignored: ignored_layers[3] 'b'">] : tensor<64x32xf8E4M3FN>
  // expected-remark @below {{a.b: is stored in F8_E4M3 with scales and used so, though the config lists it: ignored_layers[3] 'b' [C13]}}
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// A BF16 checkpoint quantised while loading: the type stays what is stored (W10);
// lm_head is never quantised (P16).
// CHECK-LABEL: func.func @w10_while_loading
//       CHECK:   model.weight {{.*}} : tensor<64x32xbf16>
//       CHECK:   contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>
//  CHECK-SAME:   method = #q.method<"fp8", weight = per_channel, scale = f32, activation = dynamic>
//       CHECK:   model.lm_head {{.*}}contract = #q.contract<none>, method = #q.method<"unquantized">
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "fp8", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
func.func @w10_while_loading(%x: tensor<?x32xbf16>) -> tensor<?x64xf32> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x32xbf16>}, "">] : tensor<64x32xbf16>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xbf16> -> tensor<?x64xbf16>
  %h = model.weight ["lm_head"] "weight" stored [#q.stored<{weight = tensor<64x64xbf16>}, "">] : tensor<64x64xbf16>
  %z = model.lm_head %y, %h {module = "lm_head"} : tensor<?x64xbf16>, tensor<64x64xbf16> -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
}

// -----

// A checkpoint that quantises its lm_head says so itself (P16).
// CHECK-LABEL: func.func @p16_stored_lm_head
//       CHECK:   model.lm_head {{.*}}method = #q.method<"fp8", weight = per_channel
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @p16_stored_lm_head(%x: tensor<?x32xbf16>) -> tensor<?x64xf32> {
  %h = model.weight ["lm_head"] "weight" stored [#q.stored<{weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<64x1xf32>}, "">] : tensor<64x32xf8E4M3FN>
  %z = model.lm_head %x, %h {module = "lm_head"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
}

// -----

// --activation-quant off.
// CHECK-LABEL: func.func @activation_quant_off
//       CHECK:   contract = #q.contract<weight = block<128x128>, scale = f32, activation = none>
//  CHECK-SAME:   activation = dynamic>
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "off", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{quant_method = "fp8", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @activation_quant_off(%x: tensor<?x128xbf16>) -> tensor<?x128xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x128xf8E4M3FN>, weight_scale_inv = tensor<1x1xf32>}, "">] : tensor<128x128xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x128xbf16>, tensor<128x128xf8E4M3FN> -> tensor<?x128xbf16>
  return %y : tensor<?x128xbf16>
}
}

// -----

// The CPU with the contracts of a target that has no FP8 tensor cores (B4): the
// activation stays, its stored scale is dropped.
// CHECK-LABEL: func.func @b4_weight_only
//       CHECK:   contract = #q.contract<weight = per_tensor, scale = f32, activation = none>
// expected-warning @below {{--numerics sm_86: no FP8 tensor cores; weights stay F8_E4M3 and are widened to BF16 in the kernel, activations are not quantised [B4]}}
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_86", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @b4_weight_only(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{input_scale = tensor<f32>, weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// The warning names the flag that says so.
// CHECK-LABEL: func.func @b4_other_target
// expected-warning @below {{--numerics sm_80: no FP8 tensor cores; weights stay F8_E4M3 and are widened to BF16 in the kernel, activations are not quantised [B4]}}
module attributes {model.settings = #model.settings<target = "sm_90a", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @b4_other_target(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{input_scale = tensor<f32>, weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}

// -----

// CHECK-LABEL: func.func @b4_target
// expected-warning @below {{--target sm_80: no FP8 tensor cores; weights stay F8_E4M3 and are widened to BF16 in the kernel, activations are not quantised [B4]}}
module attributes {model.settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
                    q.config = #q.config<{activation_scheme = "static", quant_method = "fp8"}, "config.json: quantization_config">} {
func.func @b4_target(%x: tensor<?x32xbf16>) -> tensor<?x64xbf16> {
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{input_scale = tensor<f32>, weight = tensor<64x32xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<64x32xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x32xbf16>, tensor<64x32xf8E4M3FN> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
}
