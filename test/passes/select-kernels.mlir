// RUN: octet-opt %s -octet-select-kernels -split-input-file | FileCheck %s
// RUN: octet-opt %s -octet-select-kernels -split-input-file -remarks-filter=octet-select-kernels 2> %t.remarks
// RUN: FileCheck %s --check-prefix=REMARK < %t.remarks

// Each contract has its kernel (B1, B3, B4).
// CHECK-LABEL: func.func @contracts
//       CHECK:   kernel.gemm "cpu.fp8_block_gemm" %{{.+}}, %{{.+}} of %{{.+}} tokens {max_m = array<i64: -1>, module = "block", variants = ["any"]}
//       CHECK:   kernel.gemm "cpu.fp8_channel_gemm" {{.*}} module = "channel"
//       CHECK:   kernel.gemm "cpu.fp8_channel_gemm" {{.*}} module = "channel_static"
//       CHECK:   kernel.gemm "cpu.fp8_tensor_gemm" {{.*}} module = "tensor"
//       CHECK:   kernel.gemm "cpu.fp8_weight_only_gemm" {{.*}} module = "weight_only"
//       CHECK:   kernel.gemm "cpu.gemm" {{.*}} bias({{.*}}) {{.*}} module = "plain"
//   CHECK-NOT:   model.linear
// REMARK: remark: [Passed] kernel {{.*}}"block: uses cpu.fp8_block_gemm [B1]"
// REMARK: "plain: uses cpu.gemm [C11]"
func.func @contracts(%x: tensor<?x256xbf16>, %xb: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %xt: !q.tensor<?x256xf8E4M3FN, per_token, f32>,
                     %xs: !q.tensor<?x256xf8E4M3FN, per_tensor, f32>, %b: !model.batch) {
  %wb = q.weight @wb : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
  %wc = q.weight @wc : !q.tensor<64x256xf8E4M3FN, per_channel, f32>
  %wt = q.weight @wt : !q.tensor<64x256xf8E4M3FN, per_tensor, f32>
  %wp = q.weight @wp : tensor<64x256xbf16>
  %bias = q.weight @bias : tensor<64xbf16>
  %0 = model.linear %xb, %wb {contract = #q.contract<weight = block<128x128>, scale = f32, activation = block<1x128>>, module = "block"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<64x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
  %1 = model.linear %xt, %wc {contract = #q.contract<weight = per_channel, scale = f32, activation = per_token>, module = "channel"} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, !q.tensor<64x256xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  %2 = model.linear %xs, %wc {contract = #q.contract<weight = per_channel, scale = f32, activation = per_tensor static>, module = "channel_static"} : !q.tensor<?x256xf8E4M3FN, per_tensor, f32>, !q.tensor<64x256xf8E4M3FN, per_channel, f32> -> tensor<?x64xbf16>
  %3 = model.linear %xs, %wt {contract = #q.contract<weight = per_tensor, scale = f32, activation = per_tensor static>, module = "tensor"} : !q.tensor<?x256xf8E4M3FN, per_tensor, f32>, !q.tensor<64x256xf8E4M3FN, per_tensor, f32> -> tensor<?x64xbf16>
  %4 = model.linear %x, %wb {contract = #q.contract<weight = block<128x128>, scale = f32, activation = none>, module = "weight_only"} : tensor<?x256xbf16>, !q.tensor<64x256xf8E4M3FN, block<128x128>, f32> -> tensor<?x64xbf16>
  %5 = model.linear %x, %wp bias(%bias : tensor<64xbf16>) {contract = #q.contract<none>, module = "plain"} : tensor<?x256xbf16>, tensor<64x256xbf16> -> tensor<?x64xbf16>
  return
}
q.slot @wb[1] : !q.tensor<64x256xf8E4M3FN, block<128x128>, f32>
q.slot @wc[1] : !q.tensor<64x256xf8E4M3FN, per_channel, f32>
q.slot @wt[1] : !q.tensor<64x256xf8E4M3FN, per_tensor, f32>
q.slot @wp[1] : tensor<64x256xbf16>
q.slot @bias[1] : tensor<64xbf16>

// -----

// The head multiplies the rows that were selected; attention and traces follow.
// CHECK-LABEL: func.func @rest
//       CHECK:   kernel.attention "cpu.paged_attention" %arg0, %{{.+}} of %{{.+}}[%{{.+}}] {head_dim = 64 : i64, kv_heads = 2 : i64, module = "a", q_heads = 4 : i64, reads = "bf16", scale = 1.250000e-01 : f32, window = 8 : i64}
//       CHECK:   kernel.trace "hidden"[%{{.+}}] %{{.+}} of %{{.+}} tokens
//       CHECK:   %[[S:.+]] = kernel.rowwise "select_rows" outputs
//       CHECK:   kernel.gemm "cpu.gemm" %[[S]], %{{.+}} of %{{.+}} outputs
func.func @rest(%q: tensor<?x256xbf16>, %l: index, %b: !model.batch) {
  %c = q.kv_cache[%l] : !q.kv<bf16, page = 64, heads = 2, dim = 64>
  %a = model.attention %q cache(%c : !q.kv<bf16, page = 64, heads = 2, dim = 64>) of %b[%l] {q_heads = 4 : i64, kv_heads = 2 : i64, head_dim = 64 : i64, scale = 0.125 : f32, window = 8 : i64, module = "a"} : tensor<?x256xbf16> -> tensor<?x256xbf16>
  model.trace "hidden"[%l] %a : tensor<?x256xbf16>
  %r = model.field output_rows of %b : tensor<?xi32>
  %s = kernel.rowwise "select_rows" outputs of %b ins(%a : tensor<?x256xbf16>) access [indexed] indices(%r : tensor<?xi32>) {
  ^bb0(%x: tensor<256xf32>):
    kernel.yield %x : tensor<256xf32>
  } -> tensor<?x256xbf16>
  %w = q.weight @w : tensor<32x256xbf16>
  %y = model.lm_head %s, %w {module = "lm_head"} : tensor<?x256xbf16>, tensor<32x256xbf16> -> tensor<?x32xf32>
  model.output %y to %b : tensor<?x32xf32>
  return
}
q.slot @w[1] : tensor<32x256xbf16>

// -----

// Nothing to choose.
// CHECK-LABEL: func.func @unchanged
//  CHECK-NEXT:   return
func.func @unchanged(%b: !model.batch) { return }
