// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights | FileCheck %s --check-prefix=LOAD
// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels -octet-plan-buffers | FileCheck %s --check-prefix=KERNEL

// The CPU follows the numbers of FP4 products (B4, N7), from its own tiles; one
// scale stands above the groups of all shards (W9).
// LOAD-LABEL: func.func @load
//       LOAD:   q.check_scales
//       LOAD:   q.check_scales
//       LOAD:   q.concat {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, shards = [64, 32], layout = packed>
//       LOAD:   q.share_global {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
//       LOAD:   q.repack {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = tiled>
// KERNEL-LABEL: func.func @step
//       KERNEL:   q.quantize {{.*}} -> !q.tensor<1x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
//       KERNEL:   kernel.gemm "cpu.fp4_gemm" {{.*}}module = "a.qkv_proj"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_algo = "NVFP4", quant_method = "modelopt", group_size = 16}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %wq = model.weight ["a.q_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xui8>, weight_scale = tensor<64x16xf8E4M3FN>, weight_scale_2 = tensor<f32>, input_scale = tensor<f32>}, "">] : tensor<64x128xui8>
  %q = model.linear %x, %wq {module = "a.q_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<64x128xui8> -> tensor<?x64xbf16>
  %wk = model.weight ["a.k_proj"] "weight" stored [#q.stored<{weight = tensor<32x128xui8>, weight_scale = tensor<32x16xf8E4M3FN>, weight_scale_2 = tensor<f32>, input_scale = tensor<f32>}, "">] : tensor<32x128xui8>
  %k = model.linear %x, %wk {module = "a.k_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<32x128xui8> -> tensor<?x32xbf16>
  model.output %q to %b : tensor<?x64xbf16>
  model.output %k to %b : tensor<?x32xbf16>
  return
}
}

// -----

// By its own numbers it widens weights, and each shard keeps its scale (B4).
// LOAD-LABEL: func.func @load
//   LOAD-NOT:   q.share_global
//       LOAD:   q.concat {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, shards = [64, 32], layout = tiled>
// KERNEL-LABEL: func.func @step
//   KERNEL-NOT:   q.quantize
//       KERNEL:   kernel.gemm "cpu.tiled_gemm" {{.*}}module = "a.qkv_proj"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_algo = "NVFP4", quant_method = "modelopt", group_size = 16}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %wq = model.weight ["a.q_proj"] "weight" stored [#q.stored<{weight = tensor<64x128xui8>, weight_scale = tensor<64x16xf8E4M3FN>, weight_scale_2 = tensor<f32>, input_scale = tensor<f32>}, "">] : tensor<64x128xui8>
  %q = model.linear %x, %wq {module = "a.q_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<64x128xui8> -> tensor<?x64xbf16>
  %wk = model.weight ["a.k_proj"] "weight" stored [#q.stored<{weight = tensor<32x128xui8>, weight_scale = tensor<32x16xf8E4M3FN>, weight_scale_2 = tensor<f32>, input_scale = tensor<f32>}, "">] : tensor<32x128xui8>
  %k = model.linear %x, %wk {module = "a.k_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<32x128xui8> -> tensor<?x32xbf16>
  model.output %q to %b : tensor<?x64xbf16>
  model.output %k to %b : tensor<?x32xbf16>
  return
}
}

// -----

// MXFP4 on both sides has a power of two for each group (N4, N7).
// LOAD-LABEL: func.func @load
//       LOAD:   q.repack {{.*}} -> !q.tensor<64x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = tiled>
// KERNEL-LABEL: func.func @step
//       KERNEL:   kernel.place 0 scales 8192 : !kernel.buffer<!q.tensor<?x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>>
//       KERNEL:   q.quantize {{.*}} ue8m0 {{.*}} -> !q.tensor<1x256xf4E2M1FN, group<32>, f8E8M0FNU, layout = packed>
//       KERNEL:   kernel.gemm "cpu.fp4_gemm" {{.*}}module = "a.b"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "sm_120f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "quark", global_quant_config = {weight = {dtype = "fp4", qscheme = "per_group", group_size = 32, is_dynamic = false}, input_tensors = {dtype = "fp4", qscheme = "per_group", group_size = 32, is_dynamic = true}}}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %w = model.weight ["a.b"] "weight" stored [#q.stored<{weight = tensor<64x128xui8>, weight_scale = tensor<64x8xui8>}, "">] : tensor<64x128xui8>
  %y = model.linear %x, %w {module = "a.b"} : tensor<?x256xbf16>, tensor<64x128xui8> -> tensor<?x64xbf16>
  model.output %y to %b : tensor<?x64xbf16>
  return
}
}
