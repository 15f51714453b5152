// RUN: octet-opt %s -octet-select-kernels -split-input-file -verify-diagnostics

// A sum of more products would not be exact in INT32; only the kernels of the
// weight's codes say why not (N6b).
func.func @n6b_long(%x: !q.tensor<?x131104xi8, per_token, f32>, %b: !model.batch) {
  %w = q.weight @w : !q.tensor<64x131104xi8, per_channel, f32>
  // expected-error @+3 {{a.b: no kernel of the CPU multiplies}}
  // expected-note @+2 {{cpu.int8_gemm: it sums at most 131072 products exactly in INT32, K is 131104}}
  // expected-note @+1 {{cpu.int8_weight_only_gemm: it reads a plain input, this one is !q.tensor<?x131104xi8, per_token, f32>}}
  %y = model.linear %x, %w {contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>, module = "a.b"} : !q.tensor<?x131104xi8, per_token, f32>, !q.tensor<64x131104xi8, per_channel, f32> -> tensor<?x64xbf16>
  return
}
q.slot @w[1] : !q.tensor<64x131104xi8, per_channel, f32>

// -----

// A layout of another target's kernel (B4).
func.func @b4_layout(%x: tensor<?x256xbf16>, %b: !model.batch) {
  %w = q.weight @w : !q.tensor<64x256xf8E4M3FN, per_channel, f32, layout = weight_only>
  // expected-error @+6 {{a.b: no kernel of the CPU multiplies}}
  // expected-note @+5 {{cpu.mxfp8_gemm: it reads rows of codes, these are in layout weight_only}}
  // expected-note @+4 {{cpu.fp8_block_gemm: it reads rows of codes}}
  // expected-note @+3 {{cpu.fp8_channel_gemm: it reads rows of codes}}
  // expected-note @+2 {{cpu.fp8_tensor_gemm: it reads rows of codes}}
  // expected-note @+1 {{cpu.fp8_weight_only_gemm: it reads rows of codes}}
  %y = model.linear %x, %w {contract = #q.contract<weight = per_channel, scale = f32, activation = none>, module = "a.b"} : tensor<?x256xbf16>, !q.tensor<64x256xf8E4M3FN, per_channel, f32, layout = weight_only> -> tensor<?x64xbf16>
  return
}
q.slot @w[1] : !q.tensor<64x256xf8E4M3FN, per_channel, f32, layout = weight_only>

// -----

// MXFP8 beside activations in other groups: the operator itself refuses (P3).
func.func @p3_groups(%x: !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, %b: !model.batch) {
  %w = q.weight @w : !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>
  // expected-error @+1 {{'model.linear' op input is '!q.tensor<?x256xf8E4M3FN, block<1x128>, f32>', the contract is}}
  %y = model.linear %x, %w {contract = #q.contract<weight = block<1x32>, scale = f8E8M0FNU, activation = block<1x32> ue8m0>, module = "a.b"} : !q.tensor<?x256xf8E4M3FN, block<1x128>, f32>, !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU> -> tensor<?x64xbf16>
  return
}
q.slot @w[1] : !q.tensor<64x256xf8E4M3FN, block<1x32>, f8E8M0FNU>

// -----

// FP8 activations beside INT8 weights (N7).
func.func @n7_codes(%x: !q.tensor<?x256xf8E4M3FN, per_token, f32>, %b: !model.batch) {
  %w = q.weight @w : !q.tensor<64x256xi8, per_channel, f32>
  // expected-error @+1 {{'model.linear' op input is '!q.tensor<?x256xf8E4M3FN, per_token, f32>', the contract is}}
  %y = model.linear %x, %w {contract = #q.contract<weight = per_channel, codes = i8, scale = f32, activation = per_token>, module = "a.b"} : !q.tensor<?x256xf8E4M3FN, per_token, f32>, !q.tensor<64x256xi8, per_channel, f32> -> tensor<?x64xbf16>
  return
}
q.slot @w[1] : !q.tensor<64x256xi8, per_channel, f32>
