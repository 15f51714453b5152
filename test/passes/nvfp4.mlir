// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods | FileCheck %s --check-prefix=METHOD
// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights | FileCheck %s --check-prefix=LOAD
// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy | FileCheck %s --check-prefix=ROUND
// RUN: octet-opt %s -split-input-file -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels -octet-plan-buffers | FileCheck %s --check-prefix=KERNEL

// Where FP4 products are, NVFP4 rounds activations too (B4): each group of 16
// has a scale below the stored one of the input (N7).
// METHOD-LABEL: func.func @step
//       METHOD:   model.linear {{.*}}contract = #q.contract<weight = group<16>, codes = f4E2M1FN, scale = f8E4M3FN, activation = group<16> static, layout = packed>
//  METHOD-SAME:     method = #q.method<"modelopt_fp4", weight = group<16>, scale = f8E4M3FN, activation = dynamic>

// One stored scale of a fused matrix's input, the largest of its shards', and one
// above the groups of its weight, below which group scales are rounded again (W9).
// LOAD-LABEL: func.func @load
//       LOAD:   %[[W:.*]] = q.concat {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, shards = [64, 32], layout = packed>
//       LOAD:   %[[ONE:.*]] = q.share_global %[[W]] : {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
//       LOAD:   q.store %[[ONE]], @a.qkv_proj :
//       LOAD:   %[[Q:.*]] = q.load "a.q_proj" weight "input_scale" : tensor<f32>
//   LOAD-NOT:   arith.divf
//       LOAD:   %[[K:.*]] = q.load "a.k_proj" weight "input_scale" : tensor<f32>
//       LOAD:   %[[S:.*]] = q.max %[[Q]], %[[K]] : tensor<f32>, tensor<f32> -> tensor<f32>
//       LOAD:   q.store %[[S]], @a.qkv_proj.input_scale

// ROUND-LABEL: func.func @step
//       ROUND:   %[[G:.*]] = q.weight @a.qkv_proj.input_scale : tensor<f32>
//       ROUND:   %[[X:.*]] = q.quantize %{{.*}}, %[[G]] : tensor<?x256xbf16>, tensor<f32> -> !q.tensor<?x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
//       ROUND:   model.linear %[[X]],

// 64 rows of 128 bytes of codes, a line that ends in the stored scale, then the
// groups' scales: two codes share a byte.
// KERNEL-LABEL: func.func @step
//       KERNEL:   kernel.place 0 scales 8256 : !kernel.buffer<!q.tensor<?x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>>
//       KERNEL:   kernel.gemm "sm100.fp4_gemm" {{.*}}module = "a.qkv_proj"
module attributes {model.settings = #model.settings<target = "sm_100f", numerics = "sm_100f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
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

// compressed-tensors stores what divides (FORMATS).
// METHOD-LABEL: func.func @step
//       METHOD:   activation = group<16> static, layout = packed>
// LOAD-LABEL: func.func @load
//       LOAD:   q.share_global {{.*}} -> !q.tensor<96x256xf4E2M1FN, group<16>, f8E4M3FN, global = divides, layout = packed>
//       LOAD:   %[[Q:.*]] = q.load "a.q_proj" weight "input_global_scale" : tensor<1xf32>
//       LOAD:   %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<1xf32>
//       LOAD:   %[[QG:.*]] = arith.divf %[[ONE]], %[[Q]] : tensor<1xf32>
//       LOAD:   q.load "a.k_proj" weight "input_global_scale" : tensor<1xf32>
//       LOAD:   %[[KG:.*]] = arith.divf
//       LOAD:   q.max %[[QG]], %[[KG]] : tensor<1xf32>, tensor<1xf32> -> tensor<f32>
// ROUND-LABEL: func.func @step
//       ROUND:   q.quantize {{.*}} -> !q.tensor<?x256xf4E2M1FN, group<16>, f8E4M3FN, global = multiplies, layout = packed>
// KERNEL-LABEL: func.func @step
//       KERNEL:   kernel.gemm "mma.fp4_gemm" {{.*}}module = "a.qkv_proj"
module attributes {model.settings = #model.settings<target = "sm_120f", numerics = "sm_120f", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>,
  q.config = #q.config<{quant_method = "compressed-tensors", format = "nvfp4-pack-quantized", config_groups = {group_0 = {targets = ["Linear"], weights = {num_bits = 4, type = "float", symmetric = true, dynamic = false, strategy = "tensor_group", group_size = 16}, input_activations = {num_bits = 4, type = "float", symmetric = true, dynamic = "local", strategy = "tensor_group", group_size = 16}}}}, "config.json: quantization_config">} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %wq = model.weight ["a.q_proj"] "weight_packed" stored [#q.stored<{weight_packed = tensor<64x128xui8>, weight_scale = tensor<64x16xf8E4M3FN>, weight_global_scale = tensor<1xf32>, input_global_scale = tensor<1xf32>}, "group: group_0">] : tensor<64x128xui8>
  %q = model.linear %x, %wq {module = "a.q_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<64x128xui8> -> tensor<?x64xbf16>
  %wk = model.weight ["a.k_proj"] "weight_packed" stored [#q.stored<{weight_packed = tensor<32x128xui8>, weight_scale = tensor<32x16xf8E4M3FN>, weight_global_scale = tensor<1xf32>, input_global_scale = tensor<1xf32>}, "group: group_0">] : tensor<32x128xui8>
  %k = model.linear %x, %wk {module = "a.k_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<32x128xui8> -> tensor<?x32xbf16>
  model.output %q to %b : tensor<?x64xbf16>
  model.output %k to %b : tensor<?x32xbf16>
  return
}
}
