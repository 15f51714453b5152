// FLAGS: --octet-insert-quantization --octet-verify-precision-policy --octet-fuse-rowwise --octet-select-kernels --octet-plan-buffers --octet-lower-to-host
module attributes {model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 4096, max_seqs = 8, max_step_tokens = 2048,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  func.func @p14_result_in_f32(%q: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>, %g: !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>, %d: !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {
    %r = model.dispatch %q, %i {experts = 8 : i64, module = "m.experts"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, tensor<?x2xi32> -> !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>
    %y = model.experts %r, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>) {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : !model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xf32>
    return
  }
}
