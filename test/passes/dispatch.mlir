// RUN: octet-opt %s -octet-insert-quantization -octet-fuse-rowwise -octet-select-kernels -octet-plan-buffers | FileCheck %s

// The rows of experts are rounded, moved as codes, and stand by expert in a place of their own: two of each row, so twice the bytes of
// codes (2 * 64 rows of 256) and then their scales (P13, B7).
// CHECK-LABEL: func.func @step
//   CHECK-DAG:   %[[D:.+]] = kernel.place [[AT:[0-9]+]] scales [[SCALES:[0-9]+]] : !kernel.buffer<!model.dispatched<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, choices = 2, by expert>>
//   CHECK-DAG:   %[[Q:.+]] = kernel.place {{.*}} : !kernel.buffer<!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>>
//       CHECK:   kernel.launch "cpu.dispatch_rows" "model.dispatch"(%[[Q]], %{{.+}}) into(%[[D]] :
//       CHECK:   kernel.launch "cpu.fp8_block_experts" "model.experts"(%[[D]],
module attributes {
  model.settings = #model.settings<target = "cpu", numerics = "cpu", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 1, max_step_tokens = 64,
    activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = true>} {
  q.slot @gate [1] : tensor<8x256xbf16>
  q.slot @gate_up [1] : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
  q.slot @down [1] : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>
  func.func @step(%b: !model.batch) {
    %x = model.field input of %b : tensor<?x256xbf16>
    %gate = q.weight @gate : tensor<8x256xbf16>
    %g = q.weight @gate_up : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>
    %d = q.weight @down : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>
    %i, %s = model.moe_router %x, %gate {score = #model<score softmax>, top_k = 2 : i64, scale = 1.0 : f32, module = "m.gate"} : tensor<?x256xbf16>, tensor<8x256xbf16> -> tensor<?x2xi32>, tensor<?x2xf32>
    %y = model.experts %x, %i, %s gate_up(%g : !q.tensor<8x256x256xf8E4M3FN, block<128x128>, f32, shards = [128, 128]>) down(%d : !q.tensor<8x256x128xf8E4M3FN, block<128x128>, f32>)
      {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, experts = 8 : i64, gating = #model<gating swiglu>, module = "m.experts"}
      : tensor<?x256xbf16>, tensor<?x2xi32>, tensor<?x2xf32> -> tensor<?x256xbf16>
    model.output %y to %b : tensor<?x256xbf16>
    return
  }
}
