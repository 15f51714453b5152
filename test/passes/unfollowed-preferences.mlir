// RUN: octet-opt %s -octet-resolve-quant-methods -split-input-file -remarks-filter=octet-resolve-quant-methods 2>&1 >/dev/null | FileCheck %s --implicit-check-not='[Missed]'

// Preferences that there is no choice for are remarks (section 4).
// CHECK-DAG: [Missed] preference {{.*}}"--requant-max: no matrix has one FP8 scale a tensor, so none takes the largest of its shards' [W8]"
// CHECK-DAG: [Missed] preference {{.*}}"--mxfp8-as block: no module is MXFP8 [B6]"
// CHECK-DAG: [Missed] preference {{.*}}"--mla absorbed: no attention here is latent [W12]"
// CHECK-DAG: [Missed] preference {{.*}}"--index-cache bf16: no layer here has an indexer [P9]"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = true, batch_invariant = true, mla = "absorbed", index_cache = "bf16", mxfp8_as = "block">,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic", weight_block_size = [128, 128]}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale_inv = tensor<1x2xf32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// The CPU multiplies MXFP8.
// CHECK: [Missed] preference {{.*}}"--mxfp8-as weight-only: cpu multiplies MXFP8 as it is [B6]"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mxfp8_as = "weight-only">,
  q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale = tensor<128x8xui8>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

// Followed: nothing is said.
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true, mxfp8_as = "block">,
  q.config = #q.config<{quant_method = "mxfp8"}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale = tensor<128x8xui8>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}

// -----

module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = true, batch_invariant = true>,
  q.config = #q.config<{quant_method = "fp8", activation_scheme = "dynamic"}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<128x256xf8E4M3FN>, weight_scale = tensor<f32>}, "">] : tensor<128x256xf8E4M3FN>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<128x256xf8E4M3FN> -> tensor<?x128xbf16>
  model.output %y to %b : tensor<?x128xbf16>
  return
}
}
