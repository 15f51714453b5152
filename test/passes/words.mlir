// RUN: octet-opt %s -octet-resolve-quant-methods | FileCheck %s --check-prefix=METHOD
// RUN: octet-opt %s -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights | FileCheck %s --check-prefix=LOAD
// RUN: octet-opt %s -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels | FileCheck %s --check-prefix=KERNEL

// With the contracts of another target the CPU's kernel is the same one, and
// reads tiles.
// RUN: sed 's/numerics = "cpu"/numerics = "sm_90a"/' %s | octet-opt -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels | FileCheck %s --check-prefix=KERNEL
// Another target's own kernel of that method reads words as they are stored.
// RUN: sed 's/numerics = "cpu"/numerics = "sm_90a"/; s/target = "cpu"/target = "sm_90a"/; s/quantization = ""/quantization = "gptq"/' %s | octet-opt -octet-resolve-quant-methods | FileCheck %s --check-prefix=STORED
// STORED: model.linear {{.*}}activation = none, layout = packed_k>

// GPTQ with act-order: weights only on every target (B4), repacked by loading
// (C10). The matrix has its own sides, whatever the words' tensor has.
// METHOD-LABEL: func.func @step
//       METHOD:   model.linear {{.*}}contract = #q.contract<weight = group<128>, codes = i4, scale = f16, activation = none, layout = tiled>
//  METHOD-SAME:     method = #q.method<"gptq", weight = group<128>, scale = f16, activation = none>
//  METHOD-SAME:     !q.tensor<64x256xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>

// Each shard is loaded, joined (W1), checked (W6) and repacked by itself, then
// fused (W5b).
// LOAD-LABEL: func.func @load
//       LOAD:   q.load "a.q_proj" weight "qweight" : tensor<32x64xi32>
//       LOAD:   q.load "a.q_proj" weight "scales" : tensor<2x64xf16>
//       LOAD:   q.load "a.q_proj" weight "qzeros" : tensor<2x8xi32>
//       LOAD:   q.load "a.q_proj" weight "g_idx" : tensor<256xi32>
//       LOAD:   q.pack {{.*}} zeros({{.*}}) order({{.*}}) {{.*}} -> !q.tensor<64x256xi4, group<128>, f16, zero_points_minus_one, act_order, layout = packed_k>
//       LOAD:   q.check_scales
//       LOAD:   q.repack {{.*}} -> !q.tensor<64x256xi4, group<128>, f16, zero_points, act_order, layout = tiled>
//       LOAD:   q.load "a.k_proj" weight "qweight" : tensor<32x32xi32>
//       LOAD:   q.concat {{.*}} -> !q.tensor<96x256xi4, group<128>, f16, zero_points, act_order, shards = [64, 32], layout = tiled>
//       LOAD:   q.store {{.*}}, @a.qkv_proj :

// KERNEL-LABEL: func.func @step
//       KERNEL:   kernel.gemm "cpu.tiled_gemm" {{.*}} module = "a.qkv_proj"
module attributes {q.config = #q.config<{quant_method = "gptq", bits = 4, group_size = 128, desc_act = true, sym = true}, "config.json: quantization_config">,
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x256xbf16>
  %wq = model.weight ["a.q_proj"] "qweight" stored [#q.stored<{qweight = tensor<32x64xi32>, scales = tensor<2x64xf16>, qzeros = tensor<2x8xi32>, g_idx = tensor<256xi32>}, "">] : tensor<32x64xi32>
  %q = model.linear %x, %wq {module = "a.q_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<32x64xi32> -> tensor<?x64xbf16>
  %wk = model.weight ["a.k_proj"] "qweight" stored [#q.stored<{qweight = tensor<32x32xi32>, scales = tensor<2x32xf16>, qzeros = tensor<2x4xi32>, g_idx = tensor<256xi32>}, "">] : tensor<32x32xi32>
  %k = model.linear %x, %wk {module = "a.k_proj", fused = "a.qkv_proj"} : tensor<?x256xbf16>, tensor<32x32xi32> -> tensor<?x32xbf16>
  model.output %q to %b : tensor<?x64xbf16>
  model.output %k to %b : tensor<?x32xbf16>
  return
}
}
