// RUN: octet-opt %s -octet-insert-quantization -octet-verify-precision-policy -octet-fuse-rowwise -octet-select-kernels | FileCheck %s

// Between data-parallel groups tokens move as codes with their scales (P13), and
// the sums of their experts in the activation dtype (P15).
// CHECK-LABEL: func.func @step
//       CHECK:   %[[Q:.+]]:2 = kernel.rowwise "input+add+quantize" tokens
//       CHECK:   %[[G:.+]] = kernel.launch "nccl.all_gather_rows" "model.gather_tokens"(%[[Q]]#{{[01]}}) of {{.*}} : (!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>) -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
//       CHECK:   %[[D:.+]] = kernel.launch "cuda.dispatch_rows" "model.dispatch"(%[[G]]
//       CHECK:   %[[Y:.+]] = kernel.launch "sm90.fp8_block_experts" "model.experts"(%[[D]]
//       CHECK:   kernel.launch "nccl.reduce_scatter_rows" "model.scatter_sum"(%[[Y]]) of {{.*}} : (tensor<?x256xbf16>) -> tensor<?x256xbf16>
module attributes {
  model.settings = #model.settings<target = "sm_90a", numerics = "sm_90a", dtype = bf16, tp = 1, ep = 2, dp = 2, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>} {
  func.func @step(%b: !model.batch) {
    %f = model.field input of %b : tensor<?x256xbf16>
    %gw = q.weight @gw : tensor<8x256xbf16>
    %x = model.add %f, %f : tensor<?x256xbf16>
    %i, %s = model.moe_router %x, %gw {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %gx = model.gather_tokens %x {groups = 2 : i64, module = "m.experts"} : tensor<?x256xbf16>
    %gi = model.gather_tokens %i {groups = 2 : i64, module = "m.experts"} : tensor<?x2xi32>
    %gs = model.gather_tokens %s {groups = 2 : i64, module = "m.experts"} : tensor<?x2xf32>
    %g = q.weight @g : !q.tensor<4x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
    %d = q.weight @d : !q.tensor<4x256x128xf8E4M3FN, block<128x128>, f32>
    %y = model.experts %gx, %gi, %gs gate_up(%g : !q.tensor<4x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<4x256x128xf8E4M3FN, block<128x128>, f32>)
      {experts = 8 : i64, ep = 2 : i64, gating = #model<gating swiglu>, module = "m.experts", contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>}
      : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    %z = model.scatter_sum %y {ranks = 2 : i64, groups = 2 : i64, module = "m.experts"} : tensor<?x256xbf16>
    model.output %z to %b : tensor<?x256xbf16>
    return
  }
  q.slot @gw[1] : tensor<8x256xbf16>
  q.slot @g[1] : !q.tensor<4x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
  q.slot @d[1] : !q.tensor<4x256x128xf8E4M3FN, block<128x128>, f32>
}
