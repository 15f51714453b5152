// RUN: octet-opt %s -octet-fuse-rowwise -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-fuse-rowwise=fuse=false -split-input-file | FileCheck %s --check-prefix=APART

// The residual sum is rounded before the norm reads it (N9), and stays a result
// because the next sum needs it (P2).
// CHECK-LABEL: func.func @add_norm_quantize
//       CHECK:   %[[K:[0-9]+]]:2 = kernel.rowwise "add+rms_norm+quantize" tokens of %arg2 ins(%arg0, %arg1, %{{[0-9]+}} :
//  CHECK-SAME:     access [row, row, uniform] modules ["n"]
//       CHECK:     %[[A:.+]] = arith.addf
//       CHECK:     %[[H:.+]] = kernel.round %[[A]] to bf16
//       CHECK:     %[[S:.+]] = arith.mulf %[[H]], %[[H]]
//       CHECK:     kernel.reduce add %[[S]] : tensor<256xf32> -> tensor<1xf32>
//       CHECK:     math.sqrt
//       CHECK:     arith.divf
//       CHECK:     %[[N:.+]] = kernel.round %{{.+}} to bf16
//       CHECK:     %[[Q:.+]] = q.quantize %[[N]] : tensor<256xf32> -> !q.tensor<1x256xf8E4M3FN, block<1x128>, f32>
//       CHECK:     kernel.yield %[[H]], %[[Q]]
//       CHECK:   } -> (tensor<?x256xbf16>, !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>)
//       CHECK:   model.linear %[[K]]#1
//       CHECK:   kernel.rowwise "add" {{.*}} ins(%[[K]]#0,
// APART-LABEL: func.func @add_norm_quantize
//       APART:   kernel.rowwise "add"
//       APART:   kernel.rowwise "rms_norm"
//       APART:   kernel.rowwise "quantize"
//       APART:   kernel.rowwise "add"
func.func @add_norm_quantize(%h: tensor<?x256xbf16>, %o: tensor<?x256xbf16>, %b: !model.batch) -> tensor<?x256xbf16> {
  %h1 = model.add %h, %o : tensor<?x256xbf16>
  %g = q.weight @g : tensor<256xbf16>
  %n = model.rms_norm %h1, %g {eps = 1.0e-6 : f32, module = "n"} : tensor<?x256xbf16>, tensor<256xbf16> -> tensor<?x256xbf16>
  %q = q.quantize %n : tensor<?x256xbf16> -> !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>
  %w = q.weight @w : !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>
  %d = model.linear %q, %w {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, module = "d"}
     : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<256x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x256xbf16>
  %h2 = model.add %h1, %d : tensor<?x256xbf16>
  return %h2 : tensor<?x256xbf16>
}
q.slot @g[1] : tensor<256xbf16>
q.slot @w[1] : !q.tensor<256x256xf8E4M3FN, block<128x128>, f32>

// -----

// q/k norm, RoPE and the KV write read slices of one matrix in one kernel; the
// split itself is gone (P6, P7a).
// CHECK-LABEL: func.func @heads
//       CHECK:   %[[Q:.+]] = kernel.rowwise "rms_norm+rope+kv_write" tokens of %arg2 ins(%arg0, %{{[0-9]+}}, %{{[0-9]+}} :
//  CHECK-SAME:     access [row, uniform, indexed] indices(%{{[0-9]+}} : tensor<?xi32>) cache(%{{[0-9]+}}, %{{[0-9]+}} : !q.kv
//       CHECK:     kernel.slice %{{.+}} at 0 : tensor<512xf32> -> tensor<256xf32>
//       CHECK:     kernel.reduce add %{{.+}} group 64 : tensor<256xf32> -> tensor<4xf32>
//       CHECK:     kernel.rope
//       CHECK:     kernel.slice %{{.+}} at 256 : tensor<512xf32> -> tensor<128xf32>
//       CHECK:     kernel.slice %{{.+}} at 384 : tensor<512xf32> -> tensor<128xf32>
//       CHECK:     kernel.yield
//  CHECK-SAME:       tensor<256xf32>, tensor<128xf32>, tensor<128xf32>
//       CHECK:   model.attention %[[Q]]
//   CHECK-NOT:   kernel.rowwise
//   CHECK-NOT:   model.split
func.func @heads(%x: tensor<?x512xbf16>, %l: index, %b: !model.batch) -> tensor<?x256xbf16> {
  %q, %k, %v = model.split %x : tensor<?x512xbf16> -> tensor<?x256xbf16>, tensor<?x128xbf16>, tensor<?x128xbf16>
  %g = q.weight @g : tensor<64xbf16>
  %qn = model.rms_norm %q, %g {eps = 1.0e-6 : f32, heads = 4 : i64, module = "q"} : tensor<?x256xbf16>, tensor<64xbf16> -> tensor<?x256xbf16>
  %kn = model.rms_norm %k, %g {eps = 1.0e-6 : f32, heads = 2 : i64, module = "k"} : tensor<?x128xbf16>, tensor<64xbf16> -> tensor<?x128xbf16>
  %p = model.field positions of %b : tensor<?xi32>
  %t = q.weight @t : tensor<64x64xf32>
  %qr = model.rope %qn, %t at %p {head_dim = 64 : i64, module = "a"} : tensor<?x256xbf16>, tensor<64x64xf32>, tensor<?xi32> -> tensor<?x256xbf16>
  %kr = model.rope %kn, %t at %p {head_dim = 64 : i64, module = "a"} : tensor<?x128xbf16>, tensor<64x64xf32>, tensor<?xi32> -> tensor<?x128xbf16>
  %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 64>
  %s = model.field slots of %b : tensor<?xi32>
  q.kv_write %kr, %v, %c at %s : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<bf16, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  %a = model.attention %qr cache(%c : !q.kv<bf16, page = 64, heads = 2, dim = 64>) of %b[%l] {q_heads = 4 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, module = "a"} : tensor<?x256xbf16> -> tensor<?x256xbf16>
  return %a : tensor<?x256xbf16>
}
q.slot @g[1] : tensor<64xbf16>
q.slot @t[1] : tensor<64x64xf32>

// -----

// An FP8 cache takes codes with the layer's scales (P7a, P8).
// CHECK-LABEL: func.func @fp8_cache
//       CHECK:   kernel.rowwise "kv_write"
//  CHECK-SAME:     access [row, row, uniform, uniform]
//       CHECK:     q.quantize %{{.+}}, %{{.+}} : tensor<128xf32>, tensor<1xf32> -> !q.tensor<1x128xf8E4M3FN, per_tensor, f32>
func.func @fp8_cache(%k: tensor<?x128xbf16>, %v: tensor<?x128xbf16>, %l: index, %b: !model.batch) {
  %c = q.kv_cache[%l] : !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>
  %s = model.field slots of %b : tensor<?xi32>
  %ks = q.weight @ks : tensor<f32>
  q.kv_write %k, %v, %c at %s scales(%ks, %ks : tensor<f32>, tensor<f32>) : tensor<?x128xbf16>, tensor<?x128xbf16>, !q.kv<fp8_e4m3, page = 64, heads = 2, dim = 64>, tensor<?xi32>
  return
}
q.slot @ks[1] : tensor<f32>

// -----

// SwiGLU's result is rounded, then quantised, in one kernel that reads the fused
// matrix; exp is written out (N9).
// CHECK-LABEL: func.func @swiglu
//       CHECK:   kernel.rowwise "swiglu+quantize" tokens of %{{.+}} ins(%arg0 : tensor<?x640xbf16>) access [row]
//       CHECK:     math.exp
//       CHECK:     kernel.round %{{.+}} to bf16 : tensor<320xf32>
//  CHECK-NEXT:     q.quantize %{{.+}} ue8m0
//   CHECK-NOT:   kernel.rowwise
func.func @swiglu(%x: tensor<?x640xbf16>, %b: !model.batch) -> !q.tensor<?x320xf8E4M3FN, block<1x128>, f32> {
  %g, %u = model.split %x : tensor<?x640xbf16> -> tensor<?x320xbf16>, tensor<?x320xbf16>
  %s = model.swiglu %g, %u : tensor<?x320xbf16>
  %q = q.quantize %s ue8m0 : tensor<?x320xbf16> -> !q.tensor<?x320xf8E4M3FN, block<1x128>, f32>
  return %q : !q.tensor<?x320xf8E4M3FN, block<1x128>, f32>
}

// -----

// Rows of the outputs are other rows: selecting them does not fuse with a norm
// of the tokens, what follows does (B5).
// CHECK-LABEL: func.func @outputs
//       CHECK:   %[[N:.+]] = kernel.rowwise "rms_norm" tokens
//       CHECK:   kernel.rowwise "select_rows+quantize" outputs of %{{.+}} ins(%[[N]] : tensor<?x64xf32>) access [indexed]
func.func @outputs(%x: tensor<?x64xf32>, %b: !model.batch) -> !q.tensor<?x64xf8E4M3FN, per_token, f32> {
  %g = q.weight @g : tensor<64xf32>
  %n = model.rms_norm %x, %g {eps = 1.0e-6 : f32, module = "n"} : tensor<?x64xf32>, tensor<64xf32> -> tensor<?x64xf32>
  %r = model.field output_rows of %b : tensor<?xi32>
  %s = model.select_rows %n, %r : tensor<?x64xf32>, tensor<?xi32> -> tensor<?x64xf32>
  %q = q.quantize %s : tensor<?x64xf32> -> !q.tensor<?x64xf8E4M3FN, per_token, f32>
  return %q : !q.tensor<?x64xf8E4M3FN, per_token, f32>
}
q.slot @g[1] : tensor<64xf32>

// -----

// An extracted module reads F32 and returns F32; it is rounded in between. The
// embedding's table may be wider than the activation (P1).
// CHECK-LABEL: func.func @step
//       CHECK:   model.field input of %{{.+}} : tensor<?x64xf32>
//       CHECK:   kernel.rowwise "embedding" {{.*}} access [indexed]
//       CHECK:     kernel.round
//       CHECK:   %[[Y:.+]] = kernel.rowwise "input+output" tokens of %arg0 ins(%{{.+}} : tensor<?x64xf32>) access [row]
//       CHECK:     %[[R:.+]] = kernel.round %{{.+}} to bf16
//       CHECK:     kernel.yield %[[R]]
//       CHECK:   } -> tensor<?x64xf32>
//       CHECK:   model.output %[[Y]] to %arg0 : tensor<?x64xf32>
func.func @step(%b: !model.batch) {
  %x = model.field input of %b : tensor<?x64xbf16>
  %i = model.field ids of %b : tensor<?xi32>
  %w = q.weight @w : tensor<8x64xf32>
  %e = model.embedding %i, %w : tensor<?xi32>, tensor<8x64xf32> -> tensor<?x64xbf16>
  %c = arith.constant 0 : index
  model.trace "hidden"[%c] %e : tensor<?x64xbf16>
  model.output %x to %b : tensor<?x64xbf16>
  return
}
q.slot @w[1] : tensor<8x64xf32>

// -----

// Nothing that works on rows: nothing changes.
// CHECK-LABEL: func.func @unchanged
//   CHECK-NOT:   kernel.rowwise
func.func @unchanged(%x: tensor<?x64xbf16>, %b: !model.batch) -> tensor<?x32xbf16> {
  %w = q.weight @w : tensor<32x64xbf16>
  %y = model.linear %x, %w {contract = #q.contract<none>, module = "l"} : tensor<?x64xbf16>, tensor<32x64xbf16> -> tensor<?x32xbf16>
  return %y : tensor<?x32xbf16>
}
q.slot @w[1] : tensor<32x64xbf16>
