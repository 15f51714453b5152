// RUN: octet-opt %s -octet-lower-to-host | FileCheck %s
// What load makes of a weight on the host goes when the weight is on the device,
// not at the end: after each upload (byte 160 of octet_runtime) that nothing made
// before outlives. `forget` takes the context alone.

// CHECK-LABEL: llvm.func internal @octet_load
//       CHECK:   llvm.mlir.constant(160 : i64)
//  CHECK-NEXT:   llvm.getelementptr
//       CHECK:   llvm.call %{{.+}}(%arg0, %{{.+}}, %{{.+}}, %{{.+}}) : {{.*}} -> i32
//       CHECK:   llvm.call %{{.+}}(%arg0) : !llvm.ptr, (!llvm.ptr) -> ()
// Two scales that are made at once go at once.
//       CHECK:   llvm.mlir.constant(160 : i64)
//   CHECK-NOT:   llvm.call %{{.+}}(%arg0) :
//       CHECK:   llvm.mlir.constant(160 : i64)
//       CHECK:   llvm.call %{{.+}}(%arg0) : !llvm.ptr, (!llvm.ptr) -> ()
//   CHECK-NOT:   llvm.call
// CHECK-LABEL: llvm.func internal @octet_step

#settings = #model.settings<target = "sm_80", numerics = "sm_80", dtype = bf16, tp = 1, ep = 1, dp = 1, max_context = 64, max_seqs = 4, max_step_tokens = 16,
  activation_quant = "auto", kv_cache = "auto", quantization = "", unfuse_mixed = false, requant_max = false, batch_invariant = false>

module attributes {model.settings = #settings, model.info = {hash = "0", kind = "module", layers = 2 : i64, module = {in = 64 : i64, out = 128 : i64, path = "m"}}, kernel.arena_bytes = 4096 : i64} {
  q.slot @w[2] : tensor<128x64xbf16>
  q.slot @k[1] : tensor<f32>
  q.slot @v[1] : tensor<f32>
  func.func @load(%rank: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    scf.for %l = %c0 to %c2 step %c1 {
      %w = q.load "layers.{l}.w"[%l] weight "weight" : tensor<128x64xbf16>
      q.store %w, @w[%l] : tensor<128x64xbf16>
    }
    %k, %v = q.kv_scales "m" : tensor<f32>, tensor<f32>
    q.store %k, @k[%c0] : tensor<f32>
    q.store %v, @v[%c0] : tensor<f32>
    return
  }
  func.func @step(%b: !model.batch) { return }
}
