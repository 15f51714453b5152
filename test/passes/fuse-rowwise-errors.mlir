// RUN: octet-opt %s -octet-fuse-rowwise -split-input-file -verify-diagnostics

func.func @p3_dynamic_per_tensor(%x: tensor<4x64xbf16>, %b: !model.batch) -> !q.tensor<4x64xf8E4M3FN, per_tensor, f32> {
  // expected-error @+1 {{one dynamic scale for all tokens would make a row depend on the others; expected per_token, block<1xK> or a static scale [P3, B5]}}
  %q = q.quantize %x : tensor<4x64xbf16> -> !q.tensor<4x64xf8E4M3FN, per_tensor, f32>
  return %q : !q.tensor<4x64xf8E4M3FN, per_tensor, f32>
}

// -----

func.func @n6_dequantize(%x: !q.tensor<?x64xf8E4M3FN, per_token, f32>, %b: !model.batch) -> tensor<?x64xbf16> {
  // expected-error @+1 {{dequantising an activation has no row kernel; products read codes [N6]}}
  %y = q.dequantize %x : !q.tensor<?x64xf8E4M3FN, per_token, f32> -> tensor<?x64xbf16>
  return %y : tensor<?x64xbf16>
}
