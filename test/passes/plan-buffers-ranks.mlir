// RUN: octet-opt %s -octet-plan-buffers | FileCheck %s

// Between gathering the tokens of two data-parallel groups and scattering the
// sums a value has the rows of both (W3c): sixteen rows of 64 BF16 are 2048 bytes,
// those of both 4096, once for each of two experts 8192; the three live at once.
// CHECK: kernel.arena_bytes = 14336 : i64
// CHECK-LABEL: func.func @step
//   CHECK-DAG:   %[[X:.+]] = kernel.place 0 : !kernel.buffer<tensor<?x64xbf16>>
//   CHECK-DAG:   %[[G:.+]] = kernel.place 2048 : !kernel.buffer<tensor<?x64xbf16>>
//   CHECK-DAG:   %[[D:.+]] = kernel.place {{.+}} : !kernel.buffer<!model.dispatched<tensor<?x64xbf16>, choices = 2, by expert>>
//       CHECK:   kernel.launch "nccl.all_gather_rows" "model.gather_tokens"(%[[X]]) into(%[[G]]
//       CHECK:   kernel.launch "cuda.dispatch_rows" "model.dispatch"(%[[G]]) into(%[[D]]
module attributes {model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 2, dp = 2, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @step(%b: !model.batch) {
    %f = model.field input of %b : tensor<?x64xf32>
    %x = kernel.launch "a" "model.join"(%f) of %b {module = "a", params = {}} : (tensor<?x64xf32>) -> tensor<?x64xbf16>
    %g = kernel.launch "nccl.all_gather_rows" "model.gather_tokens"(%x) of %b {module = "m", params = {groups = 2 : i64}, unwritten} : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
    %d = kernel.launch "cuda.dispatch_rows" "model.dispatch"(%g) of %b {module = "m", params = {}, unwritten} : (tensor<?x64xbf16>) -> !model.dispatched<tensor<?x64xbf16>, choices = 2, by expert>
    %y = kernel.launch "sm90.dense_experts" "model.experts"(%d) of %b {module = "m", params = {}, unwritten} : (!model.dispatched<tensor<?x64xbf16>, choices = 2, by expert>) -> tensor<?x64xbf16>
    %s = kernel.launch "nccl.reduce_scatter_rows" "model.scatter_sum"(%y) of %b {module = "m", params = {groups = 2 : i64, ranks = 2 : i64}, unwritten} : (tensor<?x64xbf16>) -> tensor<?x64xbf16>
    model.output %s to %b : tensor<?x64xbf16>
    return
  }
}
