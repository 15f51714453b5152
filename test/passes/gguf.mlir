// RUN: octet-opt %s -octet-resolve-quant-methods | FileCheck %s --check-prefix=METHOD
// RUN: octet-opt %s -octet-resolve-quant-methods -octet-fuse-projections -remarks-filter=octet-fuse-projections 2> %t.remarks | FileCheck %s --check-prefix=FUSE
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks
// RUN: octet-opt %s -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights | FileCheck %s --check-prefix=LOAD
// RUN: octet-opt %s -octet-resolve-quant-methods -octet-fuse-projections -octet-shard -octet-materialize-weights -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels | FileCheck %s --check-prefix=KERNEL

// A GGUF file says the type of each tensor: the method follows from it (C2), a
// weight only on every target (B4).
// METHOD-LABEL: func.func @step
//       METHOD:   model.embedding {{.*}} !q.tensor<96x64xi8, group<32>, f16, layout = gguf>
//       METHOD:   model.linear {{.*}}contract = #q.contract<weight = group<32>, codes = i4, scale = f16, activation = none, layout = tiled>
//  METHOD-SAME:     method = #q.method<"gguf", weight = group<32>, scale = f16, activation = none>
//       METHOD:   model.linear {{.*}}contract = #q.contract<none>{{.*}}module = "a.o_proj"

// Shards of one type are fused, others stay apart: no mistake (C8).
// FUSE-LABEL: func.func @step
//       FUSE:   model.linear {{.*}}module = "a.qkv_proj"{{.*}} !q.tensor<96x64xi4, group<32>, f16, minimums, shards = [64, 32], layout = gguf>
//       FUSE:   model.linear {{.*}}module = "a.gate_proj"
//       FUSE:   model.linear {{.*}}module = "a.up_proj"
// REMARK: "a.gate_up_proj: gate_proj is Q4_0 but up_proj is f32 in the file; its shards are not fused [C8]"

// The load function copies rows into their order (W16), checks the scales (W6)
// and brings 4-bit blocks into tiles, which unpacks nothing; the tied table is loaded once (W15).
// LOAD-LABEL: func.func @load
//       LOAD:   q.load "a.embed_tokens" weight "weight" : !q.tensor<96x64xi8, group<32>, f16, layout = gguf>
//       LOAD:   q.check_scales
//       LOAD:   q.store {{.*}}, @a.embed_tokens
//       LOAD:   q.load "a.q_proj" weight "weight" head_rows 32 : !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf>
//       LOAD:   q.check_scales
//       LOAD:   q.repack {{.*}} -> !q.tensor<64x64xi4, group<32>, f16, minimums, layout = tiled>
//       LOAD:   q.concat {{.*}} shards = [64, 32], layout = tiled>
//       LOAD:   q.load "a.q_proj" weight "bias" head_rows 32 : tensor<64xf32>
//       LOAD:   q.load "a.gate_proj" weight "weight" : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
//       LOAD:   q.load "a.up_proj" weight "weight" : tensor<64x64xf32>
//   LOAD-NOT:   q.load "a.embed_tokens"

// KERNEL-LABEL: func.func @step
//       KERNEL:   kernel.rowwise "embedding" tokens of {{.*}} ins({{.*}} : !q.tensor<96x64xi8, group<32>, f16, layout = gguf>) access [indexed]
//       KERNEL:     kernel.round
//       KERNEL:   kernel.gemm "cpu.tiled_gemm" {{.*}} module = "a.qkv_proj"
//       KERNEL:   kernel.gemm "cpu.tiled_gemm" {{.*}} module = "a.gate_proj"
//       KERNEL:   kernel.gemm "cpu.gemm" {{.*}} module = "a.up_proj"
//       KERNEL:   kernel.gemm "cpu.gguf_gemm" {{.*}} module = "lm_head"
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64, activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
func.func @step(%b: !model.batch) {
  %ids = model.field ids of %b : tensor<?xi32>
  %e = model.weight ["a.embed_tokens"] "weight" stored [#q.stored<{weight = !q.tensor<96x64xi8, group<32>, f16, layout = gguf>}, "">] : !q.tensor<96x64xi8, group<32>, f16, layout = gguf>
  %x = model.embedding %ids, %e : tensor<?xi32>, !q.tensor<96x64xi8, group<32>, f16, layout = gguf> -> tensor<?x64xbf16>
  %wq = model.weight ["a.q_proj"] "weight" stored [#q.stored<{weight = !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf>}, "", head_rows = 32>] : !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf>
  %bq = model.weight ["a.q_proj"] "bias" stored [#q.stored<{bias = tensor<64xf32>}, "", head_rows = 32>] : tensor<64xf32>
  %q = model.linear %x, %wq bias(%bq : tensor<64xf32>) {module = "a.q_proj", fused = "a.qkv_proj"} : tensor<?x64xbf16>, !q.tensor<64x64xi4, group<32>, f16, minimums, layout = gguf> -> tensor<?x64xbf16>
  %wk = model.weight ["a.k_proj"] "weight" stored [#q.stored<{weight = !q.tensor<32x64xi4, group<32>, f16, minimums, layout = gguf>}, "", head_rows = 32>] : !q.tensor<32x64xi4, group<32>, f16, minimums, layout = gguf>
  %bk = model.weight ["a.k_proj"] "bias" stored [#q.stored<{bias = tensor<32xf32>}, "", head_rows = 32>] : tensor<32xf32>
  %k = model.linear %x, %wk bias(%bk : tensor<32xf32>) {module = "a.k_proj", fused = "a.qkv_proj"} : tensor<?x64xbf16>, !q.tensor<32x64xi4, group<32>, f16, minimums, layout = gguf> -> tensor<?x32xbf16>
  %wo = model.weight ["a.o_proj"] "weight" stored [#q.stored<{weight = tensor<64x64xf16>}, "">] : tensor<64x64xf16>
  %o = model.linear %q, %wo {module = "a.o_proj"} : tensor<?x64xbf16>, tensor<64x64xf16> -> tensor<?x64xbf16>
  %wg = model.weight ["a.gate_proj"] "weight" stored [#q.stored<{weight = !q.tensor<64x64xi4, group<32>, f16, layout = gguf>}, "">] : !q.tensor<64x64xi4, group<32>, f16, layout = gguf>
  %g = model.linear %o, %wg {module = "a.gate_proj", fused = "a.gate_up_proj"} : tensor<?x64xbf16>, !q.tensor<64x64xi4, group<32>, f16, layout = gguf> -> tensor<?x64xbf16>
  %wu = model.weight ["a.up_proj"] "weight" stored [#q.stored<{weight = tensor<64x64xf32>}, "">] : tensor<64x64xf32>
  %u = model.linear %o, %wu {module = "a.up_proj", fused = "a.gate_up_proj"} : tensor<?x64xbf16>, tensor<64x64xf32> -> tensor<?x64xbf16>
  %s = model.swiglu %g, %u : tensor<?x64xbf16>
  %h = model.weight ["a.embed_tokens"] "weight" stored [#q.stored<{weight = !q.tensor<96x64xi8, group<32>, f16, layout = gguf>}, "">] : !q.tensor<96x64xi8, group<32>, f16, layout = gguf>
  %l = model.lm_head %s, %h {module = "lm_head"} : tensor<?x64xbf16>, !q.tensor<96x64xi8, group<32>, f16, layout = gguf> -> tensor<?x96xf32>
  model.output %l to %b : tensor<?x96xf32>
  return
}
}
